"""Ctrl-C and SIGTERM for commands that run until they are stopped, and then finish what they are at."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from delta_sidecar.cli.failures import INTERRUPTED

_LOOK_EVERY = 0.5
"""Seconds after which a wait looks for signals; less stops a command sooner, and costs an idle one more wake-ups."""


class StopEvent(threading.Event):
    """An event that signals set. The system may hand a signal to any thread, but its handler runs on the main thread,
    which a plain wait would not wake: the process would not stop."""

    def wait(self, timeout: float | None = None) -> bool:
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_EVERY if ends is None else ends - time.monotonic()
            if super().wait(min(max(left, 0.0), _LOOK_EVERY)):
                return True
            if left <= 0:
                return False


@contextmanager
def stopped_by_signals(again_ends: bool = False) -> Iterator[StopEvent]:
    """An event that SIGINT and SIGTERM set; with `again_ends` a second Ctrl-C ends the process at once."""
    stop = StopEvent()

    def set_stop(number: int, frame: Any) -> None:
        if again_ends and stop.is_set() and number == signal.SIGINT:
            os._exit(INTERRUPTED)
        stop.set()

    before = {number: signal.signal(number, set_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
