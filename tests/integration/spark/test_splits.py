"""Splits built on Spark: every row once, by partition, out of files, and from a stream that dies between its steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import DeltaSidecarError, InputError, UnsupportedTypeError
from delta_sidecar.pipeline import await_end
from delta_sidecar.search import SearchTable, SplitsReport, build_splits, merge_splits, stream_splits
from tests.cli.running import invoke
from tests.search.lines import log_lines
from tests.search.test_building import CHOICES, ids, matching, scanned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = log_lines(1000)
    frame = spark.createDataFrame(rows).repartition(3)
    table = tmp_path / "logs"
    report = build_splits(frame, table, **CHOICES, rows_per_split=400)
    assert (report.rows, report.splits, report.engine) == (1000, 3, "spark")
    assert ids(table) == list(range(1000))
    assert matching(table, "checksum") == scanned(rows, "checksum")
    assert len(SearchTable(table).splits("ts < '2026-01-01T00:00:00Z'")) == 0
    again = build_splits(frame, table, mode="overwrite", rows_per_split=100)
    assert (again.removed, again.splits) == (3, 12)
    assert merge_splits(table).added == 1
    assert ids(table) == list(range(1000))


def test_a_partition_is_one_split(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(log_lines(300)).repartition(4)
    report = build_splits(frame, tmp_path / "logs", text=["body"], key=["id"], partition_columns=["host"])
    assert report.splits == 5
    assert ids(tmp_path / "logs") == list(range(300))
    assert [split.numRecords for split in SearchTable(tmp_path / "logs").splits("host = 'web-2'")] == [60]


def test_files_and_what_does_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "below").mkdir(parents=True)
    lines = [f"line {n}" for n in range(9)]
    pq.write_table(pa.table({"id": range(5), "body": lines[:5]}), files / "a.parquet")
    pq.write_table(pa.table({"body": lines[5:], "more": lines[5:], "id": range(5, 9)}), files / "below" / "b.parquet")
    report = build_splits(files, tmp_path / "logs", text=["body", "more"], key=["id"], spark=spark)
    assert (report.rows, report.engine) == (9, "spark")
    assert matching(tmp_path / "logs", "7") == [7]
    with pytest.raises(UnsupportedTypeError, match="only string columns"):
        build_splits(files, tmp_path / "other", text=["id"], spark=spark)
    pq.write_table(pa.table({"id": ["x"], "body": ["y"]}), files / "c.parquet")
    with pytest.raises(InputError, match="column id is bigint in some files and string in others"):
        build_splits(files, tmp_path / "other", text=["body"], spark=spark)
    with pytest.raises(InputError, match="not a stream"):
        stream_splits(spark.range(3), tmp_path / "other", tmp_path / "progress", key=["id"])


def test_a_stream_adds_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    landing, table = tmp_path / "landing", tmp_path / "logs"
    landing.mkdir()
    deaths = iter([True, False, True, False])

    def step(report: SplitsReport) -> None:
        """After the commit, and before Spark notes that the batch is done."""
        done.append(report)
        if next(deaths, False):
            raise RuntimeError("died after the commit")

    done: list[SplitsReport] = []
    for number in range(3):
        lines = "".join(json.dumps({"id": n, "body": f"line {n}"}) + "\n" for n in range(10 * number, 10 * number + 10))
        (landing / f"{number}.json").write_text(lines)
        for _ in range(3):
            stream = spark.readStream.schema("id long, body string").json(str(landing))
            query = stream_splits(stream, table, tmp_path / "progress", on_batch=step, text=["body"], key=["id"])
            try:
                await_end(query)
            except DeltaSidecarError:
                continue
            break
        assert ids(table) == list(range(10 * number + 10))
    assert [report.is_repeated for report in done].count(True) == 2
    assert SearchTable(table).version == 3


def test_a_stream_of_the_command(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet files, then a Delta table, into one search table each: what is new is added, and nothing twice."""
    landing, logs = tmp_path / "landing", tmp_path / "logs"
    (landing / "below").mkdir(parents=True)
    choices = ("--text", "body", "--key", "id", "--stream", "--checkpoint-location", tmp_path / "progress")
    pq.write_table(log_lines(30), landing / "a.parquet")
    done = invoke("splits", "build", landing, logs, *choices)
    assert "30 rows in 1 split" in done.out
    assert "0: nothing is new" in invoke("splits", "build", landing, logs, *choices).out
    pq.write_table(log_lines(10, first=30).select(["body", "id"]), landing / "below" / "b.parquet")
    assert [one["rows"] for one in invoke("splits", "build", landing, logs, *choices, "--json").objects] == [10]
    assert ids(logs) == list(range(40))
    events, found = tmp_path / "events", tmp_path / "found"
    choices = ("--key", "id", "--stream", "--checkpoint-location", tmp_path / "of-delta")
    spark.range(10).write.format("delta").save(str(events))
    assert "10 rows" in invoke("splits", "build", events, found, *choices).out
    spark.sql(f"DELETE FROM delta.`{events}` WHERE id = 7")
    broken = invoke("splits", "build", events, found, *choices)
    assert broken.code != 0
    assert "Traceback" not in broken.err
    assert ids(found) == list(range(10))


def test_what_a_frame_in_one_task_costs(spark: SparkSession, tmp_path: Path) -> None:
    """It is computed once: its rows need not be counted to divide them."""
    seen = spark.sparkContext.accumulator(0)

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    frame = spark.range(0, 100, 1, 1).mapInArrow(look, "id long")
    assert build_splits(frame, tmp_path / "logs", key=["id"], rows_per_split=40).splits == 3
    assert seen.value == 100
