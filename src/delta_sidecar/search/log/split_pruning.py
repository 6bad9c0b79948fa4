"""Leave out splits that cannot hold a matching row, by partition values, minimum and maximum, and time range.

The texts of a split become stats of the column's type, and the pruning of files does the rest. What cannot be read as
the type is unknown, and the unknown keeps the split.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
from msgspec import Struct

from delta_sidecar.predicates.expression import Column, Expression, columns_of
from delta_sidecar.pruning.add_pruner import AddPruner
from delta_sidecar.pruning.file_pruner import FilePruner
from delta_sidecar.search.log.actions import Split
from delta_sidecar.values import temporal
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType

TIME_COLUMN: Final = "sidecar.timeColumn"
"""The table property that names the column whose range `timeRangeStart` and `timeRangeEnd` are."""
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_INTEGER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_LONG_TEXT: Final = 32
"""A maximum of this many characters may have been cut off, so it is not used as a bound."""


class _Prunable(Struct):
    """What the pruning of files looks at."""

    path: str
    partitionValues: dict[str, str | None]
    stats: str | None


def pruned(
    splits: Sequence[Split], predicate: Expression | None, time_column: str | None = None, timezone: str = "UTC"
) -> list[Split]:
    """The splits that may hold a row for which the predicate is true."""
    if predicate is None:
        return list(splits)
    columns = [column for column in columns_of(predicate) if not column.is_partition]
    pruner = AddPruner(FilePruner(predicate, timezone))
    prunable: Any = [_prunable(split, columns, time_column) for split in splits]
    return [split for split, passes in zip(splits, pruner.passing(prunable).tolist(), strict=True) if passes]


def _prunable(split: Split, columns: Sequence[Column], time_column: str | None) -> _Prunable:
    partition = {name: None if value == NULL_PARTITION else value for name, value in split.partitionValues.items()}
    return _Prunable(split.path, partition, _stats(split, columns, time_column) if columns else None)


def _stats(split: Split, columns: Sequence[Column], time_column: str | None) -> str:
    """The stats of a split as Delta writes them, of the columns that matter."""
    given = _given(split.stats)
    counts = {"numRecords": split.numRecords if split.numRecords is not None else given.get("numRecords")}
    sides: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}}
    ranges = {"minValues": split.timeRangeStart, "maxValues": split.timeRangeEnd}
    for side, texts in (("minValues", split.minValues), ("maxValues", split.maxValues)):
        written = given.get(side)
        for column in columns:
            if len(column.fields) > 1:
                continue
            name = column.fields[0].name
            text = (texts or {}).get(name)
            if text is None and isinstance(written, Mapping) and written.get(name) is not None:
                text = _as_text(written[name])
            if text is None and name == time_column:
                text = ranges[side]
            value = None if text is None else _typed(text, column.type, side)
            if value is not None:
                sides[side][column.fields[0].physical_name] = value
    nulls = given.get("nullCount")
    return msgspec.json.encode({**counts, **sides, "nullCount": nulls if isinstance(nulls, Mapping) else {}}).decode()


def _given(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _typed(text: str, data_type: DataType, side: str) -> Any:
    """A bound as stats hold it; None if the text is none of its type."""
    if isinstance(data_type, DecimalType):
        return _decimal(text)
    if not isinstance(data_type, PrimitiveType) or data_type.name not in _READERS:
        return None
    if data_type.name == "string" and side == "maxValues" and len(text) >= _LONG_TEXT:
        return None
    return _READERS[data_type.name](text)


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


def _float(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str) -> str | None:
    return text if temporal.parse_days(text) is not None else None


def _instant(text: str) -> str | None:
    """A text without a zone may be of any zone."""
    moment = temporal.parse_moment(text)
    return text if moment is not None and moment.offset is not None else None


def _wall_clock(text: str) -> str | None:
    return text if temporal.local_micros(text) is not None else None


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), _integer),
    **dict.fromkeys(("float", "double"), _float),
    "string": lambda text: text,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _wall_clock,
}
