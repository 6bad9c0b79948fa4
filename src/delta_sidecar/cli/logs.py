"""Log lines on stderr: retries always, everything else with `--verbose`."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from delta_sidecar.cli.failures import say_line

RETRIES = "delta_sidecar.storage.retrying"
_QUIET = 2.0
"""Seconds during which only one line per attempt number is printed, because parallel requests fail together."""


class _Lines(logging.Handler):
    """A line on stderr for each record, without secrets, with the seconds since the command began."""

    def __init__(self, verbose: bool, secrets: Mapping[str, str]) -> None:
        super().__init__()
        self._verbose = verbose
        self._secrets = secrets
        self._begun = time.monotonic()
        self._said: dict[object, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if self._verbose:
            say_line(f"[{time.monotonic() - self._begun:.3f} s] {record.getMessage()}", self._secrets)
        elif record.name == RETRIES and self._is_news(getattr(record, "attempt", None)):
            say_line(record.getMessage(), self._secrets)

    def _is_news(self, attempt: object) -> bool:
        now = time.monotonic()
        is_news = now - self._said.get(attempt, -_QUIET) >= _QUIET
        if is_news:
            self._said[attempt] = now
        return is_news


def log_to_stderr(verbose: bool, secrets: Mapping[str, str]) -> None:
    """Send the log of the library to stderr: everything if verbose, otherwise only retries."""
    ours = logging.getLogger("delta_sidecar")
    ours.handlers, ours.propagate = [_Lines(verbose, secrets)], False
    ours.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.getLogger(RETRIES).setLevel(logging.INFO)
