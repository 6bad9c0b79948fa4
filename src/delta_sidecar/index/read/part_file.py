"""The files of a part. The core is fetched whole in one request and checked before its first row is returned.

A small stats file is also fetched whole. Of a larger one only the requested columns are fetched: first its end, which
has the checksums of all chunks, then the chunks. A local core is read in the same way if few row groups are needed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptIndexError, StorageError
from delta_sidecar.index.format.index_layout import Path
from delta_sidecar.index.format.part_entries import FileEntry, PartEntry
from delta_sidecar.index.format.part_format import guarded, read_checked
from delta_sidecar.index.format.seals import chunk_checksums, chunk_ranges, end_length, footer_crc32
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.ranged_file import ReadOnlyFile
from delta_sidecar.storage.ranges import coalesce
from delta_sidecar.storage.store import Buffer, ByteRange, Store


class PartFile:
    """A Parquet file of a part, or the chunks of it that are needed. Its row groups may be read by several threads."""

    def __init__(self, source: Callable[[], Any], name: str, metadata: pq.FileMetaData = None) -> None:
        """`source` opens the file for one reader; without `metadata`, the footer is read from it."""
        self._source = source
        self.name = name
        self._idle: list[Any] = []
        self.metadata: pq.FileMetaData = metadata
        with guarded(name):
            reader = self._open()
            self.metadata = reader.metadata
            self.schema: pa.Schema = reader.schema_arrow
            self.leaves: dict[Path, list[int]] = _leaf_positions(self.schema)
            """The positions of leaf columns by their path; a map has two, next to each other."""
            if sum(map(len, self.leaves.values())) != self.metadata.num_columns:
                raise ValueError("its columns do not match its schema")
        self._idle.append(reader)

    @classmethod
    def of(cls, data: Buffer, name: str) -> PartFile:
        """A whole file that has been checked."""
        buffer = pa.py_buffer(data)
        return cls(lambda: pa.BufferReader(buffer), name)

    def through(self, store: Store) -> PartFile:
        """The same file for a reader with another store; missing bytes are fetched through that store."""
        return self

    @cached_property
    def group_rows(self) -> list[int]:
        return [self.metadata.row_group(i).num_rows for i in range(self.metadata.num_row_groups)]

    def positions(self, paths: Sequence[Path]) -> list[int]:
        """The positions of all leaves at or below some paths, ascending."""
        wanted = set(paths)
        return sorted(
            at
            for path, positions in self.leaves.items()
            if any(path[:n] in wanted for n in range(1, len(path) + 1))
            for at in positions
        )

    def read(self, groups: Sequence[int], positions: Sequence[int]) -> pa.Table:
        """Some leaves of some row groups."""
        with guarded(self.name), self._reader() as reader:
            return reader.read_row_groups(list(groups), column_indices=list(positions), use_threads=False)

    def batches(self, positions: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some leaves of all row groups, in order."""
        groups = list(range(self.metadata.num_row_groups))
        with self._reader() as reader:
            batches = reader.iter_batches(
                batch_rows, row_groups=groups, column_indices=list(positions), use_threads=False
            )
            while True:
                with guarded(self.name):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        """A reader for this thread alone; opening another one does not read the footer again."""
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = self._open()
        yield reader
        self._idle.append(reader)

    def _open(self) -> Any:
        reader = pq.core.ParquetReader(arrays.streaming_pool())
        reader.open(self._source(), use_memory_map=False, pre_buffer=False, metadata=self.metadata)
        return reader


def _leaf_positions(schema: pa.Schema) -> dict[Path, list[int]]:
    positions: dict[Path, list[int]] = {}
    for position, path in enumerate(path for field in schema for path in _leaf_paths(field, ())):
        positions.setdefault(path, []).append(position)
    return positions


def _leaf_paths(field: pa.Field, above: Path) -> Iterator[Path]:
    path = (*above, field.name)
    if pa.types.is_struct(field.type):
        for child in field.type:
            yield from _leaf_paths(child, path)
    elif pa.types.is_map(field.type):
        yield path
        yield path
    else:
        yield path


class RangedPartFile(PartFile):
    """A file of a part whose chunks are fetched when needed; each is checked by its own checksum."""

    def __init__(
        self, store: Store, path: str, size: int, end: Buffer, metadata: pq.FileMetaData, checksums: Sequence[int]
    ) -> None:
        """`end` holds the footer; the checksums are those of all chunks."""
        self._store = store
        self._size = size
        with guarded(path):
            self._chunks = list(zip(chunk_ranges(metadata), checksums, strict=True))
        held: dict[int, Buffer] = {size - len(end): end}
        self._held = held
        self._fetched: set[int] = set()
        # Without the metadata Arrow would ask for the last 64 KB of the file, which are not here.
        super().__init__(lambda: pa.PythonFile(_Chunks(held, size), mode="r"), path, metadata)

    def through(self, store: Store) -> PartFile:
        other = copy(self)
        other._store = store
        return other

    def fetch(self, groups: Sequence[int], positions: Sequence[int]) -> None:
        """Fetch the missing chunks of some leaves of some row groups."""
        numbers = [group * self.metadata.num_columns + at for group in groups for at in positions]
        missing = [at for at in numbers if at not in self._fetched]
        if not missing:
            return
        ranges = coalesce([self._chunks[at][0] for at in missing], gap=0)
        with _as_broken(self.name):
            answers = self._store.get_ranges(self.name, ranges)
        file = _Chunks({r.start: data for r, data in zip(ranges, answers, strict=True)}, self._size)
        # Chunk by chunk: what another thread fetches meanwhile may begin at the same place and be shorter or longer.
        chunks = [self._chunks[at] for at in missing]
        self._held |= {place.start: _checked(file, place, checksum, self.name) for place, checksum in chunks}
        self._fetched.update(missing)

    def read(self, groups: Sequence[int], positions: Sequence[int]) -> pa.Table:
        self.fetch(groups, positions)
        return super().read(groups, positions)


