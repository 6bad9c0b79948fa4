"""Who gets in, and to what: tokens, tickets, names, and files that are not where their table is."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import (
    AccessDeniedError,
    DeltaSidecarError,
    InputError,
    TableNotFoundError,
    TicketError,
    connect,
)
from delta_sidecar.cli.serve import make_token
from delta_sidecar.server.running import RunningServer, ServerOptions
from delta_sidecar.server.tickets import SignedRequest, TicketSigner
from delta_sidecar.server.tokens import TokenFile, new_token
from delta_sidecar.testing.actions import DeletionVector
from delta_sidecar.testing.table_builder import LogBuilder
from tests.data.changing import COLUMNS, written
from tests.events_table import write_events
from tests.server.serving import bearer, command_of, logged, serving


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_events(tmp_path / "lake" / "events")
    return tmp_path / "lake"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def refusals(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == "call" and line["outcome"] not in ("ok", "gone")]


# Tokens


def test_only_known_tokens_get_in(lake: Path, tokens: Path) -> None:
    good = new_token(tokens, "reports")
    old = new_token(tokens, "old", expires=datetime.now(UTC) - timedelta(seconds=1))
    with logged() as log, serving({"lake": lake}, token_file=str(tokens)) as server:
        with connect(server.url, good) as connection:
            assert connection.table("lake/events").version() == 3
        for token, said in [(None, "asks for a token"), ("nonsense", "not known"), (old, "expired"), ("", "Bearer")]:
            with connect(server.url, token) as connection, pytest.raises(AccessDeniedError, match=said):
                connection.table("lake/events")
        with flight.connect(server.url) as client:
            for header in (b"Basic eHg6eXk=", b"Bearer", b"bearer ?", good.encode()):
                options = flight.FlightCallOptions(headers=[(b"authorization", header)], timeout=30)
                with pytest.raises(flight.FlightUnauthenticatedError):
                    list(client.list_actions(options))
    refused = refusals(log())
    assert len(refused) == 8
    assert {line["error"] for line in refused} == {"AccessDeniedError"}
    assert good not in json.dumps(log())
    assert old not in json.dumps(log())


def test_a_token_has_its_roots(lake: Path, tokens: Path, tmp_path: Path) -> None:
    write_events(tmp_path / "web" / "clicks")
    token = new_token(tokens, "web only", ["web"])
    with (
        serving({"lake": lake, "web": tmp_path / "web"}, token_file=str(tokens)) as server,
        connect(server.url, token) as connection,
    ):
        assert connection.tables() == ["web/clicks"]
        assert connection.table("web/clicks").version() == 3
        with pytest.raises(TableNotFoundError) as hidden:
            connection.table("lake/events")
        with pytest.raises(TableNotFoundError) as absent:
            connection.table("lake/nothing")
        assert str(hidden.value).replace("events", "nothing") == str(absent.value)


def test_the_file_of_tokens_is_read_again(lake: Path, tokens: Path) -> None:
    first = new_token(tokens, "first")
    now = 1_000.0
    known = TokenFile(tokens, lambda: now, look_every=0.0)
    second = new_token(tokens, "second", expires=datetime.fromtimestamp(2_000, UTC))
    assert known.caller(f"Bearer {second}").name == "second"
    now = 2_000.0
    with pytest.raises(AccessDeniedError, match="expired"):
        known.caller(f"Bearer {second}")
    whole = tokens.read_bytes()
    tokens.write_bytes(whole[:-20])
    with logged() as log:
        assert known.caller(f"Bearer {first}").name == "first"
        assert "tokens of before stay valid" in log()[0]["event"]
    tokens.write_bytes(b'{"tokens": []}')
    with pytest.raises(AccessDeniedError, match="not known"):
        known.caller(f"Bearer {first}")
    tokens.write_bytes(whole)
    assert known.caller(f"bearer {first}").name == "first"
    tokens.unlink()
    with logged(), pytest.raises(AccessDeniedError, match="not known"):
        known.caller(f"Bearer {first}")


def test_a_token_is_stored_as_its_hash_for_its_owner(tokens: Path) -> None:
    token = new_token(tokens, "reports", ["lake"])
    assert token not in tokens.read_text()
    assert tokens.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="a token has it already"):
        new_token(tokens, "reports")


def test_a_new_token_keeps_owner_and_mode_of_the_file(tokens: Path) -> None:
    new_token(tokens, "first")
    owner = (os.getuid(), os.getgid()) if os.getuid() else (65534, 65533)
    os.chown(tokens, *owner)
    tokens.chmod(0o640)
    new_token(tokens, "second")
    now = tokens.stat()
    assert (now.st_uid, now.st_gid, now.st_mode & 0o777) == (*owner, 0o640)


def test_tokens_made_at_once_are_all_kept(tokens: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: new_token(tokens, f"t{number}"), range(24)))
    known = TokenFile(tokens)
    assert {known.caller(f"Bearer {token}").name for token in made} == {f"t{number}" for number in range(24)}


def test_a_file_that_could_not_be_read_is_tried_again(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing changes but who may read it, which tests of root cannot try."""
    first = new_token(tokens, "first")
    known = TokenFile(tokens, look_every=0.0)
    is_readable, read = False, Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if not is_readable:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    tokens.write_bytes(b'{"tokens": []}')
    with logged() as log:
        for _ in range(3):
            assert known.caller(f"Bearer {first}").name == "first"
        assert [line["event"].rpartition(": ")[2] for line in log()] == [
            "Permission denied; the tokens of before stay valid until it can"
        ]
        is_readable = True
        with pytest.raises(AccessDeniedError, match="not known"):
            known.caller(f"Bearer {first}")
    tokens.chmod(0o644)
    with logged() as log, pytest.raises(AccessDeniedError):
        known.caller(f"Bearer {first}")
    assert log()[0]["event"] == "read 0 tokens again"


