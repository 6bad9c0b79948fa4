"""Parts as rows of a listing, in the form checkpoints give them: replay, pruning and output are one piece of code.

The core of a part comes whole in one request and is checked as a whole before its first row goes out. Of the stats
file come only the columns that are asked for: whole if it is small, else its end and the ranges of their chunks, of
which the end has the checksums.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptIndexError, StorageError
from delta_sidecar.index.columns import KINDS, NUM_RECORDS, STATS_JSON, TIGHT_BOUNDS, descendant, whole
from delta_sidecar.index.entries import FileEntry, PartEntry
from delta_sidecar.index.layout import Layout, Path
from delta_sidecar.index.partition_map import partition_map
from delta_sidecar.index.parts import MAPS, guarded, leaf_arrays, nested, read_checked
from delta_sidecar.index.rows import PARTITION
from delta_sidecar.index.seals import chunk_checksums, chunk_ranges, end_length
from delta_sidecar.log.file_rows import STATS_PARSED, TYPED_PARTITION, FileColumns, normal
from delta_sidecar.storage.ranges import coalesce
from delta_sidecar.storage.store import Buffer, ByteRange, Store

T = TypeVar("T")

WHOLE_STATS: Final = 1 << 20
"""A stats file up to this size comes whole: one trip instead of two."""
_RENAMED: Final = {"deletion_vector": "dv", "stats": STATS_JSON}


class PartFile:
    """A Parquet file of a part, or the chunks of it that are needed. Its row groups may be read by several threads."""

    def __init__(self, source: Callable[[], Any], name: str, metadata: pq.FileMetaData = None) -> None:
        """`source` gives a file to read from, a new one each time; without `metadata` its end is read, too."""
        self._source = source
        self._name = name
        self._idle: list[Any] = []
        self.metadata: pq.FileMetaData = metadata
        with guarded(name):
            reader = self._open()
            self.metadata = reader.metadata
            self.schema: pa.Schema = reader.schema_arrow
            self.leaves: dict[Path, list[int]] = _leaf_positions(self.schema)
            """The positions of leaf columns by their path; a map's two stand together."""
            if sum(map(len, self.leaves.values())) != self.metadata.num_columns:
                raise ValueError("its columns and its schema do not agree")
        self._idle.append(reader)

    @classmethod
    def of(cls, data: Buffer, name: str) -> PartFile:
        """A whole file that has been checked."""
        buffer = pa.py_buffer(data)
        return cls(lambda: pa.BufferReader(buffer), name)

    @cached_property
    def group_rows(self) -> list[int]:
        return [self.metadata.row_group(i).num_rows for i in range(self.metadata.num_row_groups)]

    def positions(self, paths: Sequence[Path]) -> list[int]:
        """The positions of all leaves at or below some paths, ascending."""
        wanted = set(paths)
        return sorted(
            at
            for path, found in self.leaves.items()
            if any(path[:n] in wanted for n in range(1, len(path) + 1))
            for at in found
        )

    def read(self, groups: Sequence[int], positions: Sequence[int]) -> pa.Table:
        """Some leaves of some row groups."""
        with guarded(self._name), self._reader() as reader:
            return reader.read_row_groups(list(groups), column_indices=list(positions), use_threads=False)

    def batches(self, positions: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some leaves of all row groups, in order."""
        groups = list(range(self.metadata.num_row_groups))
        with self._reader() as reader:
            found = reader.iter_batches(
                batch_rows, row_groups=groups, column_indices=list(positions), use_threads=False
            )
            while True:
                with guarded(self._name):
                    batch = next(found, None)
                if batch is None:
                    return
                yield batch

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        """A reader that no other thread has: opening another costs no second look at the footer."""
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
    found: dict[Path, list[int]] = {}
    for position, path in enumerate(path for field in schema for path in _leaf_paths(field, ())):
        found.setdefault(path, []).append(position)
    return found


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


# What is fetched.


def fetch_core(store: Store, directory: str, part: PartEntry) -> PartFile:
    """The core of a part, whole and checked."""
    path = f"{directory}/{part.core_name}"
    file = PartFile.of(_fetch_whole(store, path, part.core), path)
    if sum(file.group_rows) != part.rows or ("path",) not in file.leaves:
        raise CorruptIndexError(f"{path} does not hold the {part.rows} rows its manifest says; build the index again")
    return file


def fetch_stats(
    store: Store, directory: str, part: PartEntry, paths: Sequence[Path], go_on: Callable[[], bool] = lambda: True
) -> PartFile:
    """The stats file of a part, or the chunks of some of its columns; between two trips it asks whether to go on."""
    assert part.stats is not None
    path = f"{directory}/{part.stats_name}"
    if part.stats.size <= WHOLE_STATS:
        file = PartFile.of(_fetch_whole(store, path, part.stats), path)
    else:
        file = _fetch_chunks(store, path, part.stats, paths, go_on)
    if sum(file.group_rows) != part.rows:
        raise CorruptIndexError(f"{path} does not hold the {part.rows} rows its manifest says; build the index again")
    return file


def _fetch_whole(store: Store, path: str, entry: FileEntry) -> Buffer:
    """A file of a part; whatever keeps it from coming is a reason to go on without the index."""
    try:
        return read_checked(store, path, entry)
    except StorageError as error:
        raise CorruptIndexError(
            f"{path} cannot be fetched ({error}); check the store, or build the index again"
        ) from None


def _fetch_chunks(
    store: Store, path: str, entry: FileEntry, paths: Sequence[Path], go_on: Callable[[], bool]
) -> PartFile:
    length = min(entry.size, end_length(entry.footer))
    held: dict[int, Buffer] = {}
    try:
        end = held[entry.size - length] = store.get_range(path, entry.size - length, length)
        if zlib.crc32(memoryview(end)[-entry.footer - 8 :]) != entry.footer_crc32:
            raise CorruptIndexError(f"{path} is damaged: the checksum of its footer does not agree; build it again")
        with guarded(path):
            metadata = pq.read_metadata(pa.BufferReader(end))
        checksums = chunk_checksums(end, metadata)
        if checksums is None:
            return PartFile.of(_fetch_whole(store, path, entry), path)
        # Without the metadata Arrow would ask for the last 64 KB of the file, which are not here.
        file = PartFile(lambda: pa.PythonFile(_Chunks(held, entry.size), mode="r"), path, metadata)
        if go_on():
            chunks = _wanted_chunks(file, paths, checksums)
            ranges = coalesce([wanted for wanted, _ in chunks], gap=0)
            held |= {r.start: data for r, data in zip(ranges, store.get_ranges(path, ranges), strict=True)}
            _check_chunks(_Chunks(held, entry.size), chunks, path)
    except StorageError as error:
        raise CorruptIndexError(
            f"{path} cannot be fetched ({error}); check the store, or build the index again"
        ) from None
    return file


def _wanted_chunks(file: PartFile, paths: Sequence[Path], checksums: Sequence[int]) -> list[tuple[ByteRange, int]]:
    """Where the chunks of some columns lie, each with its checksum."""
    positions, columns = file.positions(paths), file.metadata.num_columns
    with guarded("the footer"):
        known = list(zip(chunk_ranges(file.metadata), checksums, strict=True))
    return [known[group * columns + at] for group in range(file.metadata.num_row_groups) for at in positions]


def _check_chunks(file: _Chunks, chunks: Sequence[tuple[ByteRange, int]], path: str) -> None:
    for wanted, checksum in chunks:
        file.seek(wanted.start)
        with guarded(path):
            if zlib.crc32(file.read(wanted.length)) != checksum:
                raise ValueError("the checksum of a column does not agree")


class _Chunks:
    """A file of which only some ranges are there."""

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
        for start, data in self._held.items():
            if start <= self._at and end <= start + len(data):
                found = memoryview(data)[self._at - start : end - start]
                self._at = end
                return found
        raise OSError(f"bytes {self._at} to {end} were not fetched")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


# Rows.


@dataclass(frozen=True, slots=True)
class StatsColumns:
    """Which stats are wanted, by physical path of their columns; all of them where `everything`."""

    paths: tuple[Path, ...]
    everything: bool = False

    def in_stats(self, layout: Layout) -> list[Path]:
        """The columns of the stats file: the time column's bounds stand in the core."""
        if self.everything:
            return [(kind,) for kind in (*KINDS, STATS_JSON)]
        time = None if layout.time is None else layout.time.path
        bounds = [(kind, *path) for path in self.paths for kind in ("min", "max") if path != time]
        return [*bounds, *(("null_count", *path) for path in self.paths), (STATS_JSON,)]

    def needs_stats(self, layout: Layout) -> bool:
        """Whether anything but the core must be read: a bound of another column than the time column."""
        return self.everything or any(layout.time is None or path != layout.time.path for path in self.paths)


class PartRows:
    """Rows of one part as a listing has them."""

    def __init__(self, core: PartFile, part: PartEntry, columns: FileColumns, layout: Layout) -> None:
        self._core = core
        self._part = part
        self._layout = layout
        self._columns = columns
        self._has_stats = "stats" in columns.names
        self._stats = StatsColumns(columns.stats_paths, columns.all_stats)
        self._positions = core.positions(self._core_paths())
        self.group_rows = core.group_rows
        self._offsets = [0, *accumulate(self.group_rows)]

    def _core_paths(self) -> list[Path]:
        paths: list[Path] = [(_RENAMED.get(name, name),) for name in self._columns.names]
        if MAPS in self._columns.names and ((MAPS,) not in self._core.leaves or self._columns.typed_partition):
            paths.append((PARTITION,))
        if not self._has_stats:
            return paths
        paths += [(NUM_RECORDS,), (TIGHT_BOUNDS,)]
        time = self._layout.time
        if time is not None and (self._stats.everything or time.path in self._stats.paths):
            paths += [("time_min",), ("time_max",)]
        if self._part.stats is None:
            paths += self._stats.in_stats(self._layout)
        return paths

    def span(self, group: int) -> slice:
        """Where the rows of a row group stand among those of the part."""
        return slice(self._offsets[group], self._offsets[group + 1])

    def path_range(self, group: int) -> tuple[bytes, bytes] | None:
        """The least and the greatest path of a row group; None where unknown, or where paths have other spellings."""
        if self._part.path is None:
            return None
        chunk = self._core.metadata.row_group(group).column(self._core.leaves["path",][0])
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_min_max:
            return None
        return bytes(statistics.min_raw), bytes(statistics.max_raw)

    def core(self, group: int) -> pa.RecordBatch:
        """What is needed of the core, for the rows of a row group."""
        table = self._core.read([group], self._positions)
        core = pa.RecordBatch.from_arrays(list(map(whole, table.columns)), schema=table.schema)
        if core.num_rows != self.group_rows[group]:
            raise CorruptIndexError(f"{self._part.core_name} has row groups that are not whole; build the index again")
        if core.column("path").null_count:
            raise CorruptIndexError(f"{self._part.core_name} has rows without a path; build the index again")
        return core

    def keys(self, core: pa.RecordBatch) -> tuple[pa.StringArray, pa.StructArray]:
        """Path and deletion vector of rows of the core."""
        vectors = core.column("dv") if "dv" in core.schema.names else None
        with guarded(self._part.core_name):
            path = normal(core.column("path"), "path", core.num_rows)
            return path, normal(vectors, "deletion_vector", core.num_rows)

    def listed(self, core: pa.RecordBatch, stats: pa.Table | None = None) -> pa.RecordBatch:
        """Rows of the core, and of the stats file where it was read, as a listing has them."""
        found = dict(zip(core.schema.names, core.columns, strict=True))
        if stats is not None:
            found |= {name: whole(stats.column(name)) for name in stats.column_names}
        with guarded(self._part.core_name):
            return self._rows(found, core.num_rows)

    def _rows(self, found: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        names = list(self._columns.names)
        if MAPS in names and MAPS not in found:
            found[MAPS] = partition_map(_fields(found.get(PARTITION)), count)
        columns = [normal(found.get(_RENAMED.get(name, name)), name, count) for name in names]
        if self._columns.typed_partition and PARTITION in found:
            typed = _fields(found[PARTITION])
            if not any(array.null_count for array in typed.values()):
                names.append(TYPED_PARTITION)
                columns.append(nested({(name,): array for name, array in typed.items()}))
        if self._has_stats:
            names.append(STATS_PARSED)
            columns.append(parsed_stats(found, self._layout, count))
        return pa.RecordBatch.from_arrays(columns, names=names)


def read_keys(store: Store, directory: str, part: PartEntry) -> pa.RecordBatch:
    """As `part_keys`, for builders: what the store has to say is not taken for a broken index."""
    path = f"{directory}/{part.core_name}"
    return part_keys(PartFile.of(read_checked(store, path, part.core), path))


def part_keys(core: PartFile) -> pa.RecordBatch:
    """`path` and `deletion_vector` of a part's rows: what replay needs."""
    found = core.read(range(len(core.group_rows)), core.positions([("path",), ("dv",)]))
    vectors = whole(found.column("dv")) if "dv" in found.column_names else None
    columns = [whole(found.column("path")), normal(vectors, "deletion_vector", found.num_rows)]
    return pa.RecordBatch.from_arrays(columns, names=["path", "deletion_vector"])


def _fields(struct: pa.StructArray | None) -> dict[str, pa.Array]:
    return {} if struct is None else {field.name: struct.field(i) for i, field in enumerate(struct.type)}


def parsed_stats(found: Mapping[str, pa.Array], layout: Layout, count: int) -> pa.StructArray:
    """Columns of core and stats as the one struct that a checkpoint's typed stats are."""
    leaves: dict[Path, pa.Array] = {}
    for kind, key in KINDS.items():
        if kind in found:
            leaves |= {(key, *path): leaf for path, leaf in leaf_arrays(found[kind], ())}
    if layout.time is not None:
        for name, kind in (("time_min", "min"), ("time_max", "max")):
            if name in found:
                leaves[KINDS[kind], *layout.time.path] = found[name]
    for name, key in ((NUM_RECORDS, "numRecords"), (TIGHT_BOUNDS, "tightBounds")):
        if name in found:
            leaves[(key,)] = found[name]
    if not leaves:
        leaves[("numRecords",)] = arrays.nulls(count, pa.int64())
    return nested(leaves)


def bounds_only(stats: pa.Table, layout: Layout) -> pa.RecordBatch:
    """Rows of a stats file alone, to be pruned by: what only the core tells is unknown."""
    found = {name: whole(stats.column(name)) for name in stats.column_names}
    texts = found.get(STATS_JSON)
    names = [STATS_PARSED] if texts is None else [STATS_PARSED, "stats"]
    columns = [parsed_stats(found, layout, stats.num_rows)] + ([] if texts is None else [texts])
    return pa.RecordBatch.from_arrays(columns, names=names)


def are_known(stats: pa.Table, paths: Sequence[Path]) -> bool:
    """Whether both bounds of some columns are known in every row."""
    trees = [whole(stats.column(kind)) if kind in stats.column_names else None for kind in ("min", "max")]
    leaves = [None if tree is None else descendant(tree, path) for tree in trees for path in paths]
    return all(leaf is not None and not leaf.null_count for leaf in leaves)
