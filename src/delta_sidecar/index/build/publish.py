"""Publish an index: the manifest after all parts, by put-if-absent; then the hint.

An existing manifest is kept if it is complete and belongs to this table (another build was faster). Otherwise it is
replaced by compare-and-swap: it belongs to a table that was dropped and created again, or it lost a part.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from delta_sidecar.errors import CorruptIndexError, ObjectChangedError, ObjectExistsError, StorageError
from delta_sidecar.index.format.index_names import HINT, lease_name, manifest_name
from delta_sidecar.index.format.manifest import Hint, Manifest, encode
from delta_sidecar.index.read.manifests import check_parts, read_hint, usable_manifest
from delta_sidecar.log.dialect import LOG_DIRECTORY
from delta_sidecar.log.log_names import commit_name
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.storage.store import Store

_log = logging.getLogger(__name__)


class Lease(msgspec.Struct, frozen=True):
    """The lease of a running build."""

    build: str
    began: int
    """Milliseconds since 1970."""


@contextmanager
def leased(store: Store, directory: str, build: str) -> Iterator[None]:
    """Protect a running build from garbage collection. The lease of a builder that died expires."""
    path = f"{directory}/{lease_name(build)}"
    store.put_if_absent(path, msgspec.json.encode(Lease(build, int(time.time() * 1000))))
    try:
        yield
    finally:
        try:
            store.delete(path)
        except StorageError as error:
            _log.warning("could not delete the lease %s: %s", path, error)


def publish(snapshot: Snapshot, directory: str, manifest: Manifest, replace: bool = False) -> Manifest:
    """Publish a manifest. Returns the one that counts: another builder's, if it came first and is as good.

    With `replace` the one that is there is replaced even so.
    """
    store, path = snapshot.store, f"{directory}/{manifest_name(manifest.version)}"
    data = encode(manifest)
    check_parts(store, directory, manifest)
    try:
        store.put_if_absent(path, data)
    except ObjectExistsError:
        present = store.head(path)
        theirs = None if replace else _usable(snapshot, directory, manifest.version)
        if theirs is not None and not _names_files_of(theirs, manifest):
            return theirs
        try:
            store.replace(path, data, present.etag)
        except ObjectChangedError:
            # Who published just now is newer than what was to be replaced.
            return publish(snapshot, directory, manifest)
    give_hint(store, directory, manifest.version, snapshot.listing.head)
    return manifest


def _names_files_of(theirs: Manifest, ours: Manifest) -> bool:
    """Whether a manifest names a file that was lost and that this build wrote again: it has other bytes now, even if
    their number is the same."""
    written = {part.id: part.core for part in ours.parts}
    return any(part.id in written and part.core != written[part.id] for part in theirs.parts)


def _usable(snapshot: Snapshot, directory: str, version: int) -> Manifest | None:
    try:
        return usable_manifest(snapshot, directory, version)
    except CorruptIndexError as error:
        _log.info("replacing a manifest: %s", error)
        return None


def give_hint(store: Store, directory: str, version: int, head: int) -> None:
    """Point at this manifest unless the hint points at it already, or at a newer one that is there. One beyond the
    `head`, whose commit is not there, is of a table that was here before."""
    present = read_hint(store, directory)
    if present == version:
        return
    if present is not None and present > version and _is_there(store, directory, present, head):
        return
    store.replace(f"{directory}/{HINT}", msgspec.json.encode(Hint(version)), None)


def _is_there(store: Store, directory: str, version: int, head: int) -> bool:
    """Whether an index of a version exists, and the version itself."""
    is_version = version <= head or _exists(store, f"{LOG_DIRECTORY}/{commit_name(version)}")
    return is_version and _exists(store, f"{directory}/{manifest_name(version)}")


def _exists(store: Store, path: str) -> bool:
    try:
        store.head(path)
    except StorageError:
        return False
    return True
