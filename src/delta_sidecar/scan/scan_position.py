"""The position of a listing: a small value from which another listing of the same version can resume.

The order of a listing follows from its base, the commits after it, and how these are read. So a resumed listing reads
the same base in the same way, skips the files that were already returned, and checks that they are the same. If the
listing cannot be repeated exactly, the position is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final
from zlib import crc32

import msgspec
import pyarrow as pa

from delta_sidecar.errors import LogGapError, OptionError, PositionError, VersionNotFoundError
from delta_sidecar.index.read.opening import on_index_of
from delta_sidecar.listing.request import FileRequest, ReadingOrder
from delta_sidecar.log.segment import Segment
from delta_sidecar.log.snapshot import Snapshot

if TYPE_CHECKING:
    from delta_sidecar.predicates.expression import Expression

_SAMPLED: Final = 256
"""One path in this many goes into the checksum of a position; more would find more changes, but cost time."""


class ScanPosition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The position of a listing: pass it to `DeltaTable.scan_files(after=…)` of the same version to resume.

    It can be pickled, and written as JSON. It holds no credentials.

    Raises:
        PositionError: The text given to `from_json` is not the JSON of a position.

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
    """The number of files that were returned."""
    last: str | None
    """The path of the last of these files."""
    condition: str
    """A digest of the predicate."""
    base: str
    """The base that was read, as text."""
    source: str
    """A digest of the base and the commits after it."""
    order: ReadingOrder
    check: int
    """A checksum of some of the paths that were returned."""
    base_version: int = -1
    """The version of the base; -1 if there is none."""
    fallbacks: tuple[tuple[int, str], ...] = ()
    """For each base that turned out to be broken: the number of files before it broke, and the base used next."""

    def to_json(self) -> str:
        """The position as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ScanPosition:
        """The position that `to_json` wrote."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, TypeError) as error:
            raise PositionError(f"this is not the JSON of a position ({error}); pass the text of to_json") from None


@dataclass(slots=True)
class Track:
    """The files that a listing has returned or skipped so far."""

    files: int = 0
    paths: pa.Array | None = None
    """The paths of the last batch."""
    check: int = 0
    """A checksum of some of the paths, in their order."""
    fallbacks: list[tuple[int, str]] = field(default_factory=list)

    def note(self, rows: pa.RecordBatch) -> None:
        """Count more files; the rows need the column `path`."""
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
        """The fallbacks that happened before the files so far."""
        return tuple(fallback for fallback in self.fallbacks if fallback[0] < self.files)

    def compare(self, position: ScanPosition) -> None:
        """Raise `PositionError` unless these are the files that were returned before the position."""
        now = (self.files, self.last, self.check, self.fallbacks_before)
        if now != (position.files, position.last, position.check, position.fallbacks):
            raise PositionError(
                f"the {position.files:,} files before the position are not listed in the same order any more; "
                "list from the start"
            )


def position_of(snapshot: Snapshot, request: FileRequest, condition: Expression | None, track: Track) -> ScanPosition:
    """The position of a listing."""
    if "path" not in request.output:
        raise OptionError("a listing without the column path has no position; add path to the columns")
    return ScanPosition(
        table=snapshot.metadata.id,
        version=snapshot.version,
        files=track.files,
        last=track.last,
        condition=_condition(request, condition),
        base=_base_text(snapshot.segment),
        source=_source(snapshot.segment),
        order=request.order,
        check=track.check,
        base_version=snapshot.segment.base_version,
        fallbacks=track.fallbacks_before,
    )


def check_position(position: Any, snapshot: Snapshot, request: FileRequest, condition: Expression | None) -> None:
    """Raise unless a position belongs to this table, version and predicate."""
    if not isinstance(position, ScanPosition):
        raise PositionError(f"after is a {type(position).__name__}; it takes the position of a scan")
    if "path" not in request.output:
        raise OptionError("a listing that resumes after a position needs the column path; add it to the columns")
    if position.table != snapshot.metadata.id:
        raise PositionError("the position belongs to another table; open that table")
    if position.version != snapshot.version:
        raise PositionError(
            f"the position belongs to version {position.version}, this is version {snapshot.version}; "
            f"open the table with version={position.version}"
        )
    if position.condition != _condition(request, condition):
        raise PositionError("the position belongs to a listing with another predicate; use the same predicate")


def on_base_of(position: ScanPosition, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the base that was read before the position, even if there is a better one now."""
    for candidate in _on_other_bases(snapshot, position.base_version):
        if _source(position.order.as_read(candidate).segment) == position.source:
            return candidate
    raise PositionError(
        f"the position belongs to a listing of {position.base}, which changed or is gone; list from the start"
    )


def _on_other_bases(snapshot: Snapshot, base_version: int) -> Iterator[Snapshot]:
    """The snapshot as it is, with an index of that version, and with each of its checkpoints."""
    yield snapshot
    yield from on_index_of(snapshot, base_version)
    try:
        while snapshot.segment.base is not None:
            snapshot, _ = snapshot.on_older_base()
            yield snapshot
    except (LogGapError, VersionNotFoundError):
        return


def _condition(request: FileRequest, condition: Expression | None) -> str:
    return _digest(repr(condition), request.settings.partition_timezone) if condition is not None else ""


def _base_text(segment: Segment) -> str:
    return "the log alone" if segment.base is None else str(segment.base)


def _source(segment: Segment) -> str:
    """A digest of what determines the files and their order: the base, and the commit files after it."""
    base = "" if segment.base is None else segment.base.content
    return _digest(base, *(commit.file.path for commit in segment.commits))


def _digest(*texts: str) -> str:
    from hashlib import blake2b

    return blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()
