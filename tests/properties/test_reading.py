"""Random logs × indexes built at random moments × every strategy × every version: reading through the index gives what
the dumb model gives, and every column is what the checkpoint or the log would have said.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptTableError, VersionNotFoundError
from delta_sidecar.flow.read_ahead import shared_read_ahead
from delta_sidecar.limits import ReaderLimits
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.storage.cache import shared_cache
from tests.properties.indexed import Build, Reader, build_indexed, builds, readers
from tests.properties.predicates import Predicate, matches, predicates
from tests.properties.scenarios import LITERALS, PARTITION_VALUES, BuiltLog, Scenario, scenarios
from tests.properties.settings import random_cases, shards
from tests.properties.test_listing import partition_row, records_of, vector_of, whole_rows

CASES = 40
STRATEGIES = ("reverse", "forward", "auto")
MEMORY = Path("/dev/shm")
Row = Mapping[str, Any]
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried; a suite that never reads through an index finds nothing."""
    yield
    print("\nreading:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))
    through = tried["tier index"] + tried["tier footer"]
    assert through * 4 > sum(count for what, count in tried.items() if what.startswith("tier "))


@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(
    scenario=scenarios,
    wanted=st.lists(builds, min_size=1, max_size=3),
    reader=readers,
    on_partitions=predicates(PARTITION_VALUES),
    on_anything=predicates({**PARTITION_VALUES, **LITERALS}),
    limit=st.integers(0, 6),
)
def test_reading_through_an_index_equals_the_model(
    shard: int,
    scenario: Scenario,
    wanted: list[Build],
    reader: Reader,
    on_partitions: Predicate,
    on_anything: Predicate,
    limit: int,
) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    shared_cache.clear()
    try:
        look = partial(look_again, limits=reader.limits) if reader.is_warm else lambda built: None
        built, indexed = build_indexed(scenario, root, wanted, look)
        note(f"log: {sorted(str(p.relative_to(built.builder.log)) for p in built.builder.log.rglob('*'))}")
        note(f"predicates: {on_partitions} · {on_anything}")
        tried["logs"] += 1
        tried["indexes"] += len(indexed)
        for version in (None, *range(built.head + 1), None):
            check_version(built, version, reader.limits, on_partitions, on_anything, limit)
    finally:
        shutil.rmtree(root)
    assert shared_read_ahead.taken == 0


def look_again(built: BuiltLog, limits: ReaderLimits) -> None:
    """The newest version, by a process that may remember an older one: its files, and those it had, are told."""
    tried["looks"] += 1
    live = built.builder.state().files.values()
    table = DeltaTable(str(built.builder.root), limits=limits)
    assert table.version() == built.builder.version
    assert sizes(table, "auto") == sorted(body["size"] for body in live)


def check_version(
    built: BuiltLog,
    version: int | None,
    limits: ReaderLimits,
    on_partitions: Predicate,
    on_anything: Predicate,
    limit: int,
) -> None:
    """A version lists as the model says, or (only if it cannot be rebuilt from the log) is refused."""
    number = built.head if version is None else version
    root = str(built.builder.root)
    try:
        table = DeltaTable(root, version=version, limits=limits)
        found = listed(table, "auto")
    except (CorruptTableError, VersionNotFoundError):
        tried["refusals"] += 1
        assert not built.can_rebuild(number)
        return
    state = built.builder.state(number)
    assert table.version() == number
    assert table.metadata().configuration == (state.metadata or {})["configuration"]
    live = {body["size"]: body for body in state.files.values()}
    assert_rows(built, found, live)
    for strategy in STRATEGIES:
        check_strategy(built, table, live, strategy, on_partitions, on_anything)
    check_limit(table, live, limit, on_anything)
    if built.can_rebuild(number):
        plain = DeltaTable(root, version=version, limits=limits, options={"delta.sidecar.enabled": False})
        check_without_index(plain, found)
        if not built.texts_dropped:
            assert bounds_of(table, found) == bounds_of(plain, found)


def check_strategy(
    built: BuiltLog,
    table: DeltaTable,
    live: Mapping[int, Row],
    strategy: str,
    on_partitions: Predicate,
    on_anything: Predicate,
) -> None:
    """All files; those of a predicate on partitions exactly; of any other at least those with a matching row."""
    assert sizes(table, strategy) == sorted(live)
    chosen = sorted(size for size, body in live.items() if on_partitions(partition_row(body)) is True)
    assert sizes(table, strategy, predicate=str(on_partitions)) == chosen
    kept = sizes(table, strategy, predicate=str(on_anything))
    assert len(kept) == len(set(kept))
    assert set(kept) <= set(live)
    lost = {s for s, body in live.items() if matches(on_anything, whole_rows(built, body))} - set(kept)
    assert not lost, "a file with a matching row was lost"


def check_limit(table: DeltaTable, live: Mapping[int, Row], limit: int, predicate: Predicate) -> None:
    for strategy in STRATEGIES:
        found = sizes(table, strategy, limit=limit)
        assert len(found) == len(set(found)) == min(limit, len(live))
        assert set(found) <= set(live)
    everything = sizes(table, "auto", predicate=str(predicate))
    assert len(sizes(table, "auto", predicate=str(predicate), limit=limit)) == min(limit, len(everything))


def bounds_of(table: DeltaTable, found: Mapping[int, Row]) -> list[str]:
    """What the stats of all files say, column by column."""
    tried["bounds"] += 1
    stats = table.get_stats_for_files([row["path"] for row in found.values()])
    return sorted(map(repr, stats.to_pylist()))


def check_without_index(plain: DeltaTable, found: Mapping[int, Row]) -> None:
    """Without the index, the same rows with the same values."""
    others = listed(plain, "auto", tally=False)
    assert set(others) == set(found)
    for size, row in found.items():
        for name in set(FILE_SCHEMA.names) - {"stats", "num_records", "partition_values", "tags"}:
            assert row[name] == others[size][name], name
    with plain.scan_files() as scan:
        list(scan)
        assert scan.metrics.tier in ("checkpoint", "log")


def listed(table: DeltaTable, strategy: str, tally: bool = True) -> dict[int, Row]:
    """Every column of every file, by its size, which is different for every add."""
    with table.scan_files(columns=FILE_SCHEMA.names, strategy=strategy) as scan:
        rows = scan.read_all().to_pylist()
        tried[f"tier {scan.metrics.tier}"] += tally
        tried["fallbacks"] += tally and scan.metrics.fallback_reason is not None
    assert len({row["size"] for row in rows}) == len(rows)
    return {row["size"]: row for row in rows}


def sizes(table: DeltaTable, strategy: str, **arguments: Any) -> list[int]:
    tried["listings"] += 1
    with table.scan_files(strategy=strategy, **arguments) as scan:
        return sorted(size for batch in scan for size in batch.column("size").to_pylist())


def assert_rows(built: BuiltLog, found: Mapping[int, Row], live: Mapping[int, Row]) -> None:
    """The files of the model, each once, with all that its add says."""
    assert sorted(found) == sorted(live)
    for size, row in found.items():
        body = live[size]
        assert (row["path"], row["modification_time"]) == (body["path"], body["modificationTime"])
        assert dict(row["partition_values"]) == body["partitionValues"]
        assert vector_of(row["deletion_vector"]) == vector_of(body.get("deletionVector"))
        assert dict(row["tags"] or []) == (body.get("tags") or {})
        assert row["base_row_id"] == body.get("baseRowId")
        assert row["num_records"] in records_of(body, built.stats_dropped)
        if not built.texts_dropped:
            tried["stats"] += 1
            assert stats_value(row["stats"]) == stats_value(body.get("stats"))


def stats_value(text: str | None) -> Any:
    """Stats by value: what cannot be parsed is its own text, what says nothing is nothing."""
    try:
        return _said(json.loads(text or "{}", parse_float=Decimal, parse_int=Decimal))
    except ValueError:
        return text


def _said(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {k: kept for k, v in value.items() if (kept := _said(v)) not in (None, {})}
