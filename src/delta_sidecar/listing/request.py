"""What is asked of the live files of a version: which columns, which files, how many, and how far ahead to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from delta_sidecar.log.checkpoint_rows import FileColumns
from delta_sidecar.log.protocol import supports_generated_columns
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.pruning.add_pruner import AddPruner
from delta_sidecar.pruning.bucket_ranges import BucketRanges, bucket_ranges
from delta_sidecar.pruning.file_pruner import FilePruner
from delta_sidecar.pruning.listing_columns import output_columns, source_columns
from delta_sidecar.settings import Settings


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
            generated = supports_generated_columns(snapshot.protocol)
            pruning = bucket_ranges(predicate, snapshot.schema, snapshot.partition_columns, generated)
        return cls(output_columns(columns), pruning, limit, settings)

    @cached_property
    def pruner(self) -> FilePruner:
        return FilePruner(self.pruning, self.settings.partition_timezone)

    @cached_property
    def add_pruner(self) -> AddPruner:
        return AddPruner(self.pruner)

    @cached_property
    def source(self) -> FileColumns:
        """What must be read to prune and to give the columns."""
        return source_columns(self.output, self.pruner)

    @cached_property
    def settled_source(self) -> FileColumns:
        """What is left to read where the stats have decided already."""
        return source_columns(self.output, self.pruner, stats_are_settled=True)

    @property
    def batch_size(self) -> int:
        """Rows read at a time."""
        most = self.settings.batch_size
        return min(most, self.stats_batch_size) if "stats" in self.source.names else most
