"""Planning one hour in Spark, beside delta-spark: `python -m benchmarks.engines_spark --files 100000`.

A table of 20 stat columns, 100 files an hour, with a checkpoint and an index; only the files of the hour are real. Each
way has a session in a process of its own, after a first job that has nothing to do with the table. Planning is from
`load` to the physical plan with its files: at first, then again. The rows are counted too, and must be right.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks import synthetic
from benchmarks.checkpoint import layout_of
from benchmarks.index_tables import ensure_indexed
from benchmarks.measure import ROOT
from benchmarks.report import RESULTS, environment
from benchmarks.specs import BUCKET, IndexedSpec
from benchmarks.synthetic import Ints, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST, WARM = 1 / 4, 1 / 2.5
"""At most so much of delta-spark's time, at first and afterwards."""
WAYS = ("delta", "source", "files")


@dataclass(frozen=True, slots=True)
class Planned:
    """What one way took, in seconds."""

    way: str
    first: float
    warm: float
    count: float
    """Counting the rows of the hour, planning included, once all is warm."""


def hour_table(spec: IndexedSpec) -> tuple[Path, int]:
    """The table with real files in its last hour, and how many rows they hold."""
    table, layout = ensure_indexed(spec), layout_of(spec.log)
    first = spec.log.last_hour_number * spec.files_per_hour
    files = np.setdiff1d(np.arange(first, spec.files), spec.log.removed_from_base)
    for number in files:
        write_file(table, layout, np.array([number]))
    return table, int(synthetic.record_counts(files).sum())


def write_file(table: Path, layout: Layout, file: Ints) -> None:
    """A Parquet file whose rows have the bounds and whose bytes have the size that the log says."""
    path = table / synthetic.paths(layout, file)[0].as_py()
    if path.exists():
        return
    rows = int(synthetic.record_counts(file)[0])
    stats = synthetic.stats_typed(layout, file)
    low, high = (stats.field(name) for name in ("minValues", "maxValues"))
    columns = {c.name: _between(low.field(c.name), high.field(c.name), rows) for c in layout.columns}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="snappy")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(padded(bytes(sink.getvalue()), int(synthetic.sizes(file)[0])))


def _between(low: pa.Array, high: pa.Array, rows: int) -> pa.Array:
    """So many values from one bound to the other; of other types than whole numbers and times the bounds in turn."""
    if pa.types.is_integer(low.type) or pa.types.is_timestamp(low.type):
        ends = [int(bound.cast(pa.int64())[0].as_py()) for bound in (low, high)]
        return pa.array(np.linspace(*ends, rows).astype(np.int64)).cast(low.type)
    return pa.concat_arrays([low, high]).take(pa.array(np.arange(rows) % 2))


def padded(parquet: bytes, size: int) -> bytes:
    """The file with zeros before its footer, which nothing points at."""
    footer = 8 + int.from_bytes(parquet[-8:-4], "little")
    if len(parquet) > size:
        raise SystemExit(f"a file of {len(parquet)} bytes does not fit {size}")
    return parquet[:-footer] + bytes(size - len(parquet)) + parquet[-footer:]


def frames(spark: SparkSession, way: str, table: str, condition: str) -> Callable[[], DataFrame]:
    """How a way makes the frame of the hour."""
    from delta_sidecar.engines.spark import register, sidecar_files

    if way == "source":
        register(spark)
    if way == "files":
        return lambda: sidecar_files(spark, table, condition)
    if way == "source":
        return lambda: spark.read.format("sidecar").option("predicate", condition).load(table)
    return lambda: spark.read.format("delta").load(table).where(condition)


def driven(order: dict[str, Any]) -> dict[str, Any]:
    """Plan and count by one way, in this process."""
    from delta_sidecar.pipeline.session import spark_session

    with spark_session(master=order["master"]) as spark:
        spark.range(10).count()
        make = frames(spark, order["way"], order["table"], order["condition"])
        planned = [timed(lambda: plan(make())) for _ in range(1 + order["repeat"])]
        rows = make().count()
        counted = timed(lambda: make().count())
    if rows != order["rows"]:
        raise SystemExit(f"{order['way']} counts {rows} rows, there are {order['rows']}")
    return {"first": planned[0], "warm": statistics.median(planned[1:]), "count": counted}


def plan(frame: DataFrame) -> None:
    """The physical plan with its files; nothing is run."""
    frame._jdf.queryExecution().toRdd().getNumPartitions()


def timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measured(way: str, order: dict[str, Any]) -> Planned:
    """One way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.engines_spark", "--drive", json.dumps(order | {"way": way})]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way} failed: {done.stderr.strip()[-2000:]}")
    return Planned(way, **json.loads(done.stdout.splitlines()[-1]))


def show(files: int, found: list[Planned]) -> bool:
    """Print the times and their ratios to delta-spark's; whether the goals are met."""
    peer = found[0]
    table = Table("way", "first s", "warm s", "count s", "first", "warm", title=f"planning one hour of {files:,} files")
    for each in found:
        ratios = (each.first / peer.first, each.warm / peer.warm)
        times = (f"{seconds:.2f}" for seconds in (each.first, each.warm, each.count))
        table.add_row(each.way, *times, *(f"1/{1 / ratio:.1f}" for ratio in ratios))
    met = all(each.first <= FIRST * peer.first and each.warm <= WARM * peer.warm for each in found[1:])
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(f"at most 1/4 at first and 1/2.5 warm: {'met' if met else 'MISS'}", markup=False)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines_spark", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5, help="plans after the first; their median counts")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        print(json.dumps(driven(json.loads(args.drive))))
        return 0
    spec = IndexedSpec(args.files, files_per_hour=100)
    table, rows = hour_table(spec)
    order = {"master": args.master, "table": str(table), "rows": rows, "repeat": args.repeat}
    order["condition"] = f"{BUCKET} = '{spec.log.last_hour}'"
    found = [measured(way, order) for way in WAYS]
    met = show(args.files, found)
    if args.save:
        ways = [{"way": p.way, "first": p.first, "warm": p.warm, "count": p.count} for p in found]
        RESULTS.mkdir(exist_ok=True)
        document = {"environment": environment(), "files": args.files, "ways": ways}
        (RESULTS / f"{args.save}.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
