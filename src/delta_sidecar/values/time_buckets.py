"""The time buckets of a table: partition columns that Delta generates from a time column, in the forms that are known.

A bucket is trusted only if a file's own time bounds do not contradict it: other engines evaluate the same expression
differently, and the schema does not say who wrote a file. So a value is converted back to the time interval that it
stands for, and the file's bounds are compared with that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from delta_sidecar.arrays import to_numpy_int64
from delta_sidecar.values.bucket_columns import (
    GENERATION_EXPRESSION,
    GRANULARITIES,
    OurBucket,
    TimeType,
    our_bucket,
    quoted,
    sql_tokens,
)
from delta_sidecar.values.calendar import (
    MICROS_PER_DAY,
    MICROS_PER_HOUR,
    MICROS_PER_SECOND,
    days_of,
    month_length,
)
from delta_sidecar.values.comparison import valid
from delta_sidecar.values.types import DataType, PrimitiveType, StructField, StructType

Form: TypeAlias = Literal["text", "date", "units"]
Interval: TypeAlias = tuple[int, int]
"""Microseconds since 1970: from the first up to, and without, the second."""

SKIPPED_DAYS: Final = frozenset(
    days_of(*day)
    for day in ((1844, 12, 31), (1993, 8, 20), (1993, 8, 21), (1994, 12, 31), (1995, 1, 1), (2011, 12, 30))
)
"""Days that places beside the date line left out of their calendar (in some edition of the time zone database).
Spark formats a date by way of its local midnight: sessions in those zones write the next day's bucket, if they use
the older form of our expression."""

_UNITS: Final = (("year",), ("month",), ("day", "dayofmonth"), ("hour",))
_EVER: Final = (-(2**63), 2**63 - 1)


class TimeBucket(Struct, frozen=True):
    """Columns generated from one time column, by physical names."""

    time: tuple[str, ...]
    time_type: str
    columns: tuple[str, ...]
    """The partition columns: one, or year, month, day and hour as far as none is missing between."""
    form: Form
    ours: OurBucket | None = None

    @property
    def slack(self) -> int:
        """By how many microseconds a writer's local time may be off; ours do not depend on it."""
        return (hours_unknown(PrimitiveType(self.time_type)) or 0) * MICROS_PER_HOUR if self.ours is None else 0

    def interval(self, values: Sequence[Any]) -> Interval | None:
        """The times that may be in a bucket, by the values of its columns in their comparison types; None where they do
        not tell one."""
        if self.form == "text":
            assert self.ours is not None
            return _text_interval(values[0], self.ours)
        days = _date_interval(values[0]) if self.form == "date" else _unit_interval(values)
        return None if days is None else (days[0] - self.slack, days[1] + self.slack)


def hours_unknown(data_type: DataType) -> int | None:
    """By how many hours a writer's local time may be off; None if this is not a time column."""
    return {"timestamp": 18, "timestamp_ntz": 36}.get(data_type.name) if isinstance(data_type, PrimitiveType) else None


def time_buckets(schema: StructType, partition_columns: Sequence[str]) -> tuple[TimeBucket, ...]:
    """The buckets of all time columns of a table."""
    generated = _generated(schema, partition_columns)
    names = "\0".join(str(field.metadata[GENERATION_EXPRESSION]) for field in generated).lower()
    times = _time_leaves(schema, ()) if generated else ()
    return tuple(
        bucket
        for fields in times
        if fields[-1].name.lower() in names or "`" in fields[-1].name
        for bucket in buckets_of(fields, generated)
    )


def buckets_of_column(
    time: Sequence[StructField], schema: StructType, partition_columns: Sequence[str]
) -> tuple[TimeBucket, ...]:
    """The buckets of one time column."""
    return tuple(buckets_of(time, _generated(schema, partition_columns)))


def _generated(schema: StructType, partition_columns: Sequence[str]) -> list[StructField]:
    """Only of files that are one bucket each: of others, the time column's bounds tell as much."""
    partitions = frozenset(partition_columns)
    return [f for f in schema if f.name in partitions and isinstance(f.metadata.get(GENERATION_EXPRESSION), str)]


def _time_leaves(struct: StructType, above: tuple[StructField, ...]) -> Iterator[tuple[StructField, ...]]:
    for field in struct:
        if isinstance(field.type, StructType):
            yield from _time_leaves(field.type, (*above, field))
        elif hours_unknown(field.type) is not None:
            yield (*above, field)


def buckets_of(time: Sequence[StructField], generated: Sequence[StructField]) -> Iterator[TimeBucket]:
    """The buckets generated from one time column."""
    name, kind = quoted(*(f.name for f in time)), str(time[-1].type)
    path = tuple(f.physical_name for f in time)
    for field in generated:
        expression = str(field.metadata[GENERATION_EXPRESSION])
        if field.type == PrimitiveType("string"):
            ours = our_bucket(expression, name, cast(TimeType, kind))
            if ours is not None:
                yield TimeBucket(path, kind, (field.physical_name,), "text", ours)
        forms = (f"CAST({name} AS DATE)", f"to_date({name})", f"date({name})")
        if field.type == PrimitiveType("date") and sql_tokens(expression) in map(sql_tokens, forms):
            yield TimeBucket(path, kind, (field.physical_name,), "date")
    units = _unit_columns(name, generated)
    if units:
        yield TimeBucket(path, kind, units, "units")


