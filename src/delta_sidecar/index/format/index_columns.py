"""Flat columns of index rows, named by kind and physical path, because rows of different schemas are combined."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.index.format.index_layout import Path

NUM_RECORDS: Final = "num_records"
PARTITION: Final = "partition"
TIGHT_BOUNDS: Final = "tight_bounds"
STATS_JSON: Final = "stats_json"
KINDS: Final = {"min": "minValues", "max": "maxValues", "null_count": "nullCount"}
"""The flat columns' first names, and the keys of the stats object they come from."""

_SEPARATOR: Final = "\0"


def column(kind: str, path: Path) -> str:
    """The name of a flat column."""
    return _SEPARATOR.join((kind, *path))


def path_of(name: str) -> Path:
    """Kind and physical path of a flat column."""
    return tuple(name.split(_SEPARATOR))


def stats_table(columns: dict[str, pa.Array], count: int) -> pa.Table:
    """A table without the columns that are null throughout; `num_records` stays, so that rows are counted."""
    columns.setdefault(NUM_RECORDS, arrays.nulls(count, pa.int64()))
    kept = {name: array for name, array in columns.items() if name == NUM_RECORDS or array.null_count < count}
    return pa.table(kept)


def one_array(chunked: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if chunked.num_chunks == 1:
        return chunked.chunk(0)
    return pa.concat_arrays(chunked.chunks) if chunked.num_chunks else pa.nulls(0, chunked.type)


def child(struct: pa.Array, name: str) -> pa.Array | None:
    """A field of a struct, null where the struct is; None if it has no such field."""
    index = struct.type.get_field_index(name) if pa.types.is_struct(struct.type) else -1
    return None if index < 0 else pc.struct_field(struct, [index])


def descendant(struct: pa.Array, path: Path) -> pa.Array | None:
    """A leaf below a struct, as `child`."""
    level: pa.Array | None = struct
    for name in path:
        level = None if level is None else child(level, name)
    return level
