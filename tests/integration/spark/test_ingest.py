"""Ingest with real Spark: buckets, files, sources; what it says of itself is what delta-spark says of the table."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import (
    DeltaTable,
    InputError,
    OptionError,
    SparkError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from delta_sidecar.pipeline.event_time import bucket_number, parsed_text
from delta_sidecar.pipeline.ingest_job import IngestSummary, ingest
from delta_sidecar.values.bucket_columns import GRANULARITIES, TIME_TYPES, TimeType
from tests.integration.servers import WORKER_DAEMON
from tests.integration.spark.oracle import SparkTable, with_setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIDNIGHT = "TIMESTAMP'2026-02-10 23:45:00Z' + make_dt_interval(0, 0, 0, id * 60)"
EVENTS = f"SELECT {MIDNIGHT} AS ts, id, id / 3 AS v, concat('n', id) AS s FROM range(0, 31)"
"""A minute apart, from a quarter to midnight to a quarter past."""


def files_by_bucket(table: SparkTable, column: str = "_event_hour") -> dict[str | None, int]:
    """Files that hold each bucket, as Spark tells it, and that no file holds two."""
    rows = table.spark.sql(
        f"SELECT input_file_name() AS file, collect_set(coalesce({column}, 'null')) AS buckets "
        f"FROM {table.name} GROUP BY 1"
    ).collect()
    assert all(len(row.buckets) == 1 for row in rows)
    return Counter(row.buckets[0] if row.buckets[0] != "null" else None for row in rows)


def agrees(table: SparkTable, done: IngestSummary, before: int = 0) -> None:
    """The summary is what Spark says of the commit and of the table."""
    detail = table.spark.sql(f"DESCRIBE DETAIL {table.name}").first()
    newest = table.spark.sql(f"DESCRIBE HISTORY {table.name} LIMIT 1").first()
    assert detail is not None
    assert newest is not None
    assert detail.numFiles == before + done.files
    assert detail.partitionColumns == ["_event_hour"]
    assert newest.version == done.version
    metrics = newest.operationMetrics
    told = (metrics["numOutputRows"], metrics["numFiles"], metrics["numOutputBytes"])
    assert told == (str(done.rows), str(done.files), str(done.bytes))


def test_a_quarter_to_midnight_to_a_quarter_past_is_two_buckets(table: SparkTable) -> None:
    steps: list[str] = []
    done = ingest(table.spark.sql(EVENTS), table.root, "ts", on_progress=steps.append)
    assert (done.rows, done.null_bucket_rows, done.files, done.buckets, done.version) == (31, 0, 2, 2, 1)
    assert not done.skipped_as_replayed
    assert files_by_bucket(table) == {"2026021023": 1, "2026021100": 1}
    agrees(table, done)
    assert steps == ["counting rows", "creating the table", "writing 31 rows into 2 buckets"]
    ours = table.check(["ts >= TIMESTAMP'2026-02-11 00:00:00'"])
    assert len(ours.file_uris(predicate="ts >= TIMESTAMP'2026-02-11 00:00:00Z'")) == 1


def python_workers() -> set[int]:
    """The processes that Spark runs Python in, on this machine, below this process."""
    workers = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if WORKER_DAEMON in process.cmdline():
                workers.add(process.pid)
    return workers


def test_a_batch_of_text_ends_no_python_worker_early(table: SparkTable, tmp_path: Path) -> None:
    """A worker that is stopped in the middle of its lines is started again by the next job, with all its imports."""
    rows = "".join(f'{{"ts": "2026-02-10T23:45:00.{n:06}Z", "id": {n}}}\n' for n in range(30_000))
    (tmp_path / "in.json").write_text(rows)
    ingest(tmp_path / "in.json", tmp_path / "warm", "ts", spark=table.spark)
    before = python_workers()
    limit = table.spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
    done = ingest(tmp_path / "in.json", table.root, "ts", spark=table.spark)
    assert done.rows == 30_000
    assert before
    assert python_workers() == before
    assert table.spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == limit


def test_daylight_saving_changes_nothing(table: SparkTable) -> None:
    """The hours in which clocks are set back and forth, from a session in such a zone."""
    source = (
        "SELECT explode(sequence(TIMESTAMP'2026-10-24 22:00:00Z', TIMESTAMP'2026-10-25 04:00:00Z', "
        "INTERVAL 30 MINUTES)) AS ts UNION ALL SELECT explode(sequence(TIMESTAMP'2026-03-28 22:00:00Z', "
        "TIMESTAMP'2026-03-29 04:00:00Z', INTERVAL 30 MINUTES))"
    )
    with with_setting(table.spark, "spark.sql.session.timeZone", "Europe/Berlin"):
        done = ingest(table.spark.sql(source), table.root, "ts")
    wrong = table.frame().where("_event_hour != date_format(ts, 'yyyyMMddHH') OR _event_hour IS NULL")
    assert wrong.count() == 0
    assert done.buckets == done.files == 14
    agrees(table, done)


@pytest.mark.parametrize("time_type", TIME_TYPES)
def test_numbers_of_buckets_follow_their_texts(spark: SparkSession, time_type: TimeType) -> None:
    """The layout deals rows by number: two rows have one number exactly if they have one bucket."""
    from delta_sidecar.values.bucket_columns import bucket_expression

    times = f"explode(array({time_type}'1969-12-30 22:58:57.5', {time_type}'2024-02-28 23:59:59')) AS start"
    frame = spark.sql(f"SELECT {times}, n FROM (SELECT explode(sequence(0, 200)) AS n)")
    for granularity in GRANULARITIES:
        step = {"month": 86400 * 9, "day": 7200, "hour": 599, "minute": 13, "second": 0.4}[granularity]
        row = frame.selectExpr(f"start + make_dt_interval(0, 0, 0, n * {step}) AS ts").selectExpr(
            f"{bucket_number('ts', granularity, time_type)} AS number",
            f"{bucket_expression('ts', granularity, time_type)} AS text",
        )
        pairs = sorted({(r.number, r.text) for r in row.collect()})
        assert len(pairs) == len({number for number, _ in pairs}) == len({text for _, text in pairs}) > 2
        assert [text for _, text in pairs] == sorted(text for _, text in pairs)
        first = [number for number, text in pairs if text < "2000"]
        assert [b - a for a, b in pairwise(first)] == [1] * (len(first) - 1)


def test_late_data_goes_to_its_own_bucket(table: SparkTable) -> None:
    ingest(table.spark.sql(EVENTS), table.root, "ts")
    late = table.spark.sql("SELECT TIMESTAMP'2026-02-10 23:01:00Z' AS ts, 99L AS id, 1D AS v, 'late' AS s")
    done = ingest(late, table.root, "ts")
    assert (done.rows, done.files, done.buckets, done.version) == (1, 1, 1, 2)
    assert files_by_bucket(table) == {"2026021023": 2, "2026021100": 1}
    agrees(table, done, before=2)


TEXTS = {
    "2026-02-10T23:45:00Z": "2026-02-10 23:45:00",
    "2026-02-10 23:45:00": "2026-02-10 23:45:00",
    " 2026-02-10 23:45:00.25 ": "2026-02-10 23:45:00.25",
    "2026-02-10T23:45:00.123456+01:00": "2026-02-10 22:45:00.123456",
    "2026-02-10 23:45:00 America/New_York": "2026-02-11 04:45:00",
    "2026-02-10 23:45": "2026-02-10 23:45:00",
    "2026-02-10T23:45Z": "2026-02-10 23:45:00",
    "2026-02-10T23:45 -05:30": "2026-02-11 05:15:00",
    "2026-02-10": "2026-02-10 00:00:00",
    "1969-12-31T23:59:59.5Z": "1969-12-31 23:59:59.5",
    "2026-2-1": "2026-02-01 00:00:00",
    "rubbish": None,
    "": None,
    "12:30:00": None,
    "now": None,
    "2026": None,
    "1770753600": None,
    "2026-02-30": None,
    "2026-02-10T25:00:00Z": None,
    "2026-02-30T23:45:00Z": None,
    "2026-02-10T23:45:00+25:00": None,
    "2026-02-10 23:45:00.1-08:00": "2026-02-11 07:45:00.1",
    "2026-02-10T23:45:00Z and more": None,
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_text_is_parsed_in_utc_whatever_the_session(spark: SparkSession, zone: str) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "s STRING")
    with with_setting(spark, "spark.sql.session.timeZone", zone):
        found = frame.selectExpr("s", f"unix_micros({parsed_text('s')}) AS t").collect()
    assert {row.s: None if row.t is None else text_of(row.t) for row in found} == TEXTS


def text_of(micros: int) -> str:
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    return moment.isoformat(" ").rstrip("0").rstrip(".") if moment.microsecond else moment.isoformat(" ")


def test_times_that_are_none_are_put_aside_or_refused(table: SparkTable, tmp_path: Path) -> None:
    rows = [(text, n) for n, text in enumerate([*TEXTS, None])]
    frame = table.spark.createDataFrame(rows, "ts STRING, id INT")
    with pytest.raises(InputError, match=r"10 records are bad.*ts is not a time.*--bad-rows"):
        ingest(frame, table.root, "ts")
    assert not table.root.exists()
    done = ingest(frame, table.root, "ts", bad_rows=tmp_path / "bad")
    bad = [text for text, time in TEXTS.items() if time is None and text]
    assert (done.rows, done.null_bucket_rows, done.bad_rows) == (len(rows) - len(bad), 2, len(bad))
    assert files_by_bucket(table)[None] == 1
    agrees(table, done)
    aside = table.spark.read.format("delta").load(str(tmp_path / "bad")).collect()
    assert sorted(json.loads(row.raw)["ts"] for row in aside) == sorted(bad)
    assert {row.file for row in aside} == {None}
    for row in aside:
        asks = json.loads(row.raw)["ts"].isdigit()
        assert row.reason.startswith("ts is a number; name its unit" if asks else "ts is not a time")


def test_bad_rows_of_a_batch_are_written_once(
    table: SparkTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from delta_sidecar.pipeline import ingest_job as module

    (tmp_path / "in.json").write_text('{"ts": "2026-02-10", "id": 1}\n{"ts": "?"}\n{"id"\n')

    def run(root: Path) -> IngestSummary:
        options = {"bad_rows": tmp_path / "bad", "app_id": "a", "batch_id": 0}
        return ingest(tmp_path / "in.json", root, "ts", spark=table.spark, **options)  # type: ignore[arg-type]

    def raws() -> list[str]:
        return sorted(row.raw for row in table.spark.read.format("delta").load(str(tmp_path / "bad")).collect())

    def dies(*_: object) -> bool:
        raise RuntimeError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(module, "_write", dies)
        with pytest.raises(RuntimeError, match="gone"):
            run(table.root)
    assert raws() == ['{"id"', '{"ts": "?"}']
    assert [run(table.root).skipped_as_replayed for _ in range(2)] == [False, True]
    assert raws() == ['{"id"', '{"ts": "?"}']
    run(tmp_path / "other")
    assert len(raws()) == 4, "another table's batch of the same number is another batch"


def test_a_record_that_names_a_new_column_twice_is_a_bad_row(table: SparkTable, tmp_path: Path) -> None:
    """It is one in every pass: while the contract grows, and while the rows are written."""
    (tmp_path / "a.json").write_text('{"ts": "2026-02-10"}\n')
    ingest(tmp_path / "a.json", table.root, "ts", spark=table.spark)
    (tmp_path / "b.json").write_text('{"ts": "2026-02-10", "new": 1, "New": 2}\n{"ts": "2026-02-10", "new": 3}\n')
    done = ingest(
        tmp_path / "b.json", table.root, "ts", spark=table.spark, merge_schema=True, bad_rows=tmp_path / "bad"
    )
    assert (done.rows, done.null_bucket_rows, done.bad_rows) == (1, 0, 1)


def test_a_schema_may_add_columns_and_directories_are_times_in_utc(table: SparkTable, tmp_path: Path) -> None:
    folder = tmp_path / "landing" / "day=2026-02-10"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id\n1\n")
    with with_setting(table.spark, "spark.sql.session.timeZone", "Europe/Berlin"):
        for schema in (None, "id BIGINT, day STRING, extra STRING"):
            ingest(tmp_path / "landing", table.root, "day", spark=table.spark, schema=schema, merge_schema=True)
    assert {(row._event_hour, row.extra) for row in table.frame().collect()} == {("2026021000", None)}


def test_names_that_ingest_keeps_for_itself_are_refused(table: SparkTable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="__RAW"):
        ingest(table.spark.sql(EVENTS).selectExpr("*", "1 AS __RAW"), table.root, "ts")
    (tmp_path / "in.json").write_text('{"ts": "2026-02-10", "__left": 1}\n')
    with pytest.raises(InputError, match="__left"):
        ingest(tmp_path / "in.json", table.root, "ts", spark=table.spark)


def test_times_without_zone(table: SparkTable) -> None:
    frame = table.spark.sql(EVENTS).selectExpr("CAST(ts AS TIMESTAMP_NTZ) AS ts", "id")
    done = ingest(frame, table.root, "ts", bucket="minute")
    assert done.buckets == done.files == 31
    text = table.spark.createDataFrame([("2026-02-10 23:45:00", 1), ("2026-02-10T23:45:00Z", 2)], "ts STRING, id LONG")
    with pytest.raises(InputError, match="ts is not a time"):
        ingest(text, table.root, "ts", bucket="minute")
    again = ingest(text.where("id = 1"), table.root, "ts", bucket="minute")
    assert again.rows == 1, "a zone has no place in a time without one"
    assert files_by_bucket(table, "_event_minute")["202602102345"] == 2


def wide_events(spark: SparkSession, rows: int) -> DataFrame:
    """Rows of about 40 bytes that do not compress, most of them in one hour."""
    return spark.range(0, rows, 1, 3).selectExpr(
        "timestamp_micros(1770764400000000 + id * 1000 + CASE WHEN id % 10 = 0 THEN 3600000000 ELSE 0 END) AS ts",
        "id",
        "sha2(CAST(id AS STRING), 256) AS s",
        "map('k', id) AS m",
    )


def test_a_bucket_above_the_target_is_split_by_size(table: SparkTable) -> None:
    target = 450_000
    done = ingest(wide_events(table.spark, 30_000), table.root, "ts", target_file_size=target)
    files = files_by_bucket(table)
    assert files["2026021023"] == done.files - 1 >= 3
    assert files["2026021100"] == 1
    sizes = [f.size for f in DeltaTable(str(table.root)).file_infos(predicate="_event_hour = '2026021023'")]
    assert max(sizes) <= 1.3 * target
    assert min(sizes) >= 0.8 * max(sizes), "files of a bucket are of one size: none is a remainder"
    assert table.frame().count() == table.frame().select("id").distinct().count() == 30_000
    agrees(table, done)


def test_a_target_above_all_buckets_gives_one_file_each_and_none_never_splits(table: SparkTable) -> None:
    frame = wide_events(table.spark, 3_000)
    assert ingest(frame, table.root, "ts").files == 2
    steps: list[str] = []
    assert ingest(frame, table.root, "ts", target_file_size=None, on_progress=steps.append).files == 2
    assert "counting rows" not in steps
    assert files_by_bucket(table) == {"2026021023": 2, "2026021100": 2}


def test_many_buckets_in_few_tasks(table: SparkTable) -> None:
    frame = table.spark.sql("SELECT timestamp_seconds(1770764400 + id * 37) AS ts, id FROM range(0, 100)")
    done = ingest(frame, table.root, "ts", bucket="minute")
    assert done.buckets == done.files == len(files_by_bucket(table, "_event_minute"))
    assert done.rows == 100
    assert done.buckets > 60


def test_an_empty_batch_adds_nothing(table: SparkTable) -> None:
    done = ingest(table.spark.sql(EVENTS).limit(0), table.root, "ts", app_id="a", batch_id=0)
    assert (done.rows, done.files, done.version, done.skipped_as_replayed) == (0, 0, 0, False)
    assert DeltaTable(str(table.root)).version() == 0
    assert ingest(table.spark.sql(EVENTS), table.root, "ts", app_id="a", batch_id=0).rows == 31


def test_a_replayed_batch_adds_nothing(table: SparkTable) -> None:
    frame = table.spark.sql(EVENTS)
    first = ingest(frame, table.root, "ts", app_id="loader", batch_id=5)
    for replayed in (5, 4):
        again = ingest(frame, table.root, "ts", app_id="loader", batch_id=replayed)
        assert again.skipped_as_replayed
        assert (again.rows, again.files, again.version) == (0, 0, first.version)
    assert table.frame().count() == 31
    assert not ingest(frame, table.root, "ts", app_id="other", batch_id=5).skipped_as_replayed
    assert not ingest(frame, table.root, "ts", app_id="loader", batch_id=6).skipped_as_replayed
    assert table.frame().count() == 93


def test_a_batch_that_another_writer_committed_meanwhile_adds_nothing(
    table: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta itself looks again at the commit: our look at the log beforehand only saves work."""
    from delta_sidecar.pipeline import ingest_job as module

    frame = table.spark.sql(EVENTS)
    ingest(frame, table.root, "ts", app_id="loader", batch_id=1)
    monkeypatch.setattr(module, "_was_committed", lambda *_: False)
    again = ingest(frame, table.root, "ts", app_id="loader", batch_id=1)
    assert again.skipped_as_replayed
    assert table.frame().count() == 31


