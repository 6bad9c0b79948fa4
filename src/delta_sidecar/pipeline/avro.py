"""Avro records, as messages carry them, into Arrow: each decoded whole, or refused with a reason.

Spark's `from_avro` cannot say that a record did not decode: it gives nulls, as a record of nulls would, ignores bytes
that are left over, and reads the header of a schema registry as values. So records are decoded
here, by fastavro, in `mapInArrow` tasks. No Spark in it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any, TypeAlias

import pyarrow as pa

from delta_sidecar.errors import InputError, needs_extra
from delta_sidecar.pipeline.avro_bytes import checker

Convert: TypeAlias = Callable[[Any], Any]
"""What fastavro gives, as Arrow takes it."""

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMES = {
    "timestamp-millis": (pa.timestamp("us", "UTC"), 1000),
    "timestamp-micros": (pa.timestamp("us", "UTC"), 1),
    "local-timestamp-millis": (pa.timestamp("us"), 1000),
    "local-timestamp-micros": (pa.timestamp("us"), 1),
}
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_REGISTRY_HEADER = 5
"""Bytes that clients of a schema registry put before a record: a zero, and the schema's number."""
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """The schemas that records were written with: one, or several that a schema registry has numbered."""

    texts: Mapping[int | None, str]
    """Their JSON by number; None for records that carry no number."""
    struct: pa.StructType = field(repr=False)
    """What a record becomes: the fields of all schemas."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records of a batch, one entry per value."""

    records: pa.StructArray
    """Null where a value did not decode."""
    reasons: pa.StringArray
    """Why it did not; null where it did."""


def avro_schema(texts: Mapping[int | None, str], where: str) -> AvroSchema:
    """The schemas in the texts of files; what has no column to go to is refused by name."""
    if None in texts and len(texts) > 1:
        raise InputError(f"{where}: give each of several Avro schemas its number in the registry: 17=FILE")
    columns: dict[str, pa.Field] = {}
    for number, text in texts.items():
        place = where if number is None else f"{where} {number}"
        for column in _Reader(text, place).struct:
            known = columns.setdefault(column.name, column)
            if known.type != column.type:
                raise InputError(f"{place}: {column.name} is {column.type}, and {known.type} in another schema")
    return AvroSchema(dict(texts), pa.struct(list(columns.values())))


class _Reader:
    """Reads records of one schema."""

    def __init__(self, text: str, where: str) -> None:
        try:
            schema = json.loads(text)
        except ValueError as error:
            raise InputError(f"{where} is not an Avro schema: {error}") from None
        plain, self.struct, self._convert = _Reading(where).read(schema, "")
        if not isinstance(plain, dict) or plain.get("type") != "record":
            raise InputError(f"{where}: the schema of a message must be a record")
        self._schema = _parsed(plain, where)
        self._check = checker(self._schema)

    def read(self, value: bytes, start: int) -> Any:
        """The record that fills `value` from `start` to its end."""
        from fastavro import schemaless_reader, schemaless_writer

        source = io.BytesIO(value)
        source.seek(start)
        record = schemaless_reader(source, self._schema, None)
        if rest := len(value) - source.tell():
            raise ValueError(f"{rest} bytes are left over after the record")
        again = io.BytesIO()
        schemaless_writer(again, self._schema, record)
        if again.getbuffer() != memoryview(value)[start:]:
            self._check(value, start)
        return self._convert(record) if self._convert else record


