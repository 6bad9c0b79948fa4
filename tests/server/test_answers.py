"""Lists that were asked for before are answered out of memory: the same list, and only to those who may have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest

from delta_sidecar import AccessDeniedError, TableNotFoundError, build_index, connect
from delta_sidecar.log import tail
from delta_sidecar.log.commits import file_actions
from delta_sidecar.server.running import RunningServer
from delta_sidecar.server.tokens import new_token
from delta_sidecar.storage.opening import open_location
from delta_sidecar.storage.uri import Location
from delta_sidecar.testing import CountingStore
from tests.events_table import write_events
from tests.server.serving import bearer, command_of, logged, serving


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_events(tmp_path / "lake" / "events")
    build_index(tmp_path / "lake" / "events")
    return tmp_path / "lake"


class Counted:
    """Counts what stores are asked to read, listings of the log left out."""

    def __init__(self) -> None:
        self.stores: list[CountingStore] = []

    def __call__(self, location: Location) -> CountingStore:
        self.stores.append(CountingStore(open_location(location)))
        return self.stores[-1]

    @property
    def reads(self) -> int:
        return sum(request.verb != "list" for store in self.stores for request in store.requests)

    @property
    def commit_reads(self) -> int:
        requests = [request for store in self.stores for request in store.requests if request.verb != "list"]
        return sum(request.path.endswith(".json") for request in requests)


def write_more(table: Path, commits: int) -> None:
    """Commits of one more file in two of the hours."""
    version = sum(1 for _ in (table / "_delta_log").glob("*.json"))
    for number in range(version, version + commits):
        hour = f"20260210{22 + number % 2}"
        line = {
            "path": f"_event_hour={hour}/more-{number}.parquet",
            "partitionValues": {"_event_hour": hour},
            "size": 1,
            "modificationTime": 0,
            "dataChange": True,
        }
        (table / "_delta_log" / f"{number:020}.json").write_text(json.dumps({"add": line}) + "\n")


def listed(server: RunningServer, token: str | None = None, **request: Any) -> list[dict[str, Any]]:
    with flight.connect(server.url) as client:
        asked = command_of(**{"table": "lake/events", "columns": ["path"], **request})
        ticket = client.get_flight_info(asked, bearer(token)).endpoints[0].ticket
        found: list[dict[str, Any]] = client.do_get(ticket, bearer(token)).read_all().to_pylist()
        return found


def kept(server: RunningServer) -> int:
    return server._core.answers.size


@pytest.mark.parametrize("what", ["files", "stats"])
def test_the_second_to_ask_reads_nothing(lake: Path, what: str) -> None:
    counted = Counted()
    columns = ["path"] if what == "files" else ["id"]
    with serving({"lake": lake}, counted, metrics_port=0) as server:
        first = listed(server, what=what, columns=columns, predicate="id >= 4")
        reads = counted.reads
        assert listed(server, what=what, columns=columns, predicate="id>=4  ") == first
        assert listed(server, what=what, columns=columns, predicate={"column": "id", "op": ">=", "value": 4}) == first
        assert counted.reads == reads
        assert listed(server, what=what, columns=columns, predicate="id >= 6") == first[:1]
        assert kept(server) > 0


def test_the_tail_is_decoded_for_the_first_of_a_version_alone(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_more(lake / "events", 2)
    decoded: list[str] = []

    def counted_actions(blocks: Any, path: str, *rest: Any) -> Any:
        decoded.append(path)
        return file_actions(blocks, path, *rest)

    monkeypatch.setattr(tail, "file_actions", counted_actions)
    counted = Counted()
    with serving({"lake": lake}, counted) as server:
        first = listed(server, predicate="_event_hour = '2026021022'")
        assert len(decoded) == 2
        reads = counted.commit_reads
        other = listed(server, predicate="_event_hour = '2026021023'")
        assert len(decoded) == 2, "an hour of its own, and the same commits"
        assert counted.commit_reads == reads
        assert (len(first), len(other)) == (2, 2)
        write_more(lake / "events", 1)
        listed(server, predicate="_event_hour = '2026021021'")
        assert len(decoded) == 5, "a new version is another tail"


def test_figures_count_answers_out_of_memory_too(lake: Path) -> None:
    with logged() as log, serving({"lake": lake}) as server:
        for _ in range(2):
            listed(server, predicate="_event_hour = '2026021022'")
    first, second = [line for line in log() if line.get("method") == "DoGet"]
    for name in ("rows", "batches", "bytes", "tier"):
        assert first[name] == second[name]


def test_a_new_version_is_another_list(lake: Path) -> None:
    with serving({"lake": lake}) as server:
        assert len(listed(server)) == 4
        removed = {"remove": {"path": "_event_hour=2026021023/part-0.parquet", "dataChange": True}}
        (lake / "events" / "_delta_log" / f"{4:020}.json").write_text(json.dumps(removed))
        assert len(listed(server)) == 3
        assert len(listed(server, version=3)) == 4


def test_limits_columns_and_batches_are_part_of_the_question(lake: Path) -> None:
    with serving({"lake": lake}) as server:
        assert len(listed(server)) == 4
        assert len(listed(server, limit=1)) == 1
        assert listed(server, columns=["size"])[0].keys() == {"size"}
        with logged() as log:
            assert len(listed(server, batch_size=1)) == 4
        assert [line["batches"] for line in log() if line.get("method") == "DoGet"] == [4]


def test_a_caller_with_other_roots_shares_nothing(lake: Path, tmp_path: Path) -> None:
    """The log lies in a root that is not everyone's."""
    tokens = tmp_path / "tokens"
    both, one = new_token(tokens, "both"), new_token(tokens, "one", ["lake"])
    write_events(tmp_path / "web" / "clicks")
    (lake / "t").mkdir()
    (lake / "t" / "_delta_log").symlink_to(tmp_path / "web" / "clicks" / "_delta_log")
    with serving({"lake": lake, "web": tmp_path / "web"}, token_file=str(tokens)) as server:
        assert len(listed(server, both, table="lake/t")) == 4
        with pytest.raises(flight.FlightServerError, match=r"out of the roots|no Delta table"):
            listed(server, one, table="lake/t")
        with connect(server.url, one) as connection, pytest.raises((AccessDeniedError, TableNotFoundError)):
            connection.table("lake/t")


def test_large_lists_and_broken_off_ones_are_not_kept(lake: Path) -> None:
    with serving({"lake": lake}, held_bytes=8_192, stream_bytes=8_192) as server:
        listed(server)
        assert kept(server) == 0
    with serving({"lake": lake}) as server, connect(server.url) as connection:
        with connection.table("lake/events").scan_files(batch_size=1) as files:
            next(files)
        assert kept(server) == 0
