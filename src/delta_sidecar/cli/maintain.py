"""`sidecar maintain`: maintain tables, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from click.exceptions import Exit

from delta_sidecar.cli.failures import MENDABLE, UNEXPECTED, say_line, without_secrets
from delta_sidecar.cli.output import write_facts, write_json
from delta_sidecar.cli.progress import Progress
from delta_sidecar.errors import OptionError
from delta_sidecar.pipeline.ingest_job import bytes_of
from delta_sidecar.pipeline.maintenance import (
    ABORTS_WRITERS,
    HARMLESS,
    STEPS,
    MaintenanceReport,
    maintain,
    maintain_tables,
)


@dataclass(frozen=True, slots=True)
class Order:
    """The arguments of the command."""

    tables: Sequence[str]
    dry_run: bool
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    retain_hours: float | None = None
    target_file_size: str = "128MB"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def steps(self) -> list[str]:
        """The steps to run. A checkpoint is made only if it is named."""
        unknown = {*self.only, *self.skip} - set(STEPS)
        if unknown:
            raise OptionError(f"no step {', '.join(sorted(unknown))}; the steps are {', '.join(STEPS)}")
        return [step for step in STEPS if step not in self.skip and step in (self.only or HARMLESS)]


def run(order: Order, master: str | None, conf: Mapping[str, str], as_json: bool) -> None:
    """Maintain the tables and print a report for each; the kind of failures decides the exit code."""
    if "checkpoint" in order.steps and not order.dry_run:
        say_line(f"warning: {ABORTS_WRITERS}", order.storage_options)
    failed: list[MaintenanceReport] = []
    with Progress() as progress:
        for number, report in enumerate(_reports(order, master, conf, progress)):
            shown = _without_secrets(report, order.storage_options)
            if as_json:
                write_json(msgspec.to_builtins(shown))
            else:
                write_facts([*([("", "")] if number else []), *_lines(shown)])
            for line in _complaints(shown):
                say_line(line, order.storage_options)
            failed += [report] if report.failed else []
    if failed:
        raise Exit(UNEXPECTED if any(report.unexpected for report in failed) else MENDABLE)


def _reports(
    order: Order, master: str | None, conf: Mapping[str, str], progress: Progress
) -> Iterator[MaintenanceReport]:
    """One report per table. If there is only one table and it cannot be read, that is an error of the command."""
    given: dict[str, Any] = {
        "steps": order.steps,
        "dry_run": order.dry_run,
        "retain_hours": order.retain_hours,
        "target_file_size": bytes_of(order.target_file_size),
        "master": master,
        "conf": conf,
        "progress": progress.say,
    }
    if len(order.tables) == 1:
        yield maintain(order.tables[0], order.storage_options, **given)
    else:
        yield from maintain_tables(order.tables, order.storage_options, **given)


def _without_secrets(report: MaintenanceReport, stores: Mapping[str, str]) -> MaintenanceReport:
    """The report without secrets: the messages of failed steps come from other libraries and may hold some."""
    steps = tuple(replace(step, summary=without_secrets(step.summary, stores)) for step in report.steps)
    return replace(report, steps=steps, error=report.error and without_secrets(report.error, stores))


def _complaints(report: MaintenanceReport) -> Iterator[str]:
    yield from (f"warning: {report.uri}: {text}" for text in report.warnings if text != ABORTS_WRITERS)
    if report.error is not None:
        yield f"{report.uri}: {report.error}"
    yield from (f"{report.uri}: {step.step} failed: {step.summary}" for step in report.steps if step.state == "failed")


def _lines(done: MaintenanceReport) -> Iterator[tuple[str, str]]:
    yield "table", done.uri
    if done.error is not None:
        yield "failed", done.error
        return
    yield "version", str(done.version)
    for step in done.steps:
        yield step.step, f"{step.state}: {step.summary}" + ("" if done.dry_run else f" ({step.seconds:.1f} s)")
    if done.dry_run:
        yield "dry run", "nothing was written"
