"""Reading ahead: iterators run on threads of their own, a bounded number of items in front of their consumer."""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from delta_sidecar.storage.read_ahead import shared_read_ahead

T = TypeVar("T")
Item = TypeVar("Item")


class _End:
    """Marks the end of the items, with the error that ended them."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Prefetched(Generic[T]):
    """Items of `source`, at most `depth` of them waiting. Closing it stops the thread and closes the source."""

    def __init__(self, source: Iterator[T], depth: int = 1) -> None:
        self._source = source
        self._items: queue.Queue[T | _End] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._done = False
        self._thread = threading.Thread(target=self._run, name="delta-sidecar-prefetch", daemon=True)
        _running.add(self)
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._source:
                if not self._offer(item):
                    break
        except BaseException as raised:
            error = raised
        finally:
            close = getattr(self._source, "close", None)
            if close is not None:
                close()
            self._offer(_End(error))

    def _offer(self, item: T | _End) -> bool:
        while not self._stopped.is_set():
            try:
                self._items.put(item, timeout=0.05)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._done:
            raise StopIteration
        item = self._items.get()
        if isinstance(item, _End):
            self._done = True
            self._thread.join()
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item

    def stop(self) -> None:
        """Read no further; what is being read may still come to its end."""
        self._done = True
        self._stopped.set()

    def close(self) -> None:
        """Stop reading ahead and wait until nothing is read any more."""
        self.stop()
        while self._thread.is_alive():
            try:
                self._items.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)


class Interleaved(Generic[T]):
    """Items of several sources, each read ahead on its own thread, taken in turn until all are exhausted."""

    def __init__(self, sources: Sequence[Iterator[T]], depth: int = 1) -> None:
        self._lanes = [Prefetched(source, depth) for source in sources]

    def __iter__(self) -> Iterator[T]:
        waiting = deque(self._lanes)
        while waiting:
            lane = waiting.popleft()
            try:
                item = next(lane)
            except StopIteration:
                continue
            waiting.append(lane)
            yield item

    def close(self) -> None:
        """Stop all lanes and wait until nothing is read any more."""
        for lane in self._lanes:
            lane.stop()
        for lane in self._lanes:
            lane.close()


class Ahead(Generic[Item, T]):
    """Items with the answers to their requests, in order, sent for ahead of the consumer: up to `most` of them, as far
    as the process's read-ahead has room for their bytes. The one the consumer waits for is always sent for."""

    def __init__(
        self, items: Iterator[Item], send: Callable[[Item], Future[T]], size: Callable[[Item], int], most: int
    ) -> None:
        self._items = items
        self._send = send
        self._size = size
        self._most = most
        self._sent: deque[tuple[Item, Future[T]]] = deque()
        self._next: Item | None = None
        self._taken = 0
        self._stopped = False

    def begin(self) -> None:
        """Send for what there is room for, without waiting for an answer."""
        self._fill(self._most)

    def _fill(self, most: int) -> None:
        while not self._stopped and len(self._sent) < most:
            if self._next is None:
                self._next = next(self._items, None)
            if self._next is None or not shared_read_ahead.take(self._size(self._next), needed=not self._sent):
                return
            item, self._next = self._next, None
            self._taken += self._size(item)
            self._sent.append((item, self._send(item)))

    def __iter__(self) -> Iterator[tuple[Item, T]]:
        try:
            while True:
                self._fill(max(1, self._most))
                if not self._sent:
                    return
                item, answer = self._sent[0]
                result = answer.result()
                self._sent.popleft()
                self.begin()
                yield item, result
                self._give_back(0 if self._stopped else self._size(item))
                del answer, result
        finally:
            self.close()

    def close(self) -> None:
        """Send for nothing more; what no thread has begun is not asked for. What the consumer holds counts no more."""
        self._stopped = True
        for _, answer in self._sent:
            answer.cancel()
        self._sent.clear()
        self._give_back(self._taken)

    def _give_back(self, size: int) -> None:
        self._taken -= size
        shared_read_ahead.give_back(size)


class Ordered(Generic[T]):
    """Results of tasks, in the order of the tasks, worked out a few ahead: by the consumer's thread and `helpers` more.

    Whoever waits for a result does a later task meanwhile; so on two cores two threads are enough, and none is idle.
    Tasks are many and short: what passes between the threads is one queue, and a lock only for who must wait.
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
        _running.add(self)

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


_running: weakref.WeakSet[Prefetched[Any] | Ordered[Any]] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """A daemon thread that is inside Arrow when the interpreter goes away would abort the process."""
    for prefetched in list(_running):
        prefetched.close()
