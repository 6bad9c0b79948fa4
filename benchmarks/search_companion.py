"""A companion over a Delta table of many files: how long a search takes, cold and warm.

`python -m benchmarks.search_companion --rows 10000000 --files 1000`, or `make bench-companion`. The table and its
companion are made once and kept. Each cold search runs in a fresh process with an empty cache of splits: both tables
are opened, splits are fetched and unpacked, and the rows of the hits are read from the table's own files. Imports are
not counted. The files are in the system's cache. Warm means that the splits are unpacked and open; both tables are
opened anew. The fastest of several runs counts, because other work on the machine only ever adds to the time. The peer
is a scan of the same rows by DuckDB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.goals import Judgement
from benchmarks.measure import ROOT
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.specs import tables_dir
from delta_sidecar.search import CompanionSearch, SearchTable, SplitCache, follow
from delta_sidecar.testing.actions import AddFile, add
from delta_sidecar.testing.table_builder import LogBuilder

SPLITS = 16
COLD_ROUNDS, WARM_ROUNDS = 7, 20
FIRST_MS, ALL_MS, WARM_MS = 300.0, 2000.0, 100.0
COMMITS = 50
COLUMNS = {"id": "long", "ts": "timestamp", "host": "string", "body": "string"}
PHRASE, RARE = '"checksum mismatch"', "n777 failed"
SCAN = "SELECT * FROM read_parquet('{}/*.parquet') WHERE body LIKE '%checksum mismatch%' ORDER BY ts DESC LIMIT 20"
PROGRESS = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """How long a search took."""

    name: str
    wall_ms: float
    cpu_ms: float
    hits: int
    opened: int
    """Splits that were searched."""
    goal_ms: float | None = None
    median_ms: float | None = None
    """Of all runs."""


def prepared(rows: int, files: int) -> Path:
    """The table and its companion, made once."""
    place = tables_dir() / f"companion-{rows}-{files}"
    if (place / "done").exists():
        return place / "events"
    table = place / "events"
    if not (place / "table").exists():
        PROGRESS.print(f"making {rows:,} rows in {files:,} files in {table}", markup=False)
        table.mkdir(parents=True, exist_ok=True)
        make_table(table, rows, files)
        (place / "table").touch()
    PROGRESS.print("making its companion", markup=False)
    # A file is never divided, so whole files are counted.
    per_split = -(-files // SPLITS) * -(-rows // files)
    follow(table, text=["body"], time_column="ts", rows_per_split=per_split, engine="process")
    (place / "done").touch()
    return table


def make_table(table: Path, rows: int, files: int) -> None:
    """Lines as files of a Delta table, in commits of several files each, and a checkpoint."""
    # Its engines are not those of a search, which is measured in a process of this module.
    from benchmarks.search_queries import line_batches

    log = LogBuilder(table).metadata(COLUMNS)
    per_file, per_commit = -(-rows // files), -(-files // COMMITS)
    pending: list[AddFile] = []
    for number, batch in enumerate(line_batches(rows, per_file)):
        name = f"part-{number:05d}.parquet"
        pq.write_table(pa.Table.from_batches([batch]), table / name, compression="zstd")
        pending.append(add(name, size=(table / name).stat().st_size, stats={"numRecords": batch.num_rows}))
        if len(pending) == per_commit:
            log.commit(*pending)
            pending = []
    if pending:
        log.commit(*pending)
    log.checkpoint()


def timed(name: str, run: Callable[[], Any], goal: float | None = None) -> Figure:
    cpu, wall = time.process_time(), time.perf_counter()
    hits = run()
    count = hits.to_table().num_rows
    taken = 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)
    return Figure(name, *taken, count, hits.metrics.opened, goal)


def fastest(name: str, runs: list[Figure], goal: float | None) -> Figure:
    wall, cpu = min(one.wall_ms for one in runs), min(one.cpu_ms for one in runs)
    return Figure(name, wall, cpu, runs[0].hits, runs[0].opened, goal, statistics.median(one.wall_ms for one in runs))


def cold(table: Path, query: str, order: Any) -> Figure:
    """In this process, which has searched nothing yet."""
    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        cache = SplitCache(folder)
        return timed("cold", lambda: CompanionSearch(table).search(query, order=order, cache=cache))


def warm(table: Path) -> list[Figure]:
    """The same searches again and again."""
    found = []
    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        cache = SplitCache(folder)
        for name, query, order in QUESTIONS:

            def ask(query: str = query, order: Any = order) -> Any:
                return CompanionSearch(table).search(query, order=order, cache=cache)

            ask().to_table()
            found.append(fastest(f"warm: {name}", [timed(name, ask) for _ in range(WARM_ROUNDS)], WARM_MS))
    return found


QUESTIONS: list[tuple[str, str, str]] = [
    ("phrase, 20 newest", PHRASE, "newest"),
    ("phrase, 20 best of all splits", PHRASE, "best"),
    ("rare AND, 20 newest", RARE, "newest"),
    ("rare AND, 20 best of all splits", RARE, "best"),
]


def in_a_process(*arguments: str) -> Any:
    command = [sys.executable, "-m", "benchmarks.search_companion", "--step", *arguments]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)


def step(table: Path, kind: str, *rest: str) -> Any:
    if kind == "warm":
        return [asdict(one) for one in warm(table)]
    if kind == "scan":
        import duckdb

        cpu, wall = time.process_time(), time.perf_counter()
        count = len(duckdb.connect().execute(SCAN.format(table)).fetchall())
        taken = 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)
        return asdict(Figure("DuckDB LIKE, 20 newest", *taken, count, 0))
    return asdict(cold(table, *rest))


def measured(table: Path) -> list[Figure]:
    found = []
    for (name, query, order), goal in zip(QUESTIONS, (FIRST_MS, ALL_MS, None, ALL_MS), strict=True):
        PROGRESS.print(f"measuring: cold, {name}", markup=False)
        runs = [Figure(**in_a_process(str(table), "cold", query, order)) for _ in range(COLD_ROUNDS)]
        found.append(fastest(f"cold: {name}", runs, goal))
    PROGRESS.print("measuring: warm", markup=False)
    found += [Figure(**one) for one in in_a_process(str(table), "warm")]
    return [*found, Figure(**in_a_process(str(table), "scan"))]


def judged(figures: list[Figure]) -> list[Judgement]:
    return [
        Judgement(
            one.name,
            f"≤ {one.goal_ms:.0f} ms",
            f"{one.wall_ms:.0f} ms",
            "PASS" if one.wall_ms <= one.goal_ms else "MISS",
        )
        for one in figures
        if one.goal_ms is not None
    ]


def table_of(figures: list[Figure], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for header in ("search", "wall ms", "median", "CPU ms", "hits", "splits opened", "of the scan's CPU"):
        table.add_column(header, justify="left" if header == "search" else "right", no_wrap=True)
    scan = figures[-1].cpu_ms
    for one in figures:
        ratio = f"1/{scan / one.cpu_ms:.0f}" if one.cpu_ms < scan else f"{one.cpu_ms / scan:.1f} ×"
        times = (f"{one.wall_ms:.0f}", f"{one.median_ms or one.wall_ms:.0f}", f"{one.cpu_ms:.0f}")
        table.add_row(one.name, *times, str(one.hits), str(one.opened), ratio)
    return table


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Make what is missing, measure, judge, save; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.search_companion", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--step", nargs="+")
    given = parser.parse_args(arguments)
    if given.step:
        print(json.dumps(step(Path(given.step[0]), *given.step[1:])))
        return 0
    table = prepared(given.rows, given.files)
    splits = SearchTable(table / "_search").splits()
    size = sum(split.size for split in splits) / 1e6
    title = f"{given.rows:,} rows in {given.files:,} files, {len(splits)} splits of {size:.0f} MB in all"
    figures = measured(table)
    judgements = judged(figures)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table_of(figures, title), goals_table(judgements))
    results.mkdir(exist_ok=True)
    document = {"environment": environment(), "rows": given.rows, "files": given.files, "splits": len(splits)}
    saved = {**document, "figures": [asdict(one) for one in figures], "goals": [asdict(one) for one in judgements]}
    (results / "search_companion.json").write_text(json.dumps(saved, indent=1) + "\n")
    return 1 if any(one.verdict != "PASS" for one in judgements) else 0


if __name__ == "__main__":
    sys.exit(main())
