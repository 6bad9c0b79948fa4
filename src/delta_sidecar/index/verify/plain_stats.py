"""A slow and simple reader of stats texts, value by value. `verify` compares the typed columns with it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.index.format.index_columns import KINDS, NUM_RECORDS, TIGHT_BOUNDS, column
from delta_sidecar.index.format.index_layout import Leaf
from delta_sidecar.values import temporal
from delta_sidecar.values.comparison import INTEGERS, decimals
from delta_sidecar.values.stats_text import come_back
from delta_sidecar.values.types import DecimalType, PrimitiveType
from delta_sidecar.values.widening import Side, rounded_decimal

Value: TypeAlias = tuple[Any, bool]
"""A value as Arrow stores it, None if unknown; and whether it is all that the text says."""
_Parse: TypeAlias = Callable[[Any], Value]
_ComesBack: TypeAlias = Callable[[Any, Any], bool]

_UNKNOWN: Final[Value] = (None, False)
_INFINITE: Final = {"Infinity": float("inf"), "+Infinity": float("inf"), "-Infinity": float("-inf")}
_FLOATS_END: Final = (2 - 2**-24) * 2.0**127
"""Numbers from here on are nearer to 2 ** 128, which no float is, than to the greatest float."""
_NUMPY: Final = {"byte": np.int8, "short": np.int16, "integer": np.int32, "long": np.int64, "date": np.int32}


class _Number(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


_DECODER: Final = msgspec.json.Decoder(float_hook=_Number)


@dataclass(slots=True)
class DumbStats:
    """What the texts of some rows say."""

    columns: dict[str, pa.Array]
    lost: dict[str, list[int]]
    """Rows whose value of a column is not all that the text says."""
    more: list[int]
    """Rows that say things no column is for."""
    otherwise: list[int]
    """Rows with a value that is held, and that the columns give back in another form."""


@dataclass(slots=True)
class _Reading:
    values: defaultdict[str, dict[int, Any]] = field(default_factory=lambda: defaultdict(dict))
    lost: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    more: list[int] = field(default_factory=list)
    otherwise: list[int] = field(default_factory=list)
    times: defaultdict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    """The texts of times and dates that are known, by column and row."""


_Tree: TypeAlias = dict[str, Any]
"""Keys of an object of stats, to trees below, or at a leaf to a column's name, how its values are parsed, and whether
a value comes back as it is written: None for times, whose texts are compared all at once."""


class StatsReader:
    """Reads the stats of a table with these leaves."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._types = {column(kind, leaf.path): leaf for leaf in leaves for kind in ("min", "max")}
        self._tree: _Tree = {key: _tree(leaves, kind) for kind, key in KINDS.items()}
        self._tree |= {"numRecords": (NUM_RECORDS, _count, _always), "tightBounds": (TIGHT_BOUNDS, _boolean, _always)}

    def read(self, texts: Sequence[str | None]) -> DumbStats:
        reading = _Reading()
        for row, text in enumerate(texts):
            if text is not None:
                self._row(text, row, reading)
        for name, written in reading.times.items():
            values, leaf = reading.values[name], self._types[name]
            same = come_back(list(written.values()), [values[row] for row in written], leaf.bound)
            reading.otherwise += [row for row, is_same in zip(written, same, strict=True) if not is_same]
        built = {name: self._array(name, values, len(texts)) for name, values in reading.values.items()}
        return DumbStats(built, dict(reading.lost), reading.more, reading.otherwise)

    def _row(self, text: str, row: int, reading: _Reading) -> None:
        try:
            content = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeError):
            content = None
        if isinstance(content, dict):
            _walk(content, self._tree, row, reading)
        else:
            reading.more.append(row)

    def _array(self, name: str, values: dict[int, Any], count: int) -> pa.Array:
        spread = [values.get(row) for row in range(count)]
        leaf = self._types.get(name)
        if name == TIGHT_BOUNDS:
            return _booleans(spread)
        return arrays.int64s(spread) if leaf is None else _bounds(spread, leaf)


def _tree(leaves: Sequence[Leaf], kind: str) -> _Tree:
    root: _Tree = {}
    for leaf in leaves:
        level = root
        for name in leaf.path[:-1]:
            level = level.setdefault(name, {})
        if kind == "null_count" or leaf.bound is not None:
            ways = (_count, _always) if kind == "null_count" else (_parser(leaf, kind), _form(leaf))
            level[leaf.path[-1]] = (column(kind, leaf.path), *ways)
    return root


