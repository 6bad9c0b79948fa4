"""Servers the tests talk to, each a process of its own on a free loopback port, stopped when done."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / "jars"
KAFKA = ROOT / ".cache" / "kafka"
S3_JARS = Path(os.environ.get("DELTA_SIDECAR_S3_JARS", ROOT / ".cache" / "s3-jars"))
KUSTO = ROOT / ".cache" / "kusto"
KUSTO_LIBRARY = KUSTO / "node_modules" / "@kusto" / "language-service-next"
S3_MAIN = ROOT / "tests" / "integration" / "s3_server.py"
AZURITE_MAIN = ROOT / ".cache" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"

ARCHIVE = ROOT / ".cache" / "spark.jsa"
WORKER_DAEMON = "tests.integration.worker_daemon"


def _archived() -> str:
    """Options that map Spark's classes out of an archive; a JVM that cannot use it does without, and says nothing."""
    if " " in str(ARCHIVE) or not ARCHIVE.exists() or not ARCHIVE.stat().st_size:
        return ""
    return f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


_FORKED = " -Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop runs `chmod` for every file it makes on a local disk: this starts it without a helper process in between."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""A session of a minute gains nothing from the optimising compiler: without it all takes half the time. One of an hour
does: see `make ingest-cases`. Without it the room for compiled code is a fifth, which Spark fills: then code is thrown
away and compiled again and again, unless there is more room."""
JVM = os.environ.get("DELTA_SIDECAR_TEST_JVM", QUICK) + _FORKED + _archived()
DRIVER_JVM = f"{JVM} -XX:NewRatio=1"
"""Most of what a query makes is garbage when it ends: with half of a driver's heap for it, less is copied."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling code for tables of ten rows takes a quarter of the time."""

FORGETFUL = {
    "spark.databricks.delta.delta.log.cacheSize": "20",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}
"""A session sees hundreds of tables. Delta keeps the plans of 10,000 of them for an hour: after 400 random landings
they filled a heap of 1.5 GB, and the JVM did little but collect garbage."""

UNCHECKED_FILES = {
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""Local files without checksum files beside them: Hadoop runs `chmod` four times for each file that has one."""

UNEXPLAINED = {
    "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.maxPlanStringLength": "100",
    "spark.sql.ui.explainMode": "simple",
}
"""Plans are neither checked after each rule nor written out for a page that nobody opens, and Delta does not replay the
log after each commit of a session in another zone than UTC, to check the files that it noted beside the commit."""

AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's published account and key: no secret."""


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A running object server with one empty container (bucket)."""

    base_uri: str
    """The container's URI; tables go below it."""
    endpoint: str
    storage_options: dict[str, str] = field(repr=False)

    def uri(self, name: str) -> str:
        return f"{self.base_uri}/{name}"


class ServerNotReady(Exception):
    """The process ended, or did not answer in time."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint, timeout=1).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()
    except OSError:
        return False
    return True


def _await(process: subprocess.Popen[bytes], ready: Callable[[], bool], what: str, log: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ServerNotReady(f"{what} does not answer; its log ends: {log.read_text()[-1000:]}")
        time.sleep(0.05)


@contextmanager
def running(command: Sequence[str], endpoint: str, seconds: float = 60.0) -> Iterator[None]:
    """Run `command` until the block ends; enter it when `endpoint` answers over HTTP."""
    with (
        tempfile.TemporaryDirectory(prefix="sidecar-server-") as name,
        _process(command, Path(name), lambda: _answers(endpoint), endpoint, seconds),
    ):
        yield


@contextmanager
def _process(
    command: Sequence[str],
    workdir: Path,
    ready: Callable[[], bool],
    what: str,
    seconds: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a group of its own, so that it goes together with what it started."""
    log = Path(workdir, f"{what.rpartition('/')[2]}.log")
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=workdir,
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
            env=os.environ | (environment or {}),
            start_new_session=True,
        )
    try:
        _await(process, ready, what, log, seconds)
        yield process
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except ProcessLookupError:
            process.wait()
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def azurite_server(container: str = "lake") -> Iterator[ObjectServer]:
    """The Azure Blob emulator, in memory, without telemetry."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}"
    command = [
        "node", str(AZURITE_MAIN), "--blobHost", "127.0.0.1", "--blobPort", str(port),
        "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent",
    ]  # fmt: skip
    options = {
        "azure_storage_account_name": AZURITE_ACCOUNT,
        "azure_storage_account_key": AZURITE_KEY,
        "azure_storage_endpoint": endpoint,
        "azure_allow_http": "true",
    }
    with running(command, endpoint):
        create_azure_container(endpoint, container)
        yield ObjectServer(f"az://{container}", endpoint, options)


@contextmanager
def s3_server(bucket: str = "lake") -> Iterator[ObjectServer]:
    """moto's S3 server, in memory."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    # Without -P the directory of the program comes first, where `deltalake` is a directory of tests.
    command = [sys.executable, "-P", str(S3_MAIN), "-H", "127.0.0.1", "-p", str(port)]
    options = {
        "aws_access_key_id": "testing",
        "aws_secret_access_key": "testing",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }
    with running(command, f"{endpoint}/moto-api/"):
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")).close()
        yield ObjectServer(f"s3://{bucket}", endpoint, options)


