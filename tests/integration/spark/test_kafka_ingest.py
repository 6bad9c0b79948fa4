"""`sidecar ingest kafka://…` with a real broker: each message is in the table once, aside once, or refused."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from delta_sidecar.errors import SparkError
from delta_sidecar.pipeline.ingest_job import IngestSummary, ingest
from delta_sidecar.pipeline.kafka import kafka_source
from delta_sidecar.pipeline.streaming import await_end, ingest_stream
from tests.cli.running import COMMAND, assert_refused, invoke
from tests.integration.servers import KafkaBroker, quick_arguments
from tests.integration.spark.driving import killed_while_writing
from tests.integration.spark.messages import Message, fresh_topic, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def click(number: int, **more: Any) -> bytes:
    return json.dumps({"id": number, "ts": f"2026-02-10T{number % 24:02}:00:00Z", **more}).encode()


def table_rows(spark: SparkSession, table: Path, order: str = "id") -> list[dict[str, Any]]:
    frame = spark.read.format("delta").load(str(table)).orderBy(order)
    return [row.asDict(recursive=True) for row in frame.collect()]


def ids(spark: SparkSession, table: Path) -> list[int]:
    return [row["id"] for row in table_rows(spark, table)]


def test_a_stream_takes_each_message_once(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic, table, bad = fresh_topic(), tmp_path / "table", tmp_path / "bad"
    produce(spark, kafka, topic, [Message(click(1)), Message(b'{"id": 2,'), Message(click(3)), Message(None)])
    arguments = [
        "ingest", f"kafka://{kafka.address}/{topic}", table, "--time-column", "ts", "--stream", "--json",
        "--checkpoint-location", tmp_path / "progress", "--bad-rows", bad, "--merge-schema",
    ]  # fmt: skip
    (first,) = invoke(*arguments).objects
    assert (first["rows"], first["bad_rows"]) == (2, 2)
    aside = {row["file"]: row for row in table_rows(spark, bad, "file")}
    assert set(aside) == {f"{topic}/0@1", f"{topic}/0@3"}
    assert aside[f"{topic}/0@1"]["raw"] == '{"id": 2,'
    assert aside[f"{topic}/0@3"]["reason"] == "the message has no value"

    produce(spark, kafka, topic, [Message(click(4, meta={"region": "eu"})), Message(click(5))])
    (second,) = invoke(*arguments).objects
    assert (second["rows"], second["bad_rows"]) == (2, 0)
    assert invoke(*arguments).objects == []
    assert [(row["id"], row["meta"]) for row in table_rows(spark, table)] == [
        (1, None),
        (3, None),
        (4, {"region": "eu"}),
        (5, None),
    ]


def test_a_new_field_stops_a_stream_that_may_not_take_it(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic, table = fresh_topic(), tmp_path / "table"
    arguments = [
        "ingest", f"kafka://{kafka.address}/{topic}", table, "--time-column", "ts", "--stream", "--json",
        "--checkpoint-location", tmp_path / "progress",
    ]  # fmt: skip
    produce(spark, kafka, topic, [Message(click(1))])
    assert invoke(*arguments).objects[0]["rows"] == 1
    produce(spark, kafka, topic, [Message(click(2, region="eu"))])
    assert_refused(invoke(*arguments), "region")
    (rescued,) = invoke(*arguments, "--rescue").objects
    assert rescued["rows"] == 1
    assert [row["_rescued"] for row in table_rows(spark, table)] == [None, '{"region":"eu"}']


def test_a_stream_that_dies_after_a_commit_adds_nothing_twice(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic, table, bad = fresh_topic(), tmp_path / "table", tmp_path / "bad"
    produce(spark, kafka, topic, [Message(click(1)), Message(b"no json"), Message(click(2))])
    source = kafka_source(f"kafka://{kafka.address}/{topic}", environment={})

    def die(_: IngestSummary) -> None:
        raise RuntimeError("died after the commit")

    def run(on_batch: Any) -> None:
        query = ingest_stream(source, table, "ts", tmp_path / "progress", spark=spark, bad_rows=bad, on_batch=on_batch)
        await_end(query)

    with pytest.raises(SparkError):
        run(die)
    produce(spark, kafka, topic, [Message(click(3))])
    done: list[IngestSummary] = []
    run(done.append)
    assert [(one.rows, one.skipped_as_replayed) for one in done] == [(0, True), (1, False)]
    assert ids(spark, table) == [1, 2, 3]
    assert [row["file"] for row in table_rows(spark, bad, "file")] == [f"{topic}/0@1"]


def test_the_time_may_be_the_brokers(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic, table = fresh_topic(), tmp_path / "table"
    noon = datetime(2026, 2, 10, 12, 0, 0, 123000, UTC)
    messages = [Message(b'{"id": 1}', b"a", noon), Message(None, b"b", noon.replace(hour=13)), Message(b'{"id": 2}')]
    produce(spark, kafka, topic, messages)
    done = invoke(
        "ingest", f"kafka://{kafka.address}/{topic}", table, "--time-column", "_kafka_timestamp", "--json",
        "--kafka-columns", "timestamp,key,offset=position",
        "--ending-offsets", json.dumps({topic: {"0": 2}}),
    )  # fmt: skip
    assert done.objects[0]["rows"] == 2
    first, second = table_rows(spark, table, "position")
    assert (first["id"], first["_kafka_key"], first["_kafka_timestamp"]) == (1, "a", noon.replace(tzinfo=None))
    assert (second["id"], second["_kafka_key"], second["position"]) == (None, "b", 1)
    assert [row["_event_hour"] for row in (first, second)] == ["2026021012", "2026021013"]


def test_a_batch_with_a_bad_message_is_refused_by_its_place(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = fresh_topic()
    produce(spark, kafka, topic, [Message(click(1)), Message(b"", b"k")])
    uri = f"kafka://{kafka.address}/{topic}"
    done = invoke("ingest", uri, tmp_path / "table", "--time-column", "ts")
    assert_refused(done, f"{topic}/0@1", "blank", "--bad-rows")
    assert_refused(
        invoke("ingest", uri, tmp_path / "table", "--time-column", "ts", "--kafka-columns", "offset=ID"), "offset=NAME"
    )
    assert_refused(
        invoke("ingest", f"{uri}-gone", tmp_path / "table", "--time-column", "ts"), f"{topic}-gone", "cannot be read"
    )


@pytest.mark.long
def test_csv_goes_by_its_schema(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic, table, bad, schema = fresh_topic(), tmp_path / "table", tmp_path / "bad", tmp_path / "schema.ddl"
    schema.write_text("id BIGINT, ts TIMESTAMP, name STRING")
    values = [b"1;2026-02-10T01:00:00Z;x\r\n", b'2;2026-02-10T02:00:00Z;"a;\nb"', b"3;2026-02-10T03:00:00Z", b""]
    values.append(b"4;2026-02-10T04:00:00Z\n5;2026-02-10T05:00:00Z")
    produce(spark, kafka, topic, [Message(value) for value in values])
    done = invoke(
        "ingest", f"kafka://{kafka.address}/{topic}", table, "--time-column", "ts", "--json", "--value-format", "csv",
        "--schema", schema, "--read-option", "sep=;", "--kafka-columns", "offset", "--bad-rows", bad,
    )  # fmt: skip
    assert (done.objects[0]["rows"], done.objects[0]["bad_rows"]) == (2, 3)
    assert [(row["id"], row["name"], row["_kafka_offset"]) for row in table_rows(spark, table)] == [
        (1, "x", 0),
        (2, "a;\nb", 1),
    ]
    assert [row["file"] for row in table_rows(spark, bad, "file")] == [f"{topic}/0@{n}" for n in (2, 3, 4)]


def test_text_and_avro(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic, bad = fresh_topic(), tmp_path / "bad"
    schema = {
        "type": "record",
        "name": "click",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    file = tmp_path / "click.avsc"
    file.write_text(json.dumps(schema))
    sink = io.BytesIO()
    noon = datetime(2026, 2, 10, 12, 0, 0, 123456, UTC)
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), {"id": 7, "at": noon})
    produce(spark, kafka, topic, [Message(sink.getvalue()), Message(b"\x80"), Message(None)])
    uri = f"kafka://{kafka.address}/{topic}"
    done = invoke(
        "ingest", uri, tmp_path / "avro", "--time-column", "at", "--json", "--value-format", "avro",
        "--avro-schema", file, "--bad-rows", bad,
    )  # fmt: skip
    assert (done.objects[0]["rows"], done.objects[0]["bad_rows"]) == (1, 2)
    (row,) = table_rows(spark, tmp_path / "avro")
    assert (row["id"], row["at"]) == (7, noon.replace(tzinfo=None))
    aside = table_rows(spark, bad, "file")
    assert [(row["file"], row["raw_bytes"]) for row in aside] == [
        (f"{topic}/0@1", bytearray(b"\x80")),
        (f"{topic}/0@2", None),
    ]
    refused = invoke(
        "ingest", uri, tmp_path / "text", "--time-column", "_kafka_timestamp", "--value-format", "text",
        "--kafka-columns", "timestamp",
    )  # fmt: skip
    assert_refused(refused, f"{topic}/0@0", "2 records are bad", "not UTF-8")
    text = kafka_source(
        uri, value_format="text", columns=["timestamp"], starting_offsets=json.dumps({topic: {"0": 2}}), environment={}
    )
    assert ingest(text, tmp_path / "text", "_kafka_timestamp", spark=spark).rows == 1
    assert table_rows(spark, tmp_path / "text", "value")[0]["value"] is None


def guarded(kafka: KafkaBroker, password: str) -> dict[str, str]:
    return {
        "DELTA_SIDECAR_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "DELTA_SIDECAR_KAFKA_SASL_MECHANISM": "PLAIN",
        "DELTA_SIDECAR_KAFKA_SASL_JAAS_CONFIG": f'{LOGIN} username="{kafka.user}" password="{password}";',
    }


def with_environment(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.long
def test_a_login_by_the_environment(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, table = fresh_topic(), tmp_path / "table"
    produce(spark, kafka, topic, [Message(click(1))])
    arguments = ["ingest", f"kafka://{kafka.guarded}/{topic}", table, "--time-column", "ts", "--verbose"]
    with_environment(monkeypatch, guarded(kafka, f"wrong-{kafka.password}"))
    refused = invoke(*arguments)
    assert refused.code == 2
    assert "uthentication" in refused.err
    assert kafka.password not in refused.err + refused.out
    with_environment(monkeypatch, guarded(kafka, kafka.password))
    done = invoke(*arguments)
    assert done.code == 0, done.err
    assert ids(spark, table) == [1]
    assert kafka.password not in done.err + done.out
    assert not any(kafka.password in file.read_text() for file in table.glob("_delta_log/*.json"))


@pytest.mark.long
def test_a_stream_that_is_killed_takes_each_message_once(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic, table, bad = fresh_topic(), tmp_path / "table", tmp_path / "bad"
    minutes = 40
    times = [f"2026-02-10T{n // 60:02}:{n % 60:02}:00Z" for n in range(minutes)]
    clicks = [Message(json.dumps({"id": n, "ts": ts}).encode()) for n, ts in enumerate(times)]
    produce(spark, kafka, topic, [*clicks, Message(b"no json")])
    arguments = [
        "ingest", f"kafka://{kafka.address}/{topic}", table, "--time-column", "ts", "--bucket", "minute", "--stream",
        "--checkpoint-location", tmp_path / "progress", "--bad-rows", bad, "--master", "local[1]", "--json",
        *quick_arguments(),
    ]  # fmt: skip
    killed_while_writing([*COMMAND, *map(str, arguments)], table, tmp_path / "log")
    produce(spark, kafka, topic, [Message(json.dumps({"id": minutes, "ts": "2026-02-11T00:00:00Z"}).encode())])
    done = invoke(*arguments).objects
    assert sum(one["rows"] for one in done) <= minutes + 1
    assert ids(spark, table) == list(range(minutes + 1))
    assert [row["file"] for row in table_rows(spark, bad, "file")] == [f"{topic}/0@{minutes}"]
