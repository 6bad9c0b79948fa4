"""Restore `partition_values` from the typed partition columns, if these hold all of it.

A table's rows nearly always have the same keys and plain values. Then the map column adds nothing to the typed columns,
and is left out of a part: it would cost a third of the time of a listing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.log.file_schema import STRING_MAP


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
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def _interleaved(columns: list[pa.StringArray], count: int) -> pa.StringArray:
    """The values of row 0, then those of row 1, and so on."""
    if len(columns) == 1:
        return columns[0]
    if not columns:
        return arrays.strings([])
    order = np.arange(count * len(columns), dtype=np.int64).reshape(len(columns), count).T.ravel()
    return pa.concat_arrays(columns).take(arrays.indices(order))


_MANY = 17_000
_known_keys: dict[tuple[str, ...], pa.StringArray] = {}
_known_steps: dict[int, pa.Buffer] = {}


def _keys(names: tuple[str, ...], count: int) -> pa.StringArray:
    """The names over and over: a slice of an array that is made once."""
    if count > _MANY:
        return _repeated(names, count)
    known = _known_keys.get(names)
    if known is None:
        if len(_known_keys) >= 64:
            _known_keys.clear()
        known = _known_keys[names] = _repeated(names, _MANY)
    return known.slice(0, len(names) * count)


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
