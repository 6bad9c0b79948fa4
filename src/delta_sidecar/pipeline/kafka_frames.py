"""Messages of Kafka as frames of Spark: raw, as records with a reason where they cannot be rows, and as rows.

One message is one record, whatever lines its value has. Its place is `topic/partition@offset`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from delta_sidecar.errors import SparkError
from delta_sidecar.pipeline.avro import AvroDecoder, AvroSchema
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.kafka import LATEST, KafkaSource, Offsets, check_reading

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COLUMN_SQL = {
    "key": "CAST(key AS STRING)",
    "key_bytes": "key",
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "headers": "headers",
}
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
        raise SparkError(f"{source.uri}: Spark did not tell where the topics end")
    found = progress["sources"][0]["endOffset"]
    return cast("dict[str, dict[str, int]]", json.loads(found) if isinstance(found, str) else found)


def _nothing(_frame: DataFrame, _number: int) -> None:
    """A batch that is not looked at."""


def _kafka_failures(source: KafkaSource) -> Any:
    return spark_failures(f"{source.uri} cannot be read")


def kafka_records(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """The messages of a frame as records: `value`, `origin`, `reason`, and the message's columns asked for.

    `origin` is `topic/partition@offset`. `reason` says why a message cannot be a row, and is null where it may be.
    """
    from pyspark.sql import functions as f

    columns = [f.expr(_COLUMN_SQL[what]).alias(name) for what, name in source.columns.items()]
    return frame.select(
        f.expr(_value_sql(source)).alias("value"),
        f.expr("concat(topic, '/', partition, '@', offset)").alias("origin"),
        f.expr(_reason_sql(source)).alias("reason"),
        *columns,
    )


def _value_sql(source: KafkaSource) -> str:
    """A message without a value but with its key kept is a row of nulls; of JSON that is an empty object."""
    if source.value_format == "json" and _keeps_tombstones(source):
        return "coalesce(value, CAST('{}' AS BINARY))"
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
        cases.append(
            "WHEN trim(BOTH ' \\t\\r\\n' FROM CAST(value AS STRING)) = '' THEN 'the value of the message is blank'"
        )
    if source.value_format == "text":
        cases.append("WHEN NOT is_valid_utf8(CAST(value AS STRING)) THEN 'the value is not UTF-8'")
    if "key" in source.columns:
        cases.append("WHEN NOT is_valid_utf8(CAST(key AS STRING)) THEN 'the key is not UTF-8: ask for key_bytes'")
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"


def kafka_lines(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """Records of JSON or CSV that may be rows: `value`, `origin`, and the message's columns."""
    records = kafka_records(frame, source)
    return records.where("reason IS NULL").drop("reason")


def kafka_rows(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """Rows of text or Avro, in the value's columns and then the message's."""
    from pyspark.sql import functions as f

    messages = [f.col(_quoted(name)) for name in source.columns.values()]
    if source.value_format == "text":
        records = kafka_records(frame, source).where("reason IS NULL")
        return records.select(f.expr("CAST(value AS STRING)").alias("value"), *messages)
    decoded = _decoded(frame, source).where("reason IS NULL")
    assert source.schema is not None
    values = [f.col("record").getField(item.name).alias(item.name) for item in source.schema.struct]
    return decoded.select(*values, *messages)


def kafka_bad_rows(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """Messages that no parse of the value can make a row of: `origin`, `reason`, `value`."""
    records = _decoded(frame, source) if source.value_format == "avro" else kafka_records(frame, source)
    return records.where("reason IS NOT NULL").select("origin", "reason", "value")


def _decoded(frame: DataFrame, source: KafkaSource) -> DataFrame:
    """Records with their Avro decoded, in `record`; what does not decode has a reason."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    from delta_sidecar.pipeline.shipping import ship

    assert source.schema is not None
    ship(frame.sparkSession)
    records = kafka_records(frame, source)
    record = StructField("record", from_arrow_type(source.schema.struct))
    return records.mapInArrow(_AvroTask(source.schema), StructType([*records.schema.fields, record]))


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
            place = batch.schema.get_field_index("reason")
            reasons = pc.coalesce(batch.column(place), decoded.reasons)
            columns = [*batch.columns[:place], reasons, *batch.columns[place + 1 :], decoded.records]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "record"])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
