"""One build: its options, where its parts are written, and its manifest."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as distribution_version
from itertools import pairwise
from typing import Final, Literal, TypeAlias, get_args

import msgspec
import pyarrow as pa

from delta_sidecar.errors import OptionError
from delta_sidecar.index.build.part_writer import write_part
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.index_names import part_id
from delta_sidecar.index.format.manifest import FORMAT, Manifest, Sort, parts_json, totals
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.sort_keys import in_order
from delta_sidecar.index.read.manifests import commit_identity
from delta_sidecar.index.stats.index_rows import joined, sorted_rows
from delta_sidecar.limits import BuildLimits
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.storage.store import Store

Progress: TypeAlias = Callable[[str], None]
Engine: TypeAlias = Literal["auto", "process", "spark"]
"""What builds an index from scratch: this process, Spark, or (`auto`) whichever suits the number of files."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of an index build. Later builds keep the sort column, the time column and the metadata of earlier ones.

    Raises:
        OptionError: There is no such engine, or a value is wrong.

    Example:
        >>> from delta_sidecar import BuildOptions, build_index
        >>> options = BuildOptions(time_column="ts", full=True, engine="process")
        >>> build_index("events", options=options).mode
        'full'
    """

    sort_column: str | None = None
    """Logical name of the column that the index is sorted by; chosen from the schema if not given."""
    time_column: str | None = None
    """Logical name of the time column, by which every listing can prune without reading other statistics; chosen from
    the schema if not given."""
    full: bool = False
    """Build from scratch even if there is an older index to start from."""
    part_rows: int = 80_000
    """Rows per part to aim for in a build from scratch. Builds that extend an index fill parts up to
    `BuildLimits.part_rows`, which is never exceeded."""
    engine: Engine = "auto"
    """What builds the index from scratch: `auto`, `process` or `spark`. An older index is extended by this process. If
    it cannot be (`full`; another layout or directory; damage; a gap in the log; more commits than
    `BuildLimits.tail_bytes`), the build is one from scratch."""
    manifest_metadata: Mapping[str, str | None] = field(default_factory=dict)
    """Your own keys and values for `user_metadata` of the manifest. They are added to those of the older index; a value
    of None removes the key."""
    temporary_directory: str | None = None
    """Directory for the sorted runs of a build in one process; the system's temporary directory if not given."""
    limits: BuildLimits = field(default_factory=BuildLimits)

    def __post_init__(self) -> None:
        if self.engine not in get_args(Engine):
            raise OptionError(f"no engine {self.engine!r}; give one of {', '.join(get_args(Engine))}")
        if self.part_rows < 1:
            raise OptionError(f"part_rows is {self.part_rows}; it takes a whole number above 0")
        _check_metadata(self.manifest_metadata)

    @property
    def rows_of_part(self) -> int:
        """Rows per part in a build from scratch."""
        return min(self.part_rows, self.limits.part_rows)


def _check_metadata(given: object) -> None:
    if not isinstance(given, Mapping):
        raise OptionError(f"manifest_metadata is a {type(given).__name__}; give a dictionary of names and strings")
    for key, value in given.items():
        if not key or not _is_text(key) or not (value is None or _is_text(value)):
            raise OptionError(
                f"manifest metadata {key!r}: {value!r}: both must be strings, and the name must not be empty"
            )


def _is_text(value: object) -> bool:
    """Whether it is a string that JSON can hold, without half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


_MOST_METADATA: Final = 16 << 10
"""Largest size of the user metadata in bytes, because every reader fetches it."""


def merged_metadata(before: Mapping[str, str], given: Mapping[str, str | None]) -> dict[str, str]:
    """The user metadata of the older index, with the changes of this build."""
    merged = {key: value for key, value in {**before, **given}.items() if value is not None}
    size = len(msgspec.json.encode(merged))
    if size > _MOST_METADATA:
        raise OptionError(
            f"the manifest metadata has {size:,} bytes, but at most {_MOST_METADATA:,} are allowed, because every "
            "reader fetches them; shorten it, or store it elsewhere and give its location"
        )
    return merged


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the parts of a build are written; it is sent to the tasks that write them."""

    directory: str
    version: int
    build: str
    limits: BuildLimits

    def write(self, store: Store, rows: pa.Table, layout: IndexLayout) -> PartEntry:
        """Write sorted rows as a part under a name of its own."""
        name = part_id(self.version, self.build)
        return write_part(store, self.directory, name, rows, layout, self.limits.row_group_rows)


@dataclass(slots=True)
class Build:
    """The state of one build."""

    snapshot: Snapshot
    layout: IndexLayout
    directory: str
    id: str
    options: BuildOptions = field(default_factory=BuildOptions)
    progress: Progress = lambda message: None
    reason: str = ""
    """Why this engine builds the index; empty if there was no choice."""
    user_metadata: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        return self.snapshot.store

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def placement(self) -> Placement:
        return Placement(self.directory, self.version, self.id, self.options.limits)

    def write(self, rows: pa.Table) -> PartEntry:
        """Sort rows and write them as a part."""
        return self.write_in_order(sorted_rows(rows, self.layout))

    def write_in_order(self, rows: pa.Table) -> PartEntry:
        """Write rows that are already in the order of the index as a part."""
        return self.placement.write(self.store, rows, self.layout)

    def manifest(self, parts: Sequence[PartEntry]) -> Manifest:
        """The manifest of these parts, the newest first."""
        files, size, records = totals(parts)
        metadata = self.snapshot.metadata
        sort, time_leaf = self.layout.sort, self.layout.time
        return Manifest(
            format=FORMAT,
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
            parts_json=parts_json(in_order(parts, sort)),
            commit=commit_identity(self.snapshot),
            time_column=[] if time_leaf is None else list(time_leaf.path),
            records=records,
            built_at=int(time.time() * 1000),
            user_metadata=self.user_metadata,
        )


def schema_hash(schema: str | None) -> str:
    return hashlib.sha256((schema or "").encode()).hexdigest()


def part_slices(count: int, goal: int) -> Iterator[tuple[int, int]]:
    """Equal slices of about `goal` rows."""
    pieces = max(1, -(-count // goal))
    edges = [count * piece // pieces for piece in range(pieces + 1)]
    return ((low, high - low) for low, high in pairwise(edges))


class PartSink:
    """Collects rows and writes a part whenever there are enough for one."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._tables: list[pa.Table] = []
        self._written: list[PartEntry] = []
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        most = self._build.options.limits.part_rows
        for at, size in part_slices(rows.num_rows, most) if rows.num_rows else ():
            if self.rows + size > most:
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
