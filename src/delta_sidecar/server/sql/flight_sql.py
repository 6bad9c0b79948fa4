"""The commands of Flight SQL over the roots, callers and budgets that all calls share.

A statement's ticket holds its text and the versions it was planned for, signed. Everything else that a client keeps
between two calls, commands about the catalog and prepared statements, is its own words back: it is checked anew each
time, and nothing is kept for it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from delta_sidecar.errors import (
    DeltaSidecarError,
    InputError,
    NotOfferedError,
    QueryError,
    TableNotFoundError,
    TicketError,
)
from delta_sidecar.server.budget import GoneError
from delta_sidecar.server.figures import Outcome
from delta_sidecar.server.reading import OpenTable, open_table
from delta_sidecar.server.requests import ReadRequest
from delta_sidecar.server.sql.catalog import Visible, answer, columns_of_answer
from delta_sidecar.server.sql.messages import Message, message_of, packed
from delta_sidecar.server.sql.names import SqlName, meanings
from delta_sidecar.server.sql.session import SqlLimits, SqlSession
from delta_sidecar.server.table_search import tables_below
from delta_sidecar.server.tickets import SignedStatement

if TYPE_CHECKING:
    from delta_sidecar.server.flight_service import Core
    from delta_sidecar.server.tokens import Caller

PREPARE: Final = "CreatePreparedStatement"
CLOSE: Final = "ClosePreparedStatement"
CLOSE_SESSION: Final = "CloseSession"
ACTIONS: Final = {
    PREPARE: "Flight SQL: check a SELECT, and get its columns.",
    CLOSE: "Flight SQL: be done with a prepared statement.",
    CLOSE_SESSION: "Flight: be done with a connection.",
}
_CLOSED: Final = b"\x08\x01"
_NEWEST: Final = ReadRequest("", "rows")


@dataclass(frozen=True, slots=True)
class SqlTicket:
    """What DoGet does for a ticket of Flight SQL: run a statement, or answer a command."""

    statement: bytes | None
    command: Message | None


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """The rows of a statement, on their way to a client (see `streams.Served`)."""

    session: SqlSession
    opened: Sequence[OpenTable]
    schema: pa.Schema
    rows: Iterator[pa.RecordBatch]

    def outcome(self) -> Outcome:
        return Outcome(", ".join(each.name for each in self.opened)[:200], "sql")

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.rows

    def note(self, outcome: Outcome) -> None:
        costs = [each.cost for each in self.opened]
        outcome.store_requests = sum(cost.requests for cost in costs)
        outcome.store_bytes = sum(cost.bytes_read for cost in costs)

    def close(self) -> None:
        self.session.close()


class FlightSql:
    """Flight SQL for one server."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def _limits(self) -> SqlLimits:
        core = self._core
        return SqlLimits(core.sql_bytes, core.sql_seconds, core.limits.predicate_bytes)

    def _message(self, data: bytes) -> Message:
        if not self._core.sql_bytes:
            raise NotOfferedError("this server does not offer SQL; ask for files or rows in JSON")
        return message_of(data, self._core.limits.request_bytes)

    # GetFlightInfo and GetSchema

    def planned(self, data: bytes, caller: Caller, facts: dict[str, Any]) -> tuple[pa.Schema, bytes]:
        """The columns of what a command asks for, and the ticket that reads it."""
        command = self._message(data)
        columns = columns_of_answer(command)
        if columns is not None:
            facts["what"] = command.name
            return columns, data
        schema, statement = self._plan(_statement_of(command), caller, facts)
        return schema, packed("TicketStatementQuery", {1: self._core.signer.seal(statement)})

    def _plan(self, text: str, caller: Caller, facts: dict[str, Any]) -> tuple[pa.Schema, SignedStatement]:
        facts["what"] = "sql"
        session = SqlSession(text, self._limits, self._core.is_cut_off.is_set)
        try:
            opened = self._opened(session, caller, None)
            facts["table"] = _named(opened.values())
            session.offer({name: each.table for name, each in opened.items()}, self._roots(caller))
            schema = session.schema()
        finally:
            session.close()
        pinned = {each.name: (each.version, each.table_id) for each in opened.values()}
        return schema, SignedStatement(text, pinned, caller.name, self._core.signer.expiry())

    # DoGet

    def ticket(self, data: bytes) -> SqlTicket:
        """What a ticket asks for."""
        command = self._message(data)
        if command.name == "TicketStatementQuery":
            return SqlTicket(command.data(1) or b"", None)
        if columns_of_answer(command) is None:
            raise InputError(f"{command.name} is not a ticket; call GetFlightInfo first")
        return SqlTicket(None, command)

    def selected(self, handle: bytes, caller: Caller, facts: dict[str, Any], is_gone: Callable[[], bool]) -> Selected:
        """The rows of a signed statement, at the versions it was planned for."""
        signed = self._core.signer.open_statement(handle, caller.name)
        facts["what"], facts["table"] = "sql", ", ".join(signed.tables)[:200]
        is_cut_off = self._core.is_cut_off.is_set
        session = SqlSession(signed.text, self._limits, lambda: is_cut_off() or is_gone())
        try:
            opened = self._opened(session, caller, signed)
            session.offer({name: each.table for name, each in opened.items()}, self._roots(caller))
            schema, rows = session.batches()
            session.ask(is_cut_off)
        except BaseException:
            session.close()
            raise
        return Selected(session, list(opened.values()), schema, rows)

    def answered(
        self, command: Message, caller: Caller, facts: dict[str, Any], is_gone: Callable[[], bool]
    ) -> pa.Table:
        """The answer to a command about the catalog."""
        facts["what"] = command.name
        core = self._core

        def tables(roots: Sequence[str]) -> Iterable[str]:
            found = (name for root in core.roots.of(caller) if root.name in roots for name in tables_below(root))
            return islice(found, core.listed_tables)

        def schema_of(table: str) -> pa.Schema:
            if is_gone():
                raise GoneError
            with suppress(DeltaSidecarError):
                opened = open_table(core.roots.place(table, caller), _NEWEST, core.reader_options)
                return opened.table.to_pyarrow_dataset().schema
            return pa.schema([])

        return answer(command, Visible(self._roots(caller), tables, schema_of))

    # Actions

    def act(self, kind: str, body: bytes, caller: Caller, facts: dict[str, Any]) -> bytes | None:
        """The body of the result of an action; None if it has none."""
        if kind == CLOSE_SESSION:
            return _CLOSED
        request = self._message(body)
        if request.name != f"Action{kind}Request":
            raise InputError(f"the body of {kind} is a {request.name}")
        if kind == CLOSE:
            return None
        text = request.text(1) or ""
        _no_transaction(request)
        schema, _ = self._plan(text, caller, facts)
        return packed(
            "ActionCreatePreparedStatementResult",
            {1: text.encode(), 2: schema.serialize().to_pybytes(), 3: pa.schema([]).serialize().to_pybytes()},
        )

    def _roots(self, caller: Caller) -> list[str]:
        return [root.name for root in self._core.roots.of(caller)]

    def _opened(self, session: SqlSession, caller: Caller, signed: SignedStatement | None) -> dict[SqlName, OpenTable]:
        """The tables that a statement names, each opened once; at the versions of a ticket, if there is one."""
        roots, known = self._roots(caller), dict[str, OpenTable]()
        found: dict[SqlName, OpenTable] = {}
        for name in session.tables:
            for table in meanings(name, roots):
                opened = known.get(table) or self._table(table, caller, signed)
                if opened is not None:
                    known[table] = found[name] = opened
                    break
            else:
                raise TableNotFoundError(
                    f"there is no table {str(name)[:200]!r} on this server; a table is named catalog.schema.table, "
                    'such as lake.main.events, or in full, such as "lake/events"'
                )
        return found

    def _table(self, table: str, caller: Caller, signed: SignedStatement | None) -> OpenTable | None:
        core, version, table_id = self._core, None, None
        if signed is not None:
            if table not in signed.tables:
                return None
            version, table_id = signed.tables[table]
        try:
            place = core.roots.place(table, caller)
            opened = open_table(place, ReadRequest(table, "rows", version=version), core.reader_options)
        except TableNotFoundError:
            return None
        if table_id is not None and opened.table_id != table_id:
            raise TicketError(f"{table} was dropped and made again; ask for another ticket")
        if not opened.table.schema().fields:
            raise QueryError(f"{table} has no schema: you can list its files, but not read rows")
        return opened


def _named(opened: Iterable[OpenTable]) -> str:
    return ", ".join(dict.fromkeys(each.name for each in opened))[:200]


def _statement_of(command: Message) -> str:
    if command.name == "CommandStatementQuery":
        _no_transaction(command)
        return command.text(1) or ""
    if command.name == "CommandPreparedStatementQuery":
        return command.text(1) or ""
    raise NotOfferedError(f"{command.name} is not offered: this server runs SELECT and tells of its tables")


def _no_transaction(request: Message) -> None:
    if request.data(2):
        raise NotOfferedError("transactions are not offered: this server only reads")
