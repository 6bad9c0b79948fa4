"""Reading through an index where the table changed since, where it is wide, and where the store fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, BuildReport, build_index
from delta_sidecar.limits import PartLimits, ReaderLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.options import RetryPolicy, StoreSettings
from delta_sidecar.storage.retrying import RetryingStore
from delta_sidecar.testing.actions import AddFile, add, column, metadata, protocol, remove
from delta_sidecar.testing.stores import CountingStore, Faults, FaultyStore, SlowStore
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression
from tests.fuzz.tables import HEAD, QUERIES, Made, check_listings, make_table
from tests.index.models import small_parts


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


def indexed(builder: LogBuilder, single: bool = False, **options: Any) -> BuildReport:
    return build_index(
        open_store(str(builder.root)),
        options=BuildOptions(part_rows=2, **options, limits=small_parts(single=1_000 if single else 1, rows=2)),
    )


def file(
    number: int, values: Mapping[str, Any] | None = None, partition: Mapping[str, str | None] | None = None
) -> AddFile:
    """A file of one row; its stats say what it holds."""
    bounds = dict(values or {})
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
    return add(f"f{number}.parquet", size=number, partition=partition or {}, stats=stats)


def found_by(
    builder: LogBuilder, predicate: str | None = None, limits: ReaderLimits | None = None, **options: Any
) -> list[int]:
    """The files of a predicate, through the index, and the same without it."""
    sizes = []
    for enabled in (True, False):
        options = {**options, "delta.sidecar.enabled": enabled}
        table = DeltaTable(str(builder.root), options=options, limits=limits)
        with table.scan_files(predicate) as scan:
            sizes.append(sorted(size for batch in scan for size in batch["size"].to_pylist()))
        assert scan.metrics.tier == ("index" if enabled else "log")
        assert scan.metrics.fallback_reason is None
    assert sizes[0] == sizes[1]
    return sizes[0]


# The table changed since.


def test_a_column_added_since(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long"}).commit(*(file(n, {"x": n}) for n in range(6)))
    indexed(log)
    log.commit(metadata({"x": "long", "y": "long"}), file(10, {"x": 1, "y": 7}))
    assert found_by(log, "y = 7") == [*range(6), 10]
    assert found_by(log, "y IS NULL") == [*range(6)]
    assert found_by(log, "x = 5 OR y = 7") == [*range(6), 10]
    assert found_by(log, "x = 5") == [5]


def test_a_column_dropped_since(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long", "y": "string"})
    log.commit(*(file(n, {"x": n, "y": "a"}) for n in range(4)))
    indexed(log, sort_column="y")
    log.commit(metadata({"x": "long"}), file(10, {"x": 1}))
    assert found_by(log, "x = 1") == [1, 10]
    assert found_by(log) == [*range(4), 10]


@pytest.mark.parametrize("sort_column", [None, "x", "t"])
def test_a_column_made_anew_with_another_type(tmp_path: Path, sort_column: str | None) -> None:
    """What the index knows of it is of another type: unknown, and the file stays."""
    log = LogBuilder(tmp_path).metadata({"x": "string", "t": "timestamp"})
    log.commit(*(file(n, {"x": str(n), "t": f"2026-01-0{n + 1}T00:00:00Z"}) for n in range(4)))
    indexed(log, sort_column=sort_column)
    log.commit(metadata({"x": "long", "t": "date"}), file(10, {"x": 99, "t": "2026-01-09"}))
    assert set(found_by(log, "x >= 50")) >= {10}
    assert set(found_by(log, "t >= DATE '2026-01-09'")) >= {10}
    assert found_by(log) == [*range(4), 10]


def test_a_sort_column_widened_between_two_builds(tmp_path: Path) -> None:
    """Days and microseconds do not compare: parts of both never stand in one index."""
    log = LogBuilder(tmp_path).protocol(3, features=["typeWidening", "timestampNtz"]).metadata({"x": "date"})
    log.commit(*(file(n, {"x": f"2026-01-0{n + 1}"}) for n in range(4)))
    indexed(log, sort_column="x")
    log.commit(metadata({"x": "timestamp_ntz"}), file(10, {"x": "2026-01-02T12:00:00"}))
    report = indexed(log)
    assert any("type" in note for note in report.notes)
    assert found_by(log, "x >= TIMESTAMP_NTZ '2026-01-04 00:00:00'") == [3]
    assert found_by(log, "x < TIMESTAMP_NTZ '2026-01-02 00:00:00'") == [0]
    sizes = [info.size for info in DeltaTable(str(tmp_path)).file_infos(limit=3)]
    assert sizes == [3, 2, 10]


@pytest.mark.parametrize(
    ("old", "new", "value", "predicate"),
    [
        ("integer", "long", 7, "x = 7"),
        ("float", "double", 0.1, "x > 0.1"),
        ("date", "timestamp_ntz", "2026-01-01", "x >= TIMESTAMP_NTZ '2026-01-01 00:00:00'"),
        ("decimal(5,2)", "decimal(9,4)", 1.25, "x = 1.25"),
        ("integer", "double", 3, "x = 3.0"),
    ],
)
@pytest.mark.parametrize("sort_column", [None, "x"])
def test_a_column_widened_since(
    tmp_path: Path, old: str, new: str, value: Any, predicate: str, sort_column: str | None
) -> None:
    log = LogBuilder(tmp_path).protocol(3, features=["typeWidening", "timestampNtz"]).metadata({"x": old, "y": "long"})
    log.commit(file(0, {"x": value, "y": 0}), file(1, {"x": value, "y": 1}))
    indexed(log, sort_column=sort_column)
    changes = {"delta.typeChanges": [{"fromType": old, "toType": new}]}
    log.commit(metadata([column("x", new, metadata=changes), column("y")]), file(10, {"x": value, "y": 2}))
    assert found_by(log, predicate) == [0, 1, 10]


def test_a_column_renamed_since(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}

    def schema(first: str, second: str) -> list[dict[str, Any]]:
        ids = [{"delta.columnMapping.id": n, "delta.columnMapping.physicalName": f"c{n}"} for n in (1, 2)]
        return [column(first, metadata=ids[0]), column(second, metadata=ids[1])]

    log = LogBuilder(tmp_path).protocol(2, 5).metadata(schema("a", "b"), configuration=mapped)
    log.commit(*(file(n, {"c1": n, "c2": 100 + n}) for n in range(5)))
    indexed(log, sort_column="a")
    log.commit(metadata(schema("b", "a"), configuration=mapped))
    assert found_by(log, "b = 3") == [3]
    assert found_by(log, "a = 103") == [3]
    assert found_by(log, "a < 100") == []


def test_partitions_of_another_kind_after_an_overwrite(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"p": "string", "q": "long", "x": "long"}, partition_by=["p"])
    log.commit(*(file(n, {"x": n, "q": n}, {"p": str(n)}) for n in range(6)))
    indexed(log)
    replaced = metadata({"p": "string", "q": "long", "x": "long"}, ["q"])
    log.commit(
        replaced, *(remove(f"f{n}.parquet") for n in range(6)), *(file(10 + n, {}, {"q": "7"}) for n in range(3))
    )
    assert found_by(log, "q = 7") == [10, 11, 12]
    assert found_by(log, "p = '3'") == [10, 11, 12]
    assert found_by(log, "q = 8") == []


def test_partition_columns_swapped_with_files_left(tmp_path: Path) -> None:
    """No writer of Delta does this, but a log can say it: what is not known of a file keeps it."""
    log = LogBuilder(tmp_path).metadata({"p": "string", "q": "long"}, partition_by=["p"])
    log.commit(*(file(n, {"q": n}, {"p": str(n)}) for n in range(4)))
    indexed(log)
    log.commit(metadata({"p": "string", "q": "long"}, ["q"]), file(10, {"p": "9"}, {"q": "9"}))
    assert set(found_by(log, "p = '9'")) >= {10}
    assert set(found_by(log, "q = 9")) >= {10}


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata"])
def test_partition_timestamps_in_another_zone(tmp_path: Path, zone: str) -> None:
    """The index has them as UTC reads them; who reads them in another zone sees other instants."""
    log = LogBuilder(tmp_path).metadata({"h": "timestamp", "x": "long"}, partition_by=["h"])
    log.commit(*(file(n, {"x": n}, {"h": f"2026-01-01 {n:02}:00:00"}) for n in range(24)))
    indexed(log)
    option = {"delta.sidecar.partition_timezone": zone}
    hits = found_by(log, "h = TIMESTAMP '2026-01-01T13:00:00Z'", **option)
    assert hits == {"UTC": [13], "America/Los_Angeles": [5], "Asia/Kolkata": []}[zone]
    assert len(found_by(log, "h >= TIMESTAMP '2026-01-01T20:00:00Z'", **option)) == {
        "UTC": 4, "America/Los_Angeles": 12, "Asia/Kolkata": 0,
    }[zone]  # fmt: skip


@pytest.mark.parametrize(
    ("predicate", "files"),
    [
        ("seen >= '2026-02-10T22:50:00Z'", 10),
        ("seen < '2026-02-10T22:05:00Z'", 5),
        ("seen >= '2026-02-10T22:00:00Z'", 60),
        ("ts >= '2026-02-10T22:50:00Z'", 10),
        ("h = '2026021021' OR x > 55", 4),
    ],
)
def test_conditions_on_partition_values_and_stats_at_once(tmp_path: Path, predicate: str, files: int) -> None:
    """A time column that is not the index's own has its bounds in the stats file, and its bucket in the core."""
    columns = [column("ts", "timestamp"), column("seen", "timestamp"), column("x", "long")]
    for name, time in (("h", "ts"), ("sh", "seen")):
        generated = {GENERATION_EXPRESSION: bucket_expression(time, "hour")}
        columns.append(column(name, "string", metadata=generated))
    log = LogBuilder(tmp_path).protocol(reader=1, writer=4).metadata(columns, partition_by=["h", "sh"])
    for minute in range(60):
        at = f"2026-02-10T22:{minute:02}:00.000Z"
        values = {"ts": at, "seen": at, "x": minute}
        stats = {"numRecords": 1, "minValues": values, "maxValues": values, "nullCount": dict.fromkeys(values, 0)}
        log.commit(add(f"f{minute:02}", partition={"h": "2026021022", "sh": "2026021022"}, stats=stats))
    build_index(
        open_store(str(tmp_path)),
        options=BuildOptions(part_rows=60, time_column="ts", limits=small_parts(single=0, rows=60)),
    )
    for enabled in (True, False):
        with DeltaTable(str(tmp_path), options={"delta.sidecar.enabled": enabled}).scan_files(predicate) as scan:
            assert sum(batch.num_rows for batch in scan) == files
            assert scan.metrics.tier == ("index" if enabled else "log")


