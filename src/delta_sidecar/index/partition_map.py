"""`partition_values` out of typed partition columns, where these tell all of it.

A table's rows nearly always have the same keys and plain values. Then the map column says nothing that the typed
columns do not, and is left out of a part: it would cost a third of the time of a listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.log.files import STRING_MAP


def is_told_by(maps: pa.MapArray, typed: Mapping[str, pa.Array]) -> bool:
    """Whether the typed columns, in their order, give the maps back exactly."""
    if maps.null_count or any(array.null_count or not _is_plain(array.type) for array in typed.values()):
        return False
    return bool(partition_map(typed, len(maps)).equals(maps))


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_signed_integer(kind) or pa.types.is_date32(kind))


def partition_map(typed: Mapping[str, pa.Array], count: int) -> pa.MapArray:
    """One entry for each typed column in every row."""
    width = len(typed)
    offsets = _steps(width, count + 1)
    keys = _keys(tuple(typed), count)
    items = _interleaved([_text(array) for array in typed.values()], count)
    entries = pa.StructArray.from_arrays([keys, items], fields=[STRING_MAP.key_field, STRING_MAP.item_field])
    return pa.Array.from_buffers(STRING_MAP, count, [None, offsets], children=[entries])


def _text(array: pa.Array) -> pa.StringArray:
    values = plain(array)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def plain(array: pa.Array) -> pa.Array:
    """The values of an array that may be a dictionary."""
    if not pa.types.is_dictionary(array.type):
        return array
    if pa.types.is_string(array.type.value_type):
        return _from_dictionary(array)
    return array.dictionary.take(array.indices)


def _from_dictionary(array: pa.DictionaryArray) -> pa.StringArray:
    """The texts of a dictionary array; those of one length (times are) are copied as numbers are."""
    offsets = np.frombuffer(array.dictionary.buffers()[1], np.int32)[: len(array.dictionary) + 1]
    lengths = np.diff(offsets)
    width = int(lengths[0]) if len(lengths) else 0
    if array.null_count or array.dictionary.offset or not width or (lengths != width).any():
        return array.dictionary.take(array.indices)
    texts = np.frombuffer(array.dictionary.buffers()[2], f"V{width}", count=len(lengths), offset=int(offsets[0]))
    rows = np.frombuffer(array.indices.buffers()[1], np.int32)[array.offset : array.offset + len(array)]
    ends = np.flatnonzero(rows[1:] != rows[:-1]).tolist()
    if len(ends) * _FEW < len(rows):
        edges = [-1, *ends, len(rows) - 1]
        data = b"".join(bytes(texts[rows[end]]) * (end - before) for before, end in pairwise(edges))
    else:
        data = texts[rows].tobytes()
    return pa.Array.from_buffers(
        pa.string(), len(array), [None, _steps(width, len(array) + 1), pa.py_buffer(data)], null_count=0
    )


def _interleaved(columns: list[pa.StringArray], count: int) -> pa.StringArray:
    """The values of row 0, then those of row 1, and so on."""
    if len(columns) == 1:
        return columns[0]
    if not columns:
        return arrays.strings([])
    order = np.arange(count * len(columns), dtype=np.int64).reshape(len(columns), count).T.ravel()
    indices = pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(np.ascontiguousarray(order))])
    return pa.concat_arrays(columns).take(indices)


_FEW = 32
"""One change of value in so many rows is few."""
_MANY = 17_000
_known_keys: dict[tuple[str, ...], pa.StringArray] = {}
_known_steps: dict[int, pa.Buffer] = {}


def _keys(names: tuple[str, ...], count: int) -> pa.StringArray:
    """The names over and over: a slice of an array that is made once."""
    if count > _MANY:
        return _repeated(names, count)
    if names not in _known_keys:
        if len(_known_keys) >= 64:
            _known_keys.clear()
        _known_keys[names] = _repeated(names, _MANY)
    return _known_keys[names].slice(0, len(names) * count)


def _repeated(names: tuple[str, ...], count: int) -> pa.StringArray:
    texts = [name.encode() for name in names]
    offsets = np.zeros(len(names) * count + 1, np.int32)
    np.cumsum(np.tile(np.array(list(map(len, texts)), np.int32), count), out=offsets[1:])
    return pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts) * count)]
    )


def _steps(width: int, count: int) -> pa.Buffer:
    """0, width, 2 × width …"""
    if count > _MANY:
        return pa.py_buffer(np.arange(count, dtype=np.int32) * np.int32(width))
    if width not in _known_steps:
        _known_steps[width] = pa.py_buffer(np.arange(_MANY + 1, dtype=np.int32) * np.int32(width))
    return _known_steps[width]
