"""`make demo`: a small real table, written by Spark, streamed by us, and every number checked against Spark's own.

The table is partitioned by a generated hour, has deletion vectors, a checkpoint and a tail behind it: all that a
reader can trip over, in half a minute.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delta_sidecar import DeltaTable  # noqa: E402
from delta_sidecar.values.bucket import bucket_expression  # noqa: E402
from tests.integration.servers import delta_jars, spark_session  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = ROOT / ".cache" / "demo"
TABLE = PLACE / "events"
HOURS, EVENTS_AN_HOUR, DEVICES = 24, 1200, 40
SINCE = "2026-02-10T20:00:00Z"
RECENT = f"ts >= '{SINCE}'"


def main() -> None:
    if not delta_jars():
        sys.exit("demo: Delta for Spark is not set up; run `make setup`")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    with step("Spark starts"), silenced_stderr():
        session = spark_session(PLACE / "spark")
        spark = session.__enter__()
    try:
        with step(f"Spark writes a table of a day, an hour a partition, into {TABLE.relative_to(ROOT)}"):
            write_table(spark)
        tell_story(spark)
    finally:
        session.__exit__(None, None, None)
    print('\nTry it:  .venv/bin/sidecar files .cache/demo/events --where "' + RECENT + '"')


@contextmanager
def step(title: str) -> Iterator[None]:
    print(f"· {title} … ", end="", flush=True)
    started = time.perf_counter()
    yield
    print(f"{time.perf_counter() - started:.1f} s")


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Spark greets on stderr before its log level counts."""
    import os

    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


# The table


def write_table(spark: SparkSession) -> None:
    create(spark)
    for first in range(0, HOURS - 6, 6):
        append(spark, first, 6)
    spark.sql(f"DELETE FROM delta.`{TABLE}` WHERE device = 7")
    set_property(spark, "delta.checkpointInterval", "1")
    set_property(spark, "delta.checkpointInterval", "100")
    for first in range(HOURS - 6, HOURS, 2):
        append(spark, first, 2)
    spark.sql(f"DELETE FROM delta.`{TABLE}` WHERE device = 3 AND ts >= TIMESTAMP'2026-02-10 22:00:00'")


def create(spark: SparkSession) -> None:
    from delta.tables import DeltaTable as SparkTable

    builder = SparkTable.create(spark).location(str(TABLE))
    builder = builder.addColumn("ts", "TIMESTAMP").addColumn("device", "INT").addColumn("value", "DOUBLE")
    builder = builder.addColumn("_event_hour", "STRING", generatedAlwaysAs=bucket_expression("ts", "hour"))
    builder.partitionedBy("_event_hour").property("delta.enableDeletionVectors", "true").execute()


def append(spark: SparkSession, first_hour: int, hours: int) -> None:
    events(spark, first_hour, hours).write.format("delta").mode("append").save(str(TABLE))


def events(spark: SparkSession, first_hour: int, hours: int) -> DataFrame:
    start, count = first_hour * EVENTS_AN_HOUR, hours * EVENTS_AN_HOUR
    return spark.range(start, start + count, numPartitions=1).selectExpr(
        f"TIMESTAMP'2026-02-10 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id * {3600 // EVENTS_AN_HOUR}) AS ts",
        f"CAST(id % {DEVICES} AS INT) AS device",
        "sin(id) AS value",
    )


def set_property(spark: SparkSession, name: str, value: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{TABLE}` SET TBLPROPERTIES ('{name}' = '{value}')")


# The story


def tell_story(spark: SparkSession) -> None:
    table = DeltaTable(TABLE)
    show_files(table, spark)
    show_pruning(table, spark)
    show_rows(table, spark)
    show_time_travel(table, spark)


def heading(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def check(what: str, ours: int, theirs: int) -> None:
    """Say both numbers; a demo that is wrong must not look right."""
    print(f"{what}: {ours:,} here, {theirs:,} by Spark")
    if ours != theirs:
        sys.exit(f"demo: the numbers differ for {what!r}; this is a bug")


def show_files(table: DeltaTable, spark: SparkSession) -> None:
    heading(f"Files of version {table.version()}, newest first (the first 5)")
    for file in table.file_infos(limit=5):
        deleted = f"{file.deletion_vector.cardinality} rows deleted" if file.deletion_vector else ""
        print(f"{file.size:>7,} bytes  hour {file.partition_values['_event_hour']}  {deleted}")
    with table.scan_files() as scan:
        found = sum(batch.num_rows for batch in scan)
        print(f"\n{scan.explain()}")
    check("live files", found, len(spark_rows(spark).inputFiles()))


def show_pruning(table: DeltaTable, spark: SparkSession) -> None:
    heading(f"Only what may match {RECENT}")
    with table.scan_files(predicate=RECENT) as scan:
        found = sum(batch.num_rows for batch in scan)
        print(scan.explain())
    hours = spark_rows(spark).where(f"ts >= TIMESTAMP'{SINCE}'").select("_event_hour").distinct().count()
    check("hours left", len(table.partitions([("_event_hour", ">=", "2026021020")])), hours)
    if found != hours:
        sys.exit(f"demo: {found} files were kept for {hours} hours; this is a bug")


def show_rows(table: DeltaTable, spark: SparkSession) -> None:
    heading("Rows, with deletion vectors applied")
    with table.to_batches(predicate=f"{RECENT} AND device < 10", columns=["ts", "device", "value"]) as rows:
        found = sum(batch.num_rows for batch in rows)
    theirs = spark_rows(spark).where(f"ts >= TIMESTAMP'{SINCE}' AND device < 10").count()
    check("rows of ten devices since then", found, theirs)
    theirs = spark_rows(spark).where("device = 7 AND ts < TIMESTAMP'2026-02-10T18:00:00Z'").count()
    check("rows of the deleted device", count(table, "device = 7 AND ts < '2026-02-10T18:00:00Z'"), theirs)
    check("all rows", table.count(), spark_rows(spark).count())


def count(table: DeltaTable, predicate: str) -> int:
    with table.to_batches(columns=["device"], predicate=predicate) as rows:
        return sum(batch.num_rows for batch in rows)


def show_time_travel(table: DeltaTable, spark: SparkSession) -> None:
    heading("The same table before its rows were deleted")
    table.load_as_version(3)
    theirs = spark.read.format("delta").option("versionAsOf", 3).load(str(TABLE)).count()
    check("rows of version 3", table.count(), theirs)
    for commit in DeltaTable(TABLE).history(3):
        print(f"version {commit['version']:>2}  {commit['operation']}")


def spark_rows(spark: SparkSession) -> DataFrame:
    return spark.read.format("delta").load(str(TABLE))


if __name__ == "__main__":
    main()
