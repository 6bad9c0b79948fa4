"""The exact set of keys that newer commits have already decided.

Small masks are a Python set. Larger ones are *runs*: the keys as one Arrow array, ordered by a 64-bit
hash, so that half a million keys cost their own bytes and little more. A bitmap of hashes stands in front of a
run and settles nearly every row of a base without a comparison; what it lets through is compared byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RECENT_LIMIT = 65_536
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Mask:
    """Keys that hide older rows. Not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._recent: set[bytes] = set()
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return len(self._recent) + sum(len(run.keys) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """About what the mask holds in memory."""
        return sum(map(len, self._recent)) + 90 * len(self._recent) + sum(run.nbytes for run in self._runs)

    def add(self, keys: list[bytes]) -> None:
        """Mark keys as seen."""
        self._recent.update(keys)
        if len(self._recent) >= _RECENT_LIMIT:
            self._flush()

    def absorb(self, other: Mask) -> None:
        """Mark everything another mask has."""
        self._recent |= other._recent
        self._runs += other._runs
        if len(self._recent) >= _RECENT_LIMIT:
            self._flush()

    def _flush(self) -> None:
        if self._recent:
            self._runs.append(_Run.of(arrays.binaries(list(self._recent))))
            self._recent = set()
        while len(self._runs) > 1 and 2 * len(self._runs[-1].keys) >= len(self._runs[-2].keys):
            last = self._runs.pop()
            self._runs[-1] = self._runs[-1].merged(last)

    def seal(self) -> None:
        """Make lookups of large arrays cheap; called once the tail is done and a base is to be filtered."""
        self._flush()
        while len(self._runs) > 1:
            last = self._runs.pop()
            self._runs[-1] = self._runs[-1].merged(last)

    def seen_list(self, keys: list[bytes]) -> NDArray[np.bool_] | None:
        """Which of these keys are in the mask; None when none is."""
        recent = self._recent
        flags = np.fromiter((k in recent for k in keys), np.bool_, len(keys)) if recent else None
        if self._runs:
            found = self._seen_in_runs(arrays.binaries(keys))
            flags = found if flags is None else flags if found is None else flags | found
        return None if flags is None or not flags.any() else flags

    def seen(self, keys: pa.BinaryArray) -> NDArray[np.bool_] | None:
        """Which rows' keys are in the mask; None when none is."""
        if not self._recent:
            return self._seen_in_runs(keys) if self._runs else None
        return self.seen_list(keys.to_pylist())

    def _seen_in_runs(self, keys: pa.BinaryArray) -> NDArray[np.bool_] | None:
        hashes = hash_keys(keys)
        flags: NDArray[np.bool_] | None = None
        for run in self._runs:
            rows = run.find(keys, hashes)
            if len(rows):
                flags = np.zeros(len(keys), np.bool_) if flags is None else flags
                flags[rows] = True
        return flags


@dataclass(frozen=True, slots=True)
class _Run:
    keys: pa.ChunkedArray
    """In the order they came: merging runs copies none of them."""
    order: NDArray[np.int32]
    """Row of `keys` for each hash."""
    hashes: NDArray[np.uint64]
    """Ascending."""
    bits: NDArray[np.uint8]
    """The bitmap in front: one bit a hash, addressed by its top bits."""
    shift: np.uint64

    @classmethod
    def of(cls, keys: pa.BinaryArray) -> _Run:
        return cls._sorted(pa.chunked_array([keys]), np.arange(len(keys), dtype=np.int32), hash_keys(keys))

    @classmethod
    def _sorted(cls, keys: pa.ChunkedArray, rows: NDArray[np.int32], hashes: NDArray[np.uint64]) -> _Run:
        by_hash = np.argsort(hashes, kind="stable")
        hashes = hashes[by_hash]
        width = max(10, len(hashes).bit_length() + 4)
        shift = np.uint64(64 - width)
        return cls(keys, rows[by_hash], hashes, _bitmap(hashes >> shift, width), shift)

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes) + self.order.nbytes + self.hashes.nbytes + self.bits.nbytes

    def merged(self, other: _Run) -> _Run:
        return _Run._sorted(
            pa.chunked_array([*self.keys.chunks, *other.keys.chunks]),
            np.concatenate([self.order, other.order + np.int32(len(self.keys))]),
            np.concatenate([self.hashes, other.hashes]),
        )

    def find(self, keys: pa.BinaryArray, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The rows of `keys` that are in this run."""
        slots = hashes >> self.shift
        maybe = self.bits[(slots >> np.uint64(3)).astype(np.int64)] & _bit(slots)
        rows = np.flatnonzero(maybe)
        if not len(rows):
            return rows
        return self._confirm(keys, rows, hashes[rows])

    def _confirm(self, keys: pa.BinaryArray, rows: NDArray[np.int64], hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Compare candidates with the keys of equal hash, one step of equal hashes at a time."""
        at = np.searchsorted(self.hashes, hashes)
        found: list[NDArray[np.int64]] = []
        while len(rows):
            alive = at < len(self.hashes)
            alive[alive] = self.hashes[at[alive]] == hashes[alive]
            rows, at, hashes = rows[alive], at[alive], hashes[alive]
            if not len(rows):
                break
            equal = pc.equal(_take(self.keys, self.order[at]).combine_chunks(), _take(keys, rows))
            same = arrays.to_numpy_bool(equal)
            found.append(rows[same])
            rows, at, hashes = rows[~same], at[~same] + 1, hashes[~same]
        return np.concatenate(found) if found else np.empty(0, np.int64)


def _bitmap(slots: NDArray[np.uint64], width: int) -> NDArray[np.uint8]:
    bits = np.zeros(1 << (width - 3), np.uint8)
    np.bitwise_or.at(bits, (slots >> np.uint64(3)).astype(np.int64), _bit(slots))
    return bits


def _bit(slots: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (slots & np.uint64(7)).astype(np.uint8))


def _take(array: Any, rows: NDArray[np.integer[Any]]) -> Any:
    indices = np.ascontiguousarray(rows, np.int64)
    return array.take(pa.Array.from_buffers(pa.int64(), len(indices), [None, pa.py_buffer(indices)]))


def hash_keys(keys: pa.BinaryArray) -> NDArray[np.uint64]:
    """A 64-bit hash of every byte of each key, vectorised over words of eight bytes."""
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = lengths.astype(np.uint64) * _MULTIPLIER
    raw = b"" if data_buffer is None else data_buffer
    # Eight bytes of padding let every word be read whole, whatever the length of the last key.
    end = int(offsets[-1]) if len(offsets) else 0
    data = np.frombuffer(raw, np.uint8, count=end) if end else np.empty(0, np.uint8)
    if end < 8:
        data = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(data) - 7,), "<u8", buffer=data, strides=(1,))
    _mix_words(hashes, words, starts, lengths)
    return _avalanche(hashes)


