"""Messages of Kafka as frames of Spark: as the connector gives them, and as what an ingest is made of.

One message is one record, whatever lines its value has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from delta_sidecar.errors import SparkError
from delta_sidecar.pipeline.avro import AvroDecoder, AvroSchema
from delta_sidecar.pipeline.contract import ORIGIN, RAW, REASON, check_named_once, check_reserved, spark_type
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.kafka import LATEST, KafkaSource, Offsets, check_reading
from delta_sidecar.pipeline.shipping import ship
from delta_sidecar.pipeline.sources import Lines, Rows, Source
from delta_sidecar.values.bucket_columns import literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_COLUMN_SQL = {
    "key": "CAST(key AS STRING)",
    "key_bytes": "key",
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "headers": "headers",
}
_EMPTY_LIST = "CAST(value AS STRING) RLIKE '^\\\\s*\\\\[\\\\s*\\\\]\\\\s*$'"
_LINE_END = r"[\r\n]"
_BLANK = "trim(BOTH ' \\t\\r\\n' FROM CAST(value AS STRING)) = ''"


def read_kafka_stream(spark: SparkSession, source: KafkaSource) -> DataFrame:
    """The messages as a stream, in the connector's columns."""
    check_reading(source, stream=True)
    reader = spark.readStream.format("kafka").options(**source.reader_options, **_starting(source))
    with _kafka_failures(source):
        return reader.load()


def read_kafka(spark: SparkSession, source: KafkaSource) -> DataFrame:
    """The messages of one batch, in the connector's columns.

    The end is looked up once: a frame that is read twice, to be checked and to be written, holds the same messages.
    """
    check_reading(source, stream=False)
    ending = source.ending
    if ending.by_partition is None or ending.holds(LATEST):
        ending = Offsets(None, _with_latest(ending.by_partition, latest_offsets(spark, source)))
    options = source.reader_options | _starting(source) | {"endingOffsets": ending.text}
    with _kafka_failures(source):
        return spark.read.format("kafka").options(**options).load()


def _starting(source: KafkaSource) -> dict[str, str]:
    name = "startingTimestamp" if isinstance(source.starting.at, int) else "startingOffsets"
    return {name: source.starting.text}


