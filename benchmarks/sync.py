"""A sync of 1 % changed rows beside what one writes by hand: `python -m benchmarks.sync`.

By hand: Spark's feed without the rows before updates, a window that keeps the last change of each key, and a MERGE. The
third row merges changes that are ready-made, in a Parquet file: what is left if the feed costs nothing. Each run merges
into a fresh copy of the same target. Runs take turns, so that all meet the same machine; the median counts.

What is compared is the CPU time of Spark's JVM: on a small machine, wall time says more about its neighbours.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from delta_sidecar import DeltaTable
from delta_sidecar.lake import sync
from delta_sidecar.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOAL = 1.2
PROGRESS = Console(stderr=True, highlight=False)
MERGE = """MERGE INTO delta.`{target}` t USING {source} s ON t.id = s.id
    WHEN MATCHED AND s._change_type = 'delete' THEN DELETE
    WHEN MATCHED THEN UPDATE SET {updated}
    WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT ({columns}) VALUES ({values})"""


@dataclass(frozen=True, slots=True)
class Tables:
    """The source, a target that has its first version, and its changes ready-made."""

    source: Path
    base: Path
    ready: Path
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    way: str
    cpu: float
    wall: float


def made(spark: SparkSession, root: Path, rows: int) -> Tables:
    """All rows in one version; then 0.8 % updated, 0.1 % deleted, 0.1 % inserted in three."""
    source, base, ready = root / "source", root / "base", root / "ready"
    for path in (source, base, ready):
        shutil.rmtree(path, ignore_errors=True)
    spark.sql(
        f"CREATE TABLE delta.`{source}` (id BIGINT, device INT, ts TIMESTAMP, value DOUBLE, note STRING) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    columns = [
        "CAST(pmod(xxhash64(id), 5000) AS INT) AS device",
        "timestamp_seconds(1770681600 + id) AS ts",
        "CAST(pmod(xxhash64(id, 1), 100000) AS DOUBLE) / 7 AS value",
        "concat('status-', pmod(xxhash64(id, 2), 17)) AS note",
    ]
    for low, high in ((0, rows), (rows, rows + rows // 1000)):
        frame = spark.range(low, high, 1, 4 if low == 0 else 1).selectExpr("id", *columns)
        frame.write.format("delta").mode("append").save(str(source))
        if low == 0:
            start = DeltaTable(source).version() + 1
            sync(spark, source, base, key=["id"])
    spark.sql(f"UPDATE delta.`{source}` SET value = value + 1, note = 'changed' WHERE pmod(xxhash64(id, 3), 1000) < 8")
    spark.sql(f"DELETE FROM delta.`{source}` WHERE pmod(xxhash64(id, 4), 1000) = 0")
    end = DeltaTable(source).version()
    tables = Tables(source, base, ready, start, end)
    last_changes(spark, tables).coalesce(1).write.parquet(str(ready))
    return tables


def last_changes(spark: SparkSession, tables: Tables) -> DataFrame:
    """By hand: the last change of each key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", tables.start).option("endingVersion", tables.end).load(str(tables.source))
    window = Window.partitionBy("id").orderBy(f.desc("_commit_version"))
    latest = feed.where("_change_type <> 'update_preimage'").withColumn("_rank", f.row_number().over(window))
    return latest.where("_rank = 1").drop("_rank", "_commit_version", "_commit_timestamp")


def ours(spark: SparkSession, tables: Tables, target: Path) -> None:
    assert sync(spark, tables.source, target, key=["id"]).is_current


def by_hand(spark: SparkSession, tables: Tables, target: Path) -> None:
    merge(spark, last_changes(spark, tables), target)


def ready_made(spark: SparkSession, tables: Tables, target: Path) -> None:
    merge(spark, spark.read.parquet(str(tables.ready)), target)


def merge(spark: SparkSession, changes: DataFrame, target: Path) -> None:
    changes.createOrReplaceTempView("by_hand")
    names = [name for name in changes.columns if name != "_change_type"]
    spark.sql(
        MERGE.format(
            target=target,
            source="by_hand",
            updated=", ".join(f"{name} = s.{name}" for name in names),
            columns=", ".join(names),
            values=", ".join(f"s.{name}" for name in names),
        )
    ).collect()


WAYS: dict[str, Callable[[SparkSession, Tables, Path], None]] = {
    "feed, window, MERGE by hand": by_hand,
    "MERGE of ready-made changes": ready_made,
    "sidecar sync": ours,
}


def measured(spark: SparkSession, jvm: psutil.Process, tables: Tables, way: str, target: Path) -> Run:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(tables.base, target)
    cpu, wall = _cpu(jvm), time.perf_counter()
    WAYS[way](spark, tables, target)
    run = Run(way, _cpu(jvm) - cpu, time.perf_counter() - wall)
    counts = DeltaTable(tables.source).count(), DeltaTable(target).count()
    assert counts[0] == counts[1], f"{way}: {counts[1]:,} rows instead of {counts[0]:,}"
    shutil.rmtree(target)
    PROGRESS.print(f"{way}: {run.cpu:.1f} s of CPU, {run.wall:.1f} s", markup=False)
    return run


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def show(rows: int, runs: list[Run], out: Console) -> bool:
    """The table, and whether the goal was met."""
    table = Table(title=f"1 % of {rows:,} rows changed", title_justify="left")
    for column in ("", "JVM CPU s", "wall s", "CPU to by hand", "CPU to ready-made", "goal"):
        table.add_column(column, justify="left" if not column else "right")
    cpu = {way: statistics.median(run.cpu for run in runs if run.way == way) for way in WAYS}
    hand, ready, mine = cpu.values()
    for way in WAYS:
        wall = statistics.median(run.wall for run in runs if run.way == way)
        goal = f"≤ {GOAL} {'met' if mine / hand <= GOAL else 'MISS'}" if way == "sidecar sync" else ""
        ratios = (f"{cpu[way] / hand:.2f}", f"{cpu[way] / ready:.2f}")
        table.add_row(way, f"{cpu[way]:.1f}", f"{wall:.1f}", *ratios, goal)
    out.print(table)
    return mine / hand <= GOAL


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sync", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each; the median counts")
    parser.add_argument("--memory", default="3g", help="of Spark's driver")
    args = parser.parse_args()
    root = Path(os.environ.get("BENCH_DIR", Path(__file__).parent / ".tables")) / "sync"
    root.mkdir(parents=True, exist_ok=True)
    with spark_session(conf={"spark.driver.memory": args.memory}, app_name="delta-sidecar benchmark") as spark:
        jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
        PROGRESS.print("making the tables", markup=False)
        tables = made(spark, root, args.rows)
        for way in WAYS:
            measured(spark, jvm, tables, way, root / "warm")
        runs = [measured(spark, jvm, tables, way, root / "run") for _ in range(args.repeat) for way in WAYS]
        met = show(args.rows, runs, Console(width=None if sys.stdout.isatty() else 160))
    shutil.rmtree(root)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
