"""Find and open the log of a search table: the same discovery as Delta's, and beside it the states of IndexTables."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from delta_sidecar.errors import CorruptLogError, ObjectNotFoundError, UnsupportedTableError, VersionNotFoundError
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import Discovery, LogSearch, list_log
from delta_sidecar.log.segment import CommitRange, LogListing
from delta_sidecar.log.snapshot import Snapshot, fetched_ahead, load_snapshot
from delta_sidecar.search.log.actions import Wire, commit_actions
from delta_sidecar.search.log.dialect import PROVIDER, SEARCH
from delta_sidecar.search.log.their_states import TheirState, list_states, read_state
from delta_sidecar.storage.requests import begin
from delta_sidecar.storage.store import ObjectMeta, Store


def open_log(store: Store, version: int | None = None, limits: CommitLimits | None = None) -> Snapshot:
    """Pin the newest version of a search table, or an older one."""
    snapshot = load_snapshot(store, version, limits, find_log, SEARCH)
    table_format = snapshot.metadata.format
    if table_format is not None and table_format.provider != PROVIDER:
        raise UnsupportedTableError(
            f"the table at {store.root_uri} has the format {table_format.provider!r}; search tables have {PROVIDER!r}"
        )
    return snapshot


def find_log(store: Store, version: int | None, commits: CommitBytes) -> Discovery:
    """List the log. Only where no checkpoint is found are states looked for, which costs a request."""
    search = LogSearch(store, version, commits, dialect=SEARCH)
    hint = search.read_hint()
    states = begin(store, list_states, store) if hint is None else None
    search.list_from_hint()
    if not search.has_checkpoint:
        notes = search.discovery().notes
        search.list_all()
        found = list_states(store) if states is None else states.result()
        if found:
            return _on_states(store, version, structs.replace(search.discovery(), notes=notes), found)
        _check_start(store, version, search.listing)
    elif states is not None:
        states.cancel()
    return search.discovery()


def _check_start(store: Store, version: int | None, listing: LogListing) -> None:
    """Without version 0 and without a checkpoint, nothing tells what the table is."""
    if listing.commits and 0 not in listing.commits and (version is None or version >= min(listing.commits)):
        raise CorruptLogError(
            f"version 0 of {store.root_uri} is gone, and no checkpoint holds what it said; restore the file"
        )


def _on_states(store: Store, version: int | None, found: Discovery, states: Mapping[int, ObjectMeta]) -> Discovery:
    listing, newest = found.listing, max(states)
    target = max(listing.head, newest) if version is None else version
    usable = [v for v in sorted(states, reverse=True) if v <= target and _reaches(listing, v, target)]
    if not usable and 0 <= target <= max(listing.head, newest) and not _reaches(listing, -1, target):
        kept = ", ".join(map(str, versions_of(listing, states)))
        raise VersionNotFoundError(f"version {target} of {store.root_uri} cannot be rebuilt; kept are {kept}")
    notes = list(found.notes)
    other: TheirState | None = None
    failure: CorruptLogError | None = None
    for candidate in usable:
        try:
            known = _state_until(listing, found.commits, candidate)
            other = read_state(store, candidate, states[candidate], known)
            break
        except CorruptLogError as error:
            failure = failure or error
            notes.append(f"state {candidate} was not used: {error}")
    if other is None and failure is not None and not _reaches(listing, -1, target):
        raise failure
    return Discovery(listing, found.commits, tuple(notes), other, found.passed_over, newest)


def _reaches(listing: LogListing, base: int, target: int) -> bool:
    """Whether all version files after a base are there."""
    return all(v in listing.commits for v in range(base + 1, target + 1))


def _state_until(listing: LogListing, commits: CommitBytes, version: int) -> tuple[Wire | None, Wire | None]:
    """The newest protocol and metadata in version files up to a version; None where there is none."""
    protocol: Wire | None = None
    metadata: Wire | None = None
    metas = [CommitRange(v, v, listing.commits[v]) for v in sorted(listing.commits, reverse=True) if v <= version]
    for commit in fetched_ahead(metas, commits):
        try:
            actions = commit_actions(commits.blocks(commit.file), commit.file.path)
        except ObjectNotFoundError:
            continue
        protocol = protocol or (actions.protocols[-1] if actions.protocols else None)
        metadata = metadata or (actions.metadatas[-1] if actions.metadatas else None)
        if protocol is not None and metadata is not None:
            break
    return protocol, metadata


def versions_of(listing: LogListing, states: Mapping[int, ObjectMeta] | None = None) -> list[int]:
    """The versions that can be opened, oldest first. The listing is of the whole log."""
    bases = {c.version for c in listing.checkpoints} | set(states or ())
    found: list[int] = []
    for version in sorted(bases | set(listing.commits)):
        follows = version == 0 or (bool(found) and found[-1] == version - 1)
        if version in bases or (version in listing.commits and follows):
            found.append(version)
    return found


def kept_versions(store: Store) -> list[int]:
    """The versions of a table that can be opened, oldest first."""
    return versions_of(list_log(store, 0, SEARCH), list_states(store))