def test_names_and_times_that_no_token_can_have(tokens: Path) -> None:
    with pytest.raises(InputError, match="line break"):
        new_token(tokens, "a\nb")
    with pytest.raises(InputError, match="in the past"):
        make_token(str(tokens), "a", None, "2020-01-01", False)
    assert not tokens.exists()


def test_a_server_that_others_reach_needs_a_certificate_and_tokens(tmp_path: Path) -> None:
    halves: list[dict[str, Any]] = [{}, {"token_file": "t"}, {"tls_cert": "c", "tls_key": "k"}]
    for half in halves:
        with pytest.raises(InputError, match="reached from other machines"):
            ServerOptions(host="0.0.0.0", **half)
    ServerOptions(host="0.0.0.0", insecure=True)
    ServerOptions(host="0.0.0.0", token_file="t", tls_cert="c", tls_key="k")
    with pytest.raises(InputError, match="reached from other machines"):
        ServerOptions(metrics_host="::", metrics_port=0)
    with pytest.raises(InputError, match="certificate and its key"):
        ServerOptions(tls_cert="c")


def test_a_client_keeps_its_token_from_the_open_network() -> None:
    with pytest.raises(InputError, match="no TLS"):
        connect("grpc://example.org:50051", "token")
    connect("grpc://127.0.0.1:50051", "token").close()
    for url in ("http://example.org", "lake", "grpc://"):
        with pytest.raises(InputError, match="address of a server"):
            connect(url)


# Tickets


def ticket_of(client: flight.FlightClient, token: str | None = None, **request: Any) -> bytes:
    info = client.get_flight_info(command_of(**{"table": "lake/events", **request}), bearer(token))
    found: bytes = info.endpoints[0].ticket.ticket
    return found


def refused(client: flight.FlightClient, ticket: bytes, token: str | None = None) -> str:
    with pytest.raises(flight.FlightUnauthorizedError) as raised:
        client.do_get(flight.Ticket(ticket), bearer(token)).read_all()
    told = json.loads(raised.value.extra_info)
    assert told["error"] == "TicketError"
    assert "Traceback" not in str(raised.value)
    return str(told["message"])


@pytest.mark.slow
def test_forged_altered_and_old_tickets_are_refused(lake: Path) -> None:
    with logged() as log, serving({"lake": lake}, ticket_seconds=2.0) as server, flight.connect(server.url) as client:
        good = ticket_of(client)
        assert client.do_get(flight.Ticket(good)).read_all().num_rows == 4
        body = good[36:]
        elsewhere = msgspec.json.decode(body)
        elsewhere["request"]["table"] = "lake/../../etc"
        forged = msgspec.json.decode(msgspec.json.encode(elsewhere), type=SignedRequest)
        assert "another server" in refused(client, TicketSigner(b"x" * 32, 60).seal(forged))
        for place in range(0, len(good), 7):
            altered = bytearray(good)
            altered[place] ^= 1
            refused(client, bytes(altered))
        refused(client, good[:36] + msgspec.json.encode(elsewhere))
        for other in (b"", b"DST1", good[:36], b"lake/events", good + b" ", b"DST1" * 200_000):
            refused(client, other)
        time.sleep(2.1)
        assert "too old" in refused(client, good)
    lines = refusals(log())
    assert {line["error"] for line in lines} == {"TicketError"}
    assert all(line["method"] == "DoGet" for line in lines)


