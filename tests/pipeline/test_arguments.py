"""What is asked for, checked before anything is done: buckets, sizes, sources, existing tables."""

from __future__ import annotations

from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.cli import ingest as ingest_order
from delta_sidecar.cli import maintain as maintain_order
from delta_sidecar.cli.main import app
from delta_sidecar.errors import InputError, OptionError, SparkError, UnknownColumnError
from delta_sidecar.pipeline import bucketed_table as bucketed
from delta_sidecar.pipeline.bucketed_table import TableBucket, bucket_of_arguments, check_bucket, load_table
from delta_sidecar.pipeline.contract import Contract, hold, widens
from delta_sidecar.pipeline.failures import condition_and_line, spark_failures
from delta_sidecar.pipeline.file_layout import DEFAULT_FILE_SIZE
from delta_sidecar.pipeline.ingest_job import bytes_of, ingest
from delta_sidecar.pipeline.maintenance import maintain, maintain_tables
from delta_sidecar.pipeline.records.csv_records import Dialect
from delta_sidecar.pipeline.sources import Source, infer_format, source_of
from delta_sidecar.pipeline.streaming import ingest_stream
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import column as field
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression, unix_bucket_expression
from tests.cli.running import assert_refused, invoke

HOUR = TableBucket("ts", "hour", "_event_hour")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("128MB", 128_000_000), ("1 GiB", 1 << 30), (5000, 5000), ("1.5kb", 1500), ("7", 7), ("2t", 2 * 10**12)],
)
def test_sizes(text: int | str, expected: int) -> None:
    assert bytes_of(text) == expected


def test_one_file_size_for_all() -> None:
    for called in (ingest, ingest_stream, maintain, maintain_tables, ingest_order.Order, maintain_order.Order):
        assert bytes_of(signature(called).parameters["target_file_size"].default) == DEFAULT_FILE_SIZE, called
    for command in ("ingest", "maintain"):
        (option,) = (p for p in app.commands[command].params if p.name == "target_file_size")
        assert bytes_of(option.default) == DEFAULT_FILE_SIZE


