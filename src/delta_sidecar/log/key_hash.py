"""Vectorised hashes of keys: a full hash to find a key, and a quick one to rule most keys out.

Both work on the words of eight bytes in Arrow's own buffers, without making an object of any key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

Hashes: TypeAlias = "NDArray[np.uint64]"

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD6E8FEB86659FD93)
_SLASH = ord("/")
_SAMPLE = 2_048
_SMALL_SAMPLE = 256
"""Enough for a few thousand keys: a word that differs in this many of them lets hardly any other key pass."""
_WIDE = 23
"""Up to 2 to this power bits, a filter spends 256 of them on a key."""


class KeyBytes(Struct, frozen=True):
    """The bytes of many keys: where each lies, and every eight bytes of them as a word."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    data: NDArray[np.uint8]
    words: NDArray[np.uint64]
    shortest: int

    @classmethod
    def of(cls, keys: pa.BinaryArray) -> KeyBytes:
        _, offset_buffer, data_buffer = keys.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
        end = int(offsets[-1])
        data = np.frombuffer(data_buffer, np.uint8, count=end) if end else np.empty(0, np.uint8)
        if end < 8:
            data = np.concatenate([data, np.zeros(8, np.uint8)])
        words = np.ndarray((len(data) - 7,), "<u8", buffer=data, strides=(1,))
        lengths = offsets[1:] - offsets[:-1]
        return cls(offsets[:-1], lengths, data, words, int(lengths.min()) if len(lengths) else 0)

    def last_bytes(self) -> NDArray[np.uint8]:
        """The last byte of each key; of an empty one, any."""
        return self.data[np.minimum(self.starts + np.maximum(self.lengths - 1, 0), len(self.data) - 1)]

    def from_end(self, distance: int) -> NDArray[np.uint64]:
        """The word `distance` bytes before each key's end, or its first word; for keys of eight bytes or more."""
        if self.shortest >= distance:
            near: NDArray[np.uint64] = self.words[self.starts + (self.lengths - distance)]
            return near
        at = self.starts + np.maximum(self.lengths - distance, 0)
        return self.words[np.minimum(at, len(self.words) - 1)]


def hash_keys(keys: pa.BinaryArray) -> Hashes:
    """A 64-bit hash of every byte of each key."""
    if not len(keys):
        return np.empty(0, np.uint64)
    key_bytes = KeyBytes.of(keys)
    hashes = key_bytes.lengths.astype(np.uint64) * _MULTIPLIER
    _mix_words(hashes, key_bytes)
    hashes ^= hashes >> np.uint64(32)
    hashes *= _OTHER
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _mix_words(hashes: Hashes, keys: KeyBytes) -> None:
    """Whole words from the front, then the eight bytes that end the key (short keys: masked)."""
    starts, lengths, words = keys.starts, keys.lengths, keys.words
    shortest, longest = keys.shortest, int(lengths.max())
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


def _mix(hashes: Hashes, words: NDArray[np.uint64], rows: slice | NDArray[np.int64]) -> None:
    mixed = (hashes[rows] ^ words) * _MULTIPLIER
    hashes[rows] = mixed ^ (mixed >> np.uint64(29))


class QuickFilter(Struct, frozen=True):
    """Passes over most keys that are not in a set, by the word in which its keys differ most.

    File names differ in a few bytes (a UUID, a counter) and agree in the rest; looking at those bytes alone is several
    times cheaper than hashing all of them. What passes may be in the set or not; what is in the set passes.
    """

    distance: int
    """Of that word from the end of a key."""
    bits: NDArray[np.uint8]
    """One bit for each value of the hash's top bits."""
    shift: np.uint64

    @classmethod
    def of(cls, count: int, chunks: Iterable[pa.BinaryArray], farthest: int | None = None) -> QuickFilter:
        """The filter of a set of `count` keys; it looks at no more than the last `farthest` bytes of a key."""
        width = max(10, count.bit_length() + 4, min(count.bit_length() + 8, _WIDE))
        shift = np.uint64(64 - width)
        bits = np.zeros(1 << (width - 3), np.uint8)
        distance = 0
        for chunk in chunks:
            if not distance:
                sample = chunk[: _SAMPLE if count > 16 * _SMALL_SAMPLE else _SMALL_SAMPLE]
                distance = _telling_word(KeyBytes.of(sample), farthest)
            slots = _quick_hash(KeyBytes.of(chunk), distance) >> shift
            np.bitwise_or.at(bits, (slots >> np.uint64(3)).astype(np.int64), _bit(slots))
        return cls(distance, bits, shift)

    def passing(self, keys: KeyBytes) -> NDArray[np.bool_]:
        """Which keys may be in the set."""
        slots = _quick_hash(keys, self.distance) >> self.shift
        maybe: NDArray[np.bool_] = (self.bits[(slots >> np.uint64(3)).view(np.int64)] & _bit(slots)) != 0
        # Words of keys shorter than eight bytes reach into their neighbours and tell nothing.
        return maybe if keys.shortest >= 8 else maybe | (keys.lengths < 8)


def _telling_word(sample: KeyBytes, farthest: int | None) -> int:
    """The distance from the end at which the keys differ most."""
    longest = int(sample.lengths.max()) if len(sample.lengths) else 8
    candidates = range(8, max(9, longest + 8 if farthest is None else farthest + 1), 4)
    return max(candidates, key=lambda distance: _distinct(sample.from_end(distance)))


def _distinct(words: NDArray[np.uint64]) -> int:
    # Not np.unique, whose first call imports numpy.ma: 50 ms.
    return int(np.count_nonzero(np.diff(np.sort(words)))) + 1


def _quick_hash(keys: KeyBytes, distance: int) -> Hashes:
    mixed = keys.from_end(distance) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(32)
    mixed *= _OTHER
    return mixed


def _bit(slots: Hashes) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (slots & np.uint64(7)).astype(np.uint8))


def names_with(keys: KeyBytes, byte: int) -> NDArray[np.bool_]:
    """Which keys have a byte in their last segment."""
    ends = keys.starts + keys.lengths
    return _last_before(keys.data, byte, ends) >= np.maximum(_last_before(keys.data, _SLASH, ends), keys.starts)


def shortest_name(array: pa.BinaryArray) -> int | None:
    """The length of the shortest last segment among keys without a deletion vector; None if there are none."""
    keys = KeyBytes.of(array)
    ends = keys.starts + keys.lengths
    names = ends - np.maximum(_last_before(keys.data, _SLASH, ends), keys.starts - 1) - 1
    plain = names[_last_before(keys.data, 0, ends) < keys.starts]
    return int(plain.min()) if len(plain) else None


def _last_before(data: NDArray[np.uint8], byte: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last place of a byte before each end; -1 if there is none."""
    places = np.concatenate([[-1], np.flatnonzero(data == byte)])
    return places[np.searchsorted(places, ends) - 1]
