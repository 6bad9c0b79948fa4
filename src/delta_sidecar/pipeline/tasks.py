"""What tasks of an index build do, wherever they run: read shares of the log, send rows to ranges, write parts.

No Spark in here: tasks see Arrow batches only. Everything a task needs travels with it; it opens its own store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.index.builder import Placement, part_slices
from delta_sidecar.index.layout import Layout, Leaf
from delta_sidecar.index.manifest import PartEntry
from delta_sidecar.index.parts import PART_ROWS, nested
from delta_sidecar.index.rows import ADD_COLUMNS, SOURCE_COLUMNS, index_rows, joined, sort_key, sorted_rows, whole
from delta_sidecar.index.typing import KINDS, column, nested_type, typed_from_parsed
from delta_sidecar.log.checkpoints import RowGroup, read_groups
from delta_sidecar.log.commits import CommitBytes, file_batches
from delta_sidecar.log.file_rows import STATS_PARSED, FileColumns
from delta_sidecar.log.files import FILE_SCHEMA
from delta_sidecar.log.paths import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.values.comparison import comparable

BATCH_ROWS: Final = 10_000
FILE_COLUMNS: Final = (*ADD_COLUMNS, "stats")
"""What a row brings along through the exchange; typed stats and the number of its range come after."""
RECEIPT: Final = "receipt"


@dataclass(frozen=True)
class Share:
    """What one task reads."""

    groups: tuple[RowGroup, ...] = ()
    commits: tuple[CommitRange, ...] = ()
    rows: pa.RecordBatch | None = None
    """Rows that are at hand: those of a tail that the driver replayed."""


@dataclass(frozen=True)
class Work:
    """One build, as its tasks know it."""

    uri: str
    storage_options: Mapping[str, str] | None = field(repr=False)
    placement: Placement
    layout: Layout
    shares: tuple[Share, ...] = ()
    masked: tuple[bytes, ...] = field(default=(), repr=False)
    """Keys that hide rows of the base."""
    typed: tuple[Leaf, ...] | None = None
    """Leaves that typed stats of the checkpoint have; None where it has none."""
    edges: pa.RecordBatch | None = field(default=None, repr=False)
    """Key and path at which each range but the first begins."""
    stride: int = 1
    """Of so many rows, one is sampled."""

    @property
    def store(self) -> Store:
        return open_store(self.uri, self.storage_options)

    # What `mapInArrow` calls.

    def sampled(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Keys of some rows of the shares that the batches number, and how many rows each share has."""
        columns = self._key_columns
        for share in self._numbered(batches):
            yield from self._sample(self._live(share, columns))

    def sampled_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same of rows that are at hand."""
        yield from self._sample(map(file_rows, batches))

    def ranged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The live rows of the shares that the batches number, each with the number of its range."""
        for share in self._numbered(batches):
            for rows in self._live(share, SOURCE_COLUMNS):
                yield self._sent(self._slim(rows))

    def ranged_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same of rows that are at hand."""
        for batch in batches:
            yield self._sent(file_rows(batch))

    def keyed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every action of the shares with its key and its place in the order of the log."""
        maker = KeyMaker(self.store.root_uri)
        for share in self._numbered(batches):
            yield from self._keyed_base(share, maker)
            for commit in share.commits:
                yield from self._keyed_commit(commit, maker)

    def written(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Parts of the rows, and a receipt for each: rows of one range are one part, or several of equal size."""
        ranges: dict[int, list[pa.Table]] = {}
        for batch in batches:
            numbers = np.frombuffer(batch.column("range").buffers()[1], np.int32)[batch.column("range").offset :]
            numbers = numbers[: batch.num_rows]
            for number in np.unique(numbers).tolist():
                rows = batch if (numbers == number).all() else arrays.filtered(batch, numbers == number)
                ranges.setdefault(number, []).append(index_rows(file_rows(rows), self.layout))
        store = self.store
        for number in sorted(ranges):
            receipts = [msgspec.json.encode(entry) for entry in self._parts(store, joined(ranges.pop(number)))]
            yield pa.RecordBatch.from_arrays([arrays.binaries(receipts)], names=[RECEIPT])

    # How.

    def _numbered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Share]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield self.shares[number]

    def _live(self, share: Share, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        """Rows of a share that no newer commit hides."""
        if share.rows is not None:
            yield share.rows.select([name for name in columns.names if name in share.rows.schema.names])
        replay = Replay(KeyMaker(self.store.root_uri))
        replay.mask.add(list(self.masked))
        replay.seal()
        yield from replay.base(read_groups(self.store, share.groups, columns, BATCH_ROWS))

    @property
    def _key_columns(self) -> FileColumns:
        kind = self.layout.sort.kind
        more = {"partition": ("partition_values",), "modification_time": ("modification_time",), "min": ("stats",)}
        paths = (self.layout.sort.path,) if kind == "min" else ()
        return FileColumns(("path", *more[kind], "deletion_vector"), stats_paths=paths)

    def _sample(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for batch in batches:
            first = -count % self.stride
            count += batch.num_rows
            if first < batch.num_rows:
                taken = batch.take(_indices(np.arange(first, batch.num_rows, self.stride)))
                keys = self._keys(taken)
                yield _counted(keys.column("key"), keys.column("path"), 0)
        yield _counted(self._keys(_no_rows()).column("key"), arrays.strings([]), count)

    def _keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Sort key, in its comparison form, and path."""
        key = sort_key(index_rows(_padded(rows), self._key_layout), self.layout.sort)
        return pa.RecordBatch.from_arrays([_shipped(comparable(key)), rows.column("path")], names=["key", "path"])

    @property
    def _key_layout(self) -> Layout:
        """The layout without the leaves that the key does not need."""
        sort = self.layout.sort
        leaves = tuple(leaf for leaf in self.layout.leaves if sort.kind == "min" and leaf.path == sort.path)
        return replace(self.layout, leaves=leaves)

    def _slim(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Typed stats in the types of the index; their text only where they do not say all."""
        if self.typed is None:
            return rows.select(list(FILE_COLUMNS))
        parsed = rows.column(STATS_PARSED) if STATS_PARSED in rows.schema.names else None
        if parsed is None:
            struct: pa.Array = pa.nulls(rows.num_rows, typed_struct(self.typed))
            return pa.RecordBatch.from_arrays(
                [*(rows.column(name) for name in FILE_COLUMNS), struct], names=[*FILE_COLUMNS, STATS_PARSED]
            )
        table, unsure = typed_from_parsed(parsed, self.typed)
        text = pc.if_else(arrays.booleans(unsure), rows.column("stats"), arrays.strings([None])[0])
        columns = [text if name == "stats" else rows.column(name) for name in FILE_COLUMNS]
        return pa.RecordBatch.from_arrays(
            [*columns, _struct_of(table, self.typed)], names=[*FILE_COLUMNS, STATS_PARSED]
        )

    def _sent(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        numbers = self._ranges(rows)
        array = pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
        return pa.RecordBatch.from_arrays([*rows.columns, array], names=[*rows.schema.names, "range"])

    def _ranges(self, rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The number of edges at or before each row: found by sorting edges and rows together."""
        count = rows.num_rows
        if self.edges is None or not self.edges.num_rows:
            return np.zeros(count, np.int32)
        keys = self._keys(rows)
        both = pa.concat_tables([pa.Table.from_batches([self.edges]), pa.Table.from_batches([keys])])
        known = both.column("key").is_valid().cast(pa.int8())
        # An edge stands before an equal row.
        is_row = pa.chunked_array([_bytes(self.edges.num_rows, 0), _bytes(count, 1)])
        table = both.append_column("known", known).append_column("row", is_row)
        names = ("known", "key", "path", "row")
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
        places = np.frombuffer(order.buffers()[1], np.uint64)[: len(order)].astype(np.int64)
        edges = self.edges.num_rows
        before = np.cumsum(places < edges)
        found = np.empty(count, np.int32)
        rows_only = places >= edges
        found[places[rows_only] - edges] = before[rows_only]
        return found

    def _parts(self, store: Store, rows: pa.Table) -> Iterator[PartEntry]:
        ordered = sorted_rows(rows, self.layout.sort)
        for at, size in part_slices(rows.num_rows, PART_ROWS):
            yield self.placement.write(store, ordered.slice(at, size), self.layout)

    def _keyed_base(self, share: Share, maker: KeyMaker) -> Iterator[pa.RecordBatch]:
        at_hand = [] if share.rows is None else [share.rows]
        read = read_groups(self.store, share.groups, SOURCE_COLUMNS, BATCH_ROWS)
        for number, rows in enumerate(chain(at_hand, read)):
            keys = maker.keys(rows.column("path"), rows.column("deletion_vector"))
            yield _keyed(self._slim(rows), keys, -1, number, True)

    def _keyed_commit(self, commit: CommitRange, maker: KeyMaker) -> Iterator[pa.RecordBatch]:
        held = CommitBytes(self.store)
        batches = file_batches(held.blocks(commit.file), commit.file.path, SOURCE_COLUMNS.names, maker)
        for number, batch in enumerate(batches):
            if batch.add_keys:
                yield _keyed(self._slim(batch.adds), arrays.binaries(batch.add_keys), commit.last, number, True)
            if batch.remove_keys:
                keys = arrays.binaries(batch.remove_keys)
                yield _keyed(self._slim(_only_paths(len(keys))), keys, commit.last, number, False)


def _shipped(key: pa.Array) -> pa.Array:
    """Keys in a form that passes through Spark unchanged."""
    return key.cast(pa.decimal128(38, key.type.scale)) if pa.types.is_decimal(key.type) else key


def _counted(keys: pa.Array, paths: pa.StringArray, count: int) -> pa.RecordBatch:
    """Sampled keys, or a row without path that says how many rows there were."""
    if not len(paths):
        keys, paths = pa.nulls(1, keys.type), arrays.strings([None])
    counts = arrays.int64s([count] * len(paths))
    return pa.RecordBatch.from_arrays([keys, paths, counts], names=["key", "path", "count"])


def _keyed(rows: pa.RecordBatch, keys: pa.Array, version: int, number: int, live: bool) -> pa.RecordBatch:
    count = rows.num_rows
    sequence = np.arange(count, dtype=np.int64) + (number << 32)
    order = [
        arrays.int64s([version] * count),
        arrays.booleans(np.full(count, live)),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(sequence)]),
    ]
    names = ["key", "version", "live", "sequence", *rows.schema.names]
    return pa.RecordBatch.from_arrays([keys, *order, *rows.columns], names=names)


