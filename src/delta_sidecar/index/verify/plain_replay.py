"""A slow and simple replay of the log, oldest action first. `verify` compares an index with it.

It shares no code with `log.replay`, so `verify` finds mistakes there. Every action becomes a few numbers (the digest of
its key, its place in the order, digests of its row), and the last action of a key wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs
from numpy.typing import NDArray

from delta_sidecar.index.format.index_columns import (
    KINDS,
    NUM_RECORDS,
    PARTITION,
    STATS_JSON,
    TIGHT_BOUNDS,
    column,
    descendant,
)
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.stats.index_rows import ADD_COLUMNS, SOURCE_COLUMNS
from delta_sidecar.index.stats.native_types import native_typed
from delta_sidecar.index.verify.digests import Words, key_digests, row_digests, text_digests
from delta_sidecar.index.verify.plain_stats import StatsReader
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.checkpoint_rows import STATS_PARSED
from delta_sidecar.log.commits import CommitBytes, file_batches
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.values.comparison import valid
from delta_sidecar.values.partition_values import partition_column

Columns: TypeAlias = dict[str, pa.Array]
FlagBits: TypeAlias = NDArray[np.uint8]
"""`LOST`, `MORE` and `SILENT` of each row."""

BATCH_ROWS: Final = 20_000
LOST, MORE, SILENT = 1, 2, 4
"""Of a row: its text says more exactly, or in another form, what a column holds; says what no column is for; has no
stats at all."""


@dataclass(frozen=True, slots=True)
class Actions:
    """Some actions of the log: adds with their rows, or removes."""

    order: int
    keys: list[bytes]
    adds: pa.RecordBatch | None = None


def actions(snapshot: Snapshot) -> Iterator[Actions]:
    """Every action that makes the snapshot, oldest first; of a commit its removes before its adds."""
    maker = KeyMaker(snapshot.store.root_uri)
    base = snapshot.open_base()
    if base is not None:
        try:
            for rows in base.rows(SOURCE_COLUMNS, BATCH_ROWS):
                yield Actions(0, maker.keys(rows.column("path"), rows.column("deletion_vector")).to_pylist(), rows)
        finally:
            base.close()
    held = CommitBytes(snapshot.store, CommitLimits(held_bytes=0))
    listing = structs.replace(snapshot.listing, compacted=())
    for commit in listing.segment(snapshot.version, snapshot.segment.base).commits:
        for batch in file_batches(held.blocks(commit.file), commit.file.path, SOURCE_COLUMNS.names, maker):
            yield Actions(2 * commit.last + 2, batch.remove_keys.to_pylist())
            yield Actions(2 * commit.last + 3, batch.add_keys, batch.adds)
        held.discard(commit.file)


@dataclass(frozen=True, slots=True)
class LogRows:
    """Adds in the columns of the index."""

    columns: Columns
    """Typed stats of the checkpoint where they are known, else those of the text."""
    texts: Columns
    """The stats columns by the text alone."""
    flags: FlagBits


class RowReader:
    """Turns adds into index columns, value by value."""

    def __init__(self, layout: IndexLayout) -> None:
        self._layout = layout
        self._stats = StatsReader(layout.leaves)
        self.core = (*ADD_COLUMNS, *(column(PARTITION, (f.physical_name,)) for f in layout.partition))
        leaves = [column(kind, leaf.path) for leaf in layout.leaves for kind in KINDS]
        self.stats = (NUM_RECORDS, TIGHT_BOUNDS, *leaves)

    def read(self, adds: pa.RecordBatch) -> LogRows:
        columns: Columns = {name: adds.column(name) for name in ADD_COLUMNS}
        for field_ in self._layout.partition:
            values = partition_column(adds.column("partition_values"), field_).values
            columns[column(PARTITION, (field_.physical_name,))] = values
        text_stats = self._stats.read(adds.column("stats").to_pylist())
        typed = self._typed(adds.column(STATS_PARSED)) if STATS_PARSED in adds.schema.names else {}
        stats = text_stats.columns | {
            name: pc.coalesce(array, text_stats.columns[name]) if name in text_stats.columns else array
            for name, array in typed.items()
        }
        flags = np.zeros(adds.num_rows, np.uint8)
        for name, rows in text_stats.lost.items():
            flags[[row for row in rows if name not in typed or not typed[name][row].is_valid]] |= LOST
        flags[text_stats.otherwise] |= LOST
        flags[text_stats.more] |= MORE
        silent = ~valid(adds.column("stats"))
        for array in stats.values():
            silent &= ~valid(array)
        flags[silent] |= SILENT
        return LogRows(columns | stats | {STATS_JSON: adds.column("stats")}, text_stats.columns, flags)

    def _typed(self, parsed: pa.StructArray) -> Columns:
        columns: dict[str, pa.Array | None] = {}
        for kind, key in KINDS.items():
            for leaf in self._layout.leaves:
                array = descendant(parsed, (key, *leaf.path))
                if array is not None:
                    columns[column(kind, leaf.path)] = native_typed(array, kind, leaf)
        records, tight = (descendant(parsed, (name,)) for name in ("numRecords", "tightBounds"))
        if records is not None and pa.types.is_signed_integer(records.type):
            counts = records.cast(pa.int64())
            columns[NUM_RECORDS] = pc.if_else(pc.less(counts, 0), pa.nulls(1, pa.int64())[0], counts)
        if tight is not None and pa.types.is_boolean(tight.type):
            columns[TIGHT_BOUNDS] = tight
        return {name: array for name, array in columns.items() if array is not None}


@dataclass(slots=True)
class Digested:
    """Rows as numbers, one array a property."""

    keys: Words
    core: Words
    stats: Words
    texts: Words
    flags: FlagBits
    said: Words
    """The digest of the stats by the text alone; in an index the same as `stats`."""

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: NDArray[Any]) -> Digested:
        return Digested(
            self.keys[rows], self.core[rows], self.stats[rows], self.texts[rows], self.flags[rows], self.said[rows]
        )


@dataclass(slots=True)
class DigestList:
    """Digests that are being collected."""

    parts: list[Digested] = field(default_factory=list)

    def add(
        self,
        keys: list[bytes],
        columns: Columns,
        reader: RowReader,
        flags: FlagBits | None = None,
        said: Columns | None = None,
    ) -> None:
        count = len(keys)
        stats = row_digests(columns, reader.stats, count)
        texts = text_digests(columns[STATS_JSON]) if STATS_JSON in columns else np.zeros(count, np.uint64)
        self.parts.append(
            Digested(
                keys=key_digests(keys),
                core=row_digests(columns, reader.core, count),
                stats=stats,
                texts=texts,
                flags=np.zeros(count, np.uint8) if flags is None else flags,
                said=stats if said is None else row_digests(said, reader.stats, count),
            )
        )

    def add_keys(self, keys: list[bytes]) -> None:
        """Removes: keys without rows."""
        none = np.zeros(len(keys), np.uint64)
        self.parts.append(Digested(key_digests(keys), none, none, none, np.zeros(len(keys), np.uint8), none))

    def close(self) -> Digested:
        def joined(name: str, empty: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in self.parts] or [empty])

        words, none = np.empty((0, 2), np.uint64), np.empty(0, np.uint64)
        return Digested(
            joined("keys", words),
            joined("core", none),
            joined("stats", none),
            joined("texts", none),
            joined("flags", np.empty(0, np.uint8)),
            joined("said", none),
        )


def live_digests(snapshot: Snapshot, reader: RowReader, say: Callable[[int], None] = lambda adds: None) -> Digested:
    """The live files of a snapshot, by the last action of each key. `say` gets the number of adds read so far."""
    digests, orders, adds = DigestList(), [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    count = 0
    for batch in actions(snapshot):
        if not batch.keys:
            continue
        if batch.adds is None:
            digests.add_keys(batch.keys)
        else:
            rows = reader.read(batch.adds)
            digests.add(batch.keys, rows.columns, reader, rows.flags, rows.texts)
            count += len(batch.keys)
            say(count)
        orders.append(np.full(len(batch.keys), batch.order, np.int64))
        adds.append(np.full(len(batch.keys), batch.adds is not None, np.bool_))
    rows_, order, is_add = digests.close(), np.concatenate(orders), np.concatenate(adds)
    ranked = np.lexsort((order, rows_.keys[:, 0], rows_.keys[:, 1]))
    keys = rows_.keys[ranked]
    last = np.ones(len(keys), np.bool_)
    last[:-1] = (keys[1:] != keys[:-1]).any(axis=1)
    final = ranked[last]
    return rows_.take(final[is_add[final]])


def live_rows_of(snapshot: Snapshot, reader: RowReader, wanted: set[bytes]) -> dict[bytes, tuple[LogRows, int]]:
    """The live rows of some keys, by the digest of each key."""
    live: dict[bytes, tuple[LogRows, int]] = {}
    for batch in actions(snapshot):
        hits = [(row, key) for row, key in enumerate(map(_digest, batch.keys)) if key in wanted]
        if batch.adds is None:
            for _, key in hits:
                live.pop(key, None)
        elif hits:
            rows = reader.read(batch.adds.take(pa.array([row for row, _ in hits])))
            live |= {key: (rows, place) for place, (_, key) in enumerate(hits)}
    return live


def _digest(key: bytes) -> bytes:
    return key_digests([key]).tobytes()