@pytest.mark.parametrize("text", ["", "big", "-1", "0", "1XB", "MB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(OptionError, match="file size"):
        bytes_of(text)


def test_buckets() -> None:
    assert bucket_of_arguments("ts", "hour", None) == HOUR
    assert bucket_of_arguments("ts", "day", "d").column == "d"
    for bucket, column, word in (
        ("week", None, "month"),
        ("day", "_delta", "_delta_log"),
        ("day", "TS", "time column"),
    ):
        with pytest.raises(OptionError, match=word):
            bucket_of_arguments("ts", bucket, column)


def test_a_frame_or_a_session_is_needed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(OptionError, match="must be given together"):
        ingest(tmp_path, tmp_path / "t", "ts", app_id="a")
    for number, words in ((-1, "not negative"), (2**63, "batch_id 9223372036854775808 is too large")):
        with pytest.raises(OptionError, match=words):
            ingest(tmp_path, tmp_path / "t", "ts", app_id="a", batch_id=number)
    with pytest.raises(OptionError, match="never"):
        ingest(tmp_path, tmp_path / "t", "ts", index="sometimes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [("csv", "header", "yes"), ("json", "multiline", "1"), ("parquet", "directoryColumns", "0"), ("csv", "HEADER", "")],
)
def test_a_switch_is_true_or_false(kind: Any, name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"read option .* is '{value}'; it takes true or false"):
        Source("landing", kind, {name: value})


def test_nanoseconds_are_cut_or_not() -> None:
    with pytest.raises(OptionError, match="nanoseconds is 'round'; it takes cut"):
        Source("landing", "parquet", {"nanoseconds": "round"})
    with pytest.raises(OptionError, match="'nanoseconds' is not known for json"):
        Source("landing", "json", {"nanoseconds": "cut"})


@pytest.mark.parametrize(
    ("declared", "is_refused"), [("char(5)", True), ("array<char(2)>", True), ("varchar(5)", False)]
)
def test_a_table_whose_values_are_filled_with_spaces(tmp_path: Path, declared: str, is_refused: bool) -> None:
    made = {GENERATION_EXPRESSION: bucket_expression("`ts`", "hour", "timestamp")}
    columns = [
        field("ts", "timestamp"),
        field("c", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": declared}),
        field("_event_hour", "string", metadata=made),
    ]
    LogBuilder(tmp_path).metadata(columns, partition_by=["_event_hour"]).commit()
    snapshot = load_table(open_store(str(tmp_path)))
    assert snapshot is not None
    padded = pytest.raises(InputError, match=r"column c is .*CHAR.*, whose values Spark fills")
    with padded if is_refused else nullcontext():
        check_bucket(snapshot, HOUR)


@pytest.mark.parametrize(("table", "bad_rows"), [("t", "t"), ("t", "t/bad"), ("lake/t", "lake")])
def test_bad_rows_have_a_table_of_their_own(tmp_path: Path, table: str, bad_rows: str) -> None:
    """Cleaning up the outer table would delete the files of the inner one."""
    with pytest.raises(OptionError, match="neither inside the target table"):
        ingest(tmp_path / "a.csv", tmp_path / table, "ts", bad_rows=tmp_path / bad_rows)


def test_formats_by_name(tmp_path: Path) -> None:
    for name, expected in (
        ("a.parquet", "parquet"), ("b.json.gz", "json"), ("c.NDJSON", "json"), ("d.csv", "csv"), ("e.tsv.bz2", "csv"),
    ):  # fmt: skip
        (tmp_path / name).touch()
        assert infer_format(str(tmp_path / name)) == expected
    assert infer_format(str(tmp_path / "*.csv")) == "csv"


def test_formats_by_content(tmp_path: Path) -> None:
    (tmp_path / "files" / "day=1").mkdir(parents=True)
    (tmp_path / "files" / "_SUCCESS").touch()
    (tmp_path / "files" / "day=1" / "part-0.snappy.parquet").touch()
    assert infer_format(str(tmp_path / "files")) == "parquet"
    assert infer_format(str(tmp_path / "files" / "day=*")) == "parquet"
    LogBuilder(tmp_path / "table.csv").metadata({"ts": "timestamp"}).commit()
    assert infer_format(str(tmp_path / "table.csv")) == "delta"
    for absent in ("nowhere", "files/none"):
        with pytest.raises(InputError, match=f"{absent} does not exist"):
            infer_format(str(tmp_path / absent))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="--format"):
        infer_format(str(tmp_path / "empty"))
    with pytest.raises(OptionError, match="parquet"):
        source_of(tmp_path, "avro")


def test_options_of_text_are_known_or_refused() -> None:
    assert Source("x.csv", "csv").dialect == Dialect()
    assert Source("x.tsv.gz", "csv").dialect.sep == "\t"
    assert Source("x", "csv", {"quote": "'"}).dialect.escape == "'"
    assert Source("x", "csv", {"SEP": ";", "header": "false", "multiLine": "true"}).dialect == Dialect(
        sep=";", header=False, multi_line=True
    )
    assert Source("x", "json", {"mode": "PERMISSIVE"}).is_permissive
    for options, words in (
        ({"sep": ";"}, "'sep' is not known for json"),
        ({"mode": "DROPMALFORMED"}, "would lose records"),
        ({"mode": "xx"}, "mode XX is not known; it is FAILFAST or PERMISSIVE"),
        ({"encoding": "klingon"}, "klingon"),
        ({"lineSep": ";", "multiLine": "true"}, "lineSep divides lines"),
        ({"dateFormat": "x"}, "dateFormat"),
    ):
        with pytest.raises(OptionError, match=words):
            Source("x", "json", options)
    for name, value, words in (
        ("quote", "ab", "quote takes one character, not 'ab'"),
        ("Comment", "##", "Comment takes one character, not '##'"),
        ("escape", "\\t", "escape takes one character"),
        ("sep", "", "sep is empty; give what stands between two fields"),
        ("delimiter", "", "delimiter is empty"),
    ):
        with pytest.raises(OptionError, match=words):
            Source("x", "csv", {name: value})
    assert Source("x", "csv", {"sep": "||", "quote": "", "escape": "", "comment": ""}).dialect.sep == "||"
    assert "hush" not in repr(Source("x", "csv", {}, {"secret": "hush"}))


def table(root: Path, expression: str | None, partition: tuple[str, ...] = ("_event_hour",), **columns: str) -> Any:
    """An empty table with a bucket column of that expression."""
    fields: list[dict[str, Any]] = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in {"ts": "timestamp", "id": "long", **columns}.items()
    ]
    if expression is not None:
        metadata = {GENERATION_EXPRESSION: expression} if expression else {}
        fields.append({"name": "_event_hour", "type": "string", "nullable": True, "metadata": metadata})
    import json

    builder = LogBuilder(root)
    schema = json.dumps({"type": "struct", "fields": fields})
    builder.metadata({"ts": "timestamp"}, partition_by=list(partition))
    builder.commit()
    log = root / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["schemaString"] = schema
    log.write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = load_table(open_store(root))
    assert found is not None
    return found


def test_our_own_bucket_is_taken_in_both_forms(tmp_path: Path) -> None:
    check_bucket(table(tmp_path / "new", bucket_expression("`ts`", "hour")), HOUR)
    check_bucket(table(tmp_path / "old", unix_bucket_expression("ts", "hour")), HOUR)
    check_bucket(table(tmp_path / "case", bucket_expression("ts", "hour")), TableBucket("TS", "hour", "_EVENT_HOUR"))
    assert load_table(open_store(tmp_path / "absent")) is None


@pytest.mark.parametrize(
    ("expression", "partition", "bucket", "words"),
    [
        (None, (), HOUR, ("no bucket column", "new table")),
        ("", ("_event_hour",), HOUR, ("not generated", "new table")),
        ("date_format(ts, 'yyyyMMddHH')", ("_event_hour",), HOUR, ("date_format", "new table")),
        (bucket_expression("ts", "day"), ("_event_hour",), HOUR, ("day of ts", "--bucket")),
        (bucket_expression("ts", "hour"), ("_event_hour",), TableBucket("id", "hour", "_event_hour"), ("hour of ts",)),
        (bucket_expression("ts", "hour"), ("_event_hour",), TableBucket("ts", "day", "_event_day"), ("hour of ts",)),
        (bucket_expression("ts", "hour"), ("_event_hour", "id"), HOUR, ("_event_hour, id", "alone")),
        (bucket_expression("ts", "hour"), (), HOUR, ("nothing", "alone")),
    ],
)
def test_other_tables_are_refused(
    tmp_path: Path, expression: str | None, partition: tuple[str, ...], bucket: TableBucket, words: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as caught:
        check_bucket(table(tmp_path, expression, partition), bucket)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_statement_that_makes_a_table() -> None:
    from pyspark.sql import types as t

    wide = t.StructType([t.StructField(f"f{n}", t.IntegerType()) for n in range(60)])
    schema = t.StructType(
        [
            t.StructField("ts", t.TimestampNTZType()),
            t.StructField("m", t.MapType(t.StringType(), t.ArrayType(t.DecimalType(10, 2)))),
            t.StructField("wide", wide),
        ]
    )
    text = bucketed.create_statement("/a`b", schema, HOUR, "timestamp_ntz", {"k'": "v\\"})
    assert "delta.`/a``b`" in text
    assert "`ts` timestamp_ntz" in text
    assert "MAP<string, ARRAY<decimal(10,2)>>" in text
    assert "`f59`: int" in text
    assert "PARTITIONED BY (`_event_hour`)" in text
    assert text.endswith(r"TBLPROPERTIES ('k\'' = 'v\\')")
    odd = t.StructType([t.StructField("a", t.ArrayType(t.StructType([t.StructField("b c", t.LongType())])))])
    assert "'delta.columnMapping.mode' = 'name'" in bucketed.create_statement("/t", odd, HOUR, "timestamp")


def struct(**fields: Any) -> Any:
    from pyspark.sql import types as t

    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def test_columns_that_do_not_fit_are_named() -> None:
    from pyspark.sql import types as t

    i, s, d = t.IntegerType(), t.StringType(), t.DoubleType()
    there = struct(a=i, b=struct(x=i, y=t.ArrayType(struct(z=d))), c=d, d=t.LongType())
    fits = struct(A=i, b=struct(x=t.ShortType(), y=t.ArrayType(struct(z=t.FloatType()))), d=i)
    assert hold(fits, Contract(there), "t").schema == there
    new = struct(a=i, e=i, b=struct(x=i, n=i))
    with pytest.raises(InputError, match=r"e, b\.n; pass --merge-schema"):
        hold(new, Contract(there), "t")
    assert hold(new, Contract(there, rescue=True), "t").schema == there
    grown = hold(new, Contract(there, merge=True), "t")
    assert grown.grown
    assert [field.name for field in grown.schema["b"].dataType.fields] == ["x", "y", "n"]
    wrong = struct(a=s, b=struct(y=t.ArrayType(struct(z=s))), d=d)
    with pytest.raises(InputError, match=r"a is string, but in the contract int, b\.y\.z is string.*d is double"):
        hold(wrong, Contract(there, merge=True), "t")
    hold(wrong, Contract(there, rescue=True), "t")


@pytest.mark.parametrize(
    ("source", "target", "wide"),
    [
        ("ByteType", "LongType", True),
        ("IntegerType", "LongType", True),
        ("LongType", "IntegerType", False),
        ("FloatType", "DoubleType", True),
        ("IntegerType", "DoubleType", True),
        ("LongType", "DoubleType", False),
        ("IntegerType", "FloatType", False),
        ("NullType", "StringType", True),
        ("IntegerType", "StringType", False),
        ("DateType", "TimestampType", False),
    ],
)
def test_a_number_widens_only_where_every_value_stays(source: str, target: str, wide: bool) -> None:
    from pyspark.sql import types as t

    assert widens(getattr(t, source)(), getattr(t, target)()) is wide


def test_decimals_widen_by_their_digits() -> None:
    from pyspark.sql import types as t

    assert widens(t.DecimalType(5, 2), t.DecimalType(6, 2))
    assert not widens(t.DecimalType(5, 2), t.DecimalType(5, 3))
    assert widens(t.IntegerType(), t.DecimalType(12, 2))
    assert not widens(t.LongType(), t.DecimalType(20, 2))


def test_what_spark_says_is_one_line() -> None:
    from pyspark.errors import PySparkException

    line = "[MALFORMED_CSV_RECORD] Malformed CSV record: 1,2 SQLSTATE: KD000"
    trace = f"Job aborted.\n\tat x.y\nCaused by: z: {line}\n\tat q"
    assert condition_and_line(trace) == ("MALFORMED_CSV_RECORD", line)
    with pytest.raises(InputError, match=r"^reading: \[MALFORMED"), spark_failures("reading"):
        raise PySparkException(trace)
    with pytest.raises(SparkError, match=r"^writing: boom$"), spark_failures("writing"):
        raise PySparkException("boom\n\tat x")
    violated = "[DELTA_VIOLATED] CHECK constraint pos (id > 0) violated by row with values:\n - id : -1\n\tat x"
    assert condition_and_line(violated)[1].endswith("by row with values: - id : -1")
    worker = "An exception was thrown from the Python worker:\nTraceback\n  File x\nRuntimeError: it changed\n\n\tat x"
    assert condition_and_line(worker)[1] == "An exception was thrown from the Python worker: RuntimeError: it changed"


def test_the_command_refuses_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts\n2026-01-01\n")
    table(tmp_path / "plain", None, ())
    order = ("ingest", tmp_path / "a.csv", tmp_path / "t", "--time-column", "ts")
    for extra, words in (
        (("--bucket", "week"), ["week", "hour"]),
        (("--target-file-size", "big"), ["big"]),
        (("--format", "avro"), ["avro", "parquet"]),
        (("--stream",), ["--checkpoint-location"]),
        (("--every", "1 second"), ["--stream"]),
        (("--app-id", "x"), ["--batch-id"]),
        (("--stream", "--checkpoint-location", "c", "--batch-id", "1"), ["--batch-id"]),
        (("--index", "maybe"), ["maybe"]),
        (("--conf", "x"), ["--conf"]),
        (("--bucket-column", "_delta"), ["_delta"]),
    ):
        assert_refused(invoke(*order, *extra), *words)
    assert_refused(invoke("ingest", tmp_path / "nowhere", tmp_path / "t", "--time-column", "ts"), "nowhere", "exist")
    assert_refused(invoke("ingest", tmp_path / "a.csv", tmp_path / "plain", "--time-column", "ts"), "no bucket column")
    assert_refused(invoke("ingest", tmp_path / "a.csv", tmp_path / "t"), "--time-column")


def test_an_unknown_column_is_named() -> None:
    from pyspark.sql import types as t

    from delta_sidecar.pipeline.event_time import find_column

    schema = struct(Time=t.TimestampType(), time2=t.IntegerType())
    assert find_column(schema, "time", "here").name == "Time"
    with pytest.raises(UnknownColumnError, match="'ts' in here; its columns: Time, time2"):
        find_column(schema, "ts", "here")
