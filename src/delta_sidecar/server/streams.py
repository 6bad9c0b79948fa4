"""A reading on its way to a client. It ends once: at its last batch, with an error, or because the client is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from delta_sidecar.errors import ServerBusyError
from delta_sidecar.server.budget import Admission
from delta_sidecar.server.calls import Call
from delta_sidecar.server.figures import Figures, Outcome
from delta_sidecar.server.json_logs import on_behalf_of


class Served(Protocol):
    """What a stream is made of: a `Reading`, or the rows of a SQL statement."""

    def outcome(self) -> Outcome:
        """What is counted, as it begins."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def note(self, outcome: Outcome) -> None:
        """Tell what was counted."""
        ...

    def close(self) -> None: ...


class ServedStream:
    """The batches of a reading, for Flight to take. The call tells when the client is gone.

    The end does not wait for the last reference: frames of tracebacks may hold one until the next garbage collection.
    """

    def __init__(
        self,
        reading: Served,
        admission: Admission,
        call: Call,
        figures: Figures,
        is_cut_off: Callable[[], bool],
    ) -> None:
        """`is_cut_off`: the server does not wait for streams any longer."""
        self._work = work = _Work(reading, admission, call, figures)
        self._is_cut_off = is_cut_off
        call.hand_on(partial(work.end, "gone", None))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        work = self._work
        with on_behalf_of(work.call.request_id):
            try:
                if self._is_cut_off():
                    raise ServerBusyError("the server is stopping; try again, at another one if there is one")
                return work.take()
            except StopIteration:
                work.end("ok", None)
                raise
            except BaseException as error:
                answer = work.end("error", error)
                raise answer from None


class _Work:
    """What a stream holds."""

    def __init__(self, reading: Served, admission: Admission, call: Call, figures: Figures) -> None:
        self.call = call
        self._reading = reading
        self._admission = admission
        self._figures = figures
        self._outcome = reading.outcome()
        self._began = time.perf_counter()
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def take(self) -> pa.RecordBatch:
        if self._batches is None:
            self._batches = self._reading.batches()
        batch = next(self._batches)
        done = self._outcome
        if done.first_batch_s is None:
            done.first_batch_s = time.perf_counter() - self._began
        done.batches += 1
        done.rows += batch.num_rows
        done.sent_bytes += batch.nbytes
        return batch

    def end(self, how: str, error: BaseException | None) -> Any:
        """Stop reading, give the budget back, count and log; the error for the client."""
        with self._lock:
            is_over, self._is_over = self._is_over, True
        if is_over:
            return error or StopIteration()
        try:
            self._batches = None
            self._reading.close()
        finally:
            self._admission.give_back()
        done = self._outcome
        done.seconds = time.perf_counter() - self._began
        self._reading.note(done)
        self._figures.streamed(done)
        facts: dict[str, Any] = {
            "batches": done.batches,
            "rows": done.rows,
            "bytes": done.sent_bytes,
            "tier": done.tier,
            "fallback": done.fallback_reason,
            "store_requests": done.store_requests,
            "store_bytes": done.store_bytes,
            "first_batch_ms": None if done.first_batch_s is None else round(done.first_batch_s * 1000, 1),
        }
        if error is not None:
            return self.call.failed(error, **facts)
        self.call.ended(how, **facts)
        return StopIteration()
