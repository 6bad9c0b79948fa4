"""Whoever opens connections and says nothing does not shut others out: a request must come in time, and when there are
too many connections, the one that waited longest makes room. uvicorn itself waits for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


def patient_protocol(seconds: float, connections: int) -> type[H11Protocol]:
    """HTTP for a server that waits at most `seconds` for a whole request. When `connections` are open, the one that has
    waited longest without sending a request is closed for the next."""

    class Patient(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _waiting_since = 0.0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            waiting = [each for each in self.connections if isinstance(each, Patient) and each._is_waiting()]
            if len(self.connections) >= connections - 1 and waiting:
                oldest = min(waiting, key=lambda each: each._waiting_since)
                self.connections.discard(oldest)
                oldest.transport.abort()
            super().connection_made(transport)
            self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_timer()
            super().connection_lost(exc)

        def _is_waiting(self) -> bool:
            cycle: RequestResponseCycle | None = self.cycle
            return cycle is None or cycle.response_complete or cycle.more_body

        def _look(self) -> None:
            if not self._is_waiting():
                self._end_timer()
            elif self._timer is None:
                self._waiting_since = self.loop.time()
                self._timer = self.loop.call_later(seconds, self._give_up)

        def _end_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if self._is_waiting():
                self.transport.abort()

    return Patient
