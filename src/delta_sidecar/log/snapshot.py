"""A pinned version of a table: its segment, protocol, metadata and schema, known before any file is emitted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from delta_sidecar.errors import (
    CorruptLogError,
    LogGapError,
    ObjectNotFoundError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.actions import Checksum, Metadata, Protocol, StateLine
from delta_sidecar.log.commits import CommitBytes, is_reconciled
from delta_sidecar.log.dialect import DELTA, Dialect
from delta_sidecar.log.discovery import Discovery, discover, list_log
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.lines import decode_lines
from delta_sidecar.log.protocol import check_protocol, mapping_mode
from delta_sidecar.log.segment import CheckpointFiles, CheckpointState, CommitRange, LogListing, OtherBase, Segment
from delta_sidecar.storage.store import Store

if TYPE_CHECKING:
    from delta_sidecar.log.checkpoint import Checkpoint
    from delta_sidecar.values.types import StructType

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """One version of a table. Nothing newer is ever read through it."""

    store: Store
    segment: Segment
    protocol: Protocol
    metadata: Metadata
    listing: LogListing
    commits: CommitBytes
    state_source: str = ""
    """Where protocol and metadata came from."""
    notes: tuple[str, ...] = ()
    """Problems found in the log, and what was read instead."""
    passed_over: str | None = None
    """Why a base outside the log exists but is not used."""
    opened: Checkpoint | None = field(default=None, compare=False)
    """The checkpoint, if it had to be opened for protocol or metadata."""
    dialect: Dialect = DELTA

    @property
    def version(self) -> int:
        return self.segment.version

    @cached_property
    def mapping_mode(self) -> str:
        return mapping_mode(self.protocol, self.metadata)

    @cached_property
    def schema(self) -> StructType:
        """The schema; empty if the metadata has none: such a table can be listed, not read."""
        from delta_sidecar.values.types import StructType, parse_schema

        text = self.metadata.schemaString
        return parse_schema(text, self.mapping_mode) if text else StructType()

    @property
    def partition_columns(self) -> list[str]:
        """Logical names."""
        return list(self.metadata.partitionColumns)

    def open_base(self) -> Checkpoint | None:
        """The checkpoint of the segment, opened for one reader; `CorruptLogError` if it is damaged."""
        if self.opened is not None:
            return self.opened.reopened()
        base = self.segment.base
        if base is not None and not isinstance(base, CheckpointFiles):
            raise TypeError(f"{base} is not a checkpoint; ask for `on_checkpoint` first")
        return None if base is None else _open(self.store, base, self.dialect)

    def with_open_base(self) -> Snapshot:
        """The same snapshot for several readers: reads the footers of its checkpoint once for all of them."""
        return replace(self, opened=self.open_base()) if self.opened is None else self

    def by_single_commits(self) -> Snapshot:
        """The same version without compacted ranges, which do not tell in which of their commits a file came."""
        if all(commit.first == commit.last for commit in self.segment.commits):
            return self
        listing = structs.replace(self.listing, compacted=())
        return replace(self, segment=listing.segment(self.version, self.segment.base))

    def on_checkpoint(self) -> Snapshot:
        """The same version without a base outside the log."""
        base = self.segment.base
        return self if base is None or isinstance(base, CheckpointFiles) else self.on_older_base()[0]

    def on_older_base(self) -> tuple[Snapshot, tuple[CommitRange, ...]]:
        """The same version on the next best base, and the commits between that base and the present one. After a base
        outside the log come all checkpoints, also newer ones."""
        assert self.segment.base is not None
        listing, segment = _next_base(self.store, self.listing, self.segment, self.dialect)
        between = structs.replace(listing, compacted=()).segment(self.segment.base.version, segment.base).commits
        return replace(self, listing=listing, segment=segment, opened=None), between


def load_snapshot(
    store: Store,
    version: int | None = None,
    limits: CommitLimits | None = None,
    find: Callable[[Store, int | None, CommitBytes], Discovery] = discover,
    dialect: Dialect = DELTA,
) -> Snapshot:
    """Pin the newest version, or an older one. `find` finds the log, and perhaps a better base than its checkpoints.

    If a listed file was deleted meanwhile, the log is listed once more.
    """
    try:
        return _load(store, version, limits, find, dialect)
    except (ObjectNotFoundError, LogGapError) as error:
        _log.info("the log changed while it was read (%s); starting again", error)
        try:
            return _load(store, version, limits, find, dialect)
        except ObjectNotFoundError as again:
            raise CorruptLogError(f"a file of the log is listed but does not exist: {again}") from None


def _load(
    store: Store,
    version: int | None,
    limits: CommitLimits | None,
    find: Callable[[Store, int | None, CommitBytes], Discovery],
    dialect: Dialect,
) -> Snapshot:
    discovery = find(store, version, CommitBytes(store, limits, dialect))
    return snapshot_of(store, discovery, _pin(store, discovery, version, dialect), dialect=dialect)


def snapshot_of(
    store: Store, discovery: Discovery, version: int, known: Snapshot | None = None, dialect: Dialect = DELTA
) -> Snapshot:
    """Pin a version of a listed log. Protocol and metadata of an older `known` snapshot are reused."""
    listing = discovery.listing
    segment = _segment_on_other(listing, version, discovery.other)
    if segment is None and discovery.other is not None:
        reason = f"{discovery.other} was not used: the commits after it are too large, or one is missing"
        discovery = structs.replace(discovery, passed_over="; ".join(filter(None, [discovery.passed_over, reason])))
    if segment is None:
        try:
            listing, segment = _segment_of_log(store, listing, version, dialect)
        except VersionNotFoundError:
            if discovery.other is not None:
                # No checkpoint can replace the index, so what is amiss is the gap after it: this names it.
                discovery.listing.segment(version, discovery.other)
            raise
    return _StateFinder(store, structs.replace(discovery, listing=listing), segment, known, dialect).snapshot()


_WORTH = 4
"""A base outside the log that is older than a checkpoint is used if the commits between them are this many times
smaller than the checkpoint."""


def _segment_on_other(listing: LogListing, version: int, other: OtherBase | None) -> Segment | None:
    """The version on a base outside the log; None if there is none, or a checkpoint is better."""
    if other is None:
        return None
    newest = next(iter(listing.bases(version)), None)
    if newest is not None and newest.version > other.version:
        between = [listing.commits.get(v) for v in range(other.version + 1, newest.version + 1)]
        if None in between or _WORTH * sum(meta.size for meta in between if meta is not None) > newest.size:
            return None
    try:
        return listing.segment(version, other)
    except LogGapError:
        return None


def _segment_of_log(store: Store, listing: LogListing, version: int, dialect: Dialect) -> tuple[LogListing, Segment]:
    """The version on its best checkpoint. If the listing has none and begins late, the whole log is listed."""
    bases = listing.bases(version)
    try:
        return listing, listing.segment(version, bases[0] if bases else None)
    except VersionNotFoundError:
        if listing.start == 0:
            raise
        return _segment_of_log(store, list_log(store, 0, dialect), version, dialect)


def _pin(store: Store, discovery: Discovery, version: int | None, dialect: Dialect) -> int:
    head = discovery.head
    if head < 0:
        raise TableNotFoundError(
            f"no {dialect.name} at {store.root_uri}: its {dialect.directory} holds no commit; check the path"
        )
    if version is None:
        return head
    if not 0 <= version <= head:
        raise VersionNotFoundError(f"no version {version} at {store.root_uri}; the newest is {head}")
    return version


def _open(store: Store, base: CheckpointFiles, dialect: Dialect) -> Checkpoint:
    if dialect.open_checkpoint is not None:
        opened: Checkpoint = dialect.open_checkpoint(store, base)
        return opened
    from delta_sidecar.log.checkpoint import open_checkpoint

    return open_checkpoint(store, base)


def _next_base(store: Store, listing: LogListing, segment: Segment, dialect: Dialect) -> tuple[LogListing, Segment]:
    """The segment of the same version on the next best base."""
    rest = _after(listing.bases(segment.version), segment.base)
    if not rest and listing.start > 0:
        listing = list_log(store, 0, dialect)
        rest = _after(listing.bases(segment.version), segment.base)
    return listing, listing.segment(segment.version, rest[0] if rest else None)


def _after(bases: Sequence[CheckpointFiles], current: CheckpointFiles | OtherBase | None) -> list[CheckpointFiles]:
    at = next((i for i, base in enumerate(bases) if base.files == getattr(current, "files", None)), -1)
    return list(bases[at + 1 :])


class _StateFinder:
    """Finds the newest protocol and metadata at or below the version, in the cheapest place that has them."""

    def __init__(
        self, store: Store, discovery: Discovery, segment: Segment, known: Snapshot | None, dialect: Dialect
    ) -> None:
        self._store = store
        self._dialect = dialect
        self._known = known
        self._discovery = discovery
        self._listing = discovery.listing
        self._segment = segment
        self._notes = list(discovery.notes)
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._opened: Checkpoint | None = None

    def snapshot(self) -> Snapshot:
        self._segment = self._without_doubtful(self._segment)
        source = self._from_what_is_here() or ("checksum" if self._from_checksum() else self._from_log())
        if self._protocol is None or self._metadata is None:
            missing = "protocol" if self._protocol is None else "metadata"
            raise CorruptLogError(f"version {self._segment.version} of {self._store.root_uri} has no {missing} action")
        check_protocol(self._protocol, self._dialect)
        return Snapshot(
            store=self._store,
            segment=self._segment,
            protocol=self._protocol,
            metadata=self._metadata,
            listing=self._listing,
            commits=self._discovery.commits,
            state_source=source,
            notes=tuple(self._notes),
            passed_over=self._discovery.passed_over,
            opened=self._opened,
            dialect=self._dialect,
        )

    def _without_doubtful(self, segment: Segment) -> Segment:
        """The segment with commits instead of compacted ranges that are damaged or name a file twice."""
        doubtful = [c for c in segment.commits if c.first < c.last and not self._is_sound(c)]
        if not doubtful:
            return segment
        self._notes += [f"{c.file.path} was not used: it is broken, or has a file twice" for c in doubtful]
        self._listing = structs.replace(
            self._listing, compacted=tuple(c for c in self._listing.compacted if c not in doubtful)
        )
        return self._without_doubtful(self._listing.segment(segment.version, segment.base))

    def _is_sound(self, commit: CommitRange) -> bool:
        maker = KeyMaker(self._store.root_uri)
        try:
            return is_reconciled(self._discovery.commits.blocks(commit.file), commit.file.path, maker)
        except (CorruptLogError, ObjectNotFoundError):
            return False

    @property
    def _complete(self) -> bool:
        return self._protocol is not None and self._metadata is not None

    def _from_what_is_here(self) -> str | None:
        """Read the state without a request, if all that it follows from is in memory: the commits after a known
        version, or after a base that has it."""
        base, known = self._segment.base, self._known
        if isinstance(base, CheckpointFiles) or (base is None and known is None):
            return None
        since = -1 if known is None else known.version
        unread = [c.file for c in self._segment.commits if c.last > since]
        return self._from_log() if self._discovery.commits.holds(unread) else None

    def _from_checksum(self) -> bool:
        meta = self._segment.checksum
        if meta is None or meta.size == 0:
            return False
        self._discovery.commits.prefetch(c.file for c in self._segment.commits[-1:])
        try:
            checksum = msgspec.json.decode(bytes(self._store.get(meta.path)), type=Checksum)
            if checksum.metadata is not None and checksum.metadata.schemaString:
                from delta_sidecar.values.types import parse_schema

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
                return self._from_base(self._segment.base)
            except CorruptLogError as error:
                self._fall_back(error)

    def _from_commits(self) -> None:
        """Read the commits newest first, down to the base; the newest action counts."""
        known = self._known
        unread = [c for c in self._segment.commits if known is None or c.last > known.version]
        for commit in newest_first(unread, self._discovery.commits):
            if self._complete:
                return
            self._read_state(commit)
        if known is not None:
            self._protocol = self._protocol or known.protocol
            self._metadata = self._metadata or known.metadata

    def _read_state(self, commit: CommitRange) -> None:
        protocol, metadata = state_of_commit(self._discovery.commits, commit)
        self._protocol = self._protocol or protocol
        self._metadata = self._metadata or metadata

    def _from_base(self, base: CheckpointFiles | OtherBase) -> str:
        if isinstance(base, CheckpointFiles):
            self._opened = _open(self._store, base, self._dialect)
            state: CheckpointState | OtherBase = self._opened.state()
        else:
            state = base
        self._protocol = self._protocol or state.protocol
        self._metadata = self._metadata or state.metadata
        return "checkpoint" if isinstance(base, CheckpointFiles) else base.kind

    def _fall_back(self, error: CorruptLogError) -> None:
        """Take the next checkpoint instead of a damaged one; raise the error if none is left."""
        self._opened = None
        try:
            self._listing, segment = _next_base(self._store, self._listing, self._segment, self._dialect)
        except (LogGapError, VersionNotFoundError):
            raise error from None
        self._notes.append(f"{self._segment.base} was not used: {error}")
        _log.warning("%s", self._notes[-1])
        self._segment = self._without_doubtful(segment)


def state_of_commit(commits: CommitBytes, commit: CommitRange) -> tuple[Protocol | None, Metadata | None]:
    """The protocol and metadata that a commit sets; None for what it leaves as it was."""
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for lines in decode_lines(commits.blocks(commit.file), StateLine, commit.file.path, may_hold_state):
        for line in lines:
            protocol = line.protocol or protocol
            metadata = line.metaData or metadata
    return protocol, metadata


def may_hold_state(block: bytes) -> bool:
    """Whether a block may hold a protocol or metadata line, judged by how its lines begin."""
    at = 0
    while at < len(block):
        if not block.startswith(_OTHER_ACTIONS, at):
            return True
        at = block.find(b"\n", at) + 1 or len(block)
    return False


_OTHER_ACTIONS = tuple(
    b'{"%s":%s{' % (action, space)
    for action in (b"add", b"remove", b"commitInfo", b"txn", b"cdc", b"domainMetadata")
    for space in (b"", b" ")
)
"""How the lines of other actions begin; Python's JSON writer puts a space after a colon."""


def newest_first(commits: Sequence[CommitRange], held: CommitBytes, ahead: int | None = None) -> Iterator[CommitRange]:
    """Commits from the newest to the oldest. The next `ahead` are fetched meanwhile, by default as many as `held`
    allows."""
    return fetched_ahead(list(reversed(commits)), held, ahead)


def fetched_ahead(commits: Sequence[CommitRange], held: CommitBytes, ahead: int | None = None) -> Iterator[CommitRange]:
    """Commits in their order, as `newest_first` gives them in the other."""
    ahead = ahead or held.limits.parallelism
    for position, commit in enumerate(commits):
        held.prefetch(c.file for c in commits[position : position + ahead])
        yield commit
