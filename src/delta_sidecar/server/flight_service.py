"""The calls of Arrow Flight. What is read is in `reading`, who may is in `calls` and `roots`, how much in `budget`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

from delta_sidecar import arrays
from delta_sidecar.errors import InputError, NotOfferedError, ServerBusyError, TicketError
from delta_sidecar.server.answers import Answers
from delta_sidecar.server.budget import Admission, Budget
from delta_sidecar.server.calls import Call, Callers
from delta_sidecar.server.figures import Figures
from delta_sidecar.server.reading import (
    OpenTable,
    Reading,
    described,
    explained,
    open_table,
    pinned,
    reading_of,
)
from delta_sidecar.server.requests import ReadRequest, RequestLimits, request_of
from delta_sidecar.server.roots import Roots
from delta_sidecar.server.sql.flight_sql import ACTIONS, FlightSql
from delta_sidecar.server.sql.messages import is_message
from delta_sidecar.server.streams import ServedStream, Stalls
from delta_sidecar.server.table_search import tables_below
from delta_sidecar.server.tickets import SignedRequest, TicketSigner

_ACTIONS: Final = {
    "explain": "What a request would read, and why, as JSON; its body is a request.",
    "describe": "Version, schema, metadata and protocol of a table, as JSON; its body is a request.",
    "health": "Whether the server is ready, and how busy it is, as JSON.",
}
_READS_ONLY: Final = "this server only reads: GetFlightInfo, then DoGet"


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """What all calls share."""

    roots: Roots
    signer: TicketSigner
    streams: Budget
    openings: Budget
    """For calls that open a table and answer at once."""
    answers: Answers
    """Small lists that were asked for before."""
    figures: Figures
    limits: RequestLimits
    reader_options: Mapping[str, Any]
    stream_bytes: int
    """What a stream reserves of the budget."""
    patience: float
    """Seconds that a call waits for its turn."""
    listed_tables: int
    """Tables that ListFlights names, at most."""
    sql_bytes: int = 0
    """What a SQL statement reserves of the budget; 0 if SQL is not offered."""
    sql_seconds: float = 60.0
    stalls: Stalls = field(default_factory=lambda: Stalls(300.0))
    """Ends streams whose clients take nothing."""
    is_stopping: threading.Event = field(default_factory=threading.Event)
    is_cut_off: threading.Event = field(default_factory=threading.Event)
    """Streams that still run are ended."""

    def health(self) -> dict[str, Any]:
        return {
            "ready": not self.is_stopping.is_set(),
            "streams": self.streams.streams,
            "waiting": self.streams.waiting,
            "bytes_held": self.streams.held_bytes,
        }


class FlightService(flight.FlightServerBase):  # type: ignore[misc]
    """Answers the calls of Flight, from the moment it is made."""

    def __init__(
        self, location: str, core: Core, callers: Callers, certificates: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        self._core = core
        self._sql = FlightSql(core)
        super().__init__(
            location, _NoHandshake(), tls_certificates=list(certificates) or None, middleware={"call": callers}
        )

    # What there is

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:
        """The tables below the caller's roots, by name; GetFlightInfo tells more of one."""
        call = _call_of(context)
        with call.answering():
            wanted = _criteria(criteria, self._core.listed_tables)
            self._check_going()
            with self._turn(context):
                found = list(islice(self._names(call, wanted.root), wanted.limit))
            call.facts["tables"] = len(found)
            paths = (flight.FlightDescriptor.for_path(*name.split("/")) for name in found)
            return iter([flight.FlightInfo(None, path, []) for path in paths])

    def _names(self, call: Call, root: str | None) -> Iterator[str]:
        for each in self._core.roots.of(call.caller):
            if root is None or each.name == root:
                yield from tables_below(each)

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        with _call_of(context).answering():
            return list((_ACTIONS | (ACTIONS if self._core.sql_bytes else {})).items())

    # Requests and their streams

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """The schema of a request, and the ticket that reads it at the version that is open now."""
        call = _call_of(context)
        with call.answering():
            if _is_sql(descriptor):
                schema, command = self._planned(context, call, descriptor.command)
                return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(command, [])], -1, -1)
            request = self._request(descriptor)
            with self._opened(context, call, request) as opened:
                fixed = pinned(opened, request)
                schema = _schema(reading_of(opened, fixed, call.caller, self._core.answers))
                signer = self._core.signer
                expires = signer.expiry()
                ticket = signer.seal(SignedRequest(fixed, opened.table_id, call.caller.name, expires))
                told = json.dumps({"version": opened.version, "table_id": opened.table_id}).encode()
            nanoseconds = arrays.primitives([int(expires * 1_000_000_000)], pa.timestamp("ns", "UTC"), np.int64)
            endpoint = flight.FlightEndpoint(ticket, [], nanoseconds[0])
            return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1, app_metadata=told)

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        call = _call_of(context)
        with call.answering():
            if _is_sql(descriptor):
                return flight.SchemaResult(self._planned(context, call, descriptor.command)[0])
            request = self._request(descriptor)
            with self._opened(context, call, request) as opened:
                fixed = pinned(opened, request)
                return flight.SchemaResult(_schema(reading_of(opened, fixed, call.caller, self._core.answers)))

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """The batches of a ticket, as they are found."""
        core, call = self._core, _call_of(context)
        with call.answering():
            self._check_going()
            if is_message(ticket.ticket):
                return self._sql_stream(context, call, ticket.ticket)
            signed = core.signer.open(ticket.ticket, call.caller.name)
            call.facts |= _facts(signed.request)
            place = core.roots.place(signed.request.table, call.caller)
            admission = core.streams.admit(core.stream_bytes, core.patience, context.is_cancelled)
            try:
                opened = open_table(place, signed.request, core.reader_options)
                if opened.table_id != signed.table_id:
                    raise TicketError(f"{signed.request.table} was dropped and made again; ask for another ticket")
                reading = reading_of(opened, signed.request, call.caller, core.answers)
            except BaseException:
                admission.give_back()
                raise
            stream = ServedStream(reading, admission, call, core.figures, core.is_cut_off.is_set, core.stalls)
            return flight.GeneratorStream(reading.schema, stream)

    def _planned(self, context: flight.ServerCallContext, call: Call, command: bytes) -> tuple[pa.Schema, bytes]:
        self._check_going()
        with self._turn(context):
            return self._sql.planned(command, call.caller, call.facts)

    def _turn(self, context: flight.ServerCallContext) -> _Turn:
        core = self._core
        return _Turn(core.openings.admit(0, core.patience, context.is_cancelled))

    def _sql_stream(self, context: flight.ServerCallContext, call: Call, data: bytes) -> flight.FlightDataStream:
        core, ticket = self._core, self._sql.ticket(data)
        if ticket.command is not None:
            with self._turn(context):
                return flight.RecordBatchStream(
                    self._sql.answered(ticket.command, call.caller, call.facts, context.is_cancelled)
                )
        admission = core.streams.admit(core.sql_bytes, core.patience, context.is_cancelled)
        try:
            selected = self._sql.selected(ticket.statement or b"", call.caller, call.facts, context.is_cancelled)
        except BaseException:
            admission.give_back()
            raise
        stream = ServedStream(selected, admission, call, core.figures, core.is_cut_off.is_set, core.stalls)
        return flight.GeneratorStream(selected.schema, stream)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        call = _call_of(context)
        with call.answering():
            call.facts["action"] = action.type if action.type in _ACTIONS | ACTIONS else "unknown"
            if action.type in ACTIONS:
                self._check_going()
                with self._turn(context):
                    body = self._sql.act(action.type, action.body.to_pybytes(), call.caller, call.facts)
                return iter([] if body is None else [flight.Result(pa.py_buffer(body))])
            answer = self._answer(context, call, action.type, action.body.to_pybytes())
            return iter([flight.Result(pa.py_buffer(json.dumps(answer, default=str).encode()))])

    def _answer(self, context: flight.ServerCallContext, call: Call, kind: str, body: bytes) -> dict[str, Any]:
        if kind == "health":
            return self._core.health()
        answers: dict[str, Callable[[OpenTable, ReadRequest], dict[str, Any]]] = {
            "explain": lambda opened, request: explained(opened, request, call.caller, self._core.answers),
            "describe": lambda opened, request: described(opened),
        }
        if kind not in answers:
            raise NotOfferedError(f"there is no such action; there are {', '.join(_ACTIONS)}")
        request = request_of(body, self._core.limits)
        with self._opened(context, call, request) as opened:
            return answers[kind](opened, request)

    def _request(self, descriptor: flight.FlightDescriptor) -> ReadRequest:
        """A command is a request in JSON; a path is a table, and asks for all its rows."""
        if descriptor.descriptor_type == flight.DescriptorType.CMD:
            return request_of(descriptor.command or b"", self._core.limits)
        if descriptor.descriptor_type == flight.DescriptorType.PATH:
            try:
                return ReadRequest("/".join(part.decode() for part in descriptor.path or ()), "rows")
            except UnicodeDecodeError:
                raise InputError("the path of the descriptor is not UTF-8") from None
        raise InputError("the descriptor is neither a command in JSON nor the path of a table")

    def _opened(self, context: flight.ServerCallContext, call: Call, request: ReadRequest) -> _Opening:
        self._check_going()
        call.facts |= _facts(request)
        return _Opening(self._core, context, call, request)

    def _check_going(self) -> None:
        if self._core.is_stopping.is_set():
            raise ServerBusyError("the server is stopping; try again, at another one if there is one")

    # What is not offered: without these, Flight's own answers would hold a traceback.

    def do_put(self, context: flight.ServerCallContext, *rest: Any) -> None:
        with _call_of(context).answering():
            raise NotOfferedError(_READS_ONLY)

    def do_exchange(self, context: flight.ServerCallContext, *rest: Any) -> None:
        with _call_of(context).answering():
            raise NotOfferedError(_READS_ONLY)


