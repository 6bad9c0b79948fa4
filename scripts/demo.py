"""`make demo`: the whole story on one machine, every number checked against Spark's own.

It generates two days of telemetry, ingests them in batches into hourly buckets on a local Spark, and builds an index at
each checkpoint; some rows arrive late, some are deleted. Then it queries the table, here and in `deltalake`, and asks
one question in DuckDB, Polars and Spark. Before this script `make demo` runs `benchmarks.effect`: the same two readers
on a log of a million files.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]

from delta_sidecar import DeltaTable, verify_index  # noqa: E402
from delta_sidecar.pipeline import IngestSummary, build_index, ingest  # noqa: E402
from delta_sidecar.pipeline.session import find_jars, spark_session  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = ROOT / ".cache" / "demo"
TABLE = PLACE / "telemetry"
HOURS, BATCH_HOURS, EVENTS_AN_HOUR, DEVICES = 48, 4, 1800, 60
SINCE = "2026-02-11T22:00:00Z"
RECENT = f"ts >= '{SINCE}'"
RECENT_BUCKETS = "_event_hour >= '2026021122'"
"""The same hours by the partition column: Delta Sidecar finds it from the time, other readers are told."""
CHECKPOINT_EVERY = 6


def main() -> None:
    if not find_jars():
        sys.exit("demo: Delta for Spark is not set up; run `make setup`")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    started = time.perf_counter()
    with spark_session(conf={"spark.local.dir": str(PLACE / "spark")}) as spark:
        print(f"· Spark {spark.version} started in {time.perf_counter() - started:.1f} s")
        fill(spark)
        change(spark)
        index()
        query(spark)
        engines(spark)
    print("\nTry:")
    print(f'  .venv/bin/sidecar explain .cache/demo/telemetry --where "{RECENT}"')
    print("  .venv/bin/sidecar verify .cache/demo/telemetry")
    print("  .venv/bin/sidecar ui .cache/demo/telemetry")


@contextmanager
def step(title: str) -> Iterator[None]:
    print(f"· {title} … ", end="", flush=True)
    started = time.perf_counter()
    yield
    print(f"{time.perf_counter() - started:.1f} s")


def heading(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def check(what: str, ours: int, theirs: int) -> None:
    """Print both numbers and stop if they differ: a demo that is wrong must not look right."""
    print(f"{what}: {ours:,} here, {theirs:,} in Spark")
    if ours != theirs:
        sys.exit(f"demo: the numbers differ for {what!r}; this is a bug")


# Writing


def fill(spark: SparkSession) -> None:
    heading(f"Ingest: {HOURS} hours of telemetry in {HOURS // BATCH_HOURS} batches, one bucket an hour")
    print(f"{'batch':>5} {'rows':>7} {'no time':>7} {'files':>5} {'buckets':>7} {'version':>7}  indexed")
    for number in range(HOURS // BATCH_HOURS):
        say(number, ingest_batch(spark, number))
    replayed = ingest_batch(spark, 0)
    if not replayed.skipped_as_replayed:
        sys.exit("demo: a batch that was sent twice was added twice; this is a bug")
    print("batch 0 was sent again, as after a crash: nothing was added")


def ingest_batch(spark: SparkSession, number: int) -> IngestSummary:
    return ingest(
        telemetry(spark, number),
        TABLE,
        time_column="ts",
        spark=spark,
        bucket="hour",
        bucket_column="_event_hour",
        app_id="demo",
        batch_id=number,
        table_properties={
            "delta.enableDeletionVectors": "true",
            "delta.checkpointInterval": str(CHECKPOINT_EVERY),
        },
    )


def say(number: int, done: IngestSummary) -> None:
    counts = f"{number:>5} {done.rows:>7,} {done.null_bucket_rows:>7} {done.files:>5} {done.buckets:>7}"
    print(f"{counts} {done.version:>7}  {'yes' if done.indexed else ''}".rstrip())


def telemetry(spark: SparkSession, batch: int) -> DataFrame:
    """Events of some hours; one in a hundred is a day late, one in a thousand has no time that can be read."""
    start, count = batch * BATCH_HOURS * EVENTS_AN_HOUR, BATCH_HOURS * EVENTS_AN_HOUR
    clock = f"TIMESTAMP'2026-02-10 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id * {3600 // EVENTS_AN_HOUR})"
    late = (
        f"{clock} - CASE WHEN id % 100 = 7 AND id > {24 * EVENTS_AN_HOUR} THEN INTERVAL 1 DAY ELSE INTERVAL 0 DAY END"
    )
    return spark.range(start, start + count, numPartitions=2).selectExpr(
        f"CASE WHEN id % 1000 = 500 THEN NULL ELSE {late} END AS ts",
        f"CAST(id % {DEVICES} AS INT) AS device",
        "sin(id) AS value",
    )


def change(spark: SparkSession) -> None:
    with step("delete the rows of one device (deletion vectors)"):
        spark.sql(f"DELETE FROM delta.`{TABLE}` WHERE device = 7")


def index() -> None:
    heading("Index")
    done = build_index(str(TABLE))
    print(
        f"version {done.version}, {done.mode}: {done.files:,} files in {done.parts} part(s), "
        f"{done.index_bytes:,} bytes, {done.seconds:.2f} s, without Spark"
    )
    with step("verify it against a simple replay of the log, file by file, bound by bound"):
        report = verify_index(str(TABLE))
    if not report.ok:
        sys.exit(f"demo: the index is wrong: {report.problems[0]}; this is a bug")


# Reading


def query(spark: SparkSession) -> None:
    heading(f"Query: {RECENT}")
    table = DeltaTable(TABLE)
    with table.scan_files(predicate=RECENT) as scan:
        kept = sum(batch.num_rows for batch in scan)
        print(scan.explain())
    with table.scan_files() as scan:
        live = sum(batch.num_rows for batch in scan)
    print()
    if scan.metrics.tier != "index":
        sys.exit(f"demo: the index was not used ({scan.metrics.fallback_reason}); this is a bug")
    check("live files", live, len(spark_rows(spark).inputFiles()))
    theirs = spark_rows(spark).where(f"ts >= TIMESTAMP'{SINCE}'")
    check("files with matching rows", kept, theirs.selectExpr("input_file_name()").distinct().count())
    check("matching rows", count(table, RECENT), theirs.count())
    check("all rows", table.count(), spark_rows(spark).count())
    against_deltalake()


def against_deltalake() -> None:
    heading("The same table in deltalake (a small table: the gap grows with the number of files)")
    import deltalake

    ours, kept = timed(lambda: len(list(DeltaTable(TABLE).file_infos(predicate=RECENT))))
    first, _ = timed(lambda: next(iter(DeltaTable(TABLE).file_infos(limit=1))))
    theirs, found = timed(lambda: len(deltalake.DeltaTable(TABLE).file_uris(file_pruning_predicate=RECENT_BUCKETS)))
    print(f"first file   {first * 1000:6.1f} ms here")
    print(f"last hours   {ours * 1000:6.1f} ms here, {kept} files; {theirs * 1000:6.1f} ms deltalake, {found} files")
    if kept != found:
        sys.exit("demo: the numbers of files differ; this is a bug")


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """The quickest of five."""
    runs = []
    for _ in range(5):
        began = time.perf_counter()
        result = action()
        runs.append(time.perf_counter() - began)
    return min(runs), result


def count(table: DeltaTable, predicate: str) -> int:
    with table.to_batches(columns=["device"], predicate=predicate) as rows:
        return sum(batch.num_rows for batch in rows)


def spark_rows(spark: SparkSession) -> DataFrame:
    return spark.read.format("delta").load(str(TABLE))


# Engines

Answer = list[tuple[int, int, float]]
"""Device, number of rows, highest value; by device."""


@dataclass(frozen=True, slots=True)
class Way:
    """One engine, and what finds the files for it."""

    engine: str
    through: str
    ask: Callable[[], Answer]


def engines(spark: SparkSession) -> None:
    heading("The same question in DuckDB, Polars and Spark: rows and highest value of each device, last two hours")
    from delta_sidecar.engines.spark import register

    register(spark)
    for module in ("data.row_scan", "engines.dataset", "engines.duckdb", "engines.polars", "engines.polars_expr"):
        import_module(f"delta_sidecar.{module}")
    ways = [*duckdb_ways(), *polars_ways(), *spark_ways(spark)]
    table = DeltaTable(TABLE)
    live, kept = [Path(uri) for uri in table.file_uris()], len(table.file_uris(predicate=RECENT))
    answers = []
    print(f"{'engine':<8}{'through':<34}{'files opened':>12}{'first':>11}{'warm':>11}")
    for way in ways:
        first, answer, opened = watched(way.ask, live)
        warm, again = timed(way.ask)
        files = "not seen" if opened is None else f"{opened} of {len(live)}"
        print(f"{way.engine:<8}{way.through:<34}{files:>12}{first * 1000:>8.1f} ms{warm * 1000:>8.1f} ms")
        if way.through.startswith("Delta Sidecar") and opened not in (None, kept):
            sys.exit(f"demo: {way.engine} opened {opened} files, and {kept} may hold a matching row; this is a bug")
        answers += [answer, again]
    if any(answer != answers[0] for answer in answers):
        sys.exit("demo: the answers differ; this is a bug")
    rows = sum(count for _, count, _ in answers[0])
    print(f"Every way gives the same answer: {len(answers[0])} devices, {rows:,} rows.")
    print("Each time opens the table and answers; libraries are imported before. Warm is the quickest of five more")
    print("runs in this process. A small table: the gap grows with the number of files (`make bench-engines`).")


def duckdb_ways() -> list[Way]:
    import deltalake
    import duckdb

    connection = duckdb.connect()
    question = "SELECT device, count(*), max(value) FROM rows GROUP BY device ORDER BY device"

    def ours() -> Answer:
        rows = DeltaTable(TABLE).to_duckdb(connection, predicate=RECENT)
        return rows.query("rows", question).fetchall()

    def theirs() -> Answer:
        rows = deltalake.DeltaTable(TABLE).scan(["device", "value"], f"{RECENT_BUCKETS} AND {RECENT}")
        return connection.from_arrow(rows).query("rows", question).fetchall()

    return [Way("DuckDB", "Delta Sidecar: to_duckdb", ours), Way("DuckDB", "deltalake: scan", theirs)]


def polars_ways() -> list[Way]:
    import polars as pl

    def answer(rows: pl.LazyFrame) -> Answer:
        return rows.group_by("device").agg(pl.len(), pl.col("value").max()).sort("device").collect().rows()

    def ours() -> Answer:
        return answer(DeltaTable(TABLE).to_polars(RECENT))

    def theirs() -> Answer:
        recent = pl.col("_event_hour") >= "2026021122", pl.col("ts") >= datetime.fromisoformat(SINCE)
        return answer(pl.scan_delta(TABLE).filter(*recent))

    return [Way("Polars", "Delta Sidecar: to_polars", ours), Way("Polars", "deltalake: scan_delta", theirs)]


def spark_ways(spark: SparkSession) -> list[Way]:
    def answer(rows: DataFrame) -> Answer:
        found = rows.groupBy("device").agg({"*": "count", "value": "max"}).orderBy("device")
        return [(row["device"], row["count(1)"], row["max(value)"]) for row in found.collect()]

    def ours() -> Answer:
        return answer(spark.read.format("sidecar").option("predicate", RECENT).load(str(TABLE)))

    def theirs() -> Answer:
        return answer(spark_rows(spark).where(f"{RECENT_BUCKETS} AND ts >= TIMESTAMP'{SINCE}'"))

    return [Way("Spark", 'Delta Sidecar: format("sidecar")', ours), Way("Spark", 'Delta: format("delta")', theirs)]


def watched(ask: Callable[[], Answer], files: list[Path]) -> tuple[float, Answer, int | None]:
    """The time, the answer, and how many of the files were read: their access times tell, where the disk keeps them."""

    def forget(path: Path) -> None:
        os.utime(path, ns=(0, path.stat().st_mtime_ns))

    def was_read(path: Path) -> bool:
        return path.stat().st_atime_ns > 0

    forget(files[0])
    files[0].read_bytes()
    keeps_access_times = was_read(files[0])
    for path in files:
        forget(path)
    began = time.perf_counter()
    answer = ask()
    took = time.perf_counter() - began
    return took, answer, sum(map(was_read, files)) if keeps_access_times else None


if __name__ == "__main__":
    main()
