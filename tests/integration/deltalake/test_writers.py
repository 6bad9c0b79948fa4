"""Tables as deltalake writes them: our file list and rows are its own, at every version."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from delta_sidecar import DeltaTable
from delta_sidecar.testing import LogBuilder
from delta_sidecar.testing.actions import column
from delta_sidecar.values.bucket_columns import (
    GENERATION_EXPRESSION,
    GRANULARITIES,
    Granularity,
    bucket_expression,
)
from tests.integration.same import sorted_rows

UTC = dt.UTC


def rows(first: int, count: int, **more: Sequence[object]) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [f"p{n % 3}" for n in numbers], **more})


def check(root: Path, predicates: Sequence[tuple[str, pc.Expression]] = (), first: int = 0) -> DeltaTable:
    """Files and rows are deltalake's, from version `first` to the head; predicates pick the same rows as Arrow does."""
    head = deltalake.DeltaTable(root).version()
    for version in range(first, head + 1):
        theirs, ours = deltalake.DeltaTable(root, version=version), DeltaTable(str(root), version=version)
        assert sorted(ours.file_uris()) == sorted(theirs.file_uris()), f"files at {version}"
        assert sorted_rows(ours.to_pyarrow_table()) == sorted_rows(theirs.to_pyarrow_table()), f"rows at {version}"
    ours, everything = DeltaTable(str(root)), deltalake.DeltaTable(root).to_pyarrow_table()
    assert ours.version() == head
    for text, expression in predicates:
        assert sorted_rows(ours.to_pyarrow_table(filters=text)) == sorted_rows(everything.filter(expression)), text
    return ours


def test_appends_deletes_merges_and_overwrites(tmp_path: Path) -> None:
    root = tmp_path / "table"
    write_deltalake(root, rows(0, 30), partition_by=["p"])
    write_deltalake(root, rows(30, 10), mode="append")
    deltalake.DeltaTable(root).delete("id % 4 = 1 AND p = 'p1'")
    deltalake.DeltaTable(root).update(predicate="id = 6", updates={"id": "600"})
    source = rows(20, 20)
    merge = deltalake.DeltaTable(root).merge(source, "t.id = s.id AND t.p = s.p", source_alias="s", target_alias="t")
    merge.when_matched_delete("s.id < 25").when_not_matched_insert_all().execute()
    deltalake.DeltaTable(root).restore(1)
    write_deltalake(root, rows(500, 5), mode="overwrite")
    check(root, [("p = 'p2'", pc.field("p") == "p2"), ("id > 501", pc.field("id") > 501)])


def test_optimize(tmp_path: Path) -> None:
    for first in range(0, 60, 10):
        write_deltalake(tmp_path, rows(first, 10), mode="append")
    deltalake.DeltaTable(tmp_path).optimize.compact()
    write_deltalake(tmp_path, rows(100, 5), mode="append")
    deltalake.DeltaTable(tmp_path).optimize.z_order(["id"])
    ours = check(tmp_path, [("id BETWEEN 9 AND 11", (pc.field("id") >= 9) & (pc.field("id") <= 11))])
    assert len(ours.file_uris()) == 1


def test_checkpoints_and_cleanup(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(0, 5), configuration={"delta.logRetentionDuration": "interval 0 days"})
    for first in range(10, 60, 10):
        write_deltalake(tmp_path, rows(first, 3), mode="append")
    deltalake.DeltaTable(tmp_path).delete("id = 10")
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    check(tmp_path)
    for path in (tmp_path / "_delta_log").glob("*.json"):
        os.utime(path, (0, 0))
    deltalake.DeltaTable(tmp_path).cleanup_metadata()
    write_deltalake(tmp_path, rows(70, 3), mode="append")
    names = {path.name for path in (tmp_path / "_delta_log").iterdir()}
    assert f"{0:020}.json" not in names, "the log was cleaned"
    ours = check(tmp_path, first=deltalake.DeltaTable(tmp_path).version() - 1)
    assert ours.snapshot.segment.base is not None


def test_compacted_logs(tmp_path: Path) -> None:
    for first in range(0, 80, 10):
        write_deltalake(tmp_path, rows(first, 3), mode="append")
    deltalake.DeltaTable(tmp_path).delete("id >= 30 AND id < 33")
    deltalake.DeltaTable(tmp_path).compact_logs(2, 6)
    assert list((tmp_path / "_delta_log").glob("*.compacted.json"))
    ours = check(tmp_path)
    assert [str(c) for c in ours.snapshot.segment.commits] == ["0", "1", "2..6 (compacted)", "7", "8"]


def test_schema_evolution_and_constraints(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(0, 3))
    write_deltalake(tmp_path, rows(3, 3, extra=[1.5, None, 2.5]), mode="append", schema_mode="merge")
    deltalake.DeltaTable(tmp_path).alter.add_constraint({"positive": "id >= 0"})
    write_deltalake(tmp_path, rows(6, 2, extra=[0.0, -1.0]), mode="append")
    check(tmp_path, [("extra > 1", pc.field("extra") > 1), ("extra IS NULL", pc.field("extra").is_null())])
    deltalake.DeltaTable(tmp_path).alter.drop_constraint("positive")
    write_deltalake(tmp_path, pa.table({"other": ["x"]}), mode="overwrite", schema_mode="overwrite")
    check(tmp_path)


