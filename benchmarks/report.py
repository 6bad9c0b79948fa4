"""Prints what a run found, goals beside figures, and keeps it as JSON."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Judgement
from benchmarks.measure import Measurement, available_memory
from benchmarks.specs import Spec, to_json

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("delta-sidecar", "deltalake", "pyarrow", "obstore", "msgspec", "numpy", "pandas")
READERS = ("ours", "deltalake", "pyarrow")
# deltalake's plain open is what listing is held against: it has no answer before it.
BASELINES = {"first_file": "deltalake.open", "all_arrow": "deltalake.open", "all_objects": "deltalake.open"}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the benchmarks: where, with what, on which tables, and what came out."""

    files: int
    specs: dict[str, Spec]
    measurements: dict[str, Measurement]
    judgements: list[Judgement]
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes on disk."""


def environment() -> dict[str, Any]:
    """Versions and machine: figures mean nothing without them."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "available_memory_gb": round(available_memory() / 1e9, 1),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def show(run: Run, console: Console) -> None:
    """Print the figures, then the goals, then what they were measured on."""
    console.print(_figures(run), goals_table(run.judgements))
    show_notes(run.measurements, console)


def show_notes(measurements: Mapping[str, Measurement], console: Console) -> None:
    """Print what failed, what was not measured in this run, and on what all was measured."""
    for found in measurements.values():
        if found.error:
            console.print(f"FAILED {found.key}: {found.error}", style="red", markup=False)
        if found.recorded:
            console.print(f"* {found.key} was not measured in this run: {found.recorded}", style="yellow", markup=False)
    console.print(_environment_line(), style="dim", markup=False)


def save(run: Run, path: Path) -> None:
    """Write everything, single runs included, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "environment": environment(),
        "files": run.files,
        "tables": {name: to_json(spec) for name, spec in run.specs.items()},
        "measurements": [dataclasses.asdict(found) for found in run.measurements.values()],
        "goals": [dataclasses.asdict(judgement) for judgement in run.judgements],
        **({"bytes": run.sizes} if run.sizes else {}),
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def load_recorded(path: Path, files: int, reader: str) -> dict[str, Measurement]:
    """Measurements of one reader from an earlier run at the same size, labelled with where they come from."""
    document = json.loads(path.read_text())
    if document["files"] != files:
        raise SystemExit(f"{path} holds a run of {document['files']} files, not of {files}: measure again")
    label = f"recorded {document['environment']['time']} in {path.name}"
    found = [Measurement(**{**entry, "recorded": label}) for entry in document["measurements"]]
    return {entry.key: entry for entry in found if entry.key.startswith(f"{reader}.") and not entry.error}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _environment_line() -> str:
    facts = environment()
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in facts["versions"].items())
    return f"Python {facts['python']}, {facts['cpus']} CPUs, {facts['platform']}; {versions}"


def _figures(run: Run) -> Table:
    table = Table(title=f"{run.files:,} files: median seconds and peak MB over imports", title_justify="left")
    table.add_column("workload", no_wrap=True)
    for header in ("count", "ours s", "MB", "deltalake s", "MB", "ours / deltalake", "pyarrow s", "MB"):
        table.add_column(header, justify="right")
    for name in _workload_names(run):
        table.add_row(name, *_row(run, name))
    return table


def _workload_names(run: Run) -> list[str]:
    return list(dict.fromkeys(key.split(".", 1)[1] for key in run.measurements))


def _row(run: Run, name: str) -> list[str]:
    ours, peer, raw = (run.measurements.get(f"{reader}.{name}") for reader in READERS)
    baseline = peer or run.measurements.get(BASELINES.get(name, ""))
    count = next((str(found.count) for found in (ours, peer, raw) if found and found.count is not None), "")
    return [count, *_cells(ours), *_cells(peer), _ratio(ours, baseline, peer), *_cells(raw)]


def _cells(found: Measurement | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    if found.error or found.seconds is None or found.peak_mb is None:
        return "FAILED", ""
    return f"{found.seconds:.3f}{'*' if found.recorded else ''}", f"{found.peak_mb:.0f}"


def _ratio(ours: Measurement | None, baseline: Measurement | None, peer: Measurement | None) -> str:
    if not ours or not baseline or not ours.seconds or not baseline.seconds:
        return ""
    text = f"{ours.seconds / baseline.seconds:.4f}"
    return text if baseline is peer else f"{text} (of open)"


def goals_table(judgements: list[Judgement]) -> Table:
    """Goals beside what was reached."""
    table = Table(title="Goals", title_justify="left")
    for header in ("workload", "goal", "reached", "verdict"):
        table.add_column(header, no_wrap=True)
    styles = {"PASS": "green", "MISS": "red", "FAILED": "red", "SKIPPED": "yellow"}
    for judgement in judgements:
        style = styles[judgement.verdict]
        cells = (judgement.subject, judgement.goal, judgement.reached, f"[{style}]{judgement.verdict}[/]")
        table.add_row(*cells)
    return table