def _unit_columns(name: str, generated: Sequence[StructField]) -> tuple[str, ...]:
    """`YEAR(ts)`, and the finer units as far as none is missing between."""
    tokens = {f: sql_tokens(str(f.metadata[GENERATION_EXPRESSION])) for f in generated}
    columns: list[str] = []
    for names in _UNITS:
        forms = [sql_tokens(f"{unit}({name})") for unit in names]
        fields = [f for f, given in tokens.items() if given in forms and f.type == PrimitiveType("integer")]
        if not fields:
            break
        columns.append(fields[0].physical_name)
    return tuple(columns)


# Values back to times.


def _text_interval(value: bytes | str, ours: OurBucket) -> Interval | None:
    """Years with a sign are never left out by their bucket: whatever time there is may be in one."""
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    if text[:1] in ("+", "-"):
        return _EVER
    finest = GRANULARITIES.index(ours.granularity)
    if len(text) != 6 + 2 * finest or not (text.isascii() and text.isdigit()):
        return None
    month, *rest = (int(text[at : at + 2]) for at in range(4, len(text), 2))
    interval = _calendar_interval(int(text[:4]), month, *rest)
    if interval is None or ours.exact:
        return interval
    start, end = interval
    day = start // MICROS_PER_DAY
    early = next((n for n in (2, 1) if day - n in SKIPPED_DAYS), 0) * MICROS_PER_DAY
    return start - early - (MICROS_PER_SECOND if start <= 0 else 0), end


def _date_interval(days: Any) -> Interval | None:
    return (days * MICROS_PER_DAY, (days + 1) * MICROS_PER_DAY) if isinstance(days, int) else None


def _unit_interval(values: Sequence[Any]) -> Interval | None:
    year, *rest = values
    return _calendar_interval(year, *rest) if rest else _between((year, 1, 1), (year + 1, 1, 1))


def _between(first: tuple[int, int, int], last: tuple[int, int, int]) -> Interval:
    return days_of(*first) * MICROS_PER_DAY, days_of(*last) * MICROS_PER_DAY


def _calendar_interval(year: int, month: int, *rest: int) -> Interval | None:
    """A month, or a day, hour, minute or second of it; None where the calendar has none such."""
    if not 1 <= month <= 12:
        return None
    if not rest:
        return _between((year, month, 1), (year + month // 12, month % 12 + 1, 1))
    day, *units = rest
    if not 1 <= day <= month_length(year, month):
        return None
    start, length = days_of(year, month, day) * 86_400, 86_400
    for unit, (seconds, many) in zip(units, ((3600, 24), (60, 60), (1, 60)), strict=False):
        if not 0 <= unit < many:
            return None
        start, length = start + unit * seconds, seconds
    return start * MICROS_PER_SECOND, (start + length) * MICROS_PER_SECOND


def contradicted(
    bucket: TimeBucket, values: Sequence[pa.Array], low: pa.Array, high: pa.Array, nulls: pa.Array | None
) -> NDArray[np.bool_]:
    """The files whose bucket is not to be believed: a bound of the time column that is known lies outside the interval,
    a row has no time although there is a bucket, or the value tells no interval. `low` and `high` are as written."""
    codes, distinct = _distinct(values)
    if not len(codes):
        return np.zeros(0, np.bool_)
    has_null = np.array([None in key for key in distinct])
    intervals = [(0, 0) if null else bucket.interval(key) for key, null in zip(distinct, has_null, strict=True)]
    unreadable = np.array([interval is None for interval in intervals])[codes]
    starts, ends = (np.array([_held(i, side) for i in intervals], np.int64)[codes] for side in (0, 1))
    is_null = has_null[codes]
    bad: NDArray[np.bool_] = unreadable.copy()
    for bound in (low, high):
        known, at = valid(bound), to_numpy_int64(bound)
        # Before 1970 some writers cut towards 1970: what is just before the end becomes the end.
        outside = (at < starts) | (at > ends) | ((at == ends) & (at > 0))
        bad |= known & (is_null | outside)
    if nulls is not None:
        bad |= valid(nulls) & (to_numpy_int64(nulls) > 0) & ~is_null
    return bad


def _held(interval: Interval | None, side: int) -> int:
    return min(max((interval or (0, 0))[side], _EVER[0]), _EVER[1])


def _distinct(values: Sequence[pa.Array]) -> tuple[NDArray[np.int64], list[tuple[Any, ...]]]:
    """Which of the distinct values each row has, and these."""
    codes = np.zeros(len(values[0]), np.int64)
    columns: list[list[Any]] = []
    for array in values:
        encoded = array.dictionary_encode(null_encoding="encode")
        columns.append(encoded.dictionary.to_pylist())
        codes = codes * max(1, len(columns[-1])) + to_numpy_int64(encoded.indices)
    used, places = np.unique(codes, return_inverse=True)
    keys = []
    for code in used.tolist():
        row: list[Any] = []
        for column in reversed(columns):
            code, at = divmod(code, max(1, len(column)))
            row.append(column[at])
        keys.append(tuple(reversed(row)))
    return places.astype(np.int64), keys
