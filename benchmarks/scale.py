"""What grows with a table: `python -m benchmarks.scale --files 1000000,10000000,100000000`, or `make scale`.

At each size an index of few stat columns and a tail of ten commits, without a checkpoint: the first file, the last hour
by the bucket and by the time column, in time, requests, bytes and memory, beside the size of index and manifest. From
one size to the next the times may grow by a fifth. A last line says what a table of a billion files would take: it is
computed from the two largest sizes, not measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Judgement
from benchmarks.index_tables import ensure_indexed, index_sizes
from benchmarks.measure import Measurement, measure_in_turn
from benchmarks.picture import time_text
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.runs import read_once
from benchmarks.specs import IndexedSpec, table_dir, to_json

KEYS = ("index.first_file", "index.last_hour", "index.last_hour_by_time")
STAT_COLUMNS = 3
STEP, FAR = 1.2, 2.0
"""How much a time may grow from one size to the next; and up to the size that is only computed."""
BILLION = 1_000_000_000
PUBLISHED = Path(__file__).parent / "published"
PROGRESS = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one question cost on one table."""

    seconds: float
    peak_mb: float
    arrow_peak_mb: float
    requests: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Size:
    """One table: what its index takes, and what questions cost."""

    files: int
    parts: int
    manifest_bytes: int
    core_bytes: int
    index_bytes: int
    costs: dict[str, Cost]
    computed: bool = False
    """From other sizes, and not measured."""


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Make the tables, measure, judge, save; 1 if a goal was missed."""
    args = _parser().parse_args(arguments)
    found = _measured_sizes(args)
    far = [extrapolated(found[-2], found[-1], BILLION)] if len(found) > 1 and found[-1].files < BILLION else []
    judgements = growth([*found, *far])
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table_of([*found, *far]), goals_table(judgements))
    _save(args, [*found, *far], judgements, results)
    return 1 if any(judgement.verdict != "PASS" for judgement in judgements) else 0


def extrapolated(before: Size, last: Size, files: int) -> Size:
    """A larger table, if everything goes on growing with the number of parts as from one size to the other."""
    parts = round(last.parts * files / last.files)

    def further(low: float, high: float) -> float:
        slope = (high - low) / (last.parts - before.parts) if last.parts > before.parts else 0.0
        return high + max(0.0, slope) * (parts - last.parts)

    def cost(key: str) -> Cost:
        low, high = asdict(before.costs[key]), asdict(last.costs[key])
        return Cost(**{name: further(low[name], high[name]) for name in low})

    return Size(
        files=files,
        parts=parts,
        manifest_bytes=round(further(before.manifest_bytes, last.manifest_bytes)),
        core_bytes=round(last.core_bytes * files / last.files),
        index_bytes=round(last.index_bytes * files / last.files),
        costs={key: cost(key) for key in last.costs},
        computed=True,
    )


def growth(sizes: Sequence[Size]) -> list[Judgement]:
    """How times grow from each size to the next."""
    return [_grown(key, low, high) for key in KEYS for low, high in pairwise(sizes)]


def table_of(sizes: Sequence[Size]) -> Table:
    """Everything that grows, or does not."""
    table = Table(title=f"an index of {STAT_COLUMNS} stat columns", title_justify="left")
    table.add_column("", no_wrap=True)
    for size in sizes:
        table.add_column(f"{size.files:,}{' (computed)' if size.computed else ''}", justify="right")
    for label, values in _lines(sizes):
        table.add_row(label, *values)
    return table


def _lines(sizes: Sequence[Size]) -> list[tuple[str, list[str]]]:
    lines = [
        ("parts", [f"{size.parts:,}" for size in sizes]),
        ("manifest, KB", [f"{size.manifest_bytes / 1e3:,.0f}" for size in sizes]),
        ("index, MB", [f"{size.index_bytes / 1e6:,.0f}" for size in sizes]),
        ("bytes a file (core)", [_each(size) for size in sizes]),
    ]
    for key in KEYS:
        costs = [size.costs[key] for size in sizes]
        name = key.partition(".")[2].replace("_", " ")
        lines += [
            (f"{name}: time", [time_text(cost.seconds) for cost in costs]),
            (f"{name}: requests", [f"{cost.requests:.0f}" for cost in costs]),
            (f"{name}: KB read", [f"{cost.bytes / 1e3:,.0f}" for cost in costs]),
            (f"{name}: peak MB (Arrow)", [f"{cost.peak_mb:.1f} ({cost.arrow_peak_mb:.1f})" for cost in costs]),
        ]
    return lines


def _each(size: Size) -> str:
    return f"{size.index_bytes / size.files:.1f} ({size.core_bytes / size.files:.1f})"


def _grown(key: str, low: Size, high: Size) -> Judgement:
    limit = FAR if high.computed else STEP
    ratio = high.costs[key].seconds / low.costs[key].seconds
    reached = f"{ratio:.2f} ×{', computed' if high.computed else ''}"
    goal = f"{low.files:,} → {high.files:,} ≤ {limit} ×"
    return Judgement(key, goal, reached, "PASS" if ratio <= limit else "MISS")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=_numbers, default=[1_000_000, 10_000_000, 100_000_000], help="sizes, by commas")
    parser.add_argument("--stat-columns", type=int, default=STAT_COLUMNS)
    parser.add_argument("--repeat", type=int, default=9, help="runs a workload; the median counts")
    parser.add_argument("--workers", type=int, help="processes that write the index")
    parser.add_argument("--publish", action="store_true", help="keep the result in benchmarks/published, too")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _measured_sizes(args: argparse.Namespace) -> list[Size]:
    specs = [IndexedSpec(files, args.stat_columns, checkpoint=False) for files in sorted(args.files)]
    for spec in specs:
        PROGRESS.print(f"table of {spec.files:,}: {table_dir(spec)}", markup=False)
        read_once(ensure_indexed(spec, args.workers))
    PROGRESS.print(f"{args.repeat} runs of each of {', '.join(KEYS)} on each table, in turn", markup=False)
    workloads = [(key, spec) for spec in specs for key in KEYS]
    answers = iter(measure_in_turn(workloads, args.repeat, 600))
    return [_size(spec, {key: _cost(next(answers)) for key in KEYS}) for spec in specs]


def _size(spec: IndexedSpec, costs: dict[str, Cost]) -> Size:
    size = index_sizes(spec)
    return Size(spec.files, size.parts, size.manifest, size.core, size.whole, costs)


def _cost(found: Measurement) -> Cost:
    figures = (found.seconds, found.peak_mb, found.arrow_peak_mb, found.told("requests"), found.told("bytes"))
    known = [figure for figure in figures if figure is not None]
    if found.error or len(known) < len(figures):
        raise SystemExit(f"{found.key} failed: {found.error}")
    return Cost(*known)


def _save(args: argparse.Namespace, sizes: Sequence[Size], judgements: Sequence[Judgement], results: Path) -> None:
    document: dict[str, Any] = {
        "environment": environment(),
        "table": to_json(IndexedSpec(max(args.files), args.stat_columns, checkpoint=False)),
        "sizes": [asdict(size) for size in sizes],
        "goals": [asdict(judgement) for judgement in judgements],
    }
    for place in (results, PUBLISHED) if args.publish else (results,):
        place.mkdir(exist_ok=True)
        (place / "scale.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
