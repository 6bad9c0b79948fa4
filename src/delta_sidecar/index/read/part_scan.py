"""The live files of an index, the greatest keys first: parts chosen by the manifest, fetched ahead, decoded in order.

A predicate on columns whose bounds stand in the stats file is tried on these alone first: of a part in which no file
may match, the core is never fetched.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from delta_sidecar import arrays
from delta_sidecar.flow.ordered import Ordered
from delta_sidecar.flow.read_ahead import Ahead
from delta_sidecar.index.format.index_columns import KINDS, STATS_JSON
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.part_format import ROW_GROUP_ROWS
from delta_sidecar.index.format.sort_keys import PartOrder
from delta_sidecar.index.read.finder import IndexBase
from delta_sidecar.index.read.part_bounds import GroupBounds, PartBounds
from delta_sidecar.index.read.part_file import PartFile, fetch_core_cached, fetch_stats
from delta_sidecar.index.read.part_rows import (
    PartRows,
    StatsColumns,
    are_known,
    bounds_only,
    key_in_stats,
    key_path,
    part_keys,
)
from delta_sidecar.index.stats.index_rows import order_of
from delta_sidecar.log.checkpoint_rows import FileColumns
from delta_sidecar.log.replay import Replay, without
from delta_sidecar.pruning.bucket_ranges import BucketRanges
from delta_sidecar.pruning.file_pruner import FilePruner
from delta_sidecar.pruning.listing_columns import output_schema, project
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.storage.requests import begin
from delta_sidecar.storage.store import Store, is_local

Flags: TypeAlias = NDArray[np.bool_]

_HELPERS = min(1, (os.cpu_count() or 1) - 1)
"""Threads that decode beside the consumer's own: more cost memory in proportion and soon wait for each other."""
_AHEAD = 3
"""Parts on their way at once, at most; the bytes of the read-ahead bound them, too. Local ones are read when it is
their turn."""
_FEW_PARTS = 4
"""A scan of so few parts may be asked again: their cores go into the cache."""
_FEW_ROWS = 3 * ROW_GROUP_ROWS
"""So few rows are decoded before a thread has begun."""
_FEW_KEPT = 4
"""One row in so many is few."""
_CELLS = 1 << 21
"""Values of stats decoded at a time where all of them are wanted."""
_KEY = "sort key\0"
"""The column of the sort keys of rows that are being merged."""
_ALL_STATS = [(name,) for name in (*KINDS, STATS_JSON)]


@dataclass(frozen=True, slots=True)
class Listed:
    """Live files that may match, and how many live ones were looked at."""

    rows: pa.RecordBatch
    considered: int
    is_projected: bool = False
    """Whether the rows have the columns of the output already."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Some rows of a row group of a part."""

    part: PartEntry
    group: int
    start: int
    count: int


@dataclass(slots=True)
class PartCounts:
    """What was read of an index, of what."""

    parts_total: int = 0
    parts_read: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A part that may hold a match."""

    part: PartEntry
    keep: Flags | None = None
    """Rows that may match by their stats; None for all."""
    stats: pa.Table | None = None
    """The stats that were read to find that out, of all rows; None where nothing more is to be learned of them."""
    is_settled: bool = False
    """Whether the stats have had their say: no bound is unknown, and none stands in the core."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Neighbouring rows of a row group, which are decoded together."""

    rows: PartRows
    span: _Span
    chosen: _Chosen
    core: pa.RecordBatch | None = None
    """Where it is decoded already; None for a whole row group that is not."""
    stats: pa.Table | None = None
    """All stats of its rows, where they were asked for."""

    def decoded(self) -> _Chunk:
        return self if self.core is not None else replace(self, core=self.rows.core(self.span.group))

    def cut(self, start: int, count: int) -> _Chunk:
        """Some of its rows."""
        assert self.core is not None
        stats = None if self.stats is None else self.stats.slice(start, count)
        span = replace(self.span, start=self.span.start + start, count=count)
        return replace(self, span=span, core=self.core.slice(start, count), stats=stats)


