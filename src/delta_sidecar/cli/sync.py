"""`sidecar sync`: a table that follows another, with Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

from delta_sidecar.cli.failures import say_line
from delta_sidecar.cli.output import write_facts, write_json
from delta_sidecar.cli.progress import Progress
from delta_sidecar.cli.stop_signals import stopped_by_signals
from delta_sidecar.errors import DeltaSidecarError, SparkError
from delta_sidecar.lake.sync_job import SyncJob, SyncReport, SyncStep, keep_in_sync
from delta_sidecar.pipeline.session import spark_session


@dataclass(slots=True)
class Session:
    """Spark, started when a step first needs it."""

    stack: ExitStack
    job: SyncJob
    master: str | None
    conf: Mapping[str, str] = field(repr=False)
    verbose: bool
    progress: Progress
    spark: Any = None

    def get(self) -> Any:
        if self.spark is None:
            self.progress.say("starting Spark")
            places = [self.job.source, self.job.target]
            own = spark_session(
                self.master, self.conf, self.job.storage_options, places, "delta-sidecar sync", self.verbose
            )
            self.spark = self.stack.enter_context(own)
            self.progress.watch(self.spark)
            self.progress.say(f"{self.job.way.strategy.value} into {self.job.target}")
        return self.spark


@dataclass(frozen=True, slots=True)
class Order:
    """How the command runs."""

    full: bool
    dry_run: bool
    watch: bool
    interval: float
    as_json: bool
    verbose: bool


def run(job: SyncJob, order: Order, master: str | None, conf: Mapping[str, str]) -> None:
    """Bring the target up to the source, once or until stopped."""
    with ExitStack() as stack, Progress() as progress:
        session = Session(stack, job, master, conf, order.verbose, progress)
        if order.watch:
            _follow(job, order, session, progress)
            return
        report = job.run(
            session.get, full=order.full, dry_run=order.dry_run, progress=progress.say, on_step=_teller(order)
        )
    _tell(report, order.as_json)


def _teller(order: Order) -> Callable[[SyncStep], None] | None:
    """With `--json` each step is printed as soon as it is done."""
    return (lambda step: write_json({"step": msgspec.to_builtins(step)})) if order.as_json else None


def _follow(job: SyncJob, order: Order, session: Session, progress: Progress) -> None:
    """Run again and again until stopped, always after a whole step. A run that changed nothing prints nothing."""
    with stopped_by_signals() as stop:
        is_first = True

        def once() -> None:
            nonlocal is_first
            try:
                report = job.run(
                    session.get,
                    full=order.full and is_first,
                    progress=progress.say,
                    on_step=_teller(order),
                    stop=stop.is_set,
                )
            except SparkError:
                if not stop.is_set():
                    raise
                # The signal went to Spark's process, too.
                say_line("stopped in the middle of a step; the next run repeats it", {})
                return
            is_first = False
            if report.steps:
                _tell(report, order.as_json)
            progress.say(f"the target has version {report.version}; waiting for the next one")

        def failed(error: DeltaSidecarError, delay: float) -> None:
            say_line(f"{error}; trying again in {delay:.0f} s", job.storage_options or {})

        keep_in_sync(once, stop, order.interval, failed)


def _tell(report: SyncReport, as_json: bool) -> None:
    if as_json:
        write_json({**_object(report), "is_current": report.is_current})
    else:
        write_facts(_lines(report))


def _object(report: SyncReport) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(report)
    return made


def _lines(report: SyncReport) -> Iterator[tuple[str, str]]:
    yield "source", f"{report.source}, version {report.head}"
    has = "nothing yet" if report.version is None else f"version {report.version} of the source"
    yield "target", f"{report.target}, {has}"
    yield "cursor", report.name
    for step in report.steps:
        yield step.kind, _what(step, report.dry_run)
    if not report.steps:
        yield "steps", "none: nothing is new"
    if report.dry_run:
        yield "dry run", "nothing was written"
    else:
        yield "seconds", f"{report.seconds:.1f}"


def _what(step: SyncStep, is_planned: bool) -> str:
    versions = (
        f"version {step.end}"
        if step.start >= step.end or step.kind == "snapshot"
        else (f"versions {step.start} to {step.end}")
    )
    if step.kind == "recovered":
        return f"{versions}: already in the target, so only the cursor moves"
    if is_planned:
        return f"{versions} to be applied"
    counts = ((step.inserted, "inserted"), (step.updated, "updated"), (step.deleted, "deleted"))
    told = ", ".join(f"{count:,} {what}" for count, what in counts if count is not None)
    return f"{versions}: {told or 'no rows changed'} ({step.seconds:.1f} s)"
