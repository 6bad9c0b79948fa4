"""Stores on real servers: the contract, what goes wrong, and what it costs."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from delta_sidecar.errors import AccessDeniedError, ObjectNotFoundError, StorageError, StoreUnavailableError
from delta_sidecar.storage import ByteRange, Store, open_store
from delta_sidecar.storage.ranged_file import RangedFile
from tests.integration.object_store.proxy import Cut, Proxy, Throttle, proxied
from tests.integration.servers import AZURITE_KEY, ObjectServer, free_port
from tests.storage.contract import StoreContract, listed, streamed

QUICK = {"backoff_config.init_backoff": "1ms", "backoff_config.max_backoff": "5ms"}
DATA = random.Random(0).randbytes(3_000_000)

READS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: bytes(store.get("a")),
    "get_stream": lambda store: streamed(store, "a"),
    "get_range": lambda store: bytes(store.get_range("a", 0, len(DATA))),
    "get_ranges": lambda store: b"".join(
        map(bytes, store.get_ranges("a", [ByteRange(0, 1_000_000), ByteRange(1_000_000, 2_000_000)]))
    ),
}
VERBS: dict[str, Callable[[Store], object]] = {
    **READS,
    "head": lambda store: store.head("a"),
    "list_after": lambda store: listed(store, "_delta_log/", "_delta_log/1"),
    "put_if_absent": lambda store: store.put_if_absent("a", b"x"),
    "delete": lambda store: store.delete("a"),
}


def place(server: ObjectServer, **options: str) -> Store:
    """An empty table root on a server."""
    return open_store(
        server.uri(f"{uuid.uuid4().hex}/a table #1 100% é"), {**server.storage_options, **QUICK, **options}
    )


class ServerContract(StoreContract):
    """What holds on every server."""

    more_than_a_page: int
    """Objects whose listing takes two answers of the server, if that is not too many to write."""

    @pytest.fixture
    def store(self, server: ObjectServer) -> Store:
        return place(server)

    @pytest.fixture
    def behind(self, server: ObjectServer) -> Iterator[tuple[ObjectServer, Proxy]]:
        with proxied(server) as pair:
            yield pair

    def test_a_listing_of_several_pages_streams(self, server: ObjectServer, behind: tuple[ObjectServer, Proxy]) -> None:
        uri = server.uri(uuid.uuid4().hex)
        names = [f"_delta_log/{i:020d}.json" for i in range(self.more_than_a_page)]
        writer = open_store(uri, server.storage_options)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: writer.put_if_absent(name, b""), names))
        store, proxy = open_store(uri, behind[0].storage_options), behind[1]
        pages = store.list_after("_delta_log/", names[9])
        first = next(pages)
        assert first[0].path == names[10]
        assert [m.path for m in first] + [m.path for page in pages for m in page] == names[10:]
        assert len(proxy.requests) <= 2

    @pytest.mark.parametrize("verb", [*READS, "list_after", "put_if_absent"])
    def test_a_missing_container_is_named(self, server: ObjectServer, verb: str) -> None:
        store = open_store(f"{server.base_uri}-missing/t", server.storage_options)
        with pytest.raises(StorageError, match=r"(bucket|container) 'lake-missing' does not exist") as caught:
            VERBS[verb](store)
        assert type(caught.value) is StorageError

    def test_the_head_of_a_missing_container_does_not_say_what_is_missing(self, server: ObjectServer) -> None:
        with pytest.raises(ObjectNotFoundError, match="lake-missing/t/a does not exist"):
            open_store(f"{server.base_uri}-missing/t", server.storage_options).head("a")

    @pytest.mark.parametrize("verb", VERBS)
    def test_throttling_is_waited_out(self, behind: tuple[ObjectServer, Proxy], verb: str) -> None:
        server, proxy = behind
        store = place(server)
        if verb != "put_if_absent":
            store.put_if_absent("a", DATA)
        expected = DATA if verb in READS else None
        proxy.requests.clear()
        proxy.faults.extend([Throttle()] * 3)
        answer = VERBS[verb](store)
        assert not proxy.faults
        assert len(proxy.requests) <= 6
        assert expected is None or answer == expected

    @pytest.mark.parametrize("verb", VERBS)
    def test_throttling_without_end_is_given_up(self, behind: tuple[ObjectServer, Proxy], verb: str) -> None:
        server, proxy = behind
        store = place(server, max_retries="4")
        proxy.forever = Throttle()
        with pytest.raises(StoreUnavailableError, match=r"503.*after 5 attempts") as caught:
            VERBS[verb](store)
        assert "\n" not in str(caught.value)
        assert len(proxy.requests) == 5

    @pytest.mark.parametrize("verb", READS)
    @pytest.mark.parametrize("after", [0, 1, 100_000, len(DATA) - 1])
    def test_a_cut_connection_is_mended(self, behind: tuple[ObjectServer, Proxy], verb: str, after: int) -> None:
        server, proxy = behind
        store = place(server)
        store.put_if_absent("a", DATA)
        proxy.requests.clear()
        proxy.faults.extend([Cut(after)] * 2)
        assert READS[verb](store) == DATA
        assert not proxy.faults
        assert len(proxy.requests) <= 4

    def test_a_cut_stream_is_resumed_not_begun_again(self, behind: tuple[ObjectServer, Proxy]) -> None:
        server, proxy = behind
        store = place(server)
        store.put_if_absent("a", DATA)
        proxy.sent = 0
        proxy.faults.extend([Cut(1_000_000), Cut(500_000)])
        chunks = [len(chunk) for chunk in store.get_stream("a", 50_000)]
        assert sum(chunks) == len(DATA)
        assert proxy.sent <= len(DATA) + 2 * 200_000

    def test_a_stream_that_is_left_stops_the_transfer(
        self, server: ObjectServer, behind: tuple[ObjectServer, Proxy]
    ) -> None:
        uri = server.uri(uuid.uuid4().hex)
        open_store(uri, server.storage_options).put_if_absent("a", bytes(32 << 20))
        stream = open_store(uri, behind[0].storage_options).get_stream("a", 100_000)
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        sent = -1
        while sent != behind[1].sent:
            sent = behind[1].sent
            time.sleep(0.3)
        assert 100_000 <= sent < 24 << 20

    @pytest.mark.parametrize("verb", READS)
    def test_a_connection_cut_again_and_again_is_given_up(self, behind: tuple[ObjectServer, Proxy], verb: str) -> None:
        server, proxy = behind
        store = place(server, max_retries="3")
        store.put_if_absent("a", DATA)
        proxy.requests.clear()
        proxy.forever = Cut(0)
        with pytest.raises(StoreUnavailableError, match="after 4 attempts"):
            READS[verb](store)
        assert len(proxy.requests) == 4

    def test_a_put_whose_answer_is_cut_off_has_succeeded(self, behind: tuple[ObjectServer, Proxy]) -> None:
        server, proxy = behind
        store = place(server)
        proxy.faults.append(Cut(-1))
        assert store.put_if_absent("a", DATA).size == len(DATA)
        assert bytes(store.get("a")) == DATA

    def test_a_listing_that_is_cut_is_complete(self, behind: tuple[ObjectServer, Proxy]) -> None:
        server, proxy = behind
        store = place(server)
        for index in range(20):
            store.put_if_absent(f"{index:02d}", b"")
        proxy.faults.extend([Cut(200), Throttle(), Cut(0)])
        assert listed(store) == [f"{i:02d}" for i in range(20)]

    @pytest.mark.parametrize("verb", VERBS)
    def test_nobody_listens(self, server: ObjectServer, verb: str) -> None:
        dead = f"http://127.0.0.1:{free_port()}"
        options = {k: dead if "endpoint" in k else v for k, v in server.storage_options.items()}
        store = open_store(server.uri("t"), {**options, **QUICK, "max_retries": "1"})
        with pytest.raises(StoreUnavailableError, match=f"no answer from the store at {dead}.*after 2 attempts"):
            VERBS[verb](store)

    def test_a_name_nobody_knows(self, server: ObjectServer) -> None:
        options = {k: "http://nowhere.invalid" if "endpoint" in k else v for k, v in server.storage_options.items()}
        store = open_store(server.uri("t"), {**options, **QUICK, "max_retries": "1"})
        with pytest.raises(StoreUnavailableError, match=r"nowhere\.invalid.*check endpoint and network"):
            store.get("a")

    def test_a_server_that_stalls(self, server: ObjectServer) -> None:
        import socket

        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
            options = {k: endpoint if "endpoint" in k else v for k, v in server.storage_options.items()}
            store = open_store(server.uri("t"), {**options, **QUICK, "max_retries": "1", "timeout": "200ms"})
            with pytest.raises(StoreUnavailableError, match="after 2 attempts"):
                store.get("a")

    def test_a_ranged_file_over_a_shaky_line(self, behind: tuple[ObjectServer, Proxy]) -> None:
        server, proxy = behind
        store = place(server)
        store.put_if_absent("a", DATA)
        proxy.faults.extend([Cut(10), Throttle(), Cut(70_000), Throttle()])
        with RangedFile(store, "a", len(DATA), block_size=256 << 10) as file:
            file.prepare([ByteRange(1000, 1_500_000), ByteRange(2_000_000, 900_000)])
            assert bytes(file.read_at(1000, 1_500_000)) == DATA[1000:1_501_000]
            assert bytes(file.read_at(2_000_000, 900_000)) == DATA[2_000_000:2_900_000]
        assert not proxy.faults


def assert_denied(options: dict[str, str], uri: str, secret: str) -> None:
    for name, verb in VERBS.items():
        with pytest.raises(AccessDeniedError, match="check the credentials") as caught:
            verb(open_store(uri, options))
        assert secret not in str(caught.value), name
        assert "\n" not in str(caught.value), name


class TestAzurite(ServerContract):
    more_than_a_page = 100  # an answer has up to 5000

    @pytest.fixture
    def server(self, azurite: ObjectServer) -> ObjectServer:
        return azurite

    def test_a_wrong_key(self, azurite: ObjectServer) -> None:
        wrong = "d3Jvbmcga2V5IHdyb25nIGtleQ=="
        assert_denied({**azurite.storage_options, "azure_storage_account_key": wrong}, azurite.uri("t"), wrong)

    def test_a_wrong_sas_token(self, azurite: ObjectServer) -> None:
        options = {k: v for k, v in azurite.storage_options.items() if "key" not in k}
        token = "sv=2021-12-02&ss=b&srt=sco&sp=rl&se=2030-01-01T00:00:00Z&sig=d3Jvbmc%3D"
        with pytest.raises(AccessDeniedError) as caught:
            open_store(azurite.uri("t"), {**options, "sas_token": token}).get("a")
        assert "d3Jvbmc" not in str(caught.value)

    def test_the_accounts_full_name(self, azurite: ObjectServer) -> None:
        store = open_store("abfss://lake@devstoreaccount1.dfs.core.windows.net/full", azurite.storage_options)
        store.put_if_absent(f"{uuid.uuid4().hex}", b"x")
        assert listed(open_store("az://lake/full", azurite.storage_options)) == listed(store) != []

    def test_no_secret_in_a_repr(self, azurite: ObjectServer) -> None:
        assert AZURITE_KEY not in repr(open_store(azurite.uri("t"), azurite.storage_options))


class TestS3(ServerContract):
    more_than_a_page = 1100

    @pytest.fixture
    def server(self, s3: ObjectServer) -> ObjectServer:
        return s3

    def test_a_wrong_key(self, guarded_s3: ObjectServer) -> None:
        secret = "wrong-secret-of-nobody"
        assert_denied({**guarded_s3.storage_options, "aws_secret_access_key": secret}, guarded_s3.uri("t"), secret)

    def test_a_listing_begins_at_its_offset_on_the_server(self, s3: ObjectServer) -> None:
        with proxied(s3) as (server, proxy):
            listed(place(server), "_delta_log/", "_delta_log/00000000000000000100")
            assert "start-after=" in proxy.requests[-1][1]
