"""`sidecar sample`: write a small Delta table on a local disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from delta_sidecar.cli.output import write_facts, write_json
from delta_sidecar.testing.sample_table import SampleReport, SampleShape, write_sample


def write(directory: str, hours: int, files_per_hour: int, rows_per_file: int, seed: int, as_json: bool) -> None:
    """Write the table and print what is in it."""
    report = write_sample(directory, SampleShape(hours, files_per_hour, rows_per_file, seed))
    if as_json:
        write_json(asdict(report))
    else:
        write_facts(_facts(report))


def _facts(report: SampleReport) -> Iterator[tuple[str, str]]:
    yield "table", report.table
    yield "version", str(report.version)
    yield "files", f"{report.files:,}"
    yield "rows", f"{report.rows:,}"
    yield "hours", f"{report.first_hour} to {report.last_hour}"
