"""The actions of a search table's log: splits that are added and removed, and merges that skipped one.

Every field of note 004 and of what IndexTables writes today has its own name in the log. Fields that are unknown are
kept in `extra`, and written again wherever the action is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, structs

from delta_sidecar.errors import CorruptLogError
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.lines import decode_lines

Wire: TypeAlias = dict[str, Any]
"""An action as it is in JSON."""


class Split(Struct, frozen=True, kw_only=True):
    """The `add` action: a split of the table, with the names of the log.

    Example:
        >>> from delta_sidecar.search import Split
        >>> split = Split(path="part-0.split", size=1_048_576, numRecords=1000, minValues={"id": "1"})
        >>> split.numRecords
        1000
    """

    path: str
    """Relative to the table. Absolute paths below the table are read, too."""
    partitionValues: dict[str, str | None] = {}
    size: int = 0
    modificationTime: int = 0
    """Milliseconds since 1970."""
    dataChange: bool = True
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    minValues: dict[str, str | None] | None = None
    """Texts. What they mean depends on the type of the column."""
    maxValues: dict[str, str | None] | None = None
    numRecords: int | None = None
    footerStartOffset: int | None = None
    footerEndOffset: int | None = None
    hotcacheStartOffset: int | None = None
    hotcacheLength: int | None = None
    hasFooterOffsets: bool = False
    timeRangeStart: str | None = None
    timeRangeEnd: str | None = None
    splitTags: list[str] | None = None
    deleteOpstamp: int | None = None
    numMergeOps: int | None = None
    docMappingJson: str | None = None
    uncompressedSizeBytes: int | None = None
    docMappingRef: str | None = None
    companionSourceFiles: list[str] | None = None
    companionDeltaVersion: int | None = None
    companionFastFieldMode: str | None = None
    addedAtVersion: int | None = None
    addedAtTimestamp: int | None = None
    extra: dict[str, Any] = {}
    """Fields that are unknown."""


class RemovedSplit(Struct, frozen=True, kw_only=True):
    """The `remove` action: a split that is no longer live.

    Example:
        >>> from delta_sidecar.search import RemovedSplit
        >>> RemovedSplit(path="part-0.split", deletionTimestamp=1_696_000_001_000).dataChange
        True
    """

    path: str
    deletionTimestamp: int | None = None
    dataChange: bool = True
    extendedFileMetadata: bool | None = None
    partitionValues: dict[str, str | None] | None = None
    size: int | None = None
    tags: dict[str, str | None] | None = None
    extra: dict[str, Any] = {}


class MergeSkip(Struct, frozen=True, kw_only=True):
    """The `mergeskip` action: a merge left this split out, and may try it again later.

    Example:
        >>> from delta_sidecar.search import MergeSkip
        >>> skipped = MergeSkip(path="part-0.split", skipTimestamp=1_000, reason="corrupt footer", retryAfter=5_000)
        >>> skipped.is_cooling(now_ms=4_999), skipped.is_cooling(now_ms=5_000)
        (True, False)
    """

    path: str
    skipTimestamp: int = 0
    reason: str = ""
    operation: str = "merge"
    partitionValues: dict[str, str | None] | None = None
    size: int | None = None
    retryAfter: int | None = None
    """Milliseconds since 1970. Without it, a merge may try again at once."""
    skipCount: int = 1
    extra: dict[str, Any] = {}

    def is_cooling(self, now_ms: int) -> bool:
        """Whether merges still leave the split alone."""
        return self.retryAfter is not None and now_ms < self.retryAfter


class ActionLine(Struct, gc=False):
    """A line of a version file. Actions that are unknown are ignored."""

    protocol: Wire | None = None
    metaData: Wire | None = None
    add: Wire | None = None
    remove: Wire | None = None
    mergeskip: Wire | None = None
    commitInfo: Wire | None = None


APPLICATION: Final = "appId"
BATCH: Final = "batchId"
"""What `commitInfo` says of a batch of an application."""
BATCH_TAG: Final = "sidecar.batch."
"""Before the name of the application, in the tags of a split: the number of the batch."""


class CommitActions(Struct):
    """The actions of one version file. Of actions on the same split, the last counts."""

    protocols: list[Wire] = []
    metadatas: list[Wire] = []
    adds: list[Split] = []
    removes: list[RemovedSplit] = []
    skips: list[MergeSkip] = []
    info: Wire | None = None


A = TypeVar("A", Split, RemovedSplit, MergeSkip)

_TEXT_MAPS: Final = ("partitionValues", "tags", "minValues", "maxValues")
_FIELDS: Final = {kind: frozenset(kind.__struct_fields__) - {"extra"} for kind in (Split, RemovedSplit, MergeSkip)}


def from_wire(kind: type[A], wire: Mapping[str, Any], where: str) -> A:
    """An action out of its JSON; a null is as good as a missing field."""
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in wire.items():
        if value is None:
            continue
        if name not in _FIELDS[kind]:
            extra[name] = value
        elif name in _TEXT_MAPS and isinstance(value, dict):
            known[name] = {key: _text(entry) for key, entry in value.items()}
        elif isinstance(value, float) and value.is_integer():
            known[name] = int(value)
        else:
            known[name] = value
    if extra:
        known["extra"] = extra
    try:
        return msgspec.convert(known, kind, strict=False)
    except msgspec.ValidationError as error:
        raise CorruptLogError(f"{where}: an action of the log is broken ({error}); restore the file") from None


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


_ALWAYS: Final = ("path", "partitionValues", "size", "modificationTime", "dataChange")


def to_wire(action: Split | RemovedSplit | MergeSkip) -> Wire:
    """The action as JSON, with the unknown fields it came with."""
    values = structs.asdict(action)
    extra = values.pop("extra")
    always = _ALWAYS if isinstance(action, Split) else ("path", "dataChange", "skipTimestamp", "reason", "operation")
    known = {
        name: value for name, value in values.items() if name in always or (value is not None and value is not False)
    }
    return {**known, **extra}


def batches_of(actions: Iterable[Split | RemovedSplit], info: Mapping[str, Any] | None = None) -> dict[str, int]:
    """The highest number of each application whose batches some splits are of, or a `commitInfo` names."""
    found: dict[str, int] = {}
    for action in actions:
        for name, text in (action.tags or {}).items():
            if name.startswith(BATCH_TAG) and text is not None and text.isdigit():
                application = name.removeprefix(BATCH_TAG)
                found[application] = max(int(text), found.get(application, -1))
    named, number = (info or {}).get(APPLICATION), (info or {}).get(BATCH)
    if isinstance(named, str) and isinstance(number, int):
        found[named] = max(number, found.get(named, -1))
    return found


SEAL: Final = "sidecar.following"
"""The entry of our `commitInfo`, which is the first line, that says what follows it."""


class _Seal(Struct):
    actions: int
    crc32: int


class _Followed:
    """Blocks of a version file, and the checksum of what follows its first line."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = blocks
        self.crc32 = 0

    def __iter__(self) -> Iterator[bytes]:
        is_first = True
        for block in self._blocks:
            following = block[block.find(b"\n") + 1 or len(block) :] if is_first else block
            self.crc32 = zlib.crc32(following, self.crc32)
            is_first = False
            yield block