def test_a_signed_ticket_cannot_leave_the_roots(lake: Path, tmp_path: Path) -> None:
    """Even with the key."""
    write_events(tmp_path / "outside")
    key = b"k" * 32
    with serving({"lake": lake}, ticket_key=key) as server, flight.connect(server.url) as client:
        signed = TicketSigner(key, 60).open(ticket_of(client), "anyone")
        for table in ("lake/../outside", "../outside", str(tmp_path / "outside"), f"file://{tmp_path}/outside"):
            moved = msgspec.structs.replace(signed, request=msgspec.structs.replace(signed.request, table=table))
            with pytest.raises(flight.FlightServerError, match="not the name of a table"):
                client.do_get(flight.Ticket(TicketSigner(key, 60).seal(moved))).read_all()


def test_a_ticket_is_for_one_caller_and_its_roots_of_now(lake: Path, tokens: Path) -> None:
    alice, bob = new_token(tokens, "alice"), new_token(tokens, "bob")
    with serving({"lake": lake}, token_file=str(tokens)) as server, flight.connect(server.url) as client:
        ticket = ticket_of(client, alice)
        assert "another caller" in refused(client, ticket, bob)
        stored = json.loads(tokens.read_text())
        stored["tokens"][0]["roots"] = ["web"]
        tokens.write_text(json.dumps(stored))
        time.sleep(1.1)
        with pytest.raises(flight.FlightServerError, match="no Delta table 'lake/events'"):
            client.do_get(flight.Ticket(ticket), bearer(alice)).read_all()


def test_a_ticket_keeps_its_version_and_its_table(lake: Path) -> None:
    with serving({"lake": lake}) as server, flight.connect(server.url) as client:
        ticket = ticket_of(client, what="rows")
        log = lake / "events" / "_delta_log"
        removed = {"remove": {"path": "_event_hour=2026021023/part-0.parquet", "dataChange": True}}
        (log / f"{4:020}.json").write_text(json.dumps(removed))
        assert client.do_get(flight.Ticket(ticket)).read_all().num_rows == 8
        assert client.do_get(flight.Ticket(ticket_of(client, what="rows"))).read_all().num_rows == 6
        shutil.rmtree(lake / "events")
        write_events(lake / "events")
        commit = log / f"{0:020}.json"
        commit.write_text(commit.read_text().replace("5f0e1c8e", "00000000"))
        with pytest.raises(flight.FlightUnauthorizedError, match="made again"):
            client.do_get(flight.Ticket(ticket)).read_all()


# Names


@pytest.mark.parametrize(
    "name",
    ["", "/", "..", "lake/..", "lake/../outside", "lake//events", "lake/./events", "/etc", "lake/events/",
     "lake\\events", "s3://bucket/x", "file:///etc", "lake/\x00", "lake/a\nb", "lake/" + "x/" * 600,
     "lake/..\\..\\x", "."],
)  # fmt: skip
def test_names_that_are_not_tables(name: str, lake: Path, tmp_path: Path) -> None:
    write_events(tmp_path / "outside")
    with serving({"lake": lake}) as server, connect(server.url) as connection:
        with pytest.raises(InputError) as raised:
            connection.table(name)
        assert "\n" not in str(raised.value)
        assert str(tmp_path) not in str(raised.value)


@pytest.mark.parametrize("name", ["lake/%2e%2e/outside", "lake/events/_delta_log", "LAKE/events", "~/x", "lake"])
def test_names_of_nothing(name: str, lake: Path, tmp_path: Path) -> None:
    write_events(tmp_path / "outside")
    with (
        serving({"lake": lake}) as server,
        connect(server.url) as connection,
        pytest.raises(TableNotFoundError, match="there is no Delta table"),
    ):
        connection.table(name)


def test_a_root_may_be_a_table(lake: Path) -> None:
    with serving({"events": lake / "events"}) as server, connect(server.url) as connection:
        assert connection.tables() == ["events"]
        assert connection.table("events").version() == 3