class _NoHandshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """JDBC drivers send a handshake before their first call and fail without an answer. Each call carries its own token
    (`Callers`), so the handshake carries nothing."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        return

    def is_valid(self, token: bytes) -> bytes:
        return b""


class _Opening:
    """An open table, within the budget of calls that answer at once."""

    def __init__(self, core: Core, context: flight.ServerCallContext, call: Call, request: ReadRequest) -> None:
        self._place = core.roots.place(request.table, call.caller)
        self._core = core
        self._request = request
        self._admission = core.openings.admit(0, core.patience, context.is_cancelled)

    def __enter__(self) -> OpenTable:
        try:
            return open_table(self._place, self._request, self._core.reader_options)
        except BaseException:
            self._admission.give_back()
            raise

    def __exit__(self, *_: object) -> None:
        self._admission.give_back()


class _Turn:
    """A place in the budget of calls that answer at once."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        self._admission.give_back()


def _is_sql(descriptor: flight.FlightDescriptor) -> bool:
    return descriptor.descriptor_type == flight.DescriptorType.CMD and is_message(descriptor.command or b"")


def _schema(reading: Reading) -> pa.Schema:
    reading.close()
    return reading.schema


def _facts(request: ReadRequest) -> dict[str, Any]:
    """What the log says of a request. A predicate may hold what users look for: the log says only that there is one."""
    return {
        "table": request.table[:200],
        "what": request.what,
        "version": request.version,
        "has_predicate": request.predicate is not None,
        "limit": request.limit,
    }


@dataclass(frozen=True, slots=True)
class _Criteria:
    root: str | None
    limit: int


def _criteria(data: bytes, most: int) -> _Criteria:
    """What of the tables is wanted: nothing, or JSON with `root` and `limit`."""
    if not data:
        return _Criteria(None, most)
    try:
        given = json.loads(data[:1_000])
        root, limit = given.pop("root", None), given.pop("limit", most)
        if given or not isinstance(root, str | None) or type(limit) is not int or limit < 0:
            raise ValueError
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise InputError('criteria are empty, or JSON such as {"root": "lake", "limit": 100}') from None
    return _Criteria(root, min(limit, most))


def _call_of(context: flight.ServerCallContext) -> Call:
    call = context.get_middleware("call")
    assert isinstance(call, Call)
    return call
