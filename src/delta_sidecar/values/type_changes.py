"""Which changes of a column's type are supported: those that the protocol's type widening allows.

| from                 | to                                                                  |
|----------------------|---------------------------------------------------------------------|
| byte, short, integer | a wider one of them, long, double, a decimal that holds all values   |
| long                 | a decimal that holds all values                                      |
| float                | double                                                               |
| decimal              | a decimal with as many digits before and after the point, or more    |
| date                 | timestamp_ntz                                                        |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from delta_sidecar.values.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType, parse_type

_WIDER: Final = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def unsupported_changes(schema: StructType) -> Iterator[str]:
    """The changes of columns, at any depth, that cannot be followed, each in words."""
    for name, field in _fields(schema, ""):
        for change in _changes(field):
            if change is None:
                yield f"column {name!r} has a change of type that cannot be read"
            elif not is_widening(*change):
                yield f"column {name!r} was changed from {change[0]} to {change[1]}"


def is_changed_otherwise(field: StructField) -> bool:
    """Whether a column had a type that does not widen to the one it has."""
    return any(change is not None and not is_widening(*change) for change in _changes(field))


def _changes(field: StructField) -> list[tuple[DataType, DataType] | None]:
    """The types that a column, or the elements, keys and values in it, had and got; None for what cannot be read."""
    changes = field.metadata.get("delta.typeChanges")
    if changes is None:
        return []
    return [_change(change) for change in changes] if isinstance(changes, list) else [None]


def _change(change: Any) -> tuple[DataType, DataType] | None:
    old, new = (change.get("fromType"), change.get("toType")) if isinstance(change, dict) else (None, None)
    return (parse_type(old), parse_type(new)) if isinstance(old, str) and isinstance(new, str) else None


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether every value of the old type is one of the new type, by the protocol's rules."""
    match old, new:
        case DecimalType(precision, scale), DecimalType(new_precision, new_scale):
            return new_scale >= scale and new_precision - new_scale >= precision - scale
        case _, DecimalType(precision, scale):
            return str(old) in _DIGITS and precision - scale >= _DIGITS[str(old)]
    return old == new or str(new) in _WIDER.get(str(old), ())


def _fields(data_type: DataType, above: str) -> Iterator[tuple[str, StructField]]:
    match data_type:
        case StructType(fields):
            for field in fields:
                name = f"{above}.{field.name}" if above else field.name
                yield name, field
                yield from _fields(field.type, name)
        case ArrayType(element):
            yield from _fields(element, f"{above}.element")
        case MapType(key, value):
            yield from _fields(key, f"{above}.key")
            yield from _fields(value, f"{above}.value")
