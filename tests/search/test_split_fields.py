"""Which columns are indexed how, and what is refused by name."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import (
    CorruptLogError,
    OptionError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from delta_sidecar.search import SplitField, SplitFields
from tests.search.lines import SCHEMA


def test_lean_by_default() -> None:
    fields = SplitFields.choose(SCHEMA, text=["body"], key=["id"], time="ts")
    assert fields.fields == (
        SplitField("id", "integer", "long", fast=True, positions=False),
        SplitField("ts", "time", "timestamp", indexed=False, fast=True, positions=False),
        SplitField("body", "text", "string", analyzer="default"),
    )
    assert fields.key == ("id",)
    assert fields.time == "ts"
    assert not any(field.stored for field in fields)


def test_every_kind() -> None:
    filters = ["host", "ratio", "ok", "day", "id"]
    fields = SplitFields.choose(SCHEMA, text=["BODY"], filters=filters, stored=["body"], analyzers={"body": "german"})
    kinds = {field.name: field.kind for field in fields}
    assert kinds == {
        "id": "integer",
        "host": "keyword",
        "body": "text",
        "ratio": "float",
        "ok": "boolean",
        "day": "date",
    }
    body, host = fields.find("body"), fields.find("HOST")
    assert body is not None
    assert host is not None
    assert (body.analyzer, body.stored, body.is_readable) == ("de", True, True)
    assert (host.analyzer, host.stored, host.fast) == ("raw", True, True)
    assert fields.texts == [body]
    assert SplitFields.parse(fields.to_json()) == fields


def test_a_value_that_is_only_stored_may_have_any_type() -> None:
    schema = pa.schema({"body": pa.string(), "tags": pa.list_(pa.string()), "price": pa.decimal128(9, 2)})
    fields = SplitFields.choose(schema, text=["body"], stored=["tags", "price"])
    assert [(field.name, field.kind) for field in fields][1:] == [("tags", "stored"), ("price", "stored")]
    assert fields.fields[2].type == "decimal(9,2)"
    assert json.loads(fields.fields[1].type)["type"] == "array"


def test_a_name_that_the_engine_does_not_take_gets_another() -> None:
    fields = SplitFields.choose(pa.schema({"-x": pa.int64(), "a b": pa.string()}), text=["a b"], key=["-x"])
    assert [field.engine_name for field in fields] == ["sidecar.column0", "sidecar.column1"]
    fields.engine_schema()


def test_partition_columns_are_not_indexed() -> None:
    fields = SplitFields.choose(SCHEMA, text=["body"], filters=["day", "host"], partition_columns=["day"])
    assert fields.names == ["host", "body"]


@pytest.mark.parametrize(
    ("choice", "error", "says"),
    [
        ({}, OptionError, "--text"),
        ({"text": ["nope"]}, UnknownColumnError, "nope"),
        ({"text": ["id"]}, UnsupportedTypeError, "only string columns"),
        ({"text": ["body"], "analyzers": {"body": "klingon"}}, OptionError, "klingon"),
        ({"text": ["body"], "analyzers": {"host": "raw"}}, OptionError, "no text column"),
        ({"text": ["body"], "time": "host"}, UnsupportedTypeError, "timestamp or a date"),
        ({"text": ["body"], "partition_columns": ["body"]}, OptionError, "partition column"),
    ],
)
def test_what_does_not_fit_is_refused(choice: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        SplitFields.choose(SCHEMA, **choice)  # type: ignore[arg-type]


def test_types_that_cannot_be_looked_up() -> None:
    with pytest.raises(UnsupportedTypeError, match=r"price is decimal\(9,2\)"):
        SplitFields.choose(pa.schema({"price": pa.decimal128(9, 2)}), key=["price"])
    with pytest.raises(UnsupportedTypeError, match="uint64"):
        SplitFields.choose(pa.schema({"n": pa.uint64()}), key=["n"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", CorruptLogError),
        ('[{"name": "body", "type": "text"}]', UnsupportedFeatureError),
        ('{"format": "delta-sidecar", "version": 2, "fields": []}', UnsupportedFeatureError),
        ('{"format": "delta-sidecar", "version": 1, "fields": [{"name": 1}]}', CorruptLogError),
        (
            '{"format": "delta-sidecar", "version": 1, "fields": [{"name": "a", "kind": "cube", "type": "string"}]}',
            UnsupportedFeatureError,
        ),
    ],
)
def test_fields_that_cannot_be_read(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        SplitFields.parse(text)