def file_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that came through Spark, in the types of `FILE_SCHEMA` again."""
    names = [name for name in batch.schema.names if name in FILE_COLUMNS or name == STATS_PARSED]
    columns = [_restored(batch.column(name), name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _restored(array: pa.Array, name: str) -> pa.Array:
    if name == STATS_PARSED:
        return array
    wanted = FILE_SCHEMA.field(name).type
    return array if array.type == wanted else array.cast(wanted)


def _padded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with nulls for the columns of an add that a sample does not read."""
    missing = [name for name in FILE_COLUMNS if name not in rows.schema.names]
    columns = [*rows.columns, *(pa.nulls(rows.num_rows, FILE_SCHEMA.field(name).type) for name in missing)]
    return pa.RecordBatch.from_arrays(columns, names=[*rows.schema.names, *missing])


def _only_paths(count: int) -> pa.RecordBatch:
    columns = [pa.nulls(count, FILE_SCHEMA.field(name).type) for name in FILE_COLUMNS]
    return pa.RecordBatch.from_arrays(columns, names=list(FILE_COLUMNS))


def _no_rows() -> pa.RecordBatch:
    return _only_paths(0)


def _bytes(count: int, value: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(np.full(count, value, np.int8))])


def _indices(rows: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Int64Array:
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))])


