"""Messages of a real broker as frames: every one of them is a row, a line, or a bad row with a reason."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.errors import IllegalArgumentException

from delta_sidecar.errors import SparkError
from delta_sidecar.pipeline.contract import ORIGIN
from delta_sidecar.pipeline.kafka import KafkaSource, kafka_source
from delta_sidecar.pipeline.kafka_frames import kafka_input, latest_offsets, read_kafka, read_kafka_stream
from delta_sidecar.pipeline.parsing import RAW, REASON
from delta_sidecar.pipeline.sources import Lines
from tests.integration.servers import KafkaBroker
from tests.integration.spark.messages import Message, fresh_topic, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 2, 10, 12, 0, 0, 123000, UTC)


def source(broker: KafkaBroker, topic: str, environment: Mapping[str, str] | None = None, **given: Any) -> KafkaSource:
    return kafka_source(f"kafka://{broker.address}/{topic}", environment=environment or {}, **given)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def good_rows(frame: DataFrame, asked: KafkaSource) -> DataFrame:
    """What may be rows, without the notes beside it."""
    notes = (REASON, RAW, ORIGIN, "start")
    return kafka_input(frame, asked).frame.where(f"{REASON} IS NULL").drop(*notes)


def bad_rows(frame: DataFrame, asked: KafkaSource) -> list[dict[str, Any]]:
    given = kafka_input(frame, asked)
    names = ("origin", "value") if isinstance(given, Lines) else (ORIGIN, RAW)
    found = given.frame.where(f"{REASON} IS NOT NULL")
    return rows(found.selectExpr(f"{names[0]} AS origin", f"{REASON} AS reason", f"{names[1]} AS value"))


def test_a_message_is_a_line_with_its_place_and_the_columns_asked_for(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = fresh_topic()
    produce(
        spark,
        kafka,
        topic,
        [
            Message(b'{"a":\n 1}\n', b"k", timestamp=NOON, headers=(("h", b"\xff"),)),
            Message(b"not json", b"\xff\xfe", timestamp=NOON),
            Message(None, b"gone", timestamp=NOON),
            Message(b" \n", timestamp=NOON),
            Message(b"[ ]\n", timestamp=NOON),
        ],
    )
    asked = source(kafka, topic, columns=["key_bytes", "topic", "partition", "offset", "timestamp=at", "headers"])
    frame = read_kafka(spark, asked)
    lines = sorted(rows(good_rows(frame, asked)), key=lambda line: line["_kafka_offset"])
    assert [bytes(line["value"]) for line in lines] == [b'{"a":\n 1}\n', b"not json", b"{}"]
    assert [line["origin"] for line in lines] == [f"{topic}/0@{n}" for n in range(3)]
    assert [bytes(line["_kafka_key_bytes"]) for line in lines] == [b"k", b"\xff\xfe", b"gone"]
    first = lines[0]
    assert (first["_kafka_topic"], first["_kafka_partition"], first["at"]) == (topic, 0, NOON.replace(tzinfo=None))
    assert first["_kafka_headers"] == [{"key": "h", "value": b"\xff"}]
    blank, empty = bad_rows(frame, asked)
    assert (blank["origin"], bytes(blank["value"])) == (f"{topic}/0@3", b" \n")
    assert "blank" in blank["reason"]
    assert "an empty list" in empty["reason"]


def test_a_message_without_a_value_is_a_bad_row_where_its_key_is_not_kept(
    spark: SparkSession, kafka: KafkaBroker
) -> None:
    topic = fresh_topic()
    produce(spark, kafka, topic, [Message(b"1,2"), Message(None, b"gone"), Message(b"3,4", b"\xff")])
    for value_format in ("json", "csv"):
        asked = source(kafka, topic, value_format=value_format)
        frame = read_kafka(spark, asked)
        assert good_rows(frame, asked).columns == ["value", "origin"]
        assert good_rows(frame, asked).count() == 2
        (bad,) = bad_rows(frame, asked)
        assert bad == {"origin": f"{topic}/0@1", "reason": "the message has no value", "value": None}
    keyed = source(kafka, topic, columns=["key"])
    (bad,) = bad_rows(read_kafka(spark, keyed), keyed)
    assert bad["origin"] == f"{topic}/0@2"
    assert "key is not UTF-8" in bad["reason"]


def test_text_is_a_column(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = fresh_topic()
    produce(spark, kafka, topic, [Message("ü\nx".encode()), Message(None), Message(b""), Message(b"\xff")])
    asked = source(kafka, topic, value_format="text", columns=["offset"])
    frame = read_kafka(spark, asked)
    found = rows(good_rows(frame, asked).orderBy("_kafka_offset"))
    assert [row["value"] for row in found] == ["ü\nx", None, ""]
    (bad,) = bad_rows(frame, asked)
    assert (bad["origin"], bytes(bad["value"])) == (f"{topic}/0@3", b"\xff")


def test_avro_is_decoded_whole_or_a_bad_row(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "event",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
            {"name": "tags", "type": {"type": "map", "values": "string"}},
        ],
    }
    file = tmp_path / "event.avsc"
    file.write_text(json.dumps(schema))

    def encoded(record: dict[str, Any]) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), record)
        return sink.getvalue()

    good = encoded({"id": 7, "at": NOON, "tags": {"a": "b"}})
    empty = encoded({"id": 0, "at": None, "tags": {}})
    topic = fresh_topic()
    produce(
        spark, kafka, topic, [Message(good, b"k"), Message(good + b"x"), Message(empty), Message(None), Message(b"")]
    )
    asked = source(kafka, topic, value_format="avro", avro_schemas=[str(file)], columns=["offset"])
    frame = read_kafka(spark, asked)
    typed = good_rows(frame, asked)
    assert typed.schema.simpleString() == "struct<id:bigint,at:timestamp,tags:map<string,string>,_kafka_offset:bigint>"
    assert rows(typed.orderBy("_kafka_offset")) == [
        {"id": 7, "at": NOON.replace(tzinfo=None), "tags": {"a": "b"}, "_kafka_offset": 0},
        {"id": 0, "at": None, "tags": {}, "_kafka_offset": 2},
    ]
    bad = {row["origin"].rpartition("@")[2]: row for row in bad_rows(frame, asked)}
    assert set(bad) == {"1", "3", "4"}
    assert bytes(bad["1"]["value"]) == good + b"x"
    assert "left over" in bad["1"]["reason"]
    assert bad["3"]["reason"] == "the message has no value"
    keyed = source(kafka, topic, value_format="avro", avro_schemas=[str(file)], columns=["key", "offset"])
    assert good_rows(read_kafka(spark, keyed), keyed).where("_kafka_offset = 3").count() == 1


def test_a_batch_has_an_end_that_does_not_move(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = fresh_topic()
    produce(spark, kafka, topic, [Message(b"1"), Message(b"2")])
    asked = source(kafka, topic)
    frame = read_kafka(spark, asked)
    assert frame.count() == 2
    produce(spark, kafka, topic, [Message(b"3")])
    assert frame.count() == 2
    assert latest_offsets(spark, asked) == {topic: {"0": 3}}
    partly = source(
        kafka, topic, starting_offsets=json.dumps({topic: {"0": 1}}), ending_offsets=json.dumps({topic: {"0": 2}})
    )
    assert [bytes(row["value"]) for row in rows(read_kafka(spark, partly))] == [b"2"]
    open_end = source(kafka, topic, ending_offsets=json.dumps({topic: {"0": -1}}))
    assert read_kafka(spark, open_end).count() == 3


def test_a_batch_may_start_at_a_time(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = fresh_topic()
    times = [NOON.replace(second=second) for second in range(3)]
    produce(spark, kafka, topic, [Message(str(n).encode(), timestamp=time) for n, time in enumerate(times)])
    asked = source(kafka, topic, starting_offsets="2026-02-10T12:00:01.123Z")
    assert [bytes(row["value"]) for row in rows(read_kafka(spark, asked))] == [b"1", b"2"]
    later = source(kafka, topic, starting_offsets="2026-02-10T12:00:02.123001Z")
    with pytest.raises(IllegalArgumentException, match="No offset matched"):
        read_kafka(spark, later).count()


def test_a_topic_that_is_not_there_is_an_error_and_is_not_made(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = fresh_topic()
    for _ in range(2):
        with pytest.raises(SparkError, match=topic):
            read_kafka(spark, source(kafka, topic))


def test_topics_by_pattern(spark: SparkSession, kafka: KafkaBroker) -> None:
    prefix = fresh_topic()
    for name in ("a", "b"):
        produce(spark, kafka, f"{prefix}-{name}", [Message(name.encode())])
    asked = kafka_source(
        f"kafka://{kafka.address}/", options={"subscribePattern": f"{prefix}-.*"}, columns=["topic"], environment={}
    )
    assert {row["origin"] for row in rows(good_rows(read_kafka(spark, asked), asked))} == {
        f"{prefix}-a/0@0",
        f"{prefix}-b/0@0",
    }


def taken(frame: DataFrame, checkpoint: Path) -> list[tuple[int, list[bytes]]]:
    """What each batch of a stream holds, until all is taken."""
    found: list[tuple[int, list[bytes]]] = []

    def note(batch: DataFrame, number: int) -> None:
        found.append((number, sorted(bytes(row["value"]) for row in batch.collect())))

    query = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return found


def test_a_stream_goes_on_where_it_ended(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = fresh_topic()
    produce(spark, kafka, topic, [Message(str(n).encode()) for n in range(4)])
    asked = source(kafka, topic, options={"maxOffsetsPerTrigger": "3"})
    assert taken(read_kafka_stream(spark, asked), tmp_path) == [(0, [b"0", b"1", b"2"]), (1, [b"3"])]
    produce(spark, kafka, topic, [Message(b"4")])
    restarted = source(kafka, topic, starting_offsets="latest")
    assert taken(read_kafka_stream(spark, restarted), tmp_path) == [(2, [b"4"])]


def test_secrets_serve_the_broker_and_are_found_nowhere(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = fresh_topic()
    produce(spark, kafka, topic, [Message(b"1")])
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} username="{kafka.user}" password="{kafka.password}";\n'
    )
    uri = f"kafka://{kafka.guarded}/{topic}"
    asked = kafka_source(uri, config_file=config, environment={})
    batch, stream = read_kafka(spark, asked), read_kafka_stream(spark, asked)
    assert batch.count() == 1
    checkpoint = tmp_path / "checkpoint"
    assert taken(stream, checkpoint) == [(0, [b"1"])]
    shown = repr(asked) + repr(batch) + "".join(frame._jdf.queryExecution().toString() for frame in (batch, stream))
    shown += "".join(file.read_text(errors="replace") for file in checkpoint.rglob("*") if file.is_file())
    assert topic in shown
    assert kafka.password not in shown

    wrong = kafka_source(
        uri,
        environment={
            "DELTA_SIDECAR_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "DELTA_SIDECAR_KAFKA_SASL_MECHANISM": "PLAIN",
            "DELTA_SIDECAR_KAFKA_SASL_JAAS_CONFIG": f'{login} username="{kafka.user}" password="not-{kafka.password}";',
        },
    )
    with pytest.raises(SparkError, match="uthentication") as caught:
        read_kafka(spark, wrong)
    assert kafka.password not in str(caught.value)
