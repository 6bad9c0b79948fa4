"""Splits built in one process: appended, replaced, once; merged without a text; what is refused."""

from __future__ import annotations

import dataclasses
import math
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import (  # noqa: E402
    ConflictError,
    InputError,
    OptionError,
    StorageError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from delta_sidecar.search import (  # noqa: E402
    SearchTable,
    Split,
    SplitCache,
    SplitFields,
    build_splits,
    checkpoint,
    clean_log,
    create_table,
    doctor,
    merge_splits,
    overwrite,
    repair,
    replace,
)
from delta_sidecar.search.splits.merging import plan_merges  # noqa: E402
from delta_sidecar.storage import open_store  # noqa: E402
from delta_sidecar.values.arrow_types import table_schema  # noqa: E402
from tests.search.lines import log_lines  # noqa: E402
from tests.search.made import FAR, flipped, schema  # noqa: E402

CHOICES: dict[str, Any] = {"text": ["body"], "key": ["id"], "time": "ts", "filters": ["host", "ratio"]}


def ids(table: str | Path, cache: SplitCache | None = None) -> list[int]:
    """The ids of all documents, sorted."""
    opened = SearchTable(table)
    held = cache or SplitCache()
    found: list[int] = []
    for split in opened.splits():
        searcher = held.open_split(opened.store, split).searcher
        hits = searcher.search(tantivy.Query.all_query(), limit=100_000).hits
        found += searcher.fast_field_values("id", [address for _, address in hits])
    return sorted(found)


def matching(table: Path, word: str) -> list[int]:
    """The ids of documents with a word in the body."""
    opened, cache = SearchTable(table), SplitCache()
    found: list[int] = []
    for split in opened.splits():
        one = cache.open_split(opened.store, split)
        query = tantivy.Query.term_query(one.index.schema, "body", word)
        hits = one.searcher.search(query, limit=100_000).hits
        found += one.searcher.fast_field_values("id", [address for _, address in hits])
    return sorted(found)


def scanned(rows: pa.Table, word: str) -> list[int]:
    return [row["id"] for row in rows.to_pylist() if word in (row["body"] or "").split()]


def test_append_and_overwrite(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    first = build_splits(log_lines(100), table, **CHOICES, rows_per_split=30)
    assert (first.version, first.rows, first.splits, first.engine) == (1, 100, 4, "process")
    assert ids(table) == list(range(100))
    build_splits(log_lines(50, first=100), table)
    assert ids(table) == list(range(150))
    assert matching(table, "timeout") == scanned(log_lines(150), "timeout")
    last = build_splits(log_lines(10, first=500), table, mode="overwrite")
    assert (last.removed, ids(table)) == (5, list(range(500, 510)))
    assert SearchTable(table).schema().names == ["id", "ts", "host", "body", "ratio"]


def test_the_rows_of_each_partition(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    rows = log_lines(200)
    hosts = pa.array([None if n % 11 == 0 else f"web-{n % 6}" for n in range(200)])
    rows = rows.set_column(2, "host", hosts)
    build_splits(rows, table, text=["body"], key=["id"], partition_columns=["host", "ok"])
    opened = SearchTable(table)
    assert {(split.partitionValues["host"], split.partitionValues["ok"]) for split in opened.splits()} == {
        (row["host"], str(row["ok"]).lower()) for row in rows.to_pylist()
    }
    assert ids(table) == list(range(200))
    chosen = opened.splits("host = 'web-3' AND ok = true")
    wanted = [row["id"] for row in rows.to_pylist() if row["host"] == "web-3" and row["ok"]]
    assert sum(split.numRecords or 0 for split in chosen) == len(wanted)
    assert sum(split.numRecords or 0 for split in opened.splits("host IS NULL")) == 19


def test_sources(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "delta"), log_lines(60))
    (tmp_path / "files").mkdir()
    pq.write_table(log_lines(30), tmp_path / "files" / "a.parquet")
    pq.write_table(log_lines(30, first=30), tmp_path / "files" / "b.parquet")
    for number, source in enumerate([tmp_path / "delta", tmp_path / "files", log_lines(60).to_reader(7)]):
        table = tmp_path / f"logs{number}"
        assert build_splits(source, table, **CHOICES).rows == 60
        assert ids(table) == list(range(60))
    with pytest.raises(InputError, match="no source"):
        build_splits(7, tmp_path / "logs9", **CHOICES)  # type: ignore[arg-type]
    (tmp_path / "a.json").write_text('{"id": 1}')
    with pytest.raises(InputError, match="holds json files"):
        build_splits(tmp_path / "a.json", tmp_path / "logs9", **CHOICES)
    pq.write_table(log_lines(30).drop_columns("body"), tmp_path / "files" / "c.parquet")
    with pytest.raises(OptionError, match="--engine spark"):
        build_splits(tmp_path / "files", tmp_path / "logs9", **CHOICES, engine="process")


def test_a_batch_is_added_once(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    for _ in range(2):
        for number in range(3):
            report = build_splits(log_lines(10, first=10 * number), table, **CHOICES, app_id="app", batch_id=number)
    assert report.is_repeated
    assert ids(table) == list(range(30))
    # Merges keep the number, also where the version files are gone.
    merge_splits(table)
    for path in sorted((table / "_transaction_log").glob("*[1-3].json")):
        lines = path.read_text().splitlines()
        path.write_text("".join(line + "\n" for line in lines if "commitInfo" not in line))
    assert build_splits(log_lines(10), table, app_id="app", batch_id=2).is_repeated
    assert not build_splits(log_lines(10, first=30), table, app_id="other", batch_id=0).is_repeated
    with pytest.raises(OptionError, match="together"):
        build_splits(log_lines(1), table, app_id="app")


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"filters": ["host"]}, UnsupportedFeatureError, "other columns"),
        ({"analyzers": {"body": "raw"}}, UnsupportedFeatureError, "in another way"),
        ({"partition_columns": ["host"]}, UnsupportedFeatureError, "partitioned by nothing"),
        ({"mode": "upsert"}, OptionError, "upsert"),
        ({"engine": "dask"}, OptionError, "dask"),
        ({"rows_per_split": 0}, OptionError, "one row"),
    ],
)
def test_what_does_not_fit_the_table(tmp_path: Path, changes: dict[str, Any], error: type, says: str) -> None:
    table = tmp_path / "logs"
    build_splits(log_lines(5), table, **CHOICES)
    with pytest.raises(error, match=says):
        build_splits(log_lines(5), table, **{**CHOICES, **changes})
    assert SearchTable(table).version == 1


