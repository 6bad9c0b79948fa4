"""One hour of a table through each engine: `python -m benchmarks.engines --files 100000`, or `make bench-engines`.

At each size an index without a tail, 100 files an hour, of which those of the last hour are real. Each question is a
fresh process after its imports, beside deltalake's best way in the same engine, in turn. Above a million files
deltalake is left out, for it would need more memory than there is; the goal is then one of memory. `--rows` adds the
rows of a table of 1 GB in 1,000 files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.engine_tables import ensure_engine_table
from benchmarks.generate import ensure
from benchmarks.goals import Judgement
from benchmarks.measure import Measurement, measure_in_turn
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.runs import read_once
from benchmarks.specs import EngineSpec, RowsSpec, Spec, table_dir

HOUR = {
    "ours.duckdb_hour_files": "deltalake.duckdb_hour",
    "ours.duckdb_hour_dataset": "deltalake.duckdb_hour",
    "ours.polars_hour_files": "deltalake.polars_hour",
    "ours.polars_hour_dataset": "deltalake.polars_hour",
    "ours.datafusion_hour_dataset": "deltalake.datafusion_hour",
}
"""Our way, and deltalake's in the same engine."""
ALONE = ("alone.duckdb_hour", "alone.polars_hour")
"""Engines over the same files, without a table."""
ROWS = {
    f"ours.{engine}_rows_{name}": f"deltalake.engine_rows_{name}"
    for name in ("all", "clustered", "unclustered")
    for engine in ("duckdb", "datafusion")
}
DATASET_GOAL = 1 / 4
FILES_GOALS = {100_000: 1 / 15, 1_000_000: 1 / 50}
"""By the size from which they count."""
MEMORY_GOAL_MB, MEMORY_GOAL_FILES = 40, 10_000_000
MOST_OF_DELTALAKE = 1_000_000
LIBRARIES = ("duckdb", "polars", "datafusion", "pyarrow", "deltalake")
PROGRESS = Console(stderr=True, highlight=False)


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Make the tables, measure, judge, save; 1 if a goal was missed."""
    args = _parser().parse_args(arguments)
    runs: list[tuple[Spec, Mapping[str, str]]] = []
    for files in sorted(args.files):
        spec = EngineSpec(files, checkpoint=files <= MOST_OF_DELTALAKE)
        PROGRESS.print(f"table of {files:,}: {table_dir(spec)}", markup=False)
        read_once(ensure_engine_table(spec, args.workers))
        runs.append((spec, HOUR))
    if args.rows:
        rows = RowsSpec()
        PROGRESS.print(f"rows: {table_dir(rows)}", markup=False)
        read_once(ensure(rows))
        runs.append((rows, ROWS))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(", ".join(f"{name} {version(name)}" for name in LIBRARIES))
    judgements: list[Judgement] = []
    found: list[dict[str, object]] = []
    for spec, pairs in runs:
        measured = _measured(spec, pairs, args.repeat)
        judged = [judgement for ours in pairs for judgement in judged_way(spec, ours, pairs[ours], measured)]
        console.print(table_of(spec, measured), goals_table(judged))
        judgements += judged
        found.append({"spec": asdict(spec), "measurements": [asdict(m) for m in measured.values()]})
    results.mkdir(exist_ok=True)
    document = {"environment": environment(), "runs": found, "goals": [asdict(j) for j in judgements]}
    (results / "engines.json").write_text(json.dumps(document, indent=1) + "\n")
    return 1 if any(judgement.verdict != "PASS" for judgement in judgements) else 0


def judged_way(spec: Spec, ours: str, peer: str, measured: Mapping[str, Measurement]) -> list[Judgement]:
    """The goals of one of our ways on one table."""
    subject = measured[ours]
    if subject.seconds is None or subject.peak_mb is None:
        return [Judgement(ours, "an answer", subject.error or "none", "FAILED")]
    judged = []
    if peer in measured:
        judged.append(_beside(spec, ours, subject.seconds, measured[peer]))
    if isinstance(spec, EngineSpec) and spec.files >= MEMORY_GOAL_FILES and ours.endswith("_files"):
        reached = "PASS" if subject.peak_mb <= MEMORY_GOAL_MB else "MISS"
        judged.append(Judgement(ours, f"≤ {MEMORY_GOAL_MB} MB", f"{subject.peak_mb:.0f} MB", reached))
    return judged


def _beside(spec: Spec, ours: str, seconds: float, peer: Measurement) -> Judgement:
    if peer.seconds is None:
        return Judgement(ours, f"beside {peer.key}", peer.error or "none", "SKIPPED")
    limit = goal(spec, ours)
    ratio = seconds / peer.seconds
    text = f"≤ 1/{1 / limit:.0f} of {peer.key}" if limit < 1 else f"≤ {limit:.0f} × {peer.key}"
    reached = f"1/{1 / ratio:.1f}" if ratio < 1 else f"{ratio:.2f} ×"
    return Judgement(ours, text, reached, "PASS" if ratio <= limit else "MISS")


def goal(spec: Spec, ours: str) -> float:
    """How much of the peer's time one of our ways may take."""
    if not isinstance(spec, EngineSpec):
        return 1.0
    if ours.endswith("_dataset"):
        return DATASET_GOAL
    return min((limit for files, limit in FILES_GOALS.items() if spec.files >= files), default=1.0)


def table_of(spec: Spec, measured: Mapping[str, Measurement]) -> Table:
    """Times and memory, ours beside deltalake's."""
    files = spec.files if isinstance(spec, EngineSpec | RowsSpec) else 0
    kind = "one hour, 100 files" if isinstance(spec, EngineSpec) else "rows, 1 GB"
    table = Table("", "ms", "CPU ms", "MB", title=f"{files:,} files: {kind}", title_justify="left")
    for key, found in measured.items():
        table.add_row(key, *_figures(found))
    return table


def _figures(found: Measurement) -> list[str]:
    if found.seconds is None or found.cpu_seconds is None or found.peak_mb is None:
        return [f"failed: {found.error}", "", ""]
    return [f"{found.seconds * 1000:,.1f}", f"{found.cpu_seconds * 1000:,.1f}", f"{found.peak_mb:,.1f}"]


def _measured(spec: Spec, pairs: Mapping[str, str], repeat: int) -> dict[str, Measurement]:
    with_peer = not isinstance(spec, EngineSpec) or spec.files <= MOST_OF_DELTALAKE
    alone = ALONE if isinstance(spec, EngineSpec) else ()
    keys: Sequence[str] = list(dict.fromkeys([*pairs, *alone, *(pairs.values() if with_peer else ())]))
    PROGRESS.print(f"{repeat} runs of each of {', '.join(keys)}, in turn", markup=False)
    return {found.key: found for found in measure_in_turn([(key, spec) for key in keys], repeat, 600)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=_numbers, default=[100_000], help="sizes, by commas; 0 for none")
    parser.add_argument("--rows", action="store_true", help="the rows of a table of 1 GB, too")
    parser.add_argument("--repeat", type=int, default=5, help="runs a workload; the median counts")
    parser.add_argument("--workers", type=int, help="processes that write the index")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if int(part)]


if __name__ == "__main__":
    sys.exit(main())
