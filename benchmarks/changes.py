"""Our change reader beside Spark's feed, one commit at a time: `python -m benchmarks.changes --rows 1000000`.

Spark makes a table once; each of its commits changes that many rows in another way. Ours reads the changes of one
commit, all columns, in a fresh process (`change_reading.py`), twice: the second reading is the warm one. Its memory is
the peak of the whole process, interpreter and libraries included. Spark reads the same commit into its `noop` sink,
once to warm up, then some times more; it counts the rows, too, which must be as many as ours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.measure import ROOT
from delta_sidecar.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_GOAL, MEMORY_GOAL_MB = 1 / 3, 300
"""At most so much of Spark's time, and so many megabytes."""
PROGRESS = Console(stderr=True, highlight=False)
FILES = 4
"""That one insert writes."""
COLUMNS = (
    "id",
    "timestamp_micros(1770681600000000 + id * 172800) AS ts",
    "CAST(pmod(xxhash64(id), 5000) AS INT) AS device",
    "rand(1) AS temperature",
    "rand(2) * 100 AS humidity",
    "CAST(pmod(xxhash64(id, 1), 100000) AS BIGINT) AS counter",
    "concat('status-', pmod(xxhash64(id, 2), 17)) AS status",
)
PROPERTIES = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the table, and what it does to rows."""

    name: str
    version: int


COMMITS = (
    Commit("deletes by vectors", 2),
    Commit("removed files with vectors", 3),
    Commit("inserts", 4),
    Commit("updates (UPDATE, cdc files)", 5),
    Commit("updates (MERGE, cdc files)", 6),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading one commit took."""

    rows: int
    first: float
    warm: float
    cpu: float
    """Of the warm reading."""
    peak_mb: float
    over_imports_mb: float


def make_table(spark: SparkSession, rows: int, path: Path) -> None:
    """Twice as many rows; half of them deleted by vectors, the other half with their files; then as many inserts, and
    half of these updated twice, which gives each of them two changes."""
    PROGRESS.print(f"making {path}", markup=False)
    target = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {target} (id BIGINT, ts TIMESTAMP, device INT, temperature DOUBLE, humidity DOUBLE, "
        f"counter BIGINT, status STRING) USING delta TBLPROPERTIES ({PROPERTIES})"
    )
    _insert(spark, 2 * rows, path)
    spark.sql(f"DELETE FROM {target} WHERE id % 2 = 0")
    spark.sql(f"DELETE FROM {target} WHERE true")
    _insert(spark, rows, path)
    spark.sql(f"UPDATE {target} SET temperature = temperature + 1 WHERE id % 2 = 0")
    spark.sql(
        f"MERGE INTO {target} t USING (SELECT id FROM range(1, {rows}, 2)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET temperature = temperature + 1"
    )


def _insert(spark: SparkSession, rows: int, path: Path) -> None:
    frame = spark.range(0, rows, 1, FILES).selectExpr(*COLUMNS)
    frame.write.format("delta").mode("append").save(str(path))


def ours(path: Path, version: int) -> Reading:
    """Our reading, in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.change_reading", str(path), str(version)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"reading version {version} failed: {done.stderr.strip()[-2000:]}")
    return Reading(**json.loads(done.stdout))


def typical(runs: list[Reading]) -> Reading:
    """The run of the median time, with the largest memory of any."""
    median = sorted(runs, key=lambda run: run.warm)[len(runs) // 2]
    return replace(
        median,
        peak_mb=max(run.peak_mb for run in runs),
        over_imports_mb=max(run.over_imports_mb for run in runs),
    )


def feed(spark: SparkSession, path: Path, version: int) -> DataFrame:
    options = {"readChangeFeed": "true", "startingVersion": str(version), "endingVersion": str(version)}
    return spark.read.format("delta").options(**options).load(str(path))


def theirs(spark: SparkSession, path: Path, version: int, repeat: int) -> tuple[int, float]:
    """The number of Spark's rows, and its median time once warm."""
    rows, seconds = feed(spark, path, version).count(), []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        feed(spark, path, version).write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - began)
    return rows, statistics.median(seconds[1:])


def show(found: list[tuple[Commit, Reading, float]]) -> bool:
    """Print the figures beside their goals; whether all are met."""
    table = Table("commit", "rows", "first s", "warm s", "CPU s", "Spark s", "ratio", "peak MB", "over imports MB")
    met = True
    for commit, mine, seconds in found:
        ratio = mine.warm / seconds
        ok = ratio <= TIME_GOAL and mine.peak_mb <= MEMORY_GOAL_MB
        met &= ok
        table.add_row(
            commit.name, f"{mine.rows:,}", f"{mine.first:.2f}", f"{mine.warm:.2f}", f"{mine.cpu:.2f}", f"{seconds:.2f}",
            f"1/{1 / ratio:.1f}", f"{mine.peak_mb:.0f}", f"{mine.over_imports_mb:.0f}",
        )  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(table)
    goals = f"at most 1/3 of Spark's time, warm, and {MEMORY_GOAL_MB} MB for the whole process"
    console.print(f"{goals}: {'met' if met else 'MISS'}", markup=False)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changes", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="that each commit changes")
    parser.add_argument("--repeat", type=int, default=3, help="runs of Spark once warm, and of ours; the median counts")
    parser.add_argument("--memory", default="4g", help="of Spark's driver")
    args = parser.parse_args()
    path = Path(os.environ.get("BENCH_DIR", Path(__file__).parent / ".tables")) / f"changes-{args.rows}"
    found = []
    with spark_session(conf={"spark.driver.memory": args.memory}, app_name="delta-sidecar benchmark") as spark:
        if not (path / ".made").exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            make_table(spark, args.rows, path)
            (path / ".made").touch()
        for commit in COMMITS:
            rows, seconds = theirs(spark, path, commit.version, args.repeat)
            mine = typical([ours(path, commit.version) for _ in range(args.repeat)])
            if mine.rows != rows:
                raise SystemExit(f"{commit.name}: {mine.rows} rows, Spark has {rows}")
            found.append((commit, mine, seconds))
            PROGRESS.print(f"{commit.name}: {mine.warm:.2f} s, Spark {seconds:.2f} s", markup=False)
    return 0 if show(found) else 1


if __name__ == "__main__":
    sys.exit(main())
