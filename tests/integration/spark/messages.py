"""Messages for the broker, by the client that Spark's connector brings."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.servers import KafkaBroker

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Message(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    timestamp: datetime | None = None
    """When it happened; the client's clock without it."""
    headers: tuple[tuple[str, bytes], ...] = ()


def fresh_topic() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


def produce(spark: SparkSession, broker: KafkaBroker, topic: str, messages: Iterable[Message]) -> None:
    """Send messages in order; the topic is made if it is not there."""
    jvm: Any = spark._jvm
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    settings = {"bootstrap.servers": broker.address, "key.serializer": serializer, "value.serializer": serializer}
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
    try:
        sent = [producer.send(_record(jvm, topic, message)) for message in messages]
        for receipt in sent:
            receipt.get()
    finally:
        producer.close()


def _record(jvm: Any, topic: str, message: Message) -> Any:
    headers = jvm.java.util.ArrayList()
    for name, value in message.headers:
        headers.add(jvm.org.apache.kafka.common.header.internals.RecordHeader(name, value))
    time = None if message.timestamp is None else (message.timestamp - _EPOCH) // timedelta(milliseconds=1)
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord
    return record(topic, None, time, message.key, message.value, headers)
