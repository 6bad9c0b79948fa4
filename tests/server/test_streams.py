"""Streams of many clients: what they hold together, and that nothing is left when they end, vanish or stall."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

from benchmarks.synthetic import Layout
from delta_sidecar import ServerBusyError, connect
from delta_sidecar.server.budget import Budget, GoneError
from delta_sidecar.storage.opening import open_location
from delta_sidecar.storage.uri import Location
from delta_sidecar.testing import CountingStore
from delta_sidecar.testing.actions import AddFile
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.made_index import made_index
from tests.events_table import write_events
from tests.server.serving import command_of, eventually, logged, server_process, serving, write_rows

pytestmark = pytest.mark.slow

FILES = 60_000
ROWS, FILE_COUNT = 100_000, 24


# The budget


def test_who_asks_first_is_served_first() -> None:
    budget, served = Budget(1, 100), list[int]()
    held = budget.admit(60, 1)

    def ask(number: int) -> None:
        place = budget.admit(60, 10)
        served.append(number)
        place.give_back()

    asking = []
    for number in range(5):
        asking.append(threading.Thread(target=ask, args=(number,)))
        asking[-1].start()
        assert eventually(lambda n=number: budget.waiting == n + 1)
    held.give_back()
    held.give_back()
    for thread in asking:
        thread.join()
    assert served == [0, 1, 2, 3, 4]
    assert (budget.streams, budget.held_bytes, budget.waiting) == (0, 0, 0)


def test_bytes_count_as_streams_do() -> None:
    budget = Budget(10, 100)
    held = [budget.admit(40, 0), budget.admit(40, 0)]
    with pytest.raises(ServerBusyError, match="try again"):
        budget.admit(40, 0.01)
    held[0].give_back()
    budget.admit(60, 0).give_back()
    assert budget.held_bytes == 40


def test_a_client_that_goes_away_gives_up_its_place_in_the_queue() -> None:
    budget = Budget(1, 100)
    held = budget.admit(1, 0)
    with pytest.raises(GoneError):
        budget.admit(1, 10, lambda: True)
    with pytest.raises(ServerBusyError, match="requests wait"):
        Budget(1, 100, waiting=0).admit(1, 0)
    assert budget.waiting == 0
    held.give_back()


# One client


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rows")
    write_rows(root / "t", FILE_COUNT, ROWS)
    return root


class Counted:
    """Stores that count, by their place."""

    def __init__(self) -> None:
        self.stores: list[CountingStore] = []

    def __call__(self, location: Location) -> CountingStore:
        self.stores.append(CountingStore(open_location(location)))
        return self.stores[-1]

    @property
    def bytes_read(self) -> int:
        return sum(store.bytes_read for store in self.stores)

    @property
    def under_way(self) -> int:
        return sum(store.under_way for store in self.stores)

    @property
    def requests(self) -> int:
        return sum(len(store.requests) for store in self.stores)


def test_a_client_that_stalls_holds_no_more_than_its_budget(rows: Path) -> None:
    counted = Counted()
    with (
        serving({"lake": rows}, counted, stream_bytes=4 << 20, streams=1, patience=0.2, stop_seconds=0.2) as server,
        connect(server.url) as connection,
    ):
        stream = connection.table("lake/t").to_batches(batch_size=10_000)
        next(stream)
        assert eventually(lambda: is_steady(lambda: counted.bytes_read))
        read = counted.bytes_read
        assert read < 8 * ROWS * FILE_COUNT * 0.75
        assert server.health() == {"ready": True, "streams": 1, "waiting": 0, "bytes_held": 4 << 20}
        with pytest.raises(ServerBusyError, match="try again"):
            connection.table("lake/t").to_batches().read_all()
        stream.close()
        assert eventually(lambda: server.health()["streams"] == 0)
        assert connection.table("lake/t").to_batches().read_all().num_rows == ROWS * FILE_COUNT
        assert counted.under_way == 0


def test_a_client_that_takes_nothing_loses_its_place(rows: Path) -> None:
    with (
        logged() as log,
        serving({"lake": rows}, streams=1, patience=10.0, stop_seconds=0.2, stall_seconds=1.0) as server,
        connect(server.url) as connection,
    ):
        stream = connection.table("lake/t").to_batches(batch_size=10_000)
        next(stream)
        with connect(server.url) as other:
            assert other.table("lake/t").to_batches(limit=5).read_all().num_rows == 5
        with pytest.raises(ServerBusyError, match="its place was given away"):
            list(stream)
        outcomes = [line["outcome"] for line in log() if line.get("method") == "DoGet"]
        assert outcomes == ["stalled", "ok"]
        line = next(line for line in log() if line.get("outcome") == "ok" and line.get("method") == "DoGet")
        assert line["store_requests"] > 2
        assert line["store_bytes"] > 40, "what is read of local data files counts"


def test_batches_of_large_rows_are_small(tmp_path: Path) -> None:
    """A row group that is larger than a stream may hold is not read by so many rows of any size."""
    drawn, count = np.random.default_rng(3), 16_000
    made = pa.table({"x": pa.array([drawn.bytes(1_000) for _ in range(count)], pa.binary())})
    (tmp_path / "t").mkdir()
    pq.write_table(made, tmp_path / "t" / "0.parquet", use_dictionary=False, row_group_size=count)
    size = (tmp_path / "t" / "0.parquet").stat().st_size
    LogBuilder(tmp_path / "t").metadata({"x": "binary"}).commit(AddFile("0.parquet", size=size))
    with logged() as log, serving({"lake": tmp_path}) as server, connect(server.url) as connection:
        sizes = [batch.nbytes for batch in connection.table("lake/t").to_batches()]
    assert sum(sizes) > count * 1_000
    assert max(sizes) <= 2 << 20
    line = next(line for line in log() if line.get("method") == "DoGet")
    assert size * 0.9 < line["store_bytes"] < size * 1.2


def is_steady(value: Callable[[], int]) -> bool:
    before = value()
    time.sleep(0.5)
    return value() == before


def cancels(url: str) -> None:
    with connect(url) as connection, connection.table("lake/t").to_batches(batch_size=1_000) as stream:
        next(stream)


def drops(url: str) -> None:
    with flight.connect(url) as client:
        ticket = client.get_flight_info(command_of(table="lake/t", what="rows", batch_size=1_000)).endpoints[0].ticket
        client.do_get(ticket).read_chunk()


def never_reads(url: str) -> None:
    with flight.connect(url) as client:
        ticket = client.get_flight_info(command_of(table="lake/t", what="rows")).endpoints[0].ticket
        client.do_get(ticket).cancel()


def is_killed(url: str) -> None:
    program = (
        "import os, sys; from delta_sidecar import connect;"
        "next(connect(sys.argv[1]).table('lake/t').to_batches(batch_size=1000)); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, url]).returncode == -9


@pytest.mark.parametrize("leave", [cancels, drops, never_reads, is_killed])
def test_a_client_that_goes_away_stops_the_reading(leave: Callable[[str], None], rows: Path) -> None:
    counted = Counted()
    with logged() as log, serving({"lake": rows}, counted, stream_bytes=4 << 20) as server:
        leave(server.url)
        assert eventually(lambda: server.health()["streams"] == 0)
        assert server.health()["bytes_held"] == 0
        asked = counted.requests
        time.sleep(0.3)
        assert counted.requests == asked
        assert counted.under_way == 0
        assert not [thread for thread in threading.enumerate() if thread.name == "delta-sidecar-rows"]
    (line,) = [line for line in log() if line.get("method") == "DoGet"]
    assert line["outcome"] in ("gone", "ok")
    assert line["outcome"] == "gone" or leave is never_reads


def test_a_client_that_goes_away_while_it_waits(rows: Path) -> None:
    with logged() as log, serving({"lake": rows}, streams=1, stream_bytes=1 << 20, stop_seconds=0.2) as server:
        with connect(server.url) as first, first.table("lake/t").to_batches(batch_size=1_000) as held:
            next(held)
            with flight.connect(server.url) as client:
                ticket = client.get_flight_info(command_of(table="lake/t", what="rows")).endpoints[0].ticket
                with pytest.raises(flight.FlightTimedOutError):
                    client.do_get(ticket, flight.FlightCallOptions(timeout=0.5))
            assert eventually(lambda: server.health()["waiting"] == 0)
        assert eventually(lambda: server.health()["streams"] == 0)
    assert [line["outcome"] for line in log() if line.get("method") == "DoGet"] == ["gone", "gone"]


# A hundred


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("indexed")
    made_index(root / "t", Layout(100, 3), FILES)
    write_events(root / "events")
    return root


VANISHING = """
import os, sys, threading
import pyarrow.flight as flight
url, count = sys.argv[1], int(sys.argv[2])
begun = []
def begin():
    client = flight.connect(url)
    info = client.get_flight_info(flight.FlightDescriptor.for_command(b'{"table": "lake/t", "batch_size": 500}'))
    reader = client.do_get(info.endpoints[0].ticket)
    reader.read_chunk()
    begun.append((client, reader))
    done.release()
