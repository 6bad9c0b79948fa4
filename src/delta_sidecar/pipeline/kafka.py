"""Kafka topics, and event hubs through their Kafka endpoint, as a source of records.

`kafka://broker:9092,broker:9092/topic,topic` or `eventhubs://NAMESPACE/HUB`. This module parses and checks a source,
without Spark; `kafka_frames` reads it.

Secrets come from the environment or from a Kafka properties file (`sasl.jaas.config=…`), never from the command line,
and are never shown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.pipeline.avro import AvroSchema, avro_schema
from delta_sidecar.values.column_names import folded

ValueFormat: TypeAlias = Literal["json", "csv", "text", "avro"]
VALUE_FORMATS: tuple[ValueFormat, ...] = get_args(ValueFormat)

CONFIG_VARIABLE = "DELTA_SIDECAR_KAFKA_CONFIG"
"""Names a file of consumer properties, as `--kafka-config` does."""
PROPERTY_PREFIX = "DELTA_SIDECAR_KAFKA_"
"""Before a consumer property in the environment: DELTA_SIDECAR_KAFKA_SASL_JAAS_CONFIG is `sasl.jaas.config`."""
CONNECTION_VARIABLE = "DELTA_SIDECAR_EVENTHUBS_CONNECTION_STRING"
CONNECTION_PROPERTY = "eventhubs.connection.string"
"""The same in a file of properties."""

_SCHEMES = ("kafka", "eventhubs")
_PORT = 9092
_EVENT_HUBS_PORT = 9093
_EVENT_HUBS_HOST = "servicebus.windows.net"
_HOST = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::(\d+))?")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NAME = re.compile(r"[^\s,=;{}()]+")

_TAKEN = ("value", "origin", "start")
"""Names that records have columns of on their way."""
MESSAGE_COLUMNS = ("key", "key_bytes", "topic", "partition", "offset", "timestamp", "headers")
"""What a message has beside its value; each becomes the column `_kafka_<name>` unless another name is given."""

_OPTIONS = (
    "failOnDataLoss", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs", "maxOffsetsPerTrigger", "maxRecordsPerPartition", "maxTriggerDelay",
    "minOffsetsPerTrigger", "minPartitions", "startingOffsetsByTimestampStrategy", "subscribePattern",
)  # fmt: skip
"""Options of Spark's connector that may be given; consumer properties go with `kafka.` before them."""
_VALUE_OPTIONS: dict[str, tuple[str, ...]] = {
    "json": ("encoding",),
    "csv": ("encoding", "sep", "delimiter", "quote", "escape", "nullValue"),
}
"""Options of the text that a value is."""
_STREAM_OPTIONS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_NOT_OURS = (
    "auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer",
    "key.serializer", "value.serializer",
)  # fmt: skip
"""Consumer properties that Spark's connector sets itself."""
_SECRET = re.compile(r"jaas|password|secret|token|credential|keystore\.key|connection\.string", re.IGNORECASE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)+)"|=\s*([^\s";]+)')
LATEST, EARLIEST = -1, -2


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where reading begins or ends."""

    at: Literal["earliest", "latest"] | int | None = None
    """An end of the topic, or milliseconds since 1970: the first message of that time or later."""
    by_partition: Mapping[str, Mapping[str, int]] | None = None
    """Offsets by topic and partition; -2 is the earliest, -1 the latest."""

    @property
    def text(self) -> str:
        """In the connector's words."""
        return str(self.at) if self.by_partition is None else json.dumps(self.by_partition, sort_keys=True)

    def holds(self, offset: int) -> bool:
        return any(offset in parts.values() for parts in (self.by_partition or {}).values())


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Kafka topics, and how to read them: the return value of `kafka_source`.

    Example:
        >>> from delta_sidecar.pipeline import kafka_source
        >>> source = kafka_source("kafka://localhost/clicks,views")
        >>> source.brokers, source.topics
        ('localhost:9092', ('clicks', 'views'))
    """

    uri: str
    brokers: str
    topics: tuple[str, ...]
    """Empty if the options have a pattern of topic names."""
    value_format: ValueFormat = "json"
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column names, by field of the message."""
    starting: Offsets = Offsets("earliest")
    ending: Offsets = Offsets("latest")
    schema: AvroSchema | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's connector; no secret is among them."""
    value_options: Mapping[str, str] = field(default_factory=dict)
    """Options of the text that a value is."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Consumer properties from a file or the environment, including secrets."""

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets, by names that mark them as such."""
        secret_properties = {name: value for name, value in self.properties.items() if _SECRET.search(name) and value}
        quoted = {
            f"{name} secret {number}": part[0] or part[1]
            for name, value in secret_properties.items()
            if "jaas" in name
            for number, part in enumerate(_QUOTED.findall(value))
        }
        return {f"{name} secret": value for name, value in secret_properties.items()} | quoted

    def without_secrets(self) -> KafkaSource:
        """The source without its secrets, which may be sent to tasks."""
        return replace(self, properties={})

    @property
    def reader_options(self) -> dict[str, str]:
        """The options for batches and streams, including secrets."""
        topics = {"subscribe": ",".join(self.topics)} if self.topics else {}
        headers = {"includeHeaders": "true"} if "headers" in self.columns else {}
        chosen = {"failOnDataLoss": "true", "kafka.isolation.level": "read_committed"}
        given = {f"kafka.{name}": value for name, value in self.properties.items()}
        return chosen | given | dict(self.options) | topics | headers | {"kafka.bootstrap.servers": self.brokers}


def is_kafka(uri: str | os.PathLike[str]) -> bool:
    """Whether a source is topics rather than files."""
    return os.fspath(uri).partition("://")[0].lower() in _SCHEMES and "://" in os.fspath(uri)


def kafka_source(
    uri: str,
    *,
    value_format: str = "json",
    columns: Sequence[str] = (),
    starting_offsets: str | None = None,
    ending_offsets: str | None = None,
    avro_schemas: Sequence[str] = (),
    config_file: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> KafkaSource:
    """The topics that a URI names, and how to read them. Wrong options are refused here, without a connection.

    Args:
        uri: `kafka://host:port,host:port/topic,topic`, or `eventhubs://NAMESPACE/HUB`.
        value_format: The format of messages: `json`, `csv`, `text` or `avro`.
        columns: Fields of the message to add as columns: `key`, `key_bytes`, `topic`, `partition`, `offset`,
            `timestamp`, `headers`; `offset=position` gives the column another name.
        starting_offsets: `earliest`, `latest`, a time, or JSON by topic and partition.
        ending_offsets: `latest`, or JSON by topic and partition; for a batch.
        avro_schemas: Files with the schema of Avro messages, or `17=FILE` by number in a schema registry.
        config_file: A file of consumer properties, including secrets.
        options: Options of Spark's Kafka source; `kafka.<property>` for the consumer.
        environment: Environment variables to read secrets from; those of this process if not given.

    Returns:
        A `KafkaSource`, for `ingest` and `ingest_stream`.

    Raises:
        InputError: The URI names no broker or no topic.
        OptionError: An option is unknown or wrong.

    Example:
        >>> from delta_sidecar.pipeline import kafka_source
        >>> clicks = kafka_source("kafka://localhost:9092/clicks", columns=["key", "offset=position"])
        >>> clicks.value_format
        'json'
    """
    environment = os.environ if environment is None else environment
    scheme, brokers, topics = _parsed_uri(uri)
    if value_format not in VALUE_FORMATS:
        raise OptionError(f"--value-format {value_format!r} is not one of {', '.join(VALUE_FORMATS)}")
    given, of_values = _checked_options(options or {}, value_format)
    _check_topics(topics, given, uri)
    properties = _properties(config_file, environment)
    if scheme == "eventhubs":
        properties = _event_hubs(properties, brokers, environment)
    _check_names(properties)
    _check_brokers(properties, brokers)
    schema = _schema(value_format, avro_schemas)
    named = _columns(columns)
    _check_clashes(named, schema)
    return KafkaSource(
        uri,
        brokers,
        topics,
        value_format,
        named,
        _offsets("--starting-offsets", starting_offsets or "earliest", topics),
        _ending(ending_offsets, topics),
        schema,
        given,
        of_values,
        properties,
    )


def _parsed_uri(uri: str) -> tuple[str, str, tuple[str, ...]]:
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    if scheme not in _SCHEMES:
        raise InputError(f"{uri} is not a kafka:// or eventhubs:// URI")
    if "@" in rest:
        raise InputError(f"a {scheme}:// URI must not hold a user or password; use --kafka-config or the environment")
    if "?" in rest or "#" in rest:
        raise InputError(f"{scheme}://{re.split('[?#]', rest)[0]}: a query or fragment is not allowed")
    hosts, _, path = rest.partition("/")
    topics = tuple(path.rstrip("/").split(",")) if path.rstrip("/") else ()
    brokers = _event_hubs_broker(hosts, uri) if scheme == "eventhubs" else _brokers(hosts, uri)
    return scheme, brokers, topics


def _brokers(hosts: str, uri: str) -> str:
    brokers = []
    for host in hosts.split(","):
        match = _HOST.fullmatch(host)
        if match is None or not 0 < int(match[1] or _PORT) < 65536:
            raise InputError(f"{uri}: {host!r} is not a broker; write kafka://host:port,host:port/topic")
        brokers.append(host if match[1] else f"{host}:{_PORT}")
    return ",".join(brokers)


def _event_hubs_broker(namespace: str, uri: str) -> str:
    match = _HOST.fullmatch(namespace)
    if match is None or match[1] or namespace.startswith("["):
        raise InputError(f"{uri}: {namespace!r} is not a namespace; write eventhubs://NAMESPACE/HUB")
    host = namespace if "." in namespace else f"{namespace}.{_EVENT_HUBS_HOST}"
    return f"{host}:{_EVENT_HUBS_PORT}"


def _check_topics(topics: Sequence[str], options: Mapping[str, str], uri: str) -> None:
    pattern = options.get("subscribePattern")
    if bool(topics) == bool(pattern):
        raise InputError(
            f"{uri}: name topics after the brokers, or pass --read-option subscribePattern=REGEX, not both"
        )
    for topic in topics:
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise InputError(f"{uri}: {topic!r} is not a topic name: letters, digits, '.', '_' and '-', at most 249")


def _checked_options(options: Mapping[str, str], value_format: str) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the connector and those of the value, as they are spelled there."""
    connector = {name.lower(): name for name in _OPTIONS}
    value = {name.lower(): name for name in _VALUE_OPTIONS.get(value_format, ())}
    of_connector: dict[str, str] = {}
    of_values: dict[str, str] = {}
    for name, text in options.items():
        if name.lower().startswith("kafka."):
            if _SECRET.search(name):
                raise OptionError(
                    f"--read-option {name} may hold a secret: give it in --kafka-config or the environment"
                )
            of_connector[name.lower()] = text
        elif name.lower() in connector:
            of_connector[connector[name.lower()]] = text
        elif name.lower() in value:
            of_values[value[name.lower()]] = text
        else:
            known = ", ".join([*_OPTIONS, *value.values()])
            raise OptionError(f"--read-option {name} is not one of {known}, kafka.<consumer property>")
    _check_names(name.removeprefix("kafka.") for name in of_connector if name.startswith("kafka."))
    if "kafka.bootstrap.servers" in of_connector:
        raise OptionError(
            "--read-option kafka.bootstrap.servers: brokers are named by the source, kafka://host:port/topic"
        )
    return of_connector, of_values


