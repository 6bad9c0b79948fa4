"""The first screen of the demo measures what it shows, and says so when something is off."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import effect
from benchmarks.effect import FIRST_FILE, LAST_HOUR, Pair, effect_table, problem_of
from benchmarks.measure import Measurement

OURS = Measurement("index.last_hour", seconds=0.010, peak_mb=10.0, count=7)
THEIRS = Measurement("deltalake.partition_predicate", seconds=20.0, peak_mb=2000.0, count=7)


def shown(*pairs: Pair) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(effect_table(1_000_000, pairs))
    return capture.get()


def test_both_readers_stand_in_a_row_with_their_ratio() -> None:
    text = shown(Pair(LAST_HOUR, OURS, THEIRS))
    (row,) = [line for line in text.splitlines() if "last hour" in line]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == ["last hour (7 files)", "10 ms, 10 MB", "20.0 s, 2.0 GB", "1/2,000, 1/200"]
    assert "1,000,000 files" in text


def test_a_failure_is_shown_and_named() -> None:
    failed = Measurement("deltalake.open", error="needs about 1.9 GB, 1.0 GB are free")
    pair = Pair(FIRST_FILE, OURS, failed)
    assert "–" in shown(pair)
    assert problem_of([pair]) == "deltalake.open was not measured: needs about 1.9 GB, 1.0 GB are free"


def test_answers_that_differ_are_a_problem() -> None:
    other = Measurement("deltalake.partition_predicate", seconds=20.0, peak_mb=2000.0, count=8)
    assert problem_of([Pair(LAST_HOUR, OURS, THEIRS)]) is None
    assert "7 files of the last hour here, 8 in deltalake" in str(problem_of([Pair(LAST_HOUR, OURS, other)]))


@pytest.mark.slow
def test_a_small_log_is_made_once_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCH_DIR", str(tmp_path / "tables"))
    assert effect.main(["--files", "2000"]) == 0
    first = capsys.readouterr().out
    assert "making a log of 2,000 files" in first
    assert "first file" in first
    assert "–" not in first
    assert effect.main(["--files", "2000"]) == 0
    assert "making" not in capsys.readouterr().out
