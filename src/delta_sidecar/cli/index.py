"""`sidecar build` and `sidecar verify`: build the index of a table, and check it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from click.exceptions import Exit

from delta_sidecar.cli.failures import UNEXPECTED
from delta_sidecar.cli.output import write_facts, write_json
from delta_sidecar.cli.progress import Progress
from delta_sidecar.cli.stop_signals import stopped_by_signals
from delta_sidecar.errors import DeltaSidecarError, OptionError
from delta_sidecar.index.build.build import ON_SPARK, BuildOptions, BuildReport
from delta_sidecar.index.verify.verify import VerifyReport, verify_index
from delta_sidecar.pipeline.index_watch import watch
from delta_sidecar.pipeline.spark_build import build_index
from delta_sidecar.storage import open_store
from delta_sidecar.storage.metered import MeteredStore
from delta_sidecar.texts import counted, sized

_log = logging.getLogger(__name__)


def build(
    table: str,
    version: int | None,
    options: BuildOptions,
    storage_options: Mapping[str, str],
    master: str | None,
    conf: Mapping[str, str],
    as_json: bool,
) -> None:
    """Build an index and print the report."""
    with Progress() as progress:
        progress.say("reading the log")
        step = _Steps(progress)
        done = build_index(table, version, storage_options, options=options, master=master, conf=conf, progress=step)
    _tell(done, as_json)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Shows the steps of a build. The reason for Spark stays on the screen, because Spark takes a while to start."""

    progress: Progress

    def __call__(self, step: str) -> None:
        (self.progress.note if step.startswith(ON_SPARK) else self.progress.say)(step)


def follow(
    table: str,
    options: BuildOptions,
    storage_options: Mapping[str, str],
    master: str | None,
    conf: Mapping[str, str],
    interval: float,
    tail_commits: int | None,
    as_json: bool,
) -> None:
    """Index each new checkpoint until stopped."""
    if options.full:
        raise OptionError("--full and --watch cannot be used together: a watch builds on the existing index")
    with Progress() as progress, stopped_by_signals() as stop:
        progress.say("waiting for a checkpoint")

        def built(done: BuildReport) -> None:
            _tell(done, as_json)
            progress.say(f"version {done.version} is indexed, waiting for the next checkpoint")

        def failed(error: DeltaSidecarError, delay: float) -> None:
            progress.say(f"{error}; trying again in {delay:.0f} s")

        watch(
            table, storage_options, interval=interval, tail_commits=tail_commits, stop=stop, on_build=built,
            on_error=failed, options=options, master=master, conf=conf, progress=_Steps(progress),
        )  # fmt: skip


def _tell(done: BuildReport, as_json: bool) -> None:
    if as_json:
        write_json(asdict(done))
    else:
        write_facts(_built(done))


def _built(done: BuildReport) -> Iterator[tuple[str, str]]:
    yield "version", str(done.version)
    yield "files", f"{done.files:,}"
    yield "index", f"{done.manifest}, {sized(done.index_bytes)}"
    if done.mode == "current":
        yield "built", "nothing: the index is up to date"
    else:
        base = f" on version {done.built_on}" if done.built_on is not None else ""
        where = "on Spark" if done.engine == "spark" else "in one process"
        yield "built", f"{done.mode}{base}, {where}, in {done.seconds:.1f} s"
        if done.reason:
            yield "engine", done.reason
        yield "parts", f"{done.parts:,}: {done.parts_written:,} written, {done.parts_reused:,} reused"
    yield from (("metadata", f"{key} = {value}") for key, value in done.user_metadata.items())
    yield from (("note", note) for note in done.notes)


def verify(table: str, version: int | None, storage_options: Mapping[str, str], as_json: bool) -> None:
    """Check an index; a problem is exit code 1."""
    with Progress() as progress:
        progress.say("reading the manifest and the newest commits")
        store = MeteredStore(open_store(table, storage_options))
        report = verify_index(store, version, progress=progress.say)
    cost = store.cost
    _log.info("%s, %s in all", counted(cost.requests, "request"), sized(cost.bytes_read))
    if as_json:
        write_json(_as_object(report))
    else:
        write_facts(_verified(report))
    if not report.ok:
        raise Exit(UNEXPECTED)


def _verdict(report: VerifyReport) -> str:
    files, parts = counted(report.files, "file"), counted(report.parts, "part")
    return f"{files} in {parts} {'agrees' if report.files == 1 else 'agree'} with the log"


def _as_object(report: VerifyReport) -> dict[str, Any]:
    return {"ok": report.ok, **asdict(report)}


def _verified(report: VerifyReport) -> Iterator[tuple[str, str]]:
    yield "index", report.manifest or "none"
    if report.ok:
        yield "verified", f"version {report.version}: {_verdict(report)}"
    yield from (("metadata", f"{key} = {value}") for key, value in report.user_metadata.items())
    yield from (("problem", problem) for problem in report.problems)
    yield from (("note", note) for note in report.notes)
