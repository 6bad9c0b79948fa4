"""The native library in a C process beside our reader: `make bench-native N=10000000`, after `make native`.

The table has an index and a tail of ten commits. A fresh C process asks for one hour, twice: the first call and the
next one, and the memory that they take above the process's own. Then all files, by callback and as a stream, beside
`scan_files` in a warm Python process, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.flight import read_here
from benchmarks.goals import Judgement
from benchmarks.index_tables import ensure_indexed
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.runs import read_once
from benchmarks.specs import BUCKET, IndexedSpec

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = Path(os.environ.get("DELTA_SIDECAR_NATIVE", ROOT / "build" / "native" / "release" / "libdelta_sidecar.so"))
FIRST_MS, FIRST_MB, NEXT_MS = 50, 20, 20
STREAM_RATIO, CALLBACK_US, LIBRARY_MB = 1.5, 1.0, 10
PROGRESS = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class Run:
    """One C process: microseconds and files of each call, and the kilobytes its calls added."""

    micros: tuple[int, ...]
    busy: tuple[int, ...]
    """Of the processor: what a call takes where nothing else runs."""
    files: int
    kilobytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured, medians of all rounds."""

    first_ms: float
    first_busy_ms: float
    next_ms: float
    next_busy_ms: float
    hour_mb: float
    hour_files: int
    stream_s: float
    python_s: float
    callback_us: float
    callback_busy_us: float
    files: int
    library_mb: float


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Make the table, measure, judge, save; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args(arguments)
    if not LIBRARY.exists():
        PROGRESS.print(f"{LIBRARY} is missing; run `make native`", markup=False)
        return 2
    spec = IndexedSpec(args.files, checkpoint=False)
    table = ensure_indexed(spec, args.workers)
    read_once(table)
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        found = measured(program, table, f"{BUCKET} = '{spec.log.last_hour}'", args.repeat)
    judged = judgements(found)
    Console(width=None if sys.stdout.isatty() else 140).print(goals_table(judged))
    results.mkdir(exist_ok=True)
    document = {"environment": environment(), "spec": asdict(spec), "found": asdict(found)}
    document["goals"] = [asdict(judgement) for judgement in judged]
    (results / "native.json").write_text(json.dumps(document, indent=1) + "\n")
    return 1 if any(judgement.verdict != "PASS" for judgement in judged) else 0


def compiled(folder: Path) -> Path:
    """The C program, linked with the library."""
    (folder / "libdelta_sidecar.so").symlink_to(LIBRARY.resolve())
    source, program = Path(__file__).with_suffix(".c"), folder / "native"
    flags = ["-O2", "-I", str(ROOT / "native"), "-L", str(folder), f"-Wl,-rpath,{folder}"]
    subprocess.run(["cc", *flags, str(source), "-ldelta_sidecar", "-o", str(program)], check=True)
    return program


def measured(program: Path, table: Path, hour: str, repeat: int) -> Found:
    hours = [run(program, table, {"predicate": hour}, "lazy", 2) for _ in range(repeat)]
    streams, callbacks, ours = [], [], []
    for _ in range(max(1, repeat // 2)):
        streams.append(run(program, table, {}, "stream", 1))
        ours.append(read_here(str(table)))
        callbacks.append(run(program, table, {}, "lazy", 1))
    files = streams[0].files
    assert {files} == {each.files for each in (*streams, *callbacks, *ours)}
    return Found(
        first_ms=statistics.median(each.micros[0] for each in hours) / 1e3,
        first_busy_ms=statistics.median(each.busy[0] for each in hours) / 1e3,
        next_ms=statistics.median(each.micros[1] for each in hours) / 1e3,
        next_busy_ms=statistics.median(each.busy[1] for each in hours) / 1e3,
        hour_mb=statistics.median(each.kilobytes for each in hours) / 1e3,
        hour_files=hours[0].files,
        stream_s=statistics.median(each.micros[0] for each in streams) / 1e6,
        python_s=statistics.median(each.whole for each in ours),
        callback_us=statistics.median(each.micros[0] for each in callbacks) / files,
        callback_busy_us=statistics.median(each.busy[0] for each in callbacks) / files,
        files=files,
        library_mb=LIBRARY.stat().st_size / 1e6,
    )


def run(program: Path, table: Path, options: dict[str, str], kind: str, calls: int) -> Run:
    command: Sequence[str] = [str(program), str(table), json.dumps(options), kind, str(calls)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    numbers = [[int(word) for word in line.split()] for line in lines]
    before, after = numbers.pop()
    micros, busy, files = zip(*numbers, strict=True)
    return Run(micros, busy, files[0], after - before)


def judgements(found: Found) -> list[Judgement]:
    """The goals: pure, so that they can be tested."""
    ratio = found.stream_s / found.python_s
    return [
        _judged(
            "one hour, first call",
            f"≤ {FIRST_MS} ms",
            _times(found.first_ms, found.first_busy_ms),
            found.first_ms <= FIRST_MS,
        ),
        _judged("one hour, memory", f"≤ {FIRST_MB} MB", f"{found.hour_mb:.1f} MB", found.hour_mb <= FIRST_MB),
        _judged(
            "one hour, next call",
            f"≤ {NEXT_MS} ms",
            _times(found.next_ms, found.next_busy_ms),
            found.next_ms <= NEXT_MS,
        ),
        _judged("all files as a stream", f"≤ {STREAM_RATIO:g} × ours", f"{ratio:.2f} ×", ratio <= STREAM_RATIO),
        _judged(
            "all files by callback",
            f"≤ {CALLBACK_US:g} µs a file",
            f"{found.callback_us:.2f} µs ({found.callback_busy_us:.2f} busy)",
            found.callback_us <= CALLBACK_US,
        ),
        _judged("the library", f"≤ {LIBRARY_MB} MB", f"{found.library_mb:.1f} MB", found.library_mb <= LIBRARY_MB),
    ]


def _times(whole: float, busy: float) -> str:
    return f"{whole:.1f} ms ({busy:.1f} busy)"


def _judged(subject: str, goal: str, reached: str, holds: bool) -> Judgement:
    return Judgement(subject, goal, reached, "PASS" if holds else "MISS")


if __name__ == "__main__":
    raise SystemExit(main())
