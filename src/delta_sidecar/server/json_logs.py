"""Logs as JSON, an object a line, on stderr. No secret of a root appears in them; tokens are never logged at all."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from delta_sidecar.server.wire_errors import one_line

_log = logging.getLogger("delta_sidecar.server")
_request_id: ContextVar[str | None] = ContextVar("delta_sidecar_request_id", default=None)


@contextmanager
def on_behalf_of(request_id: str) -> Iterator[None]:
    """Lines that this thread logs in the block carry the id of a request."""
    token = _request_id.set(request_id)
    try:
        yield
    finally:
        _request_id.reset(token)


def say(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """A line with an event and its facts."""
    _log.log(level, event, extra={"fields": fields})


class JsonLines(logging.Handler):
    """A line of JSON for each record."""

    def __init__(self, redact: Callable[[str], str] = str, stream: TextIO | None = None) -> None:
        super().__init__()
        self._redact = redact
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "request_id": _request_id.get(),
            **fields,
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = logging.Formatter().formatException(record.exc_info)
        stream = self._stream or sys.stderr
        try:
            stream.write(_written(line, self._redact) + "\n")
            stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads the log any more


def _written(line: Mapping[str, Any], redact: Callable[[str], str]) -> str:
    known = {name: value for name, value in line.items() if value is not None}
    clean = {
        name: redact(value if name == "exception" else one_line(value)) if isinstance(value, str) else value
        for name, value in known.items()
    }
    return json.dumps(clean, ensure_ascii=False, default=str)


def log_json(redact: Callable[[str], str], verbose: bool = False, stream: TextIO | None = None) -> None:
    """Send the log of the library to stderr, as JSON."""
    ours = logging.getLogger("delta_sidecar")
    ours.handlers, ours.propagate = [JsonLines(redact, stream)], False
    ours.setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        # The rooms below tell every opening; a server tells requests.
        for noisy in ("scan", "listing", "index", "log", "storage.options"):
            logging.getLogger(f"delta_sidecar.{noisy}").setLevel(logging.WARNING)
