"""The exact set of keys that newer commits have already decided.

Small masks are a Python set. Larger ones are *runs*: the keys in Arrow arrays, found by a 64-bit hash, so that half a
million keys cost no more than their own bytes. A quick filter stands in front of a run and passes over
nearly every row of a base; what it lets through is compared byte by byte.

A base that knows between which paths its rows lie (an index) needs no hashes: the keys are put in order, and each of
its row groups is compared with the few that lie in its range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.log.file_keys import KeyMaker, has_percent
from delta_sidecar.log.key_chunks import KeyChunk, OrderedKeys, Span, in_order, take
from delta_sidecar.log.key_hash import Hashes, KeyBytes, QuickFilter, hash_keys, names_with, shortest_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RECENT_LIMIT = 16_384
"""Keys that are held as objects, each twice the size of its bytes, before they go into a run."""
_MANY = 500
_TOGETHER = 16
"""Chunks of keys that are joined: a look-up goes through all chunks, and joining all at once would double them."""
_SEARCH = 100
"""Keys that could be compared in the time it takes to find a place in a chunk."""
_PER_ROW = 2
"""Up to so many keys for each row of a row group, Arrow's table of all of them costs less than our hashes."""
# A dot and a slash differ in their last bit alone.
_DOT, _BUT_LAST_BIT = np.uint8(ord(".")), np.uint8(0xFE)


