"""The time column of a source: found, and made a timestamp where it is text.

Text without a zone is UTC, whatever the zone of the session. Text that is no time becomes null, and so goes to the null
bucket, where it is counted: one bad line must not stop a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from delta_sidecar.errors import InputError, UnknownColumnError
from delta_sidecar.values.bucket import Granularity, TimeType, day_expression, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

_DATE = "^[+-]?[0-9]{4,6}-[0-9]{1,2}-[0-9]{1,2}"
_NO_SECONDS = f"({_DATE}[T ][0-9]{{1,2}}:[0-9]{{1,2}})($| *[A-Za-z+-])"
_ZONE = ":[0-9.]+ *[A-Za-z+-]"
_SECONDS: dict[Granularity, int] = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def find_column(schema: StructType, name: str, where: str) -> StructField:
    """The column of that name, exact case first; an error that names what there is."""
    exact = [f for f in schema.fields if f.name == name]
    found = exact or [f for f in schema.fields if f.name.casefold() == name.casefold()]
    if not found:
        names = ", ".join(f.name for f in schema.fields[:20])
        raise UnknownColumnError(f"no column {name!r} in {where}; its columns: {names}")
    return found[0]


def with_time(frame: DataFrame, name: str, where: str, wanted: TimeType | None = None) -> tuple[DataFrame, TimeType]:
    """The frame with its time column as a timestamp, and which kind it is. `wanted`: the kind an existing table has."""
    field = find_column(frame.schema, name, where)
    kind = field.dataType.simpleString()
    if kind == "string":
        time_type = wanted or "timestamp"
        from pyspark.sql import functions as f

        return frame.withColumn(field.name, f.expr(parsed_text(quoted(field.name), time_type))), time_type
    if kind not in ("timestamp", "timestamp_ntz"):
        raise InputError(
            f"column {field.name!r} of {where} is {kind}, not a time; give a timestamp or its text "
            "(a number of seconds: timestamp_seconds(…) in a view or DataFrame)"
        )
    return frame, cast(TimeType, kind)


def parsed_text(column: str, time_type: TimeType = "timestamp") -> str:
    """SQL: text as a time, null where it is none. Only whole dates count: Spark would take `12:30` for today's."""
    text = f"regexp_replace(trim({column}),'{_NO_SECONDS}','$1:00$2')"
    zoned, bare = f"{text} RLIKE '{_DATE}.*{_ZONE}'", f"{text} RLIKE '{_DATE}$'"
    if time_type == "timestamp_ntz":
        return f"CASE WHEN {zoned} THEN NULL WHEN {text} RLIKE '{_DATE}' THEN try_cast({text} AS TIMESTAMP_NTZ) END"
    return (
        f"CASE WHEN {zoned} THEN try_cast({text} AS TIMESTAMP) "
        f"WHEN {bare} THEN try_cast(concat({text},' 00:00:00Z') AS TIMESTAMP) "
        f"WHEN {text} RLIKE '{_DATE}' THEN try_cast(concat({text},'Z') AS TIMESTAMP) END"
    )


def bucket_number(column: str, granularity: Granularity, time_type: TimeType) -> str:
    """SQL: a number that counts buckets, one apart from one bucket to the next; cheaper than their text."""
    day = day_expression(column, time_type)
    if granularity == "month":
        return f"CAST(year({day}) AS BIGINT)*12+month({day})"
    if time_type == "timestamp":
        return f"CAST(floor(CAST({column} AS BIGINT)/{_SECONDS[granularity]}) AS BIGINT)"
    number = f"CAST(unix_date({day}) AS BIGINT)"
    for unit, many in (("hour", 24), ("minute", 60), ("second", 60)):
        if _SECONDS[cast(Granularity, unit)] >= _SECONDS[granularity]:
            number = f"({number})*{many}+{unit}({column})"
    return number
