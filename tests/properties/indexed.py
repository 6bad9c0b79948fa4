"""Random logs with indexes built at random moments of their history, and readers in every state.

Parts, row groups, stats files and tails of real tables are large; here the limits are small, so that a few files show
what a million would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from delta_sidecar.index.build import part_writer as index_parts
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.read import part_file
from delta_sidecar.index.read import part_scan as scan_parts
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


@dataclass(frozen=True)
class Reader:
    """The limits a reader works with."""

    row_group_rows: int
    in_threads: bool
    by_ranges: bool
    """Whether files of parts come by ranges however small they are."""
    is_warm: bool
    """Whether the table is opened again and again while it grows, by a process that remembers it."""


builds = st.builds(
    Build,
    version=st.integers(0, 8),
    late=st.sampled_from([False, False, True]),
    sort_column=st.sampled_from(SORT_COLUMNS),
    part_rows=st.integers(1, 3),
    limits=st.tuples(st.sampled_from([0, 0, 1, 2, 9]), st.integers(0, 4), st.integers(0, 3), st.integers(1, 5)),
)
readers = st.builds(Reader, st.sampled_from([1, 2, 10_000]), st.booleans(), st.booleans(), st.booleans())


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
    options = BuildOptions(how.sort_column, part_rows=how.part_rows)
    with small_parts(*how.limits):
        return build_index(open_store(str(built.builder.root)), how.version, options).version


@contextmanager
def small_limits(reader: Reader) -> Iterator[None]:
    """Row groups of a few rows, decoding on threads, files read by ranges: as with large tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_parts, "ROW_GROUP_ROWS", reader.row_group_rows)
        if reader.in_threads:
            patch.setattr(scan_parts, "_FEW_ROWS", -1)
            patch.setattr(scan_parts, "_HELPERS", 1)
        if reader.by_ranges:
            patch.setattr(part_file, "WHOLE_STATS", 0)
            patch.setattr(part_file, "WHOLE_CORE", 0)
        yield
