"""Small lists that were asked for before: a version of a table never changes, so its list for a predicate is the same.

Many clients ask for the same hour at once. Each would replay the same commits and decode the same row groups; the
first ones do, the others get what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from delta_sidecar.predicates.expression import Expression
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.scan.scan_metrics import ScanMetrics
from delta_sidecar.server.requests import ReadRequest
from delta_sidecar.server.tokens import Caller
from delta_sidecar.storage.cache import Cache
from delta_sidecar.table import DeltaTable

_PARTS = 16
"""An answer may take this part of what all may together."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole list, as it was sent."""

    batches: tuple[pa.RecordBatch, ...]
    metrics: ScanMetrics
    """Of the listing that found it."""


class Answers:
    """The answers of all tables, within a budget of bytes; the least recently used goes first."""

    def __init__(self, limit: int) -> None:
        self._cache = Cache(limit)
        self._largest = limit // _PARTS

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return self._cache.size

    def listing(
        self,
        key: Hashable | None,
        scan: FileScan,
        made: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
    ) -> KnownListing:
        """A listing that is read only if its answer is not known; always without a key. `made` makes what is sent of
        a batch of it."""
        return KnownListing(self, key, scan, made)

    def get(self, key: Hashable) -> Answer | None:
        answer: Answer | None = self._cache.get(key)
        return answer

    def fits(self, size: int) -> bool:
        return size <= self._largest

    def keep(self, key: Hashable, answer: Answer, size: int) -> None:
        self._cache.put(key, answer, size)


class KnownListing:
    """One listing: out of memory, or read and kept if it is small and nothing went wrong."""

    def __init__(
        self, answers: Answers, key: Hashable | None, scan: FileScan, made: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> None:
        self._answers = answers
        self._key = key
        self._scan = scan
        self._made = made
        self._known: Answer | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._known = None if self._key is None else self._answers.get(self._key)
        return self._read() if self._known is None else iter(self._known.batches)

    def metrics(self) -> ScanMetrics:
        """What the listing did; out of memory it asks no store."""
        if self._known is None:
            return self._scan.metrics
        return replace(self._known.metrics, requests=0, bytes_read=0, elapsed_s=0.0, time_to_first_file_s=0.0)

    def _read(self) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] | None = None if self._key is None else []
        size = 0
        for batch in self._scan:
            sent = self._made(batch)
            if held is not None:
                size += sent.get_total_buffer_size()
                held = [*held, sent] if self._answers.fits(size) else None
            yield sent
        done = self._scan.metrics
        if held is not None and done.complete and not self._scan.fallbacks:
            self._answers.keep(self._key, Answer(tuple(held), replace(done)), size)


def answer_key(
    table: DeltaTable, caller: Caller, request: ReadRequest, predicate: Expression | None
) -> Hashable | None:
    """What an answer depends on; None if it cannot be told. The predicate is the bound one: `now()` is a time in it.
    Callers with other roots may not reach what a log names, so they share nothing."""
    commit = table.snapshot.listing.commits.get(table.version())
    if commit is None:
        return None
    columns = None if request.columns is None else tuple(request.columns)
    return (
        table.snapshot.store.identity,
        caller.roots,
        (table.metadata().id, commit.path, commit.size, commit.last_modified_ms, commit.etag),
        (request.what, predicate, columns, request.limit, request.strategy, request.batch_size),
    )
