"""What a plan says before anything is read is what the scan reads: its commits and parts exactly, the rest at most."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptTableError, VersionNotFoundError
from delta_sidecar.index.format.index_names import DIRECTORIES
from delta_sidecar.limits import ReaderLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing import CountingStore
from tests.properties.indexed import Build, Reader, build_indexed, builds, readers
from tests.properties.predicates import Predicate, predicates
from tests.properties.scenarios import LITERALS, PARTITION_VALUES, Scenario, scenarios
from tests.properties.settings import random_cases, shards

CASES = 25
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried; every base must have had its plans."""
    yield
    print("\nplans:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))
    assert min(tried[f"tier {tier}"] for tier in ("index", "checkpoint", "log")) > 0


@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(
    scenario=scenarios,
    wanted=st.lists(builds, min_size=0, max_size=2),
    reader=readers,
    predicate=predicates({**PARTITION_VALUES, **LITERALS}),
)
def test_a_plan_is_what_is_read(
    shard: int, scenario: Scenario, wanted: list[Build], reader: Reader, predicate: Predicate
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        built, _ = build_indexed(scenario, root, wanted, lambda built: None)
        note(f"log: {sorted(str(p.relative_to(built.builder.log)) for p in built.builder.log.rglob('*'))}")
        for version in (None, *range(built.head + 1)):
            for condition in (None, str(predicate)):
                for columns in (None, ["path", "stats"]):
                    check_plan(root, version, reader.limits, condition, columns)
    finally:
        shutil.rmtree(root)


def check_plan(
    root: Path, version: int | None, limits: ReaderLimits, predicate: str | None, columns: list[str] | None
) -> None:
    shared_cache.clear()
    store = CountingStore(open_store(str(root)))
    try:
        table = DeltaTable(str(root), version=version, store=store, limits=limits)
        scan = table.scan_files(predicate=predicate, columns=columns)
        commits, parts, at_most, told = scan.plan.commit_files, scan.plan.parts, scan.plan.at_most, str(scan.plan)
        opened = len(store.requests)
        files = scan.read_all().num_rows
    except (CorruptTableError, VersionNotFoundError):
        tried["refusals"] += 1
        return
    done = scan.metrics
    if done.fallback_reason and done.tier == "log":
        tried["bases that were broken"] += 1
        return
    tried[f"tier {done.tier}"] += 1
    assert done.files_emitted == files
    assert str(scan.plan) == told, "the plan says the same after the scan"
    assert done.commits_scanned == done.commits_total == len(commits)
    assert at_most.row_groups is None or done.row_groups_read <= at_most.row_groups
    if done.tier not in ("index", "footer"):
        # Delta keeps sidecars of its own checkpoints in the directory of the index.
        assert parts == ()
        return
    read = [request for request in store.requests[opened:] if request.path.endswith(".parquet")]
    read = [request for request in read if request.path.rpartition("/")[0] in DIRECTORIES]
    names = [request.path.rpartition("/")[2] for request in read]
    assert {name.split(".")[0] for name in names} == set(parts)
    assert len({name for name in names if name.endswith(".stats.parquet")}) <= at_most.stats_files
    assert sum(request.bytes for request in read) <= at_most.bytes
