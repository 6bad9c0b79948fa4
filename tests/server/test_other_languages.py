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

GO = Path(os.environ.get("DELTA_SIDECAR_CLIENTS") or ROOT / ".cache" / "clients") / "flight-go"

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not GO.exists(), reason="the client in Go is not built; run: make setup-clients"),
]


def go(url: str, token: str = "", limit: int = 0, **request: Any) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of the client, and what it says."""
    address = url.removeprefix("grpc://")
    done = subprocess.run(
        [GO, address, token, str(limit), json.dumps(request)], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_events(tmp_path / "lake" / "events")
    return tmp_path / "lake"


def test_go_gets_files_rows_and_changes(lake: Path) -> None:
    with serving({"lake": lake}) as server:
        code, said = go(server.url, table="lake/events", predicate={"_event_hour": "2026021022"}, columns=["path"])
        assert code == 0
        assert said[0] == {"tables": ["lake/events"]}
        assert said[1]["info"]["version"] == 3
        assert said[2]["batch"] == [{"path": "_event_hour=2026021022/part-0.parquet"}]
        assert said[3] == {"batches": 1, "rows": 1}
        code, said = go(server.url, table="lake/events", what="rows", predicate="id > 5", columns=["id"])
        assert [row["id"] for line in said for row in line.get("batch", [])] == [6, 7]
        code, said = go(server.url, table="lake/events", what="changes", start=3, columns=["id", "_change_type"])
        assert said[-1]["rows"] == 2


def test_go_gets_errors_it_can_tell_apart(lake: Path, tmp_path: Path) -> None:
    token = new_token(tmp_path / "tokens", "go")
    with serving({"lake": lake}, token_file=str(tmp_path / "tokens")) as server:
        for given, request, code, word in [
            ("", {"table": "lake/events"}, "Unauthenticated", "AccessDeniedError: "),
            (token, {"table": "lake/nothing"}, "Unknown", "TableNotFoundError: "),
            (token, {"table": "lake/events", "predicate": "id = "}, "Unknown", "PredicateError: "),
        ]:
            status, said = go(server.url, given, **request)
            assert status == 1
            assert said[-1]["code"] == code
            assert said[-1]["error"].startswith(word)
        assert go(server.url, token, table="lake/events")[0] == 0


def test_go_goes_away_in_mid_stream(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", files=20, rows=50_000)
    with logged() as log, serving({"lake": tmp_path}, stream_bytes=2 << 20) as server:
        code, said = go(server.url, limit=1, table="lake/rows", what="rows", batch_size=5_000)
        assert code == 0
        assert said[-1]["gone"] is True
        assert eventually(lambda: server.health()["streams"] == 0)
    assert [line["outcome"] for line in log() if line.get("method") == "DoGet"] == ["gone"]
