"""Key values of a manifest as comparable arrays, and the order of parts by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, Self

import pyarrow as pa
from msgspec import Struct

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.format.index_layout import SortKey
from delta_sidecar.index.format.part_entries import KeyValue, PartEntry, PartList
from delta_sidecar.values.comparison import INTEGERS, comparable, comparison_type, decimals, float64s, power_of_ten
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType

UNFIT: Final = (ValueError, TypeError, AttributeError, OverflowError)
"""What `key_array` raises for values that are not of the type."""


def without_nan(key: pa.Array) -> pa.Array:
    """NaN has no place between two bounds: as a key it is unknown."""
    return pc.if_else(pc.is_nan(key), pa.nulls(1, key.type)[0], key) if pa.types.is_floating(key.type) else key


def key_array(values: Sequence[KeyValue], data_type: DataType) -> pa.Array:
    """Key values of a manifest in the column's comparison type."""
    return _MAKERS[_kind(data_type)](values, data_type)


def key_type(sort: SortKey) -> DataType:
    """The type of the values of a sort key. Bounds of a binary column are texts."""
    if sort.type is None:
        return PrimitiveType("long")
    is_text = sort.kind == "min" and sort.type == PrimitiveType("binary")
    return PrimitiveType("string") if is_text else sort.type


def same_values(one: DataType | None, other: DataType | None) -> bool:
    """Whether keys of both types have the same form, so parts of both can be sorted in one manifest."""
    return one == other or (one is not None and other is not None and _spelling(one) == _spelling(other))


def _spelling(data_type: DataType) -> object:
    match data_type:
        case DecimalType(_, scale):
            return "decimal", scale
        case PrimitiveType(name) if name in INTEGERS:
            return "integer"
        case PrimitiveType("float" | "double"):
            return "float"
    return data_type


def in_key_type(values: pa.Array, data_type: DataType) -> pa.Array:
    """Typed values of rows in the type of `key_array`."""
    keys, target = comparable(values), comparison_type(data_type)
    assert target is not None
    return keys.cast(target) if keys.type != target else keys


class PartOrder(Struct, frozen=True):
    """Parts by their keys, in a form that compares."""

    lows: list[Any]
    highs: list[Any]
    unknown: Sequence[int]
    times: Sequence[KeyValue]

    @classmethod
    def of(cls, parts: PartList, sort: SortKey) -> Self:
        """`CorruptIndexError` where keys are not of their type, or missing."""
        kind = key_type(sort)
        try:
            lows, highs = (key_array(values, kind).to_pylist() for values in (parts.key_min, parts.key_max))
        except UNFIT as error:
            raise CorruptIndexError(
                f"a manifest has keys that are not of type {kind} ({error}); build the index again"
            ) from None
        if None in lows or None in highs:
            bounds = zip(lows, highs, parts.key_unknown, parts.rows)
            if any(None in (low, high) and (low is not high or unknown < rows) for low, high, unknown, rows in bounds):
                raise CorruptIndexError("a manifest lacks a key of rows whose key is known; build the index again")
        return cls(lows, highs, parts.key_unknown, parts.time_max)

    def newest_first(self, parts: Iterable[int]) -> list[int]:
        """The parts of the greatest keys first, those without a key last. Of equal ones first that whose least key is
        greater, then that of the latest times."""
        return sorted(parts, key=self._rank, reverse=True)

    def _rank(self, part: int) -> tuple[Any, ...]:
        high, low, time = self.highs[part], self.lows[part], self.times[part]
        later = time if isinstance(time, int) else None
        return high is not None, high, not self.unknown[part], low, later is not None, later

    def overlap(self, ordered: Sequence[int]) -> bool:
        """Whether any of these parts, the newest first, has a key below one of a later part. Null is below all."""
        return any(self._reaches_below(part, after) for part, after in pairwise(ordered))

    def _reaches_below(self, part: int, after: int) -> bool:
        high, low = self.highs[after], self.lows[part]
        return high is not None and (bool(self.unknown[part]) or low < high)


def in_order(parts: Iterable[PartEntry], sort: SortKey) -> list[PartEntry]:
    """Parts in the order of a manifest: the greatest keys first."""
    entries = list(parts)
    order = PartOrder.of(PartList.of(entries), sort)
    return [entries[part] for part in order.newest_first(range(len(entries)))]


def _kind(data_type: DataType) -> str:
    match data_type:
        case DecimalType():
            return "decimal"
        case PrimitiveType("string" | "binary" as name):
            return name
        case PrimitiveType("float" | "double"):
            return "float"
    return "integer"


def _integers(values: Sequence[Any], _: DataType) -> pa.Array:
    if any(v is not None and type(v) is not int for v in values):
        raise ValueError("not a whole number")
    return arrays.int64s(values)


def _decimals(values: Sequence[Any], data_type: DataType) -> pa.Array:
    assert isinstance(data_type, DecimalType)
    unscaled: list[int | None] = []
    for value in values:
        digits, _, scale = (value or "").partition("e-")
        if value is not None and (
            int(scale) != data_type.scale or abs(int(digits)) >= power_of_ten(data_type.precision)
        ):
            raise ValueError("not of this scale")
        unscaled.append(None if value is None else int(digits))
    return decimals(unscaled, pa.decimal128(data_type.precision, data_type.scale))


def _texts(values: Sequence[Any], _: DataType) -> pa.Array:
    return arrays.strings(values).view(pa.binary())


def _bytes(values: Sequence[Any], _: DataType) -> pa.Array:
    return arrays.binaries([None if v is None else bytes.fromhex(v) for v in values])


def _floats(values: Sequence[Any], _: DataType) -> pa.Array:
    return float64s([None if v is None else float(v) for v in values])


_MAKERS: Final[dict[str, Callable[[Sequence[Any], DataType], pa.Array]]] = {
    "integer": _integers,
    "decimal": _decimals,
    "string": _texts,
    "binary": _bytes,
    "float": _floats,
}
