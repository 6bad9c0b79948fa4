"""Random logs × random predicates × every strategy × every version: the listing equals the dumb model.

One property draws a whole scenario, so that a failure shrinks to the smallest log that shows it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptTableError, LogGapError, VersionNotFoundError
from tests.properties.predicates import Predicate, matches, predicates
from tests.properties.scenarios import LITERALS, PARTITION_VALUES, BuiltLog, Scenario, build, scenarios
from tests.properties.settings import random_cases, shards

CASES = 80
STRATEGIES = ("reverse", "forward", "auto")
MEMORY = Path("/dev/shm")
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried: a suite that tries nothing must not look like one that finds nothing."""
    yield
    print("\nproperties:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))


@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(
    scenario=scenarios,
    on_partitions=predicates(PARTITION_VALUES),
    on_anything=predicates({**PARTITION_VALUES, **LITERALS}),
    limit=st.integers(0, 6),
)
def test_every_way_of_listing_equals_the_model(
    shard: int, scenario: Scenario, on_partitions: Predicate, on_anything: Predicate, limit: int
) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        built = build(scenario, root)
        note(f"log: {sorted(p.name for p in built.builder.log.iterdir())}")
        tried["logs"] += 1
        check_versions(built)
        if built.can_rebuild(built.head):
            table = DeltaTable(str(root))
            for strategy in STRATEGIES:
                check_predicates(built, table, on_partitions, on_anything, strategy)
                check_limit(built, table, limit, strategy)
            check_arrow(built, table)
    finally:
        shutil.rmtree(root)


def check_versions(built: BuiltLog) -> None:
    """Every version that can be rebuilt lists as the model says; every other one is refused."""
    for version in range(built.head):
        check_version(built, version, STRATEGIES[version % 3 :][:1])
    check_version(built, built.head, ("auto",))
    check_version(built, None, STRATEGIES)
    with pytest.raises((VersionNotFoundError, CorruptTableError)):
        DeltaTable(str(built.builder.root), version=built.head + 1)


def check_version(built: BuiltLog, version: int | None, strategies: Sequence[str]) -> None:
    number = built.head if version is None else version
    if not built.can_rebuild(number):
        check_refused(built, version, strategies[0])
        return
    state = built.builder.state(number)
    table = DeltaTable(str(built.builder.root), version=version)
    assert table.version() == number
    assert (table.metadata().configuration, table.protocol().min_reader_version) == (
        (state.metadata or {})["configuration"],
        (state.protocol or {})["minReaderVersion"],
    )
    for strategy in strategies:
        tried["listings"] += 1
        assert_same_files(table.file_infos(strategy=strategy), state.files.values())


def check_refused(built: BuiltLog, version: int | None, strategy: str) -> None:
    """A gap behind something that is there is a gap; a log without its beginning may also be called too old."""
    beginning = 0 in built.commits or any(v <= built.head for v in built.listed)
    allowed: tuple[type[Exception], ...] = (CorruptTableError,) if built.broken else (LogGapError,)
    with pytest.raises(allowed if version is None and beginning else (*allowed, VersionNotFoundError)) as raised:
        list(DeltaTable(str(built.builder.root), version=version).file_infos(strategy=strategy))
    tried["refusals"] += 1
    assert "\n" not in str(raised.value)


def check_predicates(
    built: BuiltLog, table: DeltaTable, on_partitions: Predicate, on_anything: Predicate, strategy: str
) -> None:
    """Partition predicates are exact; others lose no file that holds a matching row."""
    live = list(built.builder.state(built.head).files.values())
    chosen = [body for body in live if on_partitions(partition_row(body)) is True]
    note(f"predicates: {on_partitions} · {on_anything}")
    assert_same_files(table.file_infos(predicate=str(on_partitions), strategy=strategy), chosen)

    kept = Counter(f.size for f in table.file_infos(predicate=str(on_anything), strategy=strategy))
    tried["predicates"] += 2
    assert kept <= Counter(body["size"] for body in live), "each live file at most once, and nothing else"
    wanted = {body["size"] for body in live if matches(on_anything, whole_rows(built, body))}
    assert wanted <= set(kept), "a file with a matching row was lost"


def check_limit(built: BuiltLog, table: DeltaTable, limit: int, strategy: str) -> None:
    live = built.builder.state(built.head).files.values()
    found = list(table.file_infos(limit=limit, strategy=strategy))
    assert len(found) == min(limit, len(live))
    assert Counter(map(listed, found)) <= Counter(map(logged, live))


def check_arrow(built: BuiltLog, table: DeltaTable) -> None:
    """All that an `add` says comes out as Arrow, too."""
    live = {body["size"]: body for body in built.builder.state(built.head).files.values()}
    columns = ["size", "path", "num_records", "tags", "base_row_id", "deletion_vector"]
    with table.scan_files(columns=columns) as scan:
        found = pa.RecordBatchReader.from_stream(scan).read_all()
    assert found.column_names == columns
    rows = found.to_pylist()
    assert sorted(row["size"] for row in rows) == sorted(live)
    for row in rows:
        body = live[row["size"]]
        assert (row["path"], row["base_row_id"]) == (body["path"], body.get("baseRowId"))
        assert dict(row["tags"] or []) == (body.get("tags") or {})
        assert vector_of(row["deletion_vector"]) == vector_of(body.get("deletionVector"))
        assert row["num_records"] in records_of(body, built.stats_dropped)


def records_of(body: Mapping[str, Any], dropped: bool) -> set[int | None]:
    """What a listing may say of a file's rows: what its stats say, or nothing where a checkpoint dropped them."""
    try:
        said: int | None = json.loads(body.get("stats") or "{}").get("numRecords")
    except ValueError:
        said = None
    return {said, None} if dropped else {said}


def whole_rows(built: BuiltLog, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**row, **partition_row(body)} for row in built.rows[body["size"]]]


def partition_row(body: Mapping[str, Any]) -> dict[str, Any]:
    p, q = body["partitionValues"]["p"], body["partitionValues"]["q"]
    return {"p": p or None, "q": None if q is None else int(q)}


def assert_same_files(found: Iterable[Any], expected: Iterable[Mapping[str, Any]]) -> None:
    assert sorted(map(listed, found), key=repr) == sorted(map(logged, expected), key=repr)


def listed(info: Any) -> tuple[Any, ...]:
    partition = tuple(sorted(dict(info.partition_values).items()))
    return info.path, info.size, info.modification_time, partition, vector_of(info.deletion_vector)


def logged(body: Mapping[str, Any]) -> tuple[Any, ...]:
    partition = tuple(sorted(body["partitionValues"].items()))
    return body["path"], body["size"], body["modificationTime"], partition, vector_of(body.get("deletionVector"))


def vector_of(vector: Any) -> tuple[Any, ...] | None:
    """A deletion vector's fields, out of a mapping or an object."""
    if vector is None:
        return None
    get = vector.get if isinstance(vector, Mapping) else lambda name: getattr(vector, name)
    return tuple(get(name) for name in ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality"))
