"""Building an index: whole, or on top of an older one at a cost in proportion to what changed.

All in plain Python, in bounded memory, but for the whole index of a large table, which is left to an engine (Spark).
"""

from __future__ import annotations

import hashlib
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version as distribution_version
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import msgspec
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptIndexError, CorruptLogError, InputError, LogGapError, ObjectExistsError
from delta_sidecar.index import manifest as manifests
from delta_sidecar.index.discovery import FoundManifest, commit_identity, find_base
from delta_sidecar.index.layout import Layout
from delta_sidecar.index.live import Tail, expected_rows, hidden_by, live_rows, tail_after
from delta_sidecar.index.manifest import Manifest, PartEntry, Sort, totals
from delta_sidecar.index.names import directory_for, manifest_name, new_build_id, part_id, single_id
from delta_sidecar.index.parts import MANIFEST_KEY, PART_GOAL, PART_ROWS, completed, read_keys, read_part, write_part
from delta_sidecar.index.publish import give_hint, leased, publish
from delta_sidecar.index.rows import conformed, index_rows, joined, sorted_rows
from delta_sidecar.log.schema import DataType, StructType
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.storage.store import Store

_log = logging.getLogger(__name__)

SINGLE_ROWS: Final = 20_000
"""A table of so many files has one part, in one file."""
SMALL_TABLE: Final = 100_000
"""Files that are sorted in the memory of one process; more are left to an engine."""
SMALL_ROWS: Final = 20_000
"""A part of fewer rows is small."""
SMALL_PARTS: Final = 8
"""More small parts than this are merged."""
TAIL_LIMIT: Final = 512 << 20
"""Bytes of commits that one process replays; more are left to an engine."""

Mode: TypeAlias = Literal["current", "full", "incremental"]
Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What a user may choose."""

    sort_column: str | None = None
    """Logical name of the column rows are sorted by; chosen by the schema if not given."""
    time_column: str | None = None
    """Logical name of the column whose bounds stand in the core."""
    full: bool = False
    """Build anew even where an index could be built on."""
    part_rows: int = PART_GOAL
    """Rows a part should have."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the parts of a build go; it travels to whoever writes them."""

    directory: str
    version: int
    build: str

    def write(self, store: Store, rows: pa.Table, layout: Layout) -> PartEntry:
        """Write sorted rows as a part under a name of its own."""
        return write_part(store, self.directory, part_id(self.version, self.build), rows, layout)


@dataclass(slots=True)
class Build:
    """One build under way."""

    snapshot: Snapshot
    layout: Layout
    directory: str
    id: str
    options: BuildOptions = field(default_factory=BuildOptions)
    progress: Progress = lambda message: None

    @property
    def store(self) -> Store:
        return self.snapshot.store

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def placement(self) -> Placement:
        return Placement(self.directory, self.version, self.id)

    def write(self, rows: pa.Table) -> PartEntry:
        """Sort rows and write them as a part."""
        return self.placement.write(self.store, sorted_rows(rows, self.layout), self.layout)

    def manifest(self, parts: Sequence[PartEntry]) -> Manifest:
        """The manifest of these parts, in the order of their keys."""
        files, size, records = totals(parts)
        metadata = self.snapshot.metadata
        sort, time_leaf = self.layout.sort, self.layout.time
        return Manifest(
            format=manifests.FORMAT,
            writer=f"delta-sidecar {distribution_version('delta-sidecar')}",
            build=self.id,
            table_id=metadata.id,
            version=self.version,
            protocol=self.snapshot.protocol,
            metadata=metadata,
            schema_hash=schema_hash(metadata.schemaString),
            sort=Sort(sort.kind, list(sort.path), self.layout.granularity),
            files=files,
            bytes=size,
            parts=sorted(parts, key=_key_order),
            commit=commit_identity(self.snapshot),
            time_column=[] if time_leaf is None else list(time_leaf.path),
            records=records,
            built_at=int(time.time() * 1000),
        )


WholeBuild: TypeAlias = Callable[[Build], list[PartEntry]]
"""Builds every part of a large table: Spark does."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did."""

    version: int
    mode: Mode
    engine: str
    manifest: str
    """Path of the manifest, below the table."""
    files: int
    parts: int
    parts_written: int
    parts_reused: int
    index_bytes: int
    seconds: float
    built_on: int | None = None
    """The version of the index it was built on."""
    notes: tuple[str, ...] = ()


def schema_hash(schema: str | None) -> str:
    return hashlib.sha256((schema or "").encode()).hexdigest()


def _key_order(part: PartEntry) -> tuple[bool, tuple[bool, float | str], str]:
    low = part.key[0]
    order = (isinstance(low, str), low) if low is not None else (False, 0)
    return low is not None, order, part.path[0] if part.path else part.id


