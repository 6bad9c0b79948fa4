"""Ctrl-C and SIGTERM end the command at once, whatever its threads wait for.

Python raises `KeyboardInterrupt`, and our handler of SIGTERM raises `Terminated`, only when the main thread runs Python
code again. That may take minutes, if it waits inside a native library for a store that does not answer, or at exit for
threads that wait to retry. So a separate thread receives the signal, gives the main thread a moment to stop by itself,
deletes unfinished files, and then ends the process.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from delta_sidecar.cli.failures import Terminated, say_interrupted

_MOMENT = 0.3
"""Seconds that a command that only reads gets to stop, and any command after it has ended."""
_CLEANING = 15.0
"""Seconds that a command that writes gets to clean up. A second Ctrl-C ends it at once."""

_ENDED = b"\0"
"""What the command writes to the pipe of signals when it has ended."""


def _terminate(number: int, frame: Any) -> NoReturn:
    raise Terminated


_HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _terminate}
_ERRORS = {signal.SIGINT: KeyboardInterrupt(), signal.SIGTERM: Terminated()}


class Interrupts:
    """Handles Ctrl-C and SIGTERM. If other code sets a handler, as Spark does, that one is used."""

    def __init__(self) -> None:
        self._patience = _MOMENT
        self._told: int | None = None
        self._unfinished: set[Path] = set()

    def clean_up_first(self) -> None:
        """Give the command time to clean up what it has begun to write."""
        self._patience = _CLEANING

    @contextmanager
    def deleting(self, path: Path) -> Iterator[None]:
        """Delete this file if the process is ended inside the block."""
        self._unfinished.add(path)
        try:
            yield
        finally:
            self._unfinished.discard(path)

    def ended(self) -> None:
        """The command has ended: there is no need to wait any longer."""
        if self._told is not None:
            with suppress(BlockingIOError):
                os.write(self._told, _ENDED)

    def listen(self) -> None:
        """Start listening, on the main thread. On systems other than POSIX, only Python's own handling is used."""
        if os.name != "posix":
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)
        heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        threading.Thread(target=self._run, args=(heard,), daemon=True, name="interrupts").start()

    def _run(self, heard: int) -> None:
        """Wait for a signal, and end the process. No thread is started then: the interpreter may be shutting down."""
        while number := os.read(heard, 1):
            if number == _ENDED:
                self._patience = _MOMENT
            elif self._is_ours(signal.Signals(number[0])):
                self._wait(heard)
                self._end(signal.Signals(number[0]))

    def _is_ours(self, number: signal.Signals) -> bool:
        handler = _HANDLERS.get(number)
        return handler is not None and signal.getsignal(number) is handler

    def _wait(self, heard: int) -> None:
        """Until the command has ended, until a second signal, or until patience ends."""
        if select.select([heard], [], [], self._patience)[0] and os.read(heard, 1) == _ENDED:
            time.sleep(_MOMENT)

    def _end(self, number: signal.Signals) -> NoReturn:
        for path in list(self._unfinished):
            with suppress(OSError):
                path.unlink()
        os._exit(say_interrupted(_ERRORS[number]))


interrupts = Interrupts()