def _properties(config_file: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Consumer properties of the file and the environment; the environment counts over the file."""
    named = config_file or environment.get(CONFIG_VARIABLE)
    properties: dict[str, str] = {}
    if named:
        try:
            properties = dict(java_properties(Path(named).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise OptionError(f"--kafka-config {os.fspath(named)} cannot be read: {reason}") from None
    for name, value in environment.items():
        if name.startswith(PROPERTY_PREFIX) and name != CONFIG_VARIABLE:
            properties[name.removeprefix(PROPERTY_PREFIX).lower().replace("_", ".")] = value
    return properties


def java_properties(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of a Java properties file: comments, `=` or `:`, continued lines, escapes."""
    lines = iter(text.splitlines())
    for line in lines:
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1] + next(lines, "").lstrip()
        match = re.match(r"((?:\\.|[^\s=:\\])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        assert match is not None
        yield _unescaped(match[1]), _unescaped(match[2])


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    special = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}

    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else special.get(escaped, escaped)

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", plain, text)


def _check_names(properties: Iterable[str]) -> None:
    for name in properties:
        if name in _NOT_OURS:
            raise OptionError(f"the consumer property {name} is set by Spark's connector; leave it out")
        if not re.fullmatch(r"[a-z][a-z0-9.]*", name):
            raise OptionError(f"no consumer property begins with {name[:8]!r}; check --kafka-config")