def fetch_core(store: Store, directory: str, part: PartEntry, whole: int | None = None) -> PartFile:
    """The core of a part, whole and checked. If it has more than `whole` bytes, only its end is fetched, and the rest
    when it is read."""
    path = f"{directory}/{part.core_name}"
    ranged = _fetch_end(store, path, part.core) if whole is not None and part.core.size > whole else None
    file = ranged or PartFile.of(_fetch_whole(store, path, part.core), path)
    is_as_said = (len(file.group_rows), sum(file.group_rows)) == (part.row_groups, part.rows)
    if not is_as_said or ("path",) not in file.leaves:
        raise CorruptIndexError(
            f"{path} does not hold the {part.rows} rows in {part.row_groups} row groups that its manifest says; "
            "build the index again with `sidecar build --full`"
        )
    return file


def fetch_stats(
    store: Store,
    directory: str,
    part: PartEntry,
    paths: Sequence[Path],
    whole: int,
    go_on: Callable[[], bool] = lambda: True,
) -> PartFile:
    """The stats file of a part; or, if it has more than `whole` bytes, the chunks of some of its columns: between its
    two trips it asks whether to go on."""
    assert part.stats is not None
    path = f"{directory}/{part.stats_name}"
    ranged = _fetch_end(store, path, part.stats) if part.stats.size > whole else None
    if ranged is not None and go_on():
        ranged.fetch(range(ranged.metadata.num_row_groups), ranged.positions(paths))
    file = ranged or PartFile.of(_fetch_whole(store, path, part.stats), path)
    if sum(file.group_rows) != part.rows:
        raise CorruptIndexError(
            f"{path} does not hold the {part.rows} rows that its manifest says; "
            "build the index again with `sidecar build --full`"
        )
    return file


def _fetch_whole(store: Store, path: str, entry: FileEntry) -> Buffer:
    with _as_broken(path):
        return read_checked(store, path, entry)


def _fetch_end(store: Store, path: str, entry: FileEntry) -> RangedPartFile | None:
    """The end of a file, checked; None if it has no checksums of its chunks, so it must be read whole."""
    length = min(entry.size, end_length(entry.footer))
    with _as_broken(path):
        end = store.get_range(path, entry.size - length, length)
    if footer_crc32(end, entry.footer) != entry.footer_crc32:
        raise CorruptIndexError(
            f"{path} is damaged: the checksum of its footer does not match; "
            "build the index again with `sidecar build --full`"
        )
    with guarded(path):
        metadata = pq.read_metadata(pa.BufferReader(end))
    checksums = chunk_checksums(end, metadata)
    return None if checksums is None else RangedPartFile(store, path, entry.size, end, metadata, checksums)


@contextmanager
def _as_broken(path: str) -> Iterator[None]:
    """Turn a storage error into `CorruptIndexError`, so that the reader falls back."""
    try:
        yield
    except StorageError as error:
        raise CorruptIndexError(
            f"{path} cannot be fetched ({error}); check the store, or build the index again"
        ) from None


def _checked(file: _Chunks, place: ByteRange, checksum: int, path: str) -> memoryview:
    """A chunk, checked by its checksum."""
    with guarded(path):
        file.seek(place.start)
        chunk = file.read(place.length)
        if zlib.crc32(chunk) != checksum:
            raise ValueError("the checksum of a column does not match")
        return chunk


class _Chunks(ReadOnlyFile):
    """A file of which only some ranges are in memory."""

    def __init__(self, held: Mapping[int, Buffer], size: int) -> None:
        self._held = held
        self._size = size
        self._at = 0
        self.closed = False

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, length: int = -1) -> memoryview:
        end = self._size if length < 0 else min(self._at + length, self._size)
        # Another thread may add to them.
        for start, data in list(self._held.items()):
            if start <= self._at and end <= start + len(data):
                view = memoryview(data)[self._at - start : end - start]
                self._at = end
                return view
        raise OSError(f"bytes {self._at} to {end} were not fetched")

    def close(self) -> None:
        self.closed = True


def fetch_core_cached(store: Store, directory: str, part: PartEntry, keep: bool, whole: int | None) -> PartFile:
    """The core of a part, from the cache if possible, else by `fetch_core`; `keep` puts it into the cache."""
    key = (part.core_name, part.core, directory, store.identity)
    core: PartFile | None = shared_cache.get(key)
    if core is None:
        core = fetch_core(store, directory, part, whole)
        if keep:
            shared_cache.put(key, core, part.core.size)
    return core.through(store)