MOMENT = datetime(2026, 1, 1, 5)
REFUSED: list[tuple[str, Any, Any]] = [
    ("short", pa.array([200], pa.int16()), pa.array([70_000], pa.int64())),
    ("byte", pa.array([1], pa.int8()), pa.array([300], pa.int64())),
    ("long", pa.array([1]), pa.array(["007"])),
    ("long", pa.array([1]), pa.array([2.0])),
    ("string", pa.array(["a"]), pa.array([5])),
    ("date", pa.array([MOMENT.date()]), pa.array([MOMENT], pa.timestamp("us", "UTC"))),
    ("timestamp", pa.array([MOMENT], pa.timestamp("us", "UTC")), pa.array([MOMENT.date()])),
    ("timestamp", pa.array([MOMENT], pa.timestamp("us", "UTC")), pa.array([MOMENT])),
    ("boolean", pa.array([True]), pa.array([7])),
    ("float", pa.array([1.5], pa.float32()), pa.array([0.1])),
    ("double", pa.array([1.5]), pa.array([2**53 + 1])),
]


@pytest.mark.parametrize("role", ["filters", "stored", "partition_columns"])
@pytest.mark.parametrize(("known", "first", "second"), REFUSED)
def test_a_type_that_does_not_fit_is_refused(tmp_path: Path, role: str, known: str, first: Any, second: Any) -> None:
    if role == "partition_columns" and known in ("timestamp", "float", "double"):
        return
    table = tmp_path / "logs"
    build_splits(pa.table({"body": ["w"], "c": first}), table, text=["body"], **{role: ["c"]})
    with pytest.raises(InputError, match=f"the column c of the source is .*, and was {known} when"):
        build_splits(pa.table({"body": ["w"], "c": second}), table)
    with pytest.raises(InputError, match="the column c of the source"):
        build_splits(pa.table({"body": ["w"], "c": second}), table, text=["body"], **{role: ["c"]})
    assert len(list(table.rglob("*.split"))) == 1