# Files that are elsewhere


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    write_events(tmp_path / "outside" / "events")
    return tmp_path / "outside"


def link_table(lake: Path, outside: Path) -> None:
    (lake / "t").symlink_to(outside / "events")


def link_log(lake: Path, outside: Path) -> None:
    (lake / "t").mkdir()
    (lake / "t" / "_delta_log").symlink_to(outside / "events" / "_delta_log")


def link_commit(lake: Path, outside: Path) -> None:
    (lake / "t" / "_delta_log").mkdir(parents=True)
    (lake / "t" / "_delta_log" / f"{0:020}.json").symlink_to(outside / "events" / "_delta_log" / f"{0:020}.json")


@pytest.mark.parametrize("make", [link_table, link_log, link_commit])
def test_links_out_of_a_root_are_not_followed(make: Callable[[Path, Path], None], lake: Path, outside: Path) -> None:
    make(lake, outside)
    with serving({"lake": lake}) as server, connect(server.url) as connection:
        with pytest.raises((TableNotFoundError, AccessDeniedError)) as raised:
            connection.table("lake/t")
        assert str(outside) not in str(raised.value)
        assert connection.tables() == (["lake/events"] if make is link_table else ["lake/events", "lake/t"])


def test_links_inside_a_root_are_followed(lake: Path) -> None:
    (lake / "other").symlink_to(lake / "events")
    with serving({"lake": lake}) as server, connect(server.url) as connection:
        assert connection.table("lake/other").to_pyarrow_table().num_rows == 8


def linked_file(root: Path, outside: Path) -> None:
    file = written(outside, "secret.parquet", [1, 2])
    LogBuilder(root).metadata(COLUMNS).commit(file)
    (root / "secret.parquet").symlink_to(outside / "secret.parquet")


def absolute_file(root: Path, outside: Path) -> None:
    file = written(outside, "secret.parquet", [1, 2])
    LogBuilder(root).metadata(COLUMNS).commit(replace(file, path=str(outside / "secret.parquet")))


def clone(root: Path, outside: Path) -> None:
    """A shallow clone names its files by URI."""
    file = written(outside, "secret.parquet", [1, 2])
    LogBuilder(root).metadata(COLUMNS).commit(replace(file, path=f"file://{outside}/secret.parquet"))


def upward_file(root: Path, outside: Path) -> None:
    file = written(outside, "secret.parquet", [1, 2])
    LogBuilder(root).metadata(COLUMNS).commit(replace(file, path=os.path.relpath(outside / "secret.parquet", root)))


def encoded_upward_file(root: Path, outside: Path) -> None:
    file = written(outside, "secret.parquet", [1, 2])
    path = os.path.relpath(outside / "secret.parquet", root).replace("..", "%2E%2E")
    LogBuilder(root).metadata(COLUMNS).commit(replace(file, path=path))


def outside_vector(root: Path, outside: Path) -> None:
    outside.mkdir(exist_ok=True)
    (outside / "vector.bin").write_bytes(b"\x01 secret")
    vector = DeletionVector(f"file://{outside}/vector.bin", "p", 1, 4, 1)
    log = LogBuilder(root).protocol(reader=3, features=["deletionVectors"]).metadata(COLUMNS)
    log.commit(written(root, "a.parquet", [1, 2], dv=vector))


def other_store(root: Path, outside: Path) -> None:
    file = written(outside, "secret.parquet", [1, 2])
    LogBuilder(root).metadata(COLUMNS).commit(replace(file, path="s3://bucket/secret.parquet"))


WAYS_OUT = [linked_file, absolute_file, clone, upward_file, encoded_upward_file, outside_vector, other_store]


@pytest.mark.parametrize("make", WAYS_OUT)
def test_files_outside_all_roots_are_not_read(make: Callable[[Path, Path], None], lake: Path, tmp_path: Path) -> None:
    make(lake / "t", tmp_path / "outside")
    with logged() as log, serving({"lake": lake}) as server, connect(server.url) as connection:
        table = connection.table("lake/t")
        assert table.scan_files().read_all().num_rows == 1
        with pytest.raises(AccessDeniedError, match=r"out(side)? (of )?the roots"):
            table.to_pyarrow_table()
        assert connection.table("lake/events").to_pyarrow_table().num_rows == 8
    assert [line["error"] for line in refusals(log())] == ["AccessDeniedError"]


