"""A pinned version of a table: its segment, protocol, metadata and schema, known before any file is emitted."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from delta_sidecar.errors import (
    CorruptLogError,
    LogGapError,
    ObjectNotFoundError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_sidecar.log.actions import Checksum, Metadata, Protocol, StateLine
from delta_sidecar.log.checkpoints import Checkpoint, open_checkpoint
from delta_sidecar.log.commits import CommitBytes, is_reconciled
from delta_sidecar.log.discovery import Discovery, discover, list_log
from delta_sidecar.log.lines import decode_lines
from delta_sidecar.log.paths import KeyMaker
from delta_sidecar.log.protocol import check_protocol, mapping_mode
from delta_sidecar.log.schema import StructType, parse_schema
from delta_sidecar.log.segment import CheckpointFiles, CommitRange, Listing, Segment
from delta_sidecar.storage.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """One version of a table. Nothing newer is ever read through it."""

    store: Store
    segment: Segment
    protocol: Protocol
    metadata: Metadata
    listing: Listing
    commits: CommitBytes
    parallelism: int = 10
    state_source: str = ""
    """Where protocol and metadata came from."""
    notes: tuple[str, ...] = ()
    """What was off on the way and what was done instead."""
    opened: Checkpoint | None = field(default=None, compare=False)
    """The base, where it had to be opened for protocol or metadata."""

    @property
    def version(self) -> int:
        return self.segment.version

    @cached_property
    def mapping_mode(self) -> str:
        return mapping_mode(self.protocol, self.metadata)

    @cached_property
    def schema(self) -> StructType:
        """Empty where the metadata has none: such a table can be listed, not read."""
        text = self.metadata.schemaString
        return parse_schema(text, self.mapping_mode) if text else StructType()

    @property
    def partition_columns(self) -> list[str]:
        """Logical names."""
        return list(self.metadata.partitionColumns)

    def open_base(self) -> Checkpoint | None:
        """The base of the segment, for one reader; `CorruptLogError` if it is broken."""
        if self.opened is not None:
            return self.opened.reopened()
        return None if self.segment.base is None else open_checkpoint(self.store, self.segment.base)

    def on_older_base(self) -> tuple[Snapshot, tuple[CommitRange, ...]]:
        """The same version on the next best base, and the commits from there up to the present base."""
        assert self.segment.base is not None
        listing, segment = _next_base(self.store, self.listing, self.segment)
        between = replace(listing, compacted=()).segment(self.segment.base.version, segment.base).commits
        return replace(self, listing=listing, segment=segment, opened=None), between


def load_snapshot(store: Store, version: int | None = None, parallelism: int = 10) -> Snapshot:
    """Pin the newest version, or an older one. A listed file that is gone (a cleaner at work) is tried once more."""
    try:
        return _load(store, version, parallelism)
    except (ObjectNotFoundError, LogGapError) as error:
        _log.info("the log changed while it was read (%s); starting again", error)
        try:
            return _load(store, version, parallelism)
        except ObjectNotFoundError as again:
            raise CorruptLogError(f"a file of the log is listed but not there: {again}") from None


def _load(store: Store, version: int | None, parallelism: int) -> Snapshot:
    found = discover(store, version, CommitBytes(store))
    listing = found.listing
    pinned = _pin(store, listing, version)
    bases = listing.bases(pinned)
    try:
        segment = listing.segment(pinned, bases[0] if bases else None)
    except VersionNotFoundError:
        if listing.start == 0:
            raise
        listing = list_log(store, 0)
        segment = listing.segment(pinned, None)
    return _StateFinder(store, replace(found, listing=listing), segment, parallelism).snapshot()


def _pin(store: Store, listing: Listing, version: int | None) -> int:
    if listing.is_empty:
        raise TableNotFoundError(f"no Delta table at {store.root_uri}: its _delta_log holds no commit; check the path")
    if version is None:
        return listing.head
    if not 0 <= version <= listing.head:
        raise VersionNotFoundError(f"no version {version} at {store.root_uri}; the newest is {listing.head}")
    return version


def _next_base(store: Store, listing: Listing, segment: Segment) -> tuple[Listing, Segment]:
    """The segment of the same version on the base that comes after the present one in preference."""
    rest = _after(listing.bases(segment.version), segment.base)
    if not rest and listing.start > 0:
        listing = list_log(store, 0)
        rest = _after(listing.bases(segment.version), segment.base)
    return listing, listing.segment(segment.version, rest[0] if rest else None)


def _after(bases: Sequence[CheckpointFiles], current: CheckpointFiles | None) -> list[CheckpointFiles]:
    at = next((i for i, base in enumerate(bases) if base.files == getattr(current, "files", None)), -1)
    return list(bases[at + 1 :])


class _StateFinder:
    """Finds protocol and metadata: the newest at or below the version, from the cheapest place that has them."""

    def __init__(self, store: Store, found: Discovery, segment: Segment, parallelism: int) -> None:
        self._store = store
        self._found = found
        self._listing = found.listing
        self._segment = segment
        self._parallelism = parallelism
        self._notes = list(found.notes)
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._opened: Checkpoint | None = None

    def snapshot(self) -> Snapshot:
        self._segment = self._without_doubtful(self._segment)
        source = "checksum" if self._from_checksum() else self._from_log()
        if self._protocol is None or self._metadata is None:
            missing = "protocol" if self._protocol is None else "metadata"
            raise CorruptLogError(f"version {self._segment.version} of {self._store.root_uri} has no {missing} action")
        check_protocol(self._protocol)
        return Snapshot(
            store=self._store,
            segment=self._segment,
            protocol=self._protocol,
            metadata=self._metadata,
            listing=self._listing,
            commits=self._found.commits,
            parallelism=self._parallelism,
            state_source=source,
            notes=tuple(self._notes),
            opened=self._opened,
        )

    def _without_doubtful(self, segment: Segment) -> Segment:
        """The commits themselves in place of compacted ranges that are broken or say a thing twice."""
        doubtful = [c for c in segment.commits if c.first < c.last and not self._is_sound(c)]
        if not doubtful:
            return segment
        self._notes += [f"{c.file.path} was not used: it is broken, or says a thing twice" for c in doubtful]
        self._listing = replace(self._listing, compacted=tuple(c for c in self._listing.compacted if c not in doubtful))
        return self._without_doubtful(self._listing.segment(segment.version, segment.base))

    def _is_sound(self, commit: CommitRange) -> bool:
        maker = KeyMaker(self._store.root_uri)
        try:
            return is_reconciled(self._found.commits.blocks(commit.file), commit.file.path, maker)
        except (CorruptLogError, ObjectNotFoundError):
            return False

    @property
    def _complete(self) -> bool:
        return self._protocol is not None and self._metadata is not None

    def _from_checksum(self) -> bool:
        meta = self._segment.checksum
        if meta is None or meta.size == 0:
            return False
        self._found.commits.prefetch(c.file for c in self._segment.commits[-1:])
        try:
            checksum = msgspec.json.decode(bytes(self._store.get(meta.path)), type=Checksum)
            if checksum.metadata is not None and checksum.metadata.schemaString:
                parse_schema(checksum.metadata.schemaString)
        except (msgspec.DecodeError, UnicodeDecodeError, ObjectNotFoundError, CorruptLogError) as error:
            self._notes.append(f"{meta.path} was not used ({error})")
            return False
        self._protocol, self._metadata = checksum.protocol, checksum.metadata
        if not self._complete:
            self._protocol = self._metadata = None
        return self._complete

    def _from_log(self) -> str:
        while True:
            self._from_commits()
            if self._complete or self._segment.base is None:
                return "commits"
            try:
                self._from_base(self._segment.base)
                return "checkpoint" if self._opened else "commits"
            except CorruptLogError as error:
                self._fall_back(error)

    def _from_commits(self) -> None:
        """Newest first, down to the base; what a newer commit said stays."""
        for commit in newest_first(self._segment.commits, self._found.commits, self._parallelism):
            if self._complete:
                return
            self._read_state(commit)

    def _read_state(self, commit: CommitRange) -> None:
        blocks = self._found.commits.blocks(commit.file)
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        for lines in decode_lines(blocks, StateLine, commit.file.path):
            for line in lines:
                protocol = line.protocol or protocol
                metadata = line.metaData or metadata
        self._protocol = self._protocol or protocol
        self._metadata = self._metadata or metadata

    def _from_base(self, base: CheckpointFiles) -> None:
        self._opened = open_checkpoint(self._store, base)
        state = self._opened.state()
        self._protocol = self._protocol or state.protocol
        self._metadata = self._metadata or state.metadata

    def _fall_back(self, error: CorruptLogError) -> None:
        """A broken checkpoint means the next one, then an older version's; with none left, the error itself."""
        self._opened = None
        try:
            self._listing, segment = _next_base(self._store, self._listing, self._segment)
        except (LogGapError, VersionNotFoundError):
            raise error from None
        self._notes.append(f"{self._segment.base} was not used: {error}")
        _log.warning("%s", self._notes[-1])
        self._segment = self._without_doubtful(segment)


def newest_first(commits: Sequence[CommitRange], held: CommitBytes, ahead: int) -> Iterator[CommitRange]:
    """Commits from the newest to the oldest, the next `ahead` being fetched meanwhile."""
    backwards = list(reversed(commits))
    for position, commit in enumerate(backwards):
        held.prefetch(c.file for c in backwards[position : position + ahead])
        yield commit
