"""A reading on its way to a client. It ends once: at its last batch, with an error, or because the client is gone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.flight as flight

from delta_sidecar.errors import ServerBusyError
from delta_sidecar.server.budget import Admission
from delta_sidecar.server.calls import Call
from delta_sidecar.server.figures import Figures, Outcome
from delta_sidecar.server.json_logs import on_behalf_of
from delta_sidecar.server.wire_errors import to_flight

_log = logging.getLogger(__name__)

_TOOK_NOTHING: Final = "the client took nothing for too long, and its place was given away; ask again"


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
        stalls: Stalls,
    ) -> None:
        """`is_cut_off`: the server does not wait for streams any longer."""
        self._work = work = _Work(reading, admission, call, figures, stalls)
        stalls.watch(work)
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
            except flight.FlightError:
                raise
            except StopIteration:
                work.end("ok", None)
                raise
            except BaseException as error:
                answer = work.end("error", error)
                raise answer from None


class Stalls:
    """Ends streams whose clients take nothing: their places are for others."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._works: set[_Work] = set()
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, work: _Work) -> None:
        with self._lock:
            self._works.add(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="delta-sidecar-stalls", daemon=True)
                self._thread.start()

    def forget(self, work: _Work) -> None:
        with self._lock:
            self._works.discard(work)

    def close(self) -> None:
        self._is_closed.set()

    def _look(self) -> None:
        while not self._is_closed.wait(min(1.0, self._seconds / 4)):
            with self._lock:
                works = list(self._works)
            for work in works:
                try:
                    work.end_if_idle(self._seconds)
                except Exception as error:
                    _log.error("internal error", exc_info=error)


class _Work:
    """What a stream holds."""

    def __init__(self, reading: Served, admission: Admission, call: Call, figures: Figures, stalls: Stalls) -> None:
        self.call = call
        self._stalls = stalls
        self._idle_since: float | None = time.monotonic()
        """When the client was given the last batch; None while the next one is made."""
        self._reading = reading
        self._admission = admission
        self._figures = figures
        self._outcome = reading.outcome()
        self._began = time.perf_counter()
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def take(self) -> pa.RecordBatch:
        with self._lock:
            if self._is_over:
                raise to_flight(ServerBusyError(_TOOK_NOTHING), self.call.request_id)
            self._idle_since = None
        if self._batches is None:
            self._batches = self._reading.batches()
        batch = next(self._batches)
        self._idle_since = time.monotonic()
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
        return (error or StopIteration()) if is_over else self._ended(how, error)

    def end_if_idle(self, seconds: float) -> None:
        """End the stream if its client took nothing for so long. What Flight holds of it stays until the client goes,
        but its place is free."""
        with self._lock:
            since = self._idle_since
            if self._is_over or since is None or time.monotonic() - since < seconds:
                return
            self._is_over = True
        self._ended("stalled", None)

    def _ended(self, how: str, error: BaseException | None) -> Any:
        self._stalls.forget(self)
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
