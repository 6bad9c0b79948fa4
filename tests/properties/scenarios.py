"""Random logs: what happened to a table, drawn as a value, and the log that tells it.

A scenario is made of small integers and names, so that hypothesis shrinks it well and draws it fast; `build` turns
it into files. Nothing here is illegal in a log but what the damage says.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from delta_sidecar.testing.actions import (
    AddFile,
    DeletionVector,
    RemoveFile,
    Spec,
    cdc,
    domain_metadata,
    metadata,
    protocol,
    txn,
    unknown_action,
    wire,
)
from delta_sidecar.testing.checkpoint_files import CHECKPOINT_KINDS, STRING_KINDS
from delta_sidecar.testing.data_files import collect_stats
from delta_sidecar.testing.model import FileKey, file_key
from delta_sidecar.testing.table_builder import LogBuilder

PARTITIONS = {"p": "string", "q": "integer"}
DATA = {"x": "long", "s": "string", "f": "double", "d": "decimal(10,2)", "t": "timestamp", "e": "date"}
FEATURES = ["deletionVectors", "v2Checkpoint", "timestampNtz"]

PARTITION_VALUES: dict[str, list[Any]] = {"p": ["a", "b", "a b", "é/%", "O'K"], "q": [-10, 0, 7, 9]}


def _utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


DATA_VALUES: dict[str, list[Any]] = {
    "x": [-5, 0, 3, 2**53 + 1, -(2**63), 2**63 - 1],
    "s": ["", "a", "ab", "é", "z" * 31, "z" * 40, "z" * 40 + "y", "\U0001f600", "it's"],
    "f": [0.0, -0.0, 1.5, -2.5, 0.1, 1e300, float("nan"), float("inf")],
    "d": [Decimal("0.00"), Decimal("-1.25"), Decimal("99999999.99"), Decimal("0.10")],
    "t": [
        _utc(1969, 12, 31, 23, 59, 59, 999_999),
        _utc(1970, 1, 1),
        _utc(2026, 2, 10, 22, 0, 0, 1),
        _utc(2026, 2, 10, 22, 0, 0, 999_999),
        _utc(1900, 1, 1, 0, 0, 0, 500_001),
    ],
    "e": [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 2, 10)],
}
LITERALS = {k: [v for v in pool if v == v and v != float("inf")] for k, pool in DATA_VALUES.items()}
"""What predicates compare with: every value but NaN and infinity, which SQL has no literal for."""

ROWS: list[dict[str, Any]] = [
    {name: None if (i * 7 + n) % 5 == 0 else pool[(i * (n + 1) + i // 3) % len(pool)]
     for n, (name, pool) in enumerate(DATA_VALUES.items())}
    for i in range(24)
]  # fmt: skip
"""The rows files are made of, by number."""

FILES: list[tuple[str, ...]] = [
    ("f0.parquet", "%660.parquet", "./f0.parquet"),
    ("p=a%20b/f1.parquet", "p%3Da%20b/f1.parquet", "p=a%20b/x/../f1.parquet"),
    ("f%25 2.parquet", "f%25%202.parquet", "f%25%20%32.parquet"),
    ("/elsewhere/f3.parquet", "file:/elsewhere/f3.parquet", "file:///elsewhere/%663.parquet"),
    ("%C3%A9%2F4.parquet", "é%2f4.parquet", "%c3%a9%2F4.parquet"),
    ("é/4.parquet", "%C3%A9/4.parquet", "é/%34.parquet"),
    ("f0-1.parquet", "f0%2D1.parquet", "x/../f0-1.parquet"),
    ("f0 (1).parquet", "f0%20(1).parquet", ".//f0 (1).parquet"),
]
"""Files, each with spellings of its path that mean one file. Two differ by an escaped slash; the names of the last two
go on where that of the first ends, with bytes before and after the dot's."""

STATS = ("full", "full", "full", "none", "count", "some", "broken", "typeless")


@dataclass(frozen=True)
class FileStep:
    """What a commit does to one file."""

    what: str
    file: int
    spelling: int
    vector: int
    rows: tuple[int, ...]
    stats: str
    partition: tuple[Any, Any]


