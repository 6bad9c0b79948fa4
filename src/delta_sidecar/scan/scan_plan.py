"""The plan of a scan: a value that can be printed, tested and counted, made before any file is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from delta_sidecar.log.discovery import SPECULATIVE_COMMITS
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.predicates.expression import Column, Expression

_SMALL_TAIL = 1 << 20


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a scan will read, in which order, and why."""

    table: str
    version: int
    base: str
    base_bytes: int
    commits: int
    tail: str
    tail_bytes: int
    state_source: str
    strategy: str
    reason: str
    predicate: str | None
    pruning: str | None
    """What files are pruned by, where it is more than the predicate: a range of the time bucket."""
    stats_columns: tuple[str, ...]
    columns: tuple[str, ...]
    limit: int | None
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"table      {self.table}",
            f"version    {self.version} (protocol and metadata from the {self.state_source})",
            f"base       {self.base}, {counted(self.base_bytes, 'byte')}"
            if self.base_bytes
            else f"base       {self.base}",
            f"tail       {self.tail}, {counted(self.tail_bytes, 'byte')}",
            f"strategy   {self.strategy}: {self.reason}",
            f"predicate  {self.predicate or 'none'}",
            f"columns    {', '.join(self.columns)}",
        ]
        if self.pruning:
            lines.append(f"pruned by  {self.pruning}")
        if self.stats_columns:
            lines.append(f"stats of   {', '.join(self.stats_columns)}")
        if self.limit is not None:
            lines.append(f"limit      {self.limit:,}")
        lines += [f"note       {note}" for note in self.notes]
        return "\n".join(lines)


def counted(count: int, noun: str) -> str:
    """A number of things, in words: `1 file`, `2 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def choose_strategy(wanted: str, snapshot: Snapshot, limit: int | None) -> tuple[str, str]:
    """The strategy of a scan and the reason for it."""
    if wanted != "auto":
        return wanted, "asked for"
    tail = snapshot.segment
    if limit is not None:
        return "reverse", f"the newest commits may hold the {counted(limit, 'file')} asked for"
    if len(tail.commits) > SPECULATIVE_COMMITS:
        return "reverse", f"a tail of {counted(len(tail.commits), 'commit')} is emitted while it is fetched"
    if tail.tail_bytes > _SMALL_TAIL:
        return "reverse", f"a tail of {counted(tail.tail_bytes, 'byte')} is emitted while it is read"
    return "forward", f"a tail of {counted(tail.tail_bytes, 'byte')} is read at once"


def make_plan(
    snapshot: Snapshot,
    strategy: tuple[str, str],
    predicate: Expression | None,
    pruning: Expression | None,
    stats: list[Column],
    columns: tuple[str, ...],
    limit: int | None,
) -> ScanPlan:
    segment = snapshot.segment
    commits = segment.commits
    span = f"{commits[0].first} to {commits[-1].last}" if commits else "none"
    return ScanPlan(
        table=snapshot.store.root_uri,
        version=snapshot.version,
        base=str(segment.base) if segment.base else "none: the log from version 0",
        base_bytes=segment.base.size if segment.base else 0,
        commits=len(commits),
        tail=f"{counted(len(commits), 'commit')} ({span})",
        tail_bytes=segment.tail_bytes,
        state_source=snapshot.state_source,
        strategy=strategy[0],
        reason=strategy[1],
        predicate=None if predicate is None else str(predicate),
        pruning=None if pruning is None or pruning == predicate else str(pruning),
        stats_columns=tuple(map(str, stats)),
        columns=columns,
        limit=limit,
        notes=snapshot.notes,
    )
