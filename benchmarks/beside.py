"""Our own rows of the benchmarks beside those of another checkout: `make beside BASE=<commit>`.

Every workload runs in a fresh process of each tree in turn, with that tree's code, benchmarks and tables, so that what
slows the machine for a while slows both. A row is slower where its median and its best run are both more than 5 %
slower: one of the two alone is the machine's noise. `build` is the index build, one Spark session a tree and turn.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import ladder, ladder_table, workloads
from benchmarks.measure import ROOT, run_child
from benchmarks.report import environment
from benchmarks.specs import CommitSpec, LogSpec, RowsSpec, Spec, to_json

SLOWER = 1.05
PEERS = ("deltalake.", "pyarrow.")
PEER_BUILDS = ("checkpoint", "sorted")
"""Rows of the build's benchmark that are not ours: Delta's checkpoint, a plain sorted write."""
MAKE = """
import json, sys
from benchmarks.generate import ensure
from benchmarks.index_tables import ensure_indexed
from benchmarks.runs import read_once
from benchmarks.specs import IndexedSpec, from_json
spec = from_json(json.loads(sys.argv[1]))
read_once(ensure_indexed(spec) if isinstance(spec, IndexedSpec) else ensure(spec))
"""
PROGRESS = Console(stderr=True, highlight=False)


@dataclass(slots=True)
class Row:
    """One workload in both trees: seconds and MB of each run."""

    key: str
    seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    peaks: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    error: str | None = None

    def add(self, tree: int, seconds: float, peak_mb: float | None) -> None:
        self.seconds[tree].append(seconds)
        if peak_mb is not None:
            self.peaks[tree].append(peak_mb)

    @property
    def ratios(self) -> tuple[float, float]:
        """Ours to theirs: of the medians, of the best runs."""
        theirs, ours = self.seconds
        return statistics.median(ours) / statistics.median(theirs), min(ours) / min(theirs)

    @property
    def slower(self) -> bool:
        return min(self.ratios) > SLOWER


def rows_of(theirs: Path, files: int, patterns: Sequence[str], repeat: int) -> list[Row]:
    """Measure the listing's and the ladder's workloads in both trees."""
    rows = []
    for key, spec in _workloads(files):
        if key.startswith(PEERS) or not any(fnmatch.fnmatch(key, pattern) for pattern in patterns):
            continue
        PROGRESS.print(f"{key} …", end=" ", markup=False)
        row = _measured(key, spec, (theirs, ROOT), repeat)
        PROGRESS.print(row.error or f"{row.ratios[0]:.2f}", markup=False)
        rows.append(row)
    return rows


def build_rows(theirs: Path, files: int, repeat: int) -> list[Row]:
    """The rows of the build's benchmark that both trees have."""
    rows: dict[str, Row] = {}
    for _ in range(repeat):
        found = [_built(tree, files) for tree in (theirs, ROOT)]
        for key in (found[0].keys() & found[1].keys()) - set(PEER_BUILDS):
            row = rows.setdefault(key, Row(f"build.{key}"))
            for tree in (0, 1):
                for seconds in found[tree][key]:
                    row.add(tree, seconds, None)
    return sorted(rows.values(), key=lambda row: row.key)


def main() -> int:
    """Compare; 1 if a row is slower or failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path, help="the other checkout, e.g. of `git worktree add`")
    parser.add_argument("--files", "--n", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="e.g. 'index.*' 'ours.*'")
    parser.add_argument("--repeat", type=int, default=5, help="runs of a workload in each tree")
    parser.add_argument("--build", action="store_true", help="the index build instead of the readers")
    args = parser.parse_args()
    theirs = args.tree.resolve()
    if args.build:
        rows = build_rows(theirs, args.files, args.repeat)
    else:
        rows = rows_of(theirs, args.files, args.only, args.repeat)
    show(rows, args.files, theirs)
    return 1 if any(row.error or row.slower for row in rows) else 0


def show(rows: Sequence[Row], files: int, theirs: Path) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    title = f"{files:,} files, {_commit(ROOT)} beside {_commit(theirs)}"
    table = Table("workload", "before ms", "now ms", "median", "best", "before MB", "now MB", "verdict", title=title)
    for row in rows:
        if row.error:
            table.add_row(row.key, *[""] * 6, f"FAILED: {row.error}")
            continue
        middle, best = row.ratios
        times = [f"{statistics.median(seconds) * 1000:,.1f}" for seconds in row.seconds]
        peaks = [f"{statistics.median(peaks):.1f}" if peaks else "" for peaks in row.peaks]
        table.add_row(row.key, *times, f"{middle:.3f}", f"{best:.3f}", *peaks, "SLOWER" if row.slower else "")
    console.print(table)
    console.print(json.dumps(environment()), markup=False)


def _workloads(files: int) -> Iterator[tuple[str, Spec]]:
    specs = ladder.specs_of(files)
    for key in ladder_table.KEYS:
        yield key, specs["masked" if key.startswith("masked.") else "indexed"]
    listing: Mapping[str, Spec] = {"log": LogSpec(files), "commit": CommitSpec(files), "rows": RowsSpec(200)}
    for key in workloads.WORKLOADS:
        yield key, listing[workloads.table_of(key)]


def _measured(key: str, spec: Spec, trees: Sequence[Path], repeat: int) -> Row:
    row = Row(key)
    for tree in trees:
        made = _run(tree, ["-c", MAKE, json.dumps(to_json(spec))])
        if made.returncode:
            row.error = f"no table: {made.stderr.strip().splitlines()[-1]}"
            return row
    for _ in range(repeat):
        for place, tree in enumerate(trees):
            answer = run_child(key, spec, 1800, tree)
            if "error" in answer:
                row.error = answer["error"]
                return row
            row.add(place, answer["seconds"], answer["peak_mb"])
    return row


def _built(tree: Path, files: int) -> dict[str, list[float]]:
    PROGRESS.print(f"build in {tree} …", markup=False)
    (tree / "benchmarks" / ".tables").mkdir(exist_ok=True)
    done = _run(tree, ["-m", "benchmarks.build", "--n", str(files), "--repeat", "2", "--save", "beside"])
    results = tree / "benchmarks" / "results" / "beside.json"
    if not results.exists():
        sys.exit(f"the build in {tree} failed: {done.stderr[-2000:]}")
    document: dict[str, Any] = json.loads(results.read_text())
    return dict(document["seconds"])


def _run(tree: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    jars = {"DELTA_SIDECAR_JARS": str(ROOT / ".cache" / "jars")}
    environ = jars | os.environ | {"PYTHONPATH": str(tree / "src")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environ, capture_output=True, text=True, check=False
    )


def _commit(tree: Path) -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=tree, capture_output=True, text=True)
    return done.stdout.strip() or "?"


if __name__ == "__main__":
    sys.exit(main())
