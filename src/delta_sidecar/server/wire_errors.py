"""Errors on the wire: one of ours becomes one of Flight's with its class and message, and the client turns it back.

The text is `Class: message`; the details are JSON, `{"error": class, "message": …, "request_id": …}`.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight

from delta_sidecar import errors
from delta_sidecar.errors import AccessDeniedError, DeltaSidecarError, ServerBusyError, ServerError, TicketError

_LONGEST: Final = 2_000
_KNOWN: Final[dict[str, type[DeltaSidecarError]]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, DeltaSidecarError)
}


def one_line(text: str) -> str:
    """A message without line breaks, cut where it is longer than anyone reads."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def to_flight(error: DeltaSidecarError, request_id: str, is_about_caller: bool = False) -> flight.FlightError:
    """The error of Flight for one of ours. `is_about_caller`: it is the caller who is refused, not a store."""
    kind, message = type(error).__name__, one_line(str(error))
    details = json.dumps({"error": kind, "message": message, "request_id": request_id}).encode()
    made: type[flight.FlightError] = flight.FlightServerError
    if is_about_caller:
        made = flight.FlightUnauthenticatedError
    elif isinstance(error, TicketError):
        made = flight.FlightUnauthorizedError
    elif isinstance(error, ServerBusyError):
        made = flight.FlightUnavailableError
    elif type(error) is ServerError:
        made = flight.FlightInternalError
    return made(f"{kind}: {message}", extra_info=details)


def from_flight(error: pa.ArrowException, where: str) -> DeltaSidecarError:
    """Our error for one of Flight, at the client."""
    told = _details(error)
    kind = _KNOWN.get(str(told.get("error", "")))
    if kind is not None:
        return kind(str(told.get("message", "")))
    text = one_line(str(error).partition(". gRPC client debug context")[0])
    if isinstance(error, flight.FlightUnavailableError):
        return ServerError(f"the server at {where} cannot be reached, or broke off: {text}; check its address, or wait")
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        return AccessDeniedError(f"{where}: {text}")
    return ServerError(f"{where}: {text}")


def _details(error: BaseException) -> dict[str, Any]:
    try:
        told = json.loads(getattr(error, "extra_info", b"") or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
