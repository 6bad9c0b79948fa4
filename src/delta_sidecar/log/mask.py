"""The exact set of keys that newer commits have already decided.

Small masks are a Python set. Larger ones are *runs*: the keys in Arrow arrays, found by a 64-bit hash, so that half a
million keys cost their own bytes and little more. A quick filter stands in front of a run and passes over
nearly every row of a base; what it lets through is compared byte by byte.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.log.key_hash import Hashes, KeyBytes, QuickFilter, hash_keys, names_with, shortest_name
from delta_sidecar.log.paths import KeyMaker, has_percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RECENT_LIMIT = 16_384
"""Keys that are held as objects, each twice the size of its bytes, before they go into a run."""
_MANY = 500
_TOGETHER = 16
"""Chunks of keys that are joined: a look-up goes through all chunks, and joining all at once would double them."""
_SORTED_LIMIT = 50_000
"""Up to so many keys, sorting them costs less than looking at every row of a large base."""
# A dot and a slash differ in their last bit alone.
_DOT, _BUT_LAST_BIT = np.uint8(ord(".")), np.uint8(0xFE)


class Mask:
    """Keys that hide older rows. Not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._recent: set[bytes] = set()
        self._runs: list[_Run] = []
        self._collected: list[pa.BinaryArray] = []
        self._small: list[pa.BinaryArray] = []
        self._by_name: NameFilter | None = None
        self._sorted: list[bytes] | None = None

    def __len__(self) -> int:
        collected = sum(map(len, self._collected + self._small))
        return len(self._recent) + collected + sum(len(run.keys) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """About what the mask holds in memory."""
        return sum(map(len, self._recent)) + 90 * len(self._recent) + sum(run.nbytes for run in self._runs)

    def add(self, keys: list[bytes]) -> None:
        """Mark keys as seen."""
        self._recent.update(keys)
        if len(self._recent) >= _RECENT_LIMIT:
            self._flush()

    def collect(self, keys: list[bytes]) -> None:
        """Mark keys as seen; many at a time, they are not put in order before something is looked up."""
        if len(keys) < _MANY:
            self.add(keys)
        else:
            self._small.append(arrays.binaries(keys))
            if len(self._small) == _TOGETHER:
                self._join_small()

    def _join_small(self) -> None:
        if self._small:
            self._collected.append(_joined(self._small))
            self._small = []

    def absorb(self, other: Mask) -> None:
        """Mark everything another mask has."""
        other._join_small()
        self._recent |= other._recent
        self._runs += other._runs
        self._collected += other._collected
        if len(self._recent) >= _RECENT_LIMIT:
            self._flush()

    def _flush(self) -> None:
        if self._recent:
            self._collected.append(arrays.binaries(list(self._recent)))
            self._recent = set()
        self._join_small()
        if self._collected:
            self._runs.append(_Run.of(self._collected))
            self._collected = []
        while len(self._runs) > 1 and 2 * len(self._runs[-1].keys) >= len(self._runs[-2].keys):
            self._merge_last()

    def _merge_last(self) -> None:
        last = self._runs.pop()
        self._runs[-1] = self._runs[-1].merged(last)

    def seal(self) -> None:
        """Make lookups of large arrays cheap; called once the tail is done and a base is to be filtered."""
        self._flush()
        while len(self._runs) > 1:
            self._merge_last()
        for run in self._runs:
            run.prepare()
        self._by_name = self._runs[0].by_name() if self._runs else None
        few = len(self) <= _SORTED_LIMIT
        self._sorted = sorted(key for run in self._runs for key in run.keys.to_pylist()) if few else None

    def reaches(self, low: bytes, high: bytes) -> bool:
        """May a sealed mask hide a file whose canonical path is between these two?"""
        if self._sorted is None:
            return True
        at = bisect_left(self._sorted, low)
        return at < len(self._sorted) and self._sorted[at][: len(high)] <= high

    def hidden(
        self, paths: pa.StringArray, vectors: pa.StructArray, maker: KeyMaker, are_plain: bool = False
    ) -> NDArray[np.bool_] | None:
        """Which files of a sealed mask's base are hidden; None when none is. Of `are_plain` paths it is known that none
        has another spelling."""
        if are_plain and vectors.null_count == len(vectors):
            return self.seen(paths.view(pa.binary()))
        if self._by_name is None or vectors.null_count < len(vectors):
            return self.seen(maker.keys(paths, vectors))
        rows = self._by_name.passing(paths)
        if not len(rows):
            return None
        found = self.seen(maker.keys(_take(paths, rows), None))
        if found is None:
            return None
        flags = np.zeros(len(paths), np.bool_)
        flags[rows[found]] = True
        return flags

    def seen_list(self, keys: list[bytes]) -> NDArray[np.bool_] | None:
        """Which of these keys are in the mask; None when none is."""
        if self._collected or self._small:
            self._flush()
        recent = self._recent
        flags = np.fromiter((k in recent for k in keys), np.bool_, len(keys)) if recent else None
        if self._runs:
            found = self._seen_in_runs(arrays.binaries(keys))
            flags = found if flags is None else flags if found is None else flags | found
        return None if flags is None or not flags.any() else flags

    def seen(self, keys: pa.BinaryArray) -> NDArray[np.bool_] | None:
        """Which rows' keys are in the mask; None when none is."""
        if self._collected or self._small:
            self._flush()
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
    keys: pa.ChunkedArray
    """In the order they came: merging runs copies none of them."""
    order: NDArray[np.int32]
    """Row of `keys` for each hash."""
    hashes: Hashes
    """Ascending."""

    @classmethod
    def of(cls, chunks: list[pa.BinaryArray]) -> _Run:
        keys = pa.chunked_array(chunks)
        return cls._sorted(
            keys, np.arange(len(keys), dtype=np.int32), np.concatenate([hash_keys(chunk) for chunk in chunks])
        )

    @classmethod
    def _sorted(cls, keys: pa.ChunkedArray, rows: NDArray[np.int32], hashes: Hashes) -> _Run:
        by_hash = np.argsort(hashes, kind="stable")
        return cls(keys, rows[by_hash], hashes[by_hash])

    @cached_property
    def _filter(self) -> QuickFilter:
        return QuickFilter.of(self.keys.chunks)

    def prepare(self) -> None:
        """Make what lookups share, before threads do."""
        _ = self._filter

    def by_name(self) -> NameFilter | None:
        """A filter by the names of files alone; None where some are too short for one."""
        shortest = min((n for n in map(shortest_name, self.keys.chunks) if n is not None), default=0)
        return NameFilter(QuickFilter.of(self.keys.chunks, shortest)) if shortest >= 8 else None

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes) + self.order.nbytes + self.hashes.nbytes

    def merged(self, other: _Run) -> _Run:
        return _Run._sorted(
            pa.chunked_array([*self.keys.chunks, *other.keys.chunks]),
            np.concatenate([self.order, other.order + np.int32(len(self.keys))]),
            np.concatenate([self.hashes, other.hashes]),
        )

    def find(self, keys: pa.BinaryArray) -> NDArray[np.int64]:
        """The rows of `keys` that are in this run."""
        rows = np.flatnonzero(self._filter.passing(KeyBytes.of(keys)))
        if not len(rows):
            return rows
        candidates = _take(keys, rows)
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
        for chunk in self.keys.chunks:
            here = np.flatnonzero((wanted >= first) & (wanted < first + len(chunk)))
            if len(here):
                same[here] = _same(_take(chunk, wanted[here] - first), _take(keys, rows[here]))
            first += len(chunk)
        return same


def _same(left: pa.BinaryArray, right: pa.BinaryArray) -> NDArray[np.bool_]:
    return arrays.to_numpy_bool(pc.equal(left, right, memory_pool=arrays.streaming_pool()))


def _take(array: Any, rows: NDArray[np.integer[Any]]) -> Any:
    indices = np.ascontiguousarray(rows, np.int64)
    rows_of = pa.Array.from_buffers(pa.int64(), len(indices), [None, pa.py_buffer(indices)])
    return pc.take(array, rows_of, memory_pool=arrays.streaming_pool())


def _joined(chunks: list[pa.BinaryArray]) -> pa.BinaryArray:
    return pa.concat_arrays(chunks, memory_pool=arrays.streaming_pool())