def _mix_words(
    hashes: NDArray[np.uint64], words: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    """Whole words from the front, then the eight bytes that end the key (short keys: masked)."""
    if not len(lengths):
        return
    shortest, longest = int(lengths.min()), int(lengths.max())
    for at in range(0, longest - 7, 8):
        if at + 8 <= shortest:
            _mix(hashes, words[starts + at], slice(None))
        else:
            rows = np.flatnonzero(lengths >= at + 8)
            _mix(hashes, words[starts[rows] + at], rows)
    long_rows = slice(None) if shortest >= 8 else np.flatnonzero(lengths >= 8)
    _mix(hashes, words[(starts + lengths - 8)[long_rows]], long_rows)
    if shortest < 8:
        rows = np.flatnonzero((lengths < 8) & (lengths > 0))
        _mix(hashes, _short_words(words, starts[rows], lengths[rows]), rows)


def _short_words(
    words: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Keys of one to seven bytes as words: read where eight bytes can be read, shifted to the key's own."""
    at = np.minimum(starts, len(words) - 1)
    skipped = ((starts - at) * 8).astype(np.uint64)
    kept = ((8 - lengths) * 8).astype(np.uint64)
    return ((words[at] >> skipped) << kept) >> kept


def _mix(hashes: NDArray[np.uint64], words: NDArray[np.uint64], rows: slice | NDArray[np.int64]) -> None:
    mixed = (hashes[rows] ^ words) * _MULTIPLIER
    hashes[rows] = mixed ^ (mixed >> np.uint64(29))


def _avalanche(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(0xD6E8FEB86659FD93)
    hashes ^= hashes >> np.uint64(32)
    return hashes