def _check_brokers(properties: Mapping[str, str], brokers: str) -> None:
    named = properties.get("bootstrap.servers", brokers)
    if set(named.replace(" ", "").split(",")) != set(brokers.split(",")):
        raise OptionError(f"bootstrap.servers is given with other brokers than the URI has ({brokers}); leave it out")


def _event_hubs(properties: Mapping[str, str], broker: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Properties of a namespace's Kafka endpoint; the connection string is the password."""
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"} | dict(properties)
    inline = settings.pop(CONNECTION_PROPERTY, None)
    connection = environment.get(CONNECTION_VARIABLE) or inline
    if connection is None:
        if "sasl.jaas.config" not in settings:
            raise OptionError(
                f"an event hub needs its connection string: set {CONNECTION_VARIABLE}, "
                f"or {CONNECTION_PROPERTY} in the file that --kafka-config names"
            )
        return settings
    parts = dict(part.partition("=")[::2] for part in connection.strip().strip(";").split(";"))
    endpoint = re.fullmatch(r"sb://([^/]+)/?", parts.get("Endpoint", ""))
    if endpoint is None or not (parts.get("SharedAccessKey") or parts.get("SharedAccessSignature")):
        raise OptionError(
            "the connection string is not of the form Endpoint=sb://…/;SharedAccessKeyName=…;SharedAccessKey=…"
        )
    if endpoint[1].lower() != broker.rpartition(":")[0].lower():
        raise OptionError(f"the connection string is for {endpoint[1]}, the source is {broker.rpartition(':')[0]}")
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    quoted = connection.strip().replace("\\", "\\\\").replace('"', '\\"')
    settings["sasl.jaas.config"] = f'{login} username="$ConnectionString" password="{quoted}";'
    return settings


def _schema(value_format: str, files: Sequence[str]) -> AvroSchema | None:
    if value_format != "avro":
        if files:
            raise OptionError("--avro-schema needs --value-format avro")
        return None
    if not files:
        raise OptionError("--value-format avro needs --avro-schema FILE: the schema that messages were written with")
    texts: dict[int | None, str] = {}
    for named in files:
        match = re.fullmatch(r"(\d+)=(.+)", named)
        number, name = (int(match[1]), match[2]) if match else (None, named)
        if number in texts:
            raise OptionError("--avro-schema: give each of several schemas its number in the schema registry: 17=FILE")
        try:
            texts[number] = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise OptionError(f"--avro-schema {name} cannot be read: {reason}") from None
    return avro_schema(texts, "--avro-schema")


def _columns(given: Sequence[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for text in given:
        what, _, name = text.partition("=")
        if what not in MESSAGE_COLUMNS:
            raise OptionError(f"--kafka-columns {what!r} is not one of {', '.join(MESSAGE_COLUMNS)}")
        name = name or f"_kafka_{what}"
        if folded(name) in _TAKEN or name.startswith("__"):
            raise OptionError(f"--kafka-columns {text!r}: {name} is a name that ingest reserves; give another")
        if not _NAME.fullmatch(name):
            raise OptionError(f"--kafka-columns {text!r}: {name!r} is not a column name")
        if what in columns or folded(name) in map(folded, columns.values()):
            raise OptionError(f"--kafka-columns names {text!r} twice")
        columns[what] = name
    return columns


def _check_clashes(columns: Mapping[str, str], schema: AvroSchema | None) -> None:
    taken = {folded(item.name) for item in schema.struct} if schema else set()
    for what, name in columns.items():
        if folded(name) in taken:
            raise OptionError(f"the value also has a column {name}; rename the other: --kafka-columns {what}=NAME")


def _offsets(option: str, text: str, topics: Sequence[str]) -> Offsets:
    if text in ("earliest", "latest"):
        return Offsets(cast("Literal['earliest', 'latest']", text))
    if text.lstrip().startswith("{"):
        return Offsets(None, _partition_offsets(option, text, topics))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"{option} {text!r} is neither earliest, latest, a time (2026-02-10T22:00:00Z) nor "
            'JSON ({"topic": {"0": 17}})'
        ) from None
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    # Messages have milliseconds: the first one that is not before a time between two of them.
    return Offsets(-(-since // timedelta(milliseconds=1)))


def _partition_offsets(option: str, text: str, topics: Sequence[str]) -> dict[str, dict[str, int]]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{option} is not JSON: {error}") from None
    for topic, parts in given.items():
        if topics and topic not in topics:
            raise OptionError(f"{option} names the topic {topic!r}, but the source is {', '.join(topics)}")
        fits = isinstance(parts, dict) and all(
            name.isdecimal() and type(offset) is int and offset >= EARLIEST for name, offset in parts.items()
        )
        if not fits or not parts:
            raise OptionError(f'{option}: {topic!r} needs an offset by partition, e.g. {{"{topic}": {{"0": 17}}}}')
    if missing := [topic for topic in topics if topic not in given]:
        raise OptionError(f"{option} has no offsets for the topic {missing[0]!r}; -2 is the earliest, -1 the latest")
    return cast("dict[str, dict[str, int]]", given)


def _ending(text: str | None, topics: Sequence[str]) -> Offsets:
    offsets = _offsets("--ending-offsets", text or "latest", topics)
    if offsets.at == "earliest" or offsets.holds(EARLIEST):
        raise OptionError("--ending-offsets cannot be the earliest: there is no message before it")
    if isinstance(offsets.at, int):
        raise OptionError("--ending-offsets takes latest or JSON; an end by time would move while messages arrive")
    return offsets


def check_reading(source: KafkaSource, stream: bool) -> None:
    """Refuse what one kind of reading cannot do."""
    if stream and source.ending != Offsets("latest"):
        raise OptionError("--ending-offsets is for a single batch; a stream has no end")
    if stream:
        return
    if source.starting.at == "latest" or source.starting.holds(LATEST):
        raise OptionError("--starting-offsets latest is for a stream; a batch would have nothing to read")
    for name in _STREAM_OPTIONS:
        if name in source.options:
            raise OptionError(f"--read-option {name} needs --stream")