def test_new_columns_are_refused_by_name_or_merged(table: SparkTable) -> None:
    ingest(table.spark.sql(EVENTS), table.root, "ts")
    wider = table.spark.sql(EVENTS).selectExpr("*", "id AS extra", "named_struct('x', 1) AS nested")
    with pytest.raises(InputError, match=r"the contract lacks: extra, nested; pass --merge-schema"):
        ingest(wider, table.root, "ts")
    assert ingest(wider, table.root, "ts", merge_schema=True).rows == 31
    assert table.frame().columns == ["ts", "id", "v", "s", "_event_hour", "extra", "nested"]
    narrower = table.spark.sql(EVENTS).select("ts", "id")
    assert ingest(narrower, table.root, "ts").rows == 31
    with pytest.raises(InputError, match="v is string, but in the contract double"):
        ingest(table.spark.sql(EVENTS).selectExpr("ts", "CAST(v AS STRING) AS v"), table.root, "ts")
    assert table.frame().count() == 93


def test_a_bucket_column_in_the_source_is_made_anew(table: SparkTable, tmp_path: Path) -> None:
    frame = table.spark.sql(EVENTS).selectExpr("*", "'wrong' AS _event_hour")
    ingest(frame, table.root, "ts")
    assert set(files_by_bucket(table)) == {"2026021023", "2026021100"}
    again = SparkTable(table.spark, tmp_path / "by day")
    done = ingest(table.root, again.root, "ts", bucket="day", spark=table.spark)
    assert done.rows == 31
    assert files_by_bucket(again, "_event_day") == {"20260210": 1, "20260211": 1}


