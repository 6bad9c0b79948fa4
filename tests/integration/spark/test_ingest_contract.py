"""What the guide says of formats, values and times: each case by itself, where the random landings only meet it now and
then (`tests/integration/ingest`)."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import InputError, UnknownColumnError
from delta_sidecar.pipeline.event_time import event_time
from delta_sidecar.pipeline.ingest_job import IngestSummary, ingest
from delta_sidecar.values.bucket_columns import TIME_TYPES, TimeType
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME = "2026-02-10T23:45:00Z"
MOMENT = dt.datetime(2026, 2, 10, 23, 45)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return tmp_path / "landing"


def land(landing: Path, files: Mapping[str, str | bytes | pa.Table]) -> None:
    """Files of text, bytes or Parquet, instead of those that are there."""
    for name, data in files.items():
        path = landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, pa.Table):
            pq.write_table(data, path)
        else:
            path.write_bytes(data.encode() if isinstance(data, str) else data)


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def run(table: SparkTable, landing: Path, time: str = "ts", *, bad: bool = False, **options: Any) -> IngestSummary:
    if bad:
        options["bad_rows"] = landing.parent / "bad"
    return ingest(landing, table.root, time, spark=table.spark, **options)


def found(table: SparkTable, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table.frame().selectExpr(*columns).collect()), key=repr)


def put_aside(table: SparkTable, landing: Path) -> dict[str, str]:
    """The bad rows: the reason of each text."""
    rows = table.spark.read.format("delta").load(str(landing.parent / "bad")).collect()
    assert all(str(landing) in row.file for row in rows)
    return {row.raw: row.reason for row in rows}


def at(hour: int, minute: int = 0) -> pa.Array:
    return pa.array([dt.datetime(2026, 2, 10, hour, minute)], pa.timestamp("us", "UTC"))


# Text.


def test_new_columns_misfits_and_bad_records_in_one_batch(table: SparkTable, landing: Path) -> None:
    """With all options each goes its own way. A value that does not fit is named by its column without them."""
    land(landing, {
        "a.json": lines({"ts": TIME, "id": 1, "new": 7}, {"ts": TIME, "id": "x", "s": {"k": 1, "deep": True}}),
        "b.json": lines({"ts": "?", "id": 3}) + "{cut off\n" + '{"ts": "2026-02-10", "id": 4, "ID": 5}\n',
        "c.json": lines({"id": 6}, {"ts": "", "id": 7}, {"ts": "   ", "id": 8}, {"ts": "\t", "id": 9}),
    })  # fmt: skip
    schema = "ts TIMESTAMP, id INT, s STRUCT<k: INT>"
    with pytest.raises(InputError, match='values do not fit: id is int, not "x"; fix them, or pass --rescue'):
        run(table, landing, schema=schema, merge_schema=True)
    done = run(table, landing, schema=schema, merge_schema=True, rescue=True, bad=True)
    assert (done.rows, done.null_bucket_rows, done.bad_rows) == (5, 3, 4)
    assert found(table, "id", "new", "s.deep", "_rescued", "_event_hour") == [
        (1, 7, None, None, "2026021023"),
        (6, None, None, None, None),
        (7, None, None, None, None),
        (8, None, None, None, None),
        (None, None, True, '{"id":"x"}', "2026021023"),
    ]
    reasons = put_aside(table, landing)
    assert reasons['{"ts": "?", "id": 3}'] == reasons['{"ts": "\\t", "id": 9}'] == "ts is not a time"
    assert reasons["{cut off"].startswith("Expecting property name")
    assert "twice" in reasons['{"ts": "2026-02-10", "id": 4, "ID": 5}']


VALUES: list[tuple[str, object, str, bool]] = [
    ("id", "5", "null", False),
    ("id", 3_000_000_000, "null", False),
    ("f", 1.1, "CAST(1.1 AS FLOAT)", True),
    ("f", 0.1234567890123, "null", False),
    ("f", "Infinity", "CAST('Infinity' AS FLOAT)", True),
    ("f", "1.5", "null", False),
    ("dec", "1.25", "1.25", True),
    ("dec", 1.2567, "null", False),
    ("b", "aGk=", "X'6869'", True),
    ("b", "h!", "null", False),
    ("bo", "true", "null", False),
    ("s", {"k": [1]}, "'{\"k\":[1]}'", True),
    ("day", "2026-02-10", "DATE'2026-02-10'", True),
    ("day", "2026-02-10T00:00:00", "null", False),
    ("t", "2026-02-10T01:00:00.1234560+01:00", "TIMESTAMP'2026-02-10 00:00:00.123456Z'", True),
    ("t", "2026-02-10T01:00:00.1234567Z", "null", False),
    ("t", 1, "null", False),
    ("n", "2026-02-10 01:00:00", "TIMESTAMP_NTZ'2026-02-10 01:00:00'", True),
    ("n", "2026-02-10T01:00:00Z", "null", False),
    ("tags", [1, "x", 3], "array(1, null, 3)", False),
    ("m", {"1": 1, "k": 2}, "map(1, 1)", False),
    ("m", {"1": "y"}, "map(1, CAST(null AS INT))", False),
]
"""A column, a value of JSON, what is in the column then, and whether nothing else is kept."""
TYPES = (
    "ts TIMESTAMP, no INT, id INT, f FLOAT, dec DECIMAL(5,2), b BINARY, bo BOOLEAN, s STRING, day DATE, t TIMESTAMP, "
    "n TIMESTAMP_NTZ, tags ARRAY<INT>, m MAP<INT, INT>"
)


def test_what_fits_a_type_is_stored_and_the_rest_kept_whole(table: SparkTable, landing: Path) -> None:
    records = [{"ts": TIME, "no": no, column: value} for no, (column, value, _, _) in enumerate(VALUES)]
    land(landing, {"a.json": lines(*records)})
    assert run(table, landing, schema=TYPES, rescue=True).rows == len(VALUES)
    wanted = "CASE no " + " ".join(
        f"WHEN {no} THEN to_json(named_struct('v', {column})) = to_json(named_struct('v', {sql}))"
        for no, (column, _, sql, _) in enumerate(VALUES)
    )
    wrong = [row for row in found(table, "no", f"{wanted} END", "_rescued") if not row[1]]
    assert wrong == []
    kept = {row[0]: row[1] and json.loads(row[1]) for row in found(table, "no", "_rescued")}
    assert kept == {no: None if fits else {column: value} for no, (column, value, _, fits) in enumerate(VALUES)}


def test_csv_files_of_different_columns(table: SparkTable, landing: Path) -> None:
    """Each by its own header; a record has as many fields as the header of its file."""
    land(landing, {
        "a.csv": f"ts,id\n{TIME},1\n{TIME}\n{TIME},2,3\n",
        "b.csv": f'id,new,TS,"s"\n007,x,{TIME},""\n   \n\n',
    })  # fmt: skip
    schema = "ts TIMESTAMP, id INT, s STRING, b BINARY"
    with pytest.raises(InputError, match="columns that the contract lacks: new; pass --merge-schema"):
        run(table, landing, schema=schema, bad=True)
    done = run(table, landing, schema=schema, bad=True, merge_schema=True)
    assert (done.rows, done.bad_rows) == (2, 3)
    assert found(table, "id", "s", "new") == [(1, None, None), (7, "", "x")]
    assert put_aside(table, landing) == {
        TIME: "it has 1 fields, the header 2",
        f"{TIME},2,3": "it has 3 fields, the header 2",
        "   ": "it has 1 fields, the header 4",
    }
    land(landing, {"b.csv": "ts,New,new\n"})
    with pytest.raises(InputError, match=r"b\.csv: it names the column 'New' twice"):
        run(table, landing, bad=True)
    (landing / "b.csv").rename(landing / "b.tsv")
    with pytest.raises(InputError, match=r"\.tsv files beside others"):
        run(table, landing, source_format="csv")


def test_csv_without_header_in_another_encoding(table: SparkTable, landing: Path) -> None:
    land(landing, {"k=1/a.csv": f"{TIME};é;aGk=\n".encode("latin-1")})
    options = {"header": "false", "sep": ";", "encoding": "ISO-8859-1"}
    run(table, landing, "_c0", read_options=options)
    assert found(table, "_c1", "_c2", "k") == [("é", "aGk=", 1)]
    other = SparkTable(table.spark, landing.parent / "other")
    options["directoryColumns"] = "false"
    run(other, landing, schema="ts TIMESTAMP, name STRING, b BINARY", read_options=options)
    assert found(other, "name", "CAST(b AS STRING)") == [("é", "aGk=")], "text of CSV is taken as it is"
    assert "k" not in other.frame().columns


def test_a_column_of_records_and_directories(table: SparkTable, landing: Path) -> None:
    land(landing, {"k=1/a.json": lines({"ts": TIME, "k": 2})})
    with pytest.raises(InputError, match="column k is both in the records and in the names of their directories"):
        run(table, landing)
    run(table, landing, read_options={"directoryColumns": "false"})
    assert found(table, "k") == [(2,)]


def test_documents_of_several_lines(table: SparkTable, landing: Path) -> None:
    cut = '{"é":\n}'
    documents = f'[{{"ts": "{TIME}",\n "n": 1}},\n {{"ts": "?", "n": 2}}]', f'{{"ts": "{TIME}", "n": "é"}}', cut
    land(landing, {f"{at}.json": text.encode("utf-16-le") for at, text in enumerate(documents)})
    done = run(table, landing, bad=True, read_options={"multiLine": "true", "encoding": "UTF-16LE"})
    assert (done.rows, done.bad_rows) == (2, 2)
    assert found(table, "n") == [("1",), ("é",)]
    reasons = put_aside(table, landing)
    assert reasons.pop(cut) == "Expecting value"
    ((record, reason),) = reasons.items()
    assert (json.loads(record)["ts"], reason) == ("?", "ts is not a time")


def test_csv_of_several_lines(table: SparkTable, landing: Path) -> None:
    rest = f'{TIME},4,"never closed\nto the end\n'
    land(landing, {"a.csv": f'ts,n,s\n{TIME},1,"a\nb"\n?,2,x\n{TIME},3\n{rest}'})
    done = run(table, landing, bad=True, read_options={"multiLine": "true"})
    assert (done.rows, done.bad_rows) == (1, 3)
    assert found(table, "n", "s") == [(1, "a\nb")]
    reasons = put_aside(table, landing)
    assert reasons.pop(f"{TIME},3") == "it has 2 fields, the header 3"
    assert reasons.pop(rest) == "a quote is not closed; this is the rest of the file"
    assert list(reasons.values()) == ["ts is not a time"]


def test_records_that_do_not_parse_as_rows_of_text(table: SparkTable, landing: Path) -> None:
    """PERMISSIVE is for records alone: a time that is none is a bad row, and an existing table must have the column."""
    land(landing, {"a.json": lines({"ts": TIME, "n": 1})})
    run(table, landing)
    land(landing, {"a.json": '{"n": 2\n' + lines({"ts": "?", "n": 3})})
    options: dict[str, Any] = {"read_options": {"mode": "PERMISSIVE"}}
    with pytest.raises(InputError, match="no column _corrupt_record for mode=PERMISSIVE; pass --merge-schema"):
        run(table, landing, **options)
    with pytest.raises(InputError, match=r"1 record is bad, one of them in .*a\.json line 2: ts is not a time"):
        run(table, landing, merge_schema=True, **options)
    done = run(table, landing, merge_schema=True, bad=True, **options)
    assert (done.rows, done.null_bucket_rows, done.bad_rows) == (1, 1, 1)
    assert found(table, "n", "_corrupt_record") == [(1, None), (None, '{"n": 2')]


# Parquet.


def test_parquet_files_of_different_schemas(table: SparkTable, landing: Path) -> None:
    narrow = {"i": pa.array([1], pa.int32()), "t": pa.array([2], pa.int8()), "f": pa.array([0.1], pa.float32())}
    wide = {"F": pa.array([0.2]), "i": pa.array([2**40]), "s": ["x"], "T": pa.array([2**50])}
    land(landing, {"a.parquet": pa.table({"ts": at(22), **narrow}), "b.parquet": pa.table({"ts": at(23), **wide})})
    assert run(table, landing).rows == 2
    assert dict(table.frame().dtypes).items() >= {"i": "bigint", "t": "bigint", "f": "double", "s": "string"}.items()
    assert found(table, "i", "t", "f", "s") == [
        (1, 2, pytest.approx(0.1, rel=1e-7), None),
        (2**40, 2**50, 0.2, "x"),
    ]
    land(landing, {"b.parquet": pa.table({"ts": at(23), "i": pa.array([0.5]), "new": [1]})})
    with pytest.raises(InputError, match=r"b\.parquet: columns do not fit: i is double, but in the contract bigint"):
        run(table, landing)
    land(landing, {"b.parquet": pa.table({"ts": at(23), "new": [1]})})
    with pytest.raises(InputError, match=r"b\.parquet has columns that the contract lacks: new; pass --merge-schema"):
        run(table, landing)
    assert run(table, landing, merge_schema=True).rows == 2
    assert found(table, "i", "new")[0] == (1, None)


def test_parquet_files_without_a_common_type(table: SparkTable, landing: Path) -> None:
    """A schema helps if both types widen to its own; else only `rescue` does."""
    land(landing, {
        "a.parquet": pa.table({"ts": at(22), "v": pa.array([7], pa.int32())}),
        "b.parquet": pa.table({"ts": at(23), "v": pa.array([0.5], pa.float32())}),
    })  # fmt: skip
    with pytest.raises(InputError, match=r"v is float in .*b\.parquet and int in .*a\.parquet; give --schema"):
        run(table, landing)
    schema = "ts TIMESTAMP, v DOUBLE"
    run(table, landing, schema=schema)
    assert found(table, "v") == [(0.5,), (7.0,)]
    land(landing, {"a.parquet": pa.table({"ts": pa.concat_arrays([at(22)] * 2), "v": [7, 2**53 + 1]})})
    with pytest.raises(InputError, match=r"a\.parquet: columns do not fit: v is bigint, but in the contract double"):
        run(table, landing, schema=schema)
    run(table, landing, schema=schema, rescue=True)
    kept = [text for (text,) in found(table, "_rescued") if text]
    assert kept == ['{"v":9007199254740993}']


def test_files_that_are_no_parquet(table: SparkTable, landing: Path) -> None:
    """An empty one holds no row. Spark names it only where no option chooses files."""
    land(landing, {"a.parquet": pa.table({"ts": at(22)}), "b.parquet": b""})
    assert run(table, landing, read_options={"pathGlobFilter": "*.parquet"}).rows == 1
    land(landing, {"b.parquet": b"PAR1 and nothing more"})
    with pytest.raises(InputError, match=r"b\.parquet is not a Parquet file"):
        run(table, landing)


def test_typed_files_without_the_time_column(table: SparkTable, landing: Path) -> None:
    land(landing, {"a.parquet": pa.table({"id": [1]}), "b.parquet": pa.table({"id": [2], "x": [3]})})
    with pytest.raises(UnknownColumnError, match=r"no column 'ts' in .*a\.parquet"):
        run(table, landing)
    land(landing, {"b.parquet": pa.table({"id": [2], "ts": [dt.date(2026, 2, 10)]})})
    done = run(table, landing)
    assert (done.rows, done.null_bucket_rows) == (2, 1)
    assert found(table, "id", "CAST(ts AS STRING)", "_event_hour") == [
        (1, None, None),
        (2, "2026-02-10 00:00:00", "2026021000"),
    ]


# Times.


EPOCHS = {
    "epoch-seconds": ("1770767100.5", "253402300800"),
    "epoch-millis": ("1770767100500", "253402300800000"),
    "epoch-micros": ("1770767100500000", "253402300800000000"),
    "epoch-nanos": ("1770767100500000999", "253402300800000000000"),
}
"""A quarter to midnight and half a second, and the first number after the year 9999."""


@pytest.mark.parametrize("wanted", TIME_TYPES)
def test_epochs_and_dates(spark: SparkSession, wanted: TimeType) -> None:
    """Numbers, and text of them, of every unit; a date is its midnight."""
    given: dict[str, tuple[str, str | None, str | None]] = {"day": ("DATE'2026-02-10'", None, "2026-02-10 00:00:00")}
    for unit, (number, too_late) in EPOCHS.items():
        given |= {
            f"{unit} as a number": (number, unit, "2026-02-10 23:45:00.5"),
            f"{unit} as text": (f"'{number}'", unit, "2026-02-10 23:45:00.5"),
            f"{unit} too late": (too_late, unit, None),
        }
    frame = spark.sql("SELECT " + ", ".join(f"{sql} AS `{name}`" for name, (sql, _, _) in given.items()))
    times = {name: event_time(frame.schema, name, "here", unit, wanted) for name, (_, unit, _) in given.items()}
    made = frame.selectExpr(*(f"CAST({time.sql} AS STRING) AS `{name}`" for name, time in times.items())).collect()
    assert made[0].asDict() == {name: text for name, (_, _, text) in given.items()}


def test_epochs_of_text_and_a_pattern(table: SparkTable, landing: Path) -> None:
    """A time in milliseconds that is said to be in seconds is of no year: the unit must be wrong."""
    land(landing, {"a.json": lines(*({"ts": time} for time in (1770767100, "1770767100.5", 1770767100000, "soon")))})
    done = run(table, landing, time_format="epoch-seconds", bad=True)
    assert (done.rows, done.bad_rows) == (2, 2)
    land(landing, {"a.json": lines({"ts": "11/02/2026 00:15"}, {"ts": TIME})})
    done = run(table, landing, time_format="dd/MM/yyyy HH:mm", bad=True)
    assert (done.rows, done.bad_rows) == (1, 1)
    times = [text for (text,) in found(table, "CAST(ts AS STRING)")]
    assert times == ["2026-02-10 23:45:00", "2026-02-10 23:45:00.5", "2026-02-11 00:15:00"]
    assert set(put_aside(table, landing).values()) == {"ts is not a time"}


def test_numbers_of_typed_columns_need_a_unit(table: SparkTable, landing: Path) -> None:
    land(landing, {"a.parquet": pa.table({"a.b": pa.array([1770767100123456789, None])})})
    with pytest.raises(InputError, match=r"is bigint, not a time; name its unit"):
        run(table, landing, "`a.b`", bad=True)
    steps: list[str] = []
    done = run(table, landing, "`a.b`", time_format="epoch-nanos", target_file_size=None, on_progress=steps.append)
    assert (done.rows, done.null_bucket_rows) == (2, 1)
    assert "counting rows" in steps, "for an epoch may be bad"
    assert found(table, "CAST(`a.b` AS STRING)")[0] == ("2026-02-10 23:45:00.123456",)


def test_times_of_the_other_kind(table: SparkTable, landing: Path) -> None:
    """The table's time has no zone: an instant goes in by UTC, text with a zone does not."""
    land(landing, {"a.parquet": pa.table({"ts": [MOMENT]})})
    run(table, landing)
    assert dict(table.frame().dtypes)["ts"] == "timestamp_ntz"
    land(landing, {"a.parquet": pa.table({"ts": at(22)})})
    run(table, landing)
    (landing / "a.parquet").unlink()
    land(landing, {"a.json": lines({"ts": "2026-02-10T21:00:00"}, {"ts": TIME})})
    done = run(table, landing, bad=True)
    assert (done.rows, done.bad_rows) == (1, 1)
    assert [hour for (hour,) in found(table, "_event_hour")] == ["2026021021", "2026021022", "2026021023"]


def test_a_schema_for_a_table_that_exists(table: SparkTable, landing: Path) -> None:
    """The table's types win; columns that it lacks must be asked for."""
    land(landing, {"a.json": lines({"ts": TIME, "id": 1})})
    run(table, landing)
    land(landing, {"a.json": lines({"ts": TIME, "id": 2**40, "more": 7})})
    with pytest.raises(InputError, match="the schema has columns that the table lacks: more; pass --merge-schema"):
        run(table, landing, schema="ts TIMESTAMP, id BIGINT, more INT")
    with pytest.raises(InputError, match=r"the schema: columns do not fit: id is string, .*; give the table's types"):
        run(table, landing, schema="ts TIMESTAMP, id STRING")
    run(table, landing, schema="ts TIMESTAMP, id INT, more INT", merge_schema=True)
    assert found(table, "id", "more") == [(1, None), (2**40, 7)]