def guard_s3(server: ObjectServer, guarded: bool) -> None:
    """Make moto check who asks, or take every key."""
    headers = {"Content-Type": "application/octet-stream"}
    body = b"0" if guarded else b"inf"
    switch = urllib.request.Request(f"{server.endpoint}/moto-api/reset-auth", body, headers, method="POST")
    urllib.request.urlopen(switch).close()


def create_azure_container(endpoint: str, container: str) -> None:
    """One signed request: obstore makes objects, not containers."""
    import hashlib
    import hmac
    from email.utils import formatdate

    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    canonical_headers = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    resource = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{container}\nrestype:container"
    text = f"PUT{chr(10) * 12}{canonical_headers}{resource}"
    digest = hmac.digest(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{endpoint}/{container}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT")).close()


def delta_jars() -> list[Path]:
    """Spark's jars as `make setup` resolved them: Delta's, and the Kafka connector's."""
    return sorted(JARS.glob("*.jar"))


def s3_jars() -> list[Path]:
    """Hadoop's driver for S3 as `make setup` resolved it, for who writes to S3 with Spark."""
    return sorted(S3_JARS.glob("*.jar"))


@contextmanager
def spark_session(
    workdir: Path, cores: int = 2, memory: str = "1500m", more_jars: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """A local Delta session: UTC, quiet, loopback only, everything it writes below `workdir`."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("delta-sidecar-tests")
    settings = spark_settings(workdir, memory)
    settings["spark.jars"] = ",".join([settings["spark.jars"], *map(str, more_jars)])
    settings["spark.python.daemon.module"] = WORKER_DAEMON
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Tasks outside of a query, such as those that replay Delta's log, see the properties of their thread alone.
    for name, value in INTERPRETED.items():
        session.sparkContext.setLocalProperty(name, value)
    try:
        yield session
    finally:
        _stop(session)


def spark_settings(workdir: Path, memory: str) -> dict[str, str]:
    return {
        "spark.jars": ",".join(map(str, delta_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"{DRIVER_JVM} -Duser.timezone=UTC -Djava.io.tmpdir={workdir}",
        "spark.local.dir": str(workdir),
        "spark.log.level": "ERROR",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.warehouse.dir": str(workdir / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The place in the code where each column was made: Spark looks it up in five calls to its JVM.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        **FORGETFUL,
        **UNCHECKED_FILES,
        **UNEXPLAINED,
        **INTERPRETED,
    }


def quick_arguments() -> list[str]:
    """Arguments of the command for a Spark of its own that is quick to start and with tables of ten rows."""
    settings = {"spark.driver.extraJavaOptions": DRIVER_JVM} | UNCHECKED_FILES | UNEXPLAINED | INTERPRETED
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


def _stop(session: SparkSession) -> None:
    """Stop the session and its JVM, which would otherwise live as long as this process."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is not None and (process := getattr(gateway, "proc", None)) is not None:
        gateway.shutdown()
        process.stdin.close()
        process.wait(30)
        from pyspark import SparkContext

        SparkContext._gateway = None
        SparkContext._jvm = None


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A standalone cluster on loopback."""

    master: str
    """For `--master`."""
    workers: tuple[int, ...]
    """Process ids of the workers; executors are their children."""
    settings: dict[str, str]
    """What a driver needs beside the master."""


@contextmanager
def spark_cluster(workdir: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """A master and workers of one core and one gigabyte each, from the pip package."""
    port, web = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, kind: str, page: int, alive: int, *more: str) -> int:
            command = [str(_spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
            command += ["--host", "127.0.0.1", "--webui-port", str(page), *more]
            environment = _daemon_environment(workdir / name)
            process = _process(command, workdir, lambda: _alive_workers(web) >= alive, name, 60, environment)
            return stack.enter_context(process).pid

        start("master", "master.Master", web, 0, "--port", str(port))
        size = ("--cores", "1", "--memory", "1g")
        pids = [
            start(f"worker-{n}", "worker.Worker", free_port(), n, *size, "--work-dir", f"{workdir}/work-{n}", master)
            for n in range(1, workers + 1)
        ]
        settings = spark_settings(workdir, "700m") | {"spark.sql.shuffle.partitions": "2"}
        settings |= {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": JVM}
        yield SparkCluster(master, tuple(pids), settings)


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _daemon_environment(local: Path) -> dict[str, str]:
    local.mkdir(parents=True, exist_ok=True)
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": JVM,
        "SPARK_LOCAL_DIRS": str(local),
        "PYSPARK_PYTHON": sys.executable,
    }


def _alive_workers(web: int) -> int:
    """As the master's page has it; -1 while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):
        return -1


@contextmanager
def spark_connect(workdir: Path) -> Iterator[str]:
    """A Spark Connect server with Delta; gives the address for `SparkSession.builder.remote`."""
    port = free_port()
    settings = spark_settings(workdir, "1g") | {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [str(_spark_home() / "bin" / "spark-submit")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with _process(command, workdir, lambda: _accepts(port), "connect", 60, environment):
        yield f"sc://127.0.0.1:{port}"


@dataclass(frozen=True, slots=True)
class KafkaBroker:
    """A broker with two listeners on loopback; topics are made by who writes to them first."""

    address: str
    """For who need not say who they are."""
    guarded: str
    """Of the listener that asks for a name and a password."""
    user: str
    password: str = field(repr=False)


@contextmanager
def kafka_broker(workdir: Path) -> Iterator[KafkaBroker]:
    """One node that is broker and controller at once, its data below `workdir`."""
    plain, guarded, controller = free_port(), free_port(), free_port()
    broker = KafkaBroker(f"127.0.0.1:{plain}", f"127.0.0.1:{guarded}", "reader", f"pw-{uuid.uuid4().hex}")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": (
            f"PLAINTEXT://{broker.address},SASL_PLAINTEXT://{broker.guarded},CONTROLLER://127.0.0.1:{controller}"
        ),
        "advertised.listeners": f"PLAINTEXT://{broker.address},SASL_PLAINTEXT://{broker.guarded}",
        "listener.security.protocol.map": ("PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} user_{broker.user}="{broker.password}";',
        "log.dirs": str(workdir / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "num.partitions": "1",
    }
    properties = workdir / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    classes = os.pathsep.join(map(str, broker_jars()))
    java = ["java", "-Xmx256m", *JVM.split(), "-cp", classes]
    # An id that began with a dash would be taken for an option.
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    format_data = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
    subprocess.run(format_data, cwd=workdir, capture_output=True, check=True)
    with _process([*java, "kafka.Kafka", str(properties)], workdir, lambda: _accepts(plain), "kafka"):
        yield broker


def broker_jars() -> list[Path]:
    """The Kafka broker's jars as `make setup` resolved them."""
    return sorted(KAFKA.glob("*.jar"))


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Parsed:
    """What Microsoft's parser thinks of a text."""

    kind: str
    diagnostics: list[str]
    literals: list[str | float]
    """The values of its literals, in their order."""


class KustoParser:
    """Microsoft's parser of KQL, in a process that is asked a text at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def parse(self, text: str) -> Parsed:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise ServerNotReady("Kusto's parser ended; what it said is above")
        return Parsed(**json.loads(answer))


@contextmanager
def kusto_parser() -> Iterator[KustoParser]:
    """The parser in Node: it takes seconds to load, and milliseconds for a text."""
    command = ["node", str(ROOT / "scripts" / "kusto" / "parse.js"), str(KUSTO)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield KustoParser(process)
        finally:
            process.kill()
