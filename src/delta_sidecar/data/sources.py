"""Opening the files of a table: where a path of the log leads, and how its bytes come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import CorruptDataError, ObjectNotFoundError, UnsupportedTypeError
from delta_sidecar.storage.ranged_file import RangedFile
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location, resolve_log_path

StoreOpener: TypeAlias = Callable[[str], Store]
"""Opens a store on the root of another file system, bucket or container, with the table's options."""

SMALL_FILE = 4 << 20
"""Up to here a remote file comes whole, in one request: a footer and its columns would be three."""


class Sources:
    """The stores that a table's files lie in: mostly its own, others where the log has absolute paths."""

    def __init__(self, store: Store, open_other: StoreOpener | None = None) -> None:
        self._store = store
        self._root = parse_location(store.root_uri)
        self._open_other = open_other
        self._others: dict[str, Store] = {}
        self._lock = threading.Lock()

    @property
    def table(self) -> Store:
        return self._store

    def locate(self, log_path: str) -> tuple[Store, str]:
        """The store and the path in it that a path in the log means."""
        location = resolve_log_path(self._root, log_path)
        below = self._root.relative(location)
        if below is not None:
            return self._store, below
        container = location.container_root
        return self._other(container.uri), container.relative(location) or ""

    def _other(self, uri: str) -> Store:
        with self._lock:
            if uri not in self._others:
                self._others[uri] = self._open(uri)
            return self._others[uri]

    def _open(self, uri: str) -> Store:
        if self._open_other is None:
            raise CorruptDataError(f"the table has files in {uri}, outside of {self._store.root_uri}")
        return self._open_other(uri)


@contextmanager
def open_parquet(sources: Sources, log_path: str, size: int) -> Iterator[pq.ParquetFile]:
    """The Parquet file a path in the log means. What is wrong with it is said with its name."""
    with _naming(log_path), _bytes_of(sources, log_path, size) as source:
        yield pq.ParquetFile(
            source, pre_buffer=False, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False
        )


@contextmanager
def _bytes_of(sources: Sources, log_path: str, size: int) -> Iterator[pa.NativeFile | RangedFile]:
    store, path = sources.locate(log_path)
    local = store.local_path(path)
    if local is not None:
        with pa.memory_map(local) as mapped:
            yield mapped
    elif size <= SMALL_FILE:
        yield pa.BufferReader(pa.py_buffer(store.get(path)))
    else:
        with RangedFile(store, path, size) as ranged:
            yield ranged


@contextmanager
def _naming(log_path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ObjectNotFoundError):
        raise CorruptDataError(f"data file {log_path!r} is missing; restore it or repair the table") from None
    except CorruptDataError as error:
        raise CorruptDataError(f"data file {log_path!r}: {error}") from None
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"data file {log_path!r}: {error}; leave it out of `columns`") from None
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedTypeError(f"data file {log_path!r} cannot be decoded: {_first_line(error)}") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        raise CorruptDataError(
            f"data file {log_path!r} is broken or no Parquet file ({_first_line(error)}); restore it or repair the table"
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
