"""What a sync does next, found without Spark: where the target is, by its log and by the cursor; what does not fit."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import (
    ConflictError,
    DeltaSidecarError,
    InputError,
    OptionError,
    OtherTableError,
    SchemaChangedError,
    UnsupportedTypeError,
)
from delta_sidecar.lake.change_apply import check_schema, txn_app_id
from delta_sidecar.lake.cursors import CursorTarget
from delta_sidecar.lake.sync_job import SyncJob, SyncReport, job_of, keep_in_sync
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.testing import LogBuilder
from delta_sidecar.testing.actions import txn
from delta_sidecar.values.types import parse_schema
from tests.data.changing import feed_table, written


@pytest.fixture
def source(tmp_path: Path) -> LogBuilder:
    root = tmp_path / "source"
    return feed_table(root).commit(written(root, "a", [1])).commit(written(root, "b", [2])).commit()


@pytest.fixture
def job(source: LogBuilder, tmp_path: Path) -> SyncJob:
    return job_of(source.root, tmp_path / "target", ["k"], "upsert", None, None, "include_all", None, None)


def target(job: SyncJob, source: LogBuilder, reached: int | None, **more: Any) -> LogBuilder:
    """A target with rows, whose log says that it has a version of the source."""
    root = Path(job.target)
    log = feed_table(root) if not more else LogBuilder(root).metadata({"k": "long", "s": "string"}, **more)
    head = load_snapshot(open_store(source.root))
    done = [] if reached is None else [txn(txn_app_id(head.metadata.id, job.target, job.name), reached)]
    return log.commit(written(root, "x", [1]), *done)


def planned(job: SyncJob) -> tuple[int, int, bool, tuple[int, int] | None]:
    found = job.next()
    return found.range.start, found.range.end, found.range.is_snapshot, found.recovered


def test_a_target_that_is_not_there_begins_with_all_rows(job: SyncJob) -> None:
    assert planned(job) == (2, 2, True, None)
    job.cursors.plan(job.name, 1)
    assert planned(job) == (1, 1, True, None), "a step that has begun ends where it was to end"


def test_the_log_of_the_target_counts_over_the_cursor(job: SyncJob, source: LogBuilder) -> None:
    target(job, source, 1)
    assert planned(job) == (2, 2, False, (0, 1))
    job.cursors.advance(job.name, 0)
    assert planned(job) == (2, 2, False, (1, 1))
    job.cursors.advance(job.name, 1)
    assert planned(job) == (2, 2, False, None)
    job.cursors.advance(job.name, 2)
    assert job.next().range.is_empty


def test_steps_of_some_versions(job: SyncJob, source: LogBuilder) -> None:
    target(job, source, 0)
    assert planned(replace(job, max_versions=1)) == (1, 1, False, (0, 0))
    job.cursors.advance(job.name, 0)
    job.cursors.plan(job.name, 1, after=0)
    assert planned(job) == (1, 1, False, None)
    source.commit()
    assert planned(job) == (1, 1, False, None)


def refused(job: SyncJob, error: type[DeltaSidecarError], words: str) -> None:
    with pytest.raises(error, match=words):
        job.next()
    assert job.next(full=True).range.is_snapshot, "to begin again is the way out"


def test_other_tables_are_refused(job: SyncJob, source: LogBuilder, tmp_path: Path) -> None:
    job = replace(job, state=str(tmp_path / "state"))
    job.cursors.advance(job.name, 1, target=CursorTarget("first", 1, "rows"))
    refused(job, OtherTableError, "there is no table")
    log = target(job, source, 0, table_id="second")
    refused(job, OtherTableError, "belongs to target first, .* is now table second")
    job.cursors.reset(job.name)
    job.cursors.advance(job.name, 1, target=CursorTarget("second", 1, "rows"))
    refused(job, OtherTableError, "has version 0 of the source, but its cursor says 1")
    log.commit(txn(txn_app_id(load_snapshot(open_store(source.root)).metadata.id, job.target, job.name), 1))
    assert planned(job) == (2, 2, False, None)
    appending = job_of(source.root, job.target, [], "append", job.state, None, "include_all", None, None)
    refused(appending, OptionError, r"another strategy or filter \(rows\)")
    job.cursors.advance(job.name, 2)
    source.cleanup(0)
    (source.log / f"{2:020}.json").unlink()
    refused(job, OtherTableError, "the newest of .* is 1")


def test_rows_of_others_are_refused(job: SyncJob, source: LogBuilder) -> None:
    log = target(job, source, None)
    refused(job, InputError, "already has rows")
    refused(replace(job, name="other"), InputError, "already has rows")
    assert log.version == 0


def test_a_target_with_other_columns_is_refused(job: SyncJob, source: LogBuilder) -> None:
    target(job, source, 1)
    source.metadata({"k": "long", "s": "string", "more": "long"}, (), {"delta.enableChangeDataFeed": "true"}).commit()
    assert planned(job)[:2] == (2, 3)


FIELD = '{{"name": "{}", "type": {}, "nullable": true, "metadata": {{}}}}'


def schema(**columns: str) -> Any:
    fields = ", ".join(
        FIELD.format(name, kind if kind.startswith("{") else f'"{kind}"') for name, kind in columns.items()
    )
    return parse_schema(f'{{"type": "struct", "fields": [{fields}]}}')


def struct(**columns: str) -> str:
    fields = ", ".join(FIELD.format(name, f'"{kind}"') for name, kind in columns.items())
    return f'{{"type": "struct", "fields": [{fields}]}}'


def array(element: str) -> str:
    return f'{{"type": "array", "elementType": {element}, "containsNull": true}}'


def test_new_columns_fit_and_others_do_not() -> None:
    assert not check_schema(schema(a="long", b="string"), schema(b="string", a="long"), "t")
    assert check_schema(schema(a="long", b="string"), schema(a="long"), "t")
    assert check_schema(schema(a=struct(x="long", y="long")), schema(a=struct(x="long")), "t")
    assert check_schema(schema(a=array(struct(x="long", y="long"))), schema(a=array(struct(x="long"))), "t")
    for given, there, words in [
        (schema(a="long"), schema(a="long", b="long"), "no column 'b'"),
        (schema(a="long"), schema(a="integer"), "'a' is long in the source, but integer in the target"),
        (schema(a=struct(x="long")), schema(a=struct(x="string")), "'a.x'"),
        (schema(a=struct(x="long")), schema(a=struct(x="long", y="long")), "no column 'a.y'"),
        (schema(a=array('"long"')), schema(a="long"), "'a'"),
    ]:
        with pytest.raises(SchemaChangedError, match=words):
            check_schema(given, there, "t")


def test_a_key_must_be_comparable(job: SyncJob) -> None:
    kinds = {
        "m": '{"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": true}',
        "v": "variant",
    }
    for name in kinds:
        with pytest.raises(UnsupportedTypeError, match=f"'{name}'"):
            replace(job.way, key=(name,)).check_key(schema(**kinds))
    with pytest.raises(OptionError, match="twice"):
        replace(job.way, key=("a", "A"))


def test_ids_of_transactions_are_those_of_source_target_and_cursor(tmp_path: Path) -> None:
    first = txn_app_id("id", tmp_path / "t", "name")
    assert first == txn_app_id("id", f"file://{tmp_path}/t/", "name")
    others = [("id2", tmp_path / "t", "name"), ("id", tmp_path / "u", "name"), ("id", tmp_path / "t", "n")]
    assert len({first, *(txn_app_id(*each) for each in others)}) == 4


def test_a_watch_goes_on_after_failures_that_pass() -> None:
    stop, told = threading.Event(), []
    outcomes = iter([ConflictError("busy"), None, ConflictError("busy")])

    def run() -> SyncReport:
        outcome = next(outcomes, OptionError("wrong"))
        if outcome is not None:
            raise outcome
        return None  # type: ignore[return-value]

    with pytest.raises(OptionError, match="wrong"):
        keep_in_sync(run, stop, 0.001, lambda error, delay: told.append((str(error), delay)))
    assert told == [("busy", 0.002), ("busy", 0.002)]
    stop.set()
    assert keep_in_sync(run, stop, 1) == 0
