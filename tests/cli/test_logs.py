"""What the command says on stderr while it works: retries, steps, and why Spark is started."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from delta_sidecar.cli.index import _Steps
from delta_sidecar.cli.logs import RETRIES, log_to_stderr
from delta_sidecar.cli.progress import Progress
from delta_sidecar.index.build.build import ON_SPARK

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """The library's logger as it was."""
    ours, retries = logging.getLogger("delta_sidecar"), logging.getLogger(RETRIES)
    before = ours.handlers, ours.propagate, ours.level, retries.level
    yield
    ours.handlers, ours.propagate, level, retries_level = before
    ours.setLevel(level)
    retries.setLevel(retries_level)


def retry(attempt: int, what: str = "no answer") -> None:
    logging.getLogger(RETRIES).info("%s; attempt %d", what, attempt, extra={"attempt": attempt})


def test_requests_that_fail_side_by_side_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(False, {"account_key": SECRET})
    for attempt in (2, 2, 3, 2, 3):
        retry(attempt, f"no answer for {SECRET}")
    logging.getLogger("delta_sidecar.log").info("not asked for")
    assert capsys.readouterr().err == ("sidecar: no answer for ***; attempt 2\nsidecar: no answer for ***; attempt 3\n")


def test_verbose_tells_everything(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(True, {"account_key": SECRET})
    retry(2)
    retry(2)
    logging.getLogger("delta_sidecar.log").debug("a note with %s", SECRET)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("] ")[2] for line in lines] == ["no answer; attempt 2"] * 2 + ["a note with ***"]


def test_the_reason_for_spark_stays_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(False, {})
    reason = f"{ON_SPARK}; 9 files to read, and one process builds up to 8"
    with Progress(0.01) as progress:
        step = _Steps(progress)
        step(reason)
        step("writing 2 ranges")
        time.sleep(0.5)
    assert capsys.readouterr().err.splitlines().count(f"sidecar: {reason}") == 1


def test_a_step_that_fails_at_once_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(False, {})
    with Progress() as progress:
        _Steps(progress)(f"{ON_SPARK}; as requested")
    assert capsys.readouterr().err == ""
