"""The exact set of file keys that newer commits add or remove: rows of the base with such a key are not live.

A `MaskBuilder` takes the keys of commits while they are walked, and makes a mask of them for the next base:

- `HashedMask` for a base without path ranges (a checkpoint). The keys are in Arrow arrays and found by a 64-bit hash,
  so half a million keys cost no more than their own bytes. A quick filter first rules out nearly every row; the
  remaining rows are compared byte by byte.
- `OrderedMask` for a base with path ranges (an index). The keys are sorted, and each row group is compared with the few
  keys in its range.

Masks are frozen, so several threads may use one. They share the keys with their builder, which may take more keys and
make another mask if a base turns out to be broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags, pc
from delta_sidecar.limits import MaskLimits
from delta_sidecar.log.file_keys import KeyMaker, has_percent
from delta_sidecar.log.key_chunks import KeyChunk, OrderedKeys, Span, in_order, take
from delta_sidecar.log.key_hash import Hashes, KeyBytes, QuickFilter, hash_keys, names_with, shortest_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A dot and a slash differ in their last bit alone.
_DOT, _BUT_LAST_BIT = np.uint8(ord(".")), np.uint8(0xFE)


class MaskBuilder:
    """Takes the keys of commits, newest first, and tells which keys of an older commit are among them."""

    def __init__(self, limits: MaskLimits = MaskLimits()) -> None:
        self._limits = limits
        self._recent: set[bytes] = set()
        self._arrays: list[pa.BinaryArray] = []
        self._collected: list[KeyChunk] = []
        """Chunks without hashes."""
        self._runs: list[HashRun] = []
        self._compared = 0
        """Keys in chunks without hashes that were compared with others."""

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, [*self._arrays, *self._collected, *self._runs]))

    def copied(self) -> MaskBuilder:
        """Another builder with the same keys, which both share."""
        other = MaskBuilder(self._limits)
        other._recent, other._arrays = set(self._recent), list(self._arrays)
        other._collected, other._runs = list(self._collected), list(self._runs)
        return other

    def add(self, keys: list[bytes]) -> None:
        """Mark keys as seen."""
        self._recent.update(keys)
        self._hash_if_many()

    def collect(self, keys: pa.BinaryArray) -> None:
        """Mark keys as seen. Large arrays are kept as they are until the first lookup."""
        if len(keys) < self._limits.array_keys:
            self.add(keys.to_pylist())
        else:
            self._arrays.append(keys)
            if len(self._arrays) >= self._limits.joined_arrays:
                self._join_arrays()

    def absorb(self, other: MaskBuilder) -> None:
        """Mark everything another builder has."""
        other._join_arrays()
        self._recent |= other._recent
        self._runs += other._runs
        self._collected += other._collected
        self._hash_if_many()

    def seen_list(self, keys: list[bytes]) -> Flags | None:
        """Which of these keys are marked; None when none is."""
        near = self._keys_near(keys)
        recent, flags = self._recent, None
        if not recent.isdisjoint(keys):
            flags = np.fromiter((key in recent for key in keys), np.bool_, len(keys))
        if self._runs or near:
            array = arrays.binaries(keys)
            flags = either(flags, _among(array, near) if near else None)
            for run in self._runs:
                flags = either(flags, run.seen(array))
        return flags

    def hashed_mask(self) -> HashedMask:
        """The mask of all keys so far, for a base of which nothing is known."""
        self._hash()
        while len(self._runs) > 1:
            self._merge_last()
        return HashedMask.of(self._runs[0] if self._runs else None)

    def ordered_mask(self) -> OrderedMask:
        """The mask of all keys so far, for a base that knows the ranges of its paths."""
        self._join_arrays()
        if self._recent:
            self._collected.append(KeyChunk.of_few(self._recent))
            self._recent = set()
        self._collected += [chunk for run in self._runs for chunk in run.chunks]
        self._runs = []
        return OrderedMask(self._order_collected(), self._limits)

    def _join_arrays(self) -> None:
        if self._arrays:
            keys = _concatenated(self._arrays)
            self._collected.append(KeyChunk.of(in_order(keys, keys), is_ascending=True))
            self._arrays = []

    def _order_collected(self) -> OrderedKeys:
        """Put each chunk in order in place of the one it was: all of them are never held twice."""
        ordered = OrderedKeys.of(_let_go(self._collected))
        self._collected = list(ordered.chunks)
        return ordered

    def _hash_if_many(self) -> None:
        if len(self._recent) >= self._limits.recent_keys:
            self._hash()

    def _hash(self) -> None:
        """Put everything into runs. A run is merged with the one before it unless that is more than twice as long."""
        if self._recent:
            self._collected.append(KeyChunk.of(arrays.binaries(list(self._recent))))
            self._recent = set()
        self._join_arrays()
        if self._collected:
            self._runs.append(HashRun.of(self._collected))
            self._collected = []
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) >= len(self._runs[-2]):
            self._merge_last()

    def _merge_last(self) -> None:
        last = self._runs.pop()
        self._runs[-1] = self._runs[-1].merged(last)

    def _keys_near(self, keys: list[bytes]) -> list[Span]:
        """The keys of chunks without hashes that lie between the least and the greatest of `keys`. Hashes are made when
        too many have been compared."""
        self._join_arrays()
        if not self._collected or not keys:
            return []
        near = self._order_collected().between(min(keys), max(keys))
        self._compared += _count(near) + self._limits.search_keys * len(self._collected)
        if _count(near) <= self._limits.recent_keys and self._compared <= sum(map(len, self._collected)):
            return near
        self._compared = 0
        self._hash()
        return []


@dataclass(frozen=True, slots=True, eq=False)
class HashedMask:
    """Keys found by their hashes."""

    run: HashRun | None
    """All keys; None if there are none."""
    by_name: NameFilter | None
    """None if a name is too short for a filter, or there are no keys."""

    @classmethod
    def of(cls, run: HashRun | None) -> HashedMask:
        """The mask of a run, with all that look-ups need."""
        if run is None:
            return cls(None, None)
        _ = run.quick_filter
        return cls(run, run.name_filter())

    def __len__(self) -> int:
        return 0 if self.run is None else len(self.run)

    def hidden(self, paths: pa.StringArray, vectors: pa.StructArray, maker: KeyMaker) -> Flags | None:
        """Which files of a base are hidden; None when none is."""
        if self.run is None:
            return None
        if self.by_name is None or vectors.null_count < len(vectors):
            return self.run.seen(maker.keys(paths, vectors))
        rows = self.by_name.passing(paths)
        if not len(rows):
            return None
        seen = self.run.seen(maker.keys(take(paths, rows), None))
        if seen is None:
            return None
        flags = np.zeros(len(paths), np.bool_)
        flags[rows[seen]] = True
        return flags

    def seen(self, keys: pa.BinaryArray) -> Flags | None:
        """Which keys are in the mask; None when none is."""
        return None if self.run is None else self.run.seen(keys)


@dataclass(frozen=True, eq=False)
class OrderedMask:
    """Keys in order, of which those between two paths are quickly found."""

    keys: OrderedKeys
    limits: MaskLimits
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __len__(self) -> int:
        return sum(map(len, self.keys.chunks))

    def hidden(
        self, paths: pa.StringArray, vectors: pa.StructArray, maker: KeyMaker, within: tuple[bytes, bytes] | None
    ) -> Flags | None:
        """Which files of a base are hidden; None if none is. `within` gives their least and greatest path, if known:
        then the caller guarantees that each path has one spelling only."""
        if within is None:
            return self.hashed.hidden(paths, vectors, maker)
        near = self.keys.between(*within)
        if not near:
            return None
        if vectors.null_count < len(vectors):
            return self.hashed.hidden(paths, vectors, maker)
        keys = paths.view(pa.binary())
        if _count(near) <= self.limits.keys_per_row * len(paths):
            return _among(keys, near)
        return self.hashed.seen(keys)

    @property
    def hashed(self) -> HashedMask:
        """The same keys by their hashes. The first of several threads makes them for all."""
        with self._lock:
            return self._hashed

    @cached_property
    def _hashed(self) -> HashedMask:
        return HashedMask.of(HashRun.of(self.keys.chunks) if self.keys.chunks else None)


class NameFilter(Struct, frozen=True):
    """Rules out most files by the bytes of their names, before their paths are brought into canonical form.

    The last segment of a path is in its key unchanged, unless something is escaped in it. So a filter that looks only
    there lets through every path whose key is in the set. Names with escapes always pass, and
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


