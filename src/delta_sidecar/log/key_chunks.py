"""Many keys in little memory: the common beginning and ending of the keys of a chunk is stored once.

Sorted chunks find the keys between two paths. A base that knows the path range of a row group needs only these: of half
a million keys, a few hundred can hide a row there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.log.key_hash import KeyBytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_AFFIXES = arrays.binaries([b"", b"", b""])


class KeyChunk(Struct, frozen=True):
    """Some keys, at least one."""

    prefix: bytes
    stems: pa.BinaryArray
    suffix: bytes
    least: bytes
    greatest: bytes
    affixes: pa.BinaryArray
    """Prefix, suffix, and the separator between them and a stem: an empty one."""
    is_ascending: bool = False

    @classmethod
    def of_few(cls, keys: Iterable[bytes]) -> KeyChunk:
        """Some keys as they are: for a few keys, compression costs more than it saves."""
        ascending = sorted(keys)
        return cls(b"", arrays.binaries(ascending), b"", ascending[0], ascending[-1], _NO_AFFIXES, is_ascending=True)

    @classmethod
    def of(cls, keys: pa.BinaryArray, is_ascending: bool = False) -> KeyChunk:
        """A chunk of keys, sorted or not."""
        ends = pc.min_max(keys, memory_pool=arrays.streaming_pool())
        least, greatest = ends["min"].as_py(), ends["max"].as_py()
        key_bytes = KeyBytes.of(keys)
        prefix = _common_prefix(least, greatest)
        suffix = _common_suffix(key_bytes, greatest, len(prefix))
        if prefix or suffix:
            # Without an end, Arrow's kernel fails on keys that are no longer than the prefix.
            end = -len(suffix) or int(key_bytes.lengths.max())
            keys = pc.binary_slice(keys, len(prefix), end, memory_pool=arrays.streaming_pool())
        affixes = arrays.binaries([prefix, suffix, b""]) if prefix or suffix else _NO_AFFIXES
        return cls(prefix, keys, suffix, least, greatest, affixes, is_ascending)

    def __len__(self) -> int:
        return len(self.stems)

    def keys(self, start: int = 0, stop: int | None = None) -> pa.BinaryArray:
        """Some keys or all of them, whole."""
        return self._whole(self.stems[start:stop])

    def take(self, rows: NDArray[np.integer[Any]]) -> pa.BinaryArray:
        """The keys of some rows, whole."""
        return self._whole(take(self.stems, rows))

    def _whole(self, stems: pa.BinaryArray) -> pa.BinaryArray:
        if not self.prefix and not self.suffix:
            return stems
        prefix, suffix, between = self.affixes
        return pc.binary_join_element_wise(prefix, stems, suffix, between, memory_pool=arrays.streaming_pool())

    def ascending(self) -> KeyChunk:
        """The same keys in order."""
        if self.is_ascending:
            return self
        # Not the stems: `a` comes before `a-1`, and `a.parquet` after `a-1.parquet`.
        return replace(self, stems=in_order(self.stems, self.keys()), is_ascending=True)

    def place(self, key: bytes) -> int:
        """The number of keys that are less; the keys are sorted."""
        return bisect_left(self.stems, True, key=lambda stem: self.prefix + stem.as_py() + self.suffix >= key)


class Span(Struct, frozen=True):
    """Neighbours in a chunk."""

    chunk: KeyChunk
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def keys(self) -> pa.BinaryArray:
        return self.chunk.keys(self.start, self.stop)


class OrderedKeys(Struct, frozen=True):
    """Chunks, each ascending; their ranges may overlap."""

    chunks: tuple[KeyChunk, ...]

    @classmethod
    def of(cls, chunks: Iterable[KeyChunk]) -> OrderedKeys:
        """From chunks in any order. An iterator that releases them avoids holding them twice."""
        return cls(tuple(chunk.ascending() for chunk in chunks))

    def between(self, low: bytes, high: bytes) -> list[Span]:
        """The keys of all files whose paths are in a range, both ends included."""
        # The greatest path may be followed by the id of a deletion vector, after a zero byte.
        beyond = high + b"\1"
        near = [chunk for chunk in self.chunks if low <= chunk.greatest and chunk.least < beyond]
        spans = [Span(chunk, chunk.place(low), chunk.place(beyond)) for chunk in near]
        return [span for span in spans if len(span)]


def _common_prefix(least: bytes, greatest: bytes) -> bytes:
    """What all keys between two begin with."""
    pairs = enumerate(zip(least, greatest, strict=False))
    return least[: next((at for at, (one, other) in pairs if one != other), len(least))]


def _common_suffix(keys: KeyBytes, one: bytes, after: int) -> bytes:
    """The common ending of all keys, in whole words, behind the first `after` bytes; `one` is any of the keys."""
    length = 0
    while length + 8 <= keys.shortest - after:
        words = keys.from_end(length + 8)
        if (words != words[0]).any():
            break
        length += 8
    return one[len(one) - length :]


def in_order(array: pa.BinaryArray, by: pa.BinaryArray) -> pa.BinaryArray:
    """Rows in the order of keys."""
    order = pc.sort_indices(by, memory_pool=arrays.streaming_pool())
    return pc.take(array, order, memory_pool=arrays.streaming_pool())


def take(array: Any, rows: NDArray[np.integer[Any]]) -> Any:
    """Some rows of an array."""
    return pc.take(array, arrays.indices(rows), memory_pool=arrays.streaming_pool())
