"""Fetch the files of chosen parts ahead of their reader.

A predicate on columns whose bounds are in the stats file is first tested on these bounds alone. If no file of a part
may match, its core is never fetched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from msgspec import Struct

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags
from delta_sidecar.flow.pool import submit
from delta_sidecar.flow.read_ahead import Ahead
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.read.part_choice import PartChoice
from delta_sidecar.index.read.part_file import PartFile, fetch_core_cached, fetch_stats
from delta_sidecar.index.read.part_rows import are_known, bounds_only
from delta_sidecar.storage.store import Store, is_local

Item = TypeVar("Item")


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
        self._ahead: list[Ahead[Any, PartFile]] = []
        self._cores: Iterable[tuple[MatchingPart, PartFile]] | None = None
        self._stopped = False
        self._read: deque[tuple[str, PartFile]] = deque(maxlen=self._limits.few_parts)
        """The last few cores that were read by ranges, with what was read of them."""

    def begin(self) -> None:
        """Start the first requests. Local files are read when needed."""
        if self._cores is None:
            self._cores = self._matching_with_cores()

    def __iter__(self) -> Iterator[tuple[MatchingPart, PartFile]]:
        self.begin()
        assert self._cores is not None
        return iter(self._cores)

    def core_again(self, part: PartEntry) -> PartFile:
        """The core of a part that was read before; from memory if possible, because the file may be gone."""
        return dict(self._read).get(part.id) or self._core(part, keep=False)

    def close(self) -> None:
        """Start no more requests."""
        if self._stopped:
            return
        self._stopped = True
        for ahead in self._ahead:
            ahead.close()

    def _matching_with_cores(self) -> Iterable[tuple[MatchingPart, PartFile]]:
        parts = self._choice.entries()
        if not self._choice.tries_stats:
            return self._fetched(map(MatchingPart, parts), self._core_of, _core_size, begin=True)
        with_stats = self._fetched(parts, self._stats, self._stats_size, begin=True)
        # The first core is known when the first stats have come: nothing to begin with.
        return self._fetched(self._matching_by_stats(with_stats), self._core_of, _core_size, begin=False)

    def _fetched(
        self, items: Iterator[Item], fetch: Callable[[Item], PartFile], size: Callable[[Item], int], begin: bool
    ) -> Iterable[tuple[Item, PartFile]]:
        """Items with their files: from a local directory read one by one, from a store fetched ahead."""
        if self._is_local:
            return ((item, fetch(item)) for item in items if not self._stopped)
        most = 1 if self._request.order.is_limited else self._limits.ahead
        ahead = Ahead(items, lambda item: submit(fetch, item), size, most)
        self._ahead.insert(0, ahead)
        if begin:
            ahead.begin()
        return ahead

    def _stats(self, part: PartEntry) -> PartFile:
        """The file that has the stats of a part."""
        if part.stats is None:
            return self._core_of(MatchingPart(part))
        paths = self._choice.stats_columns.in_stats(self._index.layout)
        whole = self._limits.whole_stats
        return fetch_stats(self._store, self._index.directory, part, paths, whole, lambda: not self._stopped)

    def _stats_size(self, part: PartEntry) -> int:
        return part.core.size if part.stats is None else min(part.stats.size, self._limits.whole_stats)

    def _core_of(self, matching: MatchingPart) -> PartFile:
        is_one_of_few = len(self._choice.positions) <= self._limits.few_parts
        return matching.core or self._core(matching.part, keep=is_one_of_few)

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

    def _matching_by_stats(self, answers: Iterable[tuple[PartEntry, PartFile]]) -> Iterator[MatchingPart]:
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


def _core_size(matching: MatchingPart) -> int:
    return matching.part.core.size