def commit_actions(blocks: Iterable[bytes], path: str) -> CommitActions:
    """All actions of a version file. A file without any, or with fewer or others than its first line says, is broken:
    a file that was cut at the end of a line would pass for a smaller commit."""
    found = CommitActions([], [], [], [], [])
    files: dict[str, Split | RemovedSplit] = {}
    followed = _Followed(blocks)
    count = 0
    for lines in decode_lines(followed, ActionLine, path):
        count += len(lines)
        for line in lines:
            if line.add is not None:
                added = from_wire(Split, line.add, path)
                files[added.path] = added
            elif line.remove is not None:
                removed = from_wire(RemovedSplit, line.remove, path)
                files[removed.path] = removed
            elif line.mergeskip is not None:
                found.skips.append(from_wire(MergeSkip, line.mergeskip, path))
            elif line.protocol is not None:
                found.protocols.append(line.protocol)
            elif line.metaData is not None:
                found.metadatas.append(line.metaData)
            elif line.commitInfo is not None:
                found.info = line.commitInfo
    if count == 0:
        raise CorruptLogError(f"{path} is empty: what this version added or removed is lost; restore the file")
    _check_seal((found.info or {}).pop(SEAL, None), count - 1, followed.crc32, path)
    found.adds = [file for file in files.values() if isinstance(file, Split)]
    found.removes = [file for file in files.values() if isinstance(file, RemovedSplit)]
    return found


def _check_seal(wire: Any, actions: int, crc32: int, path: str) -> None:
    """Compare what follows the first line with what it says; other writers say nothing."""
    if wire is None:
        return
    try:
        seal = msgspec.convert(wire, _Seal)
    except msgspec.ValidationError as error:
        raise CorruptLogError(f"{path}: its first line is broken ({error}); restore the file") from None
    if seal.actions != actions:
        raise CorruptLogError(f"{path} holds {actions} of {seal.actions} actions; restore the file")
    if seal.crc32 != crc32:
        raise CorruptLogError(f"the actions in {path} are not those that were written; restore the file")


def encode_lines(actions: Sequence[tuple[str, Wire]]) -> bytes:
    """Actions as lines of a version file, each with its name."""
    return b"".join(msgspec.json.encode({name: wire}) + b"\n" for name, wire in actions)


def encode_commit(info: Mapping[str, Any], actions: Sequence[tuple[str, Wire]]) -> bytes:
    """A version file: `commitInfo` with the number and the checksum of the actions, then these. It is the first line,
    so that a file that was cut still says what it held."""
    lines = encode_lines(actions)
    seal = _Seal(len(actions), zlib.crc32(lines))
    return encode_lines([("commitInfo", {**info, SEAL: msgspec.to_builtins(seal)})]) + lines


class SplitKeys:
    """One key for each split, whether the log spells its path relative to the table or in full. Unlike Delta's, these
    paths hold names as they are: nothing in them is escaped."""

    def __init__(self, root_uri: str) -> None:
        self._maker = KeyMaker(root_uri)
        self._root = self._canonical(f"{root_uri.rstrip('/')}/x")[:-1]

    @property
    def maker(self) -> KeyMaker:
        return self._maker

    def key(self, path: str) -> bytes:
        return self._canonical(path).removeprefix(self._root)

    def _canonical(self, path: str) -> bytes:
        return self._maker.canonical(path.replace("%", "%25"))

    def keys(self, actions: Iterable[Split | RemovedSplit | MergeSkip]) -> list[bytes]:
        return [self.key(action.path) for action in actions]

    def by_key(self, actions: Iterable[A]) -> Iterator[tuple[bytes, A]]:
        return ((self.key(action.path), action) for action in actions)
