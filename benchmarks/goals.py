"""The goals, as values: which figures of a run they compare, and what must hold. Judging is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.measure import Measurement

Measurements = Mapping[str, Measurement]
Verdict = Literal["PASS", "MISS", "FAILED", "SKIPPED"]
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Ratio:
    """`subject` may take at most `limit` times as long as `peer`."""

    subject: str
    peer: str
    limit: float


@dataclass(frozen=True, slots=True)
class Peak:
    """`subject` may take at most `limit` MB over its imports."""

    subject: str
    limit: float


@dataclass(frozen=True, slots=True)
class Seconds:
    """`subject` may take at most `limit` seconds."""

    subject: str
    limit: float


@dataclass(frozen=True, slots=True)
class Count:
    """`subject` must have counted exactly `count`."""

    subject: str
    count: int


@dataclass(frozen=True, slots=True)
class SameCount:
    """Two readers must have found the same number of things."""

    subject: str
    peer: str


Goal = Ratio | Peak | Seconds | Count | SameCount


@dataclass(frozen=True, slots=True)
class Judgement:
    """A goal, what was reached, and whether that will do."""

    subject: str
    goal: str
    reached: str
    verdict: Verdict


def goals_for(files: int) -> list[Goal]:
    """All goals that apply to a table of that many files; below a million, times say little and have none."""
    return [*_listing_times(files), *_listing_memory(), *_answers(), *_rows(), *_package()]


def judge(goal: Goal, found: Measurements) -> Judgement:
    """Judge one goal; a figure that is missing is never a pass."""
    wanted = [goal.subject, *([goal.peer] if isinstance(goal, Ratio | SameCount) else [])]
    missing = [key for key in wanted if key not in found]
    if missing:
        return Judgement(goal.subject, describe(goal), f"{missing[0]} was not asked for", "SKIPPED")
    failed = [key for key in wanted if found[key].error]
    if failed:
        return Judgement(goal.subject, describe(goal), f"{failed[0]} failed", "FAILED")
    reached, holds = _reached(goal, found)
    return Judgement(goal.subject, describe(goal), reached, "PASS" if holds else "MISS")


def describe(goal: Goal) -> str:
    """The goal in words."""
    match goal:
        case Ratio(peer=peer, limit=limit):
            return f"time ≤ {_factor(limit)} {peer}"
        case Peak(limit=limit):
            return f"peak ≤ {limit:.0f} MB"
        case Seconds(limit=limit):
            return f"time ≤ {limit} s"
        case Count(count=count):
            return f"heavy modules = {count}"
        case SameCount(peer=peer):
            return f"same count as {peer}"


def _reached(goal: Goal, found: Measurements) -> tuple[str, bool]:
    subject = found[goal.subject]
    match goal:
        case Ratio(peer=peer, limit=limit):
            ratio = _figure(subject.seconds) / _figure(found[peer].seconds)
            return _factor(ratio), ratio <= limit
        case Peak(limit=limit):
            return f"{_figure(subject.peak_mb):.1f} MB", _figure(subject.peak_mb) <= limit
        case Seconds(limit=limit):
            return f"{_figure(subject.seconds):.3f} s", _figure(subject.seconds) <= limit
        case Count(count=count):
            return str(subject.count), subject.count == count
        case SameCount(peer=peer):
            return f"{subject.count} and {found[peer].count}", subject.count == found[peer].count


def _listing_times(files: int) -> list[Goal]:
    always: list[Goal] = [
        Ratio("ours.all_arrow", "pyarrow.all_arrow", 1.5),
        Ratio("ours.all_objects", "ours.all_arrow", 6),
        Ratio("ours.stats_predicate", "deltalake.stats_predicate", 1 / 4),
    ]
    if files < MILLION:
        return []
    first, everything = (1 / 1000, 1 / 80) if files >= 10 * MILLION else (1 / 100, 1 / 30)
    opening = "deltalake.open"
    return [Ratio("ours.first_file", opening, first), Ratio("ours.all_arrow", opening, everything), *always]


def _listing_memory() -> list[Goal]:
    names = ("first_file", "all_arrow", "all_objects", "stats_predicate", "partition_predicate")
    return [*(Peak(f"ours.{name}", 100) for name in names), Peak("ours.huge_commit", 300)]


def _answers() -> list[Goal]:
    names = ("stats_predicate", "partition_predicate", "rows_clustered", "rows_unclustered")
    return [SameCount(f"ours.{name}", f"deltalake.{name}") for name in names]


def _rows() -> list[Goal]:
    """Against both of deltalake's readers: its pyarrow dataset, and its built-in engine, which is the faster one."""
    names = ("rows_all", "rows_streamed", "rows_clustered", "rows_unclustered")
    dataset = [Ratio(f"ours.{name}", f"deltalake.{name}", 1.0) for name in names]
    engine = [Ratio(f"ours.rows_{name}", f"deltalake.engine_{name}", 1.0) for name in ("clustered", "unclustered")]
    return [*dataset, *engine]


def _package() -> list[Goal]:
    return [Seconds("ours.import", 0.3), Count("ours.import", 0)]


def _figure(value: float | None) -> float:
    if value is None:
        raise ValueError("a measurement without an error has its figures")
    return value


def _factor(ratio: float) -> str:
    return f"1/{1 / ratio:.0f} of" if 0 < ratio < 0.2 else f"{ratio:.2f} ×"
