"""Where a listing stands: a small value with which another listing of the same version goes on.

The order of a listing is given by its base, by the commits after it, and by how these are read; so a listing that goes
on reads the same base in the same way, passes over the files that were handed out, and checks on the way that they are
the same. What cannot be repeated exactly is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final
from zlib import crc32

import msgspec
import pyarrow as pa

from delta_sidecar.errors import LogGapError, OptionError, PositionError, VersionNotFoundError
from delta_sidecar.listing.request import FileRequest, ReadingOrder
from delta_sidecar.log.segment import CheckpointFiles, Segment
from delta_sidecar.log.snapshot import Snapshot

if TYPE_CHECKING:
    from delta_sidecar.predicates.expression import Expression

_SAMPLED: Final = 256
"""One file in so many is compared when a listing goes on; fewer would hide more, more would cost time."""


class ScanPosition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a listing has come: give it to `DeltaTable.scan_files(after=…)` of the same version to go on.

    It can be pickled, and written as JSON. It holds no credentials.

    Raises:
        PositionError: `from_json` was given something else than the text of a position.

    Example:
        >>> from delta_sidecar import DeltaTable, ScanPosition
        >>> table = DeltaTable("events")
        >>> first = table.scan_files(limit=3)
        >>> names = [path for batch in first for path in batch.column("path").to_pylist()]
        >>> text = first.position.to_json()
        >>> rest = table.scan_files(after=ScanPosition.from_json(text)).read_all()
        >>> len(names), rest.num_rows
        (3, 1)
    """

    table: str
    """The table's id."""
    version: int
    files: Annotated[int, msgspec.Meta(ge=0)]
    """How many files were handed out."""
    last: str | None
    """The path of the last of them."""
    condition: str
    """A digest of the predicate."""
    base: str
    """The base that was read, in words."""
    source: str
    """A digest of the base and the commits after it."""
    order: ReadingOrder
    check: int
    """A checksum of some of the files that were handed out."""
    fallbacks: tuple[tuple[int, str], ...] = ()
    """After how many files a base turned out broken, and what was read then."""

    def to_json(self) -> str:
        """The position as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ScanPosition:
        """The position that `to_json` wrote."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, TypeError) as error:
            raise PositionError(f"this is not the JSON of a position ({error}); give what to_json returned") from None


@dataclass(slots=True)
class Track:
    """The files that a listing has handed out or passed over, so far."""

    files: int = 0
    paths: pa.Array | None = None
    """Those of the last batch."""
    check: int = 0
    """A checksum of some of the paths, in their order."""
    fallbacks: list[tuple[int, str]] = field(default_factory=list)

    def note(self, rows: pa.RecordBatch) -> None:
        """Further files; they need their `path`."""
        if not rows.num_rows:
            return
        paths = rows.column("path")
        for at in range(-self.files % _SAMPLED, rows.num_rows, _SAMPLED):
            self.check = crc32(paths[at].as_py().encode(), self.check)
        self.files += rows.num_rows
        self.paths = paths

    @property
    def last(self) -> str | None:
        return None if self.paths is None else str(self.paths[-1])

    @property
    def fallbacks_before(self) -> tuple[tuple[int, str], ...]:
        """Those that the files so far have come after."""
        return tuple(fallback for fallback in self.fallbacks if fallback[0] < self.files)

    def compare(self, position: ScanPosition) -> None:
        """Raise `PositionError` unless these are the files that were handed out before the position."""
        now = (self.files, self.last, self.check, self.fallbacks_before)
        if now != (position.files, position.last, position.check, position.fallbacks):
            raise PositionError(
                f"the {position.files:,} files before the position are not listed in the same order any more; "
                "list from the start"
            )


def position_of(snapshot: Snapshot, request: FileRequest, condition: Expression | None, track: Track) -> ScanPosition:
    """Where a listing stands."""
    if "path" not in request.output:
        raise OptionError("a listing without the column path has no position; ask for path, too")
    return ScanPosition(
        table=snapshot.metadata.id,
        version=snapshot.version,
        files=track.files,
        last=track.last,
        condition=_condition(request, condition),
        base=_words(snapshot.segment),
        source=_source(snapshot.segment),
        order=request.order,
        check=track.check,
        fallbacks=track.fallbacks_before,
    )


def check_position(position: Any, snapshot: Snapshot, request: FileRequest, condition: Expression | None) -> None:
    """Raise unless a position is one of this table, version and predicate."""
    if not isinstance(position, ScanPosition):
        raise PositionError(f"after is a {type(position).__name__}; it takes what scan.position gave")
    if "path" not in request.output:
        raise OptionError("a listing that goes on after a position needs the column path; ask for path, too")
    if position.table != snapshot.metadata.id:
        raise PositionError("the position is of another table")
    if position.version != snapshot.version:
        raise PositionError(
            f"the position is of version {position.version}, this is version {snapshot.version}; "
            f"open the table with version={position.version}"
        )
    if position.condition != _condition(request, condition):
        raise PositionError("the position is of a listing with another predicate; give the same one")


def on_base_of(position: ScanPosition, snapshot: Snapshot) -> Snapshot:
    """The snapshot on the base that was read before the position, though there may be a better one by now."""
    while _source(snapshot.segment) != position.source:
        try:
            if snapshot.segment.base is None:
                raise LogGapError("no further base")
            snapshot, _ = snapshot.on_older_base()
        except (LogGapError, VersionNotFoundError):
            raise PositionError(
                f"the position is of a listing of {position.base}, which is not there as it was; list from the start"
            ) from None
    return snapshot


def _condition(request: FileRequest, condition: Expression | None) -> str:
    return _digest(repr(condition), request.settings.partition_timezone) if condition is not None else ""


def _words(segment: Segment) -> str:
    return "the log alone" if segment.base is None else str(segment.base)


def _source(segment: Segment) -> str:
    """What the files come from, and in which order: the base as it is, and the files of the commits after it."""
    base = segment.base
    if base is None:
        told = [""]
    elif isinstance(base, CheckpointFiles):
        told = [f"{file.path} {file.size} {file.last_modified_ms}" for file in base.files]
    else:
        told = [base.content]
    return _digest(*told, *(commit.file.path for commit in segment.commits))


def _digest(*texts: str) -> str:
    from hashlib import blake2b

    return blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()
