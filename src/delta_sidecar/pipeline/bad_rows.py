"""Rows that cannot be in the table: put aside in a table of their own, or named in the error that stops the batch.

They are committed before the batch they belong to, under its number: a batch that is run again writes them once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.conflicts import RetryPolicy, until_committed
from delta_sidecar.pipeline.contract import ORIGIN, RAW, REASON
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.kafka import is_kafka
from delta_sidecar.pipeline.records.conversion import texts_in_list
from delta_sidecar.pipeline.records.terms import NOT_IN_ENCODING, shortened
from delta_sidecar.pipeline.sources import Source, text_frame
from delta_sidecar.values.bucket_columns import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TABLE: Final = "batch STRING, ingested_at TIMESTAMP, file STRING, reason STRING, raw STRING, raw_bytes BINARY"
_MOST_LISTS: Final = 1_000
"""Lists that may hold a record, looked at for it, at most."""


def bad_rows_frame(frame: DataFrame, batch: str) -> DataFrame:
    """Rows as the table of bad rows has them, from their reason, origin and raw bytes.

    Bytes that are not in the encoding of their file may look like UTF-8.
    """
    is_text = f"({REASON} <> {literal(NOT_IN_ENCODING)} AND is_valid_utf8(CAST({RAW} AS STRING)))"
    return frame.selectExpr(
        f"{literal(batch)} AS batch",
        "current_timestamp() AS ingested_at",
        f"{ORIGIN} AS file",
        f"{REASON} AS reason",
        f"CASE WHEN {is_text} THEN CAST({RAW} AS STRING) END AS raw",
        f"CASE WHEN NOT {is_text} THEN {RAW} END AS raw_bytes",
    )


def write_bad_rows(frame: DataFrame, place: str, once: tuple[str, int] | None, policy: RetryPolicy) -> None:
    """Append them, as one commit; a batch that was here before appends nothing."""
    until_committed(lambda: _append(frame, place, once), lambda: None, policy, what=f"{place}: the bad rows")


def _append(frame: DataFrame, place: str, once: tuple[str, int] | None) -> None:
    options = {"mergeSchema": "false"}
    if once is not None:
        options |= {"txnAppId": once[0], "txnVersion": str(once[1])}
    with spark_failures(f"{place}: the bad rows were not written"):
        spark = frame.sparkSession
        spark.sql(f"CREATE TABLE IF NOT EXISTS delta.{quoted(place)} ({_TABLE}) USING delta")
        _check_table(spark.read.format("delta").load(place).schema, place)
        frame.repartition(1).write.format("delta").mode("append").options(**options).save(place)


def _check_table(schema: StructType, place: str) -> None:
    """Refuse a table that was made for something else."""
    kinds = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
    for name, kind in (column.split() for column in _TABLE.split(", ")):
        if kinds.get(name) != kind.lower():
            raise InputError(
                f"{place} is a table, but none of bad rows: its column {name} is {kinds.get(name, 'missing')}, "
                f"not {kind.lower()}; give --bad-rows (bad_rows=…) another place"
            )


def bad_rows_to_add(frame: DataFrame, place: str, batch: str) -> DataFrame:
    """The rows of a frame that the table of bad rows does not have for that batch."""
    names = ("batch", "file", "reason", "raw", "raw_bytes")
    with spark_failures(f"{place}: the bad rows cannot be read"):
        there = frame.sparkSession.read.format("delta").load(place).where(f"batch = {literal(batch)}")
        more = frame.select(*names).exceptAll(there.select(*names))
        return more.selectExpr("*", "current_timestamp() AS ingested_at")


def count_bad_rows(spark: SparkSession, place: str, batch: str) -> int:
    """The rows that the table of bad rows has for that batch."""
    with spark_failures(f"{place}: the bad rows cannot be read"):
        return spark.read.format("delta").load(place).where(f"batch = {literal(batch)}").count()


def are_same_bad_rows(frame: DataFrame, place: str, batch: str) -> bool:
    """Whether the table of bad rows has the rows of a frame, and no others, for that batch."""
    with spark_failures(f"{place}: the bad rows cannot be read"):
        there = frame.sparkSession.read.format("delta").load(place).where(f"batch = {literal(batch)}")
        columns = ("file", "raw", "raw_bytes")
        ours, theirs = frame.select(*columns), there.select(*columns)
        return not ours.exceptAll(theirs).union(theirs.exceptAll(ours)).limit(1).count()


def refuse(
    spark: SparkSession, source: Source | None, label: str, count: int, origin: str, reason: str, raw: bytes
) -> InputError:
    """The error for a batch with bad rows that may not be put aside; it says where the first one stands."""
    line = _line_number(spark, source, origin, raw)
    where = f"{origin or label}" + (f" line {line:,}" if line is not None else "")
    many = "1 record is bad" if count == 1 else f"{count:,} records are bad"
    text = shortened(raw.decode(errors="backslashreplace"))
    return InputError(
        f"{label}: {many}, one of them in {where}: {reason}: {text}; fix it, "
        "or pass --bad-rows PLACE (bad_rows=…) to write such records to a table there"
    )


def _in_file(raw: bytes, encoding: str) -> bytes:
    """A record's bytes as they are in its file."""
    try:
        return raw.decode().encode(encoding)
    except UnicodeError:
        return raw


def _line_number(spark: SparkSession, source: Source | None, origin: str, raw: bytes) -> int | None:
    """The line of a record in its file, by a second look at that file; None where it cannot be said."""
    if source is None or is_kafka(source.uri) or not origin or not source.is_text or source.flag("multiLine"):
        return None
    from pyspark.sql import functions as f

    wanted, line = f"X'{_in_file(raw, source.encoding).hex()}'", "CAST(value AS BINARY)"
    try:
        lines = text_frame(spark, source, [origin]).select(
            f.col("_metadata.file_block_start").alias("start"), f.monotonically_increasing_id().alias("at"), "value"
        )
        same = f.when(f.expr(f"{line} = {wanted}"), f.col("at"))
        blocks = lines.groupBy("start").agg(f.min("at"), f.count("at"), f.min(same))
        lines_before, before = {}, 0
        for start, first, count, place in sorted(blocks.collect()):
            if place is not None:
                return int(before + place - first + 1)
            lines_before[start] = before - first
            before += count
        if source.format != "json":
            return None
        lists = lines.where(f"startswith(ltrim(value), '[') AND contains({line}, {wanted})")
        for start, at, text in lists.withColumn("value", f.expr(line)).orderBy("start", "at").take(_MOST_LISTS):
            if raw.decode() in texts_in_list(bytes(text).decode(source.encoding)):
                return int(lines_before[start] + at + 1)
    except Exception:
        return None
    return None
