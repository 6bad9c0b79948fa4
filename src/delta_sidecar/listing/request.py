"""The request of a listing: which columns, which files, how many, and in which order a base is read."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
from msgspec import Meta, Struct

from delta_sidecar.errors import OptionError
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
"""Threads that decode a checkpoint: more take more memory, and soon wait for each other."""


class ReadingOrder(Struct, frozen=True):
    """How the commits and the base are read, as far as this decides the order of the files."""

    is_limited: bool
    """Whether there is a limit. If so, commits are read one by one, and the files of an index come in the order of its
    keys."""
    lanes: Annotated[int, Meta(ge=1)]
    """Threads that decode a checkpoint; their batches alternate."""
    batch_size: Annotated[int, Meta(ge=1)]
    """Rows of a batch, in each lane."""

    def as_read(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the commits that are read in this order."""
        return snapshot.by_single_commits() if self.is_limited else snapshot


@dataclass(frozen=True)
class FileRequest:
    """Made once for a listing; every base is read for it."""

    output: tuple[str, ...]
    """The columns of the listing."""
    pruning: BucketRanges | None = None
    """The predicate, and what follows from it for time buckets."""
    limit: int | None = None
    settings: Settings = field(default_factory=Settings)
    stats_batch_size: int = 2_048
    """Rows of a batch that has JSON stats, about a kilobyte in each row."""
    resumed_order: ReadingOrder | None = None
    """The order of the listing that this one resumes."""

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
        """The columns that are needed to prune and to return the output."""
        return source_columns(self.output, None if self.pruning is None else self.pruner)

    @cached_property
    def settled_source(self) -> FileColumns:
        """The columns that are still needed after files were pruned by their stats."""
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
        """One lane if stats are parsed (slower than decoding) or a limit is set; otherwise two."""
        if self.resumed_order is not None:
            return self.resumed_order
        is_limited, has_stats, most = self.limit is not None, "stats" in self.source.names, self.settings.batch_size
        size = min(most, self.stats_batch_size) if has_stats else most
        return ReadingOrder(is_limited, 1 if has_stats or is_limited else _LANES, size)


def checked_limit(limit: Any) -> int | None:
    """The limit, cut to the greatest possible count; `OptionError` if it is not a count."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 0:
        raise OptionError(f"limit is {limit!r}; it takes a whole number, 0 or more, or None for no limit")
    return min(int(limit), sys.maxsize)