def _walk(content: dict[str, Any], tree: _Tree, row: int, reading: _Reading) -> None:
    for key, value in content.items():
        if value is None:
            continue
        node = tree.get(key)
        if type(node) is tuple:
            name, parse, comes_back = node
            known, exact = parse(value)
            if known is not None:
                reading.values[name][row] = known
                if comes_back is None:
                    reading.times[name][row] = value
                elif not comes_back(value, known):
                    reading.otherwise.append(row)
            if not exact:
                reading.lost[name].append(row)
        elif type(node) is dict and type(value) is dict:
            _walk(value, node, row, reading)
        elif _says(value):
            reading.more.append(row)


def _says(value: Any) -> bool:
    """Whether a value holds anything but null."""
    return any(map(_says, value.values())) if isinstance(value, dict) else value is not None


def _count(value: Any) -> Value:
    return (value, True) if type(value) is int and 0 <= value < 1 << 63 else _UNKNOWN


def _boolean(value: Any) -> Value:
    return (value, True) if isinstance(value, bool) else _UNKNOWN


def _text(value: Any) -> Value:
    return (value, True) if type(value) is str else _UNKNOWN


def _parser(leaf: Leaf, kind: str) -> _Parse:
    match leaf.type:
        case DecimalType():
            scaled, side = leaf.type, Side.MINIMUM if kind == "min" else Side.MAXIMUM
            return lambda value: _decimal(value, scaled, side)
        case PrimitiveType(name) if name in INTEGERS:
            return lambda value: _integer(value, INTEGERS[name])
        case PrimitiveType("float"):
            return _single
        case PrimitiveType("double"):
            return _float
        case PrimitiveType("boolean"):
            return _boolean
        case PrimitiveType("date"):
            return _date
        case PrimitiveType("timestamp" | "timestamp_ntz" as name):
            return lambda value: _moment(value, name == "timestamp")
    return _text


def _form(leaf: Leaf) -> _ComesBack | None:
    """Whether a value of a column is given back in the form that it was written in; None for times."""
    match leaf.type:
        case PrimitiveType("float"):
            return lambda value, known: float(str(np.float32(known))) == known and _is_same_number(value, known)
        case PrimitiveType("double"):
            return _is_same_number
        case PrimitiveType("date" | "timestamp" | "timestamp_ntz"):
            return None
        case DecimalType():
            return lambda value, known: type(value) is not str
    return _always


def _is_same_number(value: Any, known: float) -> bool:
    return bool(value == known) if type(value) is int else True


def _always(value: Any, known: Any) -> bool:
    return True


def _integer(value: Any, bits: int) -> Value:
    return (value, True) if type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1 else _UNKNOWN


def _float(value: Any) -> Value:
    if type(value) is str:
        return (_INFINITE[value], True) if value in _INFINITE else _UNKNOWN
    if type(value) not in (int, _Number):
        return _UNKNOWN
    try:
        number = float(value)
    except OverflowError:
        return _UNKNOWN
    return (number, True) if math.isfinite(number) else _UNKNOWN


def _single(value: Any) -> Value:
    """Rounded to the nearest float; what is beyond its range is unknown."""
    number, exact = _float(value)
    beyond = exact and _FLOATS_END <= abs(number) < math.inf
    return _UNKNOWN if beyond else (number, exact)


def _decimal(value: Any, data_type: DecimalType, side: Side) -> Value:
    if type(value) not in (int, str, _Number):
        return _UNKNOWN
    try:
        number = Decimal(value)
    except InvalidOperation:
        return _UNKNOWN
    low, high = (rounded_decimal(number, data_type, way) for way in (Side.MINIMUM, Side.MAXIMUM))
    return low if side is Side.MINIMUM else high, low is not None and low == high


def _date(value: Any) -> Value:
    days = temporal.parse_days(value) if type(value) is str else None
    return days, days is not None


def _moment(value: Any, zoned: bool) -> Value:
    moment = temporal.parse_moment(value) if type(value) is str else None
    if moment is None or (zoned and moment.offset is None) or (not zoned and moment.offset):
        return _UNKNOWN
    return moment.micros - (moment.offset or 0), moment.exact


def _booleans(values: Sequence[Any]) -> pa.BooleanArray:
    return arrays.primitives(values, pa.int8(), np.int8).cast(pa.bool_())


def _bounds(values: Sequence[Any], leaf: Leaf) -> pa.Array:
    assert leaf.bound is not None
    match leaf.type:
        case DecimalType():
            return decimals(values, leaf.bound)
        case PrimitiveType("string" | "binary"):
            return arrays.strings(values)
        case PrimitiveType("boolean"):
            return _booleans(values)
        case PrimitiveType("float"):
            return arrays.primitives(values, pa.float64(), np.float64).cast(leaf.bound, safe=False)
        case PrimitiveType("double"):
            return arrays.primitives(values, leaf.bound, np.float64)
        case PrimitiveType(name):
            return arrays.primitives(values, leaf.bound, _NUMPY.get(name, np.int64))
    raise AssertionError(f"{leaf.type} has no bounds")
