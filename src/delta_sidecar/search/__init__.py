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
    "CompanionSearch": "companion_search",
    "open_search": "companion_search",
    "Checkup": "upkeep",
    "CleanupReport": "retention",
    "Companion": "companion",
    "FollowReport": "companion",
    "Lag": "companion",
    "MergeReport": "split_merging",
    "MergeSkip": "actions",
    "PrewarmReport": "upkeep",
    "RemovedSplit": "actions",
    "RepairReport": "upkeep",
    "SearchCommit": "transactions",
    "SearchHits": "searching",
    "SearchMetrics": "searching",
    "SearchOptions": "options",
    "SearchTable": "table",
    "Split": "actions",
    "SplitCache": "split_cache",
    "SplitField": "split_fields",
    "SplitFields": "split_fields",
    "SplitWriter": "split_writer",
    "SplitsReport": "building",
    "append": "transactions",
    "build_splits": "building",
    "checkpoint": "transactions",
    "clean_log": "retention",
    "create_table": "transactions",
    "doctor": "upkeep",
    "drop_partitions": "upkeep",
    "follow": "companion",
    "merge_splits": "split_merging",
    "overwrite": "transactions",
    "prewarm": "upkeep",
    "purge": "retention",
    "repair": "upkeep",
    "replace": "transactions",
    "rows_of_hits": "companion",
    "skip": "transactions",
    "stream_splits": "spark_splits",
    "their_rows": "their_splits",
    "upgrade_protocol": "transactions",
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