@pytest.mark.parametrize("role", ["filters", "stored", "partition_columns"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([2**40]), pa.array([7], pa.int32())),
        (pa.array([1.5]), pa.array([0.1], pa.float32())),
        (pa.array([1.5]), pa.array([7], pa.int16())),
        (pa.array(["a"]), pa.array(["b"], pa.string_view())),
        (pa.array(["a"]), pa.array(["b"], pa.large_string()).dictionary_encode()),
        (pa.array([MOMENT.date()]), pa.array([MOMENT.date()], pa.date64())),
        (pa.array([1]), pa.nulls(1)),
    ],
)
def test_a_narrower_type_fits(tmp_path: Path, role: str, first: pa.Array, second: pa.Array) -> None:
    if role == "partition_columns" and pa.types.is_floating(first.type):
        return
    table = tmp_path / "logs"
    chosen: dict[str, Any] = {"text": ["body"], "key": ["id"], role: ["c"]}
    build_splits(pa.table({"id": [1], "body": ["w"], "c": first}), table, **chosen)
    build_splits(pa.table({"id": [2], "body": ["w"], "c": second}), table, **chosen)
    rows = {row["id"]: row["c"] for row in SearchTable(table).search("w").to_pylist()}
    assert rows == {1: first[0].as_py(), 2: second[0].as_py()}


@pytest.mark.parametrize("role", ["filters", "key", "stored", "partition_columns"])
@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None], pa.string_view()),
        pa.array(["a", None], pa.large_string()),
        pa.array([1.5, None], pa.float16()),
    ],
)
def test_types_that_are_read_as_others(tmp_path: Path, role: str, column: pa.Array) -> None:
    rows = pa.table({"body": ["w", "v"], "c": column})
    if role == "partition_columns" and column.type == pa.float16():
        return
    build_splits(rows, tmp_path / "logs", text=["body"], **{role: ["c"]})
    for word, value in zip(("w", "v"), column.to_pylist(), strict=True):
        assert SearchTable(tmp_path / "logs").search(word).to_pylist()[0]["c"] == value


def test_stored_floats_come_back(tmp_path: Path) -> None:
    values = [math.inf, -math.inf, math.nan, 1.5, None]
    rows = pa.table(
        {
            "id": range(5),
            "one": values,
            "list": [[value, 0.5] for value in values],
            "struct": [{"a": value, "b": "NaN"} for value in values],
            "map": pa.array([[("a", value)] for value in values], pa.map_(pa.string(), pa.float32())),
        }
    )
    build_splits(rows, tmp_path / "logs", key=["id"], stored=["one", "list", "struct", "map"])
    found = SearchTable(tmp_path / "logs").search("*").to_pylist()
    found.sort(key=lambda row: row["id"])
    assert repr([{name: row[name] for name in rows.column_names} for row in found]) == repr(rows.to_pylist())


def test_an_empty_partition_value_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"body": ["a", "b", "c"], "part": ["x", "", None]})
    with pytest.raises(InputError, match="the partition column part has an empty text"):
        build_splits(rows, tmp_path / "logs", text=["body"], partition_columns=["part"])
    assert SearchTable(tmp_path / "logs").splits() == []
    build_splits(rows.slice(2), tmp_path / "logs")
    assert SearchTable(tmp_path / "logs").count("*", "part IS NULL") == 1


