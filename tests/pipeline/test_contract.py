"""Names of columns: which are ours, which are the same, and which directories give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline import contract, parsing
from delta_sidecar.pipeline.contract import NOTES, check_named_once, check_reserved, schema_of, unify, untyped
from delta_sidecar.pipeline.kafka import kafka_source
from delta_sidecar.pipeline.kafka_frames import kafka_input
from delta_sidecar.pipeline.projection import columns
from delta_sidecar.pipeline.records.json_records import JsonInference, JsonParser
from delta_sidecar.pipeline.records.terms import Terms
from delta_sidecar.pipeline.sources import File, Source, directory_columns

TWINS = t.StructType([t.StructField("x", t.IntegerType()), t.StructField("X", t.IntegerType())])


def test_every_name_that_is_hidden_is_reserved() -> None:
    named = {value for name, value in vars(contract).items() if name.isupper() and str(value).startswith("__")}
    assert set(NOTES) == named >= set(parsing._NOTES.names)
    for name in NOTES:
        with pytest.raises(InputError, match=f"it has a column {name.upper()}, a name that ingest reserves"):
            check_reserved(["id", name.upper()], "it")


@pytest.mark.parametrize("name", ["__left", "__time_problem"])
def test_fields_of_avro_are_not_called_like_notes(tmp_path: Path, name: str) -> None:
    (tmp_path / "s.avsc").write_text(
        json.dumps({"type": "record", "name": "e", "fields": [{"name": name, "type": "long"}]})
    )
    source = kafka_source("kafka://host/topic", value_format="avro", avro_schemas=[str(tmp_path / "s.avsc")])
    frame: Any = None
    with pytest.raises(InputError, match=f"a column {name}, a name that ingest reserves"):
        kafka_input(frame, source)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (TWINS, "x"),
        (t.StructType([t.StructField("s", t.ArrayType(TWINS))]), "s.x"),
        (t.StructType([t.StructField("m", t.MapType(t.StringType(), TWINS))]), "m.x"),
    ],
)
def test_a_type_names_each_field_once(kind: t.StructType, path: str) -> None:
    with pytest.raises(InputError, match=f"it has the column '{path}' twice"):
        check_named_once(kind, "it")
    with pytest.raises(InputError, match=f"the schema has the column '{path}' twice"):
        schema_of(kind)


def texts(*names: str) -> t.StructType:
    return t.StructType([t.StructField("s", t.StructType([t.StructField(name, t.StringType()) for name in names]))])


def struct(**fields: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


VOID, INT = t.NullType(), t.IntegerType()


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (struct(s=struct()), "s"),
        (struct(s=struct(a=VOID)), "s"),
        (struct(s=struct(a=INT, b=struct(c=VOID))), "s.b"),
        (struct(l=t.ArrayType(VOID)), "l"),
        (struct(l=t.ArrayType(struct())), "l"),
        (struct(m=t.MapType(t.StringType(), struct(a=INT, b=VOID))), "m.b"),
        (struct(v=VOID, s=struct(a=INT, b=VOID), l=t.ArrayType(struct(a=INT))), None),
    ],
)
def test_what_no_file_can_hold_is_named(schema: t.StructType, name: str | None) -> None:
    assert untyped(schema) == name
    if name is None:
        assert schema_of(schema) == schema
        return
    with pytest.raises(InputError, match=rf"the schema: column {name} has no type .*; cast it, leave it out, or give"):
        schema_of(schema)


def test_names_that_spark_tells_apart_are_two_columns() -> None:
    source, target = texts("straße", "strasse"), texts("STRASSE", "STRAßE")
    assert columns(source, target) == [
        "CASE WHEN `s` IS NOT NULL THEN named_struct('STRASSE', `s`.`strasse`, 'STRAßE', `s`.`straße`) END AS `s`"
    ]
    assert unify([("a", source), ("b", target)]) == source
    inferred = JsonInference()
    inferred.see(['{"straße": 1, "strasse": 2}'.encode(), b'{"STRASSE": 3}'])
    assert inferred.kind == pa.struct([("straße", pa.int64()), ("strasse", pa.int64())])


@pytest.mark.parametrize("value", ['{"x":1,"X":2}', '[{"a":{"x":1,"X":2}}]'])
def test_a_new_field_whose_value_names_a_field_twice_is_bad(value: str) -> None:
    found = JsonParser(Terms(pa.schema([("id", pa.int64())]))).parse([f'{{"id":1,"s":{value}}}'.encode()])
    assert [bad.reason for bad in found.bad] == ["it names 'x' twice, in different case"]
    text = JsonParser(Terms(pa.schema([("s", pa.string())]))).parse([f'{{"s":{value}}}'.encode()])
    assert text.columns[0].to_pylist() == [value]


def directories(*paths: str) -> list[tuple[str, str]]:
    files = [File(f"/landing/{path}/f.json", 1) for path in paths]
    found = directory_columns(Source("/landing", "json"), files, None)
    return [(column.name, column.kind.simpleString()) for column in found]


def test_names_of_directories_are_decoded() -> None:
    assert directories("a%3Ab=1/k=x") == [("a:b", "bigint"), ("k", "string")]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["k=1/k=2"], "directories give column k twice: k=1/k=2"),
        (["k=1/K=2"], "directories give column k twice: k=1/K=2"),
        (["K=1", "k=2"], "directories write column [Kk] as (K and k|k and K)"),
        (["a%3Ab=1", "a%3ab=2"], "directories write column a:b as a%3.b and a%3.b"),
        (["__left=1"], "names of its directories, has a column __left, a name that ingest reserves"),
    ],
)
def test_names_of_directories_that_cannot_be_columns_are_refused(paths: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        directories(*paths)