def _with_latest(
    given: Mapping[str, Mapping[str, int]] | None, latest: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """The offsets given, with the number for each that says latest; those not given are an error of the connector's."""
    if given is None:
        return {topic: dict(parts) for topic, parts in latest.items()}
    return {
        topic: {name: latest.get(topic, {}).get(name, o) if o == LATEST else o for name, o in parts.items()}
        for topic, parts in given.items()
    }


def latest_offsets(spark: SparkSession, source: KafkaSource) -> dict[str, dict[str, int]]:
    """Where each partition ends, by a stream that takes note of the offsets and reads nothing."""
    options = source.reader_options | {"startingOffsets": "earliest"}
    with _kafka_failures(source):
        frame = spark.readStream.format("kafka").options(**options).load()
        query = frame.writeStream.foreachBatch(_nothing).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.lastProgress
    if progress is None:
        raise SparkError(f"{source.uri}: Spark did not report where the topics end")
    offsets = progress["sources"][0]["endOffset"]
    return cast("dict[str, dict[str, int]]", json.loads(offsets) if isinstance(offsets, str) else offsets)


def _nothing(_frame: DataFrame, _number: int) -> None:
    """A batch that is not looked at."""


def _kafka_failures(source: KafkaSource) -> Any:
    return spark_failures(f"{source.uri} cannot be read")


def message_columns(source: KafkaSource) -> StructType:
    """The columns of the message that are asked for."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, _column_type(what)) for what, name in source.columns.items()])


def _column_type(what: str) -> DataType:
    from pyspark.sql import types as t

    header = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
    known: dict[str, DataType] = {
        "key": t.StringType(), "key_bytes": t.BinaryType(), "topic": t.StringType(), "partition": t.IntegerType(),
        "offset": t.LongType(), "timestamp": t.TimestampType(), "headers": t.ArrayType(header),
    }  # fmt: skip
    return known[what]


def kafka_input(frame: DataFrame, source: KafkaSource) -> Lines | Rows:
    """The messages of a batch as what an ingest is made of: lines of JSON or CSV, rows of text or Avro.

    A message that cannot be a row, whatever its value, has a reason. Its place is `topic/partition@offset`.
    """
    columns = tuple(source.columns.values())
    if source.value_format in ("json", "csv"):
        options = {**source.value_options, **({"header": "false"} if source.value_format == "csv" else {})}
        text = Source(source.uri, source.value_format, options)
        return Lines(_records(frame, source), text, source.uri, columns)
    if source.schema is not None:
        values = cast("StructType", spark_type(source.schema.struct))
        check_reserved(values.names, source.uri)
        check_named_once(values, source.uri)
    rows = _decoded(frame, source) if source.value_format == "avro" else _text(frame, source)
    return Rows(rows, source.uri, has_origin=True)


def _records(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """`value`, `origin`, `start`, the reason why a message cannot be a row, and the columns asked for."""
    columns = [f"{_COLUMN_SQL[what]} AS {quoted(name)}" for what, name in source.columns.items()]
    return frame.selectExpr(
        f"{_value_sql(source)} AS value",
        "concat(topic, '/', partition, '@', offset) AS origin",
        "CAST(0 AS BIGINT) AS start",
        f"{_reason_sql(source)} AS {REASON}",
        *columns,
    )


def _value_sql(source: KafkaSource) -> str:
    """The value. A message without one but with its key kept is a row of nulls; of JSON that is an empty object."""
    if source.value_format == "json" and _keeps_tombstones(source):
        return "coalesce(value, CAST('{}' AS BINARY))"
    if source.value_format == "csv":
        # The end of the line is none of the last field.
        return (
            "CASE WHEN substring(value, -2) = X'0D0A' THEN substring(value, 1, length(value) - 2) "
            "WHEN substring(value, -1) = X'0A' THEN substring(value, 1, length(value) - 1) ELSE value END"
        )
    return "value"


def _keeps_tombstones(source: KafkaSource) -> bool:
    """Whether a message without a value is a row: where its key is, or where the value itself is a column."""
    keyed = "key" in source.columns or "key_bytes" in source.columns
    return source.value_format == "text" or (keyed and source.value_format in ("json", "avro"))


def _reason_sql(source: KafkaSource) -> str:
    cases = []
    if not _keeps_tombstones(source):
        cases.append("WHEN value IS NULL THEN 'the message has no value'")
    if source.value_format in ("json", "csv"):
        cases.append(f"WHEN {_BLANK} THEN 'the value of the message is blank'")
    if source.value_format == "csv":
        cases.append(f"WHEN {_has_several_lines(source)} THEN 'the message has several lines'")
    if source.value_format == "json":
        cases.append(f"WHEN {_EMPTY_LIST} THEN 'the value of the message is an empty list'")
    if source.value_format == "text":
        cases.append("WHEN NOT is_valid_utf8(CAST(value AS STRING)) THEN 'the value is not UTF-8'")
    if "key" in source.columns:
        cases.append("WHEN NOT is_valid_utf8(CAST(key AS STRING)) THEN 'the key is not UTF-8: ask for key_bytes'")
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"


def _has_several_lines(source: KafkaSource) -> str:
    """SQL: whether a line of CSV ends in mid-message, outside of quotes."""
    quote = re.escape(source.value_options.get("quote", '"'))
    escape = re.escape(source.value_options.get("escape", "")) or quote
    inside = f"[^{quote}]|{quote}{quote}" if escape in ("", quote) else f"[^{quote}{escape}]|{escape}."
    text = f"CAST({_value_sql(source)} AS STRING)"
    if quote:
        text = f"regexp_replace({text}, {literal(f'(?s){quote}({inside})*{quote}')}, '')"
    return f"{text} RLIKE {literal(_LINE_END)}"


def _text(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """Rows of text, in the column `value` and the message's."""
    columns = [quoted(name) for name in source.columns.values()]
    return _records(frame, source).selectExpr(
        f"CASE WHEN {REASON} IS NULL THEN CAST(value AS STRING) END AS value",
        *columns,
        REASON,
        f"origin AS {ORIGIN}",
        f"value AS {RAW}",
    )


def _decoded(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """Rows of Avro, in the record's columns and the message's; what does not decode has a reason."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    assert source.schema is not None
    ship(frame.sparkSession)
    records = _records(frame, source)
    record = StructField("__record", spark_type(source.schema.struct))
    decoded = records.mapInArrow(_AvroTask(source.schema), StructType([*records.schema.fields, record]))
    values = [f.col("__record").getField(item.name).alias(item.name) for item in source.schema.struct]
    columns = [f.col(quoted(name)) for name in source.columns.values()]
    return decoded.select(*values, *columns, REASON, f.col("origin").alias(ORIGIN), f.col("value").alias(RAW))


@dataclass(frozen=True, slots=True)
class _AvroTask:
    """Decodes the values of records; what it works on is all it holds."""

    schema: AvroSchema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        decoder = AvroDecoder(self.schema)
        for batch in batches:
            decoded = decoder.decode(batch.column("value").to_pylist())
            place = batch.schema.get_field_index(REASON)
            reasons = pc.coalesce(batch.column(place), decoded.reasons)
            columns = [*batch.columns[:place], reasons, *batch.columns[place + 1 :], decoded.records]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "__record"])
