"""What tasks of an index build do, wherever they run: read shares of the log, send rows to ranges, write parts.

No Spark in here. Rows travel between tasks in *parcels*: a number, which says where to, and many rows as compressed
Arrow bytes. Spark moves parcels and never looks inside, which is several times cheaper than moving rows. Everything a
task needs travels with it; it opens its own store.

Where the tail is too long for the driver, there is no walk from the newest commit to the oldest (`log.tail`): each task
reads some commits, in no order, and sends every action with its version to the lot of its key. Another task puts a lot
in order and replays it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.index.build.build_job import Placement, part_slices
from delta_sidecar.index.format.index_columns import one_array
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.stats.index_rows import (
    SOURCE_COLUMNS,
    index_rows,
    joined,
    order_of,
    sort_key_of_files,
    sorted_rows,
)
from delta_sidecar.index.stats.typed_stats import stats_without_needless_text
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.checkpoint import RowGroup, read_groups
from delta_sidecar.log.checkpoint_rows import FileColumns
from delta_sidecar.log.commits import CommitBatch, CommitBytes, file_batches
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.key_hash import hash_keys
from delta_sidecar.log.mask import MaskBuilder
from delta_sidecar.log.replay import BaseFilter, Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.values.comparison import comparable, comparison_type

BATCH_ROWS: Final = 10_000
PARCEL_ROWS: Final = 20_000
"""Rows for one destination that a task collects before it sends them."""
HELD_ROWS: Final = 200_000
"""Rows for all destinations together that a task holds."""
PARCEL_DDL: Final = "`to` int, data binary"
EDGE_COLUMNS: Final = ("key", "modification_time", "path")
RECEIPT_DDL: Final = "receipt binary"

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_BASE: Final = -1


@dataclass(frozen=True)
class Share:
    """What one task reads."""

    groups: tuple[RowGroup, ...] = ()
    commits: tuple[CommitRange, ...] = ()
    rows: bytes | None = field(default=None, repr=False)
    """Rows that are at hand, as Arrow bytes: those of a tail that the driver replayed."""


@dataclass(frozen=True)
class Work:
    """One build, as its tasks know it. Its methods are what `mapInArrow` calls."""

    uri: str
    storage_options: Mapping[str, str] | None = field(repr=False)
    placement: Placement
    layout: IndexLayout
    shares: tuple[Share, ...] = ()
    masked: tuple[bytes, ...] = field(default=(), repr=False)
    """Keys that hide rows of the base."""
    edges: bytes | None = field(default=None, repr=False)
    """Where each range but the first begins, as Arrow bytes."""
    stride: int = 1
    """One row in this many is sampled."""
    lots: int = 1
    """The number of lots into which keys are divided if tasks replay the tail."""

    @property
    def store(self) -> Store:
        return open_store(self.uri, self.storage_options)

    def sample_shares(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Keys of some live rows of the numbered shares, and how many rows there are."""
        for share in self._numbered(numbers):
            yield from self._sample(self._live(share, self._key_columns))

    def sample_parcels(self, parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same of rows in parcels."""
        yield from self._sample(rows for _, rows in opened(parcels))

    def range_shares(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The live rows of the numbered shares, in parcels to their ranges."""
        for share in self._numbered(numbers):
            live = self._live(share, SOURCE_COLUMNS)
            yield from self._sent(stats_without_needless_text(rows, self.layout.leaves) for rows in live)

    def range_parcels(self, parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in parcels, in parcels to their ranges."""
        yield from self._sent(rows for _, rows in opened(parcels))

    def lot_shares(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every action of the numbered shares, in parcels to the lot of its key."""
        maker = KeyMaker(self.store.root_uri)
        for share in self._numbered(numbers):
            sender = _Sender()
            for version, batch in self._actions(share, maker):
                yield from sender.send(*_action_rows(version, batch, self.lots))
            yield from sender.rest()

    def replay_lots(self, parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The live rows of a lot: its actions, newest commit first, through the one replay."""
        lots: dict[int, list[pa.RecordBatch]] = {}
        for lot, rows in opened(parcels):
            lots.setdefault(lot, []).append(rows)
        maker = KeyMaker(self.store.root_uri)
        for lot in sorted(lots):
            sender = _Sender()
            for live in _replayed(lots.pop(lot), maker):
                yield from sender.send(live, np.full(live.num_rows, lot, np.int32))
            yield from sender.rest()

    def write_parcels(self, parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Parts of the rows, and a receipt for each: rows of one range are one part, or several of equal size."""
        ranges: dict[int, list[pa.Table]] = {}
        for number, rows in opened(parcels):
            ranges.setdefault(number, []).append(index_rows(rows, self.layout))
        for number in sorted(ranges):
            receipts = [msgspec.json.encode(entry) for entry in self._parts(joined(ranges.pop(number)))]
            yield pa.RecordBatch.from_arrays([arrays.binaries(receipts)], names=["receipt"])

    def _numbered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Share]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield self.shares[number]

    def _live(self, share: Share, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        """Rows of a share that no newer commit hides."""
        if share.rows is not None:
            yield from unpacked(share.rows)
        if share.groups:
            masked = MaskBuilder()
            masked.add(list(self.masked))
            base_filter = BaseFilter(masked.hashed_mask(), KeyMaker(self.store.root_uri))
            yield from base_filter.live(read_groups(self.store, share.groups, columns, BATCH_ROWS))

    @property
    def _key_columns(self) -> FileColumns:
        kind = self.layout.sort.kind
        more = {"partition": ("partition_values",), "modification_time": (), "min": ("stats",)}
        paths = (self.layout.sort.path,) if kind == "min" else ()
        return FileColumns(("path", "modification_time", *more[kind], "deletion_vector"), stats_paths=paths)

    def _sample(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for batch in batches:
            first = -count % self.stride
            count += batch.num_rows
            if first < batch.num_rows:
                keys = self._keys(batch.take(arrays.indices(np.arange(first, batch.num_rows, self.stride))))
                counts = arrays.int64s([0] * keys.num_rows)
                yield pa.RecordBatch.from_arrays([*keys.columns, counts], names=[*EDGE_COLUMNS, "count"])
        nothing = [pa.nulls(1, key_type(self.layout)), pa.nulls(1, pa.int64()), arrays.strings([None])]
        yield pa.RecordBatch.from_arrays([*nothing, arrays.int64s([count])], names=[*EDGE_COLUMNS, "count"])

    def _keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What ranges are divided by: the sort key, in a form that passes through Spark unchanged, within it the
        time of writing, which costs no parsing and goes with the time column, then the path."""
        key = comparable(sort_key_of_files(rows, self.layout))
        key = key.cast(key_type(self.layout)) if key.type != key_type(self.layout) else key
        columns = [key, rows.column("modification_time"), rows.column("path")]
        return pa.RecordBatch.from_arrays(columns, names=list(EDGE_COLUMNS))

    def _sent(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sender = _Sender()
        edges = None if self.edges is None else next(unpacked(self.edges))
        for rows in batches:
            numbers = np.zeros(rows.num_rows, np.int32) if edges is None else range_numbers(edges, self._keys(rows))
            yield from sender.send(rows, numbers)
        yield from sender.rest()

    def _parts(self, rows: pa.Table) -> Iterator[PartEntry]:
        store, ordered = self.store, sorted_rows(rows, self.layout)
        for at, size in part_slices(rows.num_rows, self.placement.limits.part_rows):
            yield self.placement.write(store, ordered.slice(at, size), self.layout)

    def _actions(self, share: Share, maker: KeyMaker) -> Iterator[tuple[int, CommitBatch[pa.RecordBatch]]]:
        """File actions with their version; rows of a base have none."""
        for rows in unpacked(share.rows) if share.rows is not None else ():
            yield _BASE, _base_batch(rows, maker)
        for rows in read_groups(self.store, share.groups, SOURCE_COLUMNS, BATCH_ROWS):
            yield _BASE, _base_batch(stats_without_needless_text(rows, self.layout.leaves), maker)
        for commit in share.commits:
            blocks = CommitBytes(self.store, CommitLimits(held_bytes=0)).blocks(commit.file)
            for batch in file_batches(blocks, commit.file.path, SOURCE_COLUMNS.names, maker):
                yield commit.last, batch


def key_type(layout: IndexLayout) -> pa.DataType:
    """The type in which sort keys are sampled and compared."""
    kind = None if layout.sort.type is None else comparison_type(layout.sort.type)
    if kind is None:
        return pa.int64()
    return pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else kind


# Parcels.


def packed(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Rows of one schema as compressed Arrow bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=_COMPRESSED) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(data: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    yield from pa.ipc.open_stream(data)


def opened(parcels: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Destination and rows of parcels, a batch at a time."""
    for batch in parcels:
        data = batch.column("data")
        for index, to in enumerate(batch.column("to").to_pylist()):
            for rows in unpacked(data[index].as_buffer()):
                yield to, rows


class _Sender:
    """Collects rows by destination and packs them when there are enough."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._counts: dict[int, int] = {}
        self._held = 0

    def send(self, rows: pa.RecordBatch, numbers: np.ndarray[Any, np.dtype[np.int32]]) -> Iterator[pa.RecordBatch]:
        """Parcels that are full now."""
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            self._wait(number, rows if chosen.all() else arrays.filtered(rows, chosen))
            if self._counts[number] >= PARCEL_ROWS:
                yield self._parcel(number)
        if self._held > HELD_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All that is left."""
        for number in sorted(self._waiting):
            yield self._parcel(number)

    def _wait(self, number: int, rows: pa.RecordBatch) -> None:
        self._waiting.setdefault(number, []).append(rows)
        self._counts[number] = self._counts.get(number, 0) + rows.num_rows
        self._held += rows.num_rows

    def _parcel(self, number: int) -> pa.RecordBatch:
        waiting = self._waiting.pop(number)
        self._held -= self._counts.pop(number)
        runs = [packed(list(run)) for _, run in groupby(waiting, key=lambda batch: batch.schema)]
        return pa.RecordBatch.from_arrays(
            [arrays.int32s([number] * len(runs)), arrays.binaries(runs)], names=["to", "data"]
        )


def range_numbers(edges: pa.RecordBatch, keys: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The number of edges at or before each row: found by sorting edges and rows together."""
    first, count = edges.num_rows, keys.num_rows
    both = pa.concat_tables([pa.Table.from_batches([edges]), pa.Table.from_batches([keys])]).combine_chunks()
    # An edge stands before an equal row.
    is_edge = np.concatenate([np.ones(first, np.int8), np.zeros(count, np.int8)])
    edge = pa.Array.from_buffers(pa.int8(), first + count, [None, pa.py_buffer(is_edge)])
    order = order_of([*(one_array(both.column(name)) for name in EDGE_COLUMNS), edge])
    places = np.frombuffer(order.buffers()[1], np.uint64)[: len(order)].astype(np.int64)
    before = np.cumsum(places < first)
    numbers = np.empty(count, np.int32)
    numbers[places[places >= first] - first] = before[places >= first]
    return numbers


# Replay by lots: all actions of a key are in one lot.

_KEY, _VERSION, _REMOVE = "replay key", "replay version", "replay remove"


def _base_batch(rows: pa.RecordBatch, maker: KeyMaker) -> CommitBatch[pa.RecordBatch]:
    keys = maker.keys(rows.column("path"), rows.column("deletion_vector"))
    return CommitBatch(rows, keys.to_pylist(), arrays.binaries([]))


def _action_rows(
    version: int, batch: CommitBatch[pa.RecordBatch], lots: int
) -> tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.int32]]]:
    """Adds and removes as rows with their keys, and the lot of each."""
    adds, removes = batch.adds, len(batch.remove_keys)
    nothing = [pa.nulls(removes, f.type) for f in adds.schema]
    columns = [pa.concat_arrays([a, b]) for a, b in zip(adds.columns, nothing, strict=True)]
    keys = pa.concat_arrays([arrays.binaries(batch.add_keys), batch.remove_keys])
    flags = np.arange(len(keys)) >= adds.num_rows
    extra = [keys, arrays.int64s([version] * len(keys)), arrays.booleans(flags)]
    rows = pa.RecordBatch.from_arrays([*columns, *extra], names=[*adds.schema.names, _KEY, _VERSION, _REMOVE])
    return rows, (hash_keys(keys) % np.uint64(lots)).astype(np.int32)


def _replayed(actions: list[pa.RecordBatch], maker: KeyMaker) -> Iterator[pa.RecordBatch]:
    """The live rows of a lot. Parcels keep the order of actions within a commit, which one task reads whole."""
    versioned = [(rows.column(_VERSION)[0].as_py(), rows) for batch in actions for rows in _by_version(batch)]
    versioned.sort(key=itemgetter(0), reverse=True)
    replay = Replay(maker)
    for version, group in groupby(versioned, key=itemgetter(0)):
        batches = [_commit_batch(rows) for _, rows in group]
        if version == _BASE:
            yield from replay.base_filter().live(batch.adds for batch in batches)
        else:
            yield from replay.commit(batches)


def _by_version(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    versions = np.frombuffer(batch.column(_VERSION).buffers()[1], np.int64)[batch.column(_VERSION).offset :]
    versions = versions[: batch.num_rows]
    for version in np.unique(versions).tolist():
        yield batch if (versions == version).all() else arrays.filtered(batch, versions == version)


def _commit_batch(rows: pa.RecordBatch) -> CommitBatch[pa.RecordBatch]:
    remove = arrays.to_numpy_bool(rows.column(_REMOVE))
    keys = rows.column(_KEY)
    names = [name for name in rows.schema.names if name not in (_KEY, _VERSION, _REMOVE)]
    adds = arrays.filtered(rows, ~remove).select(names) if remove.any() else rows.select(names)
    return CommitBatch(adds, keys.filter(arrays.booleans(~remove)).to_pylist(), keys.filter(arrays.booleans(remove)))