def test_odd_names_of_columns_and_places(spark: SparkSession, tmp_path: Path) -> None:
    table = SparkTable(spark, tmp_path / "a b%20c,d")
    frame = spark.sql(EVENTS).selectExpr("ts AS `event time`", "id AS `i,d`", "named_struct('x y', v) AS n")
    done = ingest(frame, table.root, "event time", bucket_column="the bucket")
    assert (done.rows, done.buckets, done.null_bucket_rows) == (31, 2, 0)
    table.check(["`event time` >= TIMESTAMP'2026-02-11 00:00:00'", "`the bucket` = '2026021023'"])


def test_what_cannot_be_ingested_says_why(table: SparkTable, tmp_path: Path) -> None:
    frame = table.spark.sql(EVENTS)
    with pytest.raises(UnknownColumnError, match="'when' in the DataFrame; its columns: ts, id, v, s"):
        ingest(frame, table.root, "when")
    with pytest.raises(InputError, match="id' of the DataFrame is bigint, not a time"):
        ingest(frame, table.root, "id")
    assert not table.root.exists()
    table.sql("CREATE TABLE {t} (ts TIMESTAMP) USING delta")
    with pytest.raises(InputError, match=r"has no bucket column.*new table"):
        ingest(frame, table.root, "ts")
    (tmp_path / "bad.json").write_text('{"ts": "2026-02-10", "v": 1}\nnot json\n')
    with pytest.raises(InputError, match=r"bad\.json line 2: Expecting value: not json; fix it") as caught:
        ingest(tmp_path / "bad.json", tmp_path / "t", "ts", spark=table.spark)
    assert "\n" not in str(caught.value)


