"""Manifests: find, read and check them."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator

import msgspec

from delta_sidecar.errors import (
    CorruptIndexError,
    CorruptTableError,
    InputError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from delta_sidecar.index.format.index_names import DIRECTORIES, HINT, directory_for, manifest_name, manifest_version
from delta_sidecar.index.format.manifest import CommitIdentity, Hint, Manifest, decode
from delta_sidecar.index.read.described_index import DescribedIndex
from delta_sidecar.log.actions import Protocol
from delta_sidecar.log.dialect import LOG_DIRECTORY
from delta_sidecar.log.log_names import commit_name
from delta_sidecar.log.segment import LogListing
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.storage.store import Buffer, ObjectMeta, Store

_log = logging.getLogger(__name__)


class FoundManifest(msgspec.Struct, frozen=True):
    """A manifest, and where it is."""

    manifest: Manifest
    directory: str
    meta: ObjectMeta


def listed_manifests(store: Store) -> list[tuple[int, str, ObjectMeta]]:
    """Every manifest of the table by name: version, directory, object; the newest first."""
    manifests = [
        (version, directory, meta)
        for directory in DIRECTORIES
        for meta in listed(store, directory)
        if (version := manifest_version(meta.path.rpartition("/")[2])) is not None
    ]
    return sorted(manifests, key=lambda entry: entry[:2], reverse=True)


def listed(store: Store, directory: str) -> Iterator[ObjectMeta]:
    """The objects right in a directory of the index."""
    prefix = f"{directory}/"
    for page in store.list_after(prefix):
        yield from (meta for meta in page if "/" not in meta.path[len(prefix) :])


def read_manifest(store: Store, directory: str, version: int) -> Manifest:
    """A manifest by its version; `CorruptIndexError` if it is missing or broken."""
    path = f"{directory}/{manifest_name(version)}"
    try:
        return manifest_of(store.get(path), directory, version)
    except ObjectNotFoundError:
        raise CorruptIndexError(f"{path} is missing; build the index") from None


def manifest_of(data: Buffer, directory: str, version: int) -> Manifest:
    """The manifest in the file of a version; `CorruptIndexError` if it is broken or of another version."""
    path = f"{directory}/{manifest_name(version)}"
    manifest = decode(data, path)
    if manifest.version != version:
        raise CorruptIndexError(f"{path} holds the manifest of version {manifest.version}; build the index again")
    return manifest


def read_hint(store: Store, directory: str) -> int | None:
    """The version that the hint names; None if the hint is missing or damaged."""
    try:
        return hinted_version(store.get(f"{directory}/{HINT}"))
    except ObjectNotFoundError:
        return None


def newest_index(store: Store, protocol: Protocol, head: int) -> int:
    """The version of the newest index at or below a version, -1 if there is none.

    For an ingest, which only asks whether an index is due: the hint tells in one request, and the names of manifests if
    it is lost or names a newer version. Nothing is opened or checked, because the build does that. Builds themselves
    take `newest_usable_manifest`, readers `IndexFinder.base`.
    """
    hint = read_hint(store, directory_for(protocol))
    if hint is not None and hint <= head:
        return hint
    return next((version for version, _, _ in listed_manifests(store) if version <= head), -1)


def hinted_version(data: Buffer) -> int | None:
    try:
        version = msgspec.json.decode(bytes(data), type=Hint).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return version if 0 <= version < 1 << 63 else None


def newest_usable_manifest(snapshot: Snapshot) -> tuple[FoundManifest | None, list[str]]:
    """The newest manifest at or below the snapshot's version that is of this table and has all its parts, and why
    newer ones were not used.

    For builds, the watch, maintenance and garbage, which build on an index or keep it: it costs two LISTs, and every
    part must be there. Readers take `IndexFinder.base`, which needs no trip of its own.
    """
    passed: list[str] = []
    for version, directory, meta in listed_manifests(snapshot.store):
        if version > snapshot.version:
            continue
        try:
            return FoundManifest(usable_manifest(snapshot, directory, version), directory, meta), passed
        except CorruptIndexError as error:
            _log.warning("%s", error)
            passed.append(str(error))
    return None, passed


def usable_manifest(snapshot: Snapshot, directory: str, version: int) -> Manifest:
    """A manifest of this table that readers can use, with all its parts; otherwise `CorruptIndexError` with the
    reason."""
    manifest = read_manifest(snapshot.store, directory, version)
    check_bound(manifest, snapshot)
    _ = DescribedIndex(manifest, directory).part_order
    check_parts(snapshot.store, directory, manifest)
    return manifest


def check_parts(store: Store, directory: str, manifest: Manifest) -> None:
    """Check with one LIST that every file of every part exists with its size."""
    sizes = {meta.path.rpartition("/")[2]: meta.size for meta in listed(store, directory)}
    for part in manifest.parts:
        for name, entry in zip(part.names, (part.core, part.stats), strict=False):
            if entry is not None and sizes.get(name) != entry.size:
                state = "missing" if name not in sizes else f"{sizes[name]} bytes long instead of {entry.size}"
                raise CorruptIndexError(f"{directory}/{name} is {state}; build the index again")


def check_bound(manifest: Manifest, snapshot: Snapshot) -> None:
    """As `check_table`, for an index of a snapshot's table."""
    known = snapshot.metadata.id if manifest.version == snapshot.version else None
    check_table(manifest, snapshot.store, snapshot.listing, known)


