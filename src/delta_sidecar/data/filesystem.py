"""A store as a pyarrow file system, for reading only."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs as pa_fs

from delta_sidecar.errors import ObjectNotFoundError, OptionError
from delta_sidecar.storage import Store
from delta_sidecar.storage.ranged_file import RangedFile


class StoreHandler(pa_fs.FileSystemHandler):  # type: ignore[misc]
    """Opens the objects of a store for pyarrow; listing and writing are not offered."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreHandler) and other._store.root_uri == self._store.root_uri

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._store.root_uri)

    def get_type_name(self) -> str:
        return "delta-sidecar"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pa_fs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pa_fs.FileInfo:
        try:
            return pa_fs.FileInfo(path, pa_fs.FileType.File, size=self._store.head(path).size)
        except ObjectNotFoundError:
            return pa_fs.FileInfo(path, pa_fs.FileType.NotFound)

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(RangedFile(self._store, path, self._store.head(path).size), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def get_file_info_selector(self, selector: Any) -> NoReturn:
        self._refuse()

    def create_dir(self, path: str, recursive: bool) -> NoReturn:
        self._refuse()

    def delete_dir(self, path: str) -> NoReturn:
        self._refuse()

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> NoReturn:
        self._refuse()

    def delete_root_dir_contents(self) -> NoReturn:
        self._refuse()

    def delete_file(self, path: str) -> NoReturn:
        self._refuse()

    def move(self, src: str, dest: str) -> NoReturn:
        self._refuse()

    def copy_file(self, src: str, dest: str) -> NoReturn:
        self._refuse()

    def open_output_stream(self, path: str, metadata: Any) -> NoReturn:
        self._refuse()

    def open_append_stream(self, path: str, metadata: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OptionError("this file system only opens files of the table for reading")