class AvroDecoder:
    """Decodes values; made once per task."""

    def __init__(self, schema: AvroSchema) -> None:
        self._struct = schema.struct
        self._readers = {number: _Reader(text, "the Avro schema") for number, text in schema.texts.items()}

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """All values; None is a message without a value, and gives a null and no reason."""
        records: list[Any] = [None] * len(values)
        reasons: list[str | None] = [None] * len(values)
        for place, value in enumerate(values):
            if value is not None:
                try:
                    records[place] = self._record(value)
                except Exception as error:  # what bytes can do to a decoder is not bounded by a list of errors
                    reasons[place] = (
                        f"does not decode as Avro: {str(error).partition(chr(10))[0] or type(error).__name__}"
                    )
        return Decoded(self._array(records, reasons), pa.array(reasons, pa.string()))

    def _record(self, value: bytes) -> Any:
        if (only := self._readers.get(None)) is not None:
            return only.read(value, 0)
        if len(value) < _REGISTRY_HEADER or value[0] != 0:
            raise ValueError("it has no schema number before the record")
        number = int.from_bytes(value[1:_REGISTRY_HEADER], "big")
        if (reader := self._readers.get(number)) is None:
            raise ValueError(f"its schema number is {number}, which no --avro-schema gives")
        return reader.read(value, _REGISTRY_HEADER)

    def _array(self, records: list[Any], reasons: list[str | None]) -> pa.StructArray:
        """Arrow's array; where it refuses, each record is tried alone, so that only the bad ones are left out."""
        try:
            return pa.array(records, self._struct)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            for place, record in enumerate(records):
                try:
                    pa.array([record], self._struct)
                except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
                    records[place], reasons[place] = None, f"does not fit its Avro schema: {error}"
            return pa.array(records, self._struct)


def _parsed(plain: Any, where: str) -> Any:
    try:
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType
    except ImportError:
        raise needs_extra("Avro", "fastavro", "avro") from None
    try:
        return parse_schema(plain)
    except (SchemaParseException, UnknownType, ValueError, TypeError) as error:
        raise InputError(f"{where} is not an Avro schema: {error}") from None


