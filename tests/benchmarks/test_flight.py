"""The goals of the server, judged."""

from __future__ import annotations

from benchmarks.flight import Listing, judgements


def test_goals_that_are_reached() -> None:
    found = judgements(Listing(0.010, 2.0, 100), Listing(0.049, 3.9, 100), 1.9, 1.9, 299)
    assert [judgement.verdict for judgement in found] == ["PASS"] * 5


def test_goals_that_are_missed() -> None:
    found = judgements(Listing(0.010, 2.0, 100), Listing(0.051, 4.1, 100), 2.1, 2.1, 301)
    assert [judgement.verdict for judgement in found] == ["MISS"] * 5
