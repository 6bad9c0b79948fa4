"""A sweep fails if one of its cases does, and names all that do."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.sweep import sweep


def test_every_case_is_tried_and_those_that_fail_are_named() -> None:
    tried: list[int] = []

    @sweep("number, square", [(2, 4), (3, 10), (4, 16), (5, 26)])
    def check(number: int, square: int) -> None:
        tried.append(number)
        assert number**2 == square

    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases fail") as raised:
        check()
    assert tried == [2, 3, 4, 5]
    assert [failure.__notes__ for failure in raised.value.exceptions] == [["case: (3, 10)"], ["case: (5, 26)"]]


def test_what_should_have_been_raised_is_a_failure() -> None:
    @sweep("case", ["x"])
    def check(case: str) -> None:
        with pytest.raises(ValueError):
            str(case)

    with pytest.raises(BaseExceptionGroup, match="1 of 1 cases fail"):
        check()


def test_no_case_is_a_failure() -> None:
    @sweep("case", [])
    def check(case: str) -> None:
        """Never called."""

    with pytest.raises(AssertionError, match="no case to try"):
        check()


@sweep("case", ["a", "b"])
def test_fixtures_are_given(tmp_path: Path, case: str) -> None:
    (tmp_path / case).touch()


def test_only_fixtures_are_left_to_ask_for() -> None:
    assert list(inspect.signature(test_fixtures_are_given).parameters) == ["tmp_path"]
