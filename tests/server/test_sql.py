"""Flight SQL by the ADBC driver: SELECT over the roots, what tools ask about tables, and nothing else."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable, build_index
from delta_sidecar.errors import InputError
from delta_sidecar.server.running import RunningServer
from delta_sidecar.server.sql.messages import message_of, packed
from delta_sidecar.server.tokens import new_token
from delta_sidecar.storage.opening import open_location
from delta_sidecar.storage.uri import Location
from delta_sidecar.testing import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.events_table import write_events
from tests.server.serving import bearer, eventually, logged, serving, write_rows

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    for name in ("events", "eu/clicks", "eu/west/visits"):
        write_events(root / name)
    build_index(root / "events")
    return root


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[RunningServer]:
    with serving({"lake": lake, "one": lake / "events"}) as running:
        yield running


def connected(server: RunningServer, token: str | None = None, **options: str) -> Any:
    headers = {} if token is None else {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    return dbapi.connect(server.url, db_kwargs=headers | options, autocommit=True)


def asked(server: RunningServer, sql: str, token: str | None = None) -> list[dict[str, Any]]:
    with connected(server, token) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        found: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
        return found


def refused(server: RunningServer, sql: str, token: str | None = None) -> str:
    with pytest.raises(Exception) as caught:
        asked(server, sql, token)
    return str(caught.value)


class TestSelect:
    def test_rows_are_those_of_the_table(self, server: RunningServer, lake: Path) -> None:
        with connected(server) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM lake.events ORDER BY id")
            found = cursor.fetch_arrow_table()
        expected = DeltaTable(lake / "events").to_pyarrow_table().sort_by("id")
        assert found.column_names == expected.column_names
        assert str(found.to_pylist()) == str(expected.to_pylist())

    @pytest.mark.parametrize(
        "name",
        [
            "lake.events",
            "lake.main.events",
            '"lake/events"',
            '"lake"."main"."events"',
            "one.one",
            "one.main.one",
        ],
    )
    def test_a_table_is_found_by_each_of_its_names(self, server: RunningServer, name: str) -> None:
        assert asked(server, f"SELECT count(*) AS n FROM {name}") == [{"n": 8}]

    def test_deeper_tables_are_in_schemas(self, server: RunningServer) -> None:
        sql = 'SELECT count(*) AS n FROM lake.eu.clicks JOIN lake."eu/west".visits USING (id)'
        assert asked(server, sql) == [{"n": 8}]

    def test_one_root_may_be_left_out(self, lake: Path) -> None:
        with serving({"lake": lake}) as server:
            assert asked(server, "SELECT min(c.id) AS n FROM events, eu.clicks c WHERE c.id = events.id") == [{"n": 0}]

    def test_with_two_roots_a_name_needs_its_root(self, server: RunningServer) -> None:
        assert "TableNotFoundError" in refused(server, "SELECT count(*) FROM events")

    def test_columns_may_be_qualified_and_repeat(self, server: RunningServer) -> None:
        with connected(server) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT lake.main.events.id, e.id, 1 FROM lake.main.events, lake.events e LIMIT 1")
            assert cursor.fetch_arrow_table().column_names == ["id", "id", "1"]

    def test_ctes_subqueries_and_unions_read_what_they_name(self, server: RunningServer) -> None:
        sql = """WITH events AS (SELECT id FROM lake.events WHERE _event_hour = '2026021022'), more AS (FROM events)
                 SELECT id FROM more UNION ALL SELECT max(id) FROM lake.eu.clicks
                 WHERE id IN (SELECT id FROM lake.events) ORDER BY 1"""
        assert [row["id"] for row in asked(server, sql)] == [4, 5, 7]

    def test_planning_reads_no_file_and_filters_leave_files_out(self, lake: Path) -> None:
        stores: list[CountingStore] = []

        def counted(location: Location) -> CountingStore:
            stores.append(CountingStore(open_location(location)))
            return stores[-1]

        def files() -> set[str]:
            return {each.path for store in stores for each in store.requests if each.path.endswith("part-0.parquet")}

        with serving({"lake": lake}, counted) as server, flight.connect(server.url) as client:
            planned = statement("SELECT count(DISTINCT value) FROM events WHERE _event_hour = '2026021022'")
            info = client.get_flight_info(planned)
            assert client.get_schema(planned).schema == info.schema
            assert files() == set()
            client.do_get(info.endpoints[0].ticket).read_all()
            assert files() == {"_event_hour=2026021022/part-0.parquet"}

    def test_prepared_statements_run_more_than_once(self, server: RunningServer) -> None:
        with connected(server) as connection, connection.cursor() as cursor:
            cursor.adbc_prepare("SELECT id FROM lake.events WHERE id < 2 ORDER BY id")
            for _ in range(2):
                cursor.execute("SELECT id FROM lake.events WHERE id < 2 ORDER BY id")
                assert cursor.fetchall() == [(0,), (1,)]

    def test_the_version_is_that_of_the_ticket(self, lake: Path, tmp_path: Path) -> None:
        write_events(tmp_path / "events")
        with serving({"lake": tmp_path}) as server, flight.connect(server.url) as client:
            info = client.get_flight_info(statement("SELECT count(*) AS n FROM events"))
            assert info.schema == pa.schema({"n": pa.int64()})
            removed = {"remove": {"path": "_event_hour=2026021023/part-0.parquet", "dataChange": True}}
            (tmp_path / "events" / "_delta_log" / f"{4:020}.json").write_text(json.dumps(removed))
            assert client.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"n": 8}]
            assert asked(server, "SELECT count(*) AS n FROM events") == [{"n": 6}]


def lines(log: Any, method: str) -> list[dict[str, Any]]:
    return [line for line in log() if line.get("method") == method]


def statement(sql: str) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(packed("CommandStatementQuery", {1: sql.encode()}))


class TestCatalog:
    def test_objects_are_catalogs_schemas_and_tables(self, server: RunningServer) -> None:
        with connected(server) as connection:
            found = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        tables = {
            (catalog["catalog_name"], schema["db_schema_name"], table["table_name"]): table
            for catalog in found
            for schema in catalog["catalog_db_schemas"]
            for table in schema["db_schema_tables"]
        }
        assert sorted(tables) == [
            ("lake", "eu", "clicks"),
            ("lake", "eu/west", "visits"),
            ("lake", "main", "events"),
            ("one", "main", "one"),
        ]
        columns = [column["column_name"] for column in tables["lake", "main", "events"]["table_columns"]]
        assert columns == ["ts", "id", "value", "_event_hour"]
        assert {table["table_type"] for table in tables.values()} == {"TABLE"}

    def test_patterns_choose(self, server: RunningServer) -> None:
        with connected(server) as connection:
            found = connection.adbc_get_objects(
                depth="tables", catalog_filter="lake", db_schema_filter="eu%", table_name_filter="c_icks"
            )
            text = json.dumps(found.read_all().to_pylist())
        assert "clicks" in text
        assert "visits" not in text
        assert "events" not in text

    def test_a_table_tells_its_columns_and_the_server_what_it_is(self, server: RunningServer) -> None:
        with connected(server) as connection:
            assert connection.adbc_get_table_types() == ["TABLE"]
            schema = connection.adbc_get_table_schema("events", catalog_filter="lake", db_schema_filter="main")
            assert schema.names == ["ts", "id", "value", "_event_hour"]
            assert connection.adbc_get_info()["vendor_name"] == "Delta Sidecar"

    @pytest.mark.parametrize(
        "command",
        [
            "CommandGetPrimaryKeys",
            "CommandGetExportedKeys",
            "CommandGetImportedKeys",
            "CommandGetCrossReference",
            "CommandGetXdbcTypeInfo",
        ],
    )
    def test_what_there_is_none_of_is_empty(self, server: RunningServer, command: str) -> None:
        with flight.connect(server.url) as client:
            info = client.get_flight_info(flight.FlightDescriptor.for_command(packed(command, {})))
            found = client.do_get(info.endpoints[0].ticket).read_all()
        assert found.schema == info.schema
        assert found.num_rows == 0


REFUSED = {
    "INSERT INTO lake.events VALUES (1)": "not a SELECT",
    "DELETE FROM lake.events": "not a SELECT",
    "CREATE TABLE x AS SELECT 1": "not a SELECT",
    "COPY (SELECT 1) TO '/tmp/x'": "not a SELECT",
    "ATTACH '/etc/passwd' AS x": "not a SELECT",
    "INSTALL httpfs": "not a SELECT",
    "SET threads = 8": "not a SELECT",
    "PRAGMA database_list": "not a SELECT",
    "SELECT 1; SELECT 2": "2 statements",
    "": "statements",
    "SHOW TABLES": "SHOW_REF is not offered",
    "SUMMARIZE lake.events": "SHOW_REF is not offered",
    "SELECT * FROM (PIVOT lake.events ON id USING count(*))": "not a SELECT",
    "SELECT * FROM read_parquet('/etc/passwd')": "the function read_parquet is not offered",
    "SELECT * FROM read_text('/etc/passwd')": "the function read_text is not offered",
    "SELECT * FROM glob('/*')": "the function glob is not offered",
    "SELECT * FROM duckdb_settings()": "the function duckdb_settings is not offered",
    "SELECT * FROM query('SELECT 1')": "the function query is not offered",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))": "the function read_text is not offered",
    "SELECT current_setting('memory_limit')": "the function current_setting is not offered",
    "SELECT * FROM '/etc/passwd'": "is not the name of a table",
    "SELECT * FROM 'lake/../../etc'": "InputError",
    "SELECT * FROM information_schema.tables": "TableNotFoundError",
    "SELECT * FROM duckdb_tables": "TableNotFoundError",
    "SELECT * FROM lake": "TableNotFoundError",
    "SELECT * FROM lake.nowhere": "TableNotFoundError",
    "SELECT * FROM memory.main.rows": "TableNotFoundError",
    "SELECT id FROM lake.events WHERE id = ?": "parameters are not offered",
    "SELECT * FROM lake.events AT (VERSION => 1)": "AT is not offered",
    "SELECT nothing FROM lake.events": "QueryError",
    "SELEKT": "cannot be parsed",
    "SELECT " + "(" * 10_000 + "1" + ")" * 10_000: "QueryError",
    "SELECT " + "NOT " * 10_000 + "true": "QueryError",
    "SELECT '" + "x" * 100_000 + "'": "65,536 are allowed",
}


class TestRefused:
    @pytest.mark.parametrize(("sql", "why"), REFUSED.items(), ids=[text[:40] for text in REFUSED])
    def test_what_is_not_a_select_of_tables_is_refused_by_name(self, server: RunningServer, sql: str, why: str) -> None:
        assert why in said_to(server, sql)

    def test_the_log_has_one_line_and_not_the_statement(self, server: RunningServer) -> None:
        with logged() as log:
            said_to(server, "SELECT 'hidden' FROM lake.events WHERE nothing = 'hidden'")
        [line] = log()
        assert line["outcome"] == "error"
        assert "hidden" not in json.dumps(line)

    def test_variables_of_the_process_are_not_tables(self, server: RunningServer) -> None:
        secret = pa.table({"key": ["hidden"]})
        assert "TableNotFoundError" in said_to(server, "SELECT * FROM secret")
        assert secret.num_rows == 1

    def test_writes_are_refused(self, server: RunningServer) -> None:
        with flight.connect(server.url) as client:
            command = packed("CommandStatementUpdate", {1: b"DELETE FROM lake.events"})
            with pytest.raises(flight.FlightServerError, match="CommandStatementUpdate is not offered"):
                client.get_flight_info(flight.FlightDescriptor.for_command(command))
            with pytest.raises(flight.FlightServerError, match="no such action"):
                list(client.do_action(flight.Action("BeginTransaction", b"")))

    def test_a_forged_or_foreign_ticket_is_refused(self, server: RunningServer) -> None:
        with flight.connect(server.url) as client:
            ticket = client.get_flight_info(statement("SELECT 1")).endpoints[0].ticket.ticket
            handle = message_of(ticket, 1_000_000).data(1)
            assert handle is not None
            for forged in (handle[:-2] + b"x}", b"", b"SELECT 1", handle[:40]):
                with pytest.raises(flight.FlightUnauthorizedError):
                    client.do_get(flight.Ticket(packed("TicketStatementQuery", {1: forged}))).read_all()
            with pytest.raises(flight.FlightUnauthorizedError):
                client.do_get(flight.Ticket(handle)).read_all()

    @pytest.mark.parametrize("cut", range(1, 60, 7))
    def test_broken_messages_are_refused(self, server: RunningServer, cut: int) -> None:
        whole = packed("CommandGetTables", {1: b"lake", 2: b"%", 3: b"%"})
        with flight.connect(server.url) as client, pytest.raises(flight.FlightServerError):
            client.get_flight_info(flight.FlightDescriptor.for_command(whole[:-cut] + b"\xff" * 3))

    def test_without_sql_it_says_so(self, lake: Path) -> None:
        with serving({"lake": lake}, sql=False) as server:
            assert "does not offer SQL" in said_to(server, "SELECT 1")


def said_to(server: RunningServer, sql: str) -> str:
    """What the server says to a statement that it refuses, as Flight gives it: one line, no path of its code."""
    with flight.connect(server.url) as client, pytest.raises(flight.FlightError) as caught:
        client.do_get(client.get_flight_info(statement(sql)).endpoints[0].ticket).read_all()
    said = str(caught.value)
    assert "Traceback" not in said
    assert ".py" not in said
    return said


@given(st.binary(max_size=120), st.sampled_from(["CommandStatementQuery", "CommandGetTables", "CommandGetSqlInfo"]))
def test_nonsense_is_never_more_than_refused(data: bytes, name: str) -> None:
    whole = packed(name, {1: data})
    for message in (data, whole, whole[: len(data)], whole.replace(b"Command", data[:7])):
        with suppress(InputError):
            found = message_of(message, 1_000)
            for number in (1, 2, 3):
                found.text(number), found.texts(number), found.flag(number), found.numbers(number)


class TestCallers:
    @pytest.fixture
    def tokens(self, tmp_path: Path) -> Path:
        return tmp_path / "tokens.json"

    def test_a_token_sees_the_tables_of_its_roots_alone(self, lake: Path, tokens: Path) -> None:
        both, one = new_token(tokens, "both"), new_token(tokens, "one", ["one"])
        with serving({"lake": lake, "one": lake / "events"}, token_file=str(tokens)) as server:
            assert asked(server, "SELECT count(*) AS n FROM lake.eu.clicks", both) == [{"n": 8}]
            assert asked(server, "SELECT count(*) AS n FROM one", one) == [{"n": 8}]
            for name in ("lake.eu.clicks", '"lake/eu/clicks"', "lake.events"):
                assert "TableNotFoundError" in refused(server, f"SELECT * FROM {name}", one)
            with connected(server, one) as connection:
                found = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
            assert [catalog["catalog_name"] for catalog in found] == ["one"]
            with flight.connect(server.url) as client:
                ticket = client.get_flight_info(statement("SELECT 1"), bearer(both)).endpoints[0].ticket
                with pytest.raises(flight.FlightUnauthorizedError):
                    client.do_get(ticket, bearer(one)).read_all()
                with pytest.raises(flight.FlightUnauthenticatedError):
                    client.get_flight_info(statement("SELECT 1"))

    def test_files_outside_of_the_roots_are_not_read(self, lake: Path, tmp_path: Path) -> None:
        outside = next((lake / "events").rglob("part-0.parquet"))
        log = LogBuilder(tmp_path / "clone").metadata({"id": "long"})
        log.commit({"add": {"path": outside.as_uri(), "partitionValues": {}, "size": outside.stat().st_size,
                            "modificationTime": 0, "dataChange": True}})  # fmt: skip
        with serving({"lake": tmp_path}) as server:
            assert "AccessDeniedError" in said_to(server, "SELECT id FROM clone")


class TestBudgets:
    SLOW = "SELECT count(*) FROM range(100000000) a, range(100000) b, lake.events"

    def test_a_statement_that_takes_too_long_is_stopped(self, lake: Path) -> None:
        with serving({"lake": lake, "one": lake}, sql_seconds=0.5) as server:
            assert "took more than 0.5 s" in said_to(server, self.SLOW)
            assert server.health()["streams"] == 0

    def test_a_statement_that_needs_too_much_memory_is_refused(self, lake: Path) -> None:
        with serving({"lake": lake}) as server:
            assert "needs more than 64 MB" in said_to(server, "SELECT list(a.range) FROM range(100000000) a")
            assert server.health() | {"ready": True} == {"ready": True, "streams": 0, "waiting": 0, "bytes_held": 0}

    def test_a_client_that_goes_away_stops_its_statement(self, lake: Path) -> None:
        with serving({"lake": lake, "one": lake}) as server, logged() as log:
            before = threading.active_count()
            client = flight.connect(server.url)
            ticket = client.get_flight_info(statement(self.SLOW)).endpoints[0].ticket
            with pytest.raises(flight.FlightTimedOutError):
                client.do_get(ticket, flight.FlightCallOptions(timeout=1)).read_all()
            client.close()
            began = time.monotonic()
            eventually(lambda: any(line.get("outcome") == "gone" for line in log()), 30)
            assert time.monotonic() - began < 30
            eventually(lambda: server.health()["streams"] == 0, 10)
            eventually(lambda: threading.active_count() <= before + 1, 10)

    def test_a_client_that_goes_away_in_mid_stream_ends_it(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "rows", files=20, rows=50_000)
        with logged() as log, serving({"lake": tmp_path}) as server:
            client = flight.connect(server.url)
            stream = client.do_get(client.get_flight_info(statement("FROM rows")).endpoints[0].ticket)
            assert stream.read_chunk().data.num_rows > 0
            stream.cancel()
            client.close()
            assert eventually(lambda: server.health()["streams"] == 0, 20)
        assert [line["outcome"] for line in lines(log, "DoGet")] == ["gone"]

    def test_a_table_that_cannot_be_read_is_listed_without_columns(self, tmp_path: Path) -> None:
        write_events(tmp_path / "good")
        LogBuilder(tmp_path / "bad").metadata({"id": "long"})
        (tmp_path / "bad" / "_delta_log" / f"{0:020}.json").write_text("{")
        with serving({"lake": tmp_path}) as server, connected(server) as connection:
            found = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        [schema] = found[0]["catalog_db_schemas"]
        assert {table["table_name"]: len(table["table_columns"]) for table in schema["db_schema_tables"]} == {
            "bad": 0,
            "good": 4,
        }

    def test_figures_and_log_know_of_sql(self, server: RunningServer) -> None:
        with logged() as log:
            asked(server, "SELECT id FROM lake.events")
        line = lines(log, "DoGet")[-1]
        assert (line["what"], line["rows"], line["table"], line["outcome"]) == ("sql", 8, "lake/events", "ok")
        assert line["store_requests"] > 0
