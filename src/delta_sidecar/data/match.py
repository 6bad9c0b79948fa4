"""Which field of a data file belongs to a column of the table.

| column mapping | matched by                                                             |
|----------------|------------------------------------------------------------------------|
| none           | name: exact case first, then the only one that differs by case alone   |
| name           | physical name                                                          |
| id             | Parquet field id, never by name: a file without ids has none of them   |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from delta_sidecar.values.column_names import folded
from delta_sidecar.values.types import StructField

FieldMatch: TypeAlias = Callable[[Sequence[pa.Field], StructField], int | None]
"""The place of a column among the stored fields of its level; None if the file does not have it."""

_FIELD_ID = b"PARQUET:field_id"


def field_match(mapping_mode: str) -> FieldMatch:
    """The matching that a table's column mapping mode (`none`, `name`, `id`) asks for."""
    return _by_id if mapping_mode == "id" else _by_name


def _by_name(stored: Sequence[pa.Field], wanted: StructField) -> int | None:
    name = wanted.physical_name or wanted.name
    exact = next((i for i, f in enumerate(stored) if f.name == name), None)
    if exact is not None:
        return exact
    without_case = folded(name)
    similar = [i for i, f in enumerate(stored) if folded(f.name) == without_case]
    return similar[0] if len(similar) == 1 else None


def _by_id(stored: Sequence[pa.Field], wanted: StructField) -> int | None:
    if wanted.field_id is None:
        return None
    sought = str(wanted.field_id).encode()
    return next((i for i, f in enumerate(stored) if (f.metadata or {}).get(_FIELD_ID) == sought), None)
