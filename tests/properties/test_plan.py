"""What a plan says before anything is read is what the scan reads: its commits and parts exactly, the rest at most."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, product
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
    """Say how much was tried; every base must have had its plans, and checkpoints with sidecar files several."""
    yield
    print("\nplans:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))
    assert min(tried[f"tier {tier}"] for tier in ("index", "checkpoint", "log")) > 0
    if tried["tier checkpoint"] > 75:  # a few cases may lack one of these
        assert min(tried[what] for what in ("sidecars opened", "sidecars not opened")) > 0


@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(
    scenario=scenarios,
    wanted=st.lists(builds, min_size=0, max_size=2),
    reader=readers,
    predicate=predicates({**PARTITION_VALUES, **LITERALS}),
    limit=st.sampled_from([1, 3, 1000]),
)
def test_a_plan_is_what_is_read(
    shard: int, scenario: Scenario, wanted: list[Build], reader: Reader, predicate: Predicate, limit: int
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        built, _ = build_indexed(scenario, root, wanted, lambda built: None)
        note(f"log: {sorted(str(p.relative_to(built.builder.log)) for p in built.builder.log.rglob('*'))}")
        ways = product((None, str(predicate)), (None, ["path", "stats"]))
        asked = product((None, *range(built.head + 1)), ways)
        has_sidecars = any(made.sidecars for _, made in built.builder.checkpoints)
        for (version, (condition, columns)), most, is_local in zip(
            asked, cycle((None, limit, limit)), cycle((False, False, False, True, False)), strict=False
        ):
            check_plan(root, version, reader.limits, condition, columns, most, is_local, has_sidecars)
    finally:
        shutil.rmtree(root)


def check_plan(
    root: Path,
    version: int | None,
    limits: ReaderLimits,
    predicate: str | None,
    columns: list[str] | None,
    limit: int | None,
    is_local: bool,
    has_sidecars: bool,
) -> None:
    """`is_local` reads a directory; otherwise every request is counted."""
    shared_cache.clear()
    store = CountingStore(open_store(str(root)))
    try:
        table = DeltaTable(str(root), version=version, store=None if is_local else store, limits=limits)
        scan = table.scan_files(predicate=predicate, columns=columns, limit=limit)
        plan = scan.plan
        commits, parts, at_most, told = plan.commit_files, plan.parts, plan.at_most, str(plan)
        headline, opened = plan.headline, len(store.requests)
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
    assert done.commits_total == len(commits)
    assert done.commits_scanned == len(commits) or (limit is not None and done.commits_scanned < len(commits))
    assert at_most.row_groups is None or done.row_groups_read <= at_most.row_groups
    assert ("bytes unknown" in headline) == (at_most.bytes is None)
    features = table._snapshot.protocol.readerFeatures or ()
    # A checkpoint may have sidecar files only where the protocol says so.
    if at_most.bytes is not None and ("v2Checkpoint" in features or not has_sidecars or at_most.row_groups is not None):
        assert done.bytes_read <= at_most.bytes + plan.tail_bytes
    if done.tier == "checkpoint":
        opened_base = table._snapshot.opened
        tried["sidecars opened"] += opened_base is not None and len(opened_base.parquet) > len(opened_base.files.files)
        tried["sidecars not opened"] += at_most.bytes is None
        tried["bytes of checkpoints"] += at_most.bytes is not None and opened_base is None
    if done.tier not in ("index", "footer"):
        # Delta keeps sidecars of its own checkpoints in the directory of the index.
        assert parts == () or (limit is not None and files == limit)
        return
    if is_local:
        return
    read = [request for request in store.requests[opened:] if request.path.endswith(".parquet")]
    read = [request for request in read if request.path.rpartition("/")[0] in DIRECTORIES]
    names = [request.path.rpartition("/")[2] for request in read]
    found = {name.split(".")[0] for name in names}
    assert found == set(parts) or (limit is not None and found <= set(parts))
    stats_files = {name for name in names if name.endswith(".stats.parquet")}
    assert len(stats_files) <= at_most.stats_files
    assert sum(request.bytes for request in read) <= at_most.bytes
