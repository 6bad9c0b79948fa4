"""One call of the page: its id, who makes it, how it ends, and its line in the log."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from delta_sidecar.errors import DeltaSidecarError, PredicateError, ServerBusyError, ServerError
from delta_sidecar.server.figures import Figures
from delta_sidecar.server.json_logs import on_behalf_of, say
from delta_sidecar.server.tokens import Caller
from delta_sidecar.server.wire_errors import one_line

_log = logging.getLogger(__name__)


class Told(Struct, frozen=True):
    """What a client is told of a call that failed."""

    error: str
    message: str
    request_id: str


class PageCall:
    """A call under way."""

    def __init__(self, name: str, figures: Figures, clean: Callable[[str], str], is_logged: bool) -> None:
        self.request_id = secrets.token_hex(8)
        self.caller = Caller("unknown")
        self.told: dict[str, Any] = {}
        """What the log says of it, beside who, what and how long."""
        self._method = f"page/{name}"
        self._figures = figures
        self._clean = clean
        self._is_logged = is_logged
        self._began = time.perf_counter()

    def ended(self, outcome: str) -> None:
        """Count the call and write its line."""
        self._figures.called(self._method, outcome)
        if not self._is_logged:
            return
        level = logging.INFO if outcome in ("ok", "gone") else logging.WARNING
        known = {"method": self._method, "caller": self.caller.name, "outcome": outcome}
        with on_behalf_of(self.request_id):
            say("call", level, **known, seconds=round(time.perf_counter() - self._began, 4), **self.told)

    def refused(self, error: Exception) -> Told:
        """The end of a call by someone who is not let in."""
        self.ended("refused")
        return Told("AccessDeniedError", one_line(str(error)), self.request_id)

    def ours(self, error: Exception) -> DeltaSidecarError:
        """An error as clients may see it: one that is not ours stays in the log."""
        if isinstance(error, DeltaSidecarError):
            return error
        with on_behalf_of(self.request_id):
            _log.error("internal error", exc_info=error)
        return ServerError(f"internal error; the log has more, under request {self.request_id}")

    def failed(self, error: DeltaSidecarError) -> Told:
        """The end of a call by an error. The log does not quote predicates: they hold what users look for."""
        kind, message = type(error).__name__, self._clean(one_line(str(error)))
        shown = "refused; the client has the reason" if isinstance(error, PredicateError) else message
        self.told |= {"error": kind, "message": shown}
        self.ended("busy" if isinstance(error, ServerBusyError) else "error")
        return Told(kind, message, self.request_id)
