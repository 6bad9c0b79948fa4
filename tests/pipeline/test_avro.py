"""Avro records into Arrow: whole and exact, or refused with a reason."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.avro import AvroDecoder, avro_schema


def record_of(*fields: tuple[str, Any], name: str = "event") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def written(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), record)
    return sink.getvalue()


def decoder_of(schema: dict[str, Any]) -> AvroDecoder:
    return AvroDecoder(avro_schema({None: json.dumps(schema)}, "event.avsc"))


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


EVERYTHING = record_of(
    ("flag", "boolean"),
    ("small", "int"),
    ("large", ["null", "long"]),
    ("ratio", "float"),
    ("exact", "double"),
    ("raw", "bytes"),
    ("text", ["string", "null"]),
    ("day", logical("int", "date")),
    ("millis", logical("long", "timestamp-millis")),
    ("micros", ["null", logical("long", "timestamp-micros")]),
    ("local", logical("long", "local-timestamp-millis")),
    ("nanos", logical("long", "timestamp-nanos")),
    ("price", logical("bytes", "decimal", precision=5, scale=2)),
    ("kind", {"type": "enum", "name": "kind", "symbols": ["click", "view"]}),
    ("digest", {"type": "fixed", "name": "digest", "size": 2}),
    ("id", logical("string", "uuid")),
    ("either", ["int", "long"]),
    ("tags", {"type": "map", "values": logical("long", "timestamp-millis")}),
    ("nested", record_of(("inner", {"type": "array", "items": logical("long", "timestamp-millis")}), name="nested")),
    ("again", ["null", "nested"]),
)
NOON = dt.datetime(2026, 2, 10, 12, 0, 0, 123000, dt.UTC)


def test_every_type_arrives_exactly() -> None:
    record = {
        "flag": True, "small": -7, "large": 2**62, "ratio": 0.5, "exact": 0.1, "raw": b"\xff", "text": "ü",
        "day": dt.date(2026, 2, 10), "millis": NOON, "micros": NOON, "local": NOON.replace(tzinfo=None),
        "nanos": 1, "price": Decimal("-123.45"), "kind": "view", "digest": b"ab",
        "id": "3f0b3c3e-53d0-4b6c-8a0f-2b3f8d1c9a11", "either": 2**40, "tags": {"seen": NOON},
        "nested": {"inner": [NOON, NOON]}, "again": None,
    }  # fmt: skip
    decoded = decoder_of(EVERYTHING).decode([written(EVERYTHING, record), None])
    assert decoded.reasons.to_pylist() == [None, None]
    first, second = decoded.records.to_pylist()
    assert second is None
    assert dict(first["tags"]) == record["tags"]
    assert {key: value for key, value in first.items() if key != "tags"} == {
        key: value for key, value in record.items() if key != "tags"
    }
    assert decoded.records.type.field("micros").type == pa.timestamp("us", "UTC")
    assert decoded.records.type.field("local").type == pa.timestamp("us")
    assert decoded.records.type.field("nanos").type == pa.int64()


SMALL = record_of(("id", "long"), ("name", ["null", "string"]))
GOOD = written(SMALL, {"id": 1, "name": "x"})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "does not decode"),
        (GOOD[:-1], "does not decode"),
        (GOOD + b"\x00", "1 bytes are left over"),
        (b"\x00\x00\x00\x00\x01" + GOOD, "left over"),
        (b"\xff" * 17, "does not decode"),
        (b"\x02\x04", "does not decode"),
        (b"\x02\x02\x04\xff\xff", "does not decode"),
        (b"\x02\x02\xfe\xff\xff\xff\xff\xff\xff\xff\x0fxx", "does not decode"),
    ],
)
def test_a_value_that_is_no_record_has_a_reason(value: bytes, reason: str) -> None:
    decoded = decoder_of(SMALL).decode([GOOD, value, GOOD])
    assert decoded.records.to_pylist() == [{"id": 1, "name": "x"}, None, {"id": 1, "name": "x"}]
    before, told, after = decoded.reasons.to_pylist()
    assert (before, after) == (None, None)
    assert reason in told


def test_a_number_beyond_its_type_has_a_reason() -> None:
    narrow, wide = record_of(("n", "int")), record_of(("n", "long"))
    decoded = decoder_of(narrow).decode([written(wide, {"n": 2**40}), written(narrow, {"n": 1})])
    assert decoded.records.to_pylist() == [None, {"n": 1}]
    assert "does not fit" in decoded.reasons[0].as_py()


def test_a_decimal_is_never_rounded() -> None:
    fits = logical("bytes", "decimal", precision=38, scale=10)
    value = Decimal("1234567890123456789012345678.0123456789")
    assert decoder_of(record_of(("d", fits))).decode(
        [written(record_of(("d", fits)), {"d": value})]
    ).records.to_pylist() == [{"d": value}]
    small = record_of(("d", logical("bytes", "decimal", precision=3, scale=2)))
    decoded = decoder_of(small).decode([written(record_of(("d", "bytes")), {"d": (12345).to_bytes(2, "big")})])
    assert decoded.records.to_pylist() == [None]
    assert "more digits" in decoded.reasons[0].as_py()


def test_records_of_a_registry_are_read_by_their_own_schema() -> None:
    newer = record_of(("id", "long"), ("at", logical("long", "timestamp-millis")))
    decoder = AvroDecoder(avro_schema({17: json.dumps(SMALL), 18: json.dumps(newer)}, "schema"))
    values = [
        b"\x00\x00\x00\x00\x11" + GOOD,
        b"\x00\x00\x00\x00\x12" + written(newer, {"id": 2, "at": NOON}),
        b"\x00\x00\x00\x00\x13" + GOOD,
        GOOD,
        b"\x00",
    ]
    decoded = decoder.decode(values)
    assert decoded.records.to_pylist() == [
        {"id": 1, "name": "x", "at": None},
        {"id": 2, "name": None, "at": NOON},
        None,
        None,
        None,
    ]
    reasons = decoded.reasons.to_pylist()
    assert "number is 19" in reasons[2]
    assert all("no schema number" in reason for reason in reasons[3:])


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("{", "not an Avro schema"),
        ('"string"', "must be a record"),
        ('{"type": "record", "name": "r", "fields": []}', "without fields"),
        (record_of(("a", ["string", "long"])), "a is a union of several types"),
        (record_of(("a", "null")), "a is always null"),
        (record_of(("a", ["null", "event"])), "a is recursive"),
        (record_of(("a", "nowhere")), "'nowhere'"),
        (record_of(("a", {"type": "array"})), r"a\[\] is not an Avro type"),
        (record_of(("a", logical("bytes", "decimal", precision=39))), "at most 38 digits"),
        (record_of(("a", {"type": "enum", "name": "e"})), "not an Avro schema"),
    ],
)
def test_a_schema_without_columns_for_it_is_refused_by_name(schema: Any, complaint: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(InputError, match=complaint):
        avro_schema({None: text}, "event.avsc")


def test_schemas_that_disagree_are_refused() -> None:
    other = json.dumps(record_of(("id", "string")))
    with pytest.raises(InputError, match="id is string, and int64"):
        avro_schema({1: json.dumps(SMALL), 2: other}, "schema")
    with pytest.raises(InputError, match="its number in the registry"):
        avro_schema({None: json.dumps(SMALL), 2: other}, "schema")