@dataclass
class PartScan:
    """One pass over the parts of an index: `listed` is consumed once, `close` stops it."""

    base: IndexBase
    store: Store
    columns: FileColumns
    settled_columns: FileColumns
    """What is left to read of a part whose stats have been pruned by already."""
    pruning: BucketRanges | None
    pruner: FilePruner
    timezone: str
    replay: Replay
    output: Sequence[str] = ()
    """The columns of the listing."""
    limit: int | None = None
    depth: int = 3
    """Row groups decoded ahead of the consumer."""
    counts: PartCounts = field(default_factory=PartCounts)
    _handed_out: list[_Span] = field(default_factory=list)
    _parts: list[int] = field(default_factory=list)
    """Positions of the chosen parts: an entry is made of a part when its turn comes."""
    _stats: Ahead[PartEntry, PartFile] | None = None
    _cores: Ahead[_Chosen, PartFile] | None = None
    _stopped: bool = False
    _read: deque[tuple[str, PartFile]] = field(default_factory=lambda: deque(maxlen=_FEW_PARTS))
    """Cores that came by ranges, the last few: what was read of them is here."""
    _few_are_kept: bool = False
    """Whether the stats leave few rows of the part that is read."""

    def begin(self) -> None:
        """Choose the parts and send for the first, without waiting for an answer."""
        if self._cores is not None:
            return
        self._parts = self._chosen_parts()
        ahead = 0 if is_local(self.store) else 1 if self.limit is not None else _AHEAD
        chosen: Iterator[_Chosen]
        if self._wanted_stats.needs_stats(self.base.layout) and not self.columns.all_stats:
            self._stats = Ahead(self._entries(), self._send_for_stats, _stats_size, ahead)
            self._stats.begin()
            chosen = self._chosen_by_stats(self._stats)
        else:
            chosen = map(_Chosen, self._entries())
        self._cores = Ahead(chosen, self._send_for_core, _core_size, ahead)
        if self._stats is None:
            self._cores.begin()

    def listed(self) -> Iterator[Listed]:
        """The live files that may match, a row group at a time."""
        self.begin()
        if self.limit is not None and self._order.overlap(self._parts):
            yield from self._merged()
            return
        rows = self.base.manifest.parts.rows
        many = sum(rows[part] for part in self._parts) > _FEW_ROWS
        alone = not many or self.limit is not None or self.columns.all_stats
        ordered = Ordered(self._tasks(), 0 if alone else _HELPERS, self._tasks_ahead)
        try:
            for span, found in ordered:
                self._handed_out.append(span)
                yield found
        finally:
            ordered.close()
            self.close()

    def keys_handed_out(self) -> Iterator[pa.RecordBatch]:
        """`path` and `deletion_vector` of every row that was handed out, read once more."""
        for part, spans in groupby(self._handed_out, key=attrgetter("part")):
            # Those that are here first: a part that was read may be gone from the store.
            core = dict(self._read).get(part.id) or self._core(part, keep=False)
            for group, some in groupby(spans, key=attrgetter("group")):
                keys = part_keys(core, [group])
                yield from (keys.slice(span.start, span.count) for span in some)

    def close(self) -> None:
        """Send for nothing more."""
        self._stopped = True
        for ahead in (self._cores, self._stats):
            if ahead is not None:
                ahead.close()

    @property
    def _wanted_stats(self) -> StatsColumns:
        return StatsColumns(self.columns.stats_paths)

    def _entries(self) -> Iterator[PartEntry]:
        parts = self.base.manifest.parts
        return (parts[at] for at in self._parts)

    def _chosen_parts(self) -> list[int]:
        """The parts that may hold a match by the manifest, the newest first: those of the greatest keys."""
        parts = self.base.manifest.parts
        self.counts.parts_total = len(parts)
        self.counts.row_groups_total = int(np.ceil(np.array(parts.rows) / ROW_GROUP_ROWS).sum())
        chosen: Sequence[int] = range(len(parts))
        if self.pruning is not None:
            bounds = PartBounds(parts, self.base.layout, self.timezone)
            flags = arrays.to_numpy_bool(may_match(self.pruning.whole, bounds, len(parts)))
            doubted = np.array([not self._buckets_are_checked(count) for count in parts.off_bucket], np.bool_)
            if doubted.any() and self.pruning.derived is not None:
                flags |= doubted & arrays.to_numpy_bool(may_match(self.pruning.predicate, bounds, len(parts)))
            chosen = np.flatnonzero(flags).tolist()
        return self._order.newest_first(chosen)

    def _buckets_are_checked(self, off_bucket: int) -> bool:
        """Whether the builder held the rows of a part against the very buckets that are pruned by, and none is off."""
        return off_bucket == 0 and self._buckets_are_known

    @cached_property
    def _buckets_are_known(self) -> bool:
        known = self.base.layout.buckets
        return self.pruning is None or all(bucket.form in known for bucket in self.pruning.buckets)

    @property
    def _order(self) -> PartOrder:
        return self.base.part_order

    def _send_for_stats(self, part: PartEntry) -> Future[PartFile]:
        if part.stats is None:
            return self._send_for_core(_Chosen(part))
        paths = self._wanted_stats.in_stats(self.base.layout)
        return begin(self.store, fetch_stats, self.store, self.base.directory, part, paths, lambda: not self._stopped)

    def _send_for_core(self, chosen: _Chosen) -> Future[PartFile]:
        return begin(self.store, self._core, chosen.part, len(self._parts) <= _FEW_PARTS)

    def _core(self, part: PartEntry, keep: bool) -> PartFile:
        core = fetch_core_cached(self.store, self.base.directory, part, keep, self._by_ranges)
        if self._by_ranges:
            self._read.append((part.id, core))
        return core

    @property
    def _by_ranges(self) -> bool:
        """Whether few row groups of a part are wanted, and a second look at its file costs no trip."""
        is_narrow = self.pruning is not None and len(self._parts) <= _FEW_PARTS
        return is_local(self.store) and (is_narrow or self.limit is not None)

    def _chosen_by_stats(self, answers: Ahead[PartEntry, PartFile]) -> Iterator[_Chosen]:
        """Parts in which some row may match by its stats."""
        paths = self._wanted_stats.in_stats(self.base.layout)
        for part, file in answers:
            if part.stats is None:
                yield _Chosen(part)
                continue
            stats = file.read(range(file.metadata.num_row_groups), file.positions(paths))
            keep = arrays.to_numpy_bool(self.pruner.passing(bounds_only(stats, self.base.layout)))
            if keep.any():
                is_settled = self._is_settled(stats) and self._buckets_are_checked(part.off_bucket)
                yield _Chosen(part, keep, None if is_settled else stats, is_settled)

    def _is_settled(self, stats: pa.Table) -> bool:
        time = self.base.layout.time
        in_core = time is not None and time.path in self.columns.stats_paths
        if in_core or self.pruner.mixes_partition_and_stats or "stats" in self.settled_columns.names:
            return False
        return are_known(stats, self.columns.stats_paths)

    def _tasks(self) -> Iterator[Callable[[], tuple[_Span, Listed]]]:
        assert self._cores is not None
        for chosen, core in self._cores:
            yield from (partial(self._listed, chunk) for chunk in self._chunks(chosen, core))

    def _chunks(self, chosen: _Chosen, core: PartFile) -> Iterator[_Chunk]:
        """What is to be looked at of a part, in its order."""
        columns = self.settled_columns if chosen.is_settled else self.columns
        rows = PartRows(core, chosen.part, columns, self.base.layout)
        groups = self._groups(core, rows, chosen)
        if not groups:
            return
        self._few_are_kept = chosen.keep is not None and int(chosen.keep.sum()) * _FEW_KEPT < len(chosen.keep)
        self.counts.parts_read += 1
        self.counts.row_groups_read += len(groups)
        if self.columns.all_stats and chosen.part.stats is not None:
            yield from self._with_all_stats(chosen, rows, set(groups))
        else:
            spans = (_Span(chosen.part, group, 0, rows.group_rows[group]) for group in groups)
            yield from (_Chunk(rows, span, chosen) for span in spans)

    def _tasks_ahead(self) -> int:
        """More of them where little is left of a row group: while the stats of the next part are looked at, the helpers
        need something to do."""
        return 2 * self.depth if self._few_are_kept else self.depth

    def _groups(self, core: PartFile, rows: PartRows, chosen: _Chosen) -> list[int]:
        """The row groups of a part that may hold a match, in their order: the newest first."""
        count = len(rows.group_rows)
        flags = np.ones(count, np.bool_)
        if self.pruning is not None:
            bounds = GroupBounds(core, self.base.layout, self.timezone)
            is_checked = self._buckets_are_checked(chosen.part.off_bucket)
            condition = self.pruning.whole if is_checked else self.pruning.predicate
            flags = arrays.to_numpy_bool(may_match(condition, bounds, count))
        if (keep := chosen.keep) is not None:
            flags &= [bool(keep[rows.span(group)].any()) for group in range(count)]
        found: list[int] = np.flatnonzero(flags).tolist()
        return found

    def _listed(self, chunk: _Chunk) -> tuple[_Span, Listed]:
        return chunk.span, self._live(chunk.decoded())

    def _live(self, chunk: _Chunk, keys: pa.Array | None = None) -> Listed:
        """The live files of a chunk that may match; with their sort keys in a column of their own, where these are
        given. What is hidden goes first: the columns of a part are fewer and plainer than those of a listing."""
        rows, core, chosen, stats = chunk.rows, chunk.core, chunk.chosen, chunk.stats
        assert core is not None
        if keys is not None:
            core = core.append_column(_KEY, keys)
        first = rows.span(chunk.span.group).start + chunk.span.start
        if chosen.stats is not None:
            stats = chosen.stats.slice(first, chunk.span.count)
        if chosen.keep is not None and not (keep := chosen.keep[first : first + chunk.span.count]).all():
            core, stats = arrays.filtered(core, keep), None if stats is None else stats.filter(arrays.booleans(keep))
        by_stats = chunk.span.count - core.num_rows
        within = None if self.columns.all_stats and chunk.stats is not None else rows.path_range(chunk.span.group)
        hidden = self.replay.hidden(*rows.keys(core), within)
        if hidden is not None:
            core = without(core, hidden)
            stats = None if stats is None else stats.filter(arrays.booleans(~hidden))
        live = rows.listed(core, stats)
        if keys is not None:
            live = live.append_column(_KEY, core.column(_KEY))
        is_checked = self._buckets_are_checked(chosen.part.off_bucket)
        return Listed(self.pruner.prune(live, chosen.is_settled, is_checked), by_stats + live.num_rows)

    def _with_all_stats(self, chosen: _Chosen, rows: PartRows, groups: set[int]) -> Iterator[_Chunk]:
        """Rows with all their stats. The stats file is decoded a little at a time."""
        file = fetch_stats(self.store, self.base.directory, chosen.part, _ALL_STATS)
        positions = file.positions(_ALL_STATS)
        step = max(256, min(ROW_GROUP_ROWS, _CELLS // max(1, len(positions))))
        stats = _Slices(file.batches(positions, step))
        for group, count in enumerate(rows.group_rows):
            core = rows.core(group) if group in groups else None
            for at in range(0, count, step):
                beside = stats.take(min(step, count - at))
                if core is not None:
                    span = _Span(chosen.part, group, at, beside.num_rows)
                    yield _Chunk(rows, span, chosen, core.slice(at, step), beside)

    # Parts whose keys overlap, merged.

    def _merged(self) -> Iterator[Listed]:
        """The live files that may match in the order of their keys, out of parts whose ranges of keys overlap: those of
        files that were written late, or without a key. A part is opened when its greatest key has its turn."""
        assert self._cores is not None
        opened: list[_Run] = []
        waiting, cores = deque(self._parts), iter(self._cores)
        try:
            while True:
                self._open_next(opened, waiting, cores)
                if not opened:
                    return
                floor = self._floor(opened, waiting)
                pieces = [piece for run in opened for piece in run.down_to(floor)]
                self._handed_out += [chunk.span for chunk, _ in pieces]
                yield self._in_order([self._live(chunk, keys) for chunk, keys in pieces])
                opened = [run for run in opened if run.chunk is not None]
        finally:
            self.close()

    def _open_next(self, opened: list[_Run], waiting: deque[int], cores: Iterator[tuple[_Chosen, PartFile]]) -> None:
        """Open the parts that may hold a greater key than those that are open."""
        while waiting and (not opened or _below(max(opened, key=_top).top, self._order.highs[waiting[0]])):
            chosen, core = next(cores, (None, None))
            if chosen is None or core is None:
                waiting.clear()
                return
            while self.base.manifest.parts[waiting.popleft()].id != chosen.part.id:
                pass  # by its stats, that one holds no match
            run = _Run(self._chunks(chosen, core), self._keys_of(chosen.part))
            if run.chunk is not None:
                opened.append(run)

    def _floor(self, opened: Sequence[_Run], waiting: Sequence[int]) -> Any:
        """The least key down to which all rows are in chunks that are decoded; None for all rows."""
        floors = [run.bottom for run in opened if run.has_more]
        floors += [self._order.highs[part] for part in waiting][:1]
        known = [floor for floor in floors if floor is not None]
        return max(known) if known else None

    def _keys_of(self, part: PartEntry) -> Callable[[_Chunk], pa.Array]:
        """What gives the sort keys of chunks of a part."""
        layout, stats = self.base.layout, None
        if key_in_stats(part, layout):
            stats = fetch_stats(self.store, self.base.directory, part, [key_path(layout)])

        def keys(chunk: _Chunk) -> pa.Array:
            return chunk.rows.sort_keys(chunk.span.group, stats).slice(chunk.span.start, chunk.span.count)

        return keys

    def _in_order(self, found: Sequence[Listed]) -> Listed:
        """Rows of several parts as one batch in the order of their keys, with the columns of the listing."""
        keys = pa.concat_arrays([some.rows.column(_KEY) for some in found])
        rows = pa.Table.from_batches([project(some.rows, self.output) for some in found])
        ordered = rows.take(order_of([keys])).combine_chunks().to_batches()
        nothing = pa.RecordBatch.from_pylist([], output_schema(self.output))
        batch = ordered[0] if ordered else nothing
        return Listed(batch, sum(some.considered for some in found), is_projected=True)


class _Run:
    """What is left of a part that is being merged with others."""

    def __init__(self, chunks: Iterator[_Chunk], keys_of: Callable[[_Chunk], pa.Array]) -> None:
        self._chunks = chunks
        self._keys_of = keys_of
        self._next = next(chunks, None)
        self._keys: pa.Array = None
        self.chunk: _Chunk | None = None
        """Decoded, what is left of it; None at the end."""
        self._advance()

    @property
    def has_more(self) -> bool:
        return self._next is not None

    @property
    def top(self) -> Any:
        """The greatest key that is left; None where no key is known."""
        return self._keys[0].as_py()

    @property
    def bottom(self) -> Any:
        """The least key of the chunk."""
        return self._keys[len(self._keys) - 1].as_py()

    def down_to(self, floor: Any) -> list[tuple[_Chunk, pa.Array]]:
        """Take the rows of the chunk whose keys are not below the floor, and their keys."""
        assert self.chunk is not None
        count = len(self._keys)
        if floor is not None:
            count = pc.greater_equal(self._keys, pa.scalar(floor, self._keys.type)).true_count
        if not count:
            return []
        taken = self.chunk.cut(0, count), self._keys.slice(0, count)
        if count < len(self._keys):
            self.chunk, self._keys = self.chunk.cut(count, len(self._keys) - count), self._keys.slice(count)
        else:
            self._advance()
        return [taken]

    def _advance(self) -> None:
        following, self._next = self._next, next(self._chunks, None)
        self.chunk = None if following is None else following.decoded()
        self._keys = None if self.chunk is None else self._keys_of(self.chunk)


def _below(one: Any, other: Any) -> bool:
    """Whether a key is below another; null is below all."""
    return other is not None and (one is None or bool(one < other))


def _top(run: _Run) -> tuple[bool, Any]:
    return run.top is not None, run.top


class _Slices:
    """The rows of batches, in slices of any size."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._held: pa.RecordBatch | None = None

    def take(self, size: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        while size:
            if self._held is None or not self._held.num_rows:
                self._held = next(self._batches)
            found.append(self._held.slice(0, size))
            size -= found[-1].num_rows
            self._held = self._held.slice(found[-1].num_rows)
        return pa.Table.from_batches(found).combine_chunks()


def _stats_size(part: PartEntry) -> int:
    return min(part.stats.size, 1 << 20) if part.stats is not None else part.core.size


def _core_size(chosen: _Chosen) -> int:
    return chosen.part.core.size
