"""A directory as a store.

Not on obstore: its local store hides names that end in `#<digits>`, refuses a directory that is not there yet,
lists in no order, and reports no short read. Plain system calls do all that in less time.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from operator import itemgetter

import numpy as np

from delta_sidecar.errors import (
    AccessDeniedError,
    InputError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
)
from delta_sidecar.storage.store import LIST_PAGE, Buffer, ByteRange, ObjectMeta
from delta_sidecar.storage.uri import Location

_LARGE = 256 << 10


class LocalStore:
    """Files below a directory, which need not exist; reading never creates it."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._root = location.path

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    @property
    def root_uri(self) -> str:
        return self._location.uri

    @property
    def identity(self) -> Hashable:
        return "file", self._root

    def local_path(self, path: str) -> str | None:
        return self._full(path)

    def get(self, path: str) -> Buffer:
        with self._errors(path), open(self._full(path), "rb", buffering=0) as file:
            return _read_exactly(file.fileno(), 0, os.fstat(file.fileno()).st_size, path)

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        with self._errors(path), open(self._full(path), "rb", buffering=0) as file:
            file.seek(start)
            # Asked for more than there is, Python makes room for all of it first.
            while chunk := file.read(min(chunk_size, max(1, os.fstat(file.fileno()).st_size - file.tell()))):
                yield chunk

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        with self._errors(path), open(self._full(path), "rb", buffering=0) as file:
            return _read_exactly(file.fileno(), start, length, path)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        with self._errors(path), open(self._full(path), "rb", buffering=0) as file:
            return [_read_exactly(file.fileno(), r.start, r.length, path) for r in ranges]

    def head(self, path: str) -> ObjectMeta:
        with self._errors(path):
            stat = os.stat(self._full(path))
        if os.path.isdir(self._full(path)):
            raise ObjectNotFoundError(f"{self._full(path)} is a directory, not an object")
        return _meta(path, stat)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        directory = prefix.rpartition("/")[0]
        with self._errors(prefix):
            metas = self._walk(f"{directory}/" if directory else "", prefix, offset, before)
            while page := list(islice(metas, LIST_PAGE)):
                yield page

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        """Written beside its place, then linked into it: a reader sees all of it or nothing."""
        with self._drafted(path, data) as draft:
            os.link(draft, self._full(path))
        return self.head(path)

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        """Moved into its place in one step; who compares first holds a lock on the directory."""
        with self._drafted(path, data) as draft, locked(os.path.dirname(draft)):
            if expected is not None:
                self._check_same(path, expected)
            os.replace(draft, self._full(path))
        return self.head(path)

    @contextmanager
    def _drafted(self, path: str, data: Buffer) -> Iterator[str]:
        """A file with the data, beside its place, gone after the block."""
        directory = os.path.dirname(self._full(path))
        draft = f"{directory}/.{os.urandom(16).hex()}.tmp"
        with self._errors(path):
            os.makedirs(directory, exist_ok=True)
            try:
                _write(draft, data)
                yield draft
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(draft)

    def _check_same(self, path: str, expected: str) -> None:
        try:
            same = self.head(path).etag == expected
        except ObjectNotFoundError:
            same = False
        if not same:
            raise ObjectChangedError(f"{self._full(path)} is no longer the file that should be replaced")

    def delete(self, path: str) -> None:
        with self._errors(path), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._full(path))

    def _full(self, path: str) -> str:
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise InputError(f"path {path!r} is not below {self.root_uri}")
        return f"{self._root.rstrip('/')}/{path}"

    def _walk(self, below: str, prefix: str, offset: str, before: str) -> Iterator[ObjectMeta]:
        """The wanted objects below a directory, in path order; each is looked at only when its turn comes."""
        for name, entry in sorted(self._entries(below, prefix, offset), key=itemgetter(0)):
            if before and name >= before:
                return
            if name.endswith("/"):
                yield from self._walk(name, prefix, offset, before)
            else:
                with suppress(FileNotFoundError):
                    yield _meta(name, entry.stat())

    def _entries(self, below: str, prefix: str, offset: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The entries of a directory that are wanted or may hold what is; a directory's name ends in `/`, which
        puts its files in path order."""
        try:
            with os.scandir(f"{self._root}/{below}") as entries:
                for entry in entries:
                    name = f"{below}{entry.name}/" if entry.is_dir() else below + entry.name
                    if (name > offset and name.startswith(prefix)) or (
                        name[-1] == "/" and _holds(name, prefix, offset)
                    ):
                        yield name, entry
        except (FileNotFoundError, NotADirectoryError):
            return

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        place = f"{self._root.rstrip('/')}/{path}"
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as e:
            raise ObjectNotFoundError(f"{place} does not exist") from e
        except FileExistsError as e:
            raise ObjectExistsError(f"{place} exists already") from e
        except PermissionError as e:
            raise AccessDeniedError(f"{place} cannot be read or written: {e.strerror}; check its permissions") from e
        except OSError as e:
            raise StorageError(f"{place}: {e.strerror or e}") from e


def _holds(directory: str, prefix: str, offset: str) -> bool:
    """Whether a directory may hold wanted objects."""
    related = directory.startswith(prefix) or prefix.startswith(directory)
    return related and (directory > offset or offset.startswith(directory))


def _read_exactly(descriptor: int, start: int, length: int, path: str) -> Buffer:
    if length >= _LARGE:
        return _read_large(descriptor, start, length, path)
    data = os.pread(descriptor, length, start)
    if len(data) == length:
        return data
    parts = [data]
    missing = length - len(data)
    while missing and (data := os.pread(descriptor, missing, start + length - missing)):
        parts.append(data)
        missing -= len(data)
    if missing:
        raise StorageError(f"{path} ends before byte {start + length}; it changed or was truncated")
    return b"".join(parts)


def _read_large(descriptor: int, start: int, length: int, path: str) -> memoryview:
    """Into memory of its own, used again once nothing refers to it: fresh pages cost more than the reading, and what an
    allocator keeps for the next time, it keeps for every thread that reads."""
    memory = _spare_memory(length)
    owner = np.frombuffer(memory, np.uint8, count=length)
    # Views of views refer to the array, so that it goes after all of them.
    weakref.finalize(owner, _spare_again, memory).atexit = False
    view = memoryview(memory)[:length]
    done = 0
    while done < length:
        count = os.preadv(descriptor, [view[done:]], start + done)
        if not count:
            raise StorageError(f"{path} ends before byte {start + length}; it changed or was truncated")
        done += count
    return memoryview(owner).toreadonly()  # type: ignore[arg-type]


def _spare_memory(length: int) -> mmap.mmap:
    for memory in list(_spare):
        if length <= len(memory) <= 2 * length:
            with suppress(ValueError):  # another thread was faster
                _spare.remove(memory)
                return memory
    return mmap.mmap(-1, -(-length // _LARGE) * _LARGE)


def _spare_again(memory: mmap.mmap) -> None:
    if len(_spare) < _MOST_SPARE:
        _spare.append(memory)


_spare: list[mmap.mmap] = []
_MOST_SPARE = 3


@contextmanager
def locked(directory: str | os.PathLike[str]) -> Iterator[None]:
    """A lock with one holder at a time, among the processes of this machine."""
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: str, data: Buffer) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _meta(path: str, stat: os.stat_result) -> ObjectMeta:
    etag = f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"
    return ObjectMeta(path, stat.st_size, stat.st_mtime_ns // 1_000_000, etag)
