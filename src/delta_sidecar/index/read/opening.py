"""Open a version of a table, with its index, and keep the newest snapshot for the next time.

If the table was opened before, one LIST shows whether anything changed, and only what changed is fetched.

Snapshots with an index as their base, or without a base, are kept. A table with a checkpoint as its base is searched
again each time, because it may have an index now. For one without a base, or with many commits after its index, the
index hints are fetched together with the LIST, because there may be a newer index. The LIST begins at the known
version, and its commit file must be unchanged: a table that was dropped and created again is another table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from msgspec import structs

from delta_sidecar.errors import CorruptIndexError, LogGapError
from delta_sidecar.index.format.index_names import DIRECTORIES
from delta_sidecar.index.read.finder import IndexFinder, discover_with_index
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.discovery import Discovery, list_log
from delta_sidecar.log.segment import CheckpointFiles, LogListing
from delta_sidecar.log.snapshot import Snapshot, load_snapshot, snapshot_of
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.store import Store

_SHARE = 2
"""The part of the cache that the commits of one table without a base may take: one half."""
_BYTES_PER_COMMIT = 500
"""About the bytes that a listed commit takes in memory."""
_IN_MEMORY = 4
"""A schema takes about this many times its JSON text in memory."""


def open_snapshot(store: Store, version: int | None, limits: CommitLimits) -> Snapshot:
    """Pin the newest version of a table, or an older one, on its index if that is the best base."""
    if version is not None:
        return load_snapshot(store, version, limits, discover_with_index)
    key = _key(store)
    snapshot = _warm_snapshot(store, key, limits) or load_snapshot(store, None, limits, discover_with_index)
    _remember(snapshot, key)
    return snapshot


def remembered_version(store: Store) -> int | None:
    """The version of a table that is kept for the next time; None if there is none. It may no longer be the newest."""
    known: Snapshot | None = shared_cache.get(_key(store))
    return None if known is None else known.version


def _warm_snapshot(store: Store, key: Hashable, limits: CommitLimits) -> Snapshot | None:
    """The newest version of a table that was opened before; None if it was not, or too much has changed: if there may
    be an index now, or a newer one."""
    known: Snapshot | None = shared_cache.get(key)
    if known is None:
        return None
    finder = IndexFinder(store)
    if known.segment.base is None or len(known.segment.commits) > limits.guesses:
        finder.ask_for_hints()
    news = list_log(store, known.version)
    newest = finder.newest_hint()
    has_newer = bool(finder.passed_over) or (newest is not None and newest > known.segment.base_version)
    is_same = known.listing.has_same_commit(news, known.version)
    snapshot = _continued(store, known, news, limits) if is_same and not has_newer else None
    if snapshot is None:
        shared_cache.forget(key)
    return snapshot


def _remember(snapshot: Snapshot, key: Hashable) -> None:
    """Keep the newest version of a table for the next time it is opened."""
    base = snapshot.segment.base
    if isinstance(base, CheckpointFiles) or (base is None and not snapshot.listing.commits):
        return
    kept = snapshot
    if base is None:
        kept = replace(snapshot, commits=snapshot.commits.compact(shared_cache.limit // _SHARE))
    nbytes = _BYTES_PER_COMMIT * len(kept.listing.commits) if base is None else base.nbytes
    nbytes += kept.commits.nbytes + _IN_MEMORY * len(kept.metadata.schemaString or "")
    shared_cache.put(key, kept, nbytes)


def on_index_of(snapshot: Snapshot, version: int) -> Iterator[Snapshot]:
    """The same version of the table on each usable index of `version`, even if it is not the newest index."""
    if not 0 <= version <= snapshot.version:
        return
    from delta_sidecar.index.read.index_base import IndexBase
    from delta_sidecar.index.read.manifests import check_bound, read_manifest

    for directory in DIRECTORIES:
        try:
            base = IndexBase(read_manifest(snapshot.store, directory, version), directory)
            check_bound(base.manifest, snapshot)
            base.check_layout()
            reaches_index = snapshot.listing.start <= version
            listing = snapshot.listing if reaches_index else list_log(snapshot.store, version)
            segment = listing.segment(snapshot.version, base)
        except (CorruptIndexError, LogGapError):
            continue
        yield replace(snapshot, listing=listing, segment=segment, opened=None)


def forget(store: Store) -> None:
    """Forget the kept snapshot, because it was wrong; the next opening reads everything again."""
    shared_cache.forget(_key(store))


def _key(store: Store) -> Hashable:
    return "snapshot", store.identity


def _continued(store: Store, known: Snapshot, news: LogListing, limits: CommitLimits) -> Snapshot | None:
    """The known version on this store, or with the commits that came after it. A new checkpoint, or many commits, may
    have brought a better base: then everything is looked for again."""
    commits = known.commits.through(store, limits)
    if news.head == known.version:
        return replace(known, store=store, commits=commits)
    if news.checkpoints or news.head - known.version > limits.guesses:
        return None
    base = known.segment.base
    other = None if isinstance(base, CheckpointFiles) else base
    listing = structs.replace(
        known.listing,
        commits={**known.listing.commits, **news.commits},
        compacted=(*known.listing.compacted, *news.compacted),
        checksums={**known.listing.checksums, **news.checksums},
    )
    commits.prefetch(meta for version, meta in news.commits.items() if version > known.version)
    return snapshot_of(store, Discovery(listing, commits, other=other), news.head, known)
