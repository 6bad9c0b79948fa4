"""The data source without Spark: options, schema, plan, pickles, and rows of a task."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, GreaterThanOrEqual, InputPartition, StringContains
from pyspark.sql.types import StructType

from delta_sidecar import build_index
from delta_sidecar.engines.spark import sidecar_files
from delta_sidecar.engines.spark.column_expressions import _clock
from delta_sidecar.engines.spark.file_frame import _spark_uris, java_uri
from delta_sidecar.engines.spark.file_groups import Splitting, unpacked
from delta_sidecar.engines.spark.source import FilteringReader, SidecarReader, SidecarSource
from delta_sidecar.engines.spark.source_options import SourceOptions
from delta_sidecar.engines.spark.spark_types import spark_schema
from delta_sidecar.errors import DeltaSidecarError, InputError, OptionError, UnknownColumnError
from delta_sidecar.predicates.like import backslash_pattern, like_tokens
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.values.types import parse_schema
from tests.events_table import write_events

SECRET = "dGhpcyBpcyBub3QgYSBrZXk="


@pytest.fixture
def events(tmp_path: Path) -> Path:
    write_events(tmp_path / "events")
    return tmp_path / "events"


class Pushing(SidecarSource):
    pushes_filters = True


def source(path: Path, **options: str) -> SidecarSource:
    return Pushing(CaseInsensitiveDict({"path": str(path), **options}))


def reader(path: Path, **options: str) -> FilteringReader:
    made = source(path, **options)
    found = made.reader(made.schema())
    assert isinstance(found, FilteringReader)
    return found


def planned(found: SidecarReader) -> list[str]:
    return [p for part in found.partitions() for b in unpacked(part.value) for p in b.column("path").to_pylist()]


def rows(found: SidecarReader) -> list[dict[str, Any]]:
    return [row for part in found.partitions() for batch in found.read(part) for row in batch.to_pylist()]


def test_schema_and_rows(events: Path) -> None:
    found = source(events).schema()
    assert found.simpleString() == "struct<ts:timestamp,id:bigint,value:double,_event_hour:string>"
    assert sorted(row["id"] for row in rows(reader(events))) == list(range(8))
    assert [row["id"] for row in rows(reader(events, predicate="id = 3"))] == [3]
    assert rows(reader(events, columns="id, _event_hour", predicate="id = 3")) == [
        {"id": 3, "_event_hour": "2026021021"}
    ]
    assert len(rows(reader(events, columns='["_event_hour"]'))) == 8


def test_a_task_opens_no_file_for_partition_columns(events: Path) -> None:
    for file in events.rglob("*.parquet"):
        file.unlink()
    assert len(rows(reader(events, columns="_event_hour"))) == 8


def test_filters_leave_files_out_and_are_all_given_back(events: Path) -> None:
    build_index(events)
    found = reader(events, predicate="id < 8")
    pushed = [GreaterThanOrEqual(("_event_hour",), "2026021023"), StringContains(("_event_hour",), "23")]
    assert all(back is given for back, given in zip(found.pushFilters(pushed), pushed, strict=True))
    assert planned(found) == ["_event_hour=2026021023/part-0.parquet"]
    assert [row["id"] for row in rows(found)] == [6, 7]


def test_nothing_left_is_one_partition_of_spark_without_files(events: Path) -> None:
    found = reader(events, predicate="id > 100")
    assert found.partitions() == []
    assert list(found.read(InputPartition(None))) == []


def test_a_frame_stays_at_the_version_of_its_schema(events: Path) -> None:
    made = source(events)
    schema = made.schema()
    sent = pickle.loads(cloudpickle.dumps(made))
    removed = {"path": "_event_hour=2026021020/part-0.parquet", "dataChange": True, "deletionTimestamp": 0}
    (events / "_delta_log" / f"{4:020}.json").write_text(json.dumps({"remove": removed}) + "\n")
    assert len(rows(reader(events))) == 6
    assert len(rows(sent.reader(schema))) == 8


def test_what_travels_to_a_task_is_small_and_has_no_log(events: Path) -> None:
    class Registered(Pushing):
        splitting = Splitting(cores=2)

    made = Registered(CaseInsensitiveDict({"path": str(events), "account_key": SECRET}))
    found = made.reader(made.schema())
    data = cloudpickle.dumps(found)
    sent = pickle.loads(data)
    assert sent._table is None
    assert len(data) < 6000
    parts = found.partitions()
    assert sum(batch.num_rows for part in parts for batch in sent.read(part)) == 8
    shown = f"{made!r} {found!r} {found._rows!r} {SourceOptions.of(made.options)!r} {parts!r}"
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("options", "kind", "line"),
    [
        ({"path": "/nowhere/at/all"}, InputError, "/nowhere/at/all"),
        ({"path": ""}, InputError, "no table is named; give one path: spark.read.format('sidecar').load(path)"),
        ({"predicate": "nope = 1"}, UnknownColumnError, "no column 'nope' in the table"),
        ({"columns": "id,nope"}, UnknownColumnError, "no column 'nope' in the table"),
        ({"columns": "[1]"}, OptionError, "option columns is '[1]'; it takes names separated by commas"),
        ({"vesion": "1"}, OptionError, "unknown option 'vesion' (did you mean version?)"),
        ({"version": "one"}, OptionError, "option version is 'one'; it takes a whole number"),
        ({"version": "1", "timestamp": "2026-01-01"}, OptionError, "version and timestamp are both given"),
        ({"timestamp": "soon"}, InputError, "'soon' is not a time"),
        ({"delta.sidecar.nope": "1"}, OptionError, "unknown option 'delta.sidecar.nope'"),
    ],
)
def test_bad_options_are_told_in_one_line(
    events: Path, options: dict[str, str], kind: type[DeltaSidecarError], line: str
) -> None:
    with pytest.raises(kind) as told:
        SidecarSource(CaseInsensitiveDict({"path": str(events)} | options)).schema()
    assert line in str(told.value)
    assert "\n" not in str(told.value)


def test_files_are_not_listed_at_a_version_and_a_time(events: Path) -> None:
    with pytest.raises(OptionError, match="version and timestamp are both given; give one of them"):
        sidecar_files(None, events, version=0, timestamp="2026-01-01")  # type: ignore[arg-type]


def test_a_schema_of_the_user_may_leave_columns_out_but_not_change_them(events: Path) -> None:
    made = source(events)
    found = made.reader(StructType().add("_event_hour", "string").add("id", "long"))
    assert list(rows(found)[0]) == ["_event_hour", "id"]
    with pytest.raises(InputError, match=r"the schema says id int, the table has id bigint; leave the schema out"):
        made.reader(StructType().add("id", "integer"))


def test_columns_that_cannot_be_read_are_refused_by_name() -> None:
    element = {"type": "array", "elementType": "variant", "containsNull": True}
    for kind, said in (
        ("interval year", "of the unknown type 'interval year'"),
        (element, "an array or map of variants"),
    ):
        fields = [{"name": "bad", "type": kind, "nullable": True, "metadata": {}}]
        schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
        with pytest.raises(DeltaSidecarError, match=f"column 'bad' is {said}, which cannot be read as rows; name the"):
            spark_schema(schema.fields)


def test_metadata_of_the_writer_is_not_shown() -> None:
    metadata = {
        "delta.columnMapping.id": 1,
        "comment": "why",
        "delta.generationExpression": "x",
        "CURRENT_DEFAULT": "1",
    }
    inner = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": metadata}]}
    fields = [{"name": "s", "type": inner, "nullable": True, "metadata": metadata}]
    found = spark_schema(parse_schema(json.dumps({"type": "struct", "fields": fields})).fields)
    assert found["s"].metadata == {"comment": "why"}
    assert found["s"].dataType["a"].metadata == {"comment": "why"}  # type: ignore[index]


def test_files_have_the_uris_of_sparks_file_systems() -> None:
    places = [parse_location(uri) for uri in ("s3://lake/t/a b.parquet", "/t/x:y%20.parquet", "s3://other/z")]
    assert _spark_uris(places, None) == ["s3a://lake/t/a b.parquet", "file:///t/x:y%20.parquet", "s3a://other/z"]
    azure = _spark_uris([parse_location("az://lake/t/a")], {"account_name": "acc"})
    assert azure == ["abfss://lake@acc.dfs.core.windows.net/t/a"]


def test_uris_and_texts_as_java_writes_them() -> None:
    assert java_uri('file:///a b/c%20d:e/ü🦆#?[x]{y}^`|\\".parquet') == (
        "file:/a%20b/c%2520d:e/ü🦆%23%3F%5Bx%5D%7By%7D%5E%60%7C%5C%22.parquet"
    )
    assert java_uri("s3a://bucket/a\u00a0b+c") == "s3a://bucket/a%C2%A0b+c"
    assert backslash_pattern(like_tokens("a!%b%_\\", "!")) == "a\\%b%_\\\\"
    assert _clock(0) == "1970-01-01 00:00:00.000000"
    assert _clock(-62_135_596_800_000_001) == "0000-12-31 23:59:59.999999"
    assert _clock(253_402_300_800_000_000) == "+010000-01-01 00:00:00.000000"
