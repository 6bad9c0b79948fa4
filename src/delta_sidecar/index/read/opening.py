"""Opening a table on its index: a version is pinned, and the newest is kept for the next time.

Of a table that was opened before one LIST tells whether anything changed, and only what changed is fetched.

Kept are versions that stand on a base of another kind than a checkpoint, or on none: a table on a checkpoint is looked
at anew each time, because such a base may have come. For one on none its hints are asked for beside the LIST. The
listing begins at the version that is known, and the known commit file must be in it as it was: a table that was dropped
and made again is another one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from delta_sidecar.index.read.finder import IndexFinder, discover_with_index
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.discovery import Discovery, list_log
from delta_sidecar.log.segment import CheckpointFiles, Listing
from delta_sidecar.log.snapshot import Snapshot, load_snapshot, snapshot_of
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.store import Store

_SHARE = 2
"""The part of the cache that the commits of one table without a base may take: one half."""
_OF_A_COMMIT = 500
"""Bytes that a listed commit takes, about."""


def open_snapshot(store: Store, version: int | None, limits: CommitLimits) -> Snapshot:
    """Pin the newest version of a table, or an older one, on its index where that is the best base."""
    known = _warm_snapshot(store, limits) if version is None else None
    snapshot = known or load_snapshot(store, version, limits, discover_with_index)
    if version is None:
        _remember(snapshot)
    return snapshot


def _warm_snapshot(store: Store, limits: CommitLimits) -> Snapshot | None:
    """The newest version of a table that was opened before; None if it was not, or too much has changed: for a table
    without a base, if there may be an index now."""
    known: Snapshot | None = shared_cache.get(_key(store))
    if known is None:
        return None
    finder = IndexFinder(store)
    if known.segment.base is None:
        finder.ask_for_hints()
    news = list_log(store, known.version)
    has_index = known.segment.base is None and (finder.ask_for_manifests(None) is not None or finder.passed_over)
    snapshot = None if has_index or not _is_same(known, news) else _continued(store, known, news, limits)
    if snapshot is None:
        shared_cache.forget(_key(store))
    return snapshot


def _remember(snapshot: Snapshot) -> None:
    """Keep the newest version of a table for the next time it is opened."""
    base = snapshot.segment.base
    if isinstance(base, CheckpointFiles) or (base is None and not snapshot.listing.commits):
        return
    kept = snapshot
    if base is None:
        kept = replace(snapshot, commits=snapshot.commits.compact(shared_cache.limit // _SHARE))
    nbytes = _OF_A_COMMIT * len(kept.listing.commits) if base is None else base.nbytes
    shared_cache.put(
        _key(snapshot.store), kept, nbytes + kept.commits.nbytes + 4 * len(kept.metadata.schemaString or "")
    )


def forget(store: Store) -> None:
    """Open the table anew the next time: what is known of it was wrong."""
    shared_cache.forget(_key(store))


def _key(store: Store) -> Hashable:
    return "snapshot", store.identity


def _is_same(known: Snapshot, news: Listing) -> bool:
    then, now = known.listing.commits.get(known.version), news.commits.get(known.version)
    return then is not None and now is not None and now.is_as(then.size, then.last_modified_ms, then.etag)


def _continued(store: Store, known: Snapshot, news: Listing, limits: CommitLimits) -> Snapshot | None:
    """The known version on this store, or with the commits that came after it. A new checkpoint, or many commits, may
    have brought a better base: then everything is looked for again."""
    commits = known.commits.through(store, limits)
    if news.head == known.version:
        return replace(known, store=store, commits=commits)
    if news.checkpoints or news.head - known.version > limits.guesses:
        return None
    base = known.segment.base
    other = None if isinstance(base, CheckpointFiles) else base
    listing = replace(
        known.listing,
        commits={**known.listing.commits, **news.commits},
        compacted=(*known.listing.compacted, *news.compacted),
        checksums={**known.listing.checksums, **news.checksums},
    )
    commits.prefetch(meta for version, meta in news.commits.items() if version > known.version)
    return snapshot_of(store, Discovery(listing, commits, None, other=other), news.head, known)