@pytest.mark.parametrize("make", [linked_file, absolute_file, clone, upward_file])
def test_files_in_another_root_of_the_caller_are_read(
    make: Callable[[Path, Path], None], lake: Path, tokens: Path, tmp_path: Path
) -> None:
    make(lake / "t", tmp_path / "web")
    both, one = new_token(tokens, "both"), new_token(tokens, "one", ["lake"])
    with serving({"lake": lake, "web": tmp_path / "web"}, token_file=str(tokens)) as server:
        with connect(server.url, both) as connection:
            assert connection.table("lake/t").to_pyarrow_table().column("k").to_pylist() == [1, 2]
        with connect(server.url, one) as connection, pytest.raises(AccessDeniedError):
            connection.table("lake/t").to_pyarrow_table()


# Whatever comes


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    root = tmp_path_factory.mktemp("fuzzed")
    write_events(root / "events")
    with serving({"lake": root}) as server:
        yield server


WORDS = st.sampled_from(["table", "what", "predicate", "columns", "limit", "version", "timestamp", "start", "end",
                         "strategy", "batch_size", "and", "or", "not", "column", "op", "value", "id", "lake/events",
                         "files", "rows", "stats", "changes", "=", ">", "id = 7", "*"])  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
REQUESTS = st.dictionaries(WORDS, JSON, max_size=5).map(lambda given: {"table": "lake/events", **given})


@given(data=st.binary(max_size=60) | REQUESTS.map(lambda given: json.dumps(given).encode()))
def test_fuzzed_requests_are_answered_or_refused(fuzzed: RunningServer, data: bytes) -> None:
    with flight.connect(fuzzed.url) as client:
        errors = [
            error_of(lambda: client.get_flight_info(flight.FlightDescriptor.for_command(data), bearer(None))),
            error_of(lambda: list(client.do_action(flight.Action("explain", data), bearer(None)))),
        ]
    for error in filter(None, errors):
        told = json.loads(error.extra_info)
        assert "Traceback" not in str(error)
        assert told["error"] != "ServerError", told
        assert "\n" not in told["message"]


def error_of(ask: Callable[[], object]) -> flight.FlightError | None:
    try:
        ask()
    except flight.FlightError as error:
        return error
    return None


@given(data=st.binary(max_size=200), signed=st.booleans())
def test_fuzzed_tickets_are_refused(fuzzed: RunningServer, data: bytes, signed: bool) -> None:
    with flight.connect(fuzzed.url) as client:
        refused(client, (b"DST1" if signed else b"") + data)


@given(data=st.binary(max_size=60) | REQUESTS.map(lambda given: msgspec.json.encode({"request": given})))
def test_signed_nonsense_is_refused_too(data: bytes) -> None:
    signer = TicketSigner(b"k" * 32, 60)
    sealed = b"DST1" + signer._signature(data) + data
    with pytest.raises(TicketError):
        signer.open(sealed, "anyone")


@pytest.mark.parametrize(
    "request_",
    [
        {"predicate": "id = " + "1" * 10_000_000},
        {"predicate": "id IN (" + ", ".join(map(str, range(20_000))) + ")"},
        {"predicate": "(" * 10_000 + "id = 7" + ")" * 10_000},
        {"predicate": "NOT " * 10_000 + "id = 7"},
        {"columns": [f"c{n}" for n in range(200_000)]},
        {"columns": ["id"] * 10_001},
        {"batch_size": 0},
        {"batch_size": 10**9},
        {"limit": -1},
        {"limit": 2**64},
        {"version": -3},
        {"version": 2**63},
        {"version": 99},
        {"version": 1, "timestamp": "2026-02-10"},
        {"timestamp": "soon"},
        {"strategy": "best"},
        {"what": "everything"},
        {"what": "changes"},
        {"what": "changes", "start": 0, "limit": 3},
        {"start": 0},
        {"unknown": 1},
        {"table": 7},
    ],
    ids=lambda given: repr(given)[:40],
)
def test_requests_beyond_the_limits(fuzzed: RunningServer, request_: dict[str, Any]) -> None:
    with flight.connect(fuzzed.url) as client, pytest.raises(flight.FlightServerError) as raised:
        client.get_flight_info(command_of(**{"table": "lake/events", **request_}), bearer(None))
    told = json.loads(raised.value.extra_info)
    assert len(told["message"]) <= 2_001
    assert told["error"] != "ServerError"


