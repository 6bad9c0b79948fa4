"""The fixtures themselves: each serves what its tests will ask of it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import deltalake
import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import from_url

from tests.integration.servers import ObjectServer, ServerNotReady, azurite_server, free_port, running, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"x": pa.array([1, 2, 3], pa.int64())})


def check_put_if_absent(server: ObjectServer) -> None:
    config = {key: value for key, value in server.storage_options.items() if not key.endswith("_allow_http")}
    store = from_url(server.uri("smoke"), config=config, client_options={"allow_http": True})
    obstore.put(store, "a", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a", b"second", mode="create")
    assert bytes(obstore.get(store, "a").bytes()) == b"first"


def check_real_writer(server: ObjectServer) -> None:
    uri = server.uri("written")
    deltalake.write_deltalake(uri, ROWS, storage_options=server.storage_options)
    table = deltalake.DeltaTable(uri, storage_options=server.storage_options)
    assert table.version() == 0
    assert table.to_pyarrow_table() == ROWS


def test_azurite_puts_if_absent(azurite: ObjectServer) -> None:
    check_put_if_absent(azurite)


def test_azurite_holds_a_table(azurite: ObjectServer) -> None:
    check_real_writer(azurite)


def test_s3_puts_if_absent(s3: ObjectServer) -> None:
    check_put_if_absent(s3)


def test_s3_holds_a_table(s3: ObjectServer) -> None:
    check_real_writer(s3)


@pytest.mark.server
@pytest.mark.parametrize("start", [azurite_server, s3_server], ids=["azurite", "s3"])
def test_a_server_is_on_loopback_and_gone_after_its_block(
    start: Callable[[], AbstractContextManager[ObjectServer]],
) -> None:
    with start() as server:
        port = urlsplit(server.endpoint).port
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_a_command_that_ends_at_once_is_reported() -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServerNotReady, match="no such thing"), running(["sh", "-c", "echo no such thing"], endpoint):
        pass


def test_spark_writes_what_deltalake_reads(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    spark.range(10).write.format("delta").save(uri)
    spark.sql(f"DELETE FROM delta.`{uri}` WHERE id >= 7")
    table = deltalake.DeltaTable(uri)
    assert table.version() == 1
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(7))


def test_spark_session_is_local_and_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sql("SELECT CAST(TIMESTAMP'2026-01-01 00:00:00' AS LONG) AS t").first() == (1767225600,)
