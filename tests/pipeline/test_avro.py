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
        (record_of(("a", ["null", logical("long", "timestamp-micros"), "int"])), "a is a union of several types"),
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


def priced(scale: int, name: str = "Price") -> dict[str, Any]:
    return logical("fixed", "decimal", size=4, precision=9, scale=scale) | {"name": name}


PRICES = {
    "short name": (record_of(("own", priced(4)), name="b.Inner"), "Price"),
    "full name": (record_of(("own", priced(4)), name="b.Inner"), "a.Price"),
    "namespace of its own": (record_of(("own", priced(4)), name="Inner") | {"namespace": "b"}, "Price"),
    "full name of its own": (record_of(("own", priced(4, "b.Price")), name="Inner"), "Price"),
    "the other": (record_of(("own", priced(2)), name="b.Inner"), "b.Price"),
}


@pytest.mark.parametrize("case", PRICES)
def test_a_name_means_the_type_of_its_namespace(case: str) -> None:
    inner, name = PRICES[case]
    first = 4 if case == "the other" else 2
    schema = record_of(("first", priced(first)), ("second", inner), ("third", name)) | {"namespace": "a"}
    decoded = decoder_of(schema).decode([(1234).to_bytes(4, "big") * 3])
    assert decoded.reasons.to_pylist() == [None]
    own = Decimal("12.34") if case == "the other" else Decimal("0.1234")
    first_value = Decimal("0.1234") if case == "the other" else Decimal("12.34")
    assert decoded.records.to_pylist() == [{"first": first_value, "second": {"own": own}, "third": Decimal("12.34")}]


def test_a_short_name_of_another_namespace_is_not_known() -> None:
    inner = record_of(("own", priced(4)), name="b.Inner")
    with pytest.raises(InputError, match="third is of type 'Price', which the schema does not define"):
        decoder_of(record_of(("second", inner), ("third", "Price")) | {"namespace": "a"})


def test_an_inner_record_may_have_the_short_name_of_its_outer_one() -> None:
    inner = record_of(("x", "long"), name="b.event")
    decoded = decoder_of(record_of(("inner", inner)) | {"namespace": "a"}).decode([b"\x02"])
    assert decoded.records.to_pylist() == [{"inner": {"x": 1}}]


ENUM = {"type": "enum", "name": "kind", "symbols": ["A", "B"]}
LONGS = {"type": "map", "values": "long"}
MALFORMED = {
    "enum": (ENUM, b"\x01", "number -1 is that of no symbol"),
    "union": (["null", "long"], b"\x01\x02", "number -1 is that of no branch"),
    "boolean": ("boolean", b"\x07", "a boolean is 7"),
    "long": ("long", b"\xff" * 9 + b"\x7f", "a number has more than 64 bits"),
    "longer": ("long", b"\xff" * 12 + b"\x01", "a number has more than 64 bits"),
    "key": (LONGS, b"\x04\x02k\x02\x02k\x04\x00", "a map has a key twice"),
    "key of another block": (LONGS, b"\x02\x02k\x02\x02\x02k\x04\x00", "a map has a key twice"),
    "inside": ({"type": "array", "items": ["null", ENUM]}, b"\x02\x02\x01\x00", "number -1 is that of no symbol"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_bytes_that_no_writer_makes_are_refused(case: str) -> None:
    kind, value, reason = MALFORMED[case]
    decoded = decoder_of(record_of(("first", "long"), ("f", kind))).decode([b"\x02" + value])
    assert decoded.records.to_pylist() == [None]
    assert decoded.reasons.to_pylist() == [f"does not decode as Avro: {reason}"]


UNUSUAL = {
    "blocks": ({"type": "array", "items": "long"}, b"\x02\x02\x02\x04\x00", [1, 2]),
    "block with its size": ({"type": "array", "items": "long"}, b"\x03\x04\x02\x04\x00", [1, 2]),
    "map of blocks": (LONGS, b"\x02\x02k\x02\x01\x06\x02l\x04\x00", [("k", 1), ("l", 2)]),
    "branch that is wider": (["int", "long"], b"\x02\x04", 2),
    "number of more bytes": ("long", b"\x84\x00", 2),
    "not a number": ("float", b"\x01\x00\xa0\x7f", None),
    "all of it": (
        record_of(("b", "boolean"), ("t", "string"), ("e", ENUM), ("l", ["int", "long"]), name="inner"),
        b"\x01\x02x\x02\x02\x04",
        {"b": True, "t": "x", "e": "B", "l": 2},
    ),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_what_other_writers_make_is_read(case: str) -> None:
    kind, value, expected = UNUSUAL[case]
    decoded = decoder_of(record_of(("f", kind), ("end", "long"))).decode([value + b"\x06"])
    assert decoded.reasons.to_pylist() == [None]
    (record,) = decoded.records.to_pylist()
    assert record["end"] == 3
    assert record["f"] == expected or (expected is None and record["f"] != record["f"])
