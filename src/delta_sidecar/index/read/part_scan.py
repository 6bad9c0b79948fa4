"""The live files of an index, the greatest keys first: chosen parts are fetched ahead and decoded in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.flow.ordered import Ordered
from delta_sidecar.index.read.described_index import DescribedIndex
from delta_sidecar.index.read.part_choice import PartChoice
from delta_sidecar.index.read.part_fetch import MatchingPart, PartFetch
from delta_sidecar.index.read.part_file import PartFile, fetch_stats
from delta_sidecar.index.read.part_rows import ALL_STATS, PartRows, file_keys_of_part
from delta_sidecar.index.read.row_chunks import SORT_KEY, PartSpan, RowChunk
from delta_sidecar.listing.base import BROKEN, AtMost, BaseCounts, LiveRows, Tier
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.replay import RangeFilter, Replay, without
from delta_sidecar.storage.store import Store

_log = logging.getLogger(__name__)

_FEW_KEPT = 4
"""The rows that the stats leave are few if they are fewer than one in this many."""


class PartScan:
    """What will be read of an index for one request, and the one pass over it (a `BasePlan`)."""

    def __init__(self, index: DescribedIndex, tier: Tier, store: Store, request: FileRequest) -> None:
        self.tier = tier
        self.counts = BaseCounts()
        self._index = index
        self._store = store
        self._request = request
        self._limits = request.settings.limits.parts
        self._choice = PartChoice(index, request)
        self._fetch = PartFetch(self._choice, store)
        self._filter: RangeFilter | None = None
        """None where no commit came after the index: then all its files are live."""
        self._rows_out: list[PartSpan] = []
        self._few_are_kept = False
        """Whether the stats leave few rows of the present part."""

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(part.id for part in self._choice.entries())

    @property
    def at_most(self) -> AtMost:
        return self._choice.at_most

    def begin(self) -> None:
        with suppress(CorruptIndexError):  # raised again when the part is read
            self._fetch.begin()

    def rows(self, replay: Replay) -> Iterator[LiveRows]:
        """The live files that may match, a row group at a time."""
        self._filter = replay.range_filter() if replay.mask_size else None
        parts = self._index.manifest.parts
        self.counts.parts_total, self.counts.row_groups_total = len(parts), sum(parts.row_groups)
        try:
            if self._choice.merges:
                yield from self._merged()
            else:
                yield from self._in_turn()
        finally:
            self.close()

    def _in_turn(self) -> Iterator[LiveRows]:
        """Parts one after another, if their keys do not overlap or order does not matter."""
        self._fetch.begin()
        is_alone = self._request.order.is_limited or self._request.source.all_stats
        if is_alone or self._choice.rows <= self._limits.few_rows:
            for task in self._tasks():
                yield self._noted(*task())
            return
        ordered = Ordered(self._tasks(), self._limits.helpers, self._tasks_ahead)
        try:
            yield from (self._noted(*result) for result in ordered)
        finally:
            ordered.close()

    def _noted(self, span: PartSpan, rows: LiveRows) -> LiveRows:
        self._rows_out.append(span)
        return rows

    def _merged(self) -> Iterator[LiveRows]:
        """Rows of parts whose keys overlap, in the order of their keys."""
        from delta_sidecar.index.read.part_merge import PartMerge, in_key_order

        chunked = ((matching, self._chunks(matching, core)) for matching, core in self._fetch)
        for pieces in PartMerge(self._choice, self._store, chunked):
            rows = in_key_order([self._live(chunk, keys) for chunk, keys in pieces], self._request.output)
            self._rows_out += [chunk.span for chunk, _ in pieces]
            yield rows

    def hide_rows_out(self, replay: Replay) -> bool:
        try:
            replay.hide(self._file_keys_out())
        except BROKEN as error:
            _log.warning("the files returned so far cannot be read again: %s", error)
            return False
        return True

    def _file_keys_out(self) -> Iterator[pa.RecordBatch]:
        """`path` and `deletion_vector` of every row that was returned, read once more."""
        for part, spans in groupby(self._rows_out, key=attrgetter("part")):
            core = self._fetch.core_again(part)
            for group, group_spans in groupby(spans, key=attrgetter("group")):
                file_keys = file_keys_of_part(core, [group])
                yield from (file_keys.slice(span.start, span.count) for span in group_spans)

    def close(self) -> None:
        self._fetch.close()

    def _tasks(self) -> Iterator[Callable[[], tuple[PartSpan, LiveRows]]]:
        for matching, core in self._fetch:
            yield from (partial(self._task, chunk) for chunk in self._chunks(matching, core))

    def _task(self, chunk: RowChunk) -> tuple[PartSpan, LiveRows]:
        return chunk.span, self._live(chunk.decoded())

    def _chunks(self, matching: MatchingPart, core: PartFile) -> Iterator[RowChunk]:
        """The chunks of a part that may hold matching rows, in order."""
        columns = self._request.settled_source if matching.is_settled else self._request.source
        rows = PartRows(core, matching.part, columns, self._index.layout)
        groups = self._groups(core, rows, matching)
        if not groups:
            return
        self._few_are_kept = matching.keep is not None and int(matching.keep.sum()) * _FEW_KEPT < len(matching.keep)
        self.counts.parts_read += 1
        self.counts.row_groups_read += len(groups)
        self.counts.groups[matching.part.id] = tuple(groups)
        if self._request.source.all_stats and matching.part.stats is not None:
            yield from self._with_all_stats(matching, rows, set(groups))
        else:
            spans = (PartSpan(matching.part, group, 0, rows.group_rows[group]) for group in groups)
            yield from (RowChunk(rows, span, matching) for span in spans)

    def _tasks_ahead(self) -> int:
        """Twice as many if stats leave few rows: the helpers need work while the next part's stats are tested."""
        depth = self._request.settings.row_groups_per_batch
        return 2 * depth if self._few_are_kept else depth

    def _groups(self, core: PartFile, rows: PartRows, matching: MatchingPart) -> list[int]:
        """The row groups of a part that may hold a match, in their order: the newest first."""
        count = len(rows.group_rows)
        flags = np.ones(count, np.bool_)
        if self._request.pruning is not None:
            from delta_sidecar.index.read.part_bounds import GroupBounds
            from delta_sidecar.pruning.may_match import may_match

            bounds = GroupBounds(core, self._index.layout, self._request.settings.partition_timezone)
            is_checked = self._choice.buckets_are_checked(matching.part.off_bucket)
            condition = self._request.pruning.whole if is_checked else self._request.pruning.predicate
            flags = arrays.to_numpy_bool(may_match(condition, bounds, count))
        if (keep := matching.keep) is not None:
            flags &= [bool(keep[rows.span(group)].any()) for group in range(count)]
        groups: list[int] = np.flatnonzero(flags).tolist()
        return groups

    def _live(self, chunk: RowChunk, keys: pa.Array | None = None) -> LiveRows:
        """The live files of a chunk that may match; with their sort keys in a column of their own, where these are
        given. Rows that the stats rule out go first, then the hidden ones: the columns of a part are fewer and plainer
        than those of a listing."""
        rows, core, matching, stats = chunk.rows, chunk.core, chunk.matching, chunk.stats_rows
        assert core is not None
        if keys is not None:
            core = core.append_column(SORT_KEY, keys)
        first = chunk.start
        if matching.stats_rows is not None:
            stats = matching.stats_rows.slice(first, chunk.span.count)
        if matching.keep is not None and not (keep := matching.keep[first : first + chunk.span.count]).all():
            core, stats = arrays.filtered(core, keep), None if stats is None else stats.filter(arrays.booleans(keep))
        by_stats = chunk.span.count - core.num_rows
        hidden = None
        if self._filter is not None:
            hidden = self._filter.hidden(*rows.file_keys(core), rows.path_range(chunk.span.group))
        if hidden is not None:
            core = without(core, hidden)
            stats = None if stats is None else stats.filter(arrays.booleans(~hidden))
        live = rows.listed(core, stats)
        if keys is not None:
            live = live.append_column(SORT_KEY, core.column(SORT_KEY))
        count = by_stats + live.num_rows
        if self._request.pruning is not None:
            is_checked = self._choice.buckets_are_checked(matching.part.off_bucket)
            live = self._request.prune(live, matching.is_settled, is_checked)
        return LiveRows(live, count)

    def _with_all_stats(self, matching: MatchingPart, rows: PartRows, groups: set[int]) -> Iterator[RowChunk]:
        """Rows with all their stats. The stats file is decoded a little at a time."""
        limits = self._limits
        file = fetch_stats(self._store, self._index.directory, matching.part, ALL_STATS, limits.whole_stats)
        positions = file.positions(ALL_STATS)
        step = max(256, min(limits.stats_rows, limits.stats_cells // max(1, len(positions))))
        stats = _Slices(file.batches(positions, step), file.name)
        for group, count in enumerate(rows.group_rows):
            core = rows.core(group) if group in groups else None
            for at in range(0, count, step):
                beside = stats.take(min(step, count - at))
                if core is not None:
                    span = PartSpan(matching.part, group, at, beside.num_rows)
                    yield RowChunk(rows, span, matching, core.slice(at, step), beside)


class _Slices:
    """The rows of batches, in slices of any size."""

    def __init__(self, batches: Iterator[pa.RecordBatch], name: str) -> None:
        self._batches = batches
        self._name = name
        self._held: pa.RecordBatch | None = None

    def take(self, size: int) -> pa.Table:
        slices: list[pa.RecordBatch] = []
        while size:
            if self._held is None or not self._held.num_rows:
                self._held = next(self._batches, None)
            if self._held is None:
                raise CorruptIndexError(f"{self._name} has fewer rows than its core; build the index again")
            slices.append(self._held.slice(0, size))
            size -= slices[-1].num_rows
            self._held = self._held.slice(slices[-1].num_rows)
        return pa.Table.from_batches(slices).combine_chunks()
