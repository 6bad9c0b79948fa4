"""The change feed: which rows of which files a commit changed, under which schema, at what cost."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from delta_sidecar import DeltaTable
from delta_sidecar.errors import (
    CleanedUpError,
    ConsumedStreamError,
    CorruptDataError,
    InputError,
    LogGapError,
    MissingDataError,
    NoChangeFeedError,
    SchemaChangedError,
    UnknownColumnError,
    UnsupportedTableError,
    VersionAfterLatestError,
    VersionNotFoundError,
    VersionRangeError,
)
from delta_sidecar.limits import CommitLimits, ReaderLimits
from delta_sidecar.settings import Settings
from delta_sidecar.storage import open_store
from delta_sidecar.testing import CountingStore
from delta_sidecar.testing.actions import add, column, commit_info, metadata, protocol
from tests.data.changing import FEED, access, feed_table, in_short, keyed, recorded, removed, vector, written

TINY = Settings(limits=ReaderLimits(commits=CommitLimits(whole_commit=200, block=200)))
"""Commits are streamed in blocks of a line or two."""


def changes(root: Path, start: int = 0, end: int | None = None, **asked: Any) -> list[tuple[int, str, int]]:
    return in_short(DeltaTable(root).changes(start, end, **asked))


# Which rows


def test_added_files_are_inserts_without_the_rows_of_their_vector(tmp_path: Path) -> None:
    feed_table(tmp_path).commit(written(tmp_path, "a", [1, 2])).commit(written(tmp_path, "b", [3, 4], dv=vector(0)))
    assert changes(tmp_path) == [(0, "insert", 1), (0, "insert", 2), (1, "insert", 4)]
    assert changes(tmp_path, 1) == [(1, "insert", 4)]
    assert changes(tmp_path, 0, 0) == [(0, "insert", 1), (0, "insert", 2)]


def test_removed_files_are_deletes_of_their_live_rows(tmp_path: Path) -> None:
    first = written(tmp_path, "a", range(2000))
    marked = replace(first, dv=vector(0, 1, 2))
    table = feed_table(tmp_path).commit(first).commit(removed(first), marked).commit(removed(first, vector(0, 1, 2)))
    assert table.version == 2
    assert changes(tmp_path, 1, 1) == [(1, "delete", k) for k in range(3)]
    assert changes(tmp_path, 2) == [(2, "delete", k) for k in range(3, 2000)]


@pytest.mark.parametrize("settings", [Settings(), TINY], ids=["whole", "in blocks"])
@pytest.mark.parametrize("remove_first", [True, False])
def test_another_vector_changes_the_rows_in_which_they_differ(
    tmp_path: Path, settings: Settings, remove_first: bool
) -> None:
    files = [written(tmp_path, f"dir%20x/{name}", range(10 * i, 10 * i + 10)) for i, name in enumerate("abcde")]
    old = [None, vector(1), vector(1, 2), vector(3), vector(4)]
    new = [vector(0, 9), None, vector(2, 3), vector(3), vector(4, 5)]
    table = feed_table(tmp_path).commit(*(replace(file, dv=dv) for file, dv in zip(files, old)))
    removes = [removed(file, dv) for file, dv in zip(files, old)]
    adds = [replace(file, path=file.path.replace("%20", " "), dv=dv) for file, dv in zip(files, new)]
    noise = [written(tmp_path, f"new-{i}", [100 + i]) for i in range(3)]
    table.commit(*([*removes, *noise, *adds] if remove_first else [*adds, *noise, *removes]))
    found = in_short(access(open_store(tmp_path), settings=settings).changes(1, None, None, None))
    assert found == [
        *((1, "delete", k) for k in (0, 9, 23, 45)),
        *((1, "insert", k) for k in (11, 21, 100, 101, 102)),
    ]


def test_the_same_file_removed_and_added_changes_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, "a", [1, 2])
    feed_table(tmp_path).commit(file).commit(removed(file), file)
    assert changes(tmp_path, 1) == []


def test_recorded_changes_are_all_that_a_commit_changed(tmp_path: Path) -> None:
    first = written(tmp_path, "a", [1, 2])
    feed_table(tmp_path).commit(first).commit(
        removed(first),
        written(tmp_path, "b", [1, 20]),
        recorded(tmp_path, "_change_data/c", keyed(2, 20), ["update_preimage", "update_postimage"]),
    )
    assert changes(tmp_path, 1) == [(1, "update_postimage", 20), (1, "update_preimage", 2)]


def test_a_change_file_without_kinds_is_refused(tmp_path: Path) -> None:
    change = recorded(tmp_path, "_change_data/c", keyed(1), ["delete"])
    pq.write_table(keyed(1), tmp_path / "_change_data/c")
    feed_table(tmp_path).commit(change)
    with pytest.raises(CorruptDataError, match=r"_change_data/c.* of version 0 has rows without _change_type"):
        changes(tmp_path)


def test_files_that_were_only_rewritten_change_nothing(tmp_path: Path) -> None:
    first = written(tmp_path, "a", [1, 2])
    rewritten = replace(written(tmp_path, "b", [1, 2]), data_change=False)
    feed_table(tmp_path).commit(first).commit(removed(first, data_change=False), rewritten)
    assert changes(tmp_path, 1) == []


@pytest.mark.parametrize(("deleted", "count"), [("0", 0), ("1", 2)])
def test_a_merge_that_says_it_changed_no_row_changes_none(tmp_path: Path, deleted: str, count: int) -> None:
    first = written(tmp_path, "a", [1])
    metrics = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": deleted}
    merge = commit_info("MERGE", operationMetrics=metrics)
    feed_table(tmp_path).commit(first).commit(merge, removed(first), written(tmp_path, "b", [1]), info=False)
    assert len(changes(tmp_path, 1)) == count


def test_partition_values_come_from_the_log(tmp_path: Path) -> None:
    columns = {"k": "long", "p": "date"}
    rows = pa.table({"k": [1, 2]})
    first = written(tmp_path, "p=1/a", rows, partition={"p": "2026-01-02"})
    table = feed_table(tmp_path, columns, ["p"]).commit(first).commit(removed(first))
    table.commit(recorded(tmp_path, "_change_data/c", rows, ["insert", "delete"], {"p": None}))
    found = pa.table(DeltaTable(tmp_path).changes(0, columns=["p", "k", "_change_type"]))
    assert found.column_names == ["p", "k", "_change_type"]
    assert found["p"].to_pylist() == [dt.date(2026, 1, 2)] * 4 + [None] * 2
    assert pa.table(DeltaTable(tmp_path).changes(0, predicate="p IS NULL")).num_rows == 2


def test_a_remove_without_partition_values_is_refused_where_they_are_needed(tmp_path: Path) -> None:
    first = written(tmp_path, "a", pa.table({"k": [1, 2]}), partition={"p": "x"})
    bare = replace(removed(first, vector(0)), extended=False)
    feed_table(tmp_path, {"k": "long", "p": "string"}, ["p"]).commit(first).commit(bare)
    with pytest.raises(UnsupportedTableError, match=r"version 1 names 'a' without its partition values.*'p'"):
        changes(tmp_path)
    assert changes(tmp_path, columns=["k", "_change_type", "_commit_version"])[-1] == (1, "delete", 2)


def test_the_size_of_a_removed_file_is_asked_for_where_the_log_does_not_say(tmp_path: Path) -> None:
    first = written(tmp_path, "a", range(5000))
    feed_table(tmp_path).commit(first).commit(replace(removed(first), extended=False))
    settings = Settings(limits=ReaderLimits(small_file=100))
    store = CountingStore(open_store(tmp_path))
    assert len(in_short(access(store, settings=settings).changes(1, None, None, None))) == 5000
    assert store.paths("head") == ["a"]
    assert "a" not in store.paths("get")


# Columns


@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_have_physical_names(tmp_path: Path, mode: str) -> None:
    fields = [
        column(name, kind, metadata={"delta.columnMapping.physicalName": f"col-{i}", "delta.columnMapping.id": i})
        for i, (name, kind) in enumerate({"k": "long", "p": "string", "s": "string"}.items(), 1)
    ]
    ids = pa.schema(
        [
            pa.field("col-1" if mode == "name" else "else", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("col-3" if mode == "name" else "k", pa.string(), metadata={"PARQUET:field_id": "3"}),
        ]
    )
    rows = pa.table([pa.array([1, 2]), pa.array(["a", "b"])], schema=ids)
    first = written(tmp_path, "a", rows, partition={"col-2": "x"})
    table = feed_table(tmp_path, fields, ["p"], **{"delta.columnMapping.mode": mode}).protocol(2, 5).commit(first)
    table.commit(recorded(tmp_path, "_change_data/c", rows, ["delete", "insert"], {"col-2": "y"}))
    found = [tuple(row.values())[:5] for row in pa.table(DeltaTable(tmp_path).changes(0)).to_pylist()]
    assert found == [
        (1, "x", "a", "insert", 0),
        (2, "x", "b", "insert", 0),
        (1, "y", "a", "delete", 1),
        (2, "y", "b", "insert", 1),
    ]
    kept = DeltaTable(tmp_path).changes(0, predicate="_change_type = 'delete' AND k = 1")
    assert pa.table(kept).num_rows == 1


def test_predicates_and_columns_of_the_feed(tmp_path: Path) -> None:
    first = written(tmp_path, "a", [1, 2])
    table = feed_table(tmp_path).commit(first, mtime_ms=1_770_000_000_000)
    table.commit(removed(first), written(tmp_path, "b", [2, 3]), mtime_ms=1_770_000_005_000)
    opened = DeltaTable(tmp_path, options={"delta.sidecar.partition_timezone": "Europe/Berlin"})
    everything = changes(tmp_path)
    for predicate, expected in {
        "_change_type = 'delete'": everything[2:4],
        "_change_type = 'delete' OR k = 3": [*everything[2:4], everything[5]],
        "_commit_version = 1 AND k = 2": [everything[3], everything[4]],
        "_commit_timestamp > '2026-02-02T02:40:00'": everything[2:],
    }.items():
        with opened.changes(0, predicate=predicate) as stream:
            assert in_short(stream) == expected, predicate
    assert changes(tmp_path, predicate=[("_change_type", "=", "delete"), ("k", "=", 1)]) == [(1, "delete", 1)]
    assert changes(tmp_path, predicate=(pc.field("_commit_version") == 1) & (pc.field("k") == 3)) == everything[5:]
    kinds = pa.table(opened.changes(0, columns=["_change_type"]))
    assert kinds.to_pydict() == {"_change_type": ["insert"] * 2 + ["delete"] * 2 + ["insert"] * 2}
    assert sum(batch.num_rows for batch in opened.changes(1, columns=[])) == 4
    with pytest.raises(UnknownColumnError):
        opened.changes(0, columns=["nope"])
    stream = opened.changes(0, predicate="_change_type = 'delete'")
    assert pa.table(stream).num_rows == 2
    assert (stream.metrics.files_read, stream.metrics.files_skipped) == (1, 2)


@pytest.mark.parametrize("settings", [Settings(), TINY], ids=["whole", "in blocks"])
def test_statistics_of_added_files_leave_them_out(tmp_path: Path, settings: Settings) -> None:
    """Of ten files two may hold a matching row: one by its bounds, one that has none."""
    table = feed_table(tmp_path)
    files = [written(tmp_path, f"f{i}", range(10 * i, 10 * i + 10)) for i in range(9)]
    bare = replace(written(tmp_path, "bare", [31, 400]), stats=None)
    table.commit(*files, bare)
    opened = access(open_store(tmp_path), settings=settings)
    for predicate in ("k = 31", [("k", "=", 31)], pc.field("k") == 31, "k = 31 AND _change_type = 'insert'"):
        stream = opened.changes(0, None, None, predicate)
        assert in_short(stream) == [(0, "insert", 31), (0, "insert", 31)]
        assert (stream.metrics.files_read, stream.metrics.files_skipped) == (2, 8)
    for predicate, expected in {"k IS NULL": 1, "s > 's85'": 3, "k = 31 OR _change_type = 'delete'": 10}.items():
        stream = opened.changes(0, None, None, predicate)
        in_short(stream)
        assert stream.metrics.files_read == expected, predicate


def test_statistics_are_not_asked_of_deleted_rows(tmp_path: Path) -> None:
    """The bounds of an add may be of the rows that are left."""
    first = written(tmp_path, "a", [1, 2, 30])
    marked = replace(first, dv=vector(2), stats=written(tmp_path, "other", [1, 2]).stats)
    feed_table(tmp_path).commit(first).commit(removed(first), marked).commit(removed(marked, vector(2)), first)
    assert changes(tmp_path, 1, predicate="k = 30") == [(1, "delete", 30), (2, "insert", 30)]


@pytest.mark.parametrize("stats", ["{", '{"minValues":{"k":"x"},"maxValues":7}', "[]", {"numRecords": 1}])
def test_statistics_that_cannot_be_read_keep_a_file(tmp_path: Path, stats: Any) -> None:
    feed_table(tmp_path).commit(replace(written(tmp_path, "a", [1]), stats=stats))
    assert changes(tmp_path, predicate="k = 1") == [(0, "insert", 1)]


def test_statistics_of_an_older_type_are_not_asked(tmp_path: Path) -> None:
    """The text of a float's bound is no bound of the double that the float is."""
    tenth = pa.table({"k": [1], "x": pa.array([0.1], pa.float32())})
    table = feed_table(tmp_path, {"k": "long", "x": "float"})
    table.commit(
        replace(
            written(tmp_path, "a", tenth), stats={"numRecords": 1, "minValues": {"x": 0.1}, "maxValues": {"x": 0.1}}
        )
    )
    table.commit(set_schema({"k": "long", "x": "double"}))
    table.commit(written(tmp_path, "b", pa.table({"k": [2], "x": [0.05]})))
    stream = DeltaTable(tmp_path).changes(0, predicate="x > 0.1")
    assert in_short(stream) == [(0, "insert", 1)]
    assert (stream.metrics.files_read, stream.metrics.files_skipped) == (1, 1)


