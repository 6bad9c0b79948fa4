"""Iterators that run on their own threads, a bounded number of items ahead of their consumer."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from delta_sidecar.flow.at_exit import close_at_exit

T = TypeVar("T")


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
        close_at_exit(self)
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
