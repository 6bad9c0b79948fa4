"""Delete old index files: old manifests, the parts that only they name, and files of builds that died.

Kept are the newest usable manifest, the newest `retain` manifests, every manifest younger than `retention`, and all
parts that these name; every file younger than `grace`, because a build may be about to name it; everything while a
build is running, because it may read any of it. A manifest is deleted first, and its parts `grace` later, because a
reader may still use them: `_garbage` records the time. Files that are not ours are never touched.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import msgspec

from delta_sidecar.errors import CorruptIndexError, ObjectNotFoundError
from delta_sidecar.index.format.index_names import (
    DIRECTORIES,
    build_of_lease,
    is_part,
    manifest_version,
    single_version,
)
from delta_sidecar.index.format.manifest import Manifest
from delta_sidecar.index.read.manifests import check_bound, listed, newest_usable_manifest, read_manifest
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.storage.store import ObjectMeta, Store

_log = logging.getLogger(__name__)

RETAIN: Final = 2
RETENTION: Final = timedelta(days=7)
GRACE: Final = timedelta(days=1)
LEASE_LIMIT: Final = timedelta(days=1)
"""A lease older than this is of a build that died."""
MEMORY: Final = "_garbage"
"""Which parts lost their last manifest, and when."""

_DRAFT = re.compile(r"\.[0-9a-f]{32}\.tmp")
"""The names of files that a local store leaves if it dies while it writes."""


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """What was deleted, or would be."""

    deleted: tuple[str, ...]
    """Paths below the table."""
    bytes: int
    notes: tuple[str, ...] = ()
    """Why other files were not deleted."""
    dry_run: bool = False

    @property
    def files(self) -> int:
        return len(self.deleted)


class _Memory(msgspec.Struct, frozen=True):
    parts: dict[str, int] = {}
    """Names, and since when (milliseconds since 1970) no manifest names them."""


def collect_garbage(
    store: Store,
    retain: int = RETAIN,
    retention: timedelta = RETENTION,
    grace: timedelta = GRACE,
    dry_run: bool = False,
    lease_limit: timedelta = LEASE_LIMIT,
) -> GarbageReport:
    """Delete what no reader and no builder can need any more."""
    snapshot = load_snapshot(store)
    usable, _ = newest_usable_manifest(snapshot)
    newest = None if usable is None else (usable.directory, usable.manifest.version)
    ages = _Ages(_now(), _ms(retention), _ms(grace), _ms(lease_limit))
    collectors = [_Collector(snapshot, directory, ages, newest) for directory in DIRECTORIES]
    retained = _newest(collectors, max(retain, 1))
    for collector in collectors:
        collector.collect({version for of, version in retained if of is collector}, dry_run)
    gone = [meta for collector in collectors for meta in collector.deleted]
    notes = tuple(note for collector in collectors for note in collector.notes)
    return GarbageReport(tuple(meta.path for meta in gone), sum(meta.size for meta in gone), notes, dry_run)


def collect_if_due(
    store: Store,
    directory: str,
    retention: timedelta = RETENTION,
    grace: timedelta = GRACE,
    lease_limit: timedelta = LEASE_LIMIT,
) -> GarbageReport | None:
    """Delete garbage after a build, if there is any; None if there is none, or if the deletion failed.

    One LIST of the index decides, so most builds pay for nothing else. A manifest counts only when it is `grace` older
    than `retention`, so frequent builds delete garbage once a day. A failure is only logged: the index is built.
    """
    try:
        if not _is_due(store, directory, _Ages(_now(), _ms(retention) + _ms(grace), _ms(grace), _ms(lease_limit))):
            return None
        return collect_garbage(store, RETAIN, retention, grace, lease_limit=lease_limit)
    except Exception as error:
        _log.warning("could not delete the old index files of %s: %s", store.root_uri, error)
        return None


def _is_due(store: Store, directory: str, ages: _Ages) -> bool:
    objects = _by_name(listed(store, directory))
    versions = {name: version for name in objects if (version := manifest_version(name)) is not None}
    oldest_first = sorted(versions, key=lambda name: versions[name])
    left = (name for name in objects if build_of_lease(name) is not None or _DRAFT.fullmatch(name) is not None)
    if any(ages.older(objects[name], ages.retention) for name in oldest_first[:-RETAIN]):
        return True
    if any(ages.older(objects[name], max(ages.lease, ages.grace)) for name in left):
        return True
    memory = objects.get(MEMORY)
    if memory is None or not ages.older(memory, ages.grace):
        return False
    return not objects.keys().isdisjoint(_read_memory(store, directory).parts)


def _read_memory(store: Store, directory: str) -> _Memory:
    try:
        return msgspec.json.decode(bytes(store.get(f"{directory}/{MEMORY}")), type=_Memory)
    except (ObjectNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return _Memory()


def _now() -> int:
    return int(time.time() * 1000)


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Ages:
    now: int
    retention: int
    grace: int
    lease: int

    def older(self, meta: ObjectMeta, limit: int) -> bool:
        return self.now - meta.last_modified_ms >= limit


@dataclass(slots=True)
class _Collector:
    """The garbage of one directory."""

    snapshot: Snapshot
    directory: str
    ages: _Ages
    newest: tuple[str, int] | None
    """Directory and version of the newest usable manifest."""
    objects: dict[str, ObjectMeta] = field(init=False)
    manifests: dict[int, ObjectMeta] = field(init=False)
    deleted: list[ObjectMeta] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _read: dict[int, Manifest | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.objects = _by_name(listed(self.store, self.directory))
        by_version = {manifest_version(name): meta for name, meta in self.objects.items()}
        self.manifests = {version: meta for version, meta in by_version.items() if version is not None}

    @property
    def store(self) -> Store:
        return self.snapshot.store

    def manifest(self, version: int) -> Manifest | None:
        """A manifest; None if it, or its list of parts, cannot be read."""
        if version not in self._read:
            try:
                manifest = read_manifest(self.store, self.directory, version)
                _ = manifest.parts
                self._read[version] = manifest
            except CorruptIndexError as error:
                self.notes.append(str(error))
                self._read[version] = None
        return self._read[version]

    def is_bound(self, version: int) -> bool:
        manifest = self.manifest(version)
        try:
            if manifest is not None:
                check_bound(manifest, self.snapshot)
        except CorruptIndexError:
            return False
        return manifest is not None

    def collect(self, newest: set[int], dry_run: bool) -> None:
        dead = [meta for name, meta in self.objects.items() if self._is_dead_lease(name, meta)]
        kept = newest | {v for v, meta in self.manifests.items() if not self.ages.older(meta, self._manifest_age)}
        memory = _read_memory(self.store, self.directory)
        orphans: list[ObjectMeta] = []
        old: list[ObjectMeta] = []
        if not self._at_work():
            old = [meta for version, meta in self.manifests.items() if version not in kept]
            orphans = [*self._orphans(kept, set(self.manifests) - kept, memory), *self._drafts()]
        self._delete([*dead, *orphans], dry_run)
        if old:
            self._remember(kept, memory, dry_run)
            self._delete(old, dry_run)

    @property
    def _manifest_age(self) -> int:
        return max(self.ages.retention, self.ages.grace)

    def _is_dead_lease(self, name: str, meta: ObjectMeta) -> bool:
        return build_of_lease(name) is not None and self.ages.older(meta, self.ages.lease)

    def _drafts(self) -> Iterator[ObjectMeta]:
        for name, meta in self.objects.items():
            if _DRAFT.fullmatch(name) is not None and self.ages.older(meta, self.ages.grace):
                yield meta

    def _at_work(self) -> bool:
        """Whether a build may be reading these files or about to name them, or has just named them. Checked just before
        deleting: of a build that ended since the first listing, the manifest is new and the lease is gone."""
        for meta in listed(self.store, self.directory):
            name = meta.path.rpartition("/")[2]
            if build_of_lease(name) is not None and not self.ages.older(meta, self.ages.lease):
                self.notes.append(f"a build is running ({meta.path}): manifests and parts are kept until it ends")
                return True
            if manifest_version(name) is not None and meta != self.objects.get(name):
                self.notes.append(f"a build has just ended ({meta.path}): manifests and parts are kept this time")
                return True
        return False

    def _orphans(self, kept: set[int], going: set[int], memory: _Memory) -> Iterator[ObjectMeta]:
        """Parts that no manifest names. Parts of manifests that are deleted now are kept for current readers."""
        named = self._named(kept)
        if named is None:
            self.notes.append(f"no part of {self.directory} was deleted: a manifest that must be kept cannot be read")
            return
        named |= self._named(going, lenient=True) or set()
        for name, meta in self.objects.items():
            since = memory.parts.get(name, meta.last_modified_ms)
            old = self.ages.now - max(since, meta.last_modified_ms) >= self.ages.grace
            if is_part(name) and name not in named and old and not self._may_serve(name):
                yield meta

    def _named(self, versions: Iterable[int], lenient: bool = False) -> set[str] | None:
        """The files that manifests name; None if one cannot be read."""
        names: set[str] = set()
        for version in versions:
            manifest = self.manifest(version)
            if manifest is None and not lenient:
                return None
            names |= {name for part in (manifest.parts if manifest else ()) for name in part.names}
        return names

    def _may_serve(self, name: str) -> bool:
        """A file that is a whole index by itself, newer than any manifest."""
        version = single_version(name)
        reached = -1 if self.newest is None else self.newest[1]
        return version is not None and reached < version <= self.snapshot.version

    def _remember(self, kept: set[int], memory: _Memory, dry_run: bool) -> None:
        """Record which parts lose their last manifest, before it is deleted."""
        named = self._named(kept, lenient=True) or set()
        losing = (self._named(set(self.manifests) - kept, lenient=True) or set()) - named
        young = {name: at for name, at in memory.parts.items() if self.ages.now - at < self.ages.grace}
        parts = young | {name: self.ages.now for name in losing if name in self.objects}
        if parts != memory.parts and not dry_run:
            self.store.replace(f"{self.directory}/{MEMORY}", msgspec.json.encode(_Memory(parts)), None)

    def _delete(self, metas: Iterable[ObjectMeta], dry_run: bool) -> None:
        for meta in metas:
            if not dry_run:
                self.store.delete(meta.path)
            self.deleted.append(meta)


def _by_name(metas: Iterable[ObjectMeta]) -> dict[str, ObjectMeta]:
    return {meta.path.rpartition("/")[2]: meta for meta in metas}


def _newest(collectors: Iterable[_Collector], retain: int) -> list[tuple[_Collector, int]]:
    """The manifests that stay however old: the usable one, the newest by name, and the newest of this very table.

    What is newer than the table's head is of another table at the same place, and does not count.
    """
    present = [(version, of) for of in collectors for version in of.manifests if version <= of.snapshot.version]
    ordered = [(of, version) for version, of in sorted(present, key=lambda entry: entry[0], reverse=True)]
    bound: list[tuple[_Collector, int]] = []
    for of, version in ordered:
        if len(bound) < retain and of.is_bound(version):
            bound.append((of, version))
    usable = [(of, version) for of, version in ordered if (of.directory, version) == of.newest]
    return [*ordered[:retain], *bound, *usable]