def test_the_schema_is_that_of_the_table_and_three_columns(tmp_path: Path) -> None:
    feed_table(tmp_path).commit(written(tmp_path, "a", [1]))
    feed = [("_change_type", pa.string()), ("_commit_version", pa.int64())]
    expected = [("k", pa.int64()), ("s", pa.string()), *feed, ("_commit_timestamp", pa.timestamp("us", "UTC"))]
    assert DeltaTable(tmp_path).changes(0).schema == pa.schema(expected)
    reserved = tmp_path / "reserved"
    feed_table(reserved, {"k": "long", "_Change_Type": "long"}).commit(add("a"))
    with pytest.raises(UnsupportedTableError, match="'_Change_Type' has the name of a column of the change feed"):
        DeltaTable(reserved).changes(0)


def set_schema(columns: Any, partition_by: Sequence[str] = (), **configuration: str) -> Any:
    return metadata(columns, partition_by, FEED | configuration)


def test_columns_that_came_later_are_null_in_older_rows(tmp_path: Path) -> None:
    old = pa.table({"k": pa.array([1], pa.int32())})
    table = feed_table(tmp_path, {"k": "integer"}).commit(written(tmp_path, "a", old))
    table.commit(set_schema({"k": "long", "s": "string"}), written(tmp_path, "b", [2]))
    table.commit(set_schema({"k": "long", "s": "string", "t": {"type": "struct", "fields": [column("u")]}}))
    found = pa.table(DeltaTable(tmp_path).changes(0))
    assert found["k"].to_pylist() == [1, 2]
    assert found["k"].type == pa.int64()
    assert found["s"].to_pylist() == [None, "s2"]
    assert found["t"].to_pylist() == [None, None]
    assert pa.table(DeltaTable(tmp_path).changes(0, 0)).column_names[:2] == ["k", "_change_type"]
    assert pa.table(DeltaTable(tmp_path).changes(0, 1)).column_names[:3] == ["k", "s", "_change_type"]