def test_a_protocol_raised_since(tmp_path: Path) -> None:
    """The index lies in one directory, a newer one in the other; both are found."""
    log = LogBuilder(tmp_path).metadata({"x": "long"}).commit(*(file(n, {"x": n}) for n in range(4)))
    indexed(log)
    log.commit(protocol(3, features=["v2Checkpoint"]), file(10, {"x": 10}))
    assert found_by(log, "x >= 3") == [3, 10]
    indexed(log)
    assert (log.log / "_sidecar_index" / "v1.manifest.json").exists()
    log.commit(remove("f3.parquet"))
    assert found_by(log, "x >= 3") == [10]
    (log.log / "_sidecar_index" / "v1.manifest.json").unlink()
    shared_cache.clear()
    with DeltaTable(str(tmp_path)).scan_files("x >= 3") as scan:
        assert [size for batch in scan for size in batch["size"].to_pylist()] == [10]
        assert (scan.metrics.tier, scan.metrics.commits_total) == ("index", 2)
        assert "v1.manifest.json" in (scan.metrics.fallback_reason or "")


# Wide rows, many row groups.


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("removed", [(), (0, 299, 300, 599)])
def test_all_stats_a_slice_at_a_time(tmp_path: Path, single: bool, removed: Sequence[int]) -> None:
    log = LogBuilder(tmp_path).metadata({"p": "string", "x": "long", "s": "string"}, partition_by=["p"])
    log.commit(*(file(n, {"x": n, "s": f"s{n}"}, {"p": f"{n % 7:03}"}) for n in range(700)))
    limits = small_parts(single=1_000 if single else 1, rows=700, row_group_rows=300)
    build_index(open_store(str(tmp_path)), options=BuildOptions("x", part_rows=700, limits=limits))
    log.commit(*(remove(f"f{n}.parquet") for n in removed))
    table = DeltaTable(str(tmp_path), limits=ReaderLimits(parts=PartLimits(stats_cells=1)))
    with table.scan_files(columns=["size", "stats", "partition_values"]) as scan:
        rows = {row["size"]: row for row in scan.read_all().to_pylist()}
    assert (scan.metrics.tier, scan.metrics.parts_read) == ("index", 1)
    assert sorted(rows) == sorted(set(range(700)) - set(removed))
    for size, row in rows.items():
        assert json.loads(row["stats"])["minValues"] == {"x": size, "s": f"s{size}"}
        assert dict(row["partition_values"]) == {"p": f"{size % 7:03}"}


