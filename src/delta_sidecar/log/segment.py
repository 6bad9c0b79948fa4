"""Which files of the log make a version. No I/O here.

`LogListing` holds the files that one LIST of the log directory found.
`LogListing.segment` gives the commits that make a version on a given base.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from delta_sidecar.errors import LogGapError, VersionNotFoundError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.dialect import DELTA, Dialect
from delta_sidecar.log.log_names import Kind, LogName, parse_name
from delta_sidecar.storage.store import ObjectMeta


class CheckpointFiles(Struct, frozen=True):
    """A complete checkpoint: one file, or all parts of one."""

    version: int
    kind: Kind
    files: tuple[ObjectMeta, ...]

    @property
    def size(self) -> int:
        return sum(f.size for f in self.files)

    @property
    def content(self) -> str:
        """Identifies its files, as `OtherBase.content` does."""
        return "\0".join(f"{file.path} {file.size} {file.last_modified_ms}" for file in self.files)

    def __str__(self) -> str:
        parts = f", {len(self.files)} parts" if len(self.files) > 1 else ""
        return f"{self.kind.value} {self.version}{parts}"


class CheckpointState(Struct, frozen=True):
    """Protocol and metadata of a checkpoint."""

    protocol: Protocol | None
    metadata: Metadata | None


class OtherBase(ABC):
    """A base outside the log, such as an index: what is needed to pin a version on it. `listing/base.py` `ListableBase`
    adds what is needed to list its files."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """A noun for plans, such as `index`."""

    @property
    @abstractmethod
    def version(self) -> int: ...

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of all its files."""

    @property
    @abstractmethod
    def part_count(self) -> int: ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """About the bytes that it takes in memory."""

    @property
    @abstractmethod
    def content(self) -> str:
        """Identifies its files: bases with the same text hold the same files in the same order."""

    @property
    @abstractmethod
    def protocol(self) -> Protocol: ...

    @property
    @abstractmethod
    def metadata(self) -> Metadata: ...


class CommitRange(Struct, frozen=True):
    """One commit, or a compacted range of them that is read as one."""

    first: int
    last: int
    file: ObjectMeta

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last} (compacted)"


class Segment(Struct, frozen=True):
    """The files that make one version."""

    version: int
    base: CheckpointFiles | OtherBase | None
    commits: tuple[CommitRange, ...]
    """After the base, oldest first, contiguous up to `version`."""
    checksum: ObjectMeta | None
    """The version's `.crc` file, if it was listed."""

    @property
    def base_version(self) -> int:
        return -1 if self.base is None else self.base.version

    @property
    def tail_bytes(self) -> int:
        return sum(c.file.size for c in self.commits)