def build_index(
    store: Store,
    version: int | None = None,
    options: BuildOptions | None = None,
    whole: WholeBuild | None = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Build the index of a version (the newest): on top of an older one where there is one, whole otherwise.

    `whole` builds what is too large for one process. Whatever happens on the way, readers see the index of before or
    the new one, and what is left behind is garbage.
    """
    began = time.monotonic()
    snapshot = load_snapshot(store, version)
    build = _begin(snapshot, options or BuildOptions(), progress or (lambda message: None))
    with leased(store, build.directory, build.id):
        found, notes = find_base(snapshot)
        _remember(build, found)
        if found is not None and _is_current(found, build):
            give_hint(store, build.directory, build.version)
            return _report(build, found.manifest, "current", "none", began, found.manifest.version, notes)
        parts, mode, engine, base = _parts(build, found, notes, whole)
        published = publish(build.snapshot, build.directory, build.manifest(parts), replace=_replaces(found, build))
    return _report(build, published, mode, engine, began, base, notes)


def _begin(snapshot: Snapshot, options: BuildOptions, progress: Progress) -> Build:
    layout = Layout.of(snapshot.schema, snapshot.partition_columns, options.sort_column, options.time_column)
    return Build(snapshot, layout, directory_for(snapshot.protocol), new_build_id(), options, progress)


def _remember(build: Build, found: FoundManifest | None) -> None:
    """What was chosen for the index before holds until something else is chosen, where the schema still has it."""
    if found is None:
        return
    then, chosen = found.manifest, build.options
    sort = _logical(build.snapshot.schema, then.sort.column) if then.sort.column else "modification_time"
    time_column = _logical(build.snapshot.schema, then.time_column)
    with suppress(InputError):
        build.layout = Layout.of(
            build.snapshot.schema,
            build.snapshot.partition_columns,
            chosen.sort_column or sort,
            chosen.time_column or time_column,
        )


def _logical(schema: StructType, physical: Sequence[str]) -> str | None:
    """The name of a column by its physical path; None where the schema has it no more."""
    names: list[str] = []
    level: DataType = schema
    for part in physical:
        field_ = next((f for f in level if f.physical_name == part), None) if isinstance(level, StructType) else None
        if field_ is None:
            return None
        names.append(field_.name)
        level = field_.type
    return ".".join(names) or None


def _is_current(found: FoundManifest, build: Build) -> bool:
    same = found.manifest.version == build.version and found.directory == build.directory
    return same and not build.options.full and _same_layout(found.manifest, build) and _same_commit(found, build)


def _same_commit(found: FoundManifest, build: Build) -> bool:
    """Commit files never change: one of another size is of another log, even if the table's id is the same."""
    then, now = found.manifest.commit, commit_identity(build.snapshot)
    return then is None or now is None or then.size == now.size


def _replaces(found: FoundManifest | None, build: Build) -> bool:
    """Whether the manifest of this very version is to go, because something else was asked for."""
    return found is not None and found.manifest.version == build.version and found.directory == build.directory


def _same_layout(manifest: Manifest, build: Build) -> bool:
    sort, time_leaf = build.layout.sort, build.layout.time
    return (manifest.sort.kind, tuple(manifest.sort.column)) == (sort.kind, sort.path) and tuple(
        manifest.time_column
    ) == (() if time_leaf is None else time_leaf.path)


def _parts(
    build: Build, found: FoundManifest | None, notes: list[str], whole: WholeBuild | None
) -> tuple[list[PartEntry], Mode, str, int | None]:
    if found is not None and _can_extend(found, build, notes):
        try:
            return _extended(build, found), "incremental", "python", found.manifest.version
        except (CorruptIndexError, LogGapError, _TooMuch) as error:
            notes.append(f"built anew: {error}")
    rows = expected_rows(build.snapshot)
    if rows <= SMALL_TABLE:
        return _small(build, notes), "full", "python", None
    if whole is None:
        raise InputError(
            f"the table has about {rows:,} files, too many to sort in one process; build its index on Spark "
            "(pip install 'delta-sidecar[spark]', then `sidecar build`)"
        )
    return whole(build), "full", "spark", None


def _can_extend(found: FoundManifest, build: Build, notes: list[str]) -> bool:
    if build.options.full or found.manifest.version == build.version:
        return False
    if found.directory != build.directory:
        notes.append("built anew: the table's protocol moved its index to another directory")
        return False
    if not _same_layout(found.manifest, build):
        notes.append("built anew: the sort key or the time column changed")
        return False
    return found.manifest.files > SINGLE_ROWS


# Whole, in one process.


def _small(build: Build, notes: list[str]) -> list[PartEntry]:
    """All live rows, sorted in memory. A broken checkpoint means the next base, as for every reader."""
    tables: list[pa.Table] | None = None
    while tables is None:
        try:
            tables = [index_rows(batch, build.layout) for batch in live_rows(build.snapshot)]
        except CorruptLogError as error:
            if build.snapshot.segment.base is None:
                raise
            notes.append(f"{build.snapshot.segment.base} was not used: {error}")
            build.snapshot, _ = build.snapshot.on_older_base()
    if not tables:
        return []
    rows = sorted_rows(joined(tables), build.layout)
    build.progress(f"{rows.num_rows:,} files read")
    if rows.num_rows <= SINGLE_ROWS:
        return [_single(build, rows)]
    return [build.write(rows.slice(at, size)) for at, size in part_slices(rows.num_rows, build.options.part_rows)]


def part_slices(count: int, goal: int) -> Iterator[tuple[int, int]]:
    """Equal slices of about `goal` rows."""
    pieces = max(1, -(-count // goal))
    edges = [count * piece // pieces for piece in range(pieces + 1)]
    return ((low, high - low) for low, high in pairwise(edges))


def _single(build: Build, rows: pa.Table) -> PartEntry:
    """One file with the manifest inside, so that it serves without its manifest, too."""
    described = msgspec.json.encode(msgspec.structs.replace(build.manifest([]), files=rows.num_rows))
    for name in (single_id(build.version), part_id(build.version, build.id)):
        try:
            return write_part(
                build.store, build.directory, name, rows, build.layout, single=True, metadata={MANIFEST_KEY: described}
            )
        except ObjectExistsError:
            _log.info("%s is taken by an earlier build", name)
    raise AssertionError("a unique name was taken")


# On top of an older index.


class _TooMuch(Exception):
    """More changed than is worth following."""


def _extended(build: Build, found: FoundManifest) -> list[PartEntry]:
    """The parts of an older index without what the tail hides, and the tail's own rows."""
    tail = tail_after(build.snapshot, found.manifest.version)
    if tail.size > TAIL_LIMIT:
        raise _TooMuch(f"{tail.size >> 20} MB of commits since version {found.manifest.version}")
    added = _Sink(build)
    for batch in tail.rows():
        added.add(index_rows(batch, build.layout))
    new = added.close()
    build.progress(f"{sum(p.rows for p in new):,} files added since version {found.manifest.version}")
    kept, loose = _unhidden(build, found, tail)
    return _compacted(build, [*kept, *loose, *new])


def _unhidden(build: Build, found: FoundManifest, tail: Tail) -> tuple[list[PartEntry], list[PartEntry]]:
    """Parts that stay as they are, and those written anew because rows of theirs are hidden."""
    keys = sorted(tail.keys)
    kept: list[PartEntry] = []
    sink = _Sink(build)
    for part in found.manifest.parts:
        flags = hidden_by(tail, read_keys(build.store, found.directory, part)) if _may_hold(part, keys) else None
        if flags is None:
            kept.append(part)
            continue
        rows = _rows_of(build, found.directory, part)
        sink.add(rows.filter(arrays.booleans(~flags)))
        if sink.rows >= SMALL_ROWS:
            sink.flush()
    return kept, sink.close()


def _may_hold(part: PartEntry, keys: Sequence[bytes]) -> bool:
    """Whether any key's path lies between the part's first and last."""
    if part.path is None:
        return bool(keys)
    low, high = (text.encode("utf-8", "surrogatepass") for text in part.path)
    at = bisect_left(keys, low)
    # Behind the path of a key comes nothing, or a zero byte and the id of a deletion vector.
    return at < len(keys) and keys[at] < high + b"\1"


def _rows_of(build: Build, directory: str, part: PartEntry) -> pa.Table:
    return conformed(completed(read_part(build.store, directory, part, build.layout)), build.layout)


def _compacted(build: Build, parts: list[PartEntry]) -> list[PartEntry]:
    """The parts, many small ones merged with their neighbours."""
    total = sum(part.rows for part in parts)
    small = [part for part in parts if part.rows < SMALL_ROWS]
    if total <= SINGLE_ROWS:
        small = parts
    elif len(small) <= SMALL_PARTS:
        return parts
    build.progress(f"merging {len(small)} small parts")
    sink = _Sink(build)
    for part in sorted(small, key=_key_order):
        sink.add(_rows_of(build, build.directory, part))
    return [part for part in parts if part not in small] + sink.close()


class _Sink:
    """Collects rows and writes a part whenever there are enough for one."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._tables: list[pa.Table] = []
        self._written: list[PartEntry] = []
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        for at, size in part_slices(rows.num_rows, PART_ROWS) if rows.num_rows else ():
            if self.rows + size > PART_ROWS:
                self.flush()
            self._tables.append(rows.slice(at, size))
            self.rows += size

    def flush(self) -> None:
        if self._tables:
            self._written.append(self._build.write(joined(self._tables)))
            self._tables, self.rows = [], 0

    def close(self) -> list[PartEntry]:
        self.flush()
        return self._written


def _report(
    build: Build,
    manifest: Manifest,
    mode: Mode,
    engine: str,
    began: float,
    base: int | None,
    notes: Sequence[str],
) -> BuildReport:
    written = [p for p in manifest.parts if f"-{build.id}-" in p.id or p.id == single_id(build.version)]
    reused = 0 if mode == "full" else len(manifest.parts) - len(written)
    size = sum(p.core.size + (p.stats.size if p.stats else 0) for p in manifest.parts)
    return BuildReport(
        version=manifest.version,
        mode=mode,
        engine=engine,
        manifest=f"{build.directory}/{manifest_name(manifest.version)}",
        files=manifest.files,
        parts=len(manifest.parts),
        parts_written=0 if mode == "current" else len(written),
        parts_reused=reused,
        index_bytes=size,
        seconds=time.monotonic() - began,
        built_on=base,
        notes=tuple(notes),
    )
