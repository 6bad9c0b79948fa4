"""Lake operations on Spark: write policies, safe mutations, change feeds, registration.

pyspark is imported only when a function needs Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.lake.file_pruning import (
        FilePruningPolicy,
        FilePruningResult,
        PartitionFilter,
        StatsFilter,
        prune_files,
    )
    from delta_sidecar.lake.snapshot_key import SnapshotKey

_MODULES: dict[str, str] = {
    "FilePruningPolicy": "file_pruning",
    "FilePruningResult": "file_pruning",
    "PartitionFilter": "file_pruning",
    "SnapshotKey": "snapshot_key",
    "StatsFilter": "file_pruning",
    "prune_files": "file_pruning",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__: list[str] = [
    "FilePruningPolicy",
    "FilePruningResult",
    "PartitionFilter",
    "SnapshotKey",
    "StatsFilter",
    "prune_files",
]