@dataclass(frozen=True)
class Commit:
    steps: tuple[FileStep, ...]
    others: int
    """A bit for each action that does not touch files."""


@dataclass(frozen=True)
class Checkpoint:
    kind: str
    parts: int
    flags: int
    row_group_size: int | None
    strings: str


@dataclass(frozen=True)
class Event:
    """What is written between commits."""

    what: str
    number: int


@dataclass(frozen=True)
class Damage:
    """What befell the log afterwards; versions and checkpoints are counted from the newest back."""

    hint: str = "keep"
    cleanup: int | None = None
    gap: int | None = None
    broken: tuple[int, str] | None = None
    litter: bool = False


@dataclass(frozen=True)
class Scenario:
    reader: int
    history: tuple[tuple[Commit, Checkpoint | Event | None], ...]
    damage: Damage


_partition = st.tuples(
    st.sampled_from([*PARTITION_VALUES["p"], None, ""]), st.sampled_from([*PARTITION_VALUES["q"], None])
)
_step = st.builds(
    FileStep,
    what=st.sampled_from(["add", "add", "remove", "vector", "vector", "pair", "stray"]),
    file=st.integers(0, len(FILES) - 1),
    spelling=st.integers(0, 2),
    vector=st.integers(0, 2),
    rows=st.lists(st.integers(0, len(ROWS) - 1), max_size=3).map(tuple),
    stats=st.sampled_from(STATS),
    partition=_partition,
)
_commit = st.builds(Commit, st.lists(_step, max_size=4).map(tuple), st.one_of(st.just(0), st.integers(0, 127)))
_checkpoint = st.builds(
    Checkpoint,
    st.sampled_from(CHECKPOINT_KINDS),
    st.integers(0, 3),
    st.integers(0, 15),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(STRING_KINDS),
)
_event = st.builds(
    Event,
    st.sampled_from(["crc", "crc", "crc no metadata", "crc no protocol", "crc corrupt", "crc empty",
                     "compact", "compact", "incomplete", "empty compact"]),
    st.integers(0, 4),
)  # fmt: skip
_damage = st.builds(
    Damage,
    hint=st.sampled_from(["keep", "keep", "oldest", "missing", "corrupt", "checksum", "future", "empty", "bare"]),
    cleanup=st.none() | st.integers(0, 6),
    gap=st.none() | st.none() | st.none() | st.integers(0, 6),
    broken=st.none()
    | st.none()
    | st.tuples(st.integers(0, 2), st.sampled_from(["garbage", "empty", "sidecar", "drop"])),
    litter=st.booleans(),
)
scenarios = st.builds(
    Scenario,
    reader=st.sampled_from([1, 2, 3, 3]),
    history=st.lists(st.tuples(_commit, st.none() | _checkpoint | _event), min_size=1, max_size=8).map(tuple),
    damage=st.just(Damage()) | _damage,
)


@dataclass
class BuiltLog:
    """The log on disk, the rows its files are said to hold, and what is left of it."""

    builder: LogBuilder
    rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """By the file's size, which is different for every add."""
    broken: set[int] = field(default_factory=set)
    """Checkpoints, by their place in `builder.checkpoints`, that cannot be used."""
    stats_dropped: bool = False
    """Whether a checkpoint was written without the stats, typed or not."""
    texts_dropped: bool = False
    """Whether a checkpoint was written without the texts of the stats: what could not be typed is gone."""

    @property
    def commits(self) -> set[int]:
        return {v for v in range(self.builder.version + 1) if (self.builder.log / f"{v:020}.json").exists()}

    @property
    def listed(self) -> set[int]:
        """The versions of checkpoints that a listing shows as complete."""
        return {v for v, made in self.builder.checkpoints if all(self._shown(n) for n in made.files if "/" not in n)}

    @property
    def usable(self) -> set[int]:
        return {
            version
            for place, (version, made) in enumerate(self.builder.checkpoints)
            if place not in self.broken and all(self._shown(name) for name in made.files)
        }

    @property
    def head(self) -> int:
        return max(self.commits | self.listed)

    def can_rebuild(self, version: int) -> bool:
        """Whether a usable checkpoint, or the beginning, is joined to that version by commits without a gap."""
        commits = self.commits
        bases = [base for base in self.usable | {-1} if base <= version]
        return any(all(v in commits for v in range(base + 1, version + 1)) for base in bases)

    def _shown(self, name: str) -> bool:
        path = self.builder.log / name
        return path.exists() and path.stat().st_size > 0