ROWS = [{"ts": f"2026-02-10T{hour:02}:15:00Z", "id": hour, "zip": f"0{hour}", "v": hour / 4} for hour in range(20, 24)]


def write_source(spark: SparkSession, kind: str, folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "json":
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    else:
        schema = "ts STRING, id LONG, zip STRING, v DOUBLE"
        values = [tuple(row.values()) for row in rows]
        spark.createDataFrame(values, schema).write.format(kind).mode("append").save(str(folder))
    return folder


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "delta"])
def test_every_source(table: SparkTable, tmp_path: Path, kind: str) -> None:
    source = write_source(table.spark, kind, tmp_path / "source", ROWS)
    done = ingest(source, table.root, "ts", spark=table.spark)
    assert (done.rows, done.files, done.null_bucket_rows) == (4, 4, 0)
    agrees(table, done)
    found = sorted((row.id, row.v, row._event_hour) for row in table.frame().collect())
    assert found == [(hour, hour / 4, f"20260210{hour}") for hour in range(20, 24)]
    more = write_source(table.spark, kind, tmp_path / "more", [ROWS[0], {**ROWS[0], "ts": "gone"}])
    with pytest.raises(InputError, match=r"ts is not a time.*gone"):
        ingest(more, table.root, "ts", spark=table.spark, source_format=kind)
    again = ingest(more, table.root, "ts", spark=table.spark, bad_rows=tmp_path / "bad")
    assert (again.rows, again.bad_rows) == (1, 1)
    (aside,) = table.spark.read.format("delta").load(str(tmp_path / "bad")).collect()
    assert "gone" in aside.raw
    assert kind == "delta" or str(tmp_path / "more") in aside.file


