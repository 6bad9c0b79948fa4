"""A pyarrow file system as a store, for reading the data files of a table through it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import pyarrow as pa
import pyarrow.fs as pa_fs

from delta_sidecar.errors import AccessDeniedError, InputError, ObjectNotFoundError, StorageError
from delta_sidecar.storage.store import Buffer, ByteRange, ObjectMeta


def checked_filesystem(given: object) -> pa_fs.FileSystem:
    """The file system a user gives; what is not pyarrow's is refused."""
    if isinstance(given, pa_fs.FileSystem):
        return given
    raise InputError(
        f"filesystem takes a pyarrow.fs.FileSystem whose root is the table, not a {type(given).__name__}; "
        "wrap an fsspec one as PyFileSystem(FSSpecHandler(…))"
    )


class FilesystemStore:
    """Reads files below the root of a file system; listing and writing are not offered."""

    def __init__(self, filesystem: pa_fs.FileSystem, root_uri: str) -> None:
        self._filesystem = filesystem
        self._root_uri = root_uri

    @property
    def root_uri(self) -> str:
        return self._root_uri

    @property
    def identity(self) -> Hashable:
        return self._root_uri, id(self._filesystem)

    def local_path(self, path: str) -> None:
        return None

    def get(self, path: str) -> Buffer:
        with self._opened(path) as file:
            return memoryview(file.read_buffer())

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        with self._opened(path) as file:
            file.seek(start)
            while chunk := file.read(chunk_size):
                yield chunk

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        return self.get_ranges(path, [ByteRange(start, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        with self._opened(path) as file:
            found = [file.read_at(wanted.length, wanted.start) for wanted in ranges]
        if any(len(data) < wanted.length for data, wanted in zip(found, ranges, strict=True)):
            raise StorageError(f"{path!r} is shorter than the range asked for; restore the file")
        return found

    def head(self, path: str) -> ObjectMeta:
        info = self._filesystem.get_file_info(path)
        if info.type != pa_fs.FileType.File:
            raise ObjectNotFoundError(f"{path!r} is not in the given file system")
        return ObjectMeta(path, info.size, (info.mtime_ns or 0) // 1_000_000)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> NoReturn:
        self._refuse()

    def put_if_absent(self, path: str, data: Buffer) -> NoReturn:
        self._refuse()

    def replace(self, path: str, data: Buffer, expected: str | None) -> NoReturn:
        self._refuse()

    def delete(self, path: str) -> NoReturn:
        self._refuse()

    @contextmanager
    def _opened(self, path: str) -> Iterator[pa.NativeFile]:
        try:
            with self._filesystem.open_input_file(path) as file:
                yield file
        except FileNotFoundError:
            raise ObjectNotFoundError(f"{path!r} is not in the given file system") from None
        except PermissionError:
            raise AccessDeniedError(f"{path!r} may not be read through the given file system") from None
        except OSError as error:
            raise StorageError(f"{path!r} cannot be read through the given file system: {error}") from None

    def _refuse(self) -> NoReturn:
        raise InputError("the given file system is only used to read rows, not to list or write files")
