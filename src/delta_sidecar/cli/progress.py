"""Progress of a command on stderr: one changing line on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Any

from delta_sidecar.cli.output import cut_end
from delta_sidecar.texts import printable

_log = logging.getLogger(__name__)

_TERMINAL_SECONDS = 0.25
_PIPE_SECONDS = 15.0
"""Seconds between lines if stderr is not a terminal. Short steps print nothing, so an early failure is one line."""
_CLEAR = "\r\x1b[2K"


class Progress:
    """Shows the current step, with the number of finished Spark tasks, every few seconds until the block ends."""

    def __init__(self, seconds: float | None = None) -> None:
        self._terminal = sys.stderr.isatty()
        self._seconds = seconds or (_TERMINAL_SECONDS if self._terminal else _PIPE_SECONDS)
        self._begun = time.monotonic()
        self._step = ""
        self._notes: list[str] = []
        self._spark: Any = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def say(self, step: str) -> None:
        """Begin a step."""
        if step != self._step:
            _log.info("%s", step)
        self._step = step

    def note(self, text: str) -> None:
        """Begin a step whose line stays on the screen, unless the block ends at once."""
        self.say(text)
        self._notes.append(text)

    def watch(self, spark: Any) -> None:
        """Also show the tasks of this session."""
        self._spark = spark

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(1)
        if self._terminal:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _run(self) -> None:
        while not self._end.wait(self._seconds):
            while self._notes:
                sys.stderr.write(f"{_CLEAR if self._terminal else ''}sidecar: {printable(self._notes.pop(0))}\n")
            line = f"{printable(self._step)}{self._tasks()}, {time.monotonic() - self._begun:.0f} s"
            if self._terminal:
                sys.stderr.write(_CLEAR + cut_end(line, shutil.get_terminal_size().columns - 1))
            else:
                sys.stderr.write(f"sidecar: {line}\n")
            sys.stderr.flush()

    def _tasks(self) -> str:
        """The finished tasks; empty for a Connect session, and for one that has just stopped."""
        try:
            tracker: Any = self._spark.sparkContext.statusTracker() if self._spark is not None else None
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()] if tracker else []
            known = [stage for stage in stages if stage is not None]
        except Exception:
            return ""
        total = sum(stage.numTasks for stage in known)
        return f": {sum(stage.numCompletedTasks for stage in known):,} of {total:,} tasks" if total else ""
