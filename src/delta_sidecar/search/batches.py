"""Batches that are added once: which number an application has come to, as the log says it.

A commit of a batch names its application and number, and so does each split it adds, in its tags: those outlive the
version file, and merges keep the highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import Snapshot, newest_first
from delta_sidecar.search.actions import Split, commit_actions
from delta_sidecar.search.dialect import SEARCH
from delta_sidecar.search.options import SearchOptions
from delta_sidecar.search.state import state_of
from delta_sidecar.search.transactions import Place, SearchCommit, commit_splits

APPLICATION: Final = "appId"
BATCH: Final = "batchId"
_TAG: Final = "sidecar.batch."


def add_batch(
    table: Place,
    splits: Iterable[Split],
    app_id: str,
    batch_id: int,
    *,
    overwrites: bool = False,
    info: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Add the splits of a batch, unless the log has that batch of the application, or a later one. The arguments and
    errors are those of `append`."""
    tagged = [structs.replace(s, tags={**(s.tags or {}), f"{_TAG}{app_id}": str(batch_id)}) for s in splits]

    def is_there(snapshot: Snapshot) -> bool:
        known = last_batch(snapshot, app_id)
        return known is not None and known >= batch_id

    about = {**(info or {}), APPLICATION: app_id, BATCH: batch_id}
    return commit_splits(
        table, tagged, is_there, overwrites=overwrites, info=about, options=options, storage_options=storage_options
    )


def last_batch(snapshot: Snapshot, app_id: str) -> int | None:
    """The number of the newest batch of an application that the log has."""
    listing = list_log(snapshot.store, 0, SEARCH)
    commits = [CommitRange(v, v, meta) for v, meta in sorted(listing.commits.items()) if v <= snapshot.version]
    for commit in newest_first(commits, snapshot.commits):
        found = _number(commit_actions(snapshot.commits.blocks(commit.file), commit.file.path).info or {}, app_id)
        if found is not None:
            return found
    return _tagged(state_of(snapshot).splits, app_id)


def _number(info: Mapping[str, Any], app_id: str) -> int | None:
    number = info.get(BATCH)
    return number if info.get(APPLICATION) == app_id and isinstance(number, int) else None


def _tagged(splits: Sequence[Split], app_id: str) -> int | None:
    texts = [(split.tags or {}).get(f"{_TAG}{app_id}") for split in splits]
    numbers = [int(text) for text in texts if text is not None and text.isdigit()]
    return max(numbers, default=None)