class LogListing(Struct, frozen=True):
    """The files that one LIST of the log found, from version `start` on."""

    start: int
    commits: Mapping[int, ObjectMeta]
    checkpoints: tuple[CheckpointFiles, ...]
    """Complete ones, the best first: newest version, then V2, multi-part, classic."""
    compacted: tuple[CommitRange, ...] = ()
    checksums: Mapping[int, ObjectMeta] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[ObjectMeta], start: int, dialect: Dialect = DELTA) -> LogListing:
        """Sort the objects of a LIST by kind; objects that are not part of the log are ignored."""
        commits: dict[int, ObjectMeta] = {}
        checksums: dict[int, ObjectMeta] = {}
        compacted: list[CommitRange] = []
        candidates: list[tuple[LogName, ObjectMeta]] = []
        for meta in objects:
            name = parse_name(meta.path.rpartition("/")[2], dialect.kinds)
            if name is None:
                continue
            if name.kind is Kind.COMMIT:
                commits[name.version] = meta
            elif name.kind is Kind.CHECKSUM:
                checksums[name.version] = meta
            elif meta.size == 0:
                continue
            elif name.kind is Kind.COMPACTED:
                compacted.append(CommitRange(name.version, name.end_version, meta))
            else:
                candidates.append((name, meta))
        return cls(start, commits, _complete(candidates), tuple(compacted), checksums)

    @property
    def is_empty(self) -> bool:
        return not self.commits and not self.checkpoints

    @property
    def head(self) -> int:
        """The newest version there is."""
        newest_checkpoint = self.checkpoints[0].version if self.checkpoints else -1
        return max(max(self.commits, default=-1), newest_checkpoint)

    def has_same_commit(self, other: LogListing, version: int) -> bool:
        """Whether the commit of a version is the same file in another LIST: if not, the table was created again."""
        ours, theirs = self.commits.get(version), other.commits.get(version)
        if ours is None or theirs is None:
            return False
        return theirs.is_as(ours.size, ours.last_modified_ms, ours.etag)

    def bases(self, version: int) -> list[CheckpointFiles]:
        """Complete checkpoints that can be the base of a version, the best first."""
        return [c for c in self.checkpoints if c.version <= version]

    def segment(self, version: int, base: CheckpointFiles | OtherBase | None) -> Segment:
        """The files that make `version` on top of `base`; a missing commit is an error."""
        first = 0 if base is None else base.version + 1
        missing = next((v for v in range(first, version + 1) if v not in self.commits), None)
        if missing is not None:
            raise self._missing(missing, version, base)
        commits = _with_compacted(first, version, self.commits, self.compacted)
        return Segment(version, base, commits, self.checksums.get(version))

    def _missing(
        self, missing: int, version: int, base: CheckpointFiles | OtherBase | None
    ) -> LogGapError | VersionNotFoundError:
        oldest = min(self.commits, default=None)
        if base is None and (oldest is None or missing < oldest):
            return VersionNotFoundError(
                f"version {version} cannot be rebuilt: commit {missing} is missing and there is no complete checkpoint "
                f"at or below it; {'no commit is left' if oldest is None else f'the oldest commit is {oldest}'}"
            )
        return LogGapError(
            f"commit {missing} is missing from the log, so version {version} cannot be rebuilt; "
            "restore the file or read a version before it"
        )


_PREFERENCE = {
    Kind.UUID_CHECKPOINT: 2,
    Kind.MULTI_PART_CHECKPOINT: 1,
    Kind.CLASSIC_CHECKPOINT: 0,
    Kind.JSON_CHECKPOINT: -1,
}


def _complete(candidates: Iterable[tuple[LogName, ObjectMeta]]) -> tuple[CheckpointFiles, ...]:
    """Checkpoints of which every file is there, the best first."""
    checkpoints: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, ObjectMeta]] = {}
    for name, meta in candidates:
        if name.kind is Kind.MULTI_PART_CHECKPOINT:
            parts.setdefault((name.version, name.parts), {})[name.part] = meta
        else:
            checkpoints.append(CheckpointFiles(name.version, name.kind, (meta,)))
    for (version, count), by_part in parts.items():
        if sorted(by_part) == list(range(1, count + 1)):
            files = tuple(by_part[i] for i in range(1, count + 1))
            checkpoints.append(CheckpointFiles(version, Kind.MULTI_PART_CHECKPOINT, files))
    checkpoints.sort(key=lambda c: (c.version, _PREFERENCE[c.kind], len(c.files), c.files[0].path), reverse=True)
    return tuple(checkpoints)


def _with_compacted(
    first: int, last: int, commits: Mapping[int, ObjectMeta], compacted: Iterable[CommitRange]
) -> tuple[CommitRange, ...]:
    """Commits `first` … `last`, with compacted ranges that lie wholly inside in place of theirs, the widest first."""
    usable = [c for c in compacted if first <= c.first < c.last <= last]
    usable.sort(key=lambda c: (c.first, -c.last))
    chosen: list[CommitRange] = []
    at = first
    for candidate in usable:
        if candidate.first >= at:
            chosen += [CommitRange(v, v, commits[v]) for v in range(at, candidate.first)]
            chosen.append(candidate)
            at = candidate.last + 1
    chosen += [CommitRange(v, v, commits[v]) for v in range(at, last + 1)]
    return tuple(chosen)