class _Reading:
    """One walk over a schema: the schema without logical types, Arrow's type, and how values get there.

    Logical types are taken off because fastavro rounds decimals to their precision and has no year after 9999.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._named: dict[str, tuple[pa.DataType, Convert | None]] = {}
        """By full name."""
        self._open: set[str] = set()
        self._namespace = ""
        """Of the definition that is being read: names without one are in it."""

    def read(self, schema: Any, path: str) -> tuple[Any, pa.DataType, Convert | None]:
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            return self._name(schema, path)
        if not isinstance(schema, dict) or "type" not in schema:
            raise self._refusal(path, "is not an Avro type")
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.read(kind, path)
        by_kind: dict[str, Callable[[dict[str, Any], str], tuple[Any, pa.DataType, Convert | None]]] = {
            "record": self._record, "error": self._record, "array": self._array, "map": self._map,
            "enum": self._enum, "fixed": self._fixed,
        }  # fmt: skip
        return by_kind.get(kind, self._primitive)(schema, path)

    def _refusal(self, path: str, what: str) -> InputError:
        return InputError(f"{self._where}: {path or 'the schema'} {what}")

    def _name(self, name: str, path: str) -> tuple[Any, pa.DataType, Convert | None]:
        if name in _PRIMITIVES:
            return name, _PRIMITIVES[name], None
        if name == "null":
            raise self._refusal(path, "is always null; a column cannot be")
        full = self._full(name, self._namespace)
        if full in self._open:
            raise self._refusal(path, f"is recursive ({name}); a column cannot be")
        if full not in self._named:
            raise self._refusal(path, f"is of type {name!r}, which the schema does not define")
        return name, *self._named[full]

    def _primitive(self, schema: dict[str, Any], path: str) -> tuple[Any, pa.DataType, Convert | None]:
        kind, logical = schema["type"], schema.get("logicalType")
        if kind not in _PRIMITIVES:
            return self._name(kind, path)
        if kind == "int" and logical == "date":
            return kind, pa.date32(), None
        if kind == "long" and logical in _TIMES:
            data_type, unit = _TIMES[logical]
            return kind, data_type, None if unit == 1 else lambda count: count * unit
        if kind == "bytes" and logical == "decimal":
            return kind, *self._decimal(schema, path)
        return kind, _PRIMITIVES[kind], None

    def _decimal(self, schema: dict[str, Any], path: str) -> tuple[pa.DataType, Convert]:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= _MOST_DIGITS:
            raise self._refusal(path, f"is decimal({precision},{scale}); a column has at most {_MOST_DIGITS} digits")

        def convert(value: bytes) -> Decimal:
            unscaled = int.from_bytes(value, "big", signed=True)
            if abs(unscaled) >= 10**precision:
                raise ValueError(f"{path} has more digits than decimal({precision},{scale})")
            with localcontext() as exact:
                exact.prec = _MOST_DIGITS
                return Decimal(unscaled).scaleb(-scale)

        return pa.decimal128(precision, scale), convert

    def _record(self, schema: dict[str, Any], path: str) -> tuple[Any, pa.DataType, Convert | None]:
        name = self._own_name(schema, path)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise self._refusal(path, "is a record without fields")
        self._open.add(name)
        outside, self._namespace = self._namespace, name.rpartition(".")[0]
        plain, columns, converts = [], [], {}
        for item in fields:
            column = item.get("name") if isinstance(item, dict) else None
            if not isinstance(column, str) or "type" not in item:
                raise self._refusal(path, "has a field without a name or a type")
            inner, data_type, convert = self.read(item["type"], f"{path}.{column}" if path else column)
            plain.append({"name": column, "type": inner})
            columns.append(pa.field(column, data_type))
            if convert is not None:
                converts[column] = convert
        self._namespace = outside
        self._open.remove(name)
        whole = pa.struct(columns), _of_fields(converts)
        self._named[name] = whole
        return _same_name(schema) | {"type": "record", "fields": plain}, *whole

    def _array(self, schema: dict[str, Any], path: str) -> tuple[Any, pa.DataType, Convert | None]:
        plain, data_type, convert = self.read(schema.get("items"), f"{path}[]")
        return {"type": "array", "items": plain}, pa.list_(data_type), _of_items(convert)

    def _map(self, schema: dict[str, Any], path: str) -> tuple[Any, pa.DataType, Convert | None]:
        plain, data_type, convert = self.read(schema.get("values"), f"{path}{{}}")
        return {"type": "map", "values": plain}, pa.map_(pa.string(), data_type), _of_values(convert)

    def _enum(self, schema: dict[str, Any], path: str) -> tuple[Any, pa.DataType, Convert | None]:
        self._named[self._own_name(schema, path)] = pa.string(), None
        return _same_name(schema) | {"type": "enum", "symbols": schema.get("symbols")}, pa.string(), None

    def _fixed(self, schema: dict[str, Any], path: str) -> tuple[Any, pa.DataType, Convert | None]:
        whole = self._decimal(schema, path) if schema.get("logicalType") == "decimal" else (pa.binary(), None)
        self._named[self._own_name(schema, path)] = whole
        return _same_name(schema) | {"type": "fixed", "size": schema.get("size")}, *whole

    def _union(self, branches: list[Any], path: str) -> tuple[Any, pa.DataType, Convert | None]:
        read = [None if branch == "null" else self.read(branch, path) for branch in branches]
        plain = ["null" if branch is None else branch[0] for branch in read]
        values = [branch for branch in read if branch is not None]
        if len(values) == 1:
            return plain, values[0][1], _unless_null(values[0][2])
        kinds = [branch[0] if isinstance(branch[0], str) else "" for branch in values]
        are_plain = all(branch[1] == _PRIMITIVES.get(kind) for branch, kind in zip(values, kinds))
        if (wider := _WIDER.get(frozenset(kinds))) is not None and are_plain:
            return plain, _PRIMITIVES[wider], None
        raise self._refusal(path, "is a union of several types; a column has one")

    def _own_name(self, schema: dict[str, Any], path: str) -> str:
        """The full name of a definition."""
        name, namespace = schema.get("name"), schema.get("namespace", self._namespace)
        if not isinstance(name, str):
            raise self._refusal(path, "has no name")
        return self._full(name, namespace or "")

    @staticmethod
    def _full(name: str, namespace: str) -> str:
        """A name with the namespace it is in; one with a point has its own."""
        return name if "." in name or not namespace else f"{namespace}.{name}"


def _same_name(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("name", "namespace") if key in schema}


def _unless_null(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _of_fields(converts: Mapping[str, Convert]) -> Convert | None:
    if not converts:
        return None
    return lambda record: record | {name: convert(record[name]) for name, convert in converts.items()}


def _of_items(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda items: [convert(item) for item in items]


def _of_values(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: {key: convert(value) for key, value in values.items()}
