"""What fails behind the server, and the server's own end: clients get typed errors, and the others go on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.flight as flight
import pytest

from delta_sidecar import (
    CorruptDataError,
    ServerBusyError,
    ServerError,
    StorageError,
    StoreUnavailableError,
    connect,
)
from delta_sidecar.server.running import ServerOptions, start_server
from delta_sidecar.storage.opening import open_location
from delta_sidecar.storage.store import Buffer, Store
from delta_sidecar.storage.uri import Location
from delta_sidecar.testing import CountingStore
from tests.events_table import write_events
from tests.integration.servers import free_port, running
from tests.server.serving import command_of, eventually, logged, server_process, serving, write_rows


class DyingStore(CountingStore):
    """Answers until it is told to die."""

    is_dead = False

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        self._check()
        return super().get_range(path, start, length)

    def get(self, path: str) -> Buffer:
        self._check()
        return super().get(path)

    def _check(self) -> None:
        if DyingStore.is_dead:
            raise StoreUnavailableError("no answer from the store; try again")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_rows(tmp_path / "rows", files=30, rows=50_000)
    write_events(tmp_path / "events")
    return tmp_path


def test_a_store_that_dies_in_mid_stream(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(location: Location) -> Store:
        return DyingStore(open_location(location)) if location.path.endswith("rows") else open_location(location)

    with (
        logged() as log,
        serving({"lake": lake}, opened, stream_bytes=2 << 20) as server,
        connect(server.url) as connection,
    ):
        stream = connection.table("lake/rows").to_batches(batch_size=5_000)
        next(stream)
        monkeypatch.setattr(DyingStore, "is_dead", True)
        with pytest.raises(StoreUnavailableError, match="no answer from the store"):
            list(stream)
        assert eventually(lambda: server.health()["streams"] == 0)
        assert connection.table("lake/events").to_pyarrow_table().num_rows == 8
        monkeypatch.setattr(DyingStore, "is_dead", False)
        assert connection.table("lake/rows").to_pyarrow_table().num_rows == 1_500_000
    (line,) = [line for line in log() if line.get("error") == "StoreUnavailableError"]
    assert line["outcome"] == "error"
    assert line["batches"] > 0


@pytest.mark.server
def test_the_server_of_a_store_is_killed_in_mid_stream(lake: Path) -> None:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    options = {
        "aws_access_key_id": "testing", "aws_secret_access_key": "sesame-secret", "aws_region": "us-east-1",
        "aws_endpoint": endpoint, "aws_allow_http": "true", "aws_virtual_hosted_style_request": "false",
        "max_retries": "1", "retry_timeout": "1s", "connect_timeout": "1s",
    }  # fmt: skip
    import obstore
    from obstore.store import S3Store

    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with running(["sleep", "60"], f"{endpoint}/moto-api/"):
            config = {name.removeprefix("aws_"): value for name, value in options.items() if name.startswith("aws_")}
            allowed = config.pop("allow_http")
            store = S3Store("lake", config=config, client_options={"allow_http": allowed == "true"})  # type: ignore[arg-type]
            import urllib.request

            urllib.request.urlopen(urllib.request.Request(f"{endpoint}/lake", method="PUT")).close()
            for file in sorted((lake / "rows").rglob("*.*")):
                obstore.put(store, f"rows/{file.relative_to(lake / 'rows')}", file.read_bytes())
        both = {"remote": "s3://lake", "here": str(lake)}
        with (
            logged() as log,
            start_server(both, ServerOptions(port=0, stream_bytes=2 << 20), {"remote": options}) as server,
            connect(server.url) as connection,
        ):
            assert connection.tables("remote") == ["remote/rows"]
            stream = connection.table("remote/rows").to_batches(batch_size=5_000)
            next(stream)
            process.send_signal(signal.SIGKILL)
            process.wait()
            with pytest.raises(StorageError):
                list(stream)
            assert eventually(lambda: server.health()["streams"] == 0)
            assert connection.table("here/events").to_pyarrow_table().num_rows == 8
            with pytest.raises(StorageError):
                connection.table("remote/rows")
        assert "sesame" not in str(log())
    finally:
        process.kill()
        process.wait()


def test_a_broken_file_is_told_as_such(lake: Path) -> None:
    (lake / "rows" / "7.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with serving({"lake": lake}) as server, connect(server.url) as connection:
        with pytest.raises(CorruptDataError, match=r"7\.parquet"):
            connection.table("lake/rows").to_pyarrow_table()
        assert connection.table("lake/rows").scan_files().read_all().num_rows == 30


def test_an_error_of_ours_that_is_a_bug_says_nothing_but_its_id(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("with a secret in it")

    monkeypatch.setattr("delta_sidecar.server.flight_service.described", broken)
    with logged() as log, serving({"lake": lake}) as server, connect(server.url) as connection:
        with pytest.raises(ServerError, match="internal error") as raised:
            connection.table("lake/events")
        assert "secret" not in str(raised.value)
        (line,) = [line for line in log() if line["event"] == "internal error"]
        assert "ZeroDivisionError" in line["exception"]
        assert line["request_id"] in str(raised.value)


def test_a_server_that_is_not_there() -> None:
    with connect("grpc://127.0.0.1:1") as connection, pytest.raises(ServerError, match="cannot be reached"):
        connection.table("lake/events")


# The end


def test_streams_finish_before_the_server_stops(lake: Path) -> None:
    with serving({"lake": lake}, stop_seconds=20.0) as server, connect(server.url) as connection:
        stream = connection.table("lake/rows").to_batches(batch_size=5_000)
        rows = next(stream).num_rows
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert eventually(lambda: not server.health()["ready"])
        with pytest.raises(ServerBusyError, match="stopping"):
            connection.table("lake/events")
        rows += sum(batch.num_rows for batch in stream)
        stopping.join(10)
        assert rows == 1_500_000
        assert not stopping.is_alive()


@pytest.mark.slow
def test_streams_that_take_too_long_are_ended(lake: Path) -> None:
    with serving({"lake": lake}) as server, connect(server.url) as connection:
        stream = connection.table("lake/rows").to_batches(batch_size=5_000)
        next(stream)
        began = time.monotonic()
        assert server.stop(0.3) is False
        assert time.monotonic() - began < 5
        with pytest.raises((ServerBusyError, ServerError)):
            list(stream)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_stops_the_process(lake: Path, number: int) -> None:
    with server_process(f"lake={lake}", "--stop-seconds", 20) as server, connect(server.url) as connection:
        stream = connection.table("lake/rows").to_batches(batch_size=5_000)
        rows = next(stream).num_rows
        server.process.send_signal(number)
        rows += sum(batch.num_rows for batch in stream)
        assert rows == 1_500_000
        assert server.process.wait(20) == 0
        assert [line["event"] for line in server.lines()][-1] == "stopped"


@pytest.mark.slow
def test_a_client_that_takes_nothing_does_not_keep_the_process(lake: Path) -> None:
    with (
        server_process(f"lake={lake}", "--stop-seconds", 0.2, "--stream-memory", "1MB") as server,
        flight.connect(server.url) as client,
    ):
        info = client.get_flight_info(command_of(table="lake/rows", what="rows"))
        reader = client.do_get(info.endpoints[0].ticket)
        reader.read_chunk()
        assert server.stop() == 0
        del reader
