"""Run tasks ahead of their consumer, and return the results in the order of the tasks."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from delta_sidecar.flow.at_exit import close_at_exit

T = TypeVar("T")


class Ordered(Generic[T]):
    """Results of tasks, in the order of the tasks, worked out a few ahead: by the consumer's thread and `helpers` more.

    A thread that waits for a result runs a later task meanwhile, so on two cores two threads are enough, and none is
    idle. Tasks are many and short, so the threads share only one queue, and a lock for those that must wait.
    """

    def __init__(self, tasks: Iterator[Callable[[], T]], helpers: int, depth: Callable[[], int] = lambda: 3) -> None:
        """`depth` bounds the results that wait or are being worked out; it is asked before each further task."""
        self._tasks = tasks
        self._helpers = helpers
        self._depth = depth
        self._threads: list[threading.Thread] = []
        self._open: queue.SimpleQueue[_Entry[T] | None] = queue.SimpleQueue()
        self._ahead: deque[_Entry[T]] = deque()

    def __iter__(self) -> Iterator[T]:
        try:
            if not self._helpers:
                yield from (task() for task in self._tasks)
                return
            first = next(self._tasks, None)
            if first is None:
                return
            yield first()
            self._fill()
            while self._ahead:
                entry = self._ahead.popleft()
                while not entry.is_done and (other := self._unbegun()) is not None:
                    other.do()
                self._fill()
                yield entry.outcome()
        finally:
            self.close()

    def _unbegun(self) -> _Entry[T] | None:
        try:
            return self._open.get_nowait()
        except queue.Empty:
            return None

    def _fill(self) -> None:
        while len(self._ahead) < self._depth():
            task = next(self._tasks, None)
            if task is None:
                return
            if not self._threads:
                self._start()
            entry = _Entry(task)
            self._ahead.append(entry)
            self._open.put(entry)

    def _start(self) -> None:
        named = [
            threading.Thread(target=self._help, name=f"delta-sidecar-decode-{number}", daemon=True)
            for number in range(self._helpers)
        ]
        for thread in named:
            thread.start()
        self._threads = named
        close_at_exit(self)

    def _help(self) -> None:
        while (entry := self._open.get()) is not None:
            entry.do()

    def close(self) -> None:
        """Begin no further task and wait for those that have begun."""
        self._ahead.clear()
        while self._unbegun() is not None:
            pass
        for _ in self._threads:
            self._open.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []


class _Entry(Generic[T]):
    """A task and, once it is done, its result or the error that ended it."""

    __slots__ = ("_error", "_result", "_task", "_waiting", "is_done")

    def __init__(self, task: Callable[[], T]) -> None:
        self._task: Callable[[], T] | None = task
        self._result: T | None = None
        self._error: BaseException | None = None
        self._waiting = threading.Lock()
        self._waiting.acquire()
        self.is_done = False

    def do(self) -> None:
        assert self._task is not None
        try:
            self._result = self._task()
        except BaseException as error:
            self._error = error
        self._task = None
        self.is_done = True
        self._waiting.release()

    def outcome(self) -> T:
        """The result, waited for."""
        self._waiting.acquire()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]
