"""Random logs × indexes × predicates × damages, cut anywhere: a listing and the one that goes on are the whole one."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable, ScanPosition
from delta_sidecar.errors import CorruptIndexError, CorruptTableError, VersionNotFoundError
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage.cache import shared_cache
from tests.properties.indexed import Build, Reader, build_indexed, builds, readers
from tests.properties.predicates import Predicate, predicates
from tests.properties.scenarios import LITERALS, PARTITION_VALUES, Scenario, scenarios
from tests.properties.settings import random_cases, shards

CASES = 60
MEMORY = Path("/dev/shm")
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried: a suite that tries nothing must not look like one that finds nothing."""
    yield
    print("\nresume properties:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))


@pytest.mark.slow
@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(
    scenario=scenarios,
    wanted=st.lists(builds, max_size=2),
    reader=readers,
    # The present makes another predicate each time, with which no listing goes on.
    predicate=st.none() | predicates({**PARTITION_VALUES, **LITERALS}).filter(lambda p: "now()" not in str(p)),
    stats=st.booleans(),
    limit=st.none() | st.integers(0, 5),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    damaged=st.none() | st.integers(0, 9),
    cut=st.integers(0, 9),
)
def test_a_listing_goes_on_where_it_was_cut(
    shard: int,
    scenario: Scenario,
    wanted: list[Build],
    reader: Reader,
    predicate: Predicate | None,
    stats: bool,
    limit: int | None,
    sizes: tuple[int, int],
    damaged: int | None,
    cut: int,
) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    shared_cache.clear()
    try:
        built, _ = build_indexed(scenario, root, wanted, lambda built: None)
        parts = sorted((built.builder.log / "_sidecars").glob("*.parquet"))
        if damaged is not None and parts:
            broken = parts[damaged % len(parts)]
            broken.write_bytes(broken.read_bytes()[:-9])
        note(f"log: {sorted(str(p.relative_to(built.builder.log)) for p in built.builder.log.rglob('*'))}")
        asked: dict[str, Any] = {"predicate": None if predicate is None else str(predicate)}
        asked["columns"] = ["path", "size", "stats"] if stats else None
        tables = [
            DeltaTable(str(root), limits=reader.limits, options={"delta.sidecar.batch_size": size}) for size in sizes
        ]
        check(tables, asked, limit, cut)
    except (CorruptTableError, CorruptIndexError, VersionNotFoundError):
        tried["refusals"] += 1
        assert damaged is not None or not built.can_rebuild(built.head)
    finally:
        shutil.rmtree(root)


def check(tables: list[DeltaTable], asked: dict[str, Any], limit: int | None, cut: int) -> None:
    """Cut after some batches; go on, whole and by pages; then from the end."""
    whole = paths(tables[0].scan_files(**asked, limit=limit))
    tried["listings"] += 1
    with tables[0].scan_files(**asked, limit=limit) as first:
        begun = [path for batch in islice(first, cut) for path in batch.column("path").to_pylist()]
        position = first.position
        tried[first.metrics.tier] += 1
        tried["fallbacks"] += bool(position.fallbacks)
    assert begun == whole[: len(begun)]
    assert position.files == len(begun)
    assert ScanPosition.from_json(position.to_json()) == pickle.loads(pickle.dumps(position)) == position
    if limit is None:
        go_on = tables[1].scan_files(**asked, after=position)
        assert begun + paths(go_on) == whole
        assert go_on.metrics.files_emitted == len(whole) - len(begun)
        assert paths(tables[0].scan_files(**asked, after=go_on.position)) == []
    paged = [*begun]
    while page := paths(scan := tables[1].scan_files(**asked, after=position, limit=2)):
        assert len(page) <= 2
        paged += page
        position = scan.position
    everything = sorted(paths(tables[0].scan_files(**asked)))
    assert sorted(paged) == everything, "each file once, in whatever order the first page was"
    assert paged[: len(whole)] == whole


def paths(scan: FileScan) -> list[str]:
    return [path for batch in scan for path in batch.column("path").to_pylist()]