def mapped(name: str, physical: str, kind: str = "long") -> dict[str, Any]:
    return column(name, kind, metadata={"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1})


def test_columns_that_were_renamed_or_dropped_with_column_mapping(tmp_path: Path) -> None:
    by_name = {"delta.columnMapping.mode": "name"}
    rows = pa.table({"c1": [1], "c2": [2]})
    table = feed_table(tmp_path, [mapped("k", "c1"), mapped("x", "c2")], **by_name).protocol(2, 5)
    table.commit(written(tmp_path, "a", rows)).commit(set_schema([mapped("k", "c1"), mapped("y", "c2")], **by_name))
    assert pa.table(DeltaTable(tmp_path).changes(0))["y"].to_pylist() == [2]
    table.commit(set_schema([mapped("k", "c1")], **by_name))
    assert pa.table(DeltaTable(tmp_path).changes(0)).column_names[:2] == ["k", "_change_type"]
    table.commit(set_schema([mapped("k", "c1"), mapped("y", "c3")], **by_name))
    with pytest.raises(SchemaChangedError, match=r"before version 2 .* version 3: column 'y' was dropped and added"):
        DeltaTable(tmp_path).changes(0)
    assert pa.table(DeltaTable(tmp_path).changes(2)).num_rows == 0


@pytest.mark.parametrize(
    ("columns", "partition_by", "reason"),
    [
        ({"k": "long"}, [], "column 's' was dropped or renamed"),
        ({"k": "long", "t": "string"}, [], "column 's' was dropped or renamed"),
        ({"k": "string", "s": "string"}, [], "column 'k' was long, and is now string"),
        ({"k": "integer", "s": "string"}, [], "column 'k' was long, and is now integer"),
        ([column("k", nullable=False), column("s", "string")], [], "column 'k' may hold nulls, and is now NOT NULL"),
        ([column("k"), column("s", "string"), column("t", nullable=False)], [], "column 't' was added as NOT NULL"),
        ({"k": "long", "s": "string"}, ["s"], "the table was partitioned by other columns"),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_refused_by_version(
    tmp_path: Path, columns: Any, partition_by: Sequence[str], reason: str
) -> None:
    table = feed_table(tmp_path).commit(written(tmp_path, "a", [1])).commit(written(tmp_path, "b", [2]))
    table.commit(set_schema(columns, partition_by))
    with pytest.raises(SchemaChangedError) as raised:
        DeltaTable(tmp_path).changes(0)
    assert str(raised.value) == (
        f"changes before version 2 do not fit the schema of version 2: {reason}; end at 1, or start at 2"
    )
    assert changes(tmp_path, 0, 1) == [(0, "insert", 1), (1, "insert", 2)]
    assert pa.table(DeltaTable(tmp_path).changes(2)).num_rows == 0


def test_nested_columns_must_fit_too(tmp_path: Path) -> None:
    def nested(kind: str) -> dict[str, Any]:
        inner = {"type": "struct", "fields": [column("a", kind)]}
        return {"k": "long", "m": {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}}

    feed_table(tmp_path, nested("string")).commit(add("a")).commit(set_schema(nested("long")))
    with pytest.raises(SchemaChangedError, match=r"column 'm\.value\.a' was string, and is now long"):
        DeltaTable(tmp_path).changes(0)


# Which versions


def test_a_feed_must_be_on_at_every_version(tmp_path: Path) -> None:
    off = metadata({"k": "long", "s": "string"})
    table = feed_table(tmp_path / "t")
    table._pending.clear()
    table.metadata({"k": "long", "s": "string"}).commit(written(table.root, "a", [1]))
    with pytest.raises(NoChangeFeedError, match=r"no change feed at version 0; set its property delta\.enable"):
        DeltaTable(table.root).changes(0)
    table.commit(set_schema({"k": "long", "s": "string"})).commit(written(table.root, "b", [2]))
    for start, end in ((0, None), (0, 0), (0, 1)):
        with pytest.raises(NoChangeFeedError, match="no change feed at version 0: it begins at version 1; start there"):
            DeltaTable(table.root).changes(start, end)
    assert changes(table.root, 1) == [(2, "insert", 2)]
    table.commit(off).commit(written(table.root, "c", [3]))
    with pytest.raises(NoChangeFeedError, match=r"version 3 turns off the change feed .*; end at version 2$"):
        DeltaTable(table.root).changes(1)
    with pytest.raises(NoChangeFeedError, match="no change feed at version 4; set its property"):
        DeltaTable(table.root).changes(4)
    table.commit(set_schema({"k": "long", "s": "string"}))
    with pytest.raises(NoChangeFeedError, match=r"end at version 2, or start at 5, which turns it on again"):
        DeltaTable(table.root).changes(1)
    assert changes(table.root, 1, 2) == [(2, "insert", 2)]


def test_ranges(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i in range(4):
        table.commit(written(tmp_path, f"f{i}", [i]))
    opened = DeltaTable(tmp_path)
    assert changes(tmp_path, 2, 99) == [(2, "insert", 2), (3, "insert", 3)]
    with pytest.raises(VersionAfterLatestError, match=r"no version 4 at .* newest that is open is 3.*nothing new"):
        opened.changes(4)
    with pytest.raises(VersionRangeError, match="ends at version 1, before its start 2"):
        opened.changes(2, 1)
    with pytest.raises(InputError, match="version -1"):
        opened.changes(-1)
    for wrong in (True, 1.5, None):
        with pytest.raises(InputError, match="it takes a version or a time"):
            opened.changes(wrong)  # type: ignore[arg-type]
    older = DeltaTable(tmp_path, version=1)
    assert in_short(older.changes(1)) == in_short(older.changes(1, 3)) == [(1, "insert", 1)]


def test_commits_that_are_gone(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i in range(6):
        table.commit(written(tmp_path, f"f{i}", [i]))
    table.checkpoint(version=3)
    table.cleanup(before=3)
    with pytest.raises(CleanedUpError, match=r"commit 0 of .* was cleaned up.*start at 3, the oldest that is left"):
        DeltaTable(tmp_path).changes(0)
    assert [version for version, *_ in changes(tmp_path, 3)] == [3, 4, 5]
    table.checkpoint(version=5).drop(4)
    with pytest.raises(LogGapError, match="commit 4 is missing"):
        DeltaTable(tmp_path).changes(3)
    assert changes(tmp_path, 5) == [(5, "insert", 5)]


def test_a_commit_that_is_cleaned_up_meanwhile(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i in range(3):
        table.commit(written(tmp_path, f"f{i}", [i]))
    store = CountingStore(open_store(tmp_path))
    opened = access(store, settings=Settings(memory_budget=1))
    stream = opened.changes(0, None, None, None)
    table.drop(2)
    with pytest.raises(CleanedUpError, match="commit 2 was cleaned up while its changes were read; start after it"):
        list(stream)
    with pytest.raises(CleanedUpError, match="commit 2 was cleaned up"):
        opened.changes(0, None, None, None)


def test_files_that_are_gone(tmp_path: Path) -> None:
    first = written(tmp_path, "a", [1])
    feed_table(tmp_path).commit(first).commit(removed(first), written(tmp_path, "b", [2]))
    (tmp_path / "a").unlink()
    stream = DeltaTable(tmp_path).changes(0)
    with pytest.raises(MissingDataError, match=r"changes of version 0 are gone: 'a' .*read the table as a whole"):
        list(stream)
    with pytest.raises(ConsumedStreamError, match="broke off"):
        next(stream)
    with pytest.raises(MissingDataError, match="changes of version 1 are gone"):
        changes(tmp_path, 1)


def test_an_unsupported_feature_in_the_range_is_refused(tmp_path: Path) -> None:
    table = feed_table(tmp_path).commit(written(tmp_path, "a", [1]))
    table.commit(protocol(3, features=["fromTheFuture"])).commit(protocol(3, features=[]))
    with pytest.raises(UnsupportedTableError, match="fromTheFuture"):
        DeltaTable(tmp_path).changes(0)
    assert DeltaTable(tmp_path).changes(2).schema.names[0] == "k"


# Times


def test_times_are_those_of_the_commit_files_in_order(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i, seconds in enumerate((100, 300, 200, 200, 400)):
        table.commit(written(tmp_path, f"f{i}", [i]), mtime_ms=seconds * 1000)
    expected = [100_000, 300_000, 300_001, 300_002, 400_000]
    for start in range(5):
        found = pa.table(DeltaTable(tmp_path).changes(start))["_commit_timestamp"]
        assert found.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() == expected[start:]


def test_times_in_commits_come_first(tmp_path: Path) -> None:
    table = feed_table(tmp_path).commit(written(tmp_path, "a", [1]), mtime_ms=50_000)
    table.commit(written(tmp_path, "b", [2]), in_commit_timestamp=70_000, mtime_ms=60_000)
    found = pa.table(DeltaTable(tmp_path).changes(0))["_commit_timestamp"]
    assert found.cast(pa.int64()).to_pylist() == [50_000_000, 70_000_000]


def test_a_range_of_times(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i in range(4):
        table.commit(written(tmp_path, f"f{i}", [i]), mtime_ms=i * 60_000)
    opened = DeltaTable(tmp_path)

    def versions(start: Any, end: Any = None) -> list[int]:
        return [version for version, *_ in in_short(opened.changes(start, end))]

    assert versions("1970-01-01T00:01:00Z") == [1, 2, 3]
    assert versions("1970-01-01T00:01:00.001Z", "1970-01-01T00:02:59Z") == [2]
    assert versions("1960-01-01", dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC)) == [0, 1]
    assert versions(2, "2100-01-01") == [2, 3]
    with pytest.raises(VersionAfterLatestError):
        opened.changes("1970-01-01T00:03:00.001Z")
    with pytest.raises(VersionNotFoundError):
        opened.changes(0, "1960-01-01")
    with pytest.raises(VersionRangeError):
        opened.changes("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z")
    with pytest.raises(InputError, match="not a time"):
        opened.changes("tomorrow")


# As deltalake


def short(table: Any) -> list[Any]:
    return sorted(
        repr([row[name] for name in ("_commit_version", "_change_type", "k", "p")]) for row in table.to_pylist()
    )


def test_load_cdf_is_that_of_deltalake(tmp_path: Path) -> None:
    rows = pa.table({"k": range(6), "p": ["a", "b"] * 3})
    write_deltalake(tmp_path, rows, partition_by=["p"], configuration=FEED)
    deltalake.DeltaTable(tmp_path).update({"k": "k + 100"}, predicate="k = 3")
    deltalake.DeltaTable(tmp_path).delete("k = 1")
    write_deltalake(tmp_path, rows.slice(2, 2), mode="overwrite")
    ours, theirs = DeltaTable(tmp_path), deltalake.DeltaTable(tmp_path)
    for asked in ({}, {"starting_version": 1, "ending_version": 2}, {"starting_version": 3}, {"ending_version": 99}):
        found = ours.load_cdf(**asked)
        assert isinstance(found, pa.RecordBatchReader)
        assert short(found.read_all()) == short(pa.table(theirs.load_cdf(**asked))), asked
    kept = {"columns": ["k", "_change_type"], "predicate": "k > 2"}
    assert ours.load_cdf(**kept).schema.names == ["k", "_change_type"]
    assert {row["k"] for row in ours.load_cdf(**kept).read_all().to_pylist()} == {3, 4, 5, 103}
    moment = ours.load_cdf(2).read_all()["_commit_timestamp"][0].as_py()
    assert short(ours.load_cdf(starting_timestamp=moment).read_all()) == short(ours.load_cdf(2).read_all())
    assert short(ours.load_cdf(ending_timestamp=moment).read_all()) == short(ours.load_cdf(0, 2).read_all())
    assert short(ours.load_cdf(3, starting_timestamp=moment).read_all()) == short(ours.load_cdf(3).read_all())


def test_a_range_out_of_reach_may_be_empty(tmp_path: Path) -> None:
    feed_table(tmp_path).commit(written(tmp_path, "a", [1]))
    table = DeltaTable(tmp_path)
    for asked in ({"starting_version": 9}, {"starting_timestamp": "2100-01-01"}):
        assert table.load_cdf(**asked, allow_out_of_range=True).read_all().num_rows == 0  # type: ignore[arg-type]
        with pytest.raises(VersionAfterLatestError):
            table.load_cdf(**asked)  # type: ignore[arg-type]


# Costs


def test_a_range_costs_its_commits_and_files(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i in range(20):
        table.commit(written(tmp_path, f"f{i}", [i]))
    table.checkpoint(version=15)
    store = CountingStore(open_store(tmp_path))
    opened = access(store)
    store.reset()
    assert len(in_short(opened.changes(12, None, None, None))) == 8
    assert len(store.paths("list")) == 1
    gets = store.paths("get")
    assert sorted(path for path in gets if "_delta_log" not in path) == sorted(f"f{i}" for i in range(12, 20))
    logs = [path for path in gets if "_delta_log" in path]
    assert len(logs) == len(set(logs)) <= 8
    assert len(store.requests) == 1 + 8 + len(logs)


def test_a_log_that_was_listed_whole_is_not_listed_again(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i in range(5):
        table.commit(written(tmp_path, f"f{i}", [i]))
    store = CountingStore(open_store(tmp_path))
    opened = access(store)
    store.reset()
    assert len(in_short(opened.changes(1, None, None, None))) == 4
    assert sorted(store.paths()) == [f"f{i}" for i in range(1, 5)]


def test_a_closed_stream_makes_no_further_request(tmp_path: Path) -> None:
    table = feed_table(tmp_path)
    for i in range(30):
        table.commit(*(written(tmp_path, f"f{i}-{j}", [i]) for j in range(3)))
    store = CountingStore(open_store(tmp_path))
    stream = access(store, settings=Settings(read_threads=2)).changes(0, None, None, None)
    store.reset()
    next(stream)
    stream.close()
    made = len(store.requests)
    assert made <= 1 + 2 * 2 + 2
    time.sleep(0.05)
    assert len(store.requests) == made
    with pytest.raises(ConsumedStreamError, match="closed"):
        list(stream)


@pytest.mark.slow
def test_a_large_commit_is_a_stream(tmp_path: Path) -> None:
    """Its first rows come before its last line is parsed a second time, and nothing of it is kept."""
    files = [written(tmp_path, f"f{i:05}", [i]) for i in range(3)]
    many = [replace(files[i % 3], path=f"f{i % 3:05}", tags={"n": str(i)}) for i in range(4000)]
    feed_table(tmp_path).commit(*many)
    limits = ReaderLimits(commits=CommitLimits(whole_commit=10_000, block=10_000))
    settings = Settings(limits=limits, memory_budget=1, read_threads=1)
    store = CountingStore(open_store(tmp_path))
    opened = access(store, settings=settings)
    assert opened.snapshot.commits.nbytes == 0
    store.reset()
    with opened.changes(0, None, None, None) as stream:
        assert next(stream).num_rows == 1
        assert len(store.paths("get")) <= 4
    log = [request for request in store.requests if request.verb == "stream"]
    size = (tmp_path / "_delta_log" / f"{0:020}.json").stat().st_size
    assert len(log) == 3
    assert [request.bytes for request in log[:2]] == [size, size]
    assert log[2].bytes < size / 2


def test_lines_that_do_not_fit_are_read_leniently(tmp_path: Path) -> None:
    feed_table(tmp_path).commit(written(tmp_path, "a", [1]))
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["size"] = float(line["add"]["size"])
        if "commitInfo" in line:
            line["commitInfo"] |= {"operationMetrics": [1], "operation": 5, "inCommitTimestamp": "x"}
    log.write_text("\n".join(map(json.dumps, lines)))
    assert changes(tmp_path) == [(0, "insert", 1)]
