"""Arrow arrays and scalars from Python values, built from buffers.

`pa.array` and `pa.scalar` import pandas if it is installed (170 to 400 ms, 40 MB), which costs more than
a whole query here. These functions do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from delta_sidecar.lazy_names import LazyModule

if TYPE_CHECKING:
    from numpy.typing import NDArray

pc: Any = LazyModule("pyarrow.compute")
"""Arrow's functions. They take as long to import as all else of pyarrow, and many listings need none of them."""

Flags: TypeAlias = "NDArray[np.bool_]"
"""One boolean for each row."""


@cache
def streaming_pool() -> pa.MemoryPool | None:
    """The memory pool of batches that are made on one thread and released on another; None for Arrow's own.

    Arrow's usual pool (mimalloc) answers that by holding twice the memory that jemalloc does. The pool of the process
    is not ours to set; that of our batches is.
    """
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:
        return None


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    """The validity bitmap (None when all are valid) and the number of nulls."""
    if None not in values:
        return None, 0
    valid = np.fromiter((v is not None for v in values), dtype=np.bool_, count=len(values))
    return bitmap(valid), len(values) - int(valid.sum())


def bitmap(flags: Flags) -> pa.Buffer:
    """Arrow's bit-packed form of a boolean array."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def booleans(flags: Flags) -> pa.BooleanArray:
    """A boolean array without nulls."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, bitmap(flags)])


def to_numpy_bool(array: pa.Array) -> Flags:
    """The values of a boolean array without nulls."""
    data = array.buffers()[1]
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def to_numpy_int64(array: pa.Array) -> NDArray[np.int64]:
    """The values of an array of integers; 0 where it is null. pyarrow's own ways import pandas."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), np.int64)
    stored = np.frombuffer(data, np.dtype(f"i{array.type.bit_width // 8}"))
    values = stored[array.offset : array.offset + len(array)].astype(np.int64)
    if array.null_count:
        values[~to_numpy_bool(array.is_valid())] = 0
    return values


def primitives(values: Sequence[Any], data_type: pa.DataType, dtype: Any) -> pa.Array:
    """A fixed-width array of numbers; None is null."""
    validity, nulls = _validity(values)
    if nulls:
        values = [0 if v is None else v for v in values]
    data = np.fromiter(values, dtype=dtype, count=len(values))
    return pa.Array.from_buffers(data_type, len(values), [validity, pa.py_buffer(data)], null_count=nulls)


def int64s(values: Sequence[int | None]) -> pa.Int64Array:
    return primitives(values, pa.int64(), np.int64)


def int32s(values: Sequence[int | None]) -> pa.Int32Array:
    return primitives(values, pa.int32(), np.int32)


def indices(rows: NDArray[np.integer[Any]]) -> pa.Int64Array:
    """Numbers of rows, to take these."""
    numbers = np.ascontiguousarray(rows, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def strings(values: Sequence[str | None]) -> pa.StringArray:
    """A string array; None is null. The values' UTF-8 together must stay below 2 GB."""
    if None not in values and (text := "".join(values)).isascii():  # type: ignore[arg-type]
        return _from_data(values, text.encode(), pa.string())  # type: ignore[arg-type]
    return _binaries([None if v is None else v.encode("utf-8", "surrogatepass") for v in values], pa.string())


def binaries(values: Sequence[bytes | None]) -> pa.BinaryArray:
    return _binaries(values, pa.binary())


def _binaries(values: Sequence[bytes | None], data_type: pa.DataType) -> pa.Array:
    validity, nulls = _validity(values)
    if nulls:
        values = [b"" if v is None else v for v in values]
    return _from_data(values, b"".join(values), data_type, validity, nulls)  # type: ignore[arg-type]


def _from_data(
    values: Sequence[str | bytes],
    data: bytes,
    data_type: pa.DataType,
    validity: pa.Buffer | None = None,
    nulls: int = 0,
) -> pa.Array:
    """Values that stand one after the other in `data`."""
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(data_type, len(values), buffers, null_count=nulls)


def record_batch(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of Python values, column by column, with the types that `schema` has for their names: strings, whole
    numbers, maps of strings, structs of these."""
    filled = [_array(values, schema.field(name).type) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(filled, names=list(columns))


def _array(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if data_type == pa.string():
        return strings(values)
    if pa.types.is_map(data_type):
        return _string_maps(values, data_type)
    if pa.types.is_struct(data_type):
        return _structs(values, data_type)
    return int32s(values) if data_type == pa.int32() else int64s(values)


def _string_maps(maps: Sequence[dict[str, str | None] | None], data_type: pa.MapType) -> pa.MapArray:
    lengths = np.fromiter((0 if m is None else len(m) for m in maps), np.int32, len(maps))
    keys = strings([k for m in maps if m for k in m])
    items = strings([v for m in maps if m for v in m.values()])
    entries = pa.StructArray.from_arrays([keys, items], fields=[data_type.key_field, data_type.item_field])
    valid = np.fromiter((m is not None for m in maps), np.bool_, len(maps))
    validity = None if valid.all() else bitmap(valid)
    offsets = list_offsets(lengths).buffers()[1]
    return pa.Array.from_buffers(data_type, len(maps), [validity, offsets], children=[entries])


def _structs(objects: Sequence[Any], data_type: pa.StructType) -> pa.StructArray:
    """Objects whose attributes have the names of the fields; None is null."""
    if not any(objects):
        return nulls(len(objects), data_type)
    fields = list(data_type)
    children = [_array([None if o is None else getattr(o, f.name) for o in objects], f.type) for f in fields]
    absent = booleans(np.fromiter((o is None for o in objects), np.bool_, len(objects)))
    return pa.StructArray.from_arrays(children, fields=fields, mask=absent)


def nulls(count: int, data_type: pa.DataType) -> pa.Array:
    """`count` nulls of a type; those of a batch are slices of one array."""
    return _many_nulls(data_type).slice(0, count) if count <= _MANY else pa.nulls(count, data_type)


_MANY = 17_000


@lru_cache(maxsize=64)
def _many_nulls(data_type: pa.DataType) -> pa.Array:
    return pa.nulls(_MANY, data_type, memory_pool=streaming_pool())


def list_offsets(lengths: NDArray[np.int32]) -> pa.Int32Array:
    """Offsets of a list or map array from the lengths of its entries."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])


def filtered(batch: pa.RecordBatch, keep: Flags) -> pa.RecordBatch:
    """The rows to keep, in the streaming pool."""
    return pc.filter(batch, booleans(keep), memory_pool=streaming_pool())
