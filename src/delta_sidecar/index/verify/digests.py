"""Digests of rows, to compare what two sources say about a file without holding either.

A digest is the sum, over the columns that are not null in a row, of a mixed 64-bit hash of column and value. It does
not depend on the order of columns, nor on whether a column that is all null exists. Rows are compared in pairs, by
their keys, so 64 bits are plenty; keys have 128.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delta_sidecar.log.key_hash import hash_keys
from delta_sidecar.values.comparison import comparable, valid

Words: TypeAlias = NDArray[np.uint64]

_SPREAD: Final = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NULL_ITEM: Final = np.uint64(0x5851F42D4C957F2D)
"""Stands for the null value of a key of a map, which is not the same as no such key."""


def key_digests(keys: Iterable[bytes]) -> Words:
    """128 bits of each replay key, as two columns."""
    data = b"".join(blake2b(key, digest_size=16).digest() for key in keys)
    return np.frombuffer(data, np.uint64).reshape(-1, 2)


def row_digests(columns: Mapping[str, pa.Array], names: Iterable[str], count: int) -> Words:
    """The digests of `count` rows over the named columns, as far as they are there."""
    total = np.zeros(count, np.uint64)
    for name in names:
        if name in columns and columns[name].null_count < count:
            total += _column(columns[name], name)
    return total


def text_digests(texts: pa.StringArray) -> Words:
    """A digest of each text, zero for a null."""
    return _column(texts, "text")


def _column(array: pa.Array, name: str) -> Words:
    seed = np.uint64((zlib.crc32(name.encode("utf-8", "surrogatepass")) + 1) * _SPREAD % 2**64)
    if pa.types.is_map(array.type):
        return _entries(array, seed)
    return np.where(valid(array), _mixed(_values(array) + seed), np.uint64(0))


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed


def _values(array: pa.Array) -> Words:
    """Equal words for equal values; of nulls, any."""
    kind = array.type
    if pa.types.is_struct(kind):
        fields = zip(kind, array.flatten(), strict=True)
        return sum((_column(child, field.name) for field, child in fields), np.zeros(len(array), np.uint64))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return hash_keys(array.view(pa.binary()))
    if pa.types.is_decimal(kind):
        halves = _buffer(array, np.uint64, 2).reshape(-1, 2)
        both: Words = _mixed(np.ascontiguousarray(halves[:, 0])) + halves[:, 1]
        return both
    plain = comparable(array)
    if pa.types.is_floating(plain.type):
        floats = _buffer(plain, np.float64) + 0.0
        return np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    return _buffer(plain, np.uint64)


def _buffer(array: pa.Array, dtype: Any, each: int = 1) -> NDArray[Any]:
    values = np.frombuffer(array.buffers()[1], dtype)
    return values[array.offset * each : (array.offset + len(array)) * each]


def _entries(maps: pa.MapArray, seed: np.uint64) -> Words:
    """The sum over a map's entries: their order does not count, and null is as good as empty."""
    offsets = np.frombuffer(maps.buffers()[1], np.int32)[maps.offset : maps.offset + len(maps) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    if first == last:
        return np.zeros(len(maps), np.uint64)
    keys, items = (part.slice(first, last - first) for part in (maps.keys, maps.items))
    words = np.where(valid(items), _values(items), _NULL_ITEM)
    sums = np.zeros(last - first + 1, np.uint64)
    np.cumsum(_mixed(_mixed(_values(keys) + seed) + words), out=sums[1:])
    entry_sums: Words = sums[offsets[1:] - first] - sums[offsets[:-1] - first]
    return np.where(valid(maps), entry_sums, np.uint64(0))
