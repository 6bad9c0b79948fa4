"""The index build beside its peers: `python -m benchmarks.build --n 1000000`.

One Spark session (local), every workload run once to warm up, then all of them three times, in turn; the median counts:

- `build`: the whole index, from the log, on that session.
- `process`: the same in one process without Spark, a fresh one, whose peak of memory over imports is measured, too.
- `checkpoint`: Delta's own checkpoint of the same version, from the log (its cache cleared), by its internals.
- `sorted`: a plain Spark job that writes `add.*` of the checkpoint, sorted by bucket and path.
- `appended`: the next index after 10 commits of 100 new files; `removed`: after a commit whose removes touch one part.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.checkpoint import layout_of
from benchmarks.generate import add_lines, ensure, remove_lines
from benchmarks.index_tables import manifest_sizes
from benchmarks.measure import ROOT, HighWaterMark, Sampler
from benchmarks.report import RESULTS, environment
from benchmarks.specs import BUCKET, LogSpec, table_dir
from delta_sidecar import BuildOptions, build_index, pipeline
from delta_sidecar.pipeline.session import spark_session

REPEAT = 3


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio, or a number, and what it should be at most."""

    what: str
    ratio: float
    limit: float

    @property
    def met(self) -> bool:
        return self.ratio <= self.limit


@dataclass(slots=True)
class OneProcess:
    """Builds whole indexes in processes of their own."""

    peak_mb: float = 0.0
    """The greatest peak of memory over imports so far."""

    def seconds(self, table: Path) -> float:
        command = [sys.executable, "-m", "benchmarks.build", "--process", str(table)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"the build in one process failed: {done.stderr[-2000:]}")
        found: dict[str, float] = json.loads(done.stdout)
        self.peak_mb = max(self.peak_mb, found["peak_mb"])
        return found["seconds"]


def build_in_process(table: str) -> dict[str, float]:
    """Seconds and peak of a whole build in this process."""
    options = BuildOptions(full=True, engine="process")
    gc.collect()
    try:
        meter: HighWaterMark | Sampler = HighWaterMark()
    except OSError:
        meter = Sampler()
    return {"seconds": timed(lambda: build_index(table, options=options)), "peak_mb": meter.peak() / 1e6}


class Tables:
    """Copies of one generated table, in states that the workloads need."""

    def __init__(self, spec: LogSpec, directory: Path) -> None:
        self._spec = spec
        self._source = ensure(spec)
        self._directory = directory

    @property
    def checkpoint(self) -> Path:
        return self._source / "_delta_log" / f"{self._spec.checkpoint_version:020d}.checkpoint.parquet"

    def copy(self, name: str, of: Path | None = None) -> Path:
        """A table of its own: large files are linked, never written to."""
        target = self._directory / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(of or self._source, target, copy_function=os.link)
        return target

    def append(self, table: Path) -> None:
        """Ten commits of 100 new files."""
        for number in range(10):
            first = self._spec.files + self._spec.tail_commits * self._spec.adds_per_commit + number * 100
            self._commit(table, number, add_lines(layout_of(self._spec), np.arange(first, first + 100)))

    def remove(self, table: Path) -> None:
        """One commit that removes 100 files that follow each other in time: rows of one part, or of two."""
        first = self._spec.files // 2 + 50
        lines = remove_lines(layout_of(self._spec), np.arange(first, first + 100), 1_700_000_000_000)
        self._commit(table, 0, lines)

    def _commit(self, table: Path, number: int, lines: bytes) -> None:
        info = json.dumps({"commitInfo": {"timestamp": 1_800_000_000_000 + number, "operation": "WRITE"}})
        name = f"{self._spec.head + 1 + number:020d}.json"
        (table / "_delta_log" / name).write_bytes(info.encode() + b"\n" + lines)


def workloads(spark: Any, tables: Tables, scratch: Path, alone: OneProcess) -> dict[str, Callable[[], float]]:
    """Each runs once and gives its seconds, without what it needs to set up."""
    whole = tables.copy("whole")
    pipeline.build_index(str(whole), options=BuildOptions(engine="spark"), spark=spark)
    appended, removed = tables.copy("appended", whole), tables.copy("removed", whole)
    tables.append(appended)
    tables.remove(removed)

    def build() -> float:
        return timed(
            lambda: pipeline.build_index(str(whole), options=BuildOptions(full=True, engine="spark"), spark=spark)
        )

    def checkpoint() -> float:
        target = tables.copy("delta")
        log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        return timed(lambda: log.forTable(spark._jsparkSession, str(target)).checkpoint())

    def plain() -> float:
        adds = spark.read.parquet(str(tables.checkpoint)).where("add.path is not null").select("add.*")
        ordered = adds.sort(f"partitionValues.{BUCKET}", "path")
        return timed(lambda: ordered.write.mode("overwrite").parquet(str(scratch / "sorted")))

    def next_of(table: Path) -> Callable[[], float]:
        def run() -> float:
            target = tables.copy(f"{table.name}-next", table)
            return timed(lambda: pipeline.build_index(str(target)))

        return run

    return {
        "build": build,
        "process": lambda: alone.seconds(whole),
        "checkpoint": checkpoint,
        "sorted": plain,
        "appended": next_of(appended),
        "removed": next_of(removed),
    }


def timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measured(found: dict[str, Callable[[], float]], repeat: int, console: Console) -> dict[str, list[float]]:
    """All workloads in turn, so that what else the machine does falls on all."""
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for number in range(repeat):
        for name, run in found.items():
            seconds[name].append(run())
            console.print(f"run {number + 1} {name}: {seconds[name][-1]:.2f} s", markup=False)
    return seconds


def sizes(tables: Tables, directory: Path) -> dict[str, int]:
    log = directory / "delta" / "_delta_log"
    index = directory / "whole" / "_delta_log" / "_sidecars"
    manifest = max(index.glob("*.manifest.json"), key=lambda path: path.stat().st_mtime)
    found = manifest_sizes(manifest)
    return {
        "core": found.core,
        "index": found.whole,
        "manifest": found.manifest,
        "checkpoint, JSON stats only, zstd": tables.checkpoint.stat().st_size,
        "checkpoint, as delta-spark writes it": sum(
            f.stat().st_size for f in log.glob("*.checkpoint*.parquet") if f.stat().st_nlink == 1
        ),
    }


def goals(files: int, seconds: dict[str, list[float]], size: dict[str, int], peak_mb: float) -> list[Goal]:
    median = {name: statistics.median(runs) for name, runs in seconds.items()}
    return [
        Goal("whole index / Delta's checkpoint", median["build"] / median["checkpoint"], 0.5 if files > 5e6 else 0.8),
        Goal("whole index / plain sorted write of add.*", median["build"] / median["sorted"], 2.5),
        Goal("whole index in one process / on warm Spark", median["process"] / median["build"], 2),
        Goal("MB over imports, in one process", peak_mb, 600 if files <= 1e6 else 1_500),
        Goal("after 10 commits of 100 files / whole index", median["appended"] / median["build"], 1 / 50),
        Goal("after removes in one part / whole index", median["removed"] / median["build"], 1 / 8),
        Goal("bytes: index / checkpoint with JSON stats", size["index"] / size["checkpoint, JSON stats only, zstd"], 1),
        Goal("bytes: index / delta-spark's", size["index"] / size["checkpoint, as delta-spark writes it"], 0.25),
    ]


def show(files: int, seconds: dict[str, list[float]], size: dict[str, int], judged: list[Goal]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    times = Table("workload", "median s", "runs", title=f"index build, {files:,} files, local Spark, warm")
    for name, runs in seconds.items():
        times.add_row(name, f"{statistics.median(runs):.2f}", ", ".join(f"{run:.2f}" for run in runs))
    table = Table("goal", "ratio", "at most", "verdict")
    for goal in judged:
        table.add_row(goal.what, f"{goal.ratio:.4f}", f"{goal.limit:.4f}", "met" if goal.met else "MISS")
    console.print(times, table)
    for name, value in size.items():
        console.print(f"{name}: {value:,} bytes, {value / files:.1f} a file", markup=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.build", description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000, help="files in the checkpoint")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="runs after the first; the median counts")
    parser.add_argument("--warm-up", type=int, metavar="FILES", help="warm up on a table of so many files, not of N")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--memory", default="6g", help="of the session's process")
    parser.add_argument("--process", metavar="TABLE", help=argparse.SUPPRESS)
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    args = parser.parse_args()
    if args.process:
        print(json.dumps(build_in_process(args.process)))
        return 0
    spec, small = LogSpec(args.n), LogSpec(args.warm_up or args.n)
    progress = Console(stderr=True, highlight=False)
    with tempfile.TemporaryDirectory(prefix="build-", dir=table_dir(spec).parent) as name:
        tables = Tables(spec, Path(name))
        conf = {"spark.driver.memory": args.memory, "spark.local.dir": f"{name}/spark"}
        with spark_session(master=f"local[{args.cores}]", conf=conf) as spark:
            progress.print(f"warming up on {small.files:,} files", markup=False)
            measured(workloads(spark, Tables(small, Path(name) / "warm"), Path(name), OneProcess()), 1, progress)
            alone = OneProcess()
            found = measured(workloads(spark, tables, Path(name), alone), args.repeat, progress)
            size = sizes(tables, Path(name))
        judged = goals(args.n, found, size, alone.peak_mb)
    show(args.n, found, size, judged)
    if args.save:
        document = {
            "environment": environment(),
            "files": args.n,
            "seconds": found,
            "bytes": size,
            "process_peak_mb": alone.peak_mb,
            "goals": [{"what": g.what, "ratio": g.ratio, "at_most": g.limit, "met": g.met} for g in judged],
        }
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{args.save}.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(goal.met for goal in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