class Exported:
    """Rows of another library, such as a DataFrame of Polars."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.schema = {"body": "String"}

    def __arrow_c_stream__(self, wanted: object | None = None) -> object:
        return self.rows.__arrow_c_stream__(wanted)


def test_rows_of_other_libraries(tmp_path: Path) -> None:
    build_splits(Exported(pa.table({"body": ["disk"]})), tmp_path / "logs", text=["body"])
    assert SearchTable(tmp_path / "logs").count("disk") == 1
    with pytest.raises(InputError, match="dict is no source"):
        build_splits({"body": ["disk"]}, tmp_path / "logs", text=["body"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["score", "Highlight"])
@pytest.mark.parametrize("role", ["text", "filters", "stored", "partition_columns"])
def test_names_of_the_answer_are_refused(tmp_path: Path, name: str, role: str) -> None:
    chosen: dict[str, Any] = {"text": ["body"], "key": ["id"]}
    chosen[role] = [*chosen.get(role, ()), name]
    with pytest.raises(OptionError, match=f"a column {name} cannot be in a search table"):
        build_splits(pa.table({"id": [1], "body": ["w"], name: ["x"]}), tmp_path / "logs", **chosen)


@pytest.mark.parametrize("role", ["filters", "key"])
def test_a_text_that_is_a_filter_too_is_refused(tmp_path: Path, role: str) -> None:
    with pytest.raises(OptionError, match="body is both a text and a key or filter"):
        build_splits(pa.table({"body": ["w"]}), tmp_path / "logs", text=["body"], **{role: ["body"]})


def test_tables_that_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTypeError, match="partition column ratio"):
        build_splits(log_lines(5), tmp_path / "a", text=["body"], partition_columns=["ratio"])
    with pytest.raises(UnknownColumnError, match="nope"):
        build_splits(log_lines(5), tmp_path / "a", text=["nope"])
    create_table(tmp_path / "b", schema(id="long"))
    with pytest.raises(UnsupportedFeatureError, match="does not say which columns"):
        build_splits(log_lines(5), tmp_path / "b")
    build_splits(log_lines(5), tmp_path / "c", **CHOICES)
    with pytest.raises(InputError, match="no column 'body'"):
        build_splits(log_lines(5).drop_columns(["body"]), tmp_path / "c")


# Merges.


@pytest.mark.slow
def test_a_merge_keeps_every_document(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    for number in range(12):
        build_splits(log_lines(40, first=40 * number), table, **CHOICES)
    before = {word: matching(table, word) for word in ("disk", "lost", "n77")}
    report = merge_splits(table)
    assert (report.merged, report.added, report.skipped) == (12, 1, ())
    (split,) = SearchTable(table).splits()
    assert ids(table) == list(range(480))
    assert {word: matching(table, word) for word in before} == before
    assert split.numRecords == 480
    assert split.minValues is not None
    assert split.maxValues is not None
    assert (split.minValues["id"], split.maxValues["id"]) == ("0", "479")
    assert (split.timeRangeStart, split.timeRangeEnd) == (split.minValues["ts"], split.maxValues["ts"])
    assert split.numMergeOps == 1
    assert not split.dataChange
    assert len(SearchTable(table).splits("ratio IS NULL")) == 1
    opened = SplitCache().open_split(open_store(table), split)
    assert opened.searcher.num_segments == 12
    assert merge_splits(table).merged == 0


@pytest.mark.slow
def test_many_segments_are_merged_by_the_engine(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    for number in range(9):
        build_splits(log_lines(40, first=40 * number), table, **CHOICES)
    before = matching(table, "disk")
    assert merge_splits(table, most_segments=8).added == 1
    (split,) = SearchTable(table).splits()
    assert SplitCache().open_split(open_store(table), split).searcher.num_segments == 1
    assert (ids(table), matching(table, "disk")) == (list(range(360)), before)


def test_what_a_merge_takes(tmp_path: Path) -> None:
    def split(number: int, size: int = 10, host: str = "a", fields: str = "ours") -> Split:
        mapping = '{"format":"delta-sidecar","version":1,"fields":[]}' if fields == "ours" else fields
        moment = f"2026-01-{number + 1:02d}"
        return Split(
            path=f"{number}.split", size=size, partitionValues={"host": host}, docMappingJson=mapping,
            timeRangeStart=moment,
        )  # fmt: skip

    def plans(splits: list[Split], *rest: Any) -> list[list[str]]:
        dice = random.Random(3)
        dice.shuffle(splits)
        return [[one.path.removesuffix(".split") for one in plan] for plan in plan_merges(splits, *rest)]

    nine = [split(number) for number in range(9)]
    assert plans(nine, 1000, 100) == [[str(n) for n in range(9)]]
    assert plans(nine, 30, 100) == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]]
    assert plans(nine, 1000, 4) == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert plans(nine, 30, 100, 1) == [["0", "1", "2"]]
    assert plans([split(0), split(1, size=30), split(2)], 30, 100) == [["0", "2"]]
    assert plans([split(0), split(1, host="b"), split(2, fields="[]"), split(3)], 100, 100) == [["0", "3"]]
    assert plans([split(0)], 100, 100) == []


def test_a_damaged_split_is_skipped_counted_and_cools_down(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    for number in range(4):
        build_splits(log_lines(20, first=20 * number), table, **CHOICES)
    splits = sorted(SearchTable(table).splits(), key=lambda split: split.timeRangeStart or "")
    damaged, gone = table / splits[1].path, table / splits[2].path
    data = bytearray(damaged.read_bytes())
    data[500] ^= 255
    damaged.write_bytes(data)
    gone.unlink()
    report = merge_splits(table)
    assert (report.merged, report.added) == (2, 1)
    assert set(report.skipped) == {splits[1].path, splits[2].path}
    opened = SearchTable(table)
    assert {skip.path: skip.skipCount for skip in opened.skips()} == dict.fromkeys(report.skipped, 1)
    assert len(opened.splits()) == 3
    assert merge_splits(table).merged == 0
    assert SearchTable(table).version == opened.version


def test_a_split_with_a_damaged_list_is_not_merged(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    for number in range(3):
        build_splits(log_lines(20, first=20 * number), table, **CHOICES)
    damaged = SearchTable(table).splits()[1].path
    flipped(table / damaged, b".pos", -1)
    assert [damaged in problem for problem in doctor(table).problems] == [True]
    assert merge_splits(table).skipped == (damaged,)
    assert [lost.path for lost in repair(table).lost] == [damaged]
    assert SearchTable(table).count("*") == 40


def test_a_merge_by_partition_and_in_a_dry_run(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    for number in range(3):
        build_splits(log_lines(20, first=20 * number), table, text=["body"], key=["id"], partition_columns=["host"])
    planned = merge_splits(table, where="host = 'web-1'", dry_run=True)
    assert (planned.merged, planned.added, planned.dry_run) == (3, 1, True)
    assert merge_splits(table, where="host = 'web-1'").added == 1
    assert merge_splits(table, most_results=1).added == 1
    assert merge_splits(table).added == 3
    assert ids(table) == list(range(60))
    with pytest.raises(OptionError):
        merge_splits(table, most_inputs=1)


def test_a_merge_is_planned_anew_after_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from delta_sidecar.search.splits import merging as split_merging

    table = tmp_path / "logs"
    for number in range(3):
        build_splits(log_lines(20, first=20 * number), table, **CHOICES)
    first = min(SearchTable(table).splits(), key=lambda split: split.timeRangeStart or "")
    calls: list[object] = []

    def racing(*args: Any, **more: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            replace(table, [first.path], [], data_change=True)
        return replace(*args, **more)

    monkeypatch.setattr(split_merging, "replace", racing)
    report = merge_splits(table)
    assert (report.conflicts, report.merged, report.added) == (1, 2, 1)
    assert ids(table) == list(range(20, 60))
    live = {split.path for split in SearchTable(table).splits()}
    orphans = {path.name for path in table.glob("*.split")} - live
    assert len(orphans) == 3
    with pytest.raises(ConflictError):
        replace(table, [first.path], [])
    overwrite(table, [])
    assert ids(table) == []


def test_a_table_whose_numbers_are_not_listed_goes_on(tmp_path: Path) -> None:
    """Tables of before keys were terms have a key that is found in its column; they take the same choices."""
    rows = log_lines(20)
    choices = SplitFields.choose(rows.schema, text=["body"], key=["id"])
    old = [structs.replace(one, indexed=False) if one.name == "id" else one for one in choices]
    fields = dataclasses.replace(choices, fields=tuple(old))
    columns = fields.columns_of(table_schema(rows.schema)).to_json()
    create_table(tmp_path, columns, configuration={"sidecar.fields": fields.to_json()})
    build_splits(rows, tmp_path, text=["body"], key=["id"])
    assert SearchTable(tmp_path).search("id:7").to_table()["id"].to_pylist() == [7]
    with pytest.raises(UnsupportedFeatureError, match="in another way"):
        build_splits(rows, tmp_path, text=["body"], key=["id"], filters=["host"])


def test_columns_in_another_order_are_the_same_choice(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "größe": [7], "body": ["disk"]})
    how: dict[str, Any] = {"text": ["body"], "key": ["id", "größe"]}
    build_splits(rows, tmp_path, **how)
    build_splits(rows.select(["body", "größe", "id"]), tmp_path, **how)
    assert SearchTable(tmp_path).count("größe:7 disk") == 2


@pytest.mark.parametrize("late", [False, True])
def test_the_number_of_a_batch_outlives_its_splits(tmp_path: Path, late: bool) -> None:
    table = tmp_path / "logs"
    build_splits(log_lines(10), table, **CHOICES, app_id="app", batch_id=3)
    build_splits(log_lines(10, first=10), table, mode="overwrite")
    checkpoint(table)
    if late:
        # A later checkpoint, for which the removal is too old to be kept.
        build_splits(log_lines(10, first=20), table, options={"logRetention.duration": 0})
        checkpoint(table, options={"logRetention.duration": 0})
        assert b'"remove":[]' in max((table / "_transaction_log").glob("*.checkpoint.json")).read_bytes()
    assert clean_log(table, now_ms=FAR).deleted
    assert build_splits(log_lines(10), table, app_id="app", batch_id=3).is_repeated
    assert not build_splits(log_lines(10), table, app_id="app", batch_id=4).is_repeated


def test_a_merge_that_others_are_always_faster_than(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "logs"
    for number in range(2):
        build_splits(log_lines(5, first=5 * number), table, **CHOICES)

    def conflict(*_: Any, **__: Any) -> None:
        raise ConflictError("another writer removed it")

    def refuse(*_: Any) -> None:
        raise StorageError("no permission to delete")

    monkeypatch.setattr("delta_sidecar.search.splits.merging.replace", conflict)
    monkeypatch.setattr("delta_sidecar.storage.local.LocalStore.delete", refuse)
    with pytest.raises(ConflictError, match="faster in each of 20 rounds; run it again"):
        merge_splits(table)


def test_a_value_that_the_engine_would_leave_out_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"body": ["disk", "full"], "host": ["a", "x" * 65_531]})
    with pytest.raises(InputError, match=r"column host has 65,531 bytes.*index the column as a text"):
        build_splits(rows, tmp_path / "refused", text=["body"], filters=["host"])
    fitting = rows.set_column(1, "host", pa.array(["a", "x" * 65_530]))
    build_splits(fitting, tmp_path / "logs", text=["body"], filters=["host"])
    assert SearchTable(tmp_path / "logs").count("*", f"host = '{'x' * 65_530}'") == 1