def test_text_takes_the_types_of_the_table(table: SparkTable, tmp_path: Path) -> None:
    """A zip code stays text although it looks like a number, and a value that does not fit is an error."""
    table.spark.sql("SELECT 1").collect()
    frame = table.spark.createDataFrame([tuple(ROWS[0].values())], "ts STRING, id LONG, zip STRING, v DOUBLE")
    ingest(frame, table.root, "ts")
    source = write_source(table.spark, "csv", tmp_path / "source", ROWS)
    ingest(source, table.root, "ts", spark=table.spark)
    assert {row.zip for row in table.frame().collect()} == {"020", "021", "022", "023"}
    bad = write_source(table.spark, "csv", tmp_path / "bad", [{**ROWS[0], "id": "seven"}])
    with pytest.raises(InputError, match=r"id is bigint, not seven"):
        ingest(bad, table.root, "ts", spark=table.spark)
    extra = write_source(table.spark, "csv", tmp_path / "extra", [{**ROWS[0], "new": 7}])
    with pytest.raises(InputError, match="the contract lacks: new"):
        ingest(extra, table.root, "ts", spark=table.spark)
    assert ingest(extra, table.root, "ts", spark=table.spark, merge_schema=True).rows == 1
    assert dict(table.frame().dtypes)["new"] == "bigint"


