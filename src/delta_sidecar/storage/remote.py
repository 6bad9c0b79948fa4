"""An object store on obstore: S3, Azure, Google Cloud, memory.

One call is one attempt: obstore's own retries are off, and `RetryingStore` holds the one retry policy, so
requests are counted, capped and resumed in one place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import obstore.exceptions

from delta_sidecar.errors import InputError, ObjectChangedError, ObjectNotFoundError, StorageError
from delta_sidecar.storage.failures import beyond_end, broken_body, translated
from delta_sidecar.storage.ranges import DEFAULT_GAP
from delta_sidecar.storage.requests import fetch_ranges
from delta_sidecar.storage.store import LIST_PAGE, Buffer, ByteRange, ObjectMeta
from delta_sidecar.storage.uri import Location

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore import ObjectMeta as Listed
    from obstore.store import ObjectStore

client_numbers = count()
_PART = 8 << 20
_PARTS = 4
"""How many parts of a file are uploaded at once; no more of it is in memory."""


class ObstoreStore:
    """Objects below a location, one attempt a request."""

    def __init__(
        self,
        inner: ObjectStore,
        location: Location,
        ordered: bool = True,
        gap: int = DEFAULT_GAP,
        client_number: int | None = None,
        path: str | None = None,
    ) -> None:
        """`ordered`: the service lists in path order, so that pages can stream. Stores with the same `client_number`
        have one client in common. `path` is where the location lies in `inner`, if not at the location's own path."""
        self._inner = inner
        self._client_number = next(client_numbers) if client_number is None else client_number
        self._location = location
        path = location.path if path is None else path
        self._prefix = f"{path}/" if path else ""
        self._ordered = ordered
        self._gap = gap

    def __repr__(self) -> str:
        return f"ObstoreStore({self.root_uri!r})"

    @property
    def root_uri(self) -> str:
        return self._location.uri

    @property
    def identity(self) -> Hashable:
        return self._client_number, self._location.uri

    @property
    def place(self) -> str | None:
        settings = getattr(self._inner, "config", None)
        if not isinstance(settings, dict):
            return None
        return f"{self.root_uri} {settings.get('endpoint')} {settings.get('account_name')}"

    def local_path(self, path: str) -> str | None:
        return None

    def get(self, path: str) -> Buffer:
        with translated(self._location, path):
            result = obstore.get(self._inner, self._key(path))
            data = memoryview(result.bytes())
        return self._whole(data, result.meta["size"], path)

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        with translated(self._location, path):
            if start and start >= obstore.head(self._inner, self._key(path))["size"]:
                return
            options: GetOptions = {"range": {"offset": start}} if start else {}
            result = obstore.get(self._inner, self._key(path), options=options)
            size = result.meta["size"]
            for chunk in result.stream(min_chunk_size=chunk_size):
                yield memoryview(chunk)
                start += len(chunk)
        if start < size:
            raise broken_body(self._place(path), start, size)

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        if length == 0:
            return b""
        options: GetOptions = {"range": (start, start + length)}
        with translated(self._location, path):
            result: GetResult = obstore.get(self._inner, self._key(path), options=options)
            if result.meta["size"] < start + length:
                raise beyond_end(self._place(path), start + length)
            data = memoryview(result.bytes())
        return self._whole(data, length, path)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        return fetch_ranges(self.get_range, path, ranges, self._gap)

    def head(self, path: str) -> ObjectMeta:
        with translated(self._location, path):
            return self._meta(obstore.head(self._inner, self._key(path)))

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        """obstore's prefixes are whole directories, so the rest of ours is matched here."""
        directory = self._key(prefix).rpartition("/")[0] or None
        after = self._key(offset) if offset else None
        with translated(self._location, prefix):
            for page in self._in_order(obstore.list(self._inner, directory, offset=after, chunk_size=LIST_PAGE)):
                metas = [m for m in page if m.path > offset and m.path.startswith(prefix)]
                if metas := [m for m in metas if not before or m.path < before]:
                    yield metas
                last = page[-1].path
                if (last > prefix and not last.startswith(prefix)) or (before and last >= before):
                    return

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        with translated(self._location, path):
            obstore.put(self._inner, self._key(path), bytes(data), mode="create", use_multipart=False)
        return self.head(path)

    def put_file(self, path: str, file: Path) -> None:
        with translated(self._location, path):
            obstore.put(self._inner, self._key(path), file, chunk_size=_PART, max_concurrency=_PARTS)

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        mode: Any = "overwrite" if expected is None else {"e_tag": self._same(path, expected)}
        with translated(self._location, path):
            try:
                obstore.put(self._inner, self._key(path), bytes(data), mode=mode, use_multipart=False)
            except obstore.exceptions.PreconditionError:
                raise self._changed(path) from None
        return self.head(path)

    def _same(self, path: str, expected: str) -> str:
        """The etag as the store spells it, if it is still the expected one."""
        try:
            with translated(self._location, path):
                etag = obstore.head(self._inner, self._key(path))["e_tag"]
        except ObjectNotFoundError:
            etag = None
        if etag is None or _bare(etag) != expected:
            raise self._changed(path)
        return etag

    def _changed(self, path: str) -> ObjectChangedError:
        return ObjectChangedError(f"{self._place(path)} is no longer the object that should be replaced")

    def delete(self, path: str) -> None:
        try:
            with translated(self._location, path):
                obstore.delete(self._inner, self._key(path))
        except ObjectNotFoundError:
            return

    def _in_order(self, pages: Iterable[Sequence[Listed]]) -> Iterator[list[ObjectMeta]]:
        """Non-empty pages in path order. A service that breaks its promise (hierarchical Azure accounts sort `/`
        before all else) is put right as long as nothing out of order has gone out; then it is an error."""
        metas = ([self._meta(entry) for entry in page] for page in pages if page)
        last = ""
        for page in metas:
            if not self._ordered or not _is_sorted(page):
                page = sorted(chain(page, *metas), key=_path)
            if page[0].path < last:
                raise StorageError(f"{self.root_uri}: the store does not list in path order; no listing can be trusted")
            last = page[-1].path
            yield page

    def _meta(self, entry: Listed) -> ObjectMeta:
        modified = int(entry["last_modified"].timestamp() * 1000)
        return ObjectMeta(self._relative(entry["path"]), entry["size"], modified, _bare(entry["e_tag"]))

    def _relative(self, key: str) -> str:
        return key[len(self._prefix) :]

    def _key(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise InputError(f"path {path!r} is not below {self.root_uri}")
        return self._prefix + path

    def _place(self, path: str) -> str:
        return f"{self.root_uri}/{path}"

    def _whole(self, data: memoryview, expected: int, path: str) -> memoryview:
        if len(data) != expected:
            raise broken_body(self._place(path), len(data), expected)
        return data


def _is_sorted(page: Sequence[ObjectMeta]) -> bool:
    return all(a.path <= b.path for a, b in pairwise(page))


def _path(meta: ObjectMeta) -> str:
    return meta.path


def _bare(etag: str | None) -> str | None:
    """Azure quotes etags in headers, not in listings: compared they must be equal."""
    return etag.removeprefix("W/").strip('"') if etag else None