@dataclass(frozen=True, eq=False)
class HashRun:
    """Keys with their hashes, at least one."""

    chunks: tuple[KeyChunk, ...]
    """In the order they came: merging runs copies none of them."""
    order: NDArray[np.int32]
    """Row of the key for each hash, counted through all chunks."""
    hashes: Hashes
    """Ascending."""

    @classmethod
    def of(cls, chunks: Sequence[KeyChunk]) -> HashRun:
        hashes = np.concatenate([hash_keys(chunk.keys()) for chunk in chunks])
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        # In place: a mask is to cost little more than its keys.
        hashes.sort()
        return cls(tuple(chunks), order, hashes)

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def quick_filter(self) -> QuickFilter:
        """Rules out most keys. Made at the first search: many runs are merged before they are ever searched."""
        return self._filter()

    def name_filter(self) -> NameFilter | None:
        """A filter by the names of files alone; None where some are too short for one."""
        names = (shortest_name(chunk.keys()) for chunk in self.chunks)
        shortest = min((n for n in names if n is not None), default=0)
        return NameFilter(self._filter(shortest)) if shortest >= 8 else None

    def _filter(self, farthest: int | None = None) -> QuickFilter:
        return QuickFilter.of(len(self), (chunk.keys() for chunk in self.chunks), farthest)

    def merged(self, other: HashRun) -> HashRun:
        hashes = np.concatenate([self.hashes, other.hashes])
        order = np.concatenate([self.order, other.order + np.int32(len(self))])
        order = order[np.argsort(hashes, kind="stable")]
        hashes.sort()
        return HashRun(self.chunks + other.chunks, order, hashes)

    def seen(self, keys: pa.BinaryArray) -> Flags | None:
        """Which keys are in this run; None when none is."""
        rows = np.flatnonzero(self.quick_filter.passing(KeyBytes.of(keys)))
        if not len(rows):
            return None
        candidates = take(keys, rows)
        rows = rows[self._confirm(candidates, hash_keys(candidates))]
        if not len(rows):
            return None
        flags = np.zeros(len(keys), np.bool_)
        flags[rows] = True
        return flags

    def _confirm(self, keys: pa.BinaryArray, hashes: Hashes) -> NDArray[np.int64]:
        """The rows of `keys` that equal a key of the same hash, one step of equal hashes at a time."""
        rows = np.arange(len(keys))
        at = np.searchsorted(self.hashes, hashes)
        confirmed: list[NDArray[np.int64]] = []
        while len(rows):
            alive = at < len(self.hashes)
            alive[alive] = self.hashes[at[alive]] == hashes[rows[alive]]
            rows, at = rows[alive], at[alive]
            if not len(rows):
                break
            same = self._equal(keys, rows, at)
            confirmed.append(rows[same])
            rows, at = rows[~same], at[~same] + 1
        return np.concatenate(confirmed) if confirmed else np.empty(0, np.int64)

    def _equal(self, keys: pa.BinaryArray, rows: NDArray[np.int64], at: NDArray[np.int64]) -> Flags:
        """Chunk by chunk: taking from all of them together would copy every key of the run first."""
        places, same, first = self.order[at], np.zeros(len(rows), np.bool_), 0
        for chunk in self.chunks:
            here = np.flatnonzero((places >= first) & (places < first + len(chunk)))
            if len(here):
                same[here] = _same(chunk.take(places[here] - first), take(keys, rows[here]))
            first += len(chunk)
        return same


def _let_go(held: list[KeyChunk]) -> Iterator[KeyChunk]:
    """Each is forgotten when it is handed out."""
    while held:
        yield held.pop()


def _count(spans: list[Span]) -> int:
    return sum(map(len, spans))


def _among(keys: pa.BinaryArray, few: list[Span]) -> Flags | None:
    """Which keys are among a few; None when none is."""
    values = few[0].keys() if len(few) == 1 else _concatenated([span.keys() for span in few])
    flags = arrays.to_numpy_bool(pc.is_in(keys, value_set=values, memory_pool=arrays.streaming_pool()))
    return flags if flags.any() else None


def _same(left: pa.BinaryArray, right: pa.BinaryArray) -> Flags:
    return arrays.to_numpy_bool(pc.equal(left, right, memory_pool=arrays.streaming_pool()))


def _concatenated(keys: list[pa.BinaryArray]) -> pa.BinaryArray:
    return pa.concat_arrays(keys, memory_pool=arrays.streaming_pool())


def either(left: Flags | None, right: Flags | None) -> Flags | None:
    """The rows that one of two marks; None marks no row."""
    if left is None or right is None:
        return right if left is None else left
    return left | right