def test_the_hook_after_a_commit_and_the_index_after_a_checkpoint(table: SparkTable) -> None:
    versions: list[int] = []
    found = []
    for _ in range(3):
        done = ingest(
            table.spark.sql(EVENTS), table.root, "ts", after_commit=versions.append,
            table_properties={"delta.checkpointInterval": "2"},
        )  # fmt: skip
        found.append(done.indexed)
    assert versions == [1, 2, 3]
    assert found == [False, True, False]
    names = [path.name for path in (table.root / "_delta_log" / "_sidecars").iterdir()]
    assert [name for name in names if name.endswith(".manifest.json") or name == "v2.parquet"]
    assert ingest(table.spark.sql(EVENTS), table.root, "ts", index="never").indexed is False
    assert ingest(table.spark.sql(EVENTS), table.root, "ts", index="always").indexed is True
    table.check()


def test_an_index_that_fails_does_not_undo_the_batch(table: SparkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from delta_sidecar.pipeline import spark_build

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no room\nat all")

    monkeypatch.setattr(spark_build, "build_index", broken)
    steps: list[str] = []
    done = ingest(table.spark.sql(EVENTS), table.root, "ts", index="always", on_progress=steps.append)
    assert (done.rows, done.indexed) == (31, False)
    assert steps[-1] == "the batch is committed, but version 1 is not indexed: no room"


def test_others_read_it_as_any_table(table: SparkTable) -> None:
    import deltalake

    ingest(table.spark.sql(EVENTS), table.root, "ts")
    theirs = deltalake.DeltaTable(str(table.root))
    assert sorted(map(unquote, theirs.file_uris())) == sorted(DeltaTable(str(table.root)).file_uris())
    assert theirs.to_pyarrow_table().num_rows == 31


def test_a_delta_source_is_read_at_one_version(table: SparkTable, tmp_path: Path) -> None:
    """What is committed to it between the check and the write is of the next batch: nobody has looked at it."""
    source = SparkTable(table.spark, tmp_path / "source")
    source.sql("CREATE TABLE {t} (ts STRING, id INT) USING delta")
    source.sql("INSERT INTO {t} VALUES ('2026-02-10', 1), ('never', 2)")

    steps: list[str] = []

    def meanwhile(step: str) -> None:
        steps.append(step)
        if step == "writing 1 bad rows":
            source.sql("INSERT INTO {t} VALUES ('2026-02-10', 3), ('neither', 4)")

    aside = tmp_path / "aside"
    done = ingest(source.root, table.root, "ts", spark=table.spark, bad_rows=aside, on_progress=meanwhile)
    assert steps == ["counting rows", "writing 1 bad rows", "creating the table", "writing 1 rows into 1 buckets"]
    assert source.frame().count() == 4
    assert (done.rows, done.bad_rows) == (1, 1)
    assert [row.id for row in table.frame().collect()] == [1]
    assert ["never" in row.raw for row in table.spark.read.format("delta").load(str(aside)).collect()] == [True]


@pytest.mark.parametrize(
    "kind", ["VARCHAR(10)", "CHAR(5)", "ARRAY<VARCHAR(3)>", "STRUCT<a: CHAR(2)>", "MAP<STRING, CHAR(2)>"]
)
def test_a_length_of_text_is_refused(table: SparkTable, tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.json").write_text('{"ts":"2026-02-10T23:45:00Z","v":"abc"}')
    with pytest.raises(UnsupportedTypeError, match=r"column v with a (var)?char\(\d+\): write STRING"):
        ingest(tmp_path / "a.json", table.root, "ts", spark=table.spark, schema=f"ts TIMESTAMP, v {kind}")
    assert not table.root.exists()


def test_times_as_spark_and_pandas_write_them(table: SparkTable, tmp_path: Path) -> None:
    """INT96, which is Spark's default, at any depth; and the first nanosecond there is."""
    source = tmp_path / "source"
    source.mkdir()
    ends = [pd.Timestamp.min.value, pd.Timestamp.max.value, -1, 0]
    times = pa.array(ends, pa.int64()).cast(pa.timestamp("ns"))
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4]), times], ["n", "at"])
    pq.write_table(pa.table({"ts": times, "s": inner}), source / "plain.parquet")
    modern = pa.array([dt.datetime(2026, 2, 10, 23, 45, 0, 123456)] * 2, pa.timestamp("us"))
    lists = pa.ListArray.from_arrays([0, 1, 2], modern)
    nested = pa.table(
        {"ts": modern, "s": pa.StructArray.from_arrays([pa.array([1, 2]), modern], ["n", "at"]), "l": lists}
    )
    pq.write_table(nested, source / "old.parquet", use_deprecated_int96_timestamps=True)
    first = ingest(source / "plain.parquet", table.root, "ts", spark=table.spark, read_options={"nanoseconds": "cut"})
    rows = table.frame().selectExpr("CAST(ts AS STRING) AS ts", "CAST(s.at AS STRING) AS at", "s.n").collect()
    assert first.rows == 4
    expected = [
        "1677-09-21 00:12:43.145224",
        "2262-04-11 23:47:16.854775",
        "1969-12-31 23:59:59.999999",
        "1970-01-01 00:00:00",
    ]
    assert {row.n: (row.ts, row.at) for row in rows} == {n: (text, text) for n, text in enumerate(expected, 1)}
    other = SparkTable(table.spark, tmp_path / "other")
    ingest(source / "old.parquet", other.root, "ts", spark=table.spark)
    found = (
        other.frame().selectExpr("unix_micros(ts) AS t", "unix_micros(s.at) AS a", "unix_micros(l[0]) AS l").distinct()
    )
    micros = int(dt.datetime(2026, 2, 10, 23, 45, 0, 123456, dt.UTC).timestamp() * 1e6)
    assert [tuple(row) for row in found.collect()] == [(micros, micros, micros)]


