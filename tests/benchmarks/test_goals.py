"""Goals pass only on figures that are there and good enough; recorded figures stay labelled."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.goals import Count, Goal, Peak, Ratio, SameCount, Seconds, goals_for, judge
from benchmarks.measure import Measurement
from benchmarks.report import Run, load_recorded, save, show
from benchmarks.workloads import WORKLOADS

FOUND = {
    "ours.first_file": Measurement("ours.first_file", seconds=0.01, peak_mb=10, count=1),
    "deltalake.open": Measurement("deltalake.open", seconds=1.0, peak_mb=1000, count=1),
    "ours.broken": Measurement("ours.broken", error="no such method"),
}


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Ratio("ours.first_file", "deltalake.open", 1 / 100), "PASS"),
        (Ratio("ours.first_file", "deltalake.open", 1 / 101), "MISS"),
        (Peak("ours.first_file", 10), "PASS"),
        (Peak("deltalake.open", 999), "MISS"),
        (Seconds("ours.first_file", 0.02), "PASS"),
        (Seconds("ours.first_file", 0.005), "MISS"),
        (Count("ours.first_file", 1), "PASS"),
        (Count("ours.first_file", 0), "MISS"),
        (SameCount("ours.first_file", "deltalake.open"), "PASS"),
        (Peak("ours.broken", 100), "FAILED"),
        (Ratio("ours.first_file", "ours.broken", 1), "FAILED"),
        (Ratio("ours.first_file", "deltalake.absent", 1), "SKIPPED"),
    ],
)
def test_verdicts(goal: Goal, verdict: str) -> None:
    assert judge(goal, FOUND).verdict == verdict


@pytest.mark.parametrize("files", [100_000, 1_000_000, 10_000_000])
def test_goals_speak_of_workloads_that_exist(files: int) -> None:
    for goal in goals_for(files):
        assert goal.subject in WORKLOADS
        if isinstance(goal, Ratio | SameCount):
            assert goal.peer in WORKLOADS


def test_goals_grow_with_the_table() -> None:
    def opening(files: int) -> set[tuple[str, float]]:
        ratios = [goal for goal in goals_for(files) if isinstance(goal, Ratio) and goal.peer == "deltalake.open"]
        return {(goal.subject, goal.limit) for goal in ratios}

    assert opening(1_000_000) == {("ours.first_file", 1 / 100), ("ours.all_arrow", 1 / 30)}
    assert opening(10_000_000) == {("ours.first_file", 1 / 1000), ("ours.all_arrow", 1 / 80)}


def test_recorded_figures_are_labelled_and_of_the_same_size(tmp_path: Path) -> None:
    path = tmp_path / "earlier.json"
    save(Run(1000, {}, FOUND, []), path)
    recorded = load_recorded(path, 1000, "deltalake")
    assert list(recorded) == ["deltalake.open"]
    text = shown(Run(1000, {}, recorded, []))
    assert "1.000*" in text
    assert "deltalake.open was not measured in this run: recorded" in text
    with pytest.raises(SystemExit, match="measure again"):
        load_recorded(path, 2000, "deltalake")


def test_failures_are_shown_with_their_reason() -> None:
    text = shown(Run(1000, {}, FOUND, [judge(Peak("ours.broken", 100), FOUND)]))
    assert "FAILED ours.broken: no such method" in text
    assert "0.0100 (of open)" in text


def shown(run: Run) -> str:
    out = io.StringIO()
    show(run, Console(file=out, width=200))
    return out.getvalue()
