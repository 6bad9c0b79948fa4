"""What a Kafka source is, what of it is refused, and that its secrets show nowhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.pipeline.kafka import (
    CONFIG_VARIABLE,
    CONNECTION_VARIABLE,
    KafkaSource,
    Offsets,
    check_reading,
    is_kafka,
    java_properties,
    kafka_source,
)

KEY = "s3cr3t/with+signs=="
CONNECTION = f"Endpoint=sb://lake.servicebus.windows.net/;SharedAccessKeyName=reader;SharedAccessKey={KEY}"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="hunter2";'


def source(
    uri: str = "kafka://broker/events", environment: Mapping[str, str] | None = None, **given: Any
) -> KafkaSource:
    return kafka_source(uri, environment=environment or {}, **given)


@pytest.mark.parametrize(
    ("uri", "known"),
    [
        ("kafka://b/t", True),
        ("KAFKA://b/t", True),
        ("eventhubs://ns/hub", True),
        ("kafka/landing", False),
        ("kafka", False),
        ("s3://kafka/t", False),
        (Path("kafka"), False),
    ],
)
def test_topics_are_known_by_their_scheme(uri: str | Path, known: bool) -> None:
    assert is_kafka(uri) is known


@pytest.mark.parametrize(
    ("uri", "brokers", "topics"),
    [
        ("kafka://broker/events", "broker:9092", ("events",)),
        ("kafka://a:1,b_1.example.com:29092/x,y.z-1_0/", "a:1,b_1.example.com:29092", ("x", "y.z-1_0")),
        ("kafka://[::1]:9/t", "[::1]:9", ("t",)),
        ("kafka://[::1]/t", "[::1]:9092", ("t",)),
    ],
)
def test_a_uri_names_brokers_and_topics(uri: str, brokers: str, topics: tuple[str, ...]) -> None:
    found = source(uri)
    assert (found.brokers, found.topics) == (brokers, topics)
    assert found.reader_options == {
        "kafka.bootstrap.servers": brokers,
        "subscribe": ",".join(topics),
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
    }


@pytest.mark.parametrize(
    ("uri", "complaint"),
    [
        ("kafka://broker", "name topics"),
        ("kafka://broker/", "name topics"),
        ("kafka:///t", "is not a broker"),
        ("kafka://a,/t", "is not a broker"),
        ("kafka://a:0/t", "is not a broker"),
        ("kafka://a:99999/t", "is not a broker"),
        ("kafka://a b/t", "is not a broker"),
        ("kafka://a/t/u", "not a topic name"),
        ("kafka://a/t,", "not a topic name"),
        ("kafka://a/..", "not a topic name"),
        ("kafka://a/t?x=1", "query or fragment"),
        ("kafka://a/t#x", "query or fragment"),
        ("eventhubs://ns:9093/hub", "is not a namespace"),
        ("s3://bucket/t", "not a kafka://"),
    ],
)
def test_a_uri_that_cannot_be_is_refused(uri: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        source(uri, environment={CONNECTION_VARIABLE: CONNECTION})


def test_a_password_in_the_uri_is_refused_and_not_repeated() -> None:
    with pytest.raises(InputError) as caught:
        source("kafka://bob:hunter2@broker/events")
    assert "hunter2" not in str(caught.value)
    assert "--kafka-config" in str(caught.value)


def test_topics_by_pattern() -> None:
    found = source("kafka://broker/", options={"subscribepattern": "ev.*"})
    assert found.reader_options["subscribePattern"] == "ev.*"
    assert "subscribe" not in found.reader_options
    with pytest.raises(InputError, match="not both"):
        source(options={"subscribePattern": "ev.*"})


def test_columns_have_names_of_their_own_or_those_given() -> None:
    found = source(columns=["key", "offset=position", "headers"])
    assert found.columns == {"key": "_kafka_key", "offset": "position", "headers": "_kafka_headers"}
    assert found.reader_options["includeHeaders"] == "true"


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["size"], "not one of key"),
        (["key", "key"], "twice"),
        (["key=a", "offset=A"], "twice"),
        (["key=a b"], "not a column name"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: list[str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        source(columns=columns)


def test_a_column_that_the_value_has_too_is_refused(tmp_path: Path) -> None:
    schema = tmp_path / "event.avsc"
    schema.write_text(json.dumps({"type": "record", "name": "r", "fields": [{"name": "Offset", "type": "long"}]}))
    with pytest.raises(OptionError, match="--kafka-columns offset=NAME"):
        source(value_format="avro", avro_schemas=[str(schema)], columns=["offset=offset"])
    with pytest.raises(OptionError, match="value is a name that ingest reserves"):
        source(value_format="text", columns=["key=value"])


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        (None, Offsets("earliest")),
        ("earliest", Offsets("earliest")),
        ("latest", Offsets("latest")),
        ('{"events": {"0": 17, "1": -2}}', Offsets(None, {"events": {"0": 17, "1": -2}})),
        ("1970-01-01T00:00:01Z", Offsets(1000)),
        ("1970-01-01", Offsets(0)),
        ("1970-01-01T01:00:00.000001+01:00", Offsets(1)),
        ("2026-02-10 22:00:00", Offsets(1770760800000)),
    ],
)
def test_where_reading_starts(text: str | None, offsets: Offsets) -> None:
    assert source(starting_offsets=text).starting == offsets


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("first", "neither earliest"),
        ("17", "neither earliest"),
        ("{", "is not JSON"),
        ('{"other": {"0": 1}}', "names the topic 'other'"),
        ('{"events": 17}', "needs an offset by partition"),
        ('{"events": {}}', "needs an offset by partition"),
        ('{"events": {"zero": 1}}', "needs an offset by partition"),
        ('{"events": {"0": -3}}', "needs an offset by partition"),
        ('{"events": {"0": true}}', "needs an offset by partition"),
        ('{"events": {"0": 1.5}}', "needs an offset by partition"),
        ("{}", "no offsets for the topic 'events'"),
    ],
)
def test_offsets_that_cannot_be_are_refused(text: str, complaint: str) -> None:
    for option in ("starting_offsets", "ending_offsets"):
        with pytest.raises(OptionError, match=complaint):
            source(**{option: text})


def test_a_batch_and_a_stream_refuse_what_the_other_takes() -> None:
    check_reading(source(ending_offsets='{"events": {"0": 9}}'), stream=False)
    check_reading(source(starting_offsets="latest", options={"maxOffsetsPerTrigger": "10"}), stream=True)
    with pytest.raises(OptionError, match="a stream has no end"):
        check_reading(source(ending_offsets='{"events": {"0": 9}}'), stream=True)
    for start in ("latest", '{"events": {"0": -1}}'):
        with pytest.raises(OptionError, match="nothing to read"):
            check_reading(source(starting_offsets=start), stream=False)
    with pytest.raises(OptionError, match="needs --stream"):
        check_reading(source(options={"maxOffsetsPerTrigger": "10"}), stream=False)


@pytest.mark.parametrize("text", ["earliest", '{"events": {"0": -2}}', "2026-02-10"])
def test_an_end_that_moves_or_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--ending-offsets"):
        source(ending_offsets=text)


def test_options_of_the_connector_are_taken_in_any_case() -> None:
    found = source(options={"MAXOFFSETSPERTRIGGER": "5", "failOnDataLoss": "false", "kafka.security.protocol": "SSL"})
    assert found.reader_options["maxOffsetsPerTrigger"] == "5"
    assert found.reader_options["failOnDataLoss"] == "false"
    assert found.reader_options["kafka.security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("header", "not one of failOnDataLoss"),
        ("startingOffsets", "not one of failOnDataLoss"),
        ("kafka.group.instance-id", "no consumer property"),
        ("kafka.auto.offset.reset", "set by Spark's connector"),
        ("kafka.bootstrap.servers", "named by the source"),
        ("kafka.sasl.jaas.config", "may hold a secret"),
        ("kafka.ssl.keystore.password", "may hold a secret"),
        ("kafka.ssl.keystore.key", "may hold a secret"),
        ("KAFKA.SASL.JAAS.CONFIG", "may hold a secret"),
    ],
)
def test_options_that_are_not_understood_or_may_be_secrets_are_refused(name: str, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint) as caught:
        source(options={name: "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_secrets_come_from_a_file_or_the_environment_and_are_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"# of the cluster\nsecurity.protocol=SASL_SSL\nsasl.mechanism: PLAIN\nsasl.jaas.config={JAAS}\n")
    by_file = source(config_file=config)
    by_name = source(environment={CONFIG_VARIABLE: str(config)})
    assert by_file == by_name
    assert by_file.reader_options["kafka.sasl.jaas.config"] == JAAS
    assert by_file.reader_options["kafka.sasl.mechanism"] == "PLAIN"
    by_variable = source(environment={"DELTA_SIDECAR_KAFKA_SASL_JAAS_CONFIG": JAAS, "PATH": "/bin"})
    assert by_variable.properties == {"sasl.jaas.config": JAAS}
    for found in (by_file, by_variable):
        assert "hunter2" not in repr(found)
        assert {JAAS, "hunter2"} <= set(found.secrets.values())
        assert all("secret" in name for name in found.secrets)


def test_the_environment_counts_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=file\nisolation.level=read_uncommitted\n")
    found = source(config_file=config, environment={"DELTA_SIDECAR_KAFKA_CLIENT_ID": "variable"})
    assert found.reader_options["kafka.client.id"] == "variable"
    assert found.reader_options["kafka.isolation.level"] == "read_uncommitted"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("value.deserializer=x", "set by Spark's connector"),
        ("bootstrap.servers=elsewhere:9092", "other brokers"),
        (JAAS, "no consumer property begins with"),
    ],
)
def test_a_file_that_cannot_be_is_refused_without_its_secrets(text: str, complaint: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(text)
    with pytest.raises(OptionError, match=complaint) as caught:
        source(config_file=config)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"none\.properties cannot be read"):
        source(config_file=tmp_path / "none.properties")


def test_the_same_brokers_in_the_file_are_fine(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers = b:2, a:1\n")
    assert source("kafka://a:1,b:2/t", config_file=config).reader_options["kafka.bootstrap.servers"] == "a:1,b:2"


def test_java_properties() -> None:
    text = "! note\n\n a = 1\nb:2\nc 3\nlong = one, \\\n    two\nodd\\ name=x\\ty\\u0041\\\\\nempty\nlast=a=b\\\n"
    assert dict(java_properties(text)) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "long": "one, two",
        "odd name": "x\tyA\\",
        "empty": "",
        "last": "a=b",
    }


def test_an_event_hub_is_its_kafka_endpoint() -> None:
    found = source("eventhubs://lake/clicks", environment={CONNECTION_VARIABLE: CONNECTION})
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    assert found.reader_options == {
        "kafka.bootstrap.servers": "lake.servicebus.windows.net:9093",
        "subscribe": "clicks",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{login} username="$ConnectionString" password="{CONNECTION}";',
    }
    assert KEY not in repr(found)
    assert CONNECTION in found.secrets.values()


def test_a_connection_string_may_stand_in_the_file_and_hold_quotes(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(CONNECTION.replace("Endpoint", "eventhubs.connection.string=Endpoint") + '\\"x')
    found = source("eventhubs://lake.servicebus.windows.net/clicks", config_file=config)
    assert '==\\"x";' in found.properties["sasl.jaas.config"]
    assert "eventhubs.connection.string" not in found.properties


@pytest.mark.parametrize(
    ("connection", "complaint"),
    [
        (None, CONNECTION_VARIABLE),
        ("hunter2", "not of the form"),
        (CONNECTION.partition(";")[0], "not of the form"),
        (CONNECTION.replace("lake", "pond"), "is for pond"),
    ],
)
def test_a_connection_string_that_cannot_be_is_refused_without_it(connection: str | None, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint) as caught:
        source("eventhubs://lake/clicks", environment={CONNECTION_VARIABLE: connection} if connection else {})
    assert KEY not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_other_logins_to_an_event_hub_are_the_users_own() -> None:
    given = {"DELTA_SIDECAR_KAFKA_SASL_JAAS_CONFIG": JAAS, "DELTA_SIDECAR_KAFKA_SASL_MECHANISM": "OAUTHBEARER"}
    found = source("eventhubs://lake/clicks", environment=given)
    assert found.properties == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": JAAS,
    }


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"value_format": "xml"}, "not one of json"),
        ({"value_format": "avro"}, "needs --avro-schema"),
        ({"avro_schemas": ["x.avsc"]}, "--avro-schema needs --value-format avro"),
        ({"value_format": "avro", "avro_schemas": ["nowhere.avsc"]}, "cannot be read"),
    ],
)
def test_formats_that_cannot_be_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        source(**given)


def test_schemas_of_a_registry_have_numbers(tmp_path: Path) -> None:
    schema = tmp_path / "event.avsc"
    schema.write_text(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}))
    found = source(value_format="avro", avro_schemas=[f"17={schema}", f"18={schema}"])
    assert found.schema is not None
    assert set(found.schema.texts) == {17, 18}
    with pytest.raises(OptionError, match="each of several schemas its number"):
        source(value_format="avro", avro_schemas=[str(schema), str(schema)])
