"""Convert typed stats back to the log's JSON, for checkpoints and indexes that hold no JSON text.

Each value has one form, as delta-spark writes it: floats with the fewest digits that give them back, times in UTC with
three digits of a second, or six if needed. Typed stats cannot give back a text in another form, so call
`are_as_written` before dropping a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.values.comparison import valid

_encode = msgspec.json.Encoder(decimal_format="number").encode
_ORDER: Final = {"numRecords": 0, "minValues": 1, "maxValues": 2, "nullCount": 3, "tightBounds": 4}
_SPECIAL: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_FRACTION: Final = r"\.\d\d\d(?:\d\d[1-9]|\d[1-9]0|[1-9]00)?"
ZONED: Final = rf'T\d\d:\d\d:\d\d{_FRACTION}Z"'
"""Finds instants in the form they are given back in, as JSON texts end."""
LOCAL: Final = rf'T\d\d:\d\d:\d\d{_FRACTION}"'
"""As `ZONED`, of wall clocks."""
DATE: Final = r'":"\d\d\d\d-\d\d-\d\d"'
"""As `ZONED`, of dates, and of texts that look like one."""
EXACT_INTEGERS: Final = 2.0**53
"""Doubles from here on do not tell which whole number they were written as."""


def stats_text(stats: pa.StringArray, parsed: pa.StructArray) -> pa.StringArray:
    """The JSON text where there is one, otherwise made from the typed stats."""
    if stats.null_count == 0 or parsed.null_count == len(parsed):
        return stats
    made = iter(_written(parsed.filter(stats.is_null())).to_pylist())
    return arrays.strings([text if text is not None else _text(next(made)) for text in stats.to_pylist()])


def _text(fields: dict[str, Any] | None) -> str | None:
    content = None if fields is None else _without_nulls(fields)
    return _encode(content).decode() if content else None


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Nested dicts of values that JSON can hold; what is null says nothing and is left out."""
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            value = _without_nulls(value) or None
        if value is not None:
            kept[name] = _json_value(value)
    return kept


def _json_value(value: Any) -> Any:
    match value:
        case float() if value != value or value in (float("inf"), float("-inf")):
            return _SPECIAL[str(value)]
        case bytes():
            return value.decode("utf-8", "replace")
        case Decimal() | _:
            return value


def _written(array: pa.Array) -> pa.Array:
    """Values in the types of their JSON forms."""
    kind = array.type
    if pa.types.is_struct(kind):
        order = sorted(range(kind.num_fields), key=lambda i: _ORDER.get(kind.field(i).name, i))
        children = [_written(array.field(i)) for i in order]
        fields = [pa.field(kind.field(i).name, child.type) for i, child in zip(order, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)
    if pa.types.is_float32(kind):
        return shortest(array)
    if pa.types.is_timestamp(kind):
        return moment_texts(array)
    return date_texts(array) if pa.types.is_date(kind) else array


def shortest(floats: pa.FloatArray) -> pa.DoubleArray:
    """The doubles of the shortest texts that read as these floats: 3.14, not 3.140000104904175."""
    return pc.cast(pc.cast(floats, pa.string()), pa.float64())


def moment_texts(times: pa.TimestampArray) -> pa.StringArray:
    """Instants as `2026-02-10T22:00:00.000Z`, wall clocks without the `Z`; six digits where three do not tell all."""
    micros = pc.cast(times, pa.timestamp("us", times.type.tz), safe=False).view(pa.int64())
    known, values = valid(micros), _filled(micros, np.int64)
    texts = np.datetime_as_string(values.view("datetime64[us]"), unit="us").tolist()
    cut = (values % 1000 == 0).tolist()
    end = "" if times.type.tz is None else "Z"
    written = [(text[:-3] if short else text) + end for text, short in zip(texts, cut, strict=True)]
    return arrays.strings([text if ok else None for text, ok in zip(written, known.tolist(), strict=True)])


def date_texts(dates: pa.Array) -> pa.StringArray:
    """Dates as `2026-02-10`."""
    days = _filled(pc.cast(dates, pa.date32()).view(pa.int32()), np.int32)
    texts = np.datetime_as_string(days.astype(np.int64).view("datetime64[D]")).tolist()
    return arrays.strings([text if ok else None for text, ok in zip(texts, valid(dates).tolist(), strict=True)])


def _filled(array: pa.Array, kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """Values with zeros where they are null: what stands there may be no date at all."""
    values = np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]
    return np.where(valid(array), values, 0).astype(kind) if array.null_count else values


def are_as_written(texts: pa.StringArray, kind: pa.DataType) -> NDArray[np.bool_]:
    """Where texts that Arrow reads as times of a type have the form that they are given back in."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    sizes = np.diff(offsets)
    if pa.types.is_date(kind):
        ten: NDArray[np.bool_] = sizes == 10
        return ten
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    zone = 0 if kind.tz is None else 1
    is_long = sizes == 26 + zone
    mask: NDArray[np.bool_] = (sizes == 23 + zone) | is_long
    at, ends = offsets[:-1][mask].astype(np.int64), offsets[1:][mask].astype(np.int64) - zone
    fine = data[at + 10] == ord("T")
    if zone:
        fine &= data[ends] == ord("Z")
    zeros = (data[ends - 3] == ord("0")) & (data[ends - 2] == ord("0")) & (data[ends - 1] == ord("0"))
    fine &= ~(zeros & is_long[mask])
    mask[mask] = fine
    return mask


def come_back(texts: Sequence[str], values: Sequence[int], kind: pa.DataType) -> list[bool]:
    """Whether texts of times or dates have the form in which their values are given back."""
    array = arrays.int64s(values)
    is_date = pa.types.is_date(kind)
    typed = array.cast(pa.int32()).view(kind) if is_date else array.view(kind)
    made = date_texts(typed) if is_date else moment_texts(typed)
    return [text == written for text, written in zip(texts, made.to_pylist(), strict=True)]
