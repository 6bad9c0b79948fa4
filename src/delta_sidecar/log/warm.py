"""Tables that were opened before: one LIST tells whether anything changed, and only what changed is fetched.

Kept are versions that stand on a base of another kind than a checkpoint: a table without one is looked at anew each
time, because such a base may have come. The listing begins at the version that is known, and the known commit file must
be in it as it was: a table that was dropped and made again is another one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from delta_sidecar.log.discovery import SPECULATIVE_COMMITS, Discovery, list_log
from delta_sidecar.log.segment import CheckpointFiles, Listing
from delta_sidecar.log.snapshot import Snapshot, snapshot_of
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.store import Store


def warm_snapshot(store: Store, parallelism: int) -> Snapshot | None:
    """The newest version of a table that was opened before; None if it was not, or too much has changed."""
    known: Snapshot | None = shared_cache.get(_key(store))
    if known is None:
        return None
    news = list_log(store, known.version)
    found = None if not _is_same(known, news) else _continued(store, known, news, parallelism)
    if found is None:
        shared_cache.forget(_key(store))
    return found


def remember(snapshot: Snapshot) -> None:
    """Keep the newest version of a table for the next time it is opened."""
    base = snapshot.segment.base
    if base is not None and not isinstance(base, CheckpointFiles):
        size = base.nbytes + snapshot.commits.nbytes + 4 * len(snapshot.metadata.schemaString or "")
        shared_cache.put(_key(snapshot.store), snapshot, size)


def forget(store: Store) -> None:
    """Open the table anew the next time: what is known of it was wrong."""
    shared_cache.forget(_key(store))


def _key(store: Store) -> Hashable:
    return "snapshot", store.identity


def _is_same(known: Snapshot, news: Listing) -> bool:
    then, now = known.listing.commits.get(known.version), news.commits.get(known.version)
    return then is not None and now is not None and now.is_as(then.size, then.last_modified_ms, then.etag)


def _continued(store: Store, known: Snapshot, news: Listing, parallelism: int) -> Snapshot | None:
    """The known version on this store, or with the commits that came after it. A new checkpoint, or many commits, may
    have brought a better base: then everything is looked for again."""
    commits = known.commits.through(store)
    if news.head == known.version:
        return replace(known, store=store, commits=commits)
    if news.checkpoints or news.head - known.version > SPECULATIVE_COMMITS:
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
    return snapshot_of(store, Discovery(listing, commits, None, other=other), news.head, parallelism)
