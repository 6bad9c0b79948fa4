"""The table's schema: Delta's types, logical and physical names, and their Arrow form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from delta_sidecar.errors import CorruptLogError, UnknownColumnError, UnsupportedTypeError, did_you_mean
from delta_sidecar.values.column_names import folded


class _DataType:
    """What every type offers, under the names `deltalake` has."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The kind of type: `array`, `map`, `struct`, or the name of a primitive one."""
        return str(self)

    def to_json(self) -> str:
        """The type as the protocol writes it."""
        return msgspec.json.encode(_to_wire(self)).decode()  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class PrimitiveType(_DataType):
    """A type without parameters, by the protocol's name: `long`, `string`, `timestamp_ntz`, …"""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType(_DataType):
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class UnknownType(_DataType):
    """A type name this reader does not know: the column can be neither pruned on nor read."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayType(_DataType):
    element: DataType
    contains_null: bool = True

    @property
    def type(self) -> str:
        return "array"

    @property
    def element_type(self) -> DataType:
        return self.element

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(_DataType):
    key: DataType
    value: DataType
    value_contains_null: bool = True

    @property
    def type(self) -> str:
        return "map"

    @property
    def key_type(self) -> DataType:
        return self.key

    @property
    def value_type(self) -> DataType:
        return self.value

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    """The logical name, as users write it."""
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    physical_name: str = ""
    """The name in data files, stats and partition values; equals `name` without column mapping."""
    field_id: int | None = None
    """The Parquet field id, where column mapping gives one."""

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"

    def to_arrow(self, as_large_types: bool = False) -> pa.Field:
        """The Arrow field of the column; see `StructType.to_arrow`."""
        arrow = arrow_field(self)
        return arrow.with_type(large_type(arrow.type)) if as_large_types else arrow

    def to_json(self) -> str:
        """The field as the protocol writes it."""
        return msgspec.json.encode(_field_to_wire(self)).decode()


@dataclass(frozen=True, slots=True)
class StructType(_DataType):
    fields: tuple[StructField, ...] = ()

    @property
    def type(self) -> str:
        return "struct"

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    @property
    def names(self) -> list[str]:
        """The logical names of the top level."""
        return [f.name for f in self.fields]

    def find(self, name: str) -> StructField | None:
        """The field of that logical name: exact case first, then without case."""
        for f in self.fields:
            if f.name == name:
                return f
        without_case = folded(name)
        return next((f for f in self.fields if folded(f.name) == without_case), None)

    def resolve(self, parts: Sequence[str]) -> tuple[StructField, ...]:
        """The fields from the top down to the one `parts` names; `UnknownColumnError` if there is none."""
        chain: list[StructField] = []
        level: DataType = self
        for part in parts:
            child = level.find(part) if isinstance(level, StructType) else None
            if child is None:
                names = level.names if isinstance(level, StructType) else []
                near = did_you_mean(part, names)
                known = ", ".join(names[:20]) or "none"
                raise UnknownColumnError(f"no column {'.'.join(parts)!r} in the table{near}; columns here: {known}")
            chain.append(child)
            level = child.type
        return tuple(chain)

    def select(self, names: Sequence[str]) -> StructType:
        """The top-level fields of those names, in that order."""
        return StructType(tuple(self.resolve([name])[0] for name in names))

    def to_arrow(self, as_large_types: bool = False) -> pa.Schema:
        """The Arrow schema of the rows, in logical names; with `as_large_types`, texts, bytes and lists have 64-bit
        offsets."""
        return pa.schema([f.to_arrow(as_large_types) for f in self.fields])

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()


DataType: TypeAlias = PrimitiveType | DecimalType | UnknownType | ArrayType | MapType | StructType

_PRIMITIVES: dict[str, Callable[[], pa.DataType]] = {
    "string": pa.string,
    "long": pa.int64,
    "integer": pa.int32,
    "short": pa.int16,
    "byte": pa.int8,
    "float": pa.float32,
    "double": pa.float64,
    "boolean": pa.bool_,
    "binary": pa.binary,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": lambda: pa.timestamp("us"),
    "void": pa.null,
    "null": pa.null,
    "variant": lambda: pa.struct(
        [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    ),
}

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_COLLATED = re.compile(r"string collate .+", re.IGNORECASE)


def parse_schema(text: str, mapping_mode: str = "none") -> StructType:
    """The `schemaString` of a metadata action. `mapping_mode` (`none`, `name`, `id`) says whether the
    physical names in the field metadata count."""
    try:
        wire = msgspec.json.decode(text)
        parsed = _parse_type(wire, mapping_mode != "none")
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CorruptLogError(f"the table's schema cannot be read ({error}): {text[:200]!r}") from None
    if not isinstance(parsed, StructType):
        raise CorruptLogError(f"the table's schema is not a struct: {text[:200]!r}")
    return parsed


def _parse_type(wire: Any, mapped: bool) -> DataType:
    if isinstance(wire, str):
        return parse_type(wire)
    kind = wire["type"]
    if kind == "struct":
        return StructType(tuple(_parse_field(f, mapped) for f in wire["fields"]))
    if kind == "array":
        return ArrayType(_parse_type(wire["elementType"], mapped), wire.get("containsNull", True))
    if kind == "map":
        return MapType(
            _parse_type(wire["keyType"], mapped),
            _parse_type(wire["valueType"], mapped),
            wire.get("valueContainsNull", True),
        )
    return UnknownType(str(kind))


def parse_type(name: str) -> DataType:
    """The type that a name of the protocol means: a primitive one or a decimal."""
    if name in _PRIMITIVES:
        return PrimitiveType(name)
    if name == "decimal":
        return DecimalType(10, 0)
    if match := _DECIMAL.fullmatch(name):
        return DecimalType(int(match[1]), int(match[2]))
    if _COLLATED.fullmatch(name):
        return PrimitiveType("string")
    return UnknownType(name)


def _parse_field(wire: Mapping[str, Any], mapped: bool) -> StructField:
    metadata = wire.get("metadata") or {}
    name = wire["name"]
    if not isinstance(name, str) or not isinstance(metadata, Mapping):
        raise TypeError("a column has no name, or metadata of a wrong type")
    physical = metadata.get("delta.columnMapping.physicalName") if mapped else None
    field_id = metadata.get("delta.columnMapping.id") if mapped else None
    return StructField(
        name=name,
        type=_parse_type(wire["type"], mapped),
        nullable=wire.get("nullable", True),
        metadata=metadata,
        physical_name=physical or name,
        field_id=field_id,
    )


def _field_to_wire(f: StructField) -> Any:
    return {"name": f.name, "type": _to_wire(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}


def _to_wire(data_type: DataType) -> Any:
    match data_type:
        case StructType(fields):
            return {
                "type": "struct",
                "fields": [_field_to_wire(f) for f in fields],
            }
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _to_wire(element), "containsNull": contains_null}
        case MapType(key, value, contains_null):
            return {
                "type": "map",
                "keyType": _to_wire(key),
                "valueType": _to_wire(value),
                "valueContainsNull": contains_null,
            }
        case _:
            return str(data_type)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a column's rows, in logical names."""
    match data_type:
        case PrimitiveType(name):
            return _PRIMITIVES[name]()
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), nullable=contains_null))
        case MapType(key, value, contains_null):
            return pa.map_(
                pa.field("key", arrow_type(key), nullable=False),
                pa.field("value", arrow_type(value), nullable=contains_null),
            )
        case StructType(fields):
            return pa.struct([arrow_field(f) for f in fields])
        case UnknownType(name):
            raise UnsupportedTypeError(f"the type {name!r} cannot be read as rows; leave its column out of `columns`")


def arrow_field(f: StructField) -> pa.Field:
    """The Arrow field of a column. `void` is nullable whatever the schema says."""
    return pa.field(f.name, arrow_type(f.type), nullable=f.nullable or f.type == PrimitiveType("void"))


def large_type(data_type: pa.DataType) -> pa.DataType:
    """An Arrow type with 64-bit offsets for the texts, bytes and lists in it, at any depth."""
    if pa.types.is_string(data_type):
        return pa.large_string()
    if pa.types.is_binary(data_type):
        return pa.large_binary()
    if pa.types.is_list(data_type):
        return pa.large_list(_large_field(data_type.value_field))
    if pa.types.is_map(data_type):
        return pa.map_(_large_field(data_type.key_field), _large_field(data_type.item_field))
    if pa.types.is_struct(data_type):
        return pa.struct([_large_field(field) for field in data_type.fields])
    return data_type


def _large_field(field: pa.Field) -> pa.Field:
    return field.with_type(large_type(field.type))
