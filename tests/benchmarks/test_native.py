"""The goals of `make bench-native`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.native import Found, judgements

GOOD = Found(
    first_ms=50,
    first_busy_ms=40,
    next_ms=20,
    next_busy_ms=18,
    hour_mb=20,
    hour_files=1000,
    stream_s=3.0,
    python_s=2.0,
    callback_us=1.0,
    callback_busy_us=1.0,
    files=10,
    library_mb=10,
)


def test_goals_that_are_reached() -> None:
    assert {each.verdict for each in judgements(GOOD)} == {"PASS"}


def test_goals_that_are_missed() -> None:
    slow = replace(GOOD, first_ms=50.1, next_ms=20.1, hour_mb=20.1, stream_s=3.1, callback_us=1.1, library_mb=10.1)
    assert {each.verdict for each in judgements(slow)} == {"MISS"}
