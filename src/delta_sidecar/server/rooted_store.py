"""Stores that do not lead out of the roots: neither by a symlink, nor by an absolute path in a log."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence

from delta_sidecar.errors import AccessDeniedError, NotOfferedError
from delta_sidecar.storage.store import Buffer, ByteRange, ObjectMeta, Store
from delta_sidecar.storage.uri import Location


def is_below(path: str, directories: Sequence[str]) -> bool:
    """Whether a real path is one of these directories, or below one."""
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in directories)


class _ReadOnly:
    """What no client of a server may do."""

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        raise NotOfferedError("the server only reads")

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        raise NotOfferedError("the server only reads")

    def delete(self, path: str) -> None:
        raise NotOfferedError("the server only reads")


class RootedStore(_ReadOnly):
    """A local directory. Whatever is opened in it must be below the roots, once symlinks are followed."""

    def __init__(self, inner: Store, directory: str, roots: Sequence[str]) -> None:
        """`roots` are real paths."""
        self._inner = inner
        self._directory = directory.rstrip("/")
        self._roots = roots

    @property
    def root_uri(self) -> str:
        return self._inner.root_uri

    @property
    def identity(self) -> Hashable:
        """With the roots: what is kept of a table for one caller may have been read where another may not."""
        return self._inner.identity, tuple(self._roots)

    def _checked(self, path: str) -> str:
        if not is_below(os.path.realpath(f"{self._directory}/{path}"), self._roots):
            raise AccessDeniedError(
                f"{path!r} leads out of the roots of this server, by .. or a symlink; it is not read"
            )
        return path

    def local_path(self, path: str) -> str | None:
        return self._inner.local_path(self._checked(path))

    def get(self, path: str) -> Buffer:
        return self._inner.get(self._checked(path))

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        return self._inner.get_stream(self._checked(path), chunk_size, start)

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        return self._inner.get_range(self._checked(path), start, length)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        return self._inner.get_ranges(self._checked(path), ranges)

    def head(self, path: str) -> ObjectMeta:
        return self._inner.head(self._checked(path))

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        self._checked(prefix.rpartition("/")[0])
        return self._inner.list_after(prefix, offset, before)


class OtherRoots(_ReadOnly):
    """A file system, bucket or container, as far as it lies in the roots: for files that a table has elsewhere."""

    def __init__(self, container: Location, store_of: Callable[[Location], tuple[Store, str] | None]) -> None:
        """`store_of` gives the store of a root and the path in it, or None for a place outside of all."""
        self._container = container
        self._store_of = store_of
        self._identity = object()

    @property
    def root_uri(self) -> str:
        return self._container.uri

    @property
    def identity(self) -> Hashable:
        """One of its own: what one caller may read says nothing of another."""
        return self._identity

    def _at(self, path: str) -> tuple[Store, str]:
        place = self._container.join(path)
        found = self._store_of(place)
        if found is None:
            raise AccessDeniedError(
                f"the log names {place.text!r}, outside the roots of this server; it is not read. Serve that place as "
                "a root, too, or read the table where it can be reached"
            )
        return found

    def local_path(self, path: str) -> str | None:
        if path == ".":
            return None
        store, below = self._at(path)
        return store.local_path(below)

    def get(self, path: str) -> Buffer:
        store, below = self._at(path)
        return store.get(below)

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        store, below = self._at(path)
        return store.get_stream(below, chunk_size, start)

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        store, below = self._at(path)
        return store.get_range(below, start, length)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        store, below = self._at(path)
        return store.get_ranges(below, ranges)

    def head(self, path: str) -> ObjectMeta:
        store, below = self._at(path)
        return store.head(below)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        raise NotOfferedError("files outside of a table are not listed")
