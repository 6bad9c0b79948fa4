"""Fetch the files of chosen parts ahead of their reader.

A predicate on columns whose bounds are in the stats file is first tested on these bounds alone. If no file of a part
may match, its core is never fetched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

import pyarrow as pa
from msgspec import Struct

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags
from delta_sidecar.flow.read_ahead import Ahead
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.read.part_choice import PartChoice
from delta_sidecar.index.read.part_file import PartFile, fetch_core_cached, fetch_stats
from delta_sidecar.index.read.part_rows import are_known, bounds_only
from delta_sidecar.storage.requests import begin
from delta_sidecar.storage.store import Store, is_local


class MatchingPart(Struct, frozen=True):
    """A part that may hold a match."""

    part: PartEntry
    keep: Flags | None = None
    """Rows that may match by their stats; None for all."""
    stats_rows: pa.Table | None = None
    """The stats of all rows, if they were read for that and are still needed; otherwise None."""
    is_settled: bool = False
    """Whether the stats alone have decided: no bound is unknown, and none is in the core."""
    core: PartFile | None = None
    """Its core, if that was fetched for the stats, which are in the same file."""


class PartFetch:
    """An iterator over the parts that may match, with their cores, in the order of the choice."""

    def __init__(self, choice: PartChoice, store: Store) -> None:
        self._choice = choice
        self._index = choice.index
        self._request = choice.request
        self._limits = choice.request.settings.limits.parts
        self._store = store
        self._is_local = is_local(store)
        self._stats_ahead: Ahead[PartEntry, PartFile] | None = None
        self._cores_ahead: Ahead[MatchingPart, PartFile] | None = None
        self._stopped = False
        self._read: deque[tuple[str, PartFile]] = deque(maxlen=self._limits.few_parts)
        """The last few cores that were read by ranges, with what was read of them."""

    def begin(self) -> None:
        """Start the first requests. Local files are read when needed."""
        if not self._is_local:
            self._begun()

    def _begun(self) -> Ahead[MatchingPart, PartFile]:
        if self._cores_ahead is not None:
            return self._cores_ahead
        ahead = 0 if self._is_local else 1 if self._request.order.is_limited else self._limits.ahead
        matching: Iterator[MatchingPart]
        if self._choice.tries_stats:
            self._stats_ahead = Ahead(self._choice.entries(), self._send_for_stats, _stats_size, ahead)
            self._stats_ahead.begin()
            matching = self._matching_by_stats(self._stats_ahead)
        else:
            matching = map(MatchingPart, self._choice.entries())
        self._cores_ahead = Ahead(matching, self._send_for_core, _core_size, ahead)
        if self._stats_ahead is None:
            self._cores_ahead.begin()
        return self._cores_ahead

    def __iter__(self) -> Iterator[tuple[MatchingPart, PartFile]]:
        return iter(self._begun())

    def core_again(self, part: PartEntry) -> PartFile:
        """The core of a part that was read before; from memory if possible, because the file may be gone."""
        return dict(self._read).get(part.id) or self._core(part, keep=False)

    def close(self) -> None:
        """Start no more requests."""
        if self._stopped:
            return
        self._stopped = True
        for ahead in (self._cores_ahead, self._stats_ahead):
            if ahead is not None:
                ahead.close()

    def _send_for_stats(self, part: PartEntry) -> Future[PartFile]:
        if part.stats is None:
            return self._send_for_core(MatchingPart(part))
        paths = self._choice.stats_columns.in_stats(self._index.layout)
        whole = self._limits.whole_stats
        return begin(
            self._store, fetch_stats, self._store, self._index.directory, part, paths, whole, lambda: not self._stopped
        )

    def _send_for_core(self, matching: MatchingPart) -> Future[PartFile]:
        if matching.core is not None:
            known: Future[PartFile] = Future()
            known.set_result(matching.core)
            return known
        return begin(self._store, self._core, matching.part, len(self._choice.positions) <= self._limits.few_parts)

    def _core(self, part: PartEntry, keep: bool) -> PartFile:
        whole = self._limits.whole_core if self._by_ranges else None
        core = fetch_core_cached(self._store, self._index.directory, part, keep, whole)
        if self._by_ranges:
            self._read.append((part.id, core))
        return core

    @property
    def _by_ranges(self) -> bool:
        """Whether few row groups of a part are wanted, and a second look at its file costs no trip."""
        is_narrow = self._request.pruning is not None and len(self._choice.positions) <= self._limits.few_parts
        return self._is_local and (is_narrow or self._request.order.is_limited)

    def _matching_by_stats(self, answers: Ahead[PartEntry, PartFile]) -> Iterator[MatchingPart]:
        """Parts in which some row may match by its stats."""
        paths = self._choice.stats_columns.in_stats(self._index.layout)
        for part, file in answers:
            if part.stats is None:
                yield MatchingPart(part, core=file)
                continue
            stats = file.read(range(file.metadata.num_row_groups), file.positions(paths))
            keep = arrays.to_numpy_bool(self._request.pruner.passing(bounds_only(stats, self._index.layout)))
            if keep.any():
                is_settled = self._is_settled(stats) and self._choice.buckets_are_checked(part.off_bucket)
                yield MatchingPart(part, keep, None if is_settled else stats, is_settled)

    def _is_settled(self, stats: pa.Table) -> bool:
        time = self._index.layout.time
        in_core = time is not None and time.path in self._request.source.stats_paths
        if in_core or self._request.pruner.mixes_partition_and_stats or "stats" in self._request.settled_source.names:
            return False
        return are_known(stats, self._request.source.stats_paths)


def _stats_size(part: PartEntry) -> int:
    return min(part.stats.size, 1 << 20) if part.stats is not None else part.core.size


def _core_size(matching: MatchingPart) -> int:
    return matching.part.core.size
