"""`sidecar maintain`: the upkeep of a table, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from delta_sidecar.cli.output import write_facts, write_json
from delta_sidecar.cli.progress import Progress
from delta_sidecar.errors import OptionError
from delta_sidecar.pipeline.ingest import bytes_of
from delta_sidecar.pipeline.maintain import STEPS, MaintenanceReport, maintain


@dataclass(frozen=True, slots=True)
class Order:
    """What the command was asked to do."""

    table: str
    dry_run: bool
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    retain_hours: float | None = None
    target_file_size: str = "128MB"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def steps(self) -> list[str]:
        """The steps that are left."""
        unknown = {*self.only, *self.skip} - set(STEPS)
        if unknown:
            raise OptionError(f"no step {', '.join(sorted(unknown))}; the steps are {', '.join(STEPS)}")
        return [step for step in STEPS if step not in self.skip and (not self.only or step in self.only)]


def run(order: Order, master: str | None, conf: Mapping[str, str], as_json: bool) -> None:
    """Carry out an order and say what was done."""
    with Progress() as progress:
        done = maintain(
            None,
            order.table,
            order.storage_options,
            steps=order.steps,
            dry_run=order.dry_run,
            retain_hours=order.retain_hours,
            target_file_size=bytes_of(order.target_file_size),
            master=master,
            conf=conf,
            progress=progress.say,
        )
    if as_json:
        write_json(msgspec.to_builtins(done))
    else:
        write_facts(_lines(done))


def _lines(done: MaintenanceReport) -> Iterator[tuple[str, str]]:
    yield "table", done.uri
    yield "version", str(done.version)
    for step in done.steps:
        yield step.step, f"{step.state}: {step.summary}" + ("" if done.dry_run else f" ({step.seconds:.1f} s)")
    if done.dry_run:
        yield "dry run", "nothing was written"