def build(scenario: Scenario, root: Path, after_version: Callable[[BuiltLog], None] = lambda built: None) -> BuiltLog:
    """The log of a scenario; `after_version` is called whenever a version is finished."""
    built = BuiltLog(LogBuilder(root))
    sizes = itertools.count(1000)
    for commit, after in scenario.history:
        _write_commit(built, commit, sizes, scenario.reader)
        if isinstance(after, Checkpoint):
            _write_checkpoint(built, after)
        elif after is not None:
            _write_event(built.builder, after)
        after_version(built)
    _do_damage(built, scenario.damage)
    return built


def _write_commit(built: BuiltLog, commit: Commit, sizes: Iterator[int], reader: int) -> None:
    specs: list[Spec] = []
    added: set[FileKey] = set()
    live = built.builder.state().files
    for step in commit.steps:
        planned = _plan(step, live, sizes)
        keys = {file_key(wire(spec)["add"]) for spec in planned if isinstance(spec, AddFile)}
        if not keys & added:
            added |= keys
            specs += planned
            for spec in planned:
                if isinstance(spec, AddFile):
                    built.rows[spec.size] = [ROWS[i] for i in step.rows]
    others = _others(commit.others, built.builder.version + 1, reader)
    built.builder.commit(*others, *specs, info=not commit.others & 64)


def _plan(step: FileStep, live: Mapping[FileKey, Any], sizes: Iterator[int]) -> list[Spec]:
    spellings = FILES[step.file]
    path, other = spellings[step.spelling], spellings[(step.spelling + step.vector) % 3]
    here = file_key({"path": path})[0]
    current = next((body.get("deletionVector") for (canonical, _), body in live.items() if canonical == here), None)
    worn = _vector_of(current)
    fresh = DeletionVector(path=f"dv{step.vector}", offset=None if step.vector == 2 else step.vector)
    match step.what:
        case "add":
            return [_add(step, path, None, sizes)]
        case "remove":
            return [RemoveFile(path, dv=worn, extended=step.vector == 1)]
        case "vector" if fresh == worn:
            return [RemoveFile(other, dv=worn)]
        case "vector":
            return [_add(step, path, fresh, sizes), RemoveFile(other, dv=worn)][:: 1 if step.vector else -1]
        case "pair":
            return [RemoveFile(other, dv=worn), _add(step, path, worn, sizes)][:: 1 if step.vector else -1]
    return [RemoveFile(path, dv=fresh)]


def _vector_of(wired: Mapping[str, Any] | None) -> DeletionVector | None:
    if wired is None:
        return None
    return DeletionVector(path=wired["pathOrInlineDv"], offset=wired.get("offset"))


def _add(step: FileStep, path: str, dv: DeletionVector | None, sizes: Iterator[int]) -> AddFile:
    size = next(sizes)
    p, q = step.partition
    return AddFile(
        path,
        size=size,
        modification_time=1_700_000_000_000 + size,
        partition={"p": p, "q": None if q is None else str(q)},
        stats=_stats(step, dv),
        dv=dv,
        tags={"n": str(size)} if size % 3 == 0 else None,
        base_row_id=size if size % 4 == 0 else None,
    )


