"""Lake operations on Spark: write policies, safe mutations, change feeds, registration.

pyspark is imported only when a function needs Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.lake.change_apply import AppliedChanges, MergeStrategy, apply_changes
    from delta_sidecar.lake.change_feed import CdfReadOptions, CdfReadResult, ChangeFilter, read_changes
    from delta_sidecar.lake.cursors import CdfCursor, CdfCursorStore
    from delta_sidecar.lake.sync_job import SyncReport, SyncStep, sync

_MODULES: dict[str, str] = {
    "AppliedChanges": "change_apply",
    "CdfCursor": "cursors",
    "CdfCursorStore": "cursors",
    "CdfReadOptions": "change_feed",
    "CdfReadResult": "change_feed",
    "ChangeFilter": "change_feed",
    "MergeStrategy": "change_apply",
    "SyncReport": "sync_job",
    "SyncStep": "sync_job",
    "apply_changes": "change_apply",
    "read_changes": "change_feed",
    "sync": "sync_job",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__: list[str] = [
    "AppliedChanges",
    "CdfCursor",
    "CdfCursorStore",
    "CdfReadOptions",
    "CdfReadResult",
    "ChangeFilter",
    "MergeStrategy",
    "SyncReport",
    "SyncStep",
    "apply_changes",
    "read_changes",
    "sync",
]
