"""What a fresh process takes to import the table class, and to give the first file of a small local table.

Beside it stands the import of the libraries without which no listing can be had: pyarrow.parquet, obstore and msgspec.
Processes are started in turn, so that what disturbs one disturbs all of them.

    python -m benchmarks.imports --rounds 30
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from delta_sidecar import build_index
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder

LIBRARIES = "import pyarrow.parquet, obstore, msgspec"
FIRST_FILE = "from delta_sidecar import DeltaTable; next(iter(DeltaTable({place!r}).scan_files(limit=1)))"
COMMITS = 20


@dataclass(slots=True)
class Row:
    """One program, and what its processes took."""

    name: str
    program: str
    goal: float | None = None
    """At most so many times what the libraries take."""
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self) -> None:
        before, began = _children_cpu(), time.perf_counter()
        subprocess.run([sys.executable, "-c", self.program], check=True, env=_environment())
        self.seconds.append(time.perf_counter() - began)
        self.cpu.append(_children_cpu() - before)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment() -> dict[str, str]:
    """With bytecode kept: without it every process compiles all libraries anew."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def make_tables(root: Path) -> None:
    """A small table of a few commits, without and with an index."""
    for name in ("log", "index"):
        log = LogBuilder(root / name).metadata({"x": "long"})
        for number in range(COMMITS):
            log.commit(add(f"part-{number}.parquet"))
    build_index(root / "index")


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        make_tables(Path(place))
        rows = [
            Row("pyarrow.parquet, obstore, msgspec", LIBRARIES),
            Row("from delta_sidecar import DeltaTable", "from delta_sidecar import DeltaTable", 1.2),
            Row("first file, by the log", FIRST_FILE.format(place=f"{place}/log"), 1.4),
            Row("first file, by the index", FIRST_FILE.format(place=f"{place}/index"), 1.4),
        ]
        for row in rows:
            subprocess.run([sys.executable, "-c", row.program], check=True, env=_environment())
        for _ in range(rounds):
            for row in rows:
                row.run()
    return rows


def report(rows: list[Row]) -> str:
    libraries = rows[0]
    lines = ["| fresh process | median | ratio | processor time | ratio | goal |", "|---|---|---|---|---|---|"]
    for row in rows:
        wall, cpu = statistics.median(row.seconds), statistics.median(row.cpu)
        cells = [
            row.name,
            f"{wall * 1000:.0f} ms",
            f"{wall / statistics.median(libraries.seconds):.2f}",
            f"{cpu * 1000:.0f} ms",
            f"{cpu / statistics.median(libraries.cpu):.2f}",
            "" if row.goal is None else f"≤ {row.goal}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="processes of each kind (30)")
    print(report(measure(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()
