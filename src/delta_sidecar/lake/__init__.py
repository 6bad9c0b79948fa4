"""Lake operations on Spark: write policies, safe mutations, change feeds, registration.

pyspark is imported only when a function needs Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.lake.dataset_sources import DatasetSourceOptions, OneShotDataset, open_dataset
    from delta_sidecar.lake.file_pruning import (
        FilePruningPolicy,
        FilePruningResult,
        PartitionFilter,
        StatsFilter,
        prune_files,
    )
    from delta_sidecar.lake.registration import (
        CompatibilityFacts,
        ProviderCapabilities,
        ScanConfig,
        TableRegistration,
        register_tables,
    )
    from delta_sidecar.lake.snapshot_key import SnapshotKey

_MODULES: dict[str, str] = {
    "CompatibilityFacts": "registration",
    "DatasetSourceOptions": "dataset_sources",
    "FilePruningPolicy": "file_pruning",
    "FilePruningResult": "file_pruning",
    "OneShotDataset": "dataset_sources",
    "PartitionFilter": "file_pruning",
    "ProviderCapabilities": "registration",
    "ScanConfig": "registration",
    "SnapshotKey": "snapshot_key",
    "StatsFilter": "file_pruning",
    "TableRegistration": "registration",
    "open_dataset": "dataset_sources",
    "prune_files": "file_pruning",
    "register_tables": "registration",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__: list[str] = [
    "CompatibilityFacts",
    "DatasetSourceOptions",
    "FilePruningPolicy",
    "FilePruningResult",
    "OneShotDataset",
    "PartitionFilter",
    "ProviderCapabilities",
    "ScanConfig",
    "SnapshotKey",
    "StatsFilter",
    "TableRegistration",
    "open_dataset",
    "prune_files",
    "register_tables",
]
