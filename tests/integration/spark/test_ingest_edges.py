"""Ingest where a value could be lost on the way: it is in the table, put aside, rescued, or the batch is refused."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from delta_sidecar import InputError, SparkError
from delta_sidecar.pipeline.ingest_job import IngestSummary, ingest
from delta_sidecar.pipeline.streaming import await_end, ingest_stream
from tests.integration.spark.oracle import SparkTable, with_setting

NOON = "2026-02-10T12:00:00Z"
TIME = f"TIMESTAMP'{NOON}' AS ts"


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


def land(folder: Path, *records: object, name: str = "a.json") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def take(table: SparkTable, source: Any, **options: Any) -> IngestSummary:
    return ingest(source, table.root, "ts", spark=table.spark, index="never", **options)


def rows_of(table: SparkTable, *columns: str, order: str = "id") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.frame().orderBy(order).selectExpr(*columns).collect()]


def bad_rows_of(table: SparkTable, place: Path) -> list[str]:
    return sorted(row.raw for row in SparkTable(table.spark, place).frame().collect())


@pytest.mark.parametrize("name", ["__time_problem", "__time", "__left", "__TIME_PROBLEM"])
def test_names_of_ours_are_refused(table: SparkTable, landing: Path, name: str) -> None:
    land(landing, {"ts": NOON, name: "keep me"})
    with pytest.raises(InputError, match=f"a column {name}, a name that ingest reserves; rename it"):
        take(table, landing)
    with pytest.raises(InputError, match=f"a column {name}, a name that ingest reserves; rename it"):
        take(table, table.spark.sql(f"SELECT '{NOON}' AS ts, 'keep me' AS {name}"))


# Between the look at a batch and its writing.

BEFORE = {"ts": NOON, "id": 12345, "s": "abc"}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a value": ({"id": "abc"}, {"rescue": True}),
    "a time": ({"ts": "2026-13-10T12:00:00Z"}, {}),
    "a time beside rescued values": (
        {"ts": "2026-13-10T12:00:00Z"},
        {"rescue": True, "schema": "ts TIMESTAMP, id INT"},
    ),
}


def changing(file: Path, after: str) -> Callable[[str], None]:
    """Writes other text of the same length when the batch was looked at."""

    def say(what: str) -> None:
        if what.startswith("writing"):
            assert len(after) == file.stat().st_size
            file.write_text(after)

    return say


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_after_the_look_ends_the_batch(table: SparkTable, landing: Path, change: str) -> None:
    after, options = CHANGES[change]
    schema = {"schema": "ts TIMESTAMP, id BIGINT, s STRING"} | options
    file = land(landing, BEFORE)
    say = changing(file, (json.dumps(BEFORE | after) + "\n").ljust(file.stat().st_size + 1)[: file.stat().st_size])
    with pytest.raises(SparkError, match=r"no longer fits|was changed after the batch was checked"):
        take(table, landing, on_progress=say, **schema)
    assert table.frame().count() == 0


def test_a_time_that_changes_beside_bad_records_ends_the_batch(
    table: SparkTable, landing: Path, tmp_path: Path
) -> None:
    file = land(landing, BEFORE)
    text = file.read_text() + "{cut\n"
    file.write_text(text)
    say = changing(file, text.replace("2026-02", "2026-13"))
    with pytest.raises(SparkError, match="the time ts was changed after the batch was checked"):
        take(table, landing, on_progress=say, bad_rows=tmp_path / "bad")
    assert table.frame().count() == 0


@pytest.mark.parametrize("rescue", [False, True])
def test_typed_rows_that_change_after_the_look_end_the_batch(table: SparkTable, landing: Path, rescue: bool) -> None:
    file = land(landing, BEFORE)
    frame = table.spark.read.schema("ts STRING, id BIGINT, s STRING").json(str(landing))
    after = {"id": 99999} if rescue else {"ts": "2026-13-10T12:00:00Z"}
    say = changing(file, json.dumps(BEFORE | after) + "\n")
    with pytest.raises(SparkError, match="was changed after the batch was checked"):
        take(
            table,
            frame,
            on_progress=say,
            rescue=rescue,
            schema="ts TIMESTAMP, id SMALLINT, s STRING" if rescue else None,
        )
    assert table.frame().count() == 0


# Numbers of typed sources in narrower columns.

MAX = 2**63 - 1
NUMBERS: list[tuple[str, str, bool]] = [
    *((f"{n}L", "DOUBLE", fits) for n, fits in ((MAX, False), (MAX - 1, False), (MAX - 1023, True), (-MAX, False))),
    *((f"{n}L", "DOUBLE", fits) for n, fits in ((2**53, True), (2**53 + 1, False), (2**62, True), (-5, True))),
    ("-9223372036854775807L - 1L", "DOUBLE", True),
    *((str(n), "FLOAT", fits) for n, fits in ((2**31 - 1, False), (2**31 - 128, True), (2**24 + 1, False), (-7, True))),
    *((f"{n}L", "FLOAT", fits) for n, fits in ((MAX, False), (2**24 + 1, False), (2**24, True), (2**62, True))),
    ("CAST(32767 AS SMALLINT)", "FLOAT", True),
    ("9223372036854775808D", "BIGINT", False),
    ("9223372036854774784D", "BIGINT", True),
    ("-9223372036854775808D", "BIGINT", True),
    ("1.5D", "BIGINT", False),
    ("CAST('NaN' AS DOUBLE)", "BIGINT", False),
    ("CAST('Infinity' AS DOUBLE)", "BIGINT", False),
    ("2147483648D", "INT", False),
    ("2147483647D", "INT", True),
    ("CAST(2147483648 AS FLOAT)", "INT", False),
    ("CAST(2147483520 AS FLOAT)", "INT", True),
    ("CAST(9223372036854775808D AS FLOAT)", "BIGINT", False),
    ("1e300D", "FLOAT", False),
    ("0.1D", "FLOAT", False),
    ("0.5D", "FLOAT", True),
    ("CAST('1e23' AS DECIMAL(24,0))", "DOUBLE", False),
    ("CAST('1e22' AS DECIMAL(24,0))", "DOUBLE", True),
    (f"CAST('{2**100}' AS DECIMAL(38,0))", "DOUBLE", True),
    (f"CAST('{2**100 + 1}' AS DECIMAL(38,0))", "DOUBLE", False),
    (f"CAST('-{2**100}' AS DECIMAL(38,2))", "DOUBLE", True),
    (f"CAST('{10**38 - 1}' AS DECIMAL(38,0))", "DOUBLE", False),
    ("CAST('1.25' AS DECIMAL(5,2))", "DOUBLE", True),
    ("CAST('0.12345678901234567891' AS DECIMAL(38,20))", "DOUBLE", False),
    ("CAST('16777217' AS DECIMAL(8,0))", "FLOAT", False),
    ("1e23D", "DECIMAL(38,0)", False),
    ("1e22D", "DECIMAL(38,0)", True),
    ("0.5D", "DECIMAL(5,2)", True),
    ("1000D", "DECIMAL(5,2)", False),
    (f"CAST('{2**63}' AS DECIMAL(20,0))", "BIGINT", False),
    (f"CAST('{MAX}.5' AS DECIMAL(21,1))", "BIGINT", False),
    (f"CAST('{MAX}' AS DECIMAL(20,0))", "BIGINT", True),
    ("300", "TINYINT", False),
    ("CAST('1.25' AS DECIMAL(5,2))", "DECIMAL(3,1)", False),
]


@pytest.mark.parametrize("ansi", [False, True])
def test_numbers_that_do_not_fit_are_rescued(table: SparkTable, ansi: bool) -> None:
    columns = [f"{sql} AS c{at}" for at, (sql, _, _) in enumerate(NUMBERS)]
    schema = ", ".join(["ts TIMESTAMP", *(f"c{at} {kind}" for at, (_, kind, _) in enumerate(NUMBERS))])
    with with_setting(table.spark, "spark.sql.ansi.enabled", str(ansi).lower()):
        source = table.spark.sql(f"SELECT {TIME}, {', '.join(columns)}")
        # Not literals: Spark computes with these at once, before it takes two casts for one.
        rows = table.spark.createDataFrame(source.collect(), source.schema)
        take(table, rows, rescue=True, schema=schema)
        row = table.frame().first()
    assert row is not None
    rescued = json.loads(row["_rescued"])
    for at, (sql, kind, fits) in enumerate(NUMBERS):
        assert (row[f"c{at}"] is not None, f"c{at}" in rescued) == (fits, not fits), f"{sql} as {kind}"
    assert (rescued["c0"], row["c2"]) == (MAX, float(MAX - 1023))
    assert row[f"c{[sql for sql, _, _ in NUMBERS].index('9223372036854774784D')}"] == 9223372036854774784


# Attempts and restarts.


@pytest.mark.parametrize("numbered", [False, True])
def test_a_second_attempt_puts_aside_what_the_first_did_not(
    table: SparkTable, landing: Path, tmp_path: Path, numbered: bool
) -> None:
    """Another writer makes the table meanwhile, where a time with a zone is none."""
    land(landing, {"ts": NOON, "id": 1}, {"ts": "2026-02-10T12:00:00", "id": 2}, {"ts": "none", "id": 3})
    bare = table.spark.sql("SELECT TIMESTAMP_NTZ'2026-02-10 11:00:00' AS ts, 0L AS id")

    def say(what: str) -> None:
        if what == "creating the table":
            take(table, bare)

    once: dict[str, Any] = {"app_id": "a", "batch_id": 1} if numbered else {}
    options = {"schema": "ts TIMESTAMP, id BIGINT"} if not numbered else {}
    done = take(table, landing, bad_rows=tmp_path / "bad", on_progress=say, **once, **options)
    assert (done.rows, done.bad_rows) == (1, 2)
    assert rows_of(table, "id") == [(0,), (2,)]
    assert [json.loads(raw)["id"] for raw in bad_rows_of(table, tmp_path / "bad")] == [1, 3]
    if numbered:
        assert take(table, landing, bad_rows=tmp_path / "bad", **once).skipped_as_replayed


def streamed(table: SparkTable, landing: Path, **options: Any) -> list[IngestSummary]:
    done: list[IngestSummary] = []
    query = ingest_stream(
        landing, table.root, "ts", landing.parent / "progress", spark=table.spark, index="never",
        on_batch=done.append, **options,
    )  # fmt: skip
    await_end(query)
    return done


@pytest.mark.parametrize(("first", "second"), [("one", "two"), ("one", None), (None, "two")])
def test_a_stream_keeps_the_name_it_began_with(
    table: SparkTable, landing: Path, tmp_path: Path, first: str | None, second: str | None
) -> None:
    """A batch that Spark did not note as done is known after a restart as another application."""
    land(landing, {"ts": NOON, "id": 1}, {"ts": "none", "id": 2})
    streamed(table, landing, app_id=first, bad_rows=tmp_path / "bad")
    for path in (tmp_path / "progress" / "commits").iterdir():
        path.unlink()
    land(landing, {"ts": NOON, "id": 3}, name="b.json")
    done = streamed(table, landing, app_id=second, bad_rows=tmp_path / "bad")
    assert [(summary.rows, summary.skipped_as_replayed) for summary in done] == [(0, True), (1, False)]
    assert rows_of(table, "id") == [(1,), (3,)]
    assert len(bad_rows_of(table, tmp_path / "bad")) == 1


def test_bad_rows_of_a_stream_are_not_doubled_by_another_name(table: SparkTable, landing: Path, tmp_path: Path) -> None:
    """The first run breaks off between its bad rows and its batch."""
    land(landing, {"ts": NOON, "id": 1}, {"ts": "none", "id": 2})

    def say(what: str) -> None:
        if what == "creating the table":
            raise RuntimeError("broken off")

    with pytest.raises(SparkError, match="the stream broke off"):
        streamed(table, landing, app_id="one", bad_rows=tmp_path / "bad", on_progress=say)
    (done,) = streamed(table, landing, app_id="two", bad_rows=tmp_path / "bad")
    assert (done.rows, done.bad_rows) == (1, 1)
    assert len(bad_rows_of(table, tmp_path / "bad")) == 1


def test_a_stream_with_other_bad_rows_than_before_is_told_what_to_do(
    table: SparkTable, landing: Path, tmp_path: Path
) -> None:
    """The first run breaks off between its bad rows and its batch, and the file is another by the next."""
    land(landing, {"ts": NOON, "id": 1}, {"ts": "none", "id": 2})

    def say(what: str) -> None:
        if what == "creating the table":
            raise RuntimeError("broken off")

    with pytest.raises(SparkError, match="the stream broke off"):
        streamed(table, landing, bad_rows=tmp_path / "bad", on_progress=say)
    land(landing, {"ts": NOON, "id": 1}, {"ts": "nope", "id": 2})
    with pytest.raises(InputError, match=r"another batch; restart the stream with .* another --bad-rows place \(bad_"):
        streamed(table, landing, bad_rows=tmp_path / "bad")
    (done,) = streamed(table, landing, bad_rows=tmp_path / "other")
    assert (done.rows, done.bad_rows) == (1, 1)


# Names.

TWICE = {"ts": NOON, "id": 2, "s": {"x": 1, "X": 2}}


@pytest.mark.parametrize("others", [[], [{"ts": "none", "id": 3}]])
@pytest.mark.parametrize("value", [TWICE["s"], [{"y": TWICE["s"]}]])
def test_a_new_struct_that_names_a_field_twice_is_a_bad_row(
    table: SparkTable, landing: Path, tmp_path: Path, others: list[object], value: object
) -> None:
    land(landing, {"ts": NOON, "id": 1}, TWICE | {"s": value}, *others)
    options: dict[str, Any] = {"schema": "ts TIMESTAMP, id BIGINT", "merge_schema": True}
    with pytest.raises(InputError, match=r"(1 record is|2 records are) bad"):
        take(table, landing, **options)
    done = take(table, landing, bad_rows=tmp_path / "bad", **options)
    assert (done.rows, done.bad_rows) == (1, 1 + len(others))
    assert len(bad_rows_of(table, tmp_path / "bad")) == 1 + len(others)
    assert table.frame().columns == ["ts", "id", "_event_hour"]


def test_names_are_compared_as_spark_does(table: SparkTable, landing: Path) -> None:
    table.spark.sql(
        f"SELECT {TIME}, 1L AS id, named_struct('strasse', 'a', 'straße', 'b') AS s"
    ).createOrReplaceTempView("v")
    take(table, table.spark.table("v"))
    turned = f"SELECT {TIME}, 2L AS id, named_struct('STRAßE', 'd', 'Strasse', 'c') AS s"
    take(table, table.spark.sql(turned))
    land(landing, {"ts": NOON, "id": 3, "s": {"straße": "f"}}, {"ts": NOON, "id": 4, "s": {"strasse": "g"}})
    take(table, landing)
    values = [("a", "b"), ("c", "d"), (None, "f"), ("g", None)]
    assert rows_of(table, "s.strasse", "s.`straße`") == values


def test_inference_keeps_names_apart_as_spark_does(table: SparkTable, landing: Path) -> None:
    land(landing, {"ts": NOON, "id": 1, "straße": "a"}, {"ts": NOON, "id": 2, "strasse": "b"})
    take(table, landing)
    assert rows_of(table, "`straße`", "strasse") == [("a", None), (None, "b")]


TWINS = {
    "ts": f"SELECT {TIME}, timestamp'2026-01-01' AS TS, 1 AS id",
    "id": f"SELECT {TIME}, 1 AS id, 2 AS ID",
    "_event_hour": f"SELECT {TIME}, 'a' AS _event_hour, 'b' AS _EVENT_HOUR",
    "s.x": f"SELECT {TIME}, array(named_struct('x', 1, 'X', 2)) AS s",
}


@pytest.mark.parametrize("name", TWINS)
def test_columns_that_differ_in_case_alone_are_refused(table: SparkTable, name: str) -> None:
    refused = pytest.raises(InputError, match=rf"the DataFrame has the column '{name}' twice")
    with with_setting(table.spark, "spark.sql.caseSensitive", "true"), refused:
        take(table, table.spark.sql(TWINS[name]))


def test_columns_that_no_file_can_hold_are_refused_by_name(table: SparkTable, landing: Path) -> None:
    """In a DataFrame, and in Parquet whose times of nanoseconds are why it is read by a schema of ours."""
    frames = {
        "s": table.spark.sql(f"SELECT {TIME}").withColumn("s", f.struct()),
        "s.b": table.spark.sql(f"SELECT {TIME}, named_struct('a', 1, 'b', named_struct('c', null)) AS s"),
        "l": table.spark.sql(f"SELECT {TIME}, array(null) AS l"),
    }
    for name, frame in frames.items():
        with pytest.raises(InputError, match=f"the DataFrame: column {name} has no type .*; cast it, leave it out"):
            take(table, frame)
    times = pa.array([0], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"ts": times, "s": [{"a": None}]}), landing / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: column s has no type"):
        take(table, landing)
    assert not table.root.exists()
    take(table, frames["l"], schema="ts TIMESTAMP, l ARRAY<STRING>")
    assert rows_of(table, "l", order="ts") == [([None],)]


def test_columns_of_ours_that_hold_no_text_are_refused(table: SparkTable, landing: Path) -> None:
    take(table, table.spark.sql(f"SELECT {TIME}, 1L AS _rescued, 1 AS _corrupt_record"))
    land(landing, {"ts": NOON, "more": "text"})
    with pytest.raises(InputError, match="column _rescued is bigint, but --rescue writes text to it"):
        take(table, landing, rescue=True)
    with pytest.raises(InputError, match="column _corrupt_record is int, but mode=PERMISSIVE writes text to it"):
        take(table, landing, read_options={"mode": "PERMISSIVE"})


# A schema that leaves out a column of the table.


def test_a_column_that_only_the_table_has_keeps_its_type(table: SparkTable, landing: Path) -> None:
    take(table, table.spark.sql(f"SELECT {TIME}, 1 AS id, 7 AS n, named_struct('x', 1, 'y', 1) AS s"))
    options: dict[str, Any] = {"schema": "ts TIMESTAMP, id INT, s STRUCT<x: INT>", "merge_schema": True}
    text = f"SELECT {TIME}, 2 AS id, 'text' AS n"
    with pytest.raises(InputError, match="n is string, but in the contract int"):
        take(table, table.spark.sql(text), **options)
    take(table, table.spark.sql(text), rescue=True, **options)
    land(landing, {"ts": NOON, "id": 3, "n": 9, "s": {"y": 5}, "new": 1})
    take(table, landing, **options)
    land(landing, {"ts": NOON, "id": 4, "n": "text"})
    with pytest.raises(InputError, match=r'values do not fit: n is int, not "text"'):
        take(table, landing, **options)
    assert rows_of(table, "id", "n", "s.y", "_rescued", "new") == [
        (1, 7, 1, None, None),
        (2, None, None, '{"n":"text"}', None),
        (3, 9, 5, None, 1),
    ]


# Directories.


@pytest.mark.parametrize("name", ["origin", "value", "START"])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_directories_named_as_columns_of_ours_are_refused(
    table: SparkTable, landing: Path, name: str, kind: str
) -> None:
    file = land(landing, {"ts": NOON, "id": 1}, name=f"{name}=7/a.{kind}")
    if kind == "csv":
        file.write_text(f"ts,id\n{NOON},1\n")
    with pytest.raises(InputError, match=f"directories give a column {name}, a name that ingest reserves"):
        take(table, landing)
    assert take(table, landing, read_options={"directoryColumns": "false"}).rows == 1


def test_escapes_in_names_of_directories_are_decoded(table: SparkTable, landing: Path) -> None:
    land(landing, {"ts": NOON, "id": 1}, name="a%3Ab=1%2F2/k=x/a.json")
    land(landing, {"ts": NOON, "id": 2}, name="k=y/a.json")
    take(table, landing)
    assert rows_of(table, "`a:b`", "k") == [("1/2", "x"), (None, "y")]


def test_directories_that_give_a_column_twice_are_refused(table: SparkTable, landing: Path) -> None:
    land(landing, {"ts": NOON, "id": 1}, name="k=1/k=2/a.json")
    with pytest.raises(InputError, match=r"directories give column k twice: k=1/k=2; rename them, or pass"):
        take(table, landing)


@pytest.mark.parametrize("name", ["100%", "%zz", "50%25", "a+b"])
def test_a_percent_sign_in_the_name_of_a_directory(table: SparkTable, landing: Path, name: str) -> None:
    land(landing, {"ts": NOON, "id": 1}, name=f"k={name}/a.json")
    take(table, landing)
    assert rows_of(table, "k") == [(name.replace("%25", "%"),)]


@pytest.mark.parametrize("name", ["k=%ff", "%fe=1"])
def test_escapes_of_directories_that_are_no_text_are_refused(table: SparkTable, landing: Path, name: str) -> None:
    land(landing, {"ts": NOON, "id": 1}, name=f"{name}/a.json")
    with pytest.raises(InputError, match=rf"the escapes of {name} are not UTF-8; rename them, or pass"):
        take(table, landing)


@pytest.mark.parametrize("written", ["2026-02-10%09", "%C2%A02026-02-10", "2026-02-10%0A"])
def test_a_time_of_a_directory_is_not_lost_to_the_space_beside_it(
    table: SparkTable, landing: Path, written: str
) -> None:
    land(landing, {"ts": NOON, "id": 1}, name="a.json")
    take(table, landing, schema="ts TIMESTAMP, id INT, d TIMESTAMP")
    land(landing, {"ts": NOON, "id": 2}, name=f"d={written}/b.json")
    with pytest.raises(InputError, match="d is string, but in the contract timestamp"):
        take(table, landing)
    take(table, landing, read_options={"directoryColumns": "false"})
    assert rows_of(table, "d") == [(None,)] * 3


# Times.


def test_digits_of_an_epoch_do_not_move_it_into_another_bucket(table: SparkTable, landing: Path) -> None:
    (landing / "a.json").write_text('{"ts": 1770767999.9999999999, "id": 1}\n')
    take(table, landing, time_format="epoch-seconds")
    assert rows_of(table, "_event_hour", "unix_micros(ts)") == [("2026021023", 1770767999999999)]


def test_a_zone_of_few_letters_means_one_thing_or_is_refused(table: SparkTable, landing: Path, tmp_path: Path) -> None:
    unclear = ("BST", "CST", "IST", "EST", "AST", "Zulu")
    clear = ("Z", " UTC", " GMT", " Europe/Berlin", "+01:00", " UTC+01:00")
    times = [*(f"2026-02-10 12:00:00 {zone}" for zone in unclear), *(f"2026-02-10 12:00:00{zone}" for zone in clear)]
    land(landing, *({"ts": time, "id": at} for at, time in enumerate(times)))
    done = take(table, landing, bad_rows=tmp_path / "bad")
    assert (done.rows, done.bad_rows) == (len(clear), len(unclear))
    assert all(any(zone in raw for zone in unclear) for raw in bad_rows_of(table, tmp_path / "bad"))
    assert rows_of(table, "hour(ts)") == [(12,), (12,), (12,), (11,), (11,), (11,)]


@pytest.mark.parametrize("where", ["column", "struct", "list", "key"])
def test_nanoseconds_are_cut_in_the_time_column_alone(table: SparkTable, landing: Path, where: str) -> None:
    kind = pa.timestamp("ns", "UTC")
    odd, even = 1_770_767_999_123_456_789, 1_770_767_999_123_456_000
    shapes: dict[str, tuple[pa.DataType, Callable[[int], Any], str]] = {
        "column": (kind, lambda time: time, "other"),
        "struct": (pa.struct([("x", kind)]), lambda time: {"x": time}, "other.x"),
        "list": (pa.list_(kind), lambda time: [time], "other[0]"),
        "key": (pa.map_(kind, pa.int64()), lambda time: [(time, 1)], "map_keys(other)[0]"),
    }
    wanted, made, sql = shapes[where]
    for name, time in (("odd", odd), ("even", even)):
        columns = {"ts": pa.array([odd], kind), "other": pa.array([made(time)], wanted)}
        pq.write_table(pa.table(columns), landing / f"{name}.parquet")
    with pytest.raises(SparkError, match=r"other.* has digits beyond microseconds, .*: 1770767999123456789"):
        take(table, landing / "odd.parquet")
    take(table, landing / "even.parquet")
    take(table, landing / "odd.parquet", read_options={"nanoseconds": "cut"})
    micros = odd // 1000
    assert rows_of(table, f"unix_micros({sql})", "unix_micros(ts)", order="ts") == [(micros, micros)] * 2


def test_a_time_inside_a_struct_counts_where_its_field_has_another_type(
    table: SparkTable, landing: Path, tmp_path: Path
) -> None:
    micros = 1770768359000000
    records = [
        {"id": 1, "meta": {"ts": micros}},
        {"id": 2, "meta": {"ts": str(micros), "note": "n"}},
        {"id": 3, "Meta": {"TS": str(micros)}},
        {"id": 4, "meta": {"ts": "soon"}},
        {"id": 5, "meta": {"note": "n"}},
        {"id": 6, "meta": 7},
    ]
    land(landing, *records)
    how: dict[str, Any] = {"spark": table.spark, "index": "never", "time_format": "epoch-micros", "rescue": True}
    schema = "id INT, meta STRUCT<ts: BIGINT, note: STRING>"
    done = ingest(landing, table.root, "meta.ts", schema=schema, bad_rows=tmp_path / "bad", **how)
    assert (done.rows, done.bad_rows, done.null_bucket_rows) == (5, 1, 2)
    assert rows_of(table, "id", "unix_micros(_event_time)") == [
        (1, micros),
        (2, micros),
        (3, micros),
        (5, None),
        (6, None),
    ]
    assert [json.loads(raw)["id"] for raw in bad_rows_of(table, tmp_path / "bad")] == [4]


# Maps whose keys are no text.


def test_keys_that_json_has_no_text_for_are_kept(table: SparkTable, landing: Path, tmp_path: Path) -> None:
    day = datetime.date(2026, 2, 10)
    columns = {
        "ts": pa.array([NOON, "nonsense"]),
        "b": pa.array([[(b"\x00\xff", 1), (b"k2", 2)]] * 2, pa.map_(pa.binary(), pa.int64())),
        "d": pa.array([{"in": [[(day, 1)]]}] * 2, pa.struct([("in", pa.list_(pa.map_(pa.date32(), pa.int64())))])),
        "n": pa.array([[(7, [(b"x", "y")])]] * 2, pa.map_(pa.int64(), pa.map_(pa.binary(), pa.string()))),
    }
    pq.write_table(pa.table(columns), landing / "a.parquet")
    take(table, landing, schema="ts TIMESTAMP", rescue=True, bad_rows=tmp_path / "bad")
    rescued = json.loads(rows_of(table, "_rescued", order="ts")[0][0])
    (bad,) = map(json.loads, bad_rows_of(table, tmp_path / "bad"))
    for kept in (rescued, bad):
        assert kept["b"] == [{"key": "AP8=", "value": 1}, {"key": "azI=", "value": 2}]
        assert kept["d"] == {"in": [[{"key": "2026-02-10", "value": 1}]]}
        assert kept["n"] == {"7": [{"key": "eA==", "value": "y"}]}
