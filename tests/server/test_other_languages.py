"""Clients in other languages: `make setup-clients` builds them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.server.tokens import new_token
from tests.events_table import write_events
from tests.integration.servers import ROOT
from tests.server.serving import eventually, logged, serving, write_rows

BUILT = Path(os.environ.get("DELTA_SIDECAR_CLIENTS") or ROOT / ".cache" / "clients")


class Client:
    """A program that lists the tables and asks for what a request says."""

    def __init__(self, language: str, place: Path, command: list[str], codes: dict[str, str]) -> None:
        self.language = language
        self.is_built = place.exists()
        self.codes = codes
        """How the language names the codes of errors."""
        self._command = command

    def __call__(self, url: str, token: str = "", limit: int = 0, **request: Any) -> tuple[int, list[dict[str, Any]]]:
        """The exit code, and what it says."""
        address = url.removeprefix("grpc://")
        command = [*self._command, address, token, str(limit), json.dumps(request)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert "xception" not in done.stderr
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


CLIENTS = [
    Client(
        "Go",
        BUILT / "flight-go",
        [str(BUILT / "flight-go")],
        {"token": "Unauthenticated", "other": "Unknown"},
    ),
    Client(
        "Java",
        BUILT / "java" / "Client.class",
        ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
         "-cp", f"{BUILT}/java:{BUILT}/java/*", "Client"],
        {"token": "UNAUTHENTICATED", "other": "UNKNOWN"},
    ),
]  # fmt: skip

pytestmark = pytest.mark.server


@pytest.fixture(params=CLIENTS, ids=lambda client: client.language)
def client(request: pytest.FixtureRequest) -> Client:
    made: Client = request.param
    if not made.is_built:
        pytest.skip(f"the client in {made.language} is not built; run: make setup-clients")
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_events(tmp_path / "lake" / "events")
    return tmp_path / "lake"


def test_files_rows_and_changes(client: Client, lake: Path) -> None:
    with serving({"lake": lake}) as server:
        code, said = client(server.url, table="lake/events", predicate={"_event_hour": "2026021022"}, columns=["path"])
        assert code == 0
        assert said[0] == {"tables": ["lake/events"]}
        assert said[1]["info"]["version"] == 3
        assert said[2]["batch"] == [{"path": "_event_hour=2026021022/part-0.parquet"}]
        assert said[3] == {"batches": 1, "rows": 1}
        code, said = client(server.url, table="lake/events", what="rows", predicate="id > 5", columns=["id"])
        assert [row["id"] for line in said for row in line.get("batch", [])] == [6, 7]
        code, said = client(server.url, table="lake/events", what="changes", start=3, columns=["id", "_change_type"])
        assert said[-1]["rows"] == 2


def test_errors_can_be_told_apart(client: Client, lake: Path, tmp_path: Path) -> None:
    token = new_token(tmp_path / "tokens", "other")
    with serving({"lake": lake}, token_file=str(tmp_path / "tokens")) as server:
        for given, request, code, word in [
            ("", {"table": "lake/events"}, "token", "AccessDeniedError: "),
            (token, {"table": "lake/nothing"}, "other", "TableNotFoundError: "),
            (token, {"table": "lake/events", "predicate": "id = "}, "other", "PredicateError: "),
        ]:
            status, said = client(server.url, given, **request)
            assert status == 1
            assert said[-1]["code"] == client.codes[code]
            assert said[-1]["error"].startswith(word)
        assert client(server.url, token, table="lake/events")[0] == 0


def test_a_client_goes_away_in_mid_stream(client: Client, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", files=20, rows=50_000)
    with logged() as log, serving({"lake": tmp_path}, stream_bytes=2 << 20) as server:
        code, said = client(server.url, limit=1, table="lake/rows", what="rows", batch_size=5_000)
        assert code == 0
        assert said[-1]["gone"] is True
        assert eventually(lambda: server.health()["streams"] == 0)
    assert [line["outcome"] for line in log() if line.get("method") == "DoGet"] == ["gone"]


class TestJdbc:
    """The JDBC driver of Flight SQL."""

    def asked(self, url: str, token: str, sql: str) -> tuple[int, list[str]]:
        place = BUILT / "jdbc"
        if not (place / "Query.class").exists():
            pytest.skip("the JDBC driver is not fetched; run: make setup-clients")
        options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = ["java", *options, "-cp", f"{place}:{place}/*", "Query", url.removeprefix("grpc://"), token, sql]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.splitlines()

    def test_tables_and_rows(self, lake: Path, tmp_path: Path) -> None:
        write_events(lake / "eu" / "clicks")
        write_events(tmp_path / "other" / "hidden")
        token = new_token(tmp_path / "tokens", "reports", ["lake"])
        roots = {"lake": lake, "other": tmp_path / "other"}
        with serving(roots, token_file=str(tmp_path / "tokens")) as server:
            code, said = self.asked(server.url, token, "SELECT id FROM lake.events WHERE id > 5 ORDER BY id")
            refused = self.asked(server.url, token, "SELECT id FROM other.hidden")
            unknown = self.asked(server.url, "nobody", "SELECT 1")
        assert said == [
            "product Delta Sidecar true",
            "catalog lake",
            "schema eu|lake",
            "schema main|lake",
            "type TABLE",
            "table lake|eu|clicks|TABLE",
            "table lake|main|events|TABLE",
            *(f"column lake|main|events|{name}" for name in ("ts", "id", "value", "_event_hour")),
            *("row 6", "row 7", "again 6", "again 7", "again 6", "again 7"),
        ]
        assert code == 0
        assert (refused[0], unknown[0]) == (1, 1)
        assert "AccessDeniedError" in unknown[1][-1]
        assert "TableNotFoundError: there is no table 'other.hidden'" in refused[1][-1]
