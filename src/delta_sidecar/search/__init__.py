"""Search tables: full-text splits of rows, a log that says which are live, queries, and companions of Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.search.companion.following import Companion, FollowReport, Lag, follow, rows_of_hits
    from delta_sidecar.search.companion.searching import CompanionSearch, open_search
    from delta_sidecar.search.log.actions import MergeSkip, RemovedSplit, Split
    from delta_sidecar.search.log.options import SearchOptions
    from delta_sidecar.search.query.searching import SearchHits, SearchMetrics
    from delta_sidecar.search.spark_search import register_search
    from delta_sidecar.search.splits.building import SplitsReport, build_splits
    from delta_sidecar.search.splits.cache import SplitCache
    from delta_sidecar.search.splits.fields import SplitField, SplitFields
    from delta_sidecar.search.splits.merging import MergeReport, merge_splits
    from delta_sidecar.search.splits.on_spark import stream_splits
    from delta_sidecar.search.splits.their_splits import their_rows
    from delta_sidecar.search.splits.writer import SplitWriter
    from delta_sidecar.search.table import SearchTable
    from delta_sidecar.search.upkeep import (
        Checkup,
        PrewarmReport,
        RepairReport,
        doctor,
        drop_partitions,
        prewarm,
        repair,
    )
    from delta_sidecar.search.writing.retention import CleanupReport, clean_log, purge
    from delta_sidecar.search.writing.transactions import (
        SearchCommit,
        append,
        checkpoint,
        create_table,
        overwrite,
        replace,
        skip,
        upgrade_protocol,
    )

_MODULES = {
    "register_search": "spark_search",
    "CompanionSearch": "companion.searching",
    "open_search": "companion.searching",
    "Checkup": "upkeep",
    "CleanupReport": "writing.retention",
    "Companion": "companion.following",
    "FollowReport": "companion.following",
    "Lag": "companion.following",
    "MergeReport": "splits.merging",
    "MergeSkip": "log.actions",
    "PrewarmReport": "upkeep",
    "RemovedSplit": "log.actions",
    "RepairReport": "upkeep",
    "SearchCommit": "writing.transactions",
    "SearchHits": "query.searching",
    "SearchMetrics": "query.searching",
    "SearchOptions": "log.options",
    "SearchTable": "table",
    "Split": "log.actions",
    "SplitCache": "splits.cache",
    "SplitField": "splits.fields",
    "SplitFields": "splits.fields",
    "SplitWriter": "splits.writer",
    "SplitsReport": "splits.building",
    "append": "writing.transactions",
    "build_splits": "splits.building",
    "checkpoint": "writing.transactions",
    "clean_log": "writing.retention",
    "create_table": "writing.transactions",
    "doctor": "upkeep",
    "drop_partitions": "upkeep",
    "follow": "companion.following",
    "merge_splits": "splits.merging",
    "overwrite": "writing.transactions",
    "prewarm": "upkeep",
    "purge": "writing.retention",
    "repair": "upkeep",
    "replace": "writing.transactions",
    "rows_of_hits": "companion.following",
    "skip": "writing.transactions",
    "stream_splits": "splits.on_spark",
    "their_rows": "splits.their_splits",
    "upgrade_protocol": "writing.transactions",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Checkup",
    "CleanupReport",
    "Companion",
    "CompanionSearch",
    "FollowReport",
    "Lag",
    "MergeReport",
    "MergeSkip",
    "PrewarmReport",
    "RemovedSplit",
    "RepairReport",
    "SearchCommit",
    "SearchHits",
    "SearchMetrics",
    "SearchOptions",
    "SearchTable",
    "Split",
    "SplitCache",
    "SplitField",
    "SplitFields",
    "SplitWriter",
    "SplitsReport",
    "append",
    "build_splits",
    "checkpoint",
    "clean_log",
    "create_table",
    "doctor",
    "drop_partitions",
    "follow",
    "merge_splits",
    "open_search",
    "overwrite",
    "prewarm",
    "purge",
    "register_search",
    "repair",
    "replace",
    "rows_of_hits",
    "skip",
    "stream_splits",
    "their_rows",
    "upgrade_protocol",
]