def test_an_empty_parquet_file_is_refused(table: SparkTable, tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": ["2026-02-10"]}), tmp_path / "a b.parquet")
    (tmp_path / "c%20d.parquet").touch()
    with pytest.raises(InputError, match=r"c%20d.parquet is not a Parquet file: it is empty"):
        ingest(tmp_path, table.root, "ts", spark=table.spark)


def test_a_batch_of_a_number_with_other_bad_rows_is_refused(table: SparkTable, tmp_path: Path) -> None:
    source, aside = tmp_path / "x.json", tmp_path / "aside"
    good = '{"ts":"2026-02-10T23:45:00Z"}\n'
    source.write_text(good + "{broken")
    shared: dict[str, Any] = {"spark": table.spark, "bad_rows": aside, "app_id": "a", "batch_id": 1}
    ingest(source, table.root, "ts", **shared)
    shutil.rmtree(table.root)
    source.write_text(good + "{other broken")
    with pytest.raises(InputError, match="other bad rows than the 1 of this one"):
        ingest(source, table.root, "ts", **shared)
    source.write_text(good)
    with pytest.raises(InputError, match=r"no bad rows, but 1 bad row of it stand in .*aside"):
        ingest(source, table.root, "ts", **shared)
    assert not DeltaTable.is_deltatable(table.root)
    assert ingest(source, table.root, "ts", **shared | {"batch_id": 2}).rows == 1
    shutil.rmtree(table.root)
    source.write_text(good + "{broken")
    link = tmp_path / "link"
    table.root.mkdir()
    link.symlink_to(table.root)
    assert ingest(source, link, "ts", **shared).bad_rows == 1
    assert table.spark.read.format("delta").load(str(aside)).count() == 1


def test_digits_of_int96_are_cut_only_if_asked(table: SparkTable, tmp_path: Path) -> None:
    """The time column's always are; the check reads no file that Spark wrote, and no year is too far for it."""
    fine = pa.array([1001, 5_000], pa.timestamp("ns"))
    far = pa.array([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us"))
    coarse = pa.array([5_000, None], pa.timestamp("ns"))
    inner = {"s": pa.StructArray.from_arrays([fine], ["at"]), "l": pa.array([[1001], []], pa.list_(pa.timestamp("ns")))}
    source = tmp_path / "a.parquet"

    def written(**columns: pa.Array) -> None:
        pq.write_table(pa.table(columns), source, use_deprecated_int96_timestamps=True)

    for name, column in {"x": fine, **inner}.items():
        written(ts=fine, far=far, coarse=coarse, **{name: column})
        with pytest.raises(InputError, match=rf"a\.parquet: {name}\S* has digits beyond microseconds.*nanoseconds=cut"):
            ingest(source, table.root, "ts", spark=table.spark)
    assert not table.root.exists()
    assert ingest(source, table.root, "ts", spark=table.spark, read_options={"nanoseconds": "cut"}).rows == 2
    written(ts=fine, far=far, coarse=coarse)
    other = SparkTable(table.spark, tmp_path / "other")
    ingest(source, other.root, "ts", spark=table.spark)
    found = other.frame().selectExpr("unix_micros(ts)", "unix_micros(far)", "unix_micros(coarse)").orderBy("far")
    ends = [int(pa.scalar(value).cast(pa.int64()).as_py()) for value in far]
    assert [tuple(row) for row in found.collect()] == [(1, ends[0], 5), (5, ends[1], None)]


def test_the_schema_says_whether_the_time_has_a_zone(table: SparkTable, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ts": "2026-02-10T23:45:00+05:00"}\n{"ts": "2026-02-10T23:45:00"}')
    made = ingest(
        tmp_path / "a.json", table.root, "ts", spark=table.spark, schema="ts TIMESTAMP_NTZ", bad_rows=tmp_path / "bad"
    )
    assert (made.rows, made.bad_rows) == (1, 1), "a time with a zone is none without"
    assert DeltaTable(table.root).schema().to_arrow().field("ts").type == pa.timestamp("us")
    local = pa.table({"ts": pa.array([dt.datetime(2026, 2, 10, 23, 45)], pa.timestamp("us"))})
    pq.write_table(local, tmp_path / "b.parquet")
    ingest(tmp_path / "b.parquet", tmp_path / "t", "ts", spark=table.spark, schema="ts TIMESTAMP")
    assert DeltaTable(tmp_path / "t").schema().to_arrow().field("ts").type == pa.timestamp("us", "UTC")


def test_old_days_and_timestamps_do_not_depend_on_the_session(table: SparkTable, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ts": "1500-01-01T00:00:00Z", "d": "0001-01-01"}')
    legacy = {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
    with contextlib.ExitStack() as settings:
        for name, value in legacy.items():
            settings.enter_context(with_setting(table.spark, name, value))
        ingest(tmp_path / "a.json", table.root, "ts", spark=table.spark, schema="ts TIMESTAMP, d DATE")
    rows = DeltaTable(table.root).to_pyarrow_table(columns=["ts", "d"])
    assert DeltaTable(table.root).schema().to_arrow().field("ts").type == pa.timestamp("us", "UTC")
    assert rows["d"].cast(pa.int32()).to_pylist() == [-719_162]
    assert rows["ts"].cast(pa.int64()).to_pylist() == [-14_831_769_600_000_000]


def test_digits_that_cannot_be_kept_aside_are_named(table: SparkTable, tmp_path: Path) -> None:
    """A time of nanoseconds for a number, and no place for its last digits in what is rescued either."""
    (tmp_path / "a.json").write_text('{"ts": "2026-02-10", "n": 1}')
    ingest(tmp_path / "a.json", table.root, "ts", spark=table.spark)
    times = pa.array([1001], pa.timestamp("ns"))
    pq.write_table(pa.table({"ts": ["2026-02-10"], "n": times}), tmp_path / "b.parquet")
    with pytest.raises(SparkError, match="n has digits beyond microseconds"):
        ingest(tmp_path / "b.parquet", table.root, "ts", spark=table.spark, rescue=True)


def test_a_number_for_a_time_is_asked_what_it_counts(table: SparkTable, tmp_path: Path) -> None:
    ingest(table.spark.sql(EVENTS), table.root, "ts")
    for name, text in (("a.json", '{"ts": 1794880493489}'), ("b.csv", "id,ts\n1,1794880493489\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=r"ts is a number; name its unit .--time-format epoch-seconds, "):
            ingest(tmp_path / name, table.root, "ts", spark=table.spark)


def test_patterns_of_an_older_spark_are_refused(table: SparkTable, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ts":"10/02/1850"}')
    with (
        with_setting(table.spark, "spark.sql.legacy.timeParserPolicy", "LEGACY"),
        pytest.raises(OptionError, match=r"needs spark.sql.legacy.timeParserPolicy=CORRECTED"),
    ):
        ingest(tmp_path / "a.json", table.root, "ts", spark=table.spark, time_format="dd/MM/yyyy")
