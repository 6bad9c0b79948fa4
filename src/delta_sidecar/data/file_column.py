"""A column that says which file each row is from. It is in no file: like a partition value, it is the same for all rows
of one, so conditions on it leave out whole files."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import InputError
from delta_sidecar.predicates.expression import Expression, all_of, columns_of, conjuncts
from delta_sidecar.values.types import PrimitiveType, StructField, StructType

FILE_TYPE: Final = pa.dictionary(pa.int32(), pa.string())
"""Of the column in rows: each file is named once in a batch."""

_NAME: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_MARK: Final = "delta_sidecar.isFileColumn"


def is_name(name: object) -> bool:
    """Whether the column can have this name."""
    return type(name) is str and _NAME.fullmatch(name) is not None


def with_file_column(schema: StructType, name: str | None) -> StructType:
    """The schema with a column of files at its end; the schema itself if no name is given.

    Raises `InputError` if the name cannot be one, or is that of another column.
    """
    if name is None:
        return schema
    if not is_name(name):
        raise InputError(f"the file column cannot be called {name!r}; use one or more letters, digits and _")
    if (taken := schema.find(name)) is not None:
        raise InputError(f"the file column cannot be called {name!r}: the table has a column {taken.name!r}; rename it")
    field = StructField(name, PrimitiveType("string"), nullable=False, metadata={_MARK: True})
    return StructType((*schema.fields, field))


def is_file_column(field: StructField) -> bool:
    return _MARK in field.metadata


def file_arrow_field(field: StructField) -> pa.Field:
    """The column in rows."""
    return pa.field(field.name, FILE_TYPE, nullable=False)


def with_file_type(seen: pa.Schema, schema: StructType) -> pa.Schema:
    """The Arrow schema of a table's columns, in which the column of files has the type that it has in rows."""
    for field in filter(is_file_column, schema):
        seen = seen.set(seen.get_field_index(field.name), file_arrow_field(field))
    return seen


def without_file_column(predicate: Expression | None) -> Expression | None:
    """What a predicate says of a listing, which knows no such column."""
    if predicate is None:
        return None
    terms = conjuncts(predicate)
    known = [t for t in terms if not any(is_file_column(column.fields[0]) for column in columns_of(t))]
    return predicate if len(known) == len(terms) else all_of(known)


def repeated_file(path: pa.Scalar, count: int) -> pa.DictionaryArray:
    """The column for some rows of one file."""
    places = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(np.zeros(count, np.int32))])
    return pa.DictionaryArray.from_arrays(places, arrays.strings([path.as_py()]))
