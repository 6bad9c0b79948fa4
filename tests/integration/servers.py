"""Servers the tests talk to, each a process of its own on a free loopback port, stopped when done."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / "jars"
AZURITE_MAIN = ROOT / ".cache" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A session of a minute gains nothing from the optimising compiler: without it all takes half the time."""

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


def _await(process: subprocess.Popen[bytes], endpoint: str, log: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _answers(endpoint):
        if process.poll() is not None or time.monotonic() > deadline:
            raise ServerNotReady(f"{endpoint} does not answer; its log ends: {log.read_text()[-1000:]}")
        time.sleep(0.05)


@contextmanager
def running(command: Sequence[str], endpoint: str, seconds: float = 60.0) -> Iterator[None]:
    """Run `command` until the block ends; enter it when `endpoint` answers over HTTP."""
    with tempfile.TemporaryDirectory(prefix="sidecar-server-") as name:
        log = Path(name, "log")
        with log.open("wb") as sink:
            process = subprocess.Popen(command, cwd=name, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
        try:
            _await(process, endpoint, log, seconds)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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
    """moto's S3 server."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
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


def create_azure_container(endpoint: str, container: str) -> None:
    """One signed request: obstore makes objects, not containers."""
    import base64
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
    """Delta's jars as `make setup` resolved them."""
    return sorted(JARS.glob("*.jar"))


@contextmanager
def spark_session(workdir: Path, cores: int = 2, memory: str = "1500m") -> Iterator[SparkSession]:
    """A local Delta session: UTC, quiet, loopback only, everything it writes below `workdir`."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("delta-sidecar-tests")
    for name, value in spark_settings(workdir, memory).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
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
        "spark.driver.extraJavaOptions": f"{JVM} -Duser.timezone=UTC -Djava.io.tmpdir={workdir}",
        "spark.local.dir": str(workdir),
        "spark.log.level": "ERROR",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(workdir / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


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
