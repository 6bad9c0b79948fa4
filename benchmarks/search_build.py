"""Building splits of log lines, and merging them: CPU, memory and size beside the zstd Parquet of the same lines.

`python -m benchmarks.search_build --lines 1000000`, or `make bench-search`. Lines are those of `search_queries`. Each
build runs in a fresh process, as a task on Spark does it: batches in, splits out. Its memory is the peak of the whole
process, interpreter and libraries included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.goals import Judgement
from benchmarks.measure import ROOT
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.specs import tables_dir
from delta_sidecar.search import SearchTable, build_splits, merge_splits
from delta_sidecar.search.splits.building import Choices, fields_of, prepare_table
from delta_sidecar.search.splits.on_spark import SplitTask
from delta_sidecar.storage import open_store
from delta_sidecar.values.arrow_types import table_schema

CPU_GOAL, MEMORY_GOAL_MB, SIZE_GOAL, MERGE_GOAL = 25.0, 300, 1.5, 1 / 10
PER_SPLIT = 1_000_000
MERGED = 64
PROGRESS = Console(stderr=True, highlight=False)
KINDS: dict[str, dict[str, Any]] = {
    "lean: text": {"text": ["body"]},
    "lean: text, key, time": {"text": ["body"], "key": ["id"], "time": "ts"},
    "text, key, time, host": {"text": ["body"], "key": ["id"], "time": "ts", "filters": ["host"]},
    "text stored": {"text": ["body"], "key": ["id"], "time": "ts", "stored": ["body"]},
}
JUDGED = "lean: text, key, time"


@dataclass(frozen=True, slots=True)
class Figure:
    """What a step took."""

    name: str
    cpu: float
    wall: float
    peak_mb: float
    bytes: int
    splits: int


def step(kind: str, lines: Path, table: Path) -> Figure:
    """Build as a task does, or merge; in this process."""
    cpu, wall = time.process_time(), time.perf_counter()
    if kind == "merge":
        merge_splits(table, target_size=1 << 40)
    elif kind == str(MERGED):
        count = pq.ParquetFile(lines).metadata.num_rows
        build_splits(str(lines), table, **KINDS[JUDGED], rows_per_split=-(-count // MERGED), engine="process")
    else:
        source = pq.ParquetFile(lines)
        made = prepare_table(open_store(table), table_schema(source.schema_arrow), Choices(**KINDS[kind]))
        names = fields_of(made).names
        task = SplitTask(str(table), None, fields_of(made).to_json(), (), PER_SPLIT)
        receipts = [
            row for batch in task.write(source.iter_batches(10_000, columns=names)) for row in batch.to_pylist()
        ]
        wires = [json.loads(receipt["receipt"]) for receipt in receipts]
        sizes = [wire["size"] for wire in wires]
        return Figure(kind, *_since(cpu, wall), sum(sizes), len(sizes))
    splits = SearchTable(table).splits()
    return Figure(kind, *_since(cpu, wall), sum(split.size for split in splits), len(splits))


def _since(cpu: float, wall: float) -> tuple[float, float, float]:
    text = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM"))
    return time.process_time() - cpu, time.perf_counter() - wall, peak / 1000


def in_a_process(kind: str, lines: Path, table: Path) -> Figure:
    PROGRESS.print(f"measuring: {kind}", markup=False)
    command = [sys.executable, "-m", "benchmarks.search_build", "--step", kind, str(lines), str(table)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{kind} failed: {done.stderr.strip()[-2000:]}")
    return Figure(**json.loads(done.stdout))


def prepared(count: int) -> Path:
    """The lines, made once."""
    # Its engines are not those of a build, whose memory is measured in a process of this module.
    from benchmarks.search_queries import make_lines

    place = tables_dir() / f"search-lines-{count}"
    if not (place / "done").exists():
        place.mkdir(parents=True, exist_ok=True)
        PROGRESS.print(f"making {count:,} lines in {place}", markup=False)
        make_lines(place / "lines.parquet", count)
        (place / "done").touch()
    return place / "lines.parquet"


def judged(found: dict[str, Figure], millions: float, parquet: int) -> list[Judgement]:
    lean = found[JUDGED]
    worst = max(one.peak_mb for one in found.values() if one.name != "merge")
    ratio = found["merge"].cpu / found[str(MERGED)].cpu

    def judge(subject: str, goal: str, reached: str, holds: bool) -> Judgement:
        return Judgement(subject, goal, reached, "PASS" if holds else "MISS")

    cpu = lean.cpu / millions
    size = lean.bytes / parquet
    return [
        judge("build", f"≤ {CPU_GOAL:.0f} CPU s per million lines", f"{cpu:.1f} s", cpu <= CPU_GOAL),
        judge("build, memory", f"≤ {MEMORY_GOAL_MB} MB a worker", f"{worst:.0f} MB", worst <= MEMORY_GOAL_MB),
        judge("lean index", f"≤ {SIZE_GOAL} × the zstd Parquet", f"{size:.2f} ×", size <= SIZE_GOAL),
        judge(f"merge of {MERGED} splits", "≤ 1/10 of building them", f"1/{1 / ratio:.1f}", ratio <= MERGE_GOAL),
    ]


def table_of(figures: list[Figure], count: int, parquet: int) -> Table:
    table = Table(title=f"{count:,} lines, {parquet / 1e6:.1f} MB as zstd Parquet", title_justify="left")
    for header in ("step", "CPU s", "wall s", "peak MB", "MB", "× Parquet", "splits"):
        table.add_column(header, justify="left" if header == "step" else "right", no_wrap=True)
    for one in figures:
        cells = (f"{one.cpu:.1f}", f"{one.wall:.1f}", f"{one.peak_mb:.0f}", f"{one.bytes / 1e6:.1f}")
        table.add_row(one.name, *cells, f"{one.bytes / parquet:.2f}", str(one.splits))
    return table


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Measure, judge, save; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.search_build", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--step", nargs=3, metavar=("KIND", "LINES", "TABLE"))
    given = parser.parse_args(arguments)
    if given.step:
        kind, lines, table = given.step
        print(json.dumps(asdict(step(kind, Path(lines), Path(table)))))
        return 0
    lines = prepared(given.lines)
    parquet = lines.stat().st_size
    with tempfile.TemporaryDirectory(dir=lines.parent) as folder:
        figures = [in_a_process(kind, lines, Path(folder) / f"k{n}") for n, kind in enumerate(KINDS)]
        figures += [in_a_process(kind, lines, Path(folder) / "many") for kind in (str(MERGED), "merge")]
    judgements = judged({one.name: one for one in figures}, given.lines / 1e6, parquet)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table_of(figures, given.lines, parquet), goals_table(judgements))
    results.mkdir(exist_ok=True)
    document = {"environment": environment(), "lines": given.lines, "figures": [asdict(one) for one in figures]}
    saved = {**document, "goals": [asdict(one) for one in judgements]}
    (results / "search_build.json").write_text(json.dumps(saved, indent=1) + "\n")
    return 1 if any(one.verdict != "PASS" for one in judgements) else 0


if __name__ == "__main__":
    sys.exit(main())
