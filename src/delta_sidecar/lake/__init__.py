"""Lake operations on Spark: write policies, safe mutations, change feeds, registration.

pyspark is imported only when a function needs Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.lake.change_apply import AppliedChanges, MergeStrategy, apply_changes
    from delta_sidecar.lake.change_feed import CdfReadOptions, CdfReadResult, ChangeFilter, read_changes
    from delta_sidecar.lake.commit_marks import LineageContext
    from delta_sidecar.lake.commit_options import CommitOptions, EnsuredTable, WriteOutcome
    from delta_sidecar.lake.cursors import CdfCursor, CdfCursorStore
    from delta_sidecar.lake.dataset_sources import DatasetSourceOptions, OneShotDataset, open_dataset
    from delta_sidecar.lake.file_pruning import (
        FilePruningPolicy,
        FilePruningResult,
        PartitionFilter,
        StatsFilter,
        prune_files,
    )
    from delta_sidecar.lake.merge_clauses import MergeClause
    from delta_sidecar.lake.operations import delete, ensure_table, merge, optimize, update, write
    from delta_sidecar.lake.policies import (
        DeltaMutationPolicy,
        DeltaRetryPolicy,
        DeltaSchemaPolicy,
        DeltaWritePolicy,
        LakePolicy,
        load_policy,
    )
    from delta_sidecar.lake.policy_effects import PolicyEffects
    from delta_sidecar.lake.registration import (
        CompatibilityFacts,
        ProviderCapabilities,
        ScanConfig,
        TableRegistration,
        register_tables,
    )
    from delta_sidecar.lake.snapshot_key import SnapshotKey
    from delta_sidecar.lake.sync_job import SyncReport, SyncStep, sync

_MODULES = {
    "AppliedChanges": "change_apply",
    "CdfCursor": "cursors",
    "CdfCursorStore": "cursors",
    "CdfReadOptions": "change_feed",
    "CdfReadResult": "change_feed",
    "ChangeFilter": "change_feed",
    "CommitOptions": "commit_options",
    "CompatibilityFacts": "registration",
    "DatasetSourceOptions": "dataset_sources",
    "DeltaMutationPolicy": "policies",
    "DeltaRetryPolicy": "policies",
    "DeltaSchemaPolicy": "policies",
    "DeltaWritePolicy": "policies",
    "EnsuredTable": "commit_options",
    "FilePruningPolicy": "file_pruning",
    "FilePruningResult": "file_pruning",
    "LakePolicy": "policies",
    "LineageContext": "commit_marks",
    "MergeClause": "merge_clauses",
    "MergeStrategy": "change_apply",
    "OneShotDataset": "dataset_sources",
    "PartitionFilter": "file_pruning",
    "PolicyEffects": "policy_effects",
    "ProviderCapabilities": "registration",
    "ScanConfig": "registration",
    "SnapshotKey": "snapshot_key",
    "StatsFilter": "file_pruning",
    "SyncReport": "sync_job",
    "SyncStep": "sync_job",
    "TableRegistration": "registration",
    "WriteOutcome": "commit_options",
    "apply_changes": "change_apply",
    "delete": "operations",
    "ensure_table": "operations",
    "load_policy": "policies",
    "merge": "operations",
    "open_dataset": "dataset_sources",
    "optimize": "operations",
    "prune_files": "file_pruning",
    "read_changes": "change_feed",
    "register_tables": "registration",
    "sync": "sync_job",
    "update": "operations",
    "write": "operations",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AppliedChanges",
    "CdfCursor",
    "CdfCursorStore",
    "CdfReadOptions",
    "CdfReadResult",
    "ChangeFilter",
    "CommitOptions",
    "CompatibilityFacts",
    "DatasetSourceOptions",
    "DeltaMutationPolicy",
    "DeltaRetryPolicy",
    "DeltaSchemaPolicy",
    "DeltaWritePolicy",
    "EnsuredTable",
    "FilePruningPolicy",
    "FilePruningResult",
    "LakePolicy",
    "LineageContext",
    "MergeClause",
    "MergeStrategy",
    "OneShotDataset",
    "PartitionFilter",
    "PolicyEffects",
    "ProviderCapabilities",
    "ScanConfig",
    "SnapshotKey",
    "StatsFilter",
    "SyncReport",
    "SyncStep",
    "TableRegistration",
    "WriteOutcome",
    "apply_changes",
    "delete",
    "ensure_table",
    "load_policy",
    "merge",
    "open_dataset",
    "optimize",
    "prune_files",
    "read_changes",
    "register_tables",
    "sync",
    "update",
    "write",
]
