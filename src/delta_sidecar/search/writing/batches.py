"""Batches that are added once: which number an application has come to, as the log says it.

A commit of a batch names its application and number, and so does each split it adds, in its tags: those outlive the
version file, and merges keep the highest. Checkpoints keep the numbers, also of splits that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import Snapshot, newest_first
from delta_sidecar.search.log.actions import APPLICATION, BATCH, BATCH_TAG, Split, batches_of, commit_actions
from delta_sidecar.search.log.dialect import SEARCH
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.log.state import state_of
from delta_sidecar.search.writing.transactions import Place, SearchCommit, commit_splits


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
    tagged = [structs.replace(s, tags={**(s.tags or {}), f"{BATCH_TAG}{app_id}": str(batch_id)}) for s in splits]

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
        info = commit_actions(snapshot.commits.blocks(commit.file), commit.file.path).info
        found = batches_of((), info).get(app_id)
        if found is not None:
            return found
    return state_of(snapshot).batches.get(app_id)
