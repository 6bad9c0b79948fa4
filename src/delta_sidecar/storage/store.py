"""The contract of an object store, as the reader needs it."""

from __future__ import annotations

import mmap
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

Buffer: TypeAlias = bytes | memoryview
"""Bytes of an object; anything that supports the buffer protocol and `len`."""

LIST_PAGE: Final = 1000
"""Objects of a page of a listing, where there are more."""


class ObjectMeta(Struct, frozen=True):
    """One object of a listing."""

    path: str
    """Relative to the store's root, `/`-separated, decoded."""
    size: int
    last_modified_ms: int
    """Milliseconds since the epoch."""
    etag: str | None = None

    def is_as(self, size: int, modified_ms: int, etag: str | None) -> bool:
        """Whether this is the object that was seen before: same size, and same etag or, where either has none, same
        time."""
        if self.size != size:
            return False
        return self.etag == etag if self.etag and etag else self.last_modified_ms == modified_ms


class ByteRange(Struct, frozen=True):
    """`length` bytes from `start`."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class Store(Protocol):
    """An object store rooted at a table. Paths are relative to the root.

    Every method may be called from several threads at once. Absent objects raise
    `ObjectNotFoundError`; other failures one of the `StorageError` tree, after retries.
    """

    @property
    def root_uri(self) -> str:
        """The canonical URI of the root, without a trailing slash and without secrets."""
        ...

    @property
    def identity(self) -> Hashable:
        """What tells this place from others: equal only if both stores read the same objects, in the same name."""
        ...

    def local_path(self, path: str) -> str | None:
        """The file an object is, where the store is a local directory: the fast way in for pyarrow."""
        ...

    def get(self, path: str) -> Buffer:
        """The whole object, in one request."""
        ...

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        """The object from byte `start` in chunks of about `chunk_size`; closing the iterator stops the transfer."""
        ...

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        """Part of an object; a range beyond the end is an error, never a short answer."""
        ...

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        """Several parts, in the order asked for, near ones coalesced, fetched in parallel."""
        ...

    def head(self, path: str) -> ObjectMeta:
        """Size, time and etag of an object."""
        ...

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        """Objects whose path begins with `prefix` and is greater than `offset` (and less than `before`, if given), in
        path order, a page at a time (recursive: names in subdirectories come too)."""
        ...

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        """Create the object; `ObjectExistsError` if there is one."""
        ...

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        """Replace the object whose etag is `expected`, `ObjectChangedError` if it is another or none;
        with None, create or overwrite whatever is there."""
        ...

    def delete(self, path: str) -> None:
        """Delete the object; an absent one is not an error."""
        ...


@runtime_checkable
class TakesFiles(Protocol):
    """A store that takes the bytes of a file without holding all of them."""

    def put_file(self, path: str, file: Path) -> None:
        """Make an object of a file, in parts if it is large. What is there is replaced, so the name must be one that
        nobody else has."""
        ...


@runtime_checkable
class HasPlace(Protocol):
    """A store whose objects another process can name, too."""

    @property
    def place(self) -> str | None:
        """Where the objects are, with the service that has them: the same text in every process, without secrets. None
        if no other process can reach them."""
        ...


@contextmanager
def mapped(file: Path) -> Iterator[memoryview]:
    """The bytes of a file that is not empty, as the system maps them into memory."""
    with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = memoryview(data)
        try:
            yield view
        finally:
            view.release()


def is_local(store: Store) -> bool:
    """Whether a store is a local directory."""
    return store.local_path(".") is not None
