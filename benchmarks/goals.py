"""The goals, as values: which figures of a run they compare, and what must hold. Judging is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.measure import Measurement

Measurements = Mapping[str, Measurement]
Verdict = Literal["PASS", "MISS", "FAILED", "SKIPPED"]
MILLION = 1_000_000
_HOURS = ("last_hour", "last_hour_by_time")


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


@dataclass(frozen=True, slots=True)
class ArrowPeak:
    """Arrow's pool may hold at most `limit` MB for `subject`."""

    subject: str
    limit: float


@dataclass(frozen=True, slots=True)
class Latency:
    """`subject` may take as long as its sequential trips to the store and `slack` seconds more."""

    subject: str
    trip: float
    slack: float


Goal = Ratio | Peak | Seconds | Count | SameCount | ArrowPeak | Latency


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


def ladder_goals(files: int) -> list[Goal]:
    """The goals of the ladder: bounds of memory and of waiting hold at any size, ratios where times say something."""
    always = [*_ladder_memory(), *_ladder_answers(), Latency("slow.last_hour", 0.030, 0.025)]
    ratios = _ladder_ratios() if files >= MILLION else []
    peers = _ladder_peers() if files >= 10 * MILLION else []
    return [*peers, *ratios, *always, Seconds("index.explain", 1.0)]


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
        case ArrowPeak(limit=limit):
            return f"Arrow's pool ≤ {limit:.0f} MB"
        case Latency(trip=trip, slack=slack):
            return f"time ≤ trips × {trip * 1000:.0f} ms + {slack * 1000:.0f} ms"


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
        case ArrowPeak(limit=limit):
            return f"{_figure(subject.arrow_peak_mb):.1f} MB", _figure(subject.arrow_peak_mb) <= limit
        case Latency(trip=trip, slack=slack):
            trips, seconds = _figure(subject.told("trips")), _figure(subject.seconds)
            return f"{seconds * 1000:.0f} ms in {trips:.0f} trips", seconds <= trips * trip + slack


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


def _ladder_peers() -> list[Goal]:
    at_once = [Ratio(f"index.{name}", "deltalake.open", 1 / 5_000) for name in ("first_file", *_HOURS)]
    everything = Ratio("index.all_arrow", "deltalake.open", 1 / 200)
    return [*at_once, everything, Ratio("index.stats_predicate", "deltalake.stats_predicate", 1 / 120)]


def _ladder_ratios() -> list[Goal]:
    """Against the bare read in both ways pyarrow has; the others against the plain listing of all files."""
    bare = [Ratio("index.all_arrow", f"pyarrow.{name}", 1.25) for name in ("core_parts", "core_parts_streamed")]
    others = (("index.all_objects", 8), ("masked.all_arrow", 2.6), ("slow.all_arrow", 2))
    return [*bare, *(Ratio(subject, "index.all_arrow", limit) for subject, limit in others)]


def _ladder_memory() -> list[Goal]:
    hours: list[Goal] = [goal for name in _HOURS for goal in (Peak(f"index.{name}", 25), ArrowPeak(f"index.{name}", 6))]
    others = (("index.all_arrow", 35), ("index.stats_predicate", 40), ("masked.all_arrow", 80), ("slow.all_arrow", 40))
    return [*hours, *(Peak(subject, limit) for subject, limit in others)]


def _ladder_answers() -> list[Goal]:
    return [
        SameCount("index.last_hour", "deltalake.partition_predicate"),
        SameCount("index.stats_predicate", "deltalake.stats_predicate"),
    ]


def _figure(value: float | None) -> float:
    if value is None:
        raise ValueError("a measurement without an error has its figures")
    return value


def _factor(ratio: float) -> str:
    return f"1/{1 / ratio:.0f} of" if 0 < ratio < 0.2 else f"{ratio:.2f} ×"
