"""Ingest beside delta-spark's own partitioned write of the same rows: `python -m benchmarks.ingest`.

Ten million events over 48 hours, in the order of time and in none. The peer computes its bucket with `date_format` and
writes with `partitionBy`; a second row shows it with a `repartition` before. Runs take turns, so that all meet the same
machine; each writes a new table. The median counts.

JSON and CSV are measured with a tenth of the rows, in the order of time: both sides infer the schema from the files.
The peer drops what its schema lacks and rounds what does not fit; ours looks at every value: no goal stands beside it.
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

from rich.console import Console
from rich.table import Table

from delta_sidecar import DeltaTable
from delta_sidecar.pipeline.ingest_job import ingest
from delta_sidecar.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = 1_770_681_600_000_000
"""2026-02-10T00:00:00Z, in microseconds."""
GOAL = 1.1
PROGRESS = Console(stderr=True, highlight=False)
Writer = Callable[["DataFrame", Path], None]
TEXT_SHARE = 10
"""Text has this many times fewer rows than Parquet."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one way of writing cost and left behind."""

    name: str
    seconds: list[float]
    sizes: list[int]
    buckets: int

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def ours(frame: DataFrame, path: Path) -> None:
    ingest(frame, path, "ts", index="never")


def plain(frame: DataFrame, path: Path) -> None:
    """delta-spark's own partitioned write."""
    _bucketed(frame).write.format("delta").partitionBy("_event_hour").save(str(path))


def repartitioned(frame: DataFrame, path: Path) -> None:
    """The same after a shuffle by bucket: what many write by hand."""
    _bucketed(frame).repartition("_event_hour").write.format("delta").partitionBy("_event_hour").save(str(path))


