"""Random logs, indexed at random versions, one on top of the other: every index equals the dumb model and verifies."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from tests.index.models import assert_index_is, small_parts
from tests.properties.scenarios import BuiltLog, Scenario, build, scenarios
from tests.properties.settings import random_cases, shards

MEMORY = Path("/dev/shm")
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried: a suite that tries nothing must not look like one that finds nothing."""
    yield
    print("\nindex properties:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))


sort_columns = st.sampled_from([None, None, "p", "q", "x", "s", "f", "d", "t", "e", "modification_time"])
sizes = st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3), st.integers(1, 5))


@pytest.mark.parametrize("shard", shards(100))
@random_cases(100)
@given(
    scenario=scenarios,
    at=st.sets(st.integers(0, 8), min_size=1),
    sort_column=sort_columns,
    part_rows=st.integers(1, 3),
    limits=sizes,
)
def test_every_index_equals_the_model(
    shard: int,
    scenario: Scenario,
    at: set[int],
    sort_column: str | None,
    part_rows: int,
    limits: tuple[int, int, int, int],
) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        built = build(scenario, root)
        note(f"log: {sorted(p.name for p in built.builder.log.iterdir())}")
        tried["logs"] += 1
        options = BuildOptions(sort_column, part_rows=part_rows, limits=small_parts(*limits))
        for version in sorted(at):
            if version <= built.head and built.can_rebuild(version):
                check_version(built, version, options)
    finally:
        shutil.rmtree(root)


def check_version(built: BuiltLog, version: int, options: BuildOptions) -> None:
    store = open_store(str(built.builder.root))
    done = build_index(store, version, options)
    tried[done.mode] += 1
    note(f"{done}")
    assert done.version == version
    files = list(built.builder.state(version).files.values())
    assert done.files == len(files)
    assert_index_is(store, version, files, built.stats_dropped)
    # What a checkpoint dropped may come back with the next one, which no writer but the test's can do.
    if not (built.stats_dropped and done.mode == "incremental"):
        found = verify_index(store, version)
        assert found.ok, found
        tried["verified"] += 1
    assert build_index(store, version, options).mode == "current"
