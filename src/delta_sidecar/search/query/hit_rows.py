"""Rows of hits: numbers and times from the columns of a split, texts from what it stores."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptDataError, QueryError, UnknownColumnError
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.splits.cache import OpenedSplit
from delta_sidecar.search.splits.fields import BOOLEAN, DATE, FLOAT, KEYWORD, STORED, TEXT, SplitField, SplitFields
from delta_sidecar.search.splits.their_splits import partition_array
from delta_sidecar.values.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_type,
)


def readable_columns(
    columns: StructType, fields: SplitFields, partitions: Sequence[str], wanted: Sequence[str] | None
) -> list[StructField]:
    """The columns of hits.

    Args:
        columns: The columns of the table.
        fields: What the splits hold.
        partitions: The names of the partition columns.
        wanted: Names; all that can be given back if None.

    Raises:
        UnknownColumnError: There is no such column.
        QueryError: A column is indexed but its values are not kept.
    """
    if wanted is None:
        return [column for column in columns if column.name in partitions or _is_readable(fields.find(column.name))]
    chosen = [columns.resolve([name])[0] for name in wanted]
    for column in chosen:
        if column.name not in partitions and not _is_readable(fields.find(column.name)):
            raise QueryError(
                f"the values of {column.name} are not stored in these splits; leave it out, or build them so"
            )
    return chosen


def _is_readable(field: SplitField | None) -> bool:
    return field is not None and field.is_readable


class HitRows:
    """Reads columns of hits out of one split.

    Args:
        opened: The split.
        split: What the log says of it.
        partitions: The names of the partition columns.
    """

    def __init__(self, opened: OpenedSplit, split: Split, partitions: Sequence[str]) -> None:
        self._opened = opened
        self._split = split
        self._partitions = partitions

    def columns(self, addresses: Sequence[Any], columns: Sequence[StructField]) -> dict[str, pa.Array]:
        """Arrays by the name of the column, in the order of the addresses.

        Raises:
            CorruptDataError: A value is not of its column's type.
            UnknownColumnError: The split has no such column.
        """
        documents: list[Mapping[str, list[Any]]] | None = None
        found: dict[str, pa.Array] = {}
        for column in columns:
            if column.name in self._partitions:
                found[column.name] = partition_array(self._split, column, len(addresses))
                continue
            field = self._opened.fields.find(column.name)
            if field is None or not field.is_readable:
                raise UnknownColumnError(f"the split {self._split.path} does not hold the column {column.name}")
            if field.stored:
                if documents is None:
                    documents = [self._opened.searcher.doc(address).to_dict() for address in addresses]
                values = [next(iter(document.get(field.engine_name) or ()), None) for document in documents]
            else:
                values = self._opened.searcher.fast_field_values(field.engine_name, list(addresses))
            found[column.name] = self._array(values, field, column)
        return found

    def _array(self, values: list[Any], field: SplitField, column: StructField) -> pa.Array:
        wanted = arrow_type(column.type)
        try:
            if field.kind == STORED:
                return pa.array([_revived(value, column.type) for value in values], wanted)
            if field.kind in (TEXT, KEYWORD):
                return arrays.strings(values)
            if field.kind == BOOLEAN:
                flags = [None if value is None else int(value) for value in values]
                return arrays.primitives(flags, pa.int8(), np.int8).cast(pa.bool_())
            if field.kind == FLOAT:
                return arrays.primitives(values, pa.float64(), np.float64).cast(wanted)
            whole = arrays.int32s(values) if field.kind == DATE else arrays.int64s(values)
            return whole.view(wanted) if pa.types.is_temporal(wanted) else whole.cast(wanted)
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
            raise CorruptDataError(f"{self._split.path}: {column.name} does not hold {column.type} ({error})") from None


def _revived(value: bytes | None, data_type: DataType) -> Any:
    return None if value is None else _of_json(msgspec.json.decode(bytes(value)), data_type)


def _of_json(value: Any, data_type: DataType) -> Any:
    """A value out of the JSON that a split stores."""
    if value is None:
        return None
    match data_type:
        case DecimalType():
            return Decimal(str(value))
        case StructType():
            return {field.name: _of_json(value.get(field.name), field.type) for field in data_type}
        case ArrayType(element):
            return [_of_json(one, element) for one in value]
        case MapType(key, inner):
            return [(_of_json(name, key), _of_json(one, inner)) for name, one in value]
        case PrimitiveType("float" | "double"):
            # JSON has no infinity: such values are texts.
            return float(value)
        case PrimitiveType("binary"):
            return base64.b64decode(value)
        case PrimitiveType("date"):
            return date.fromisoformat(value)
        case PrimitiveType("timestamp" | "timestamp_ntz"):
            return datetime.fromisoformat(value)
    return value
