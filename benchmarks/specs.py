"""What a benchmark table looks like, as values: the same spec always gives the same bytes, so tables can be cached."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

# Part of every cached table's name: raise it when the generator gives other bytes for the same spec.
GENERATOR = 2
START = datetime(2025, 1, 1, tzinfo=UTC)
BUCKET = "_event_hour"
# `m0` has this many values, one a file: an equality on it keeps 1 % of the files, spread over the whole table.
M0_VALUES = 100

Stats = Literal["json", "parsed", "both"]


@dataclass(frozen=True, slots=True)
class LogSpec:
    """A log of `files` files in one classic checkpoint, and a tail of commits after it. No data files exist."""

    files: int
    stat_columns: int = 20
    row_group_rows: int = 100_000
    files_per_hour: int = 1_000
    tail_commits: int = 10
    adds_per_commit: int = 100
    crc: bool = False
    stats: Stats = "json"
    partitioned: bool = True
    shuffled: bool = False
    compression: str = "zstd"
    checkpoint_version: int = 100

    @property
    def head(self) -> int:
        """The newest version."""
        return self.checkpoint_version + self.tail_commits

    @property
    def removes_per_commit(self) -> int:
        """How many files of the checkpoint each commit of the tail removes."""
        return min(self.adds_per_commit // 10, self.files // max(1, self.tail_commits))

    @property
    def live_files(self) -> int:
        """How many files are live at the head."""
        return self.live_after(self.tail_commits)

    def live_after(self, commits: int) -> int:
        """How many files are live after that many commits of the tail."""
        from_tail = max(0, commits - 1) if self.adds_per_commit else 0
        return self.files + commits * (self.adds_per_commit - self.removes_per_commit) - from_tail

    @property
    def last_hour(self) -> str:
        """The bucket of the newest file of the checkpoint."""
        return hour_text(self.last_hour_number)

    @property
    def last_hour_number(self) -> int:
        """The hour of the newest file of the checkpoint, counted from the start."""
        return (self.files - 1) // self.files_per_hour

    @property
    def last_hour_begins(self) -> str:
        """The first moment of that hour, as SQL has it."""
        return (START + timedelta(hours=self.last_hour_number)).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def removed_from_base(self) -> list[int]:
        """The files of the checkpoint that the tail removes: spread over it."""
        total = self.removes_per_commit * self.tail_commits
        return [number * self.files // total for number in range(total)]


@dataclass(frozen=True, slots=True)
class IndexedSpec:
    """The table of a `LogSpec` with an index at the version of its checkpoint.

    Without the checkpoint only the index knows the files: so tables can be larger than any checkpoint that would be
    written. `removed` files more, spread over the table, are removed by one commit at its end.
    """

    files: int
    stat_columns: int = 20
    checkpoint: bool = True
    removed: int = 0
    files_per_hour: int = 1_000
    tail_commits: int = 10
    adds_per_commit: int = 100

    @property
    def log(self) -> LogSpec:
        """The log below the index."""
        return LogSpec(
            files=self.files,
            stat_columns=self.stat_columns,
            files_per_hour=self.files_per_hour,
            tail_commits=self.tail_commits,
            adds_per_commit=self.adds_per_commit,
        )

    @property
    def mask(self) -> range:
        """The files that the last commit removes."""
        step = self.files // self.removed if self.removed else 1
        return range(step // 2, step // 2 + step * self.removed, step)

    @property
    def head(self) -> int:
        """The newest version."""
        return self.log.head + (1 if self.removed else 0)

    @property
    def live_files(self) -> int:
        """How many files are live at the head: some that the last commit removes were gone before."""
        mask = self.mask
        return self.log.live_files - len(mask) + sum(file in mask for file in self.log.removed_from_base)


@dataclass(frozen=True, slots=True)
class CommitSpec:
    """A table whose version 1 is a single commit of `adds` adds, and which has no checkpoint."""

    adds: int
    stat_columns: int = 20
    files_per_hour: int = 1_000


@dataclass(frozen=True, slots=True)
class RowsSpec:
    """A table with real Parquet files of about 1 MB each."""

    files: int = 1_000
    rows_per_file: int = 20_000

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return self.files * self.rows_per_file

    @property
    def clustered_range(self) -> tuple[int, int]:
        """A range of `id`, first and past the last, that holds 1 % of the rows and cuts through files."""
        width = self.rows // 100
        first = self.rows // 2 + self.rows_per_file // 3
        return first, first + width


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A table with an index and no tail, of 100 files an hour. Only the files of the last hour are there."""

    files: int
    checkpoint: bool = True

    @property
    def indexed(self) -> IndexedSpec:
        """The log and its index."""
        return IndexedSpec(self.files, checkpoint=self.checkpoint, files_per_hour=100, tail_commits=0)

    @property
    def hour(self) -> range:
        """The numbers of the files of the last hour."""
        log = self.indexed.log
        return range(log.last_hour_number * log.files_per_hour, self.files)


Spec = LogSpec | IndexedSpec | CommitSpec | RowsSpec | EngineSpec


def hour_text(hour: int) -> str:
    """The bucket value of the n-th hour since the start."""
    return (START + timedelta(hours=hour)).strftime("%Y%m%d%H")


def tables_dir() -> Path:
    """Where generated tables are kept: BENCH_DIR, or a directory that git ignores."""
    return Path(os.environ.get("BENCH_DIR") or Path(__file__).parent / ".tables")


def table_dir(spec: Spec) -> Path:
    """The directory of one table: readable size first, then a hash of everything that shapes it."""
    text = json.dumps([GENERATOR, type(spec).__name__, dataclasses.asdict(spec)], sort_keys=True)
    size = spec.adds if isinstance(spec, CommitSpec) else spec.files
    kind = type(spec).__name__.removesuffix("Spec").lower()
    return tables_dir() / f"{kind}-{size}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def to_json(spec: Spec) -> dict[str, Any]:
    """A spec as JSON, with its kind, to hand it to another process."""
    return {"kind": type(spec).__name__, **dataclasses.asdict(spec)}


def from_json(value: dict[str, Any]) -> Spec:
    """The spec back from `to_json`."""
    kinds: dict[str, type[Spec]] = {
        kind.__name__: kind for kind in (LogSpec, IndexedSpec, CommitSpec, RowsSpec, EngineSpec)
    }
    fields = dict(value)
    return kinds[fields.pop("kind")](**fields)
