"""Rows of many files as one stream: several files are read at once, and their rows come in the order of the list.

Each worker takes the next file of the list, so the list is read no further ahead than the window of open files. The
bytes of rows that are ready but not yet taken are bounded. Only the first file of the window may exceed the bound, by
one batch; otherwise the stream could block.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from delta_sidecar.data.read_metrics import ReadMetrics
from delta_sidecar.scan.one_reading import ReadOnceIterator

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)
F_contra = TypeVar("F_contra", contravariant=True)


class FileSource(Protocol[F_co]):
    """The list of files: an iterator that can be closed early."""

    def __next__(self) -> F_co: ...

    def close(self) -> None: ...


class FileReader(Protocol[F_contra]):
    """Reads the rows of files, any number of them at once."""

    @property
    def metrics(self) -> ReadMetrics: ...

    def read(self, file: F_contra, /) -> Generator[pa.RecordBatch, None, None]: ...

    def promised_rows(self, file: F_contra, /) -> int:
        """The rows the file is sure to give."""
        ...


class RowStream(ReadOnceIterator):
    """The rows of a table as an iterator of Arrow batches. Closing it, or reaching its limit, stops all reading.

    Raises:
        ConsumedStreamError: It was already read to its end, closed, or handed to another reader.
        CorruptDataError: A data file or deletion vector is broken or missing.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> with DeltaTable("events").to_batches(columns=["id"], predicate="id >= 6") as rows:
        ...     for batch in rows:
        ...         print(batch.to_pydict())
        {'id': [6, 7]}
    """

    def __init__(self, work: RowWork[Any], schema: pa.Schema, limit: int | None) -> None:
        super().__init__(schema, "stream of rows")
        self._work = work
        self._left = limit
        self._finalizer = weakref.finalize(self, work.close)

    @property
    def metrics(self) -> ReadMetrics:
        """Counters of what was read so far."""
        return self._work.reader.metrics

    def _next(self) -> pa.RecordBatch:
        self._reading.check()
        if self._reading.is_at_end:
            raise StopIteration
        try:
            batch = self._work.take() if self._left != 0 else None
        except BaseException:
            self._reading.fail()
            self._finalizer()
            raise
        if batch is None:
            self._reading.check()
            self._finish()
            raise StopIteration
        return self._limited(batch)

    def _limited(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._left is None:
            return batch
        batch = batch.slice(0, self._left)
        self._left -= batch.num_rows
        if not self._left:
            self._finish()
        return batch

    def _finish(self) -> None:
        self._reading.finish()
        self._finalizer()

    def close(self) -> None:
        """Stop reading; no request begins after this returns."""
        self._reading.close()
        self._finalizer()


@dataclass(slots=True)
class _Slot:
    """The rows of one file that are read and not yet taken."""

    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    done: bool = False
    error: BaseException | None = None


class RowWork(Generic[F]):
    """What the threads of a stream share. They hold this and not the stream, so a forgotten stream ends them."""

    def __init__(
        self, files: FileSource[F], reader: FileReader[F], *, threads: int, memory_budget: int, enough: int | None
    ) -> None:
        self.reader = reader
        self._files = files
        self._threads = threads
        self._budget = memory_budget
        self._enough = enough
        """Rows after which no more files are opened, and a file is not read on."""
        self._promised = 0
        """Rows that opened files are sure to give, by the log."""
        self._produced = 0
        self._most_ahead = 2 * threads
        self._ahead = self._most_ahead if enough is None else 1
        """Files that are open at once. Under a limit the first may be enough, so it grows as files end."""
        self._slots: deque[_Slot] = deque()
        self._bytes = 0
        self._exhausted = enough == 0
        self._closed = False
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._workers: list[threading.Thread] = []

    def take(self) -> pa.RecordBatch | None:
        """The next batch, in the order of the files; None at the end."""
        with self._changed:
            if not self._workers and not self._exhausted:
                self._hire()
            while not self._closed:
                if not self._slots:
                    if self._exhausted:
                        return None
                elif self._slots[0].batches:
                    return self._taken(self._slots[0])
                elif self._slots[0].done:
                    self._retire()
                    continue
                self._changed.wait()
        return None

    def close(self) -> None:
        """Stop every thread and wait for it; what is ready is dropped."""
        with self._changed:
            self._closed = self._exhausted = True
            workers = list(self._workers)
            self._changed.notify_all()
        for worker in workers:
            if worker is not threading.current_thread():
                worker.join()
        self._slots.clear()
        self._files.close()

    def _taken(self, slot: _Slot) -> pa.RecordBatch:
        batch = slot.batches.popleft()
        self._bytes -= batch.nbytes
        self._changed.notify_all()
        return batch

    def _retire(self) -> None:
        slot = self._slots.popleft()
        self._changed.notify_all()
        if slot.error is not None:
            raise slot.error

    def _hire(self) -> None:
        """One more worker, if there may be one; called with the condition held."""
        if len(self._workers) < self._threads and not self._closed:
            worker = threading.Thread(target=self._run, name="delta-sidecar-rows", daemon=True)
            self._workers.append(worker)
            worker.start()

    def _run(self) -> None:
        while (assignment := self._next_file()) is not None:
            self._fill(*assignment)

    def _next_file(self) -> tuple[_Slot, F] | None:
        """The next file of the list, once the window has room for it."""
        with self._turn:
            with self._changed:
                self._changed.wait_for(lambda: self._exhausted or len(self._slots) < self._ahead)
                if self._exhausted:
                    return None
            slot = _Slot()
            try:
                file = next(self._files)
            except StopIteration:
                self._end_list()
                return None
            except BaseException as error:
                slot.done, slot.error = True, error
                self._end_list(slot)
                return None
            self._open(slot, file)
            return slot, file

    def _end_list(self, failed: _Slot | None = None) -> None:
        with self._changed:
            self._exhausted = True
            if failed is not None:
                self._slots.append(failed)
            self._changed.notify_all()

    def _open(self, slot: _Slot, file: F) -> None:
        with self._changed:
            self._slots.append(slot)
            self._promised += self.reader.promised_rows(file)
            if self._enough is not None and self._promised >= self._enough:
                self._exhausted = True
            else:
                self._hire()

    def _fill(self, slot: _Slot, file: F) -> None:
        try:
            self._put_all(slot, self.reader.read(file))
        except BaseException as error:
            slot.error = error
        with self._changed:
            slot.done = True
            self._ahead = min(2 * self._ahead, self._most_ahead)
            self._changed.notify_all()

    def _put_all(self, slot: _Slot, batches: Generator[pa.RecordBatch, None, None]) -> None:
        rows = 0
        with closing(batches):
            for batch in batches:
                rows += batch.num_rows
                if not self._put(slot, batch) or (self._enough is not None and rows >= self._enough):
                    return

    def _put(self, slot: _Slot, batch: pa.RecordBatch) -> bool:
        """Hand a batch over when there is room; False when nobody wants it any more."""
        size = batch.nbytes
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(slot, size))
            if self._closed:
                return False
            slot.batches.append(batch)
            self._bytes += size
            self._produced += batch.num_rows
            if self._enough is not None and self._produced >= self._enough:
                self._exhausted = True
            self._changed.notify_all()
            return True

    def _has_room(self, slot: _Slot, size: int) -> bool:
        at_head = self._slots[0] is slot and not slot.batches
        return at_head or self._bytes + size <= self._budget
