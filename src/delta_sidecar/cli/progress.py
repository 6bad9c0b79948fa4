"""What goes on, on stderr, while Spark works: a line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.status import Status

_TERMINAL_SECONDS = 0.25
_PIPE_SECONDS = 15.0
"""Elsewhere than on a terminal only what takes long is told: what fails early says one line, the reason."""


class Progress:
    """The present step, with the tasks Spark has done of it, shown until the block ends."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._begun = time.monotonic()
        self._step = ""
        self._spark: Any = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._status: Status | None = None

    def say(self, step: str) -> None:
        """Begin a step."""
        self._step = step

    def watch(self, spark: Any) -> None:
        """Show the tasks of this session, too."""
        self._spark = spark

    def __enter__(self) -> Progress:
        if self._terminal:
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status("")
            self._status.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(1)
        if self._status is not None:
            self._status.stop()

    def _run(self) -> None:
        while not self._end.wait(_TERMINAL_SECONDS if self._terminal else _PIPE_SECONDS):
            line = f"{self._step}{self._tasks()}, {time.monotonic() - self._begun:.0f} s"
            if self._status is not None:
                from rich.text import Text

                self._status.update(Text(line))
            else:
                sys.stderr.write(f"sidecar: {line}\n")
                sys.stderr.flush()

    def _tasks(self) -> str:
        """A Connect session tells no tasks, and neither does one that has just stopped."""
        try:
            tracker: Any = self._spark.sparkContext.statusTracker() if self._spark is not None else None
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()] if tracker else []
            known = [stage for stage in stages if stage is not None]
        except Exception:
            return ""
        total = sum(stage.numTasks for stage in known)
        return f": {sum(stage.numCompletedTasks for stage in known)} of {total} tasks" if total else ""
