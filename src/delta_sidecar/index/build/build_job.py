"""One build under way: what a user may choose, where its parts go, and the manifest they come to."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as distribution_version
from itertools import pairwise
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa

from delta_sidecar.errors import OptionError
from delta_sidecar.index.build.part_writer import write_part
from delta_sidecar.index.format.index_layout import Layout
from delta_sidecar.index.format.index_names import part_id
from delta_sidecar.index.format.manifest import FORMAT, Manifest, Sort, parts_json, totals
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.part_format import PART_GOAL, PART_ROWS
from delta_sidecar.index.format.sort_keys import in_order
from delta_sidecar.index.read.manifests import commit_identity
from delta_sidecar.index.stats.index_rows import joined, sorted_rows
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.storage.store import Store

SINGLE_ROWS: Final = 20_000
"""A table of so many files has one part, in one file."""
SMALL_ROWS: Final = 20_000
"""A part of fewer rows is small."""
SMALL_PARTS: Final = 8
"""More small parts than this are merged."""
TAIL_LIMIT: Final = 512 << 20
"""Bytes of commits that one process replays; more are left to an engine."""

Progress: TypeAlias = Callable[[str], None]
Engine: TypeAlias = Literal["auto", "process", "spark"]
"""What builds a whole index: this process, Spark, or the one that the number of files suggests."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a build in one process does, and holds in memory on the way."""

    process_files: int = 5_000_000
    """Files up to which `auto` builds in one process."""
    threads: int = min(4, os.cpu_count() or 1)
    """Threads beside the one that reads; each holds a batch, a run or a part."""
    batch_rows: int = 5_000
    """Files that are typed at a time."""
    run_bytes: int = 32 << 20
    """Memory of the rows that are sorted at once. Less of them needs no file; more runs cost more in the merge."""
    block_bytes: int = 1 << 20
    """Memory of a block: the merge holds one of each run, at most."""
    merge_bytes: int = 16 << 20
    """Memory of the rows that the merge sorts at a time, beside those that wait."""
    part_bytes: int = 128 << 20
    """Memory of the rows of a part, at most, unless it has one row group alone."""


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
    engine: Engine = "auto"
    """What builds the index where it is built anew. On top of an older one it is always this process."""
    temporary_directory: str | None = None
    """Where sorted runs go for the time of a build in one process; the system's own if not given."""
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.engine not in get_args(Engine):
            raise OptionError(f"no engine {self.engine!r}; give one of {', '.join(get_args(Engine))}")


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
    reason: str = ""
    """Why this engine builds it, where there was a choice."""

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
        return self.write_in_order(sorted_rows(rows, self.layout))

    def write_in_order(self, rows: pa.Table) -> PartEntry:
        """Write rows as a part that are in the order of the index."""
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
