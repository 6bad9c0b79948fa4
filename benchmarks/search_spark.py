"""Building splits in tasks on local Spark: CPU and memory of its Python workers.

`python -m benchmarks.search_spark --lines 1000000`, or `make bench-search-spark`. Goals: CPU for a million lines, of
the workers and of Spark's own process together, without its start; the peak memory of a worker, interpreter and
libraries included; the size beside the zstd Parquet of the same lines. Spark's process takes some seconds to warm up,
whatever the number of lines: with few of them that is most of it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from benchmarks.goals import Judgement
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.search_build import CPU_GOAL, JUDGED, KINDS, MEMORY_GOAL_MB, PER_SPLIT, SIZE_GOAL, prepared
from benchmarks.specs import tables_dir
from delta_sidecar.pipeline.session import spark_session
from delta_sidecar.search import SplitsReport, build_splits

MASTER = "local[2]"


@dataclass(frozen=True, slots=True)
class SparkFigure:
    """What a build on Spark took."""

    workers_cpu: float
    spark_cpu: float
    """Of Spark's own process: reading the lines, sending them to the workers."""
    peak_mb: float
    """Of the largest worker."""
    wall: float
    bytes: int
    splits: int


def build_on_spark(lines: Path, table: Path, **how: Any) -> tuple[SparkFigure, SplitsReport]:
    """Build splits in tasks, and measure the processes that do it."""
    with spark_session(MASTER, {"spark.ui.enabled": "false"}, None, [str(lines), str(table)]) as spark:
        spark.range(10).mapInArrow(lambda batches: batches, "id long").count()
        workers, others, _ = _used()
        began = time.perf_counter()
        report = build_splits(str(lines), table, **how, engine="spark", spark=spark)
        wall = time.perf_counter() - began
        workers_after, others_after, peak = _used()
    taken = workers_after - workers, others_after - others
    return SparkFigure(*taken, peak, wall, report.bytes, report.splits), report


def _used() -> tuple[float, float, float]:
    """CPU seconds of the Python workers and of Spark's own process, and the peak of the largest worker in MB."""
    workers, others, peak = 0.0, 0.0, 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            is_worker = "pyspark.daemon" in " ".join(child.cmdline())
            times = child.cpu_times()
            text = Path(f"/proc/{child.pid}/status").read_text()
        except (psutil.Error, OSError):
            continue
        if not is_worker:
            others += times.user + times.system
            continue
        workers += times.user + times.system
        marks = [int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")]
        peak = max([peak, *(mark / 1000 for mark in marks)])
    return workers, others, peak


def judged(found: SparkFigure, millions: float, parquet: int) -> list[Judgement]:
    cpu, size = (found.workers_cpu + found.spark_cpu) / millions, found.bytes / parquet
    rows: list[tuple[str, str, str, bool]] = [
        ("build on Spark", f"≤ {CPU_GOAL:.0f} CPU s per million lines", f"{cpu:.1f} s", cpu <= CPU_GOAL),
        ("memory", f"≤ {MEMORY_GOAL_MB} MB a worker", f"{found.peak_mb:.0f} MB", found.peak_mb <= MEMORY_GOAL_MB),
        ("lean index", f"≤ {SIZE_GOAL} × the zstd Parquet", f"{size:.2f} ×", size <= SIZE_GOAL),
    ]
    return [Judgement(name, goal, reached, "PASS" if holds else "MISS") for name, goal, reached, holds in rows]


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Measure, judge, save; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.search_spark", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    lines = prepared(given.lines)
    table = tables_dir() / f"search-spark-{given.lines}"
    shutil.rmtree(table, ignore_errors=True)
    try:
        found, _ = build_on_spark(lines, table, **KINDS[JUDGED], rows_per_split=PER_SPLIT)
    finally:
        shutil.rmtree(table, ignore_errors=True)
    judgements = judged(found, given.lines / 1e6, lines.stat().st_size)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(
        f"{given.lines:,} lines, {found.splits} splits of {found.bytes / 1e6:.1f} MB in all: workers "
        f"{found.workers_cpu:.1f} CPU s, Spark {found.spark_cpu:.1f} CPU s, {found.wall:.0f} s on the clock",
        goals_table(judgements),
    )
    results.mkdir(exist_ok=True)
    document = {"environment": environment(), "lines": given.lines, "figure": asdict(found)}
    saved = {**document, "goals": [asdict(one) for one in judgements]}
    (results / "search_spark.json").write_text(json.dumps(saved, indent=1) + "\n")
    return 1 if any(one.verdict != "PASS" for one in judgements) else 0


if __name__ == "__main__":
    sys.exit(main())