@pytest.mark.slow
@pytest.mark.parametrize(
    "predicate",
    [
        "id = 'needle" + "x" * 10_000_000 + "'",
        "(" * 10_000 + "id = 'needle'" + ")" * 10_000,
        "NOT " * 10_000 + "id = 'needle'",
        json.loads('{"not":' * 200 + '{"id": "needle"}' + "}" * 200),
    ],
    ids=["10 MB", "parentheses", "NOT", "a tree"],
)
def test_a_refused_predicate_is_one_line_in_the_log_and_leaves_nothing(
    fuzzed: RunningServer, predicate: object
) -> None:
    request = command_of(table="lake/events", predicate=predicate)
    with logged() as log, flight.connect(fuzzed.url) as client:
        for _ in range(3):
            with pytest.raises(flight.FlightServerError) as raised:
                client.get_flight_info(request, bearer(None))
    said, told = log(), json.loads(raised.value.extra_info)
    assert [(line["method"], line["outcome"]) for line in said] == [("GetFlightInfo", "error")] * 3
    assert max(len(json.dumps(line)) for line in said) < 1_000
    assert "needle" not in json.dumps(said)
    assert len(told["message"]) <= 2_001
    assert fuzzed.health() == {"ready": True, "streams": 0, "waiting": 0, "bytes_held": 0}
    assert (fuzzed._core.openings.streams, fuzzed._core.openings.waiting) == (0, 0)


def test_a_token_goes_without_tls_to_this_machine_alone() -> None:
    for host in ("127.0.0.1", "127.8.9.10", "localhost", "LOCALHOST", "[::1]"):
        connect(f"grpc://{host}:1", token="secret").close()
    for host in ("10.0.0.1", "example.com", "127.0.0.1.example.com", "[2001:db8::1]"):
        with pytest.raises(InputError, match="has no TLS"):
            connect(f"grpc://{host}:1", token="secret")


@pytest.mark.parametrize("opening", ['{"not":', '{"and":[', "[", '{"predicate":'])
def test_nesting_of_ten_thousand(fuzzed: RunningServer, opening: str) -> None:
    closing = "".join({"{": "}", "[": "]"}[sign] for sign in reversed(opening) if sign in "{[")
    for depth in (100, 10_000):
        tree = opening * depth + '{"id": 7}' + closing * depth
        data = f'{{"table": "lake/events", "predicate": {tree}}}'.encode()
        with flight.connect(fuzzed.url) as client, pytest.raises(flight.FlightServerError) as raised:
            client.get_flight_info(flight.FlightDescriptor.for_command(data), bearer(None))
        assert json.loads(raised.value.extra_info)["error"] in ("PredicateError", "InputError")


def test_what_is_not_offered_says_so_without_a_traceback(fuzzed: RunningServer) -> None:
    events = flight.FlightDescriptor.for_path("lake", "events")

    def put() -> None:
        writer, _ = client.do_put(events, pa.schema([("x", pa.int64())]), bearer(None))
        writer.close()

    def exchange() -> None:
        writer, reader = client.do_exchange(events, bearer(None))
        with writer:
            reader.read_chunk()

    with flight.connect(fuzzed.url) as client:
        for call in (put, exchange):
            with pytest.raises(flight.FlightError, match="NotOfferedError") as raised:
                call()
            assert "Traceback" not in str(raised.value)
        with pytest.raises(flight.FlightServerError, match="NotOfferedError"):
            list(client.do_action(flight.Action("drop", b""), bearer(None)))
        with pytest.raises(flight.FlightServerError, match="InputError"):
            list(client.list_flights(b"[1]", bearer(None)))
        assert client.get_schema(events, bearer(None)).schema.names == ["ts", "id", "value", "_event_hour"]
        ticket = client.get_flight_info(events, bearer(None)).endpoints[0].ticket
        assert client.do_get(ticket, bearer(None)).read_all().num_rows == 8


def test_every_error_of_ours_comes_back_as_itself() -> None:
    from delta_sidecar import errors
    from delta_sidecar.server.wire_errors import from_flight, to_flight

    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, DeltaSidecarError):
            back = from_flight(to_flight(kind("what, where\nand what to do"), "r1"), "grpc://x")
            assert type(back) is kind
            assert str(back) == "what, where and what to do"
