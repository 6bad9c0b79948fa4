"""What is asked of the live files of a version: which columns, which files, how many, and how far ahead to read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from delta_sidecar.log.checkpoint_rows import FileColumns
from delta_sidecar.log.protocol import supports_generated_columns
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.pruning.listing_columns import output_columns, source_columns
from delta_sidecar.settings import Settings

if TYPE_CHECKING:
    from delta_sidecar.predicates.expression import Expression
    from delta_sidecar.pruning.add_pruner import AddPruner
    from delta_sidecar.pruning.bucket_ranges import BucketRanges
    from delta_sidecar.pruning.file_pruner import FilePruner

_LANES = min(2, os.cpu_count() or 1)
"""Threads that decode a checkpoint: more cost memory in proportion and soon wait for each other."""


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """How a base is read, as far as the order of its files depends on it."""

    paged: bool
    """Whether few files are wanted: those of an index come in the order of its keys."""
    lanes: int
    """Threads that decode a checkpoint and take turns."""
    batch_size: int
    """Rows read at a time, in each turn."""


@dataclass(frozen=True)
class FileRequest:
    """Made once for a listing, and read by whatever the files come from."""

    output: tuple[str, ...]
    """The columns of the listing."""
    pruning: BucketRanges | None = None
    """The predicate, and what follows from it for time buckets."""
    limit: int | None = None
    settings: Settings = field(default_factory=Settings)
    stats_batch_size: int = 2_048
    """Rows read at a time when each carries a kilobyte of JSON stats."""
    resumed: ReadingOrder | None = None
    """The order of the listing that this one goes on with."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        settings: Settings,
        predicate: Expression | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> FileRequest:
        pruning = None
        if predicate is not None:
            from delta_sidecar.pruning.bucket_ranges import bucket_ranges

            generated = supports_generated_columns(snapshot.protocol)
            pruning = bucket_ranges(predicate, snapshot.schema, snapshot.partition_columns, generated)
        return cls(output_columns(columns), pruning, limit, settings)

    @cached_property
    def pruner(self) -> FilePruner:
        from delta_sidecar.pruning.file_pruner import FilePruner

        return FilePruner(self.pruning, self.settings.partition_timezone)

    @cached_property
    def add_pruner(self) -> AddPruner:
        from delta_sidecar.pruning.add_pruner import AddPruner

        return AddPruner(self.pruner)

    @cached_property
    def source(self) -> FileColumns:
        """What must be read to prune and to give the columns."""
        return source_columns(self.output, None if self.pruning is None else self.pruner)

    @cached_property
    def settled_source(self) -> FileColumns:
        """What is left to read where the stats have decided already."""
        if self.pruning is None:
            return self.source
        return source_columns(self.output, self.pruner, stats_are_settled=True)

    def prune(
        self, rows: pa.RecordBatch, stats_are_settled: bool = False, buckets_are_checked: bool = False
    ) -> pa.RecordBatch:
        """The rows that may match: see `FilePruner.prune`. Without a predicate all of them."""
        return rows if self.pruning is None else self.pruner.prune(rows, stats_are_settled, buckets_are_checked)

    @cached_property
    def order(self) -> ReadingOrder:
        """Parsing stats takes longer than decoding, and few files need no help: such checkpoints have one lane."""
        if self.resumed is not None:
            return self.resumed
        paged, has_stats, most = self.limit is not None, "stats" in self.source.names, self.settings.batch_size
        size = min(most, self.stats_batch_size) if has_stats else most
        return ReadingOrder(paged, 1 if has_stats or paged else _LANES, size)