class Mask:
    """Keys that hide older rows. Once it is sealed, or put in order, several threads may ask what is `hidden`."""

    def __init__(self) -> None:
        self._recent: set[bytes] = set()
        self._small: list[pa.BinaryArray] = []
        self._collected: list[KeyChunk] = []
        """Chunks without hashes."""
        self._runs: list[_Run] = []
        self._ordered: OrderedKeys | None = None
        """All keys, once they are put in order; then runs, if there are any, are a second view of them."""
        self._by_name: NameFilter | None = None
        self._lock = Lock()
        self._compared = 0
        """Keys in chunks without hashes that were compared with others."""

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, [*self._small, *self._chunks()]))

    @property
    def nbytes(self) -> int:
        """About what the mask holds in memory."""
        recent = sum(map(len, self._recent)) + 90 * len(self._recent)
        hashes = sum(run.hashes.nbytes + run.order.nbytes for run in self._runs)
        return recent + hashes + sum(int(held.nbytes) for held in [*self._small, *self._chunks()])

    def _chunks(self) -> list[KeyChunk]:
        """All keys that are in chunks."""
        if self._ordered is not None:
            return self._ordered.chunks
        return self._collected + [chunk for run in self._runs for chunk in run.chunks]

    def add(self, keys: list[bytes]) -> None:
        """Mark keys as seen."""
        self._reopen()
        self._recent.update(keys)
        if len(self._recent) >= _RECENT_LIMIT:
            self._flush()

    def collect(self, keys: pa.BinaryArray) -> None:
        """Mark keys as seen; many at a time, they are not made fit for lookups before there is one."""
        if len(keys) < _MANY:
            self.add(keys.to_pylist())
        else:
            self._reopen()
            self._small.append(keys)
            if len(self._small) == _TOGETHER:
                self._join_small()

    def _join_small(self) -> None:
        if self._small:
            keys = _joined(self._small)
            self._collected.append(KeyChunk.of(in_order(keys, keys), is_ascending=True))
            self._small = []

    def absorb(self, other: Mask) -> None:
        """Mark everything another mask has."""
        for mask in (self, other):
            mask._reopen()
        other._join_small()
        self._recent |= other._recent
        self._runs += other._runs
        self._collected += other._collected
        if len(self._recent) >= _RECENT_LIMIT:
            self._flush()

    def _flush(self) -> None:
        if self._recent:
            self._collected.append(KeyChunk.of(arrays.binaries(list(self._recent))))
            self._recent = set()
        self._join_small()
        if self._collected:
            self._runs.append(_Run.of(self._collected))
            self._collected = []
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) >= len(self._runs[-2]):
            self._merge_last()

    def _merge_last(self) -> None:
        last = self._runs.pop()
        self._runs[-1] = self._runs[-1].merged(last)

    def seal(self) -> None:
        """Make lookups of large arrays cheap; called once the tail is done and a base is to be filtered."""
        self._reopen()
        self._flush()
        self._join_runs()

    def _join_runs(self) -> None:
        while len(self._runs) > 1:
            self._merge_last()
        for run in self._runs:
            run.prepare()
        self._by_name = self._runs[0].by_name() if self._runs else None

    def put_in_order(self) -> None:
        """Seal the mask for a base that knows the ranges of its paths: hashes are made again where they are missed."""
        self._reopen()
        self._join_small()
        if self._recent:
            self._collected.append(KeyChunk.of_few(self._recent))
            self._recent = set()
        held = self._chunks()
        self._collected, self._runs = [], []
        self._ordered = OrderedKeys.of(_let_go(held))

    def _reopen(self) -> None:
        """More keys are to come: those in order are some among others."""
        if self._ordered is not None:
            self._collected += [] if self._runs else self._ordered.chunks
            self._ordered = None

    def _hash(self) -> None:
        """Let lookups find all keys by their hashes. The first of several threads does it for all."""
        with self._lock:
            if self._ordered is not None and not self._runs:
                self._collected += self._ordered.chunks
                self._flush()
                self._join_runs()
            elif self._collected or self._small:
                self._flush()

    def hidden(
        self, paths: pa.StringArray, vectors: pa.StructArray, maker: KeyMaker, within: tuple[bytes, bytes] | None = None
    ) -> NDArray[np.bool_] | None:
        """Which files of a sealed mask's base are hidden; None when none is. Where it is known `within` which two paths
        they lie, none of them has another spelling."""
        near = None if within is None or self._ordered is None else self._ordered.between(*within)
        if near is not None and not near:
            return None
        if within is None or vectors.null_count < len(vectors):
            return self._hidden_by_name(paths, vectors, maker)
        if near is not None and _count(near) <= _PER_ROW * len(paths):
            return _among(paths.view(pa.binary()), near)
        return self.seen(paths.view(pa.binary()))

    def _hidden_by_name(
        self, paths: pa.StringArray, vectors: pa.StructArray, maker: KeyMaker
    ) -> NDArray[np.bool_] | None:
        self._hash()
        if self._by_name is None or vectors.null_count < len(vectors):
            return self.seen(maker.keys(paths, vectors))
        rows = self._by_name.passing(paths)
        if not len(rows):
            return None
        found = self.seen(maker.keys(take(paths, rows), None))
        if found is None:
            return None
        flags = np.zeros(len(paths), np.bool_)
        flags[rows[found]] = True
        return flags

    def seen_list(self, keys: list[bytes]) -> NDArray[np.bool_] | None:
        """Which of these keys are in the mask; None when none is."""
        near = self._near(keys)
        recent, flags = self._recent, None
        if not recent.isdisjoint(keys):
            flags = np.fromiter((k in recent for k in keys), np.bool_, len(keys))
        if self._runs or near:
            array = arrays.binaries(keys)
            for found in (_among(array, near) if near else None, self._seen_in_runs(array)):
                flags = found if flags is None else flags if found is None else flags | found
        return flags

    def _near(self, keys: list[bytes]) -> list[Span]:
        """Of chunks without hashes, the keys that lie among some; hashes are made when too many have been compared."""
        if self._ordered is not None:
            self._hash()
        self._join_small()
        if not self._collected or not keys:
            return []
        ordered = OrderedKeys.of(_let_go(self._collected))
        self._collected = ordered.chunks
        near = ordered.between(min(keys), max(keys))
        self._compared += _count(near) + _SEARCH * len(self._collected)
        if _count(near) <= _RECENT_LIMIT and self._compared <= sum(map(len, self._collected)):
            return near
        self._compared = 0
        self._flush()
        return []

    def seen(self, keys: pa.BinaryArray) -> NDArray[np.bool_] | None:
        """Which rows' keys are in the mask; None when none is."""
        self._hash()
        if not self._recent:
            return self._seen_in_runs(keys) if self._runs else None
        return self.seen_list(keys.to_pylist())

    def _seen_in_runs(self, keys: pa.BinaryArray) -> NDArray[np.bool_] | None:
        flags: NDArray[np.bool_] | None = None
        for run in self._runs:
            rows = run.find(keys)
            if len(rows):
                flags = np.zeros(len(keys), np.bool_) if flags is None else flags
                flags[rows] = True
        return flags


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Passes over most files by the bytes of their names, before anything is known of their spelling.

    However a path is spelled, its last segment stands in its key as it is, unless something is escaped in it; so a
    filter that looks only there lets through every path whose key is in the set. Names with escapes always pass, and
    so do paths that end in a dot or a slash, whose last segment the spelling drops.
    """

    names: QuickFilter

    def passing(self, paths: pa.StringArray) -> NDArray[np.int64]:
        """The rows that may be in the set."""
        keys = KeyBytes.of(paths.view(pa.binary()))
        passing = self.names.passing(keys) | (keys.last_bytes() & _BUT_LAST_BIT == _DOT)
        if has_percent(paths):
            passing |= names_with(keys, ord("%"))
        return np.flatnonzero(passing)


@dataclass(frozen=True)
class _Run:
    chunks: list[KeyChunk]
    """In the order they came: merging runs copies none of them."""
    order: NDArray[np.int32]
    """Row of the key for each hash, counted through all chunks."""
    hashes: Hashes
    """Ascending."""

    @classmethod
    def of(cls, chunks: list[KeyChunk]) -> _Run:
        hashes = np.concatenate([hash_keys(chunk.keys()) for chunk in chunks])
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        # In place: a mask is to cost little more than its keys.
        hashes.sort()
        return cls(chunks, order, hashes)

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def _filter(self) -> QuickFilter:
        return self._quick_filter()

    def _quick_filter(self, farthest: int | None = None) -> QuickFilter:
        return QuickFilter.of(len(self), (chunk.keys() for chunk in self.chunks), farthest)

    def prepare(self) -> None:
        """Make what lookups share, before threads do."""
        _ = self._filter

    def by_name(self) -> NameFilter | None:
        """A filter by the names of files alone; None where some are too short for one."""
        names = (shortest_name(chunk.keys()) for chunk in self.chunks)
        shortest = min((n for n in names if n is not None), default=0)
        return NameFilter(self._quick_filter(shortest)) if shortest >= 8 else None

    def merged(self, other: _Run) -> _Run:
        hashes = np.concatenate([self.hashes, other.hashes])
        order = np.concatenate([self.order, other.order + np.int32(len(self))])
        order = order[np.argsort(hashes, kind="stable")]
        hashes.sort()
        return _Run(self.chunks + other.chunks, order, hashes)

    def find(self, keys: pa.BinaryArray) -> NDArray[np.int64]:
        """The rows of `keys` that are in this run."""
        rows = np.flatnonzero(self._filter.passing(KeyBytes.of(keys)))
        if not len(rows):
            return rows
        candidates = take(keys, rows)
        return rows[self._confirm(candidates, hash_keys(candidates))]

    def _confirm(self, keys: pa.BinaryArray, hashes: Hashes) -> NDArray[np.int64]:
        """The rows of `keys` that equal a key of the same hash, one step of equal hashes at a time."""
        rows = np.arange(len(keys))
        at = np.searchsorted(self.hashes, hashes)
        found: list[NDArray[np.int64]] = []
        while len(rows):
            alive = at < len(self.hashes)
            alive[alive] = self.hashes[at[alive]] == hashes[rows[alive]]
            rows, at = rows[alive], at[alive]
            if not len(rows):
                break
            same = self._equal(keys, rows, at)
            found.append(rows[same])
            rows, at = rows[~same], at[~same] + 1
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _equal(self, keys: pa.BinaryArray, rows: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Chunk by chunk: taking from all of them together would copy every key of the run first."""
        wanted, same, first = self.order[at], np.zeros(len(rows), np.bool_), 0
        for chunk in self.chunks:
            here = np.flatnonzero((wanted >= first) & (wanted < first + len(chunk)))
            if len(here):
                same[here] = _same(chunk.take(wanted[here] - first), take(keys, rows[here]))
            first += len(chunk)
        return same


def _let_go(held: list[KeyChunk]) -> Iterator[KeyChunk]:
    """Each is forgotten when it is handed out."""
    while held:
        yield held.pop()


def _count(spans: list[Span]) -> int:
    return sum(map(len, spans))


def _among(keys: pa.BinaryArray, some: list[Span]) -> NDArray[np.bool_] | None:
    """Which keys are among a few; None when none is."""
    values = some[0].keys() if len(some) == 1 else _joined([span.keys() for span in some])
    flags = arrays.to_numpy_bool(pc.is_in(keys, value_set=values, memory_pool=arrays.streaming_pool()))
    return flags if flags.any() else None


def _same(left: pa.BinaryArray, right: pa.BinaryArray) -> NDArray[np.bool_]:
    return arrays.to_numpy_bool(pc.equal(left, right, memory_pool=arrays.streaming_pool()))


def _joined(chunks: list[pa.BinaryArray]) -> pa.BinaryArray:
    return pa.concat_arrays(chunks, memory_pool=arrays.streaming_pool())
