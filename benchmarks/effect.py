"""The effect on one screen: `python -m benchmarks.effect`, with which `make demo` begins.

A log of a million files with an index, made once and kept. Then the first file and the last hour, here and in
`deltalake`, each in a fresh process: time, peak memory over imports, and the ratios. All figures are of this run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from benchmarks.index_tables import ensure_indexed
from benchmarks.measure import Measurement
from benchmarks.picture import memory_text, time_text
from benchmarks.runs import measured, read_once
from benchmarks.specs import IndexedSpec, table_dir

REPEAT = 3
"""Runs of ours, of which the median counts; `deltalake` takes seconds and runs once."""
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of both readers, and the workloads that ask it."""

    what: str
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Pair:
    """What a question cost each reader."""

    question: Question
    ours: Measurement
    theirs: Measurement


FIRST_FILE = Question("first file", "index.first_file", "deltalake.open")
LAST_HOUR = Question("last hour", "index.last_hour", "deltalake.partition_predicate")


def main(arguments: list[str] | None = None) -> int:
    """Make the table unless it is there, measure, show; 1 if a measurement failed or the answers differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.effect", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000, help="files of the log")
    spec = IndexedSpec(parser.parse_args(arguments).files)
    console = Console(highlight=False)
    _make(spec, console)
    pairs = [_measured(question, spec) for question in (FIRST_FILE, LAST_HOUR)]
    console.print(effect_table(spec.files, pairs))
    console.print(
        f"Measured in this run, in fresh processes that open the table: ours is the median of {REPEAT}, deltalake runs "
        "once and has no answer before it has opened the table. Memory is counted over imports. The log has no data "
        "files: a listing needs none.",
        style="dim",
    )
    problem = problem_of(pairs)
    if problem:
        console.print(f"effect: {problem}", style="red")
    return 1 if problem else 0


def effect_table(files: int, pairs: Sequence[Pair]) -> Table:
    """Both readers side by side."""
    table = Table(title=f"A log of {files:,} files, with an index", title_justify="left")
    table.add_column("time, peak memory")
    for header in ("Delta Sidecar", f"deltalake {version('deltalake')}", "ratio"):
        table.add_column(header, justify="right", no_wrap=True)
    for pair in pairs:
        ours, theirs = pair.ours, pair.theirs
        ratios = (_ratio(ours.seconds, theirs.seconds), _ratio(ours.peak_mb, theirs.peak_mb))
        table.add_row(_what(pair), _figures(ours), _figures(theirs), ", ".join(filter(None, ratios)))
    return table


def problem_of(pairs: Sequence[Pair]) -> str | None:
    """A measurement that failed, or two answers that differ; None if all is well."""
    for pair in pairs:
        for found in (pair.ours, pair.theirs):
            if found.error:
                return f"{found.key} was not measured: {found.error}"
        if pair.question is LAST_HOUR and pair.ours.count != pair.theirs.count:
            return f"{pair.ours.count} files of the last hour here, {pair.theirs.count} in deltalake; this is a bug"
    return None


def _make(spec: IndexedSpec, console: Console) -> None:
    if not table_dir(spec).exists():
        console.print(f"making a log of {spec.files:,} files and its index, once", end=" … ")
        started = time.perf_counter()
        ensure_indexed(spec)
        console.print(f"{time.perf_counter() - started:.0f} s")
    read_once(table_dir(spec))


def _measured(question: Question, spec: IndexedSpec) -> Pair:
    quiet = Console(quiet=True)
    ours = measured(question.ours, spec, REPEAT, TIMEOUT_S, quiet)
    return Pair(question, ours, measured(question.theirs, spec, 1, TIMEOUT_S, quiet))


def _what(pair: Pair) -> str:
    found = pair.ours.count if pair.question is LAST_HOUR else None
    return pair.question.what if found is None else f"{pair.question.what} ({found:,} files)"


def _figures(found: Measurement) -> str:
    if found.seconds is None or found.peak_mb is None:
        return "–"
    return f"{time_text(found.seconds)}, {memory_text(found.peak_mb)}"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return "" if not ours or not theirs else f"1/{theirs / ours:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