done = threading.Semaphore(0)
for _ in range(count):
    threading.Thread(target=begin, daemon=True).start()
for _ in range(count // 4):
    done.acquire(timeout=60)
os._exit(0)
"""


@pytest.mark.long
def test_a_hundred_clients_half_of_which_vanish(indexed: Path) -> None:
    """Some of those that vanish are served then, others wait."""

    def read(_: int) -> int:
        with connect(server.url) as connection:
            return sum(batch.num_rows for batch in connection.table("lake/t").scan_files("m0 < 50", columns=["path"]))

    with server_process(f"lake={indexed}", "--streams", 16, "--metrics-port", 0, "--wait", 120) as server:
        expected = read(0)
        with ThreadPoolExecutor(10) as pool:
            assert list(pool.map(read, range(10))) == [expected] * 10
        process = psutil.Process(server.process.pid)
        assert eventually(lambda: busy(server.url) == (0, 0))
        time.sleep(1.0)
        threads, files = server.threads(), server.descriptors()
        with ThreadPoolExecutor(50) as pool:
            others = subprocess.Popen([sys.executable, "-c", VANISHING, server.url, "50"])
            assert list(pool.map(read, range(50))) == [expected] * 50
        assert others.wait(60) == 0
        assert eventually(lambda: busy(server.url) == (0, 0), 20)
        assert eventually(lambda: server.threads() <= threads + 4, 20), (threads, server.threads())
        assert eventually(lambda: server.descriptors() <= files + 4, 20), (files, server.descriptors())
        before = requests(server.metrics_port)
        used = sum(process.cpu_times()[:2])
        time.sleep(1.0)
        assert requests(server.metrics_port) == before
        assert sum(process.cpu_times()[:2]) - used < 0.3
        assert server.peak_mb() < 300
        assert server.stop() == 0


def busy(url: str) -> tuple[int, int]:
    with connect(url) as connection:
        health = connection.health()
    return health["streams"], health["waiting"]


def requests(port: int | None) -> str:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return next(line for line in lines if line.startswith("delta_lazy_store_requests_total"))


def test_streams_beyond_the_budget_wait_their_turn(indexed: Path) -> None:
    with serving({"lake": indexed}, streams=2, patience=20.0) as server, ExitStack() as stack:
        most = 0

        def read(_: int) -> int:
            nonlocal most
            with connect(server.url) as connection:
                total = 0
                for batch in connection.table("lake/t").scan_files(limit=5_000, batch_size=500):
                    most = max(most, server.health()["streams"])
                    total += batch.num_rows
                return total

        pool = stack.enter_context(ThreadPoolExecutor(8))
        assert list(pool.map(read, range(8))) == [5_000] * 8
        assert most == 2