@pytest.mark.parametrize("threads", [False, True])
def test_a_mask_that_touches_some_row_groups(tmp_path: Path, threads: bool) -> None:
    """Row groups whose paths no removed file is among are not looked at; the others are."""
    limits = ReaderLimits(parts=PartLimits(few_rows=-1, helpers=1)) if threads else ReaderLimits()
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    log.commit(*(file(n, {"x": n}) for n in range(100, 160)))
    build_index(
        open_store(str(tmp_path)),
        options=BuildOptions("x", part_rows=20, limits=small_parts(single=1, rows=20, row_group_rows=4)),
    )
    for gone in ([103, 104], [100, 159], [131]):
        log.commit(*(remove(f"./x/../f{n}.parquet") for n in gone))
    live = sorted(body["size"] for body in log.state().files.values())
    assert len(live) == 55
    assert found_by(log, limits=limits) == live
    assert found_by(log, "x >= 131", limits=limits) == [n for n in live if n >= 131]


# A store that fails.


def faulty(made: Made, seed: int, latency_s: float, **policy: Any) -> tuple[RetryingStore, CountingStore, FaultyStore]:
    faults = FaultyStore(SlowStore(made.store, latency_s), seed, Faults(0.3, 0.1, 0.1, most_in_a_row=6))
    counting = CountingStore(faults)
    settings = StoreSettings(RetryPolicy(max_retries=8, **policy))
    return RetryingStore(counting, settings, lambda pause: None), counting, faults


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed == 0 else [pytest.mark.slow]) for seed in range(6)]
)
@pytest.mark.parametrize("single", [False, True])
def test_a_store_that_often_fails(tmp_path: Path, seed: int, single: bool) -> None:
    """A third of the requests get a 503, others break off: the right files through the index, in bounded requests."""
    made = make_table(tmp_path, vectors=seed % 2 == 0, checkpoint=None if seed % 3 else 2, single=single)
    store, counting, faults = faulty(made, seed, latency_s=0.01 if seed == 0 else 0.001)
    found = check_listings(made, store=store)
    assert {metrics.tier for _, metrics in found} == {"index"}
    assert {metrics.fallback_reason for _, metrics in found} == {None}
    failures = sum(faults.failures.values())
    assert failures > 50
    sound = CountingStore(SlowStore(made.store, 0.0))
    check_listings(made, store=sound)
    # A request that no one waits for any more may or may not have been sent.
    assert len(counting.requests) - failures <= 1.2 * len(sound.requests)


@pytest.mark.slow
def test_a_store_that_fails_and_an_index_that_is_broken(tmp_path: Path) -> None:
    made = make_table(tmp_path, vectors=True, checkpoint=2)
    broken = made.sidecars / made.parts()[4].core_name
    broken.write_bytes(broken.read_bytes()[:-1])
    store, _, _ = faulty(made, seed=3, latency_s=0.001)
    found = check_listings(made, store=store)
    everything = [metrics for query, metrics in found if not query.arguments]
    assert {metrics.tier for metrics in everything} == {"checkpoint"}
    assert len(found) == len(QUERIES) + 2
    assert {metrics.commits_total for metrics in everything} == {HEAD - 2}, "those of the checkpoint"
