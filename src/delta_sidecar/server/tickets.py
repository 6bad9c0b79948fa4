"""Tickets: a request with the version it is pinned to, signed, so that a client can hold it and not change it.

A ticket is `DST1`, 32 bytes of HMAC-SHA256, and the signed JSON. It holds nothing that the client did not say, but for
version and id of the table: it need not be secret, and is not.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from delta_sidecar.errors import TicketError
from delta_sidecar.server.requests import ReadRequest

_MAGIC: Final = b"DST1"
_SIGNATURE: Final = 32
_LARGEST: Final = 512 << 10
_ASK_AGAIN: Final = "call GetFlightInfo again for another"


class SignedRequest(Struct, frozen=True):
    """What a ticket says."""

    request: ReadRequest
    """With a version, and with versions as start and end of changes."""
    table_id: str
    caller: str
    expires: float
    """Seconds since 1970."""


class SignedStatement(Struct, frozen=True):
    """What a ticket of a SQL statement says."""

    text: str
    tables: dict[str, tuple[int, str]]
    """Version and id of each table that it reads."""
    caller: str
    expires: float
    """Seconds since 1970."""


T = TypeVar("T", SignedRequest, SignedStatement)


class TicketSigner:
    """Makes tickets and believes only its own."""

    def __init__(self, key: bytes, seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._seconds = seconds
        self._clock = clock

    def expiry(self) -> float:
        """When a ticket made now is too old."""
        return self._clock() + self._seconds

    def seal(self, request: SignedRequest | SignedStatement) -> bytes:
        body = msgspec.json.encode(request)
        return _MAGIC + self._signature(body) + body

    def open(self, ticket: bytes, caller: str) -> SignedRequest:
        """What a ticket says; `TicketError` if it is not one of ours, not the caller's, or too old."""
        return self._opened(ticket, caller, SignedRequest)

    def open_statement(self, ticket: bytes, caller: str) -> SignedStatement:
        """As `open`, for the ticket of a SQL statement."""
        return self._opened(ticket, caller, SignedStatement)

    def _opened(self, ticket: bytes, caller: str, kind: type[T]) -> T:
        head, body = len(_MAGIC), ticket[len(_MAGIC) + _SIGNATURE :]
        if len(ticket) > _LARGEST or not ticket.startswith(_MAGIC) or not body:
            raise TicketError(f"this is not a ticket of this server; {_ASK_AGAIN}")
        if not hmac.compare_digest(ticket[head : head + _SIGNATURE], self._signature(body)):
            raise TicketError(f"the ticket was altered, or made by another server; {_ASK_AGAIN}")
        try:
            signed = msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError):
            raise TicketError(f"the ticket is of another version of this server; {_ASK_AGAIN}") from None
        if not hmac.compare_digest(signed.caller.encode(), caller.encode()):
            raise TicketError(f"the ticket was made for another caller; {_ASK_AGAIN}")
        if signed.expires < self._clock():
            raise TicketError(f"the ticket is too old; {_ASK_AGAIN}")
        return signed

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, _MAGIC + body, hashlib.sha256)
