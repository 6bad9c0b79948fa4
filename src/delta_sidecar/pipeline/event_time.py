"""The time column of a source, made a timestamp: from text, epochs, patterns, dates, or a field inside a struct.

Text without a zone is UTC, whatever the zone of the session. A time that is there and cannot be read is a bad row, not
a null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from delta_sidecar.errors import InputError, OptionError, UnknownColumnError
from delta_sidecar.values.bucket_columns import Granularity, TimeType, day_expression, literal, quoted
from delta_sidecar.values.column_names import folded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

EVENT_TIME: Final = "_event_time"
"""The column that a time inside a struct is copied to, for a bucket is made of a column of its own."""
EPOCHS: Final = {"epoch-seconds": 1_000_000, "epoch-millis": 1_000, "epoch-micros": 1, "epoch-nanos": 0.001}
_DATE = "^[+-]?[0-9]{4,6}-[0-9]{1,2}-[0-9]{1,2}"
_NO_SECONDS = f"({_DATE}[T ][0-9]{{1,2}}:[0-9]{{1,2}})($| *[A-Za-z+-])"
_ZONE = ":[0-9.]+ *[A-Za-z+-]"
_ABBREVIATED = f"{_ZONE}[A-Za-z]*$"
_UNIVERSAL = ":[0-9.]+ *(?i)(Z|UTC|UT|GMT)$"
"""Of the zones of few letters these alone mean one thing: Spark takes BST for that of Dhaka."""
_USUAL = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$"
"""What most sources write: one look tells that Spark may cast it as it is."""
_NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds of the years 1 to 9999: an epoch outside of them counts something else than was said."""
_SECONDS: dict[Granularity, int] = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def check_time_format(text: str | None) -> None:
    """Refuse a format that is neither an epoch nor a pattern."""
    if text is None or text in EPOCHS:
        return
    if text.startswith("epoch") or not re.search("[yu]", text):
        raise OptionError(
            f"time format {text!r} is not one of {', '.join(EPOCHS)}, nor a pattern such as dd/MM/yyyy HH:mm:ss"
        )


def time_name(time_column: str) -> str:
    """The column of the table that holds the time: the one named, or a copy of the field inside a struct.

    A column whose own name holds a point is written in backticks.
    """
    steps = time_path(time_column)
    return steps[0] if len(steps) == 1 else EVENT_TIME


def time_path(time_column: str) -> list[str]:
    """The names of the fields that lead to the time."""
    if len(time_column) > 2 and time_column[0] == time_column[-1] == "`":
        return [time_column[1:-1].replace("``", "`")]
    return time_column.split(".")


def check_time_parser(spark: SparkSession, time_format: str | None) -> None:
    """Refuse a session in which patterns mean what they did in Spark 2: in its own zone, and two-digit years as 26."""
    policy = "spark.sql.legacy.timeParserPolicy"
    if time_format not in (None, *EPOCHS) and str(spark.conf.get(policy, "CORRECTED")).upper() == "LEGACY":
        raise OptionError(f"--time-format with a pattern needs {policy}=CORRECTED; this session has LEGACY")


def find_column(schema: StructType, name: str, where: str) -> StructField:
    """The column of that name, exact case first; an error that names what there is."""
    exact = [f for f in schema.fields if f.name == name]
    fields = exact or [f for f in schema.fields if folded(f.name) == folded(name)]
    if not fields:
        names = ", ".join(f.name for f in schema.fields[:20])
        raise UnknownColumnError(f"no column {name!r} in {where}; its columns: {names}")
    return fields[0]


@dataclass(frozen=True, slots=True)
class EventTime:
    """How the time of a row is made."""

    column: str
    """The column of the table."""
    sql: str
    """The time as a timestamp; null where there is none, or none that can be read."""
    time_type: TimeType
    given: str
    """SQL: what the source has."""
    may_be_bad: bool
    """Whether the source may have one that cannot be read."""

    @property
    def is_bad(self) -> str:
        """SQL: whether a row has a time that cannot be read."""
        return f"({self.given}) IS NOT NULL AND ({self.sql}) IS NULL"


def event_time(
    schema: StructType, name: str, where: str, time_format: str | None = None, wanted: TimeType | None = None
) -> EventTime:
    """The time of a source. `wanted`: the kind an existing table has."""
    given, kind, column = _located(schema, name, where)
    if kind == "string":
        time_type = wanted or "timestamp"
        given = f"nullif(trim({given}), '')"
        return EventTime(column, _of_text(given, time_format, time_type), time_type, given, True)
    if kind == "date":
        time_type = wanted or "timestamp"
        day = f"timestamp_seconds(CAST(unix_date({given}) AS BIGINT)*86400)"
        return EventTime(column, _as(day, time_type), time_type, given, False)
    if kind in ("timestamp", "timestamp_ntz"):
        time_type = wanted or cast(TimeType, kind)
        return EventTime(column, given if kind == time_type else _other(given, time_type), time_type, given, False)
    if re.match(r"(tinyint|smallint|int|bigint|float|double|decimal)", kind) and time_format in EPOCHS:
        time_type = wanted or "timestamp"
        return EventTime(column, _as(_of_epoch(given, time_format), time_type), time_type, given, True)
    raise InputError(
        f"column {name!r} of {where} is {kind}, not a time; name its unit "
        f"(--time-format {', '.join(EPOCHS)}), or give a timestamp, a date or text"
    )


