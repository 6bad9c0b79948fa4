"""Who makes a call, and how it ends: a request id, one line in the log, an error of ours as one of Flight's."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow.flight as flight

from delta_sidecar.errors import (
    AccessDeniedError,
    DeltaSidecarError,
    PredicateError,
    QueryError,
    ServerBusyError,
    ServerError,
)
from delta_sidecar.server.budget import GoneError
from delta_sidecar.server.figures import Figures
from delta_sidecar.server.json_logs import on_behalf_of, say
from delta_sidecar.server.tokens import ANYONE, Caller, TokenFile
from delta_sidecar.server.wire_errors import to_flight

_log = logging.getLogger(__name__)

_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ID_HEADER: Final = "x-request-id"


class Call(flight.ServerMiddleware):  # type: ignore[misc]
    """One call: who makes it, and what the log will say of it."""

    def __init__(self, method: str, caller: Caller, request_id: str, figures: Figures, clean: Callable[[str], str]):
        self.method = method
        self.caller = caller
        self.request_id = request_id
        self.facts: dict[str, Any] = {}
        """What the log says, beside who, what and how long."""
        self._figures = figures
        self._clean = clean
        self._began = time.perf_counter()
        self._is_handed_on = False
        self._at_end: Callable[[], object] | None = None

    def sending_headers(self) -> Mapping[str, str]:
        return {_ID_HEADER: self.request_id}

    def hand_on(self, at_end: Callable[[], object] | None = None) -> None:
        """Whoever took the call over says how it ends. `at_end` is called when Flight is done with it."""
        self._is_handed_on = True
        self._at_end = at_end

    def call_completed(self, exception: BaseException | None) -> None:
        """Flight is done with the call, stream included, or the client is gone."""
        at_end, self._at_end = self._at_end, None
        if at_end is not None:
            try:
                at_end()
            except Exception as error:
                _log.error("internal error", exc_info=error)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Errors of the block become errors of Flight, and a line in the log is written at its end."""
        with on_behalf_of(self.request_id):
            try:
                yield
            except BaseException as error:
                raise self.failed(error) from None
            if not self._is_handed_on:
                self.ended("ok")

    def ended(self, outcome: str, error: DeltaSidecarError | None = None, **facts: Any) -> None:
        """Count the call and write its line."""
        self._figures.called(self.method, outcome)
        told = {} if error is None else {"error": type(error).__name__, "message": self._clean(_loggable(error))}
        seconds = round(time.perf_counter() - self._began, 4)
        level = logging.INFO if outcome in ("ok", "gone") else logging.WARNING
        known = {"method": self.method, "caller": self.caller.name, "outcome": outcome, "seconds": seconds}
        with on_behalf_of(self.request_id):
            say("call", level, **known, **self.facts, **facts, **told)

    def failed(self, error: BaseException, **facts: Any) -> flight.FlightError:
        """Write the line of a call that failed; the error for the client."""
        if isinstance(error, flight.FlightError):
            return error
        if isinstance(error, GoneError):
            self.ended("gone", **facts)
            return flight.FlightCancelledError("the client went away")
        ours = error
        if not isinstance(ours, DeltaSidecarError):
            _log.error("internal error", exc_info=error)
            ours = ServerError(f"internal error; the server's log has more, under request {self.request_id}")
        self.ended("busy" if isinstance(ours, ServerBusyError) else "error", ours, **facts)
        return to_flight(type(ours)(self._clean(str(ours))), self.request_id)


def _loggable(error: DeltaSidecarError) -> str:
    """What the log says of an error. A message about a predicate or statement quotes it, and it holds what users look
    for."""
    return "refused; the client has the reason" if isinstance(error, PredicateError | QueryError) else str(error)


class Callers(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who has a token, or anyone where there are none."""

    def __init__(self, tokens: TokenFile | None, figures: Figures, clean: Callable[[str], str]) -> None:
        self._tokens = tokens
        self._figures = figures
        self._clean = clean

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Any]) -> Call:
        method = _METHODS.get(info.method, "other")
        call = Call(method, ANYONE, _request_id(headers), self._figures, self._clean)
        if self._tokens is not None:
            try:
                call.caller = self._tokens.caller(_header(headers, "authorization"))
            except AccessDeniedError as error:
                call.caller = Caller("unknown")
                call.ended("refused", error)
                raise to_flight(error, call.request_id, is_about_caller=True) from None
            except BaseException as error:
                raise call.failed(error) from None
        return call


_METHODS: Final = {
    flight.FlightMethod.HANDSHAKE: "Handshake",
    flight.FlightMethod.GET_FLIGHT_INFO: "GetFlightInfo",
    flight.FlightMethod.GET_SCHEMA: "GetSchema",
    flight.FlightMethod.DO_GET: "DoGet",
    flight.FlightMethod.DO_PUT: "DoPut",
    flight.FlightMethod.DO_ACTION: "DoAction",
    flight.FlightMethod.DO_EXCHANGE: "DoExchange",
    flight.FlightMethod.LIST_FLIGHTS: "ListFlights",
    flight.FlightMethod.LIST_ACTIONS: "ListActions",
}


def _request_id(headers: Mapping[str, Any]) -> str:
    given = _header(headers, _ID_HEADER)
    return given if given is not None and _GIVEN_ID.fullmatch(given) else secrets.token_hex(8)


def _header(headers: Mapping[str, Any], name: str) -> str | None:
    values = headers.get(name)
    first = values[0] if values else None
    return first if isinstance(first, str) else None
