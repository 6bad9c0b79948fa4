"""Search tables: the log of note 004, and tables that IndexTables writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.search.actions import MergeSkip, RemovedSplit, Split
    from delta_sidecar.search.options import SearchOptions
    from delta_sidecar.search.retention import CleanupReport, clean_log, purge
    from delta_sidecar.search.searching import SearchHits, SearchMetrics
    from delta_sidecar.search.split_cache import SplitCache
    from delta_sidecar.search.split_fields import SplitField, SplitFields
    from delta_sidecar.search.split_writer import SplitWriter
    from delta_sidecar.search.table import SearchTable
    from delta_sidecar.search.their_splits import their_rows
    from delta_sidecar.search.transactions import (
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
    "CleanupReport": "retention",
    "MergeSkip": "actions",
    "RemovedSplit": "actions",
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
    "append": "transactions",
    "checkpoint": "transactions",
    "clean_log": "retention",
    "create_table": "transactions",
    "overwrite": "transactions",
    "purge": "retention",
    "replace": "transactions",
    "skip": "transactions",
    "their_rows": "their_splits",
    "upgrade_protocol": "transactions",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "CleanupReport",
    "MergeSkip",
    "RemovedSplit",
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
    "append",
    "checkpoint",
    "clean_log",
    "create_table",
    "overwrite",
    "purge",
    "replace",
    "skip",
    "their_rows",
    "upgrade_protocol",
]
