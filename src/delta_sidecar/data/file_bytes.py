"""Open the files of a table: find the location of a path in the log, and fetch its bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import (
    AccessDeniedError,
    CorruptDataError,
    MissingDataError,
    ObjectNotFoundError,
    StorageError,
    StoreUnavailableError,
    UnsupportedTypeError,
)
from delta_sidecar.storage.metered import MeteredStore
from delta_sidecar.storage.parquet_ranges import chunk_range
from delta_sidecar.storage.ranged_file import RangedFile
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location, resolve_log_path

StoreOpener: TypeAlias = Callable[[str], Store]
"""Opens a store on the root of another file system, bucket or container, with the table's options."""


class Sources:
    """The stores that a table's files lie in: mostly its own, others where the log has absolute paths."""

    def __init__(
        self, store: Store, open_other: StoreOpener | None, small_file: int, column_buffer: int | None = None
    ) -> None:
        """Local files are mapped into memory: that is fastest, and counts as memory as far as a file has been read.
        With a `column_buffer` they are read through buffers of that many bytes instead, one for each column."""
        self._store = store
        self.column_buffer = column_buffer
        self._root = parse_location(store.root_uri)
        self._open_other = open_other
        self.small_file = small_file
        """The size in bytes up to which a remote file is fetched whole."""
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
            raise CorruptDataError(f"the table has files in {uri}, outside {self._store.root_uri}")
        return self._open_other(uri)


@dataclass(frozen=True, slots=True)
class OpenParquet:
    """A Parquet file and, where it is remote and large, the file of ranges below it."""

    parquet: pq.ParquetFile
    ranged: RangedFile | None = None
    charge: Callable[[int, int], None] | None = None
    """Counts what is read past the store: of a local file."""

    def announce(self, groups: Sequence[int], leaves: Sequence[int]) -> None:
        """Say which column chunks come next: they are fetched side by side, while others are decoded."""
        if self.ranged is None and self.charge is None:
            return
        row_groups = [self.parquet.metadata.row_group(group) for group in groups]
        ranges = [chunk_range(group.column(leaf)) for group in row_groups for leaf in leaves]
        if self.ranged is not None:
            self.ranged.prepare(ranges, streams=len(leaves))
        elif self.charge is not None:
            self.charge(0, sum(each.length for each in ranges))


def is_cut_short(store: Store, path: str, size: int, error: StorageError) -> bool:
    """Whether a read failed because the object has fewer bytes than the log says."""
    if isinstance(error, AccessDeniedError | StoreUnavailableError | ObjectNotFoundError):
        return False
    return store.head(path).size < size


@contextmanager
def open_parquet(sources: Sources, log_path: str, size: int | None) -> Iterator[OpenParquet]:
    """The Parquet file a path in the log means; its size is asked for if it is None. Errors name the
    file."""
    with naming(log_path), _bytes_of(sources, log_path, size) as source:
        parquet = pq.ParquetFile(
            source,
            pre_buffer=False,
            buffer_size=(sources.column_buffer or 0) if isinstance(source, pa.OSFile) else 0,
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
        )
        charge = _charge(sources, log_path) if isinstance(source, pa.MemoryMappedFile | pa.OSFile) else None
        if charge is not None:
            charge(1, 0)
        yield OpenParquet(parquet, source if isinstance(source, RangedFile) else None, charge)


def _charge(sources: Sources, log_path: str) -> Callable[[int, int], None] | None:
    store, _ = sources.locate(log_path)
    return store.charge if isinstance(store, MeteredStore) else None


@contextmanager
def _bytes_of(sources: Sources, log_path: str, size: int | None) -> Iterator[pa.NativeFile | RangedFile]:
    store, path = sources.locate(log_path)
    local = store.local_path(path)
    if local is not None:
        with pa.memory_map(local) if sources.column_buffer is None else pa.OSFile(local) as opened:
            yield opened
        return
    size = store.head(path).size if size is None else size
    if size <= sources.small_file:
        yield pa.BufferReader(pa.py_buffer(store.get(path)))
    else:
        with _whole_object(store, path, size), RangedFile(store, path, size) as ranged:
            yield ranged


@contextmanager
def _whole_object(store: Store, path: str, size: int) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if not is_cut_short(store, path, size, error):
            raise
        raise CorruptDataError(f"it is shorter than the {size} bytes that the log says; restore it") from None


@contextmanager
def naming(log_path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ObjectNotFoundError):
        raise MissingDataError(
            f"data file {log_path!r} is missing; restore it, or read a newer version if it was vacuumed"
        ) from None
    except PermissionError as error:
        raise AccessDeniedError(f"data file {log_path!r} cannot be read: {error.strerror}") from None
    except CorruptDataError as error:
        raise CorruptDataError(f"data file {log_path!r}: {error}") from None
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"data file {log_path!r}: {error}; leave it out of `columns`") from None
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedTypeError(f"data file {log_path!r} cannot be decoded: {_first_line(error)}") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise CorruptDataError(
            f"data file {log_path!r} is broken or not Parquet ({_first_line(error)}); restore it or repair the table"
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
