"""The answers of the page: what a scan reads by its own report, the map, the timeline, health, and who may ask."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable, InputError, StorageError, build_index
from delta_sidecar.cli.failures import without_secrets
from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.server import RunningPage, start_page
from delta_sidecar.server.page import running_page
from delta_sidecar.server.page.access import Door
from delta_sidecar.server.page.application import PageFiles, PageService
from delta_sidecar.server.page.health import findings
from delta_sidecar.server.page.lighting import full_load, lit
from delta_sidecar.server.page.part_map import map_of
from delta_sidecar.server.page.shown_tables import ShownTables
from delta_sidecar.server.page.timeline import log_names
from delta_sidecar.server.requests import ReadRequest
from delta_sidecar.server.roots import Root, Roots
from delta_sidecar.server.tokens import ANYONE, new_token
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.cli.running import assert_refused, invoke
from tests.costs.counted import counted
from tests.events_table import write_events
from tests.server.page_calls import call
from tests.server.page_table import write_telemetry
from tests.server.serving import logged, serving

HOURS, INDEXED = 24, 20


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_telemetry(tmp_path_factory.mktemp("page") / "telemetry", HOURS, INDEXED)


@pytest.fixture(scope="module")
def page(telemetry: Path) -> Iterator[RunningPage]:
    with start_page(telemetry) as running:
        yield running


def scanned(page: RunningPage, predicate: str | None, **more: Any) -> Any:
    asked = {"table": "telemetry", "version": HOURS - 1, **({} if predicate is None else {"predicate": predicate})}
    answer = call(page.url, "/api/scan", asked | more)
    assert answer.status == 200, answer.body
    return answer.json


def overview(page: RunningPage) -> Any:
    return call(page.url, "/api/overview", {"table": "telemetry"}).json


# What a predicate reads

PREDICATES = {
    "an hour": "_event_hour = '2026020705'",
    "a range of time": "ts >= '2026-02-07T03:00:00Z' and ts < '2026-02-07T06:30:00Z'",
    "another column": "device = 555",
    "both": "ts >= '2026-02-07T03:00:00Z' and device between 100 and 300",
    "everything": None,
    "nothing": "ts < '1999-01-01T00:00:00Z'",
    "the tail alone": "ts >= '2026-02-07T23:00:00Z'",
}


@pytest.mark.slow
@pytest.mark.parametrize("predicate", PREDICATES.values(), ids=PREDICATES)
def test_what_is_lit_is_the_scan_s_own_report(page: RunningPage, telemetry: Path, predicate: str | None) -> None:
    shown = scanned(page, predicate)
    table = DeltaTable(telemetry)
    with table.scan_files(predicate) as scan:
        found = scan.read_all()
    base = table.snapshot.segment.base
    assert isinstance(base, IndexBase)
    parts = list(base.manifest.parts)
    lit_by_name = {parts[at].id: tuple(groups) for at, groups in shown["read"]}
    assert lit_by_name == scan.row_groups_read
    assert len(lit_by_name) == scan.metrics.parts_read == shown["parts"][0]
    assert sum(map(len, lit_by_name.values())) == scan.metrics.row_groups_read == shown["row_groups"][0]
    assert {parts[at].id for at in shown["looked_at"]} | set(lit_by_name) == set(scan.plan.parts) | set(lit_by_name)
    assert shown["files"] == found.num_rows
    assert shown["data_bytes"] == sum(found.column("size").to_pylist())
    assert shown["paths"] == found.column("path").to_pylist()[:5]
    assert shown["commits"] == scan.metrics.commits_scanned
    assert shown["index"] == overview(page)["map"]["content"]
    assert shown["is_whole"] is True


def test_a_device_of_two_hours_is_one_row_group_of_each(telemetry: Path) -> None:
    with DeltaTable(telemetry).scan_files("device = 555 and ts < '2026-02-07T02:00:00Z'") as scan:
        rows = scan.read_all().num_rows
    assert rows == 2
    assert [len(groups) for groups in scan.row_groups_read.values()] == [1, 1]


def test_without_an_index_nothing_is_lit(tmp_path: Path) -> None:
    write_events(tmp_path / "events")
    with start_page(tmp_path / "events") as page:
        seen = call(page.url, "/api/overview", {"table": "events"}).json
        shown = call(page.url, "/api/scan", {"table": "events", "predicate": "id = 3"}).json
    assert seen["map"] is None
    assert seen["examples"] == []
    assert "read" not in shown
    assert shown["tier"] == "log"


def test_a_damaged_index_is_not_lit_but_told(tmp_path: Path) -> None:
    root = write_telemetry(tmp_path / "telemetry", 12, 10)
    for part in root.glob("_delta_log/_sidecars/*.core.parquet"):
        part.write_bytes(b"PAR1 nonsense PAR1")
    with start_page(root) as page:
        shown = call(page.url, "/api/scan", {"table": "telemetry", "predicate": "_event_hour = '2026020705'"}).json
    assert "read" not in shown
    assert shown["fallback"]
    assert shown["files"] > 0


def test_a_full_load_knows_of_no_index(page: RunningPage) -> None:
    whole, all_files = (
        call(page.url, "/api/full-load", {"table": "telemetry", "version": HOURS - 1}).json,
        scanned(page, None),
    )
    assert whole["tier"] == "log"
    assert (whole["files"], whole["data_bytes"]) == (all_files["files"], all_files["data_bytes"])
    assert whole["bytes"] > 0 < whole["requests"]


def test_both_pay_for_everything_they_read(page: RunningPage) -> None:
    """Else what the page remembers of the table would favour the listing through the index."""
    times = [scanned(page, PREDICATES["an hour"]) for _ in range(3)]
    assert len({(each["requests"], each["bytes"]) for each in times}) == 1
    tail = overview(page)["tail"]
    assert times[0]["bytes"] > tail["bytes"] > 0


def test_a_long_listing_is_ended(telemetry: Path) -> None:
    tables = ShownTables(Roots([Root("t", parse_location(telemetry))]))
    for run in (lit, full_load):
        shown = run(tables, ReadRequest("t"), ANYONE, longest_s=0.0)
        assert shown["is_whole"] is False
        assert 0 < shown["files"] <= DeltaTable(telemetry).scan_files().read_all().num_rows
    assert tables.streams.streams == 0


@pytest.mark.parametrize(
    ("predicate", "said"),
    [("device >", "the predicate ends after"), ("nope = 1", "nope"), ("device = 'x'", "x"), ("(" * 9_000, "nest")],
)
def test_a_wrong_predicate_is_told_in_one_line(page: RunningPage, predicate: str, said: str) -> None:
    wrong = scanned(page, predicate)["wrong"]
    assert said in wrong
    assert "\n" not in wrong


# Map, timeline, health


def test_the_map_has_every_part_once(page: RunningPage, telemetry: Path) -> None:
    seen = overview(page)["map"]
    base = DeltaTable(telemetry).snapshot.segment.base
    assert isinstance(base, IndexBase)
    assert [(first, groups, files) for first, _, groups, files, *_ in seen["columns"]] == [
        (at, part.row_groups, part.rows) for at, part in enumerate(base.manifest.parts)
    ]
    assert seen["columns"][-1][5] == "2026-02-07 00:00"
    few = map_of(base, most=4)
    assert len(few["columns"]) <= 4
    assert sum(each[2] for each in few["columns"]) == seen["row_groups"]
    first, last = few["columns"][1][:2]
    asked = {"table": "telemetry", "version": HOURS - 1, "first": first, "last": last}
    zoomed = call(page.url, "/api/map", asked).json
    assert [each[0] for each in zoomed["columns"]] == list(range(first, last + 1))
    for wrong in ({"first": -1}, {"last": 10**6}, {"first": "x"}, {"more": 1}):
        assert call(page.url, "/api/map", asked | wrong).status == 400


def test_the_timeline(page: RunningPage) -> None:
    log = overview(page)["log"]
    assert [each[0] for each in log["commits"]] == list(range(HOURS))
    assert (log["first"], log["head"], log["base"]) == (0, HOURS - 1, INDEXED)
    assert [(each["version"], each["state"]) for each in log["indexes"]] == [(INDEXED, "current")]
    told = call(page.url, "/api/commit", {"table": "telemetry", "version": 3}).json
    assert (told["operation"], told["counts"]) == ("WRITE", {"numFiles": "120"})
    gone = call(page.url, "/api/commit", {"table": "telemetry", "version": 99})
    assert (gone.status, gone.json["error"]) == (400, "VersionNotFoundError")


@pytest.mark.slow
def test_a_timeline_of_checkpoints_and_older_builds(tmp_path: Path) -> None:
    root = write_telemetry(tmp_path / "telemetry", 64, 62)
    with start_page(root) as page:
        log = call(page.url, "/api/overview", {"table": "telemetry"}).json["log"]
    assert [each[0] for each in log["checkpoints"]] == [30, 60]
    assert [(each["version"], each["state"]) for each in log["indexes"]] == [(32, "parts"), (62, "current")]
    assert len(log["commits"]) == 64, "also those before the index, which opening the table does not list"


def states(root: Path) -> dict[str, tuple[str, str | None]]:
    snapshot = DeltaTable(root).snapshot
    return {each.name: (each.state, each.command) for each in findings(snapshot, log_names(snapshot).log)}


def test_health_names_the_command_that_mends(tmp_path: Path) -> None:
    root = tmp_path / "a table"
    log = LogBuilder(root).metadata({"x": "long"}).commit(*(add(f"{n}.parquet", 1_000_000) for n in range(1_200)))
    place = f"'{root}'"
    assert states(root)["Index"] == ("poor", f"sidecar build {place}")
    assert states(root)["Tail"][0] == "good"
    assert states(root)["File sizes"] == ("unknown", None)
    build_index(root)
    assert states(root)["Index"] == ("good", None)
    assert states(root)["Index age"] == ("good", None)
    assert states(root)["File sizes"] == ("poor", f"sidecar maintain {place} --only optimize")
    for version in range(1, 102):
        log.commit(add(f"v{version}.parquet"))
    assert states(root)["Index age"] == ("fair", f"sidecar build {place}")
    assert states(root)["Tail"] == ("fair", f"sidecar build {place}")
    assert states(root)["Checkpoint"] == ("fair", f"sidecar maintain {place} --only checkpoint")
    log.checkpoint()
    assert states(root)["Checkpoint"] == ("good", None)


def test_an_index_that_is_not_used_is_built_again(tmp_path: Path) -> None:
    root = write_telemetry(tmp_path / "telemetry", 12, 10)
    for manifest in root.glob("_delta_log/_sidecars/*.manifest.json"):
        manifest.write_text("{}")
    assert states(root)["Index"] == ("poor", f"sidecar build --full {root}")


def test_an_example_is_a_predicate_of_the_table(page: RunningPage) -> None:
    examples = overview(page)["examples"]
    assert examples == ["ts >= '2026-02-07T20:00:00Z'", "_event_hour = '2026020720'"]
    assert all(scanned(page, each)["files"] for each in examples)


# Who may ask, and for what


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "10.0.0.1"},
        {"Host": ""},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_what_is_not_for_this_page_is_refused(page: RunningPage, headers: dict[str, str]) -> None:
    """DNS rebinding, proxies, scripts of other sites."""
    for path, asked in (
        ("/", None),
        ("/favicon.svg", None),
        ("/api/tables", None),
        ("/api/overview", {"table": "telemetry"}),
    ):
        refused = call(page.url, path, asked, headers)
        assert refused.status == 403, (path, headers)
        assert b"telemetry" not in refused.body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1234", "[::1]:80", "127.0.0.5"])
def test_names_of_loopback_are_its_own(page: RunningPage, host: str) -> None:
    assert call(page.url, "/", headers={"Host": host}).status == 200


def test_every_answer_has_its_headers(page: RunningPage) -> None:
    answers = [
        call(page.url, "/"),
        call(page.url, "/favicon.svg"),
        call(page.url, "/api/tables"),
        call(page.url, "/nothing"),
        call(page.url, "/api/overview"),
        call(page.url, "/api/overview", {"table": "other"}),
    ]
    assert [answer.status for answer in answers] == [200, 200, 200, 404, 405, 404]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    assert answers[2].headers["cache-control"] == "no-store"


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = PageFiles.load()
    text = page.html.decode()
    assert set(re.findall(r"https?://[^\s\"'`<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "unsafe" not in page.policy
    assert not re.search(r"\s(?:on[a-z]+|style)=\"", text), "the policy allows none"
    assert ".innerHTML" not in text
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]+'; style-src 'sha256-[A-Za-z0-9+/=]+'", page.policy)


@pytest.mark.parametrize(
    ("body", "headers", "said"),
    [
        (b"x" * 300_000, {}, "more than"),
        (b'{"table": "telemetry"}', {"Content-Type": "text/plain"}, "application/json"),
        (b"not json", {}, "not what the protocol says"),
        (b'{"table": "telemetry", "surprise": 1}', {}, "surprise"),
        (b'{"table": "telemetry", "predicate": ' + b'{"not":' * 5_000 + b"1" + b"}" * 5_001, {}, "nested"),
        (json.dumps({"table": "telemetry", "predicate": "x" * 70_000}).encode(), {}, "70,000 bytes"),
        (b'{"table": "telemetry", "version": -1}', {}, "version is -1"),
        (b'{"table": "../telemetry"}', {}, "not the name of a table"),
        (b'{"table": "/etc"}', {}, "not the name of a table"),
        (b'{"table": "telemetry/../telemetry"}', {}, "not the name of a table"),
        (b'{"table": "s3://elsewhere/x"}', {}, "not the name of a table"),
        (b'{"table": "telemetry/_delta_log"}', {}, "there is no Delta table"),
        (b'{"table": "elsewhere"}', {}, "there is no Delta table"),
    ],
)
def test_a_bad_question_gets_one_line(page: RunningPage, body: bytes, headers: dict[str, str], said: str) -> None:
    for path in ("/api/overview", "/api/scan"):
        refused = call(page.url, path, headers=headers, body=body)
        told = refused.json
        text = told.get("wrong") or told["message"]
        assert refused.status in (200, 400, 404)
        assert said in text
        assert "\n" not in text
        assert "Traceback" not in text


def test_a_symlink_leads_nowhere(tmp_path: Path) -> None:
    write_events(tmp_path / "outside")
    (tmp_path / "lake").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "lake" / "link")
    with serving({"lake": tmp_path / "lake"}, page_port=0) as server:
        assert server.page_url is not None
        assert call(server.page_url, "/api/tables").json["tables"] == []
        assert call(server.page_url, "/api/overview", {"table": "lake/link"}).status == 404


def test_internal_errors_and_secrets_stay_inside(telemetry: Path) -> None:
    class Broken(CountingStore):
        def list_after(self, *arguments: object) -> Any:
            raise self.error

    secret = {"secret_access_key": "hunter2hunter2"}
    store = Broken(counted(telemetry))
    root = Root("t", parse_location(telemetry), secret, lambda location: store)
    service = PageService(ShownTables(Roots([root])), Door(True, None), clean=partial(without_secrets, secrets=secret))
    with logged() as log, RunningPage("127.0.0.1", 0, service) as page:
        store.error = StorageError("the key hunter2hunter2 was not taken")
        told = call(page.url, "/api/overview", {"table": "t"})
        assert (told.status, told.json["message"]) == (400, "the key *** was not taken")
        store.error = ValueError("a bug, with hunter2hunter2")
        told = call(page.url, "/api/overview", {"table": "t"})
        assert told.status == 500
        assert told.json["message"].startswith("internal error")
        assert "hunter2" not in told.body.decode()
    lines = [line for line in log() if line["event"] == "call"]
    assert [(line["method"], line["outcome"]) for line in lines] == [("page/overview", "error")] * 2


# On a server


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_events(tmp_path / "lake" / "events")
    write_events(tmp_path / "lake" / "deep" / "clicks")
    return tmp_path / "lake"


@pytest.mark.slow
def test_connections_that_say_nothing_shut_nobody_out(tmp_path: Path) -> None:
    write_events(tmp_path / "events")
    root = Root("events", parse_location(tmp_path / "events"))
    service = PageService(ShownTables(Roots([root]), only="events"), Door(True, None), is_logged=False)
    with RunningPage("127.0.0.1", 0, service, request_seconds=2.0) as page, ExitStack() as stack:
        begun = b"GET / HT", b"POST /api/tables HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        silent = []
        for number in range(200):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", page.port), 10))
            opened.sendall(begun[number % 2])
            silent.append(opened)
        for _ in range(3):
            assert call(page.url, "/").status == 200
        silent[-2].settimeout(10)
        with suppress(ConnectionResetError):
            assert silent[-2].recv(100) == b"", "no request came in time"


def test_where_there_are_tokens_it_asks_for_one_on_loopback_too(lake: Path, tmp_path: Path) -> None:
    token = new_token(tmp_path / "tokens", "people")
    with logged() as log, serving({"lake": lake}, page_port=0, token_file=str(tmp_path / "tokens")) as server:
        url = server.page_url or ""
        for headers in ({}, {"Host": "lake.example"}, {"X-Forwarded-For": "10.0.0.1"}):
            assert call(url, "/", headers=headers).status == 200, "the page itself holds nothing"
            assert call(url, "/api/tables", headers=headers).status == 401
            assert call(url, "/api/tables", headers=headers | {"Authorization": "Bearer nonsense"}).status == 401
            assert call(url, "/api/tables", headers=headers | {"Authorization": f"Bearer {token}"}).status == 200
    calls = [line for line in log() if line["event"] == "call"]
    assert [line["outcome"] for line in calls] == ["refused", "refused", "ok"] * 3
    assert token not in json.dumps(calls)


def test_beyond_loopback_a_token_has_its_roots(lake: Path, tmp_path: Path) -> None:
    write_events(tmp_path / "web" / "visits")
    token = new_token(tmp_path / "tokens", "web people", ["web"])
    bearer = {"Authorization": f"Bearer {token}"}
    options = {"page_host": "0.0.0.0", "page_port": 0, "insecure": True, "token_file": str(tmp_path / "tokens")}
    with serving({"lake": lake, "web": tmp_path / "web"}, **options) as server:
        url = (server.page_url or "").replace("0.0.0.0", "127.0.0.1")
        refused = call(url, "/api/tables")
        assert (refused.status, refused.json["error"]) == (401, "AccessDeniedError")
        assert call(url, "/api/tables", headers=bearer).json["tables"] == ["web/visits"]
        assert call(url, "/api/overview", {"table": "web/visits"}, bearer).json["version"] == 3
        for path in ("/api/overview", "/api/scan", "/api/full-load"):
            assert call(url, path, {"table": "lake/events"}, bearer).status == 404


def test_it_is_refused_where_it_would_be_open_to_all(lake: Path) -> None:
    with (
        pytest.raises(InputError, match=r"there is no certificate \(TLS\) and no token file"),
        serving({"lake": lake}, page_host="0.0.0.0", page_port=0),
    ):
        pass


def test_it_needs_its_libraries(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_page, "find_spec", lambda name: None)
    for start in (lambda: start_page(lake / "events"), lambda: serving({"lake": lake}, page_port=0).__enter__()):
        with pytest.raises(InputError, match=r"pip install 'delta-sidecar\[server\]'"):
            start()


def test_a_busy_server_says_so(lake: Path) -> None:
    with serving({"lake": lake}, page_port=0, streams=1, patience=0.05) as server:
        held = server._core.streams.admit(1, 1.0)
        busy = call(server.page_url or "", "/api/scan", {"table": "lake/events"})
        assert (busy.status, busy.json["error"]) == (503, "ServerBusyError")
        held.give_back()
        assert call(server.page_url or "", "/api/scan", {"table": "lake/events"}).status == 200


# The command


@pytest.mark.slow
def test_the_command_serves_until_it_is_stopped(telemetry: Path) -> None:
    command = [sys.executable, "-m", "delta_sidecar.cli.main", "ui", str(telemetry)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        url = running.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        assert call(url, "/api/overview", {"table": "telemetry"}).json["version"] == HOURS - 1
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
        assert running.stderr.read() == ""


def test_a_page_of_no_table_is_refused(tmp_path: Path, page: RunningPage, telemetry: Path) -> None:
    assert_refused(invoke("ui", tmp_path), "no Delta table")
    assert_refused(invoke("ui", telemetry, "--port", page.port), "cannot listen on 127.0.0.1")
