"""Random logs with indexes built at random moments of their history, and readers in every state.

Parts, row groups, stats files and tails of real tables are large; here the limits are small, so that a few files show
what a million would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.limits import MaskLimits, PartLimits, ReaderLimits
from delta_sidecar.storage import open_store
from tests.index.models import small_parts
from tests.properties.scenarios import BuiltLog, Scenario, build

SORT_COLUMNS = (None, None, "p", "q", "x", "s", "f", "d", "t", "e", "modification_time")


@dataclass(frozen=True)
class Build:
    """One build of an index: when, and how."""

    version: int
    """Modulo the length of the history."""
    late: bool
    """After the log was finished and damaged, instead of when the version was the newest."""
    sort_column: str | None
    part_rows: int
    limits: tuple[int, int, int, int]
    row_group_rows: int


@dataclass(frozen=True)
class Reader:
    """The limits a reader works with."""

    in_threads: bool
    by_ranges: bool
    """Whether files of parts come by ranges however small they are."""
    is_warm: bool
    """Whether the table is opened again and again while it grows, by a process that remembers it."""
    small_masks: bool
    """Whether a few keys are as many."""

    @property
    def limits(self) -> ReaderLimits:
        """Decoding on threads, files read by ranges: as with large tables."""
        parts = PartLimits(few_rows=-1, helpers=1) if self.in_threads else PartLimits()
        parts = replace(parts, whole_stats=0, whole_core=0) if self.by_ranges else parts
        few = MaskLimits(recent_keys=3, array_keys=1, joined_arrays=2, search_keys=0)
        return ReaderLimits(parts=parts, mask=few if self.small_masks else MaskLimits())


builds = st.builds(
    Build,
    version=st.integers(0, 8),
    late=st.sampled_from([False, False, True]),
    sort_column=st.sampled_from(SORT_COLUMNS),
    part_rows=st.integers(1, 3),
    limits=st.tuples(st.sampled_from([0, 0, 1, 2, 9]), st.integers(0, 4), st.integers(0, 3), st.integers(1, 5)),
    row_group_rows=st.sampled_from([1, 2, 10_000]),
)
readers = st.builds(Reader, st.booleans(), st.booleans(), st.booleans(), st.booleans())


def build_indexed(
    scenario: Scenario, root: Path, wanted: list[Build], look: Callable[[BuiltLog], None]
) -> tuple[BuiltLog, set[int]]:
    """The log of a scenario with its indexes, and their versions; `look` is called whenever something has changed."""
    done: set[int] = set()
    wanted = [replace(how, version=how.version % len(scenario.history)) for how in wanted]

    def now(built: BuiltLog) -> None:
        look(built)
        for how in wanted:
            if how.version == built.builder.version and not how.late:
                done.add(_build(built, how))
                look(built)

    built = build(scenario, root, now)
    for late in sorted((b for b in wanted if b.late), key=lambda b: b.version):
        if late.version <= built.head and built.can_rebuild(late.version):
            done.add(_build(built, late))
    return built, done


def _build(built: BuiltLog, how: Build) -> int:
    limits = small_parts(*how.limits, row_group_rows=how.row_group_rows)
    options = BuildOptions(how.sort_column, part_rows=how.part_rows, limits=limits)
    return build_index(open_store(str(built.builder.root)), how.version, options).version
