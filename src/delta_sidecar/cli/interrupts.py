"""Ctrl-C ends the command at once, whatever its threads wait for.

Python raises `KeyboardInterrupt` when the main thread runs Python code again. That may take minutes: while it waits
inside a native library for a store that does not answer, or at exit for threads that wait to try again. So a thread of
its own hears of the signal, gives the main thread a moment to leave by itself, and ends the process.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from delta_sidecar.cli.failures import INTERRUPTED, say_interrupted

_MOMENT = 0.3
"""Seconds for a command that only reads, and for what is left once the command itself has ended."""
_CLEANING = 15.0
"""Seconds for a command that writes, to take back what it began. A second Ctrl-C ends it at once."""


class Interrupts:
    """What happens at Ctrl-C. A handler that someone else sets, such as Spark's, is left alone."""

    def __init__(self) -> None:
        self._patience = _MOMENT
        self._hurry = threading.Event()

    def clean_up_first(self) -> None:
        """Give the command time to take back what it began to write."""
        self._patience = _CLEANING

    def ended(self) -> None:
        """The command itself has ended: nothing is left that is worth waiting for."""
        self._hurry.set()

    def listen(self) -> None:
        """Begin to listen, on the main thread. Elsewhere than on POSIX Python's own handling is all there is."""
        if os.name != "posix":
            return
        heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=self._run, args=(heard,), daemon=True, name="interrupts").start()

    def _run(self, heard: int) -> None:
        while number := os.read(heard, 1):
            if number[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        if not self._hurry.is_set():
            patience, self._patience = self._patience, 0.0
            self._hurry.wait(patience)
        if self._hurry.is_set():
            time.sleep(_MOMENT)
        say_interrupted()
        os._exit(INTERRUPTED)


interrupts = Interrupts()