# Typed stats on their way through the exchange.


def typed_struct(leaves: Sequence[Leaf]) -> pa.DataType:
    """The type in which typed stats travel."""
    bounds = {leaf.path: leaf.bound for leaf in leaves if leaf.bound is not None}
    counts = {leaf.path: pa.int64() for leaf in leaves}
    trees = {"minValues": bounds, "maxValues": bounds, "nullCount": counts}
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    return pa.struct([*fields, *((key, nested_type(tree)) for key, tree in trees.items() if tree)])


def _struct_of(table: pa.Table, leaves: Sequence[Leaf]) -> pa.StructArray:
    """Flat typed columns as that struct; a row without any is null."""
    count = table.num_rows

    def of(name: str, kind: pa.DataType) -> pa.Array:
        return whole(table.column(name)) if name in table.column_names else pa.nulls(count, kind)

    children = {"numRecords": of("num_records", pa.int64()), "tightBounds": of("tight_bounds", pa.bool_())}
    for kind, key in KINDS.items():
        trees = {
            leaf.path: of(column(kind, leaf.path), pa.int64() if kind == "null_count" else leaf.bound)
            for leaf in leaves
            if kind == "null_count" or leaf.bound is not None
        }
        if trees:
            children[key] = nested(trees)
    names = [f.name for f in typed_struct(leaves)]
    fields = list(typed_struct(leaves))
    absent = _all_null(pa.StructArray.from_arrays([children[n] for n in names], fields=fields))
    return pa.StructArray.from_arrays([children[n] for n in names], fields=fields, mask=absent)


def _all_null(array: pa.Array) -> pa.BooleanArray:
    if not pa.types.is_struct(array.type):
        return array.is_null()
    found: pa.BooleanArray | None = None
    for index in range(len(array.type)):
        inner = _all_null(pc.struct_field(array, [index]))
        found = inner if found is None else pc.and_(found, inner)
    return found