def with_misfits(time: EventTime, name: str, time_format: str | None, left: str) -> EventTime:
    """The time of a field inside a struct, also where it does not fit the field's type: then it stands in the JSON text
    `left`, and is missing nowhere else."""
    found = left
    for step in time_path(name):
        fields = f"map_entries(from_json({found}, 'MAP<STRING,STRING>'))"
        found = f"get(filter({fields}, e -> lower(e.key) = {literal(step.lower())}), 0).value"
    text = f"CASE WHEN {left} IS NOT NULL AND ({time.given}) IS NULL THEN nullif(trim({found}), '') END"
    return replace(
        time,
        sql=f"coalesce({time.sql}, {_of_text(f'({text})', time_format, time.time_type)})",
        given=f"coalesce(CAST({time.given} AS STRING), {text})",
        may_be_bad=True,
    )


def _located(schema: StructType, name: str, where: str) -> tuple[str, str, str]:
    """SQL for the time as it is, its type, and the column of the table."""
    steps = time_path(name)
    kind: Any = schema
    sql = ""
    for at, step in enumerate(steps):
        if not hasattr(kind, "fields"):
            raise UnknownColumnError(f"no column {name!r} in {where}: {'.'.join(steps[:at])} is {kind.simpleString()}")
        field = find_column(kind, step, where if at == 0 else f"{'.'.join(steps[:at])} of {where}")
        sql, kind = f"{sql}.{quoted(field.name)}" if sql else quoted(field.name), field.dataType
    return sql, kind.simpleString(), EVENT_TIME if len(steps) > 1 else sql[1:-1].replace("``", "`")


def with_time(frame: DataFrame, time: EventTime) -> DataFrame:
    """The frame with its time column as a timestamp."""
    from pyspark.sql import functions as f

    if time.sql == quoted(time.column):
        return frame
    return frame.withColumn(time.column, f.expr(time.sql))


def _as(sql: str, time_type: TimeType) -> str:
    """SQL: an instant in the kind of the table; without a zone it is that of UTC."""
    if time_type == "timestamp":
        return sql
    return f"timestampadd(MICROSECOND, unix_micros({sql}), TIMESTAMP_NTZ'1970-01-01 00:00:00')"


def _other(sql: str, time_type: TimeType) -> str:
    """SQL: a time in the other kind, by UTC."""
    if time_type == "timestamp_ntz":
        return _as(sql, time_type)
    return f"timestamp_micros(timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {sql}))"


def _of_text(column: str, time_format: str | None, time_type: TimeType) -> str:
    if time_format is None:
        return parsed_text(column, time_type)
    if time_format in EPOCHS:
        # A decimal would round digits after the ninth, perhaps into the next bucket.
        digits = f"regexp_replace({column}, '([.][0-9]{{9}})[0-9]+$', '$1')"
        return _as(_of_epoch(f"CASE WHEN {column} RLIKE '{_NUMBER}' THEN {digits} END", time_format), time_type)
    pattern, zoned = time_format, re.search("[XxZzVO]", re.sub("'[^']*'", "", time_format))
    text = column
    if not zoned:
        pattern, text = f"{pattern}X", f"concat({text},'Z')"
    return _as(f"try_to_timestamp({text}, {literal(pattern)})", time_type)


def _of_epoch(column: str, time_format: str) -> str:
    """SQL: a number that counts from 1970 as an instant; null where it is no number, or no year that people write."""
    number = f"try_cast({column} AS DECIMAL(38,9))"
    if time_format == "epoch-nanos":
        micros = f"floor({number} / 1000)"
    else:
        micros = f"floor(try_multiply({number}, {EPOCHS[time_format]}))"
    # Spark keeps 38 digits of a product: more than any year needs.
    return f"CASE WHEN {micros} BETWEEN {_FIRST} AND {_LAST} THEN timestamp_micros(CAST({micros} AS BIGINT)) END"


def parsed_text(column: str, time_type: TimeType = "timestamp") -> str:
    """SQL: text as a time, null where it is none. Only whole dates count: Spark would take `12:30` for today's."""
    text = f"regexp_replace(trim({column}),'{_NO_SECONDS}','$1:00$2')"
    zoned, bare = f"{text} RLIKE '{_DATE}.*{_ZONE}'", f"{text} RLIKE '{_DATE}$'"
    unclear = f"{text} RLIKE '{_ABBREVIATED}' AND NOT {text} RLIKE '{_UNIVERSAL}'"
    if time_type == "timestamp_ntz":
        return f"CASE WHEN {zoned} THEN NULL WHEN {text} RLIKE '{_DATE}' THEN try_cast({text} AS TIMESTAMP_NTZ) END"
    return (
        f"CASE WHEN {column} RLIKE '{_USUAL}' THEN try_cast({column} AS TIMESTAMP) "
        f"WHEN {unclear} THEN NULL WHEN {zoned} THEN try_cast({text} AS TIMESTAMP) "
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
