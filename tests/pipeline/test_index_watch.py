"""Watching a table: what is indexed when, what is survived, how it ends. No Spark here."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from delta_sidecar.cli.stop_signals import stopped_by_signals
from delta_sidecar.errors import (
    DeltaSidecarError,
    LogGapError,
    OptionError,
    StoreUnavailableError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_sidecar.index.build.build import BuildReport, build_index
from delta_sidecar.pipeline import index_watch as watching
from delta_sidecar.pipeline.index_watch import WatchReport, watch
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.testing import LogBuilder, add
from delta_sidecar.testing.stores import CountingStore

Step = Callable[[], object]


class Script(threading.Event):
    """A stop event that does one step of a script at each wait, and is set when there is none left."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.steps = list(steps)
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if self.steps:
            self.steps.pop(0)()
        else:
            self.set()
        return self.is_set()


class Failing:
    """A builder that fails as it is told, then builds."""

    def __init__(self, root: Path, *errors: DeltaSidecarError) -> None:
        self.store = open_store(root)
        self.errors = list(errors)
        self.asked: list[int] = []

    def __call__(self, version: int) -> BuildReport:
        self.asked.append(version)
        if self.errors:
            raise self.errors.pop(0)
        return build_index(self.store, version)


def made(root: Path, commits: int = 1) -> LogBuilder:
    log = LogBuilder(root)
    for _ in range(commits):
        grow(log)
    return log


def grow(log: LogBuilder, commits: int = 1) -> LogBuilder:
    for _ in range(commits):
        log.commit(add(f"{log.version + 1}.parquet"))
    return log


def watched(log: LogBuilder, *steps: Step, tail: int | None = None, errors: tuple[DeltaSidecarError, ...] = ()):
    """A watch through the script: its report, the versions built, the waits."""
    script, builds = Script(*steps), list[int]()
    report = watch(
        str(log.root),
        interval=10,
        tail_commits=tail,
        stop=script,
        on_build=lambda built: builds.append(built.version),
        build=Failing(log.root, *errors),
    )
    return report, builds, script.waits


def test_what_is_there_is_indexed_and_then_each_new_checkpoint(tmp_path: Path) -> None:
    log = made(tmp_path, 3).checkpoint()
    report, builds, waits = watched(
        log, lambda: grow(log), lambda: grow(log).checkpoint(), lambda: None, lambda: grow(log, 2).checkpoint()
    )
    assert builds == [2, 4, 6]
    assert waits == [10] * 5
    assert report == WatchReport(polls=5, builds=3, failures=0, version=6)


def test_of_several_checkpoints_the_newest_counts(tmp_path: Path) -> None:
    log = made(tmp_path).checkpoint()
    _, builds, _ = watched(log, lambda: grow(grow(log).checkpoint(), 3).checkpoint())
    assert builds == [0, 4]


def test_a_second_watch_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    log = made(tmp_path, 3).checkpoint()
    assert watched(log)[1] == [2]
    assert watched(log)[1] == []
    grow(log).checkpoint()
    assert watched(log)[1] == [3]


def test_an_index_newer_than_the_newest_checkpoint_is_enough(tmp_path: Path) -> None:
    log = grow(made(tmp_path).checkpoint(), 2)
    build_index(open_store(tmp_path))
    report, builds, _ = watched(log)
    assert builds == []
    assert report.version == 2


def test_a_long_tail_is_indexed_without_a_checkpoint(tmp_path: Path) -> None:
    log = made(tmp_path, 2)
    assert watched(log)[1] == []
    _, builds, _ = watched(log, lambda: grow(log), lambda: grow(log, 2), lambda: grow(log), tail=3)
    assert builds == [2, 5]


def test_a_poll_without_news_is_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = made(tmp_path, 3).checkpoint()
    counted: list[CountingStore] = []

    def counting(uri: str, options: object = None) -> Store:
        counted.append(CountingStore(open_store(uri)))
        return counted[-1]

    monkeypatch.setattr(watching, "open_store", counting)
    costs: list[int] = []
    watched(log, *[lambda: costs.append(len(counted[0].requests))] * 3)
    assert [later - earlier for earlier, later in pairwise(costs)] == [1, 1]


def test_what_may_pass_is_tried_again_later_each_time(tmp_path: Path) -> None:
    log = made(tmp_path)
    errors = tuple(StoreUnavailableError("no answer") for _ in range(8))
    report, builds, waits = watched(log, log.checkpoint, *[lambda: None] * 8, errors=errors)
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300, 300, 10]
    assert builds == [0]
    assert (report.builds, report.failures) == (1, 8)


def test_a_store_that_does_not_answer_at_first_is_waited_for(tmp_path: Path) -> None:
    log = made(tmp_path).checkpoint()
    _, builds, waits = watched(log, lambda: None, errors=(StoreUnavailableError("no answer"),))
    assert builds == [0]
    assert waits == [20, 10]


def test_a_table_that_is_not_there_at_first_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        watch(str(tmp_path / "nowhere"), stop=Script())


def test_a_table_made_again_is_indexed_anew(tmp_path: Path) -> None:
    root = tmp_path / "table"
    log = made(root, 3).checkpoint()

    def drop() -> None:
        shutil.rmtree(root / "_delta_log")

    def make_again() -> None:
        again = LogBuilder(root).metadata({"x": "long"}, table_id="another")
        grow(again.commit(add("other.parquet")), 5).checkpoint()

    report, builds, waits = watched(log, drop, make_again)
    assert builds == [2, 5]
    assert report.failures == 1
    assert waits == [10, 20, 10]


def test_a_gap_is_waited_for_and_told(tmp_path: Path) -> None:
    log = made(tmp_path)
    told: list[tuple[str, float]] = []
    watch(
        str(tmp_path),
        interval=1,
        stop=Script(log.checkpoint, lambda: None),
        build=Failing(tmp_path, LogGapError("commit 1 is gone")),
        on_error=lambda error, delay: told.append((str(error), delay)),
    )
    assert told == [("commit 1 is gone", 2)]


@pytest.mark.parametrize("error", [UnsupportedFeatureError("a new feature"), OptionError("no such option")])
def test_what_will_not_pass_ends_the_watch(tmp_path: Path, error: DeltaSidecarError) -> None:
    log = made(tmp_path)
    with pytest.raises(type(error)):
        watched(log, log.checkpoint, lambda: None, errors=(error,))


@pytest.mark.parametrize("given", [{"interval": 0}, {"tail_commits": 0}])
def test_arguments_that_make_no_sense_are_refused(tmp_path: Path, given: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        watch(str(tmp_path), **given)  # type: ignore[arg-type]


def test_a_lost_part_is_noticed_by_the_next_watch(tmp_path: Path) -> None:
    log = made(tmp_path, 2).checkpoint()
    assert watched(log)[1] == [1]
    for part in (tmp_path / "_delta_log").rglob("v1*.parquet"):
        part.unlink()
    assert watched(log)[1] == [1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_watch_in_order(tmp_path: Path, number: signal.Signals) -> None:
    log = made(tmp_path).checkpoint()
    before = signal.getsignal(number)
    with stopped_by_signals() as stop:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), number))
        report = watch(
            str(log.root), interval=60, stop=stop, build=Failing(log.root), on_build=lambda built: timer.start()
        )
    assert report.builds == 1
    assert signal.getsignal(number) == before
