"""The upkeep of a real table: each step does what is due, a dry run nothing, a second run nothing more."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.pipeline.maintenance import (
    INTERVAL,
    INTERVAL_BEFORE,
    LISTING_TASKS,
    MaintenanceReport,
    StepReport,
    _Session,
    maintain,
)
from delta_sidecar.pipeline.session import shuffle_partitions
from delta_sidecar.storage import open_store
from tests.integration.spark.indexed import verified
from tests.integration.spark.oracle import SparkTable, with_setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_STEPS = ("optimize", "vacuum", "checkpoint", "index")


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkTable:
    """Several small files in three buckets with awkward values, one in a fourth."""
    table = SparkTable(spark, tmp_path_factory.mktemp("original") / "table")
    table.sql("CREATE TABLE {t} (id BIGINT, bucket STRING, n INT) USING delta PARTITIONED BY (bucket, n)")
    rows = r"SELECT id, element_at(array('it\'s', 'a\\b', NULL), CAST(id + 1 AS INT)), 7 FROM range(3)"
    return table.sql(*[f"INSERT INTO {{t}} {rows}"] * 3, "INSERT INTO {t} VALUES (9, 'alone', NULL)")


@pytest.fixture
def small_files(original: SparkTable, tmp_path: Path) -> SparkTable:
    """A copy of them, to put in order."""
    shutil.copytree(original.root, tmp_path / "table")
    return SparkTable(original.spark, tmp_path / "table")


def maintained(table: SparkTable, **given: Any) -> dict[str, StepReport]:
    return by_step(maintain(str(table.root), spark=table.spark, **{"steps": SPARK_STEPS, **given}))


def by_step(report: MaintenanceReport) -> dict[str, StepReport]:
    return {step.step: step for step in report.steps}


def properties(table: SparkTable) -> dict[str, str]:
    return load_snapshot(open_store(table.root)).metadata.properties


def files(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


def test_a_table_is_put_in_order_once(small_files: SparkTable) -> None:
    told: list[str] = []
    before = sorted(map(str, small_files.frame().collect()))
    done = maintained(small_files, progress=told.append)
    assert {name: step.state for name, step in done.items()} == {
        "optimize": "done", "vacuum": "nothing to do", "checkpoint": "done", "index": "done",
    }  # fmt: skip
    assert done["optimize"].facts.items() >= {"buckets": 3, "small_files": 9, "removed": 9, "added": 3}.items()
    assert [step for step in told if ":" not in step] == list(SPARK_STEPS)
    assert sorted(map(str, small_files.frame().collect())) == before
    assert INTERVAL not in properties(small_files)
    paths, _ = verified(open_store(small_files.root), done["checkpoint"].facts["version"])
    assert len(paths) == 4

    version = load_snapshot(open_store(small_files.root)).version
    again = maintained(small_files)
    assert {step.state for step in again.values()} == {"nothing to do"}
    assert load_snapshot(open_store(small_files.root)).version == version


def test_a_dry_run_writes_nothing(small_files: SparkTable) -> None:
    before = files(small_files.root)
    done = maintained(small_files, dry_run=True)
    assert files(small_files.root) == before
    assert {name: step.state for name, step in done.items()} == {
        "optimize": "due", "vacuum": "nothing to do", "checkpoint": "due", "index": "due",
    }  # fmt: skip
    assert done["optimize"].facts["small_files"] == 9


def test_files_of_no_kept_version_are_vacuumed(small_files: SparkTable, spark: SparkSession) -> None:
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    small_files.sql("OPTIMIZE {t}")
    refused = maintained(small_files, steps=["vacuum", "garbage"], retain_hours=0)
    assert [step.state for step in refused.values()] == ["failed", "nothing to do"]
    assert "RETENTION_PERIOD_TOO_SHORT" in refused["vacuum"].summary
    assert refused["vacuum"].facts == {"error": "SparkError"}
    with with_setting(spark, check, "false"):
        dry = maintained(small_files, steps=["vacuum"], retain_hours=0, dry_run=True)["vacuum"]
        done = maintained(small_files, steps=["vacuum"], retain_hours=0)["vacuum"]
    assert (dry.state, dry.facts) == ("due", {"files": 9})
    assert (done.state, done.facts) == ("done", {"files": 9})
    assert len(list(small_files.root.rglob("part-*.parquet"))) == 4


@pytest.mark.parametrize("own", [None, "7"])
def test_the_interval_of_checkpoints_stays_the_tables_own(table: SparkTable, own: str | None) -> None:
    more = "" if own is None else f" TBLPROPERTIES ('{INTERVAL}' = '{own}')"
    table.sql(f"CREATE TABLE {{t}} (id BIGINT) USING delta{more}", "INSERT INTO {t} VALUES (1)")
    made = maintained(table, steps=["checkpoint"])["checkpoint"]
    assert (made.state, made.facts) == ("done", {"version": 2})
    assert properties(table).get(INTERVAL) == own
    assert INTERVAL_BEFORE not in properties(table)


@pytest.mark.parametrize("own", ["", "7"])
def test_an_interval_left_behind_by_a_crash_is_put_right(table: SparkTable, own: str) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT) USING delta",
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{INTERVAL}' = '1', '{INTERVAL_BEFORE}' = '{own}')",
    )
    assert maintained(table, steps=["checkpoint"])["checkpoint"].state == "done"
    assert properties(table) == ({INTERVAL: own} if own else {})


@pytest.mark.long
def test_a_directory_that_a_writer_has_just_made_is_no_reason_to_vacuum(small_files: SparkTable) -> None:
    made = small_files.root / "bucket=new" / "n=7"
    made.mkdir(parents=True)
    version = load_snapshot(open_store(small_files.root)).version
    assert maintained(small_files, steps=["vacuum"])["vacuum"].facts == {"files": 0}
    assert load_snapshot(open_store(small_files.root)).version == version
    left = made / "part-of-a-writer-that-died.parquet"
    left.write_bytes(b"")
    os.utime(left, (1, 1))
    done = maintained(small_files, steps=["vacuum"])["vacuum"]
    assert done.state == "done"
    assert not left.exists()


def test_vacuum_lists_with_the_tasks_of_an_exchange(
    small_files: SparkTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def count(session: _Session, statement: str, but: str) -> int:
        seen.append(spark.conf.get(LISTING_TASKS))
        return 0

    monkeypatch.setattr(_Session, "count", count)
    for given in ("10000", "77"):
        with with_setting(spark, LISTING_TASKS, given):
            maintained(small_files, steps=["vacuum"], dry_run=True)
            assert spark.conf.get(LISTING_TASKS) == given
    assert seen == [spark.conf.get("spark.sql.shuffle.partitions"), "77"]


def test_a_session_without_settings_of_its_own_will_do(small_files: SparkTable, spark: SparkSession) -> None:
    """As on a cluster: `spark.sql.shuffle.partitions` is not set."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    assert before is not None
    spark.conf.unset(name)
    try:
        assert shuffle_partitions(spark) == 200
        with with_setting(spark, LISTING_TASKS, "10000"), patch.object(_Session, "count", return_value=0):
            done = maintained(small_files, steps=["vacuum"])
        assert spark.conf.get(name, None) is None
    finally:
        spark.conf.set(name, before)
    assert done["vacuum"].state == "nothing to do"


