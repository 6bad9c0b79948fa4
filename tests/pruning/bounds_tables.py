"""Small builders for tests of bounds and pruning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from delta_sidecar.log.file_schema import STRING_MAP
from delta_sidecar.predicates.expression import Column, Expression
from delta_sidecar.pruning.file_bounds import Bounds, FileBounds
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType, StructField, StructType


def field(
    name: str, data_type: str | DataType, metadata: Mapping[str, Any] | None = None, physical: str = ""
) -> StructField:
    kind = PrimitiveType(data_type) if isinstance(data_type, str) else data_type
    return StructField(name, kind, metadata=metadata or {}, physical_name=physical or name)


def column(data_type: str | DataType, name: str = "x", partition: bool = False, **options: Any) -> Column:
    return Column((field(name, data_type, **options),), is_partition=partition)


def nested(data_type: str, *names: str) -> Column:
    """A leaf inside structs."""
    fields = [field(names[-1], data_type)]
    for name in reversed(names[:-1]):
        fields.insert(0, field(name, StructType((fields[0],))))
    return Column(tuple(fields))


def decimal(precision: int, scale: int) -> DecimalType:
    return DecimalType(precision, scale)


def stats_batch(texts: Sequence[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["stats"])


def partition_batch(maps: Sequence[Mapping[str, str | None] | None]) -> pa.RecordBatch:
    rows = [None if m is None else list(m.items()) for m in maps]
    return pa.RecordBatch.from_arrays([pa.array(rows, STRING_MAP)], ["partition_values"])


def bounds_of(of: Column, *texts: str | None) -> Bounds:
    found = FileBounds(stats_batch(texts), [of]).bounds(of)
    assert found is not None
    return found


def min_max(of: Column, low: str, high: str | None = None) -> tuple[Any, Any]:
    """The bounds of `x` from the JSON text of its minimum and maximum."""
    name = of.physical_path[0]
    text = f'{{"minValues":{{"{name}":{low}}},"maxValues":{{"{name}":{low if high is None else high}}}}}'
    found = bounds_of(of, text)
    return found.minimum[0].as_py(), found.maximum[0].as_py()


def kept(expression: Expression, batch: pa.RecordBatch, *columns: Column, timezone: str = "UTC") -> list[bool]:
    flags = may_match(expression, FileBounds(batch, columns, timezone), len(batch))
    assert flags.null_count == 0
    return list(flags.to_pylist())
