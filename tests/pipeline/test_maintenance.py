"""What upkeep a table needs, found without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.errors import OptionError, TableNotFoundError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.pipeline import maintenance as maintaining
from delta_sidecar.pipeline.maintenance import (
    ABORTS_WRITERS,
    HARMLESS,
    INTERVAL,
    INTERVAL_BEFORE,
    STEPS,
    StepReport,
    maintain,
    maintain_tables,
)
from delta_sidecar.pipeline.small_files import SmallFiles, crowded_partitions, partition_fields, predicate
from delta_sidecar.storage import open_store
from delta_sidecar.testing import LogBuilder, add, remove

COLUMNS = {"x": "long", "p": "string", "n": "integer"}


def partitioned(root: Path) -> LogBuilder:
    return LogBuilder(root).metadata(COLUMNS, partition_by=["p", "n"])


def small(name: str, p: str | None, n: str | None, size: int = 10) -> Any:
    return add(name, size=size, partition={"p": p, "n": n})


def dry(root: Path, *steps: str) -> dict[str, StepReport]:
    report = maintain(str(root), steps=steps, dry_run=True)
    return {step.step: step for step in report.steps}


def test_buckets_with_several_small_files_are_found(tmp_path: Path) -> None:
    log = partitioned(tmp_path)
    log.commit(small("a", "x", "1"), small("b", "x", "1"), small("c", "x", "2"), small("d", None, "1"))
    log.checkpoint()
    log.commit(small("e", None, "1"), small("f", "x", "2", size=100), small("g", "y", "3"), small("h", "y", "3"))
    log.commit(remove("g"), small("i", "", "1"))
    found = crowded_partitions(load_snapshot(open_store(tmp_path)), 50)
    assert found == [SmallFiles((None, "1"), 3, 30), SmallFiles(("x", "1"), 2, 20)]


def test_a_predicate_names_buckets_alone(tmp_path: Path) -> None:
    fields = partition_fields(load_snapshot(open_store(partitioned(tmp_path).commit().root)))
    text = predicate([SmallFiles(("it's", "1")), SmallFiles((None, None))], fields)
    assert text == r"(`p` = 'it\'s' AND `n` = CAST('1' AS integer)) OR (`p` IS NULL AND `n` IS NULL)"
    assert predicate([SmallFiles(())], []) is None


def test_a_dry_run_without_spark_says_what_is_due(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit(add("a", size=1), add("b", size=1)).commit(add("c", size=1))
    states = {name: step.state for name, step in dry(tmp_path, "optimize", "checkpoint", "index").items()}
    assert states == {"optimize": "due", "checkpoint": "due", "index": "due"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_delta_log"]
    log.checkpoint()
    build_index(open_store(tmp_path))
    log.metadata(configuration={"some": "property"}).commit()
    due = dry(tmp_path, "checkpoint", "index")
    assert {step.state for step in due.values()} == {"nothing to do"}


def test_a_file_that_came_or_went_makes_a_checkpoint_due(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit(add("a"), add("b")).checkpoint()
    assert dry(tmp_path, "checkpoint")["checkpoint"].state == "nothing to do"
    log.commit(remove("a"))
    assert dry(tmp_path, "checkpoint")["checkpoint"].state == "due"


def test_the_index_step_needs_no_spark_for_small_tables(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a")).checkpoint().commit(add("b"))
    report = maintain(str(tmp_path), steps=["index"])
    assert [(step.state, step.facts["version"]) for step in report.steps] == [("done", 1)]


def test_what_old_indexes_left_is_garbage(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a"))
    build_index(open_store(tmp_path))
    left = tmp_path / "_delta_log" / "_sidecars" / f"v0-{'0' * 32}-1.core.parquet"
    assert dry(tmp_path, "garbage")["garbage"].state == "nothing to do"
    left.write_bytes(b"of a build that died")
    os.utime(left, (1, 1))
    assert dry(tmp_path, "garbage")["garbage"].facts == {"files": 1, "bytes": 20}
    assert left.exists()
    assert maintain(str(tmp_path), steps=["garbage"]).steps[0].state == "done"
    assert not left.exists()


@pytest.mark.parametrize("given", [{"steps": ["polish"]}, {"target_file_size": 0}, {"retain_hours": -1}])
def test_orders_that_make_no_sense_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    LogBuilder(tmp_path).commit(add("a"))
    with pytest.raises(OptionError):
        maintain(str(tmp_path), **given)


def test_there_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        maintain(str(tmp_path / "nowhere"))


def test_a_checkpoint_is_made_only_when_it_is_named(tmp_path: Path) -> None:
    """It changes a property of the table, and that aborts every writer at work."""
    LogBuilder(tmp_path).commit(add("a"))
    assert set(STEPS) - set(HARMLESS) == {"checkpoint"}
    assert maintain(str(tmp_path), steps=["index"]).warnings == ()
    named = maintain(str(tmp_path), steps=["checkpoint"], dry_run=True)
    assert (named.warnings, named.steps[0].state) == ((ABORTS_WRITERS,), "due")


def test_an_interval_that_a_crash_left_is_told(tmp_path: Path) -> None:
    LogBuilder(tmp_path).metadata(configuration={INTERVAL: "1", INTERVAL_BEFORE: ""}).commit(add("a"))
    (warning,) = maintain(str(tmp_path), steps=["index"]).warnings
    assert "--only checkpoint restores it" in warning


@pytest.mark.parametrize(("error", "unexpected"), [(OptionError("no room"), False), (RuntimeError("a defect"), True)])
def test_a_step_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, unexpected: bool
) -> None:
    def broken(*given: object) -> None:
        raise error

    LogBuilder(tmp_path).commit(add("a"))
    monkeypatch.setattr(maintaining, "crowded_partitions", broken)
    report = maintain(str(tmp_path), steps=["optimize", "index"])
    assert [step.state for step in report.steps] == ["failed", "done"]
    assert str(error) in report.steps[0].summary
    assert report.steps[0].facts == {"error": type(error).__name__}
    assert (report.failed, report.unexpected) == (True, unexpected)


def test_a_table_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    for name in ("a", "c"):
        LogBuilder(tmp_path / name).commit(add("x"))
    told: list[str] = []
    uris = [str(tmp_path / name) for name in ("a", "b", "c")]
    reports = list(maintain_tables(uris, steps=["index"], progress=told.append))
    assert [report.failed for report in reports] == [False, True, False]
    assert reports[1].uri == uris[1]
    assert "no Delta table" in (reports[1].error or "")
    assert (reports[1].steps, reports[1].version, reports[1].unexpected) == ((), None, False)
    assert [report.steps[0].state for report in (reports[0], reports[2])] == ["done", "done"]
    assert {message.partition(": ")[0] for message in told} == {uris[0], uris[2]}


def test_orders_for_several_tables_are_checked_before_the_first(tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        next(maintain_tables([str(tmp_path)], steps=["polish"]))


def test_commits_without_files_make_no_index_due(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit(add("a")).checkpoint().commit(add("b"))
    build_index(open_store(tmp_path))
    log.metadata(configuration={"some": "property"}).commit()
    assert dry(tmp_path, "index")["index"].state == "nothing to do"
    log.checkpoint()
    assert dry(tmp_path, "index")["index"].facts["version"] == log.version
    log.commit(remove("a"))
    assert dry(tmp_path, "index")["index"].facts["version"] == log.version