def _stats(step: FileStep, dv: DeletionVector | None) -> Mapping[str, Any] | str | None:
    rows = [ROWS[i] for i in step.rows]
    loose = {"tightBounds": False} if dv else {}
    match step.stats:
        case "none":
            return None
        case "broken":
            return '{"numRecords":'
        case "count":
            return {"numRecords": len(rows)}
        case "some":
            return {**collect_stats(rows, ["x", "f", "t"]), **loose}
        case "typeless":
            wrong = {"x": "many", "s": 5, "t": "noon", "d": {}, "e": "today"}
            return {"numRecords": len(rows), "minValues": wrong, "maxValues": wrong, "nullCount": {"x": None}}
    return {**collect_stats(rows, list(DATA)), **loose}


def _others(bits: int, version: int, reader: int) -> list[Spec]:
    columns = {**PARTITIONS, **DATA, **({f"y{version}": "string"} if bits & 2 else {})}
    schema = metadata(columns, list(PARTITIONS), {"v": str(version)})
    found: list[Spec] = [schema] if version == 0 or bits & 1 else []
    if version == 0 or bits & 4:
        upgraded = 3 if version and bits & 2 else reader
        found.append(protocol(upgraded, features=FEATURES if upgraded == 3 else None))
    found += [txn("app", version), cdc()] if bits & 8 else []
    found += [domain_metadata(configuration=str(version), removed=bool(bits & 1))] if bits & 16 else []
    return found + ([unknown_action(add={"path": "no"})] if bits & 32 else [])


def _write_checkpoint(built: BuiltLog, layout: Checkpoint) -> None:
    builder = built.builder
    classic = builder.log / f"{builder.version:020}.checkpoint.parquet"
    if layout.kind in ("classic", "v2-classic") and classic.exists():
        return
    built.stats_dropped |= layout.flags & 3 == 1
    built.texts_dropped |= layout.flags & 1 == 1
    builder.checkpoint(
        layout.kind,  # type: ignore[arg-type]
        parts=layout.parts,
        stats=not layout.flags & 1,
        stats_parsed=bool(layout.flags & 2),
        partition_parsed=bool(layout.flags & 4),
        tombstones=not layout.flags & 8,
        row_group_size=layout.row_group_size,
        strings=layout.strings,  # type: ignore[arg-type]
    )


def _write_event(builder: LogBuilder, event: Event) -> None:
    first = max(0, builder.version - event.number)
    match event.what.split(" ", 1):
        case ["crc"]:
            builder.crc()
        case ["crc", fault]:
            builder.crc(fault=fault)  # type: ignore[arg-type]
        case ["compact"]:
            builder.compact(first, builder.version)
        case ["incomplete"]:
            builder.incomplete_checkpoint(parts=event.number + 2)
        case _:
            name = f"{first:020}.{builder.version:020}.compacted.json"
            (builder.log / name).write_bytes(b"")


def _do_damage(built: BuiltLog, damage: Damage) -> None:
    builder = built.builder
    _damage_hint(builder, damage.hint)
    if damage.broken is not None and damage.broken[0] < len(builder.checkpoints):
        _damage_checkpoint(built, len(builder.checkpoints) - 1 - damage.broken[0], damage.broken[1])
    if damage.cleanup is not None:
        covered = builder.version in built.usable
        builder.cleanup(before=max(0, builder.version + covered - damage.cleanup))
    gap = None if damage.gap is None else builder.version - damage.gap
    if gap is not None and gap in built.commits and len(built.commits | built.listed) > 1:
        builder.drop(gap)
    if damage.litter:
        builder.litter()


def _damage_hint(builder: LogBuilder, how: str) -> None:
    match how:
        case "oldest" if builder.checkpoints:
            builder.hint(builder.checkpoints[0][1].hint)
        case "missing":
            builder.without_hint()
        case "corrupt" | "checksum" | "future" | "empty":
            builder.hint(fault=how)  # type: ignore[arg-type]
        case "bare":
            builder.hint(builder.version)


def _damage_checkpoint(built: BuiltLog, place: int, how: str) -> None:
    builder = built.builder
    made = builder.checkpoints[place][1]
    if how == "drop":
        builder.drop_checkpoint(place)
    elif how != "sidecar" or made.sidecars:
        builder.break_checkpoint(place, how)  # type: ignore[arg-type]
    else:
        return
    built.broken.add(place)