def _bucketed(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.withColumn("_event_hour", f.date_format("ts", "yyyyMMddHH"))


WRITERS: dict[str, Writer] = {"delta-spark": plain, "delta-spark, repartitioned": repartitioned, "sidecar ingest": ours}


def source(spark: SparkSession, rows: int, hours: int, order: str, root: Path) -> DataFrame:
    """Events in Parquet, made once."""
    path = root / f"events-{rows}-{hours}-{order}"
    if not (path / "_SUCCESS").exists():
        PROGRESS.print(f"making {path}", markup=False)
        step = hours * 3_600_000_000 // rows
        place = "id" if order == "time" else f"pmod(id * 7919, {rows})"
        spark.range(0, rows, 1, 8).selectExpr(
            f"timestamp_micros({START} + {place} * {step}) AS ts",
            "id",
            "CAST(pmod(xxhash64(id), 5000) AS INT) AS device",
            "rand(1) AS temperature",
            "rand(2) * 100 AS humidity",
            "CAST(pmod(xxhash64(id, 1), 100000) AS BIGINT) AS counter",
            "concat('status-', pmod(xxhash64(id, 2), 17)) AS status",
        ).write.mode("overwrite").parquet(str(path))
    return spark.read.parquet(str(path))


def text_writers(spark: SparkSession, kind: str, landing: Path) -> dict[str, Writer]:
    """Spark's own reader and writer, and ours, from files of text to a table."""

    def theirs(_: DataFrame, path: Path) -> None:
        reader = spark.read.options(mode="FAILFAST", header="true", inferSchema="true")
        plain(reader.format(kind).load(str(landing)).selectExpr("* EXCEPT (ts)", "CAST(ts AS TIMESTAMP) AS ts"), path)

    def mine(_: DataFrame, path: Path) -> None:
        ingest(landing, path, "ts", spark=spark, source_format=kind, index="never")

    return {"delta-spark": theirs, "sidecar ingest": mine}


def landed(frame: DataFrame, kind: str, path: Path) -> Path:
    """The rows as files of text, made once."""
    if not (path / "_SUCCESS").exists():
        PROGRESS.print(f"making {path}", markup=False)
        frame.write.mode("overwrite").options(header="true").format(kind).save(str(path))
    return path


def measure(frame: DataFrame, name: str, path: Path, writers: dict[str, Writer]) -> Result:
    shutil.rmtree(path, ignore_errors=True)
    begun = time.perf_counter()
    writers[name](frame, path)
    seconds = time.perf_counter() - begun
    files = list(DeltaTable(str(path)).file_infos())
    buckets = {file.partition_values["_event_hour"] for file in files}
    shutil.rmtree(path)
    PROGRESS.print(f"{name}: {seconds:.1f} s, {len(files)} files", markup=False)
    return Result(name, [seconds], sorted(file.size for file in files), len(buckets))


def compare(frame: DataFrame, root: Path, repeat: int, writers: dict[str, Writer]) -> list[Result]:
    """Each writer once to warm up, then in turns."""
    for name in writers:
        measure(frame, name, root / "warm", writers)
    runs = [measure(frame, name, root / "run", writers) for _ in range(repeat) for name in writers]
    return [
        Result(name, [run.seconds[0] for run in runs if run.name == name], last.sizes, last.buckets)
        for name in writers
        if (last := next(run for run in reversed(runs) if run.name == name))
    ]


def show(title: str, results: list[Result], out: Console, goal_of_ratio: float | None) -> bool:
    """The table of one source, and whether the goals were met."""
    table = Table(title=title, title_justify="left")
    for column in ("", "seconds", "ratio", "goal", "files", "buckets", "bytes", "smallest", "median file", "largest"):
        table.add_column(column, justify="left" if not column else "right")
    peer, mine = results[0], results[-1]
    ratio = mine.median / peer.median
    for result in results:
        share = f"{result.median / peer.median:.2f}"
        goal = "" if result is not mine or goal_of_ratio is None else _met(ratio, goal_of_ratio)
        sizes = result.sizes
        table.add_row(
            result.name, f"{result.median:.1f}", share, goal, f"{len(sizes):,}", f"{result.buckets:,}",
            f"{sum(sizes):,}", f"{sizes[0]:,}", f"{statistics.median(sizes):,.0f}", f"{sizes[-1]:,}",
        )  # fmt: skip
    out.print(table)
    one_each = len(mine.sizes) == mine.buckets
    out.print(f"one file a bucket below the target size: {'met' if one_each else 'MISS'}")
    return one_each and (goal_of_ratio is None or ratio <= goal_of_ratio)


def _met(ratio: float, goal: float) -> str:
    return f"≤ {goal} {'met' if ratio <= goal else 'MISS'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--hours", type=int, default=48)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--order", choices=("time", "none", "both"), default="both")
    parser.add_argument("--sources", nargs="+", choices=("parquet", "json", "csv"), default=["parquet", "json", "csv"])
    parser.add_argument("--memory", default="4g", help="of Spark's driver")
    args = parser.parse_args()
    root = Path(os.environ.get("BENCH_DIR", Path(__file__).parent / ".tables")) / "ingest"
    root.mkdir(parents=True, exist_ok=True)
    met = True
    with spark_session(conf={"spark.driver.memory": args.memory}, app_name="delta-sidecar benchmark") as spark:
        out = Console(width=None if sys.stdout.isatty() else 160)
        orders = ("time", "none") if args.order == "both" else (args.order,)
        for order in orders if "parquet" in args.sources else ():
            frame = source(spark, args.rows, args.hours, order, root)
            title = f"{args.rows:,} rows of Parquet in {'the order of time' if order == 'time' else 'no order'}"
            met &= show(title, compare(frame, root, args.repeat, WRITERS), out, GOAL)
        rows = args.rows // TEXT_SHARE
        for kind in (kind for kind in args.sources if kind != "parquet"):
            frame = source(spark, rows, args.hours, "time", root)
            landing = landed(frame, kind, root / f"{kind}-{rows}-{args.hours}")
            results = compare(frame, root, args.repeat, text_writers(spark, kind, landing))
            met &= show(f"{rows:,} rows of {kind.upper()} in the order of time", results, out, None)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