def check_table(manifest: Manifest, store: Store, listing: LogListing, known_id: str | None = None) -> None:
    """Raise `CorruptIndexError` unless the manifest belongs to this table: its commit file is the very one it was built
    at; or that file has the same bytes, or is gone, and the table id matches. `known_id` is the id at the manifest's
    version; if it is not given, the log is asked for it."""
    meta, commit = commit_meta(store, listing, manifest.version), manifest.commit
    if meta is not None and commit is None:
        raise CorruptIndexError(
            f"{manifest_name(manifest.version)} was built when its commit file did not exist, but it does now; "
            "build the index again"
        )
    if meta is not None and commit is not None:
        if commit.is_of(meta):
            return
        # Commit files never change: with other bytes this is another history, even if the id is the same.
        if commit.size != meta.size or (commit.crc32 is not None and commit.crc32 != commit_crc32(store, meta)):
            raise CorruptIndexError(
                f"{manifest_name(manifest.version)} was built for a different commit file of that version; "
                "build the index again"
            )
    table_id = known_id or _table_id(store, manifest.version)
    if table_id != manifest.table_id:
        raise CorruptIndexError(
            f"{manifest_name(manifest.version)} belongs to another table ({manifest.table_id}, this one is "
            f"{table_id or 'unknown at that version'}); build the index again"
        )


def commit_crc32(store: Store, meta: ObjectMeta) -> int:
    """The CRC-32 of a commit file's bytes."""
    checksum = 0
    for chunk in store.get_stream(meta.path):
        checksum = zlib.crc32(chunk, checksum)
    return checksum


def commit_meta(store: Store, listing: LogListing, version: int) -> ObjectMeta | None:
    """The commit file of a version; None if it is gone."""
    meta = listing.commits.get(version)
    if meta is not None or version >= listing.start:
        return meta
    try:
        return store.head(f"{LOG_DIRECTORY}/{commit_name(version)}")
    except ObjectNotFoundError:
        return None


def commit_identity(snapshot: Snapshot) -> CommitIdentity | None:
    meta = commit_meta(snapshot.store, snapshot.listing, snapshot.version)
    return None if meta is None else CommitIdentity.of(meta, commit_crc32(snapshot.store, meta))


def _table_id(store: Store, version: int) -> str | None:
    try:
        return load_snapshot(store, version).metadata.id
    except (CorruptTableError, InputError, UnsupportedTableError, ObjectNotFoundError):
        return None