def test_no_step_of_the_default_changes_the_tables_metadata(small_files: SparkTable) -> None:
    """A change of it, even of a property, aborts every writer at work."""
    before = load_snapshot(open_store(small_files.root)).metadata
    report = maintain(str(small_files.root), spark=small_files.spark)
    assert [step.step for step in report.steps] == ["optimize", "vacuum", "index", "garbage"]
    assert (report.warnings, report.failed) == ((), False)
    history = small_files.spark.sql(f"DESCRIBE HISTORY {small_files.name}").collect()
    assert {row.operation for row in history} == {"CREATE TABLE", "WRITE", "OPTIMIZE"}
    assert load_snapshot(open_store(small_files.root)).metadata == before


def test_an_index_is_not_made_again_for_commits_without_files(small_files: SparkTable) -> None:
    first = maintained(small_files, steps=["index"])["index"]
    assert first.state == "done"
    small_files.sql("ALTER TABLE {t} SET TBLPROPERTIES ('some' = 'property')")
    assert maintained(small_files, steps=["index"])["index"].state == "nothing to do"
    small_files.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{INTERVAL}' = '1')")
    due = maintained(small_files, steps=["index"], dry_run=True)["index"]
    assert due.state == "due", "a checkpoint is newer than the index"
    assert due.facts["version"] == load_snapshot(open_store(small_files.root)).version
    small_files.sql("DELETE FROM {t} WHERE id = 9")
    assert maintained(small_files, steps=["index"])["index"].state == "done"


def test_a_session_keeps_its_settings(small_files: SparkTable, spark: SparkSession) -> None:
    name = "spark.databricks.delta.optimize.maxFileSize"
    with with_setting(spark, name, "12345"):
        maintained(small_files, steps=["optimize"])
        assert spark.conf.get(name) == "12345"
    assert spark.conf.get("spark.databricks.delta.optimize.minFileSize", None) is None