TYPES = pa.table(
    {
        "ts": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None], pa.timestamp("us", "UTC")),
        "ntz": pa.array([dt.datetime(1900, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
        "d": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        "big": pa.array([Decimal("9" * 38), Decimal("-" + "9" * 38)], pa.decimal128(38, 0)),
        "money": pa.array([Decimal("90071992547409.93"), Decimal("0.01")], pa.decimal128(20, 2)),
        "f": pa.array([float("nan"), 0.1], pa.float32()),
        "x": pa.array([float("inf"), -0.0]),
        "s": pa.array(["x" * 100, ""]),
        "raw": pa.array([b"\x00\xff", b""]),
        "flag": pa.array([True, None]),
        "nested": pa.array([{"a": {"b": 1}}, None], pa.struct([("a", pa.struct([("b", pa.int32())]))])),
        "l": pa.array([[1, None], []], pa.list_(pa.int16())),
    }
)


def test_types(tmp_path: Path) -> None:
    write_deltalake(tmp_path, TYPES)
    check(
        tmp_path,
        [
            ("money >= 90071992547409.93", pc.field("money") >= Decimal("90071992547409.93")),
            ("ts < TIMESTAMP'1970-01-01 00:00:00'", pc.field("ts") < dt.datetime(1970, 1, 1, tzinfo=UTC)),
            ("nested.a.b = 1", pc.field("nested", "a", "b") == 1),
            ("s LIKE 'xx%'", pc.starts_with(pc.field("s"), "xx")),
            ("d = DATE'0001-01-01'", pc.field("d") == dt.date(1, 1, 1)),
        ],
    )


PARTITIONS = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "s": ["a/b=c%20d:e", "ü 🦆 #?*", None, "x", "+&"],
        "d": pa.array([dt.date(1969, 12, 31), dt.date(2026, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 1, 1)]),
        "ts": pa.array(
            [dt.datetime(2026, 1, 1, 10, 0, 0, 123456, UTC), dt.datetime(1969, 7, 20, tzinfo=UTC), None, None, None],
            pa.timestamp("us", "UTC"),
        ),
        "n": pa.array([Decimal("1.50"), Decimal("0.01"), None, Decimal(0), Decimal(7)], pa.decimal128(10, 2)),
    }
)


def test_partition_values(tmp_path: Path) -> None:
    write_deltalake(tmp_path, PARTITIONS, partition_by=["s", "d", "ts", "n"])
    check(
        tmp_path,
        [
            ("s = 'a/b=c%20d:e'", pc.field("s") == "a/b=c%20d:e"),
            ("s IS NULL", pc.field("s").is_null()),
            ("d < DATE'1970-01-01'", pc.field("d") < dt.date(1970, 1, 1)),
            ("ts >= TIMESTAMP'2026-01-01 10:00:00.123456'", pc.field("id") == 0),
            ("n = 1.5", pc.field("n") == Decimal("1.50")),
        ],
    )
    ours, theirs = DeltaTable(str(tmp_path)), deltalake.DeltaTable(tmp_path)
    assert ours.file_uris([("s", "=", "x")]) == [uri for uri in theirs.file_uris() if "s=x/" in uri]
    assert len(ours.partitions()) == len(theirs.partitions())


def test_the_facade_tells_what_deltalake_tells(tmp_path: Path) -> None:
    properties = CommitProperties(custom_metadata={"who": "test"}, app_transactions=[Transaction("app", 7)])
    write_deltalake(tmp_path, rows(0, 3), name="t", description="d", partition_by=["p"], commit_properties=properties)
    write_deltalake(tmp_path, rows(3, 3), mode="append")
    ours, theirs = DeltaTable(str(tmp_path)), deltalake.DeltaTable(tmp_path)
    assert ours.version() == theirs.version()
    assert ours.metadata().id == str(theirs.metadata().id)
    assert (ours.metadata().name, ours.metadata().partition_columns) == ("t", ["p"])
    assert ours.protocol().min_reader_version == theirs.protocol().min_reader_version
    assert [h["operation"] for h in ours.history()] == [h["operation"] for h in theirs.history()]
    assert ours.history(1)[0]["version"] == 1
    assert ours.transaction_version("app") == theirs.transaction_version("app") == 7
    assert ours.transaction_version("other") is None
    assert pa.schema(ours.schema().to_arrow()).names == ["id", "p"]
    assert ours.count() == theirs.count() == 6


@pytest.mark.parametrize("instant", ["2020-01-01T00:00:01Z", dt.datetime(2020, 1, 1, 0, 0, 1, 500_000)])
def test_time_travel_by_file_time(tmp_path: Path, instant: str | dt.datetime) -> None:
    for version in range(4):
        write_deltalake(tmp_path, rows(version, 1), mode="append")
        stamp = dt.datetime(2020, 1, 1, tzinfo=UTC).timestamp() + version
        os.utime(tmp_path / "_delta_log" / f"{version:020}.json", (stamp, stamp))
    ours, theirs = DeltaTable(str(tmp_path)), deltalake.DeltaTable(tmp_path)
    ours.load_as_version(instant)
    theirs.load_as_version(instant if isinstance(instant, str) else instant.replace(tzinfo=UTC))
    assert ours.version() == 1
    assert ours.version() == theirs.version() or theirs.version() == 3, "deltalake goes by commitInfo.timestamp"


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_table_of_our_time_buckets_is_refused(tmp_path: Path, granularity: Granularity) -> None:
    """It knows none of Spark's functions in the bucket's expression; docs/guide/ingesting.md quotes what it says."""
    generated = {GENERATION_EXPRESSION: bucket_expression("ts", granularity)}
    columns = [column("ts", "timestamp"), column("bucket", "string", metadata=generated)]
    LogBuilder(tmp_path).protocol(1, 4).metadata(columns, partition_by=["bucket"]).commit()
    times = pa.table({"ts": pa.array([dt.datetime(2026, 2, 10)], pa.timestamp("us", "UTC"))})
    with pytest.raises(deltalake.exceptions.DeltaError, match="Invalid function 'year'"):
        write_deltalake(tmp_path, times, mode="append")
    assert deltalake.DeltaTable(tmp_path).version() == 0
