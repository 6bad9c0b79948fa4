"""Which parts of an index may hold a match, by its manifest alone: nothing is read here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from delta_sidecar import arrays
from delta_sidecar.index.format.part_entries import FileEntries, PartEntry
from delta_sidecar.index.format.seals import end_length
from delta_sidecar.index.read.described_index import DescribedIndex
from delta_sidecar.index.read.part_rows import StatsColumns, has_minimum_key
from delta_sidecar.listing.base import AtMost
from delta_sidecar.listing.request import FileRequest


@dataclass(frozen=True)
class PartChoice:
    """The parts that may hold a match, the newest first: those of the greatest keys."""

    index: DescribedIndex
    request: FileRequest

    @cached_property
    def positions(self) -> list[int]:
        """Their positions in the manifest; entries are made later, one by one."""
        parts, pruning = self.index.manifest.parts, self.request.pruning
        chosen: Sequence[int] = range(len(parts))
        if pruning is not None:
            from delta_sidecar.index.read.part_bounds import PartBounds
            from delta_sidecar.pruning.may_match import may_match

            bounds = PartBounds(parts, self.index.layout, self.request.settings.partition_timezone)
            flags = arrays.to_numpy_bool(may_match(pruning.whole, bounds, len(parts)))
            doubted = np.array([not self.buckets_are_checked(count) for count in parts.off_bucket], np.bool_)
            if doubted.any() and pruning.derived is not None:
                flags |= doubted & arrays.to_numpy_bool(may_match(pruning.predicate, bounds, len(parts)))
            chosen = np.flatnonzero(flags).tolist()
        return self.index.part_order.newest_first(chosen)

    def entries(self) -> Iterator[PartEntry]:
        parts = self.index.manifest.parts
        return (parts[at] for at in self.positions)

    @cached_property
    def stats_columns(self) -> StatsColumns:
        """The stats that the predicate asks for."""
        return StatsColumns(self.request.source.stats_paths)

    @cached_property
    def tries_stats(self) -> bool:
        """Whether stats files are read first, for bounds that are not in the core."""
        needed = self.stats_columns.needs_stats(self.index.layout) or self._doubts_buckets
        return needed and not self.request.source.all_stats

    @property
    def rows(self) -> int:
        """Rows of the chosen parts."""
        rows = self.index.manifest.parts.rows
        return sum(rows[at] for at in self.positions)

    @cached_property
    def merges(self) -> bool:
        """Whether rows of several parts are merged in the order of their keys."""
        return self.request.order.is_limited and self.index.part_order.overlap(self.positions)

    @property
    def at_most(self) -> AtMost:
        parts = self.index.manifest.parts
        # Once for the predicate or the listing, and once for the sort keys.
        times = (self.tries_stats or self.request.source.all_stats) + (
            self.merges and has_minimum_key(self.index.layout)
        )
        with_stats = [at for at in self.positions if parts.stats.size[at] > 0] if times else []
        size = _bytes(parts.core, self.positions) + times * _bytes(parts.stats, with_stats)
        groups = sum(parts.row_groups[at] for at in self.positions)
        return AtMost(groups, size, len(with_stats))

    @property
    def _doubts_buckets(self) -> bool:
        """Whether rows of a chosen part are compared with their buckets. A row without a time contradicts its bucket,
        and how many there are is not in the core."""
        pruning, counts = self.request.pruning, self.index.manifest.parts.off_bucket
        if pruning is None or pruning.derived is None:
            return False
        return any(not self.buckets_are_checked(counts[at]) for at in self.positions)

    def buckets_are_checked(self, off_bucket: int) -> bool:
        """Whether the builder checked this part's rows against the buckets used for pruning, and all agreed."""
        return off_bucket == 0 and self._buckets_are_known

    @cached_property
    def _buckets_are_known(self) -> bool:
        known, pruning = self.index.layout.buckets, self.request.pruning
        return pruning is None or all(bucket.form in known for bucket in pruning.buckets)


def _bytes(files: FileEntries, positions: Sequence[int]) -> int:
    """Bytes of some files, their ends counted twice: of a file that is read by ranges, the end is read first."""
    return sum(files.size[at] + end_length(files.footer[at]) for at in positions)
