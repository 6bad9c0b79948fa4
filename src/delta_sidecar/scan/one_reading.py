"""Streams that can be read once: whoever reads one again gets an error, never an empty answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from delta_sidecar.errors import ConsumedStreamError, InputError

_AT_END: Final = "was read to its end"


class OneReading:
    """How far the one reading of a stream has come. A reader may stop and go on; at the end, after a failure, after
    `close`, or once the stream is handed on to another reader, there is nothing to go on with."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        """What the stream is called in errors."""
        self._end: str | None = None
        self._is_handed_on = False

    def begin(self) -> None:
        """Called when someone wants to read: `ConsumedStreamError` if there is nothing to be read."""
        if self._end is not None or self._is_handed_on:
            raise self._error(self._end or "was handed on to another reader")

    def hand_on(self) -> None:
        """As `begin`, for a reader that takes the whole rest."""
        self.begin()
        self._is_handed_on = True

    @property
    def is_at_end(self) -> bool:
        return self._end == _AT_END

    def check(self) -> None:
        """Called before each batch: a stream that was closed or failed must not look like one that ended."""
        if self._end is not None and not self.is_at_end:
            raise self._error(self._end)

    def finish(self) -> None:
        self._end = self._end or _AT_END

    def fail(self) -> None:
        self._end = self._end or "broke off"

    def close(self) -> None:
        self._end = self._end or "was closed"

    def _error(self, why: str) -> ConsumedStreamError:
        return ConsumedStreamError(f"this {self._stream} {why}; it can be read once: ask the table for another")


class NotPickled:
    """A stream that is neither pickled nor copied: it is a reading under way."""

    def __reduce__(self) -> Any:
        raise InputError(
            f"a {type(self).__name__} is a stream and cannot be pickled or copied; pickle its table, or what was read"
        )


def rest_of(next_batch: Callable[[], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches until `StopIteration`."""
    while True:
        try:
            batch = next_batch()
        except StopIteration:
            return
        yield batch
