"""Fixtures that start a server or a session, once for all tests of a worker, and stop it after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.integration import servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _require(present: bool, what: str) -> None:
    if not present:
        pytest.fail(f"{what} is not set up: run `make setup`", pytrace=False)


@pytest.fixture
def guarded_s3(s3: servers.ObjectServer) -> Iterator[servers.ObjectServer]:
    """The S3 server, which asks for a known key while the test runs."""
    servers.guard_s3(s3, guarded=True)
    try:
        yield s3
    finally:
        servers.guard_s3(s3, guarded=False)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real delta-spark session."""
    _require(bool(servers.delta_jars()), "Delta for Spark")
    with servers.spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.SparkCluster]:
    """A standalone cluster of two workers. A process has one Spark: drivers are processes of their own."""
    _require(bool(servers.delta_jars()), "Delta for Spark")
    with servers.spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server. Clients are processes of their own."""
    _require(bool(servers.delta_jars()), "Delta for Spark")
    with servers.spark_connect(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.KafkaBroker]:
    """A Kafka broker without topics."""
    _require(bool(servers.broker_jars()), "the Kafka broker")
    with servers.kafka_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def kusto() -> Iterator[servers.KustoParser]:
    """Microsoft's parser of KQL."""
    _require(servers.KUSTO_LIBRARY.exists(), "Kusto's parser")
    with servers.kusto_parser() as parser:
        yield parser
