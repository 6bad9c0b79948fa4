"""Streams into time buckets: what is new each time, nothing twice, whatever breaks in between."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable, InputError, UnknownColumnError
from delta_sidecar.pipeline.ingest_job import IngestSummary, ingest
from delta_sidecar.pipeline.streaming import await_end, ingest_stream
from tests.cli.running import assert_refused, invoke
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


def land(folder: Path, name: str, *times: str | None, **more: object) -> None:
    lines = [json.dumps({"ts": text, "id": n, **more}) for n, text in enumerate(times)]
    (folder / f"{name}.json").write_text("\n".join(lines) + "\n")


def run(table: SparkTable, landing: Path, **options: Any) -> list[IngestSummary]:
    """All that is there, to the end."""
    done: list[IngestSummary] = []
    query = ingest_stream(
        landing, table.root, "ts", landing.parent / "checkpoint", spark=table.spark, on_batch=done.append, **options
    )
    await_end(query)
    return done


def test_each_run_takes_what_is_new(table: SparkTable, landing: Path) -> None:
    land(landing, "a", "2026-02-10T23:45:00Z", "2026-02-11T00:15:00Z", None)
    (first,) = run(table, landing)
    assert (first.rows, first.files, first.null_bucket_rows, first.version) == (3, 3, 1, 1)
    land(landing, "b", "2026-02-10T23:50:00Z")
    os.utime(landing / "b.json", (10**9, 10**9))  # however old it is
    (second,) = run(table, landing)
    assert (second.rows, second.version, second.skipped_as_replayed) == (1, 2, False)
    assert run(table, landing) == []
    table.check(["ts >= TIMESTAMP'2026-02-11 00:00:00'"])
    assert table.frame().count() == 4


def test_a_batch_run_again_after_a_crash_adds_nothing(table: SparkTable, landing: Path) -> None:
    """The batch was committed, but Spark had not yet written down that it was."""
    land(landing, "a", "2026-02-10T23:45:00Z")
    run(table, landing)
    land(landing, "b", "2026-02-10T23:50:00Z", "2026-02-10T23:51:00Z")
    run(table, landing)
    (landing.parent / "checkpoint" / "commits" / "1").unlink()
    land(landing, "c", "2026-02-10T23:52:00Z")
    again = run(table, landing)
    assert [(done.rows, done.skipped_as_replayed) for done in again] == [(0, True), (1, False)]
    assert table.frame().count() == 4


def test_a_new_checkpoint_is_a_new_count(table: SparkTable, landing: Path) -> None:
    """Its batches are numbered from 0 again, and must not be taken for those of the old one."""
    land(landing, "a", "2026-02-10T23:45:00Z")
    run(table, landing)
    (landing.parent / "checkpoint").rename(landing.parent / "old")
    (again,) = run(table, landing)
    assert (again.rows, again.skipped_as_replayed) == (1, False)


def test_an_application_has_a_count_for_each_checkpoint(table: SparkTable, landing: Path) -> None:
    """A file that is new to batch 0 of another checkpoint is not taken for one of batch 0 of the old one."""
    land(landing, "a", "2026-02-10T23:45:00Z")
    run(table, landing, app_id="mine")
    query = json.loads((landing.parent / "checkpoint" / "metadata").read_text())["id"]
    assert DeltaTable(str(table.root)).transaction_version(f"mine-{query}") == 0
    (landing.parent / "checkpoint").rename(landing.parent / "old")
    (landing / "a.json").unlink()
    land(landing, "b", "2026-02-10T23:46:00Z")
    (again,) = run(table, landing, app_id="mine")
    assert (again.rows, again.skipped_as_replayed) == (1, False)


def test_rows_as_kafka_has_them_until_stopped(table: SparkTable, landing: Path) -> None:
    land(landing, "a", "2026-02-10T23:45:00Z")
    files = table.spark.readStream.schema("ts STRING, id LONG").json(str(landing))
    kafka = files.selectExpr(
        "CAST(ts AS BINARY) AS key", "CAST(ts AS BINARY) AS value", "'events' AS topic", "0 AS partition",
        "id AS offset", "CAST(ts AS TIMESTAMP) AS timestamp", "0 AS timestampType",
    )  # fmt: skip
    done: list[IngestSummary] = []
    query = ingest_stream(
        kafka, table.root, "timestamp", landing.parent / "checkpoint", available_now=False,
        processing_time="100 milliseconds", bucket="day", on_batch=done.append,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not done and time.monotonic() < deadline:
        time.sleep(0.1)
    land(landing, "b", "2026-02-11T00:15:00Z")
    await_end(query, lambda: len(done) >= 2 or time.monotonic() > deadline)
    assert not query.isActive
    assert [summary.rows for summary in done] == [1, 1]
    rows = table.frame().selectExpr("CAST(value AS STRING) AS v", "_event_day AS d").collect()
    assert {(row.v, row.d) for row in rows} == {
        ("2026-02-10T23:45:00Z", "20260210"),
        ("2026-02-11T00:15:00Z", "20260211"),
    }


def test_a_delta_table_is_followed(table: SparkTable, tmp_path: Path) -> None:
    source = SparkTable(table.spark, tmp_path / "source")
    source.sql(
        "CREATE TABLE {t} (ts TIMESTAMP, id INT) USING delta", "INSERT INTO {t} VALUES (TIMESTAMP'2026-02-10', 1)"
    )
    for expected in (1, 2):
        query = ingest_stream(source.root, table.root, "ts", tmp_path / "checkpoint", spark=table.spark)
        await_end(query)
        assert table.frame().count() == expected
        source.sql("INSERT INTO {t} VALUES (TIMESTAMP'2026-02-11', 2)")


def test_what_is_wrong_is_said_at_once_or_by_its_batch(table: SparkTable, landing: Path) -> None:
    land(landing, "a", "2026-02-10T23:45:00Z")
    with pytest.raises(UnknownColumnError, match=r"'when' in .*; its columns: ts, id$"):
        await_end(ingest_stream(landing, table.root, "when", landing.parent / "c1", spark=table.spark))
    with pytest.raises(InputError, match="not a stream"):
        ingest_stream(table.spark.range(1), table.root, "id", landing.parent / "c2")
    run(table, landing)
    with pytest.raises(InputError, match="not bucketed by _event_day"):
        ingest_stream(landing, table.root, "ts", landing.parent / "c3", spark=table.spark, bucket="day")
    land(landing, "b", "2026-02-10T23:46:00Z", extra=7)
    with pytest.raises(InputError, match="the contract lacks: extra; pass --merge-schema"):
        run(table, landing)
    assert table.frame().count() == 1
    assert [done.rows for done in run(table, landing, merge_schema=True)] == [1]


def test_a_stream_begins_on_an_empty_directory_and_takes_what_changes(table: SparkTable, landing: Path) -> None:
    assert run(table, landing, source_format="json") == []
    land(landing, "a", "2026-02-10T23:45:00Z")
    (landing / "later" / "k=7").mkdir(parents=True)
    assert [done.rows for done in run(table, landing, source_format="json")] == [1]
    land(landing / "later" / "k=7", "b", "2026-02-10T23:46:00Z", meta={"new": 1})
    options = {"source_format": "json", "bad_rows": landing.parent / "bad"}
    with pytest.raises(InputError, match="the contract lacks: k"):
        run(table, landing, **options)
    assert [done.rows for done in run(table, landing, rescue=True, **options)] == [1]
    (landing / "c.json").write_text('{"ts": "2026-02-10T23:47:00Z", "id": 5, "meta": {"new": 2}}\n{"ts": "?"}\n')
    (done,) = run(table, landing, merge_schema=True, **options)
    assert (done.rows, done.bad_rows) == (1, 1)
    rows = table.frame().orderBy("ts").collect()
    assert [json.loads(row._rescued) if row._rescued else None for row in rows] == [
        None,
        {"meta": {"new": 1}, "k": 7},
        None,
    ]
    assert [row.meta and row.meta.new for row in rows] == [None, None, 2]


def test_a_stream_at_work_meets_a_new_column(table: SparkTable, landing: Path) -> None:
    """It stops by name; begun again it takes the column, and the next one. The old files are not read again."""
    done: list[IngestSummary] = []

    def follow(**options: Any) -> StreamingQuery:
        return ingest_stream(
            landing, table.root, "ts", landing.parent / "checkpoint", spark=table.spark, available_now=False,
            processing_time="100 milliseconds", on_batch=done.append, **options,
        )  # fmt: skip

    def wait_for(batches: int) -> None:
        deadline = time.monotonic() + 120
        while len(done) < batches and query.isActive and time.monotonic() < deadline:
            time.sleep(0.1)

    land(landing, "a", "2026-02-10T23:45:00Z")
    query = follow()
    wait_for(1)
    land(landing, "b", "2026-02-10T23:46:00Z", new=1)
    with pytest.raises(InputError, match="columns that the contract lacks: new; pass --merge-schema"):
        await_end(query)
    (landing / "a.json").write_text('it would stop the batch, and another column would be merged\n{"other": 1}\n')
    query = follow(merge_schema=True)
    wait_for(2)
    land(landing, "c", "2026-02-10T23:47:00Z", new=2, newer=3)
    await_end(query, lambda: len(done) >= 3 or not query.isActive)
    assert [summary.rows for summary in done] == [1, 1, 1]
    assert table.frame().columns == ["ts", "id", "_event_hour", "new", "newer"]
    found = table.frame().orderBy("ts").select("new", "newer").collect()
    assert [tuple(row) for row in found] == [(None, None), (1, None), (2, 3)]


def test_an_empty_parquet_file_is_nothing_to_a_stream(table: SparkTable, landing: Path) -> None:
    """A batch refuses it by name (test_ingest.py). Spark does not hand it to a stream."""
    pq.write_table(pa.table({"ts": ["2026-02-10"]}), landing / "a.parquet")
    (landing / "b.parquet").touch()
    assert [done.rows for done in run(table, landing)] == [1]


def test_the_command(spark: SparkSession, landing: Path) -> None:
    """On the session of this process; as a process of its own it is tested with the crash."""
    land(landing, "a", "2026-02-10T23:45:00Z", None)
    root = landing.parent / "t"
    order = ("ingest", landing, root, "--time-column", "ts")
    (done,) = invoke(*order, "--json", "--app-id", "x", "--batch-id", "3").objects
    assert (done["rows"], done["null_bucket_rows"], done["skipped_as_replayed"]) == (2, 1, False)
    text = invoke(*order, "--app-id", "x", "--batch-id", "3").out
    assert "skipped" in text
    stream = (*order, "--stream", "--checkpoint-location", landing.parent / "c", "--json")
    (batch,) = invoke(*stream).objects
    assert batch["rows"] == 2
    assert invoke(*stream).objects == []
    assert "without a time  1 row," in invoke(*order).out
    assert_refused(invoke("ingest", landing, root.parent / "u", "--time-column", "when"), "no column 'when'")
    assert spark.read.format("delta").load(str(root)).count() == 6
    assert ingest(landing, root, "ts", spark=spark).rows == 2, "the session lives on"
