"""Streams that can be read once: reading one again is an error, never an empty result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from delta_sidecar.errors import ConsumedStreamError, InputError

_AT_END: Final = "was read to its end"


class OneReading:
    """The state of a stream that can be read once. A reader may pause and continue; but not after the end, a failure
    or `close`, nor once the stream was handed to another reader."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        """What the stream is called in errors."""
        self._end: str | None = None
        self._is_handed_on = False

    def begin(self) -> None:
        """Called before reading starts: raises `ConsumedStreamError` if the stream cannot be read any more."""
        if self._end is not None or self._is_handed_on:
            raise self._error(self._end or "was handed to another reader")

    def hand_on(self) -> None:
        """Like `begin`, for a reader that takes over the stream."""
        self.begin()
        self._is_handed_on = True

    @property
    def has_ended(self) -> bool:
        return self._end is not None

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
        return ConsumedStreamError(f"this {self._stream} {why}; it can be read only once: ask the table for another")


class NotPickled:
    """A stream, which can be neither pickled nor copied."""

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


class ReadOnce(NotPickled, ABC):
    """A stream of batches that can be read once, as an Arrow stream and as a context manager. What it reads, and how
    it is iterated, is the matter of the stream."""

    def __init__(self, schema: pa.Schema, called: str) -> None:
        """`called` is what errors call it."""
        self._schema = schema
        self._reading = OneReading(called)

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def _next(self) -> pa.RecordBatch:
        """The next batch, or `StopIteration`."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches."""
        return self._schema

    def read_all(self) -> pa.Table:
        """All batches at once, in memory."""
        return pa.Table.from_batches(list(self), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream as a `RecordBatchReader`, which takes it over."""
        self._reading.hand_on()
        return pa.RecordBatchReader.from_batches(self.schema, rest_of(self._next))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ReadOnceIterator(ReadOnce):
    """A stream that is its own iterator."""

    def __iter__(self) -> Self:
        self._reading.begin()
        return self

    def __next__(self) -> pa.RecordBatch:
        if not self._reading.is_at_end:
            self._reading.begin()
        return self._next()
