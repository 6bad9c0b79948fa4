"""Column types as plain values, and the words that Spark and Arrow have for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Bits of the whole numbers."""
OF_SPARK = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
TO_ARROW = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


@dataclass(frozen=True)
class Atom:
    """A type without parts, by its name in DDL."""

    name: str


@dataclass(frozen=True)
class Dec:
    """A decimal."""

    precision: int
    scale: int


@dataclass(frozen=True)
class Array:
    """An array."""

    element: Type


@dataclass(frozen=True)
class Map:
    """A map with text as its keys."""

    value: Type


@dataclass(frozen=True)
class Struct:
    """A struct, or the columns of a table."""

    fields: tuple[tuple[str, Type], ...]

    def find(self, name: str) -> tuple[str, Type] | None:
        """The field of that name: in exactly that case, else in any."""
        exact = next((field for field in self.fields if field[0] == name), None)
        return exact or next((field for field in self.fields if field[0].lower() == name.lower()), None)

    def with_field(self, name: str, kind: Type) -> Struct:
        """The struct in which `name` is of that type, added if it is not there."""
        known = self.find(name)
        if known is None:
            return Struct((*self.fields, (name, kind)))
        return Struct(tuple((key, kind if key == known[0] else value) for key, value in self.fields))

    def __iter__(self) -> Iterator[tuple[str, Type]]:
        return iter(self.fields)


@dataclass(frozen=True)
class Unsure:
    """A type that the guide leaves open; the table says what it is."""


Type = Atom | Dec | Array | Map | Struct | Unsure

STRING, BIGINT, DOUBLE, BOOLEAN = Atom("string"), Atom("bigint"), Atom("double"), Atom("boolean")
TIMESTAMP, NTZ, DATE = Atom("timestamp"), Atom("timestamp_ntz"), Atom("date")


def ddl(kind: Type) -> str:
    """The type in DDL; of a table's columns use `ddl_of_columns`."""
    match kind:
        case Atom(name):
            return name.upper()
        case Dec(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case Array(element):
            return f"ARRAY<{ddl(element)}>"
        case Map(value):
            return f"MAP<STRING, {ddl(value)}>"
        case Struct(fields):
            return "STRUCT<" + ", ".join(f"`{name}`: {ddl(part)}" for name, part in fields) + ">"
    raise TypeError(kind)


def ddl_of_columns(columns: Struct) -> str:
    """The columns of a table in DDL."""
    return ", ".join(f"`{name}` {ddl(kind)}" for name, kind in columns)


def of_spark(told: Any) -> Type:
    """The type that Spark's JSON of a schema names."""
    if isinstance(told, str):
        if told.startswith("decimal"):
            precision, scale = told.removeprefix("decimal(").removesuffix(")").split(",")
            return Dec(int(precision), int(scale))
        return Atom(OF_SPARK.get(told, told))
    match told["type"]:
        case "struct":
            return Struct(tuple((field["name"], of_spark(field["type"])) for field in told["fields"]))
        case "array":
            return Array(of_spark(told["elementType"]))
        case "map":
            return Map(of_spark(told["valueType"]))
    raise TypeError(told)


def to_spark(kind: Type) -> Any:
    """The type in Spark's JSON of a schema."""
    match kind:
        case Atom(name):
            return {ours: theirs for theirs, ours in OF_SPARK.items()}.get(name, name)
        case Dec(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element):
            return {"type": "array", "elementType": to_spark(element), "containsNull": True}
        case Map(value):
            return {"type": "map", "keyType": "string", "valueType": to_spark(value), "valueContainsNull": True}
        case Struct(fields):
            told = [{"name": name, "type": to_spark(part), "nullable": True, "metadata": {}} for name, part in fields]
            return {"type": "struct", "fields": told}
    raise TypeError(kind)


def to_arrow(kind: Type) -> pa.DataType:
    """The type in Arrow."""
    match kind:
        case Atom(name):
            return TO_ARROW[name]
        case Dec(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element):
            return pa.list_(to_arrow(element))
        case Map(value):
            return pa.map_(pa.string(), to_arrow(value))
        case Struct(fields):
            return pa.struct([(name, to_arrow(part)) for name, part in fields])
    raise TypeError(kind)


def differences(expected: Type, real: Type, path: str = "") -> Iterator[str]:
    """Where the real type is another than the expected one; names in any case and order, open types agree with all."""
    if isinstance(expected, Unsure):
        return
    match expected, real:
        case Struct(), Struct():
            known = {name.lower(): kind for name, kind in real}
            for name, kind in expected:
                if name.lower() in known:
                    yield from differences(kind, known[name.lower()], f"{path}.{name}")
                elif not isinstance(kind, Unsure):
                    yield f"{path}.{name} is missing"
            more = known.keys() - {name.lower() for name, _ in expected}
            yield from (f"{path}.{name} is there" for name in sorted(more))
        case Array(a), Array(b):
            yield from differences(a, b, f"{path}[]")
        case Map(a), Map(b):
            yield from differences(a, b, f"{path}{{}}")
        case _:
            if expected != real:
                yield f"{path} is {real}, not {expected}"


def settled(expected: Type, real: Type | None) -> Type:
    """The expected type, with what the guide leaves open taken from the real one."""
    match expected, real:
        case Unsure(), None:
            return expected
        case Unsure(), _:
            assert real is not None
            return real
        case Struct(fields), Struct():
            known: Mapping[str, Type] = {name.lower(): kind for name, kind in real}
            parts = ((name, settled(kind, known.get(name.lower()))) for name, kind in fields)
            return Struct(tuple((name, kind) for name, kind in parts if not isinstance(kind, Unsure)))
        case Array(a), Array(b):
            return Array(settled(a, b))
        case _:
            return expected
