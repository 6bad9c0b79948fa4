"""What a build's driver needs as the table grows: `python -m benchmarks.driver --n 1000000 10000000`.

A standalone cluster (a master and two workers on loopback), a driver of 1 GB in a process of its own for each table.
What counts is the peak resident memory of both halves of the driver, the Python process and its JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.generate import ensure
from benchmarks.report import RESULTS, environment
from benchmarks.specs import LogSpec, tables_dir
from tests.integration.servers import spark_cluster

GOAL = 1.2
DRIVER_MEMORY = "1g"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.driver", description=__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[1_000_000, 10_000_000], help="files of each table")
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        print(json.dumps(driven(json.loads(args.drive))))
        return 0
    with tempfile.TemporaryDirectory(prefix="driver-", dir=tables_dir()) as name:
        found = [measured(files, Path(name)) for files in args.n]
    ratio = found[-1]["total_mb"] / found[0]["total_mb"]
    show(found, ratio)
    if args.save:
        document = {"environment": environment(), "driver_memory": DRIVER_MEMORY, "runs": found, "ratio": ratio}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{args.save}.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0 if ratio <= GOAL else 1


def measured(files: int, directory: Path) -> dict[str, Any]:
    """One build on a cluster of its own."""
    table = directory / f"table-{files}"
    shutil.copytree(ensure(LogSpec(files)), table, copy_function=os.link)
    work = directory / f"cluster-{files}"
    work.mkdir()
    with spark_cluster(work) as cluster:
        order = {"master": cluster.master, "conf": dict(cluster.settings), "table": str(table)}
        order["conf"] |= {"spark.driver.memory": DRIVER_MEMORY, "spark.executor.memory": "1g"}
        command = [sys.executable, "-m", "benchmarks.driver", "--drive", json.dumps(order)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the driver failed: {done.stderr[-2000:]}")
    return {"files": files, **json.loads(done.stdout.splitlines()[-1])}


def driven(order: dict[str, Any]) -> dict[str, Any]:
    """Build, in this process, and say what it took."""
    from delta_sidecar.index.build.build import BuildOptions
    from delta_sidecar.pipeline.session import spark_session
    from delta_sidecar.pipeline.spark_build import build_index

    began = time.perf_counter()
    with spark_session(master=order["master"], conf=order["conf"]) as spark:
        report = build_index(order["table"], options=BuildOptions(full=True, engine="spark"), spark=spark)
        python = peak(os.getpid())
        jvm = sum(peak(child.pid) for child in psutil.Process().children(recursive=True) if "java" in child.name())
    return {
        "parts": report.parts,
        "seconds": round(time.perf_counter() - began, 1),
        "python_mb": round(python),
        "jvm_mb": round(jvm),
        "total_mb": round(python + jvm),
    }


def peak(pid: int) -> float:
    """The most resident memory a process had, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1000
    return 0.0


def show(found: list[dict[str, Any]], ratio: float) -> None:
    table = Table("files", "parts", "s", "Python MB", "JVM MB", "together", title=f"driver of {DRIVER_MEMORY}, cluster")
    for run in found:
        names = ("files", "parts", "seconds", "python_mb", "jvm_mb", "total_mb")
        table.add_row(*(f"{run[name]:,}" for name in names))
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(f"growth {ratio:.2f}, at most {GOAL}: {'met' if ratio <= GOAL else 'MISS'}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
