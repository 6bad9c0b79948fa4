"""The plan of a scan: what it will read, in which order and why. It can be printed and counted, and the scan runs it.

Commits and parts are known before they are read; for row groups, bytes and stats files the plan has upper bounds,
except for what is known only when a checkpoint is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.listing.base import BROKEN, AtMost, BasePlan
from delta_sidecar.listing.live_files import LiveFiles, plan_base
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.segment import OtherBase
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.settings import STRATEGIES
from delta_sidecar.texts import counted, sized

if TYPE_CHECKING:
    from delta_sidecar.predicates.expression import Expression

_SMALL_TAIL = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class ScanPlan:
    """What a scan will read, in which order, and why. `print` shows it; `as_dict` returns it for programs.

    A pickled plan can be printed but not run: it has no store and no credentials.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> plan = DeltaTable("events").scan_files("id = 3", limit=1).plan
        >>> plan.version, plan.commits, plan.strategy, plan.predicate
        (3, 4, 'reverse', 'id = 3')
    """

    snapshot: Snapshot
    request: FileRequest
    condition: Expression | None
    """The predicate as it was given."""
    strategy: str
    """`reverse`: files as commits are read; `forward`: all commits first. Both read the newest commit first."""
    reason: str
    """Why this strategy."""
    base_plan: BasePlan | None

    def run(self) -> LiveFiles:
        """The iterator that reads what the plan says. It can be used once."""
        if "snapshot" not in vars(self):
            raise InputError("a pickled plan cannot be run; call scan_files on the table")
        return LiveFiles(self.snapshot, self.request, self.base_plan, at_once=self.strategy == "forward")

    @cached_property
    def table(self) -> str:
        return self.snapshot.store.root_uri

    @cached_property
    def version(self) -> int:
        return self.snapshot.version

    @cached_property
    def base(self) -> str:
        base = self.snapshot.segment.base
        return "none: the log from version 0" if base is None else str(base)

    @cached_property
    def base_bytes(self) -> int:
        base = self.snapshot.segment.base
        return 0 if base is None else base.size

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the index that will be read; empty without an index, or if it is damaged."""
        return self._of_base[0]

    @property
    def at_most(self) -> AtMost:
        """Upper bounds of what will be read of the base; unknown if it is damaged."""
        return self._of_base[1]

    @property
    def damage(self) -> str | None:
        """Why the base cannot be read, if the plan already shows it: another base will be read instead."""
        return self._of_base[2]

    @cached_property
    def _of_base(self) -> tuple[tuple[str, ...], AtMost, str | None]:
        if self.base_plan is None:
            return (), AtMost(0, 0), None
        try:
            return self.base_plan.parts, self.base_plan.at_most, None
        except BROKEN as error:
            return (), AtMost(None, None), str(error)

    @cached_property
    def commits(self) -> int:
        return len(self.snapshot.segment.commits)

    @cached_property
    def commit_files(self) -> tuple[str, ...]:
        """The commits that will be read, newest first."""
        return tuple(commit.file.path for commit in reversed(self.snapshot.segment.commits))

    @cached_property
    def tail(self) -> str:
        commits = self.snapshot.segment.commits
        span = f"{commits[0].first} to {commits[-1].last}" if commits else "none"
        return f"{counted(len(commits), 'commit')} ({span})"

    @cached_property
    def tail_bytes(self) -> int:
        return self.snapshot.segment.tail_bytes

    @cached_property
    def predicate(self) -> str | None:
        return None if self.condition is None else str(self.condition)

    @cached_property
    def pruning(self) -> str | None:
        """The condition that prunes files, if it is more than the predicate: it then includes a time bucket range."""
        whole = None if self.request.pruning is None else self.request.pruning.whole
        return None if whole is None or whole == self.condition else str(whole)

    @cached_property
    def stats_columns(self) -> tuple[str, ...]:
        return tuple(map(str, self.request.pruner.stats_columns))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.request.output

    @cached_property
    def limit(self) -> int | None:
        return self.request.limit

    @cached_property
    def state_source(self) -> str:
        """Where protocol and metadata came from."""
        return self.snapshot.state_source

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Problems found in the log, and what was read instead."""
        return self.snapshot.notes

    @cached_property
    def reads(self) -> str | None:
        """What is read of the base, as text; None if there is no base."""
        if self.base_plan is None:
            return None
        if self.damage is not None:
            return f"another base instead: {self.damage}"
        parts = [counted(len(self.parts), "part")] if self.parts or self.at_most.row_groups == 0 else []
        return ", ".join([*parts, self._bounds(self.at_most.bytes)])

    @cached_property
    def headline(self) -> str:
        """Upper bounds of what will be read, in one line."""
        base = self.snapshot.segment.base
        if self.damage is not None:
            return f"reads another base instead of {base}: it is damaged"
        parts = []
        if isinstance(base, OtherBase):
            parts = [f"{len(self.parts):,} of {counted(base.part_count, 'part')}"]
        commits = [counted(self.commits, "commit")] if self.commits else []
        size = None if self.at_most.bytes is None else self.at_most.bytes + self.tail_bytes
        return f"reads {self._bounds(size, before=parts, after=commits)}"

    def _bounds(self, size: int | None, before: Sequence[str] = (), after: Sequence[str] = ()) -> str:
        """Row groups and stats files of the base and some bytes, at most, with what is known beside them."""
        most = self.at_most
        bounds = [
            *before,
            *([] if most.row_groups is None or self.base_plan is None else [counted(most.row_groups, "row group")]),
            *([counted(most.stats_files, "stats file")] if most.stats_files else []),
            *([] if size is None else [sized(size)]),
            *after,
        ]
        unknown = ["bytes unknown until the base is opened"] if size is None else []
        return "; ".join([*([f"at most {', '.join(bounds)}"] if bounds else []), *unknown])

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FACTS}

    def __setstate__(self, facts: dict[str, Any]) -> None:
        vars(self).update(facts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScanPlan) and self.as_dict() == other.as_dict()

    def __repr__(self) -> str:
        return f"<ScanPlan of version {self.version} of {self.table!r}>"

    def as_dict(self) -> dict[str, Any]:
        at_most = self.at_most
        return {
            "table": self.table,
            "version": self.version,
            "base": self.base,
            "base_bytes": self.base_bytes,
            "parts": self.parts,
            "row_groups_at_most": at_most.row_groups,
            "bytes_at_most": at_most.bytes,
            "stats_files_at_most": at_most.stats_files,
            "damage": self.damage,
            "commits": self.commits,
            "commit_files": self.commit_files,
            "tail": self.tail,
            "tail_bytes": self.tail_bytes,
            "state_source": self.state_source,
            "strategy": self.strategy,
            "reason": self.reason,
            "predicate": self.predicate,
            "pruning": self.pruning,
            "stats_columns": self.stats_columns,
            "columns": self.columns,
            "limit": self.limit,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        return as_lines(self.facts())

    def facts(self) -> list[tuple[str, str]]:
        """The lines that `print` shows: names and values."""
        size = f", {sized(self.base_bytes)}" if self.base_bytes else ""
        return [
            ("table", self.table),
            ("version", f"{self.version} (protocol and metadata from the {self.state_source})"),
            ("base", f"{self.base}{size}"),
            *([("reads", self.reads)] if self.reads is not None else []),
            ("tail", f"{self.tail}, {sized(self.tail_bytes)}" if self.commits else "none"),
            ("strategy", f"{self.strategy}: {self.reason}"),
            ("predicate", self.predicate or "none"),
            ("columns", ", ".join(self.columns)),
            *([("pruned by", self.pruning)] if self.pruning else []),
            *([("stats of", ", ".join(self.stats_columns))] if self.stats_columns else []),
            *([("limit", f"{self.limit:,}")] if self.limit is not None else []),
            *(("note", note) for note in self.notes),
        ]


_FACTS = (
    "strategy",
    "reason",
    *(name for name, value in vars(ScanPlan).items() if isinstance(value, cached_property)),
)
"""The fields that a pickled plan keeps; all others are needed only to run it."""


def make_plan(snapshot: Snapshot, request: FileRequest, predicate: Expression | None, strategy: str | None) -> ScanPlan:
    """What a scan of a snapshot will read for a request; nothing is read here."""
    snapshot = request.order.as_read(snapshot)
    chosen, reason = _strategy(strategy or request.settings.strategy, snapshot, request.limit)
    return ScanPlan(snapshot, request, predicate, chosen, reason, plan_base(snapshot, request))


def as_lines(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values, one per line."""
    return "\n".join(f"{name:<9}  {value}" for name, value in facts)


def _strategy(strategy: str, snapshot: Snapshot, limit: int | None) -> tuple[str, str]:
    """The strategy of a scan and the reason for it."""
    if strategy not in STRATEGIES:
        raise OptionError(f"strategy is {strategy!r}; it takes one of {', '.join(STRATEGIES)}")
    if strategy != "auto":
        return strategy, "as requested"
    segment = snapshot.segment
    if not segment.commits:
        return "forward", "there is no tail"
    if limit is not None:
        return "reverse", f"the newest commits may hold the {counted(limit, 'file')} asked for"
    if len(segment.commits) > snapshot.commits.limits.guesses:
        return "reverse", f"a tail of {counted(len(segment.commits), 'commit')} is listed while it is fetched"
    if segment.tail_bytes > _SMALL_TAIL:
        return "reverse", f"a tail of {sized(segment.tail_bytes)} is listed while it is read"
    return "forward", f"a tail of {sized(segment.tail_bytes)} is read at once"
