"""Random tables × every type of sort key × indexes built as they grow: `limit` gives the newest files, in order.

The promise: live adds of commits after the index, the newest commit first, although some of them are compacted; then
the files of the greatest sort keys, those without a key last.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add, remove
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts
from tests.properties.indexed import Reader, readers
from tests.properties.settings import random_cases, shards

CASES = 50
MEMORY = Path("/dev/shm")
STRATEGIES = ("reverse", "forward", "auto")
tried: Counter[str] = Counter()

PARTITIONS: dict[str, list[tuple[str, Any]]] = {
    "string": [("a", b"a"), ("b", b"b"), ("B", b"B"), ("é", "é".encode()), ("10", b"10"), ("9", b"9")],
    "long": [(str(n), n) for n in (-(2**40), -1, 0, 9, 10, 2**40)],
    "byte": [(str(n), n) for n in (-128, -1, 0, 9, 10)],
    "double": [("-Infinity", float("-inf")), ("-1.5", -1.5), ("1e3", 1000.0), ("Infinity", float("inf"))],
    "decimal(9,2)": [(text, Decimal(text)) for text in ("-1.25", "0.50", "9.75", "10.00")],
    "boolean": [("false", 0), ("true", 1)],
    "binary": [("\x01", b"\x01"), ("~", b"~"), ("a", b"a")],
    "date": [(f"2026-02-{day}", day) for day in (10, 11, 28)],
    "timestamp": [(f"2026-02-10 0{hour}:00:00", hour) for hour in range(4)],
}
"""Texts of partition values of a type, and what they are ordered by."""
BOUNDS: dict[str, list[Any]] = {
    "string": ["a", "b", "B", "é", "10", "9"],
    "long": [-(2**40), -1, 0, 9, 10, 2**40],
    "integer": [-1, 0, 9, 10],
    "float": [-1.5, 0.25, 1000.0],
    "double": [float("-inf"), -1.5, 0.25, float("inf")],
    "decimal(9,2)": [Decimal("-1.25"), Decimal("0.50"), Decimal("9.75"), Decimal("10.00")],
    "date": [date(2026, 2, 10), date(2026, 2, 11), date(1969, 12, 31)],
    "timestamp": [datetime(2026, 2, 10, hour, tzinfo=UTC) for hour in (0, 5, 23)],
    "timestamp_ntz": [datetime(2026, 2, 10, hour) for hour in (0, 5, 23)],
}
"""Minima of a data column of a type: the last texts are ordered by their bytes."""


@dataclass(frozen=True)
class Key:
    """What a table is sorted by."""

    kind: str
    """`partition`, `min` or `modification_time`."""
    type: str

    @property
    def choices(self) -> int:
        """How many values there are; the one beyond them is null."""
        table: dict[str, Any] = PARTITIONS if self.kind == "partition" else BOUNDS
        return len(table[self.type])

    def order(self, choice: int) -> Any:
        """What a choice is ordered by; None for null."""
        if self.kind == "modification_time":
            return choice
        if choice >= self.choices:
            return None
        if self.kind == "partition":
            return PARTITIONS[self.type][choice][1]
        value = BOUNDS[self.type][choice]
        return value.encode() if isinstance(value, str) else value


keys = st.one_of(
    st.sampled_from([Key("partition", name) for name in PARTITIONS]),
    st.sampled_from([Key("min", name) for name in BOUNDS]),
    st.just(Key("modification_time", "long")),
)


@dataclass(frozen=True)
class Step:
    """One commit: files that come, by their keys and times, and files that go; and whether an index is built then."""

    added: list[tuple[int, int | None]]
    removed: list[int]
    part_rows: int | None
    limits: tuple[int, int, int, int]
    row_group_rows: int
    compacted: int | None
    """How many commits before this one are put into a compacted file with it."""


steps = st.builds(
    Step,
    added=st.lists(st.tuples(st.integers(0, 6), st.one_of(st.none(), st.integers(0, 23))), max_size=7),
    removed=st.lists(st.integers(0, 40), max_size=3),
    part_rows=st.sampled_from([None, 1, 2, 3, 4]),
    limits=st.tuples(st.sampled_from([0, 0, 0, 4, 99]), st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)),
    row_group_rows=st.sampled_from([1, 2, 10_000]),
    compacted=st.sampled_from([None, 1, 2, 3]),
)


@dataclass
class Model:
    """The live files, the newest commit first."""

    key: Key
    live: dict[str, tuple[int, Any, bool]] = field(default_factory=dict)
    """By path: the commit, the key, and whether a predicate finds the file."""

    def promised(self, indexed: int, found_only: bool) -> tuple[list[set[str]], list[tuple[bool, Any]]]:
        """The files of each commit after the index, the newest first; then the keys of all others, descending."""
        files = {path: file for path, file in self.live.items() if file[2] or not found_only}
        commits = sorted({commit for commit, _, _ in files.values() if commit > indexed}, reverse=True)
        tail = [{path for path, file in files.items() if file[0] == commit} for commit in commits]
        base = [rank(key) for commit, key, _ in files.values() if commit <= indexed]
        return tail, sorted(base, reverse=True)


def rank(key: Any) -> tuple[bool, Any]:
    """Null is below all."""
    return key is not None, key if key is not None else 0


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    print("\nnewest first:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))
    assert 5 * tried["tier index"] > tried["tier log"]
    if tried["listings"] > 500:  # a few cases may lack one of these
        assert min(tried[what] for what in ("tier footer", "merged", "compacted")) > 0


@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(
    key=keys,
    history=st.lists(steps, min_size=1, max_size=6),
    reader=readers,
    limit=st.integers(1, 12),
    tail=st.integers(0, 3),
)
def test_a_limit_gives_the_newest_files(
    shard: int, key: Key, history: list[Step], reader: Reader, limit: int, tail: int
) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    shared_cache.clear()
    try:
        model, indexed = make(root, key, history, tail)
        note(f"log: {sorted(str(p.relative_to(root)) for p in root.rglob('*'))}")
        assert indexed < 0 or verify_index(open_store(str(root))).problems == ()
        for store in (open_store(str(root)), CountingStore(open_store(str(root)))):
            check(model, indexed, DeltaTable(str(root), store=store, limits=reader.limits), limit)
        sidecars = root / "_delta_log" / "_sidecars"
        if (sidecars / f"v{indexed}.parquet").exists():
            (sidecars / f"v{indexed}.manifest.json").unlink()
            shared_cache.clear()
            check(model, indexed, DeltaTable(str(root), limits=reader.limits), limit)
    finally:
        shutil.rmtree(root)


def make(root: Path, key: Key, history: list[Step], tail: int) -> tuple[Model, int]:
    """A table, and the version of its newest index; -1 without one. The last `tail` commits are not in an index."""
    log = LogBuilder(root)
    log.protocol(reader=3, features=["timestampNtz"]).metadata(
        {"k": key.type, "ts": "timestamp", "x": "long"}, partition_by=["k"] if key.kind == "partition" else []
    )
    model, indexed, number = Model(key), -1, 0
    for version, step in enumerate(history):
        gone = [path for path in sorted(model.live) if number and int(path[1:]) % 41 in step.removed]
        added = []
        for choice, hour in step.added:
            added.append((f"f{number}", choice, hour))
            number += 1
        log.commit(*(remove(path) for path in gone), *(file(key, *one) for one in added))
        for path in gone:
            del model.live[path]
        model.live |= {path: (version, key.order(choice), int(path[1:]) % 3 != 1) for path, choice, _ in added}
        if step.part_rows is not None and version < len(history) - tail:
            limits = small_parts(*step.limits, row_group_rows=step.row_group_rows)
            by = "modification_time" if key.kind == "modification_time" else "k"
            build_index(open_store(str(root)), options=BuildOptions(by, "ts", part_rows=step.part_rows, limits=limits))
            indexed = version
        first = max(indexed + 1, version - (step.compacted or 0))
        if first < version:
            log.compact(first, version)
    return model, indexed


def file(key: Key, path: str, choice: int, hour: int | None) -> Any:
    known = choice < key.choices
    bounds: dict[str, Any] = {"x": int(path[1:]) % 3}
    if hour is not None:
        bounds["ts"] = datetime(2026, 2, 10, hour, tzinfo=UTC)
    if key.kind == "min" and known:
        bounds["k"] = BOUNDS[key.type][choice]
    return add(
        path,
        size=int(path[1:]) + 1,
        modification_time=choice if key.kind == "modification_time" else 7,
        partition={"k": PARTITIONS[key.type][choice][0] if known else None} if key.kind == "partition" else {},
        stats={"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"x": 0}},
    )


WAYS: dict[str, Callable[[DeltaTable, str, str | None, int], FileScan]] = {
    "plain": lambda table, strategy, predicate, limit: table.scan_files(predicate, None, limit, strategy),
    "stats": lambda table, strategy, predicate, limit: table.scan_files(predicate, FILE_SCHEMA.names, limit, strategy),
    "path": lambda table, strategy, predicate, limit: table.scan_files(predicate, ["path"], limit, strategy),
}


def check(model: Model, indexed: int, table: DeltaTable, limit: int) -> None:
    for predicate in (None, "x <> 1"):
        tail, base = model.promised(indexed, predicate is not None)
        for scanned, strategy in zip(WAYS.values(), (*STRATEGIES[limit % 3 :], *STRATEGIES), strict=False):
            with scanned(table, strategy, predicate, limit) as scan:
                paths = [path for batch in scan for path in batch["path"].to_pylist()]
            tried[f"tier {scan.metrics.tier}"] += 1
            assert_promised(model, tail, base, indexed, limit, paths)
        infos = [info.path for info in table.file_infos(predicate, limit=limit)]
        assert_promised(model, tail, base, indexed, limit, infos)
        uris = [uri.rpartition("/")[2] for uri in table.file_uris(predicate=predicate, limit=limit)]
        assert_promised(model, tail, base, indexed, limit, uris)
        tried["merged"] += is_merged(table)
        tried["compacted"] += any(commit.first < commit.last for commit in table._snapshot.segment.commits)


def is_merged(table: DeltaTable) -> bool:
    base: Any = table._snapshot.segment.base
    parts = () if base is None else base.part_order.newest_first(range(len(base.manifest.parts)))
    return bool(parts) and base.part_order.overlap(parts)


def assert_promised(
    model: Model, tail: list[set[str]], base: list[tuple[bool, Any]], indexed: int, limit: int, paths: list[str]
) -> None:
    """The commits of the tail one after the other, then the greatest keys; each file once."""
    tried["listings"] += 1
    assert len(paths) == len(set(paths)) == min(limit, sum(map(len, tail)) + len(base))
    at = 0
    for commit in tail:
        some = paths[at : at + len(commit)]
        assert set(some) <= commit
        at += len(some)
    rest = paths[at:]
    assert [rank(model.live[path][1]) for path in rest] == base[: len(rest)]
    assert all(model.live[path][0] <= indexed for path in rest)
