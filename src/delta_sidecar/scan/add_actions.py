"""Live files in the form of `deltalake`'s add actions: one row per file, with typed partition values and statistics.

The columns follow from the schema and the properties of the table. A leaf has statistics if it is one of the first
`delta.dataSkippingNumIndexedCols`, or if `delta.dataSkippingStatsColumns` names it; partition columns have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.predicates.expression import Column
from delta_sidecar.pruning.file_bounds import FileBounds, is_prunable, num_records
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.scan.file_stats import presented, struct_leaves
from delta_sidecar.settings import Settings
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.comparison import integers
from delta_sidecar.values.partition_values import partition_array
from delta_sidecar.values.stats_json import LeafDecoder, Path
from delta_sidecar.values.types import DecimalType, PrimitiveType, StructType, arrow_type

Values: TypeAlias = dict[Path, pa.Array]
"""Arrays by the logical path of their column."""

_COLUMNS: Final = ("path", "size", "modification_time", "partition_values", "stats")
_INDEXED_LEAVES: Final = 32
"""Leaves with statistics where no property of the table says how many."""
_WITHOUT_BOUNDS: Final = frozenset({"binary", "variant", "void", "null"})
_BOOLEAN: Final = PrimitiveType("boolean")
_NAME_PARTS: Final = re.compile(r"`((?:[^`]|``)*)`|([^`.,]+)|([.,])")


def add_actions(snapshot: Snapshot, settings: Settings, flatten: bool) -> pa.Table:
    """One row for each live file. Statistics and partition values are structs, or with `flatten` columns with dotted
    names. Structs of statistics are null where the log has none of the file, structs in them where it has no null count
    and no bound of their leaves."""
    rows = _ActionRows(snapshot, settings.partition_timezone, flatten)
    with FileScan(snapshot, settings, columns=_COLUMNS) as scan:
        batches = [rows.made(batch) for batch in scan]
    no_files = pa.RecordBatch.from_arrays([pa.nulls(0, FILE_SCHEMA.field(c).type) for c in _COLUMNS], names=_COLUMNS)
    return pa.Table.from_batches([rows.made(no_files), *batches])


class _ActionRows:
    """Makes rows of add actions out of rows of a listing."""

    def __init__(self, snapshot: Snapshot, partition_timezone: str, flatten: bool) -> None:
        self._flatten = flatten
        self._timezone = partition_timezone
        self._partition = [snapshot.schema.resolve([name])[0] for name in snapshot.partition_columns]
        stored = StructType(tuple(field for field in snapshot.schema if field not in self._partition))
        self._leaves = _with_statistics(list(struct_leaves(stored)), snapshot.metadata.properties)
        self._bounded = [leaf for leaf in self._leaves if _has_bounds(leaf)]
        self._others = LeafDecoder(
            {("nullCount", *leaf.physical_path): int for leaf in self._leaves if not is_prunable(leaf)}
            | {
                (key, *leaf.physical_path): bool
                for leaf in self._bounded
                if leaf.type == _BOOLEAN
                for key in ("minValues", "maxValues")
            }
        )
        """The leaves that `FileBounds` leaves out: pruning has no use for them."""

    def made(self, listed: pa.RecordBatch) -> pa.RecordBatch:
        """The add actions of some files."""
        required = {"path": "path", "size_bytes": "size", "modification_time": "modification_time"}
        fields = [pa.field(name, FILE_SCHEMA.field(source).type, nullable=False) for name, source in required.items()]
        columns = [listed.column(source) for source in required.values()]
        nullable = {"num_records": num_records(listed.column("stats"))} | self._statistics(listed)
        nullable |= self._grouped("partition", self._partition_values(listed), None)
        fields += [pa.field(name, array.type) for name, array in nullable.items()]
        return pa.RecordBatch.from_arrays([*columns, *nullable.values()], schema=pa.schema(fields))

    def _statistics(self, listed: pa.RecordBatch) -> dict[str, pa.Array]:
        known = listed.column("stats").is_valid()
        others = self._others.read(listed.column("stats"))
        source = FileBounds(listed, self._leaves, widen=False)
        bounds = {leaf.path: source.bounds(leaf) for leaf in self._leaves}
        null_counts, minima, maxima = Values(), Values(), Values()
        for leaf in self._leaves:
            found = bounds[leaf.path]
            counted = integers(others["nullCount", *leaf.physical_path]) if found is None else found.null_count
            null_counts[leaf.path] = counted
        for leaf in self._bounded:
            target, found = arrow_type(leaf.type), bounds[leaf.path]
            if leaf.type == _BOOLEAN:
                minima[leaf.path] = _booleans(others["minValues", *leaf.physical_path])
                maxima[leaf.path] = _booleans(others["maxValues", *leaf.physical_path])
            elif found is None:
                minima[leaf.path] = maxima[leaf.path] = pa.nulls(listed.num_rows, target)
            else:
                minima[leaf.path] = presented(found.minimum, leaf, target)
                maxima[leaf.path] = presented(found.maximum, leaf, target)
        return {
            **self._grouped("null_count", null_counts, known, null_counts),
            **self._grouped("min", minima, known, null_counts, minima, maxima),
            **self._grouped("max", maxima, known, null_counts, minima, maxima),
        }

    def _partition_values(self, listed: pa.RecordBatch) -> Values:
        maps = listed.column("partition_values")
        return {(field.name,): partition_array(maps, field, self._timezone) for field in self._partition}

    def _grouped(self, name: str, values: Values, known: pa.BooleanArray | None, *facts: Values) -> dict[str, pa.Array]:
        """One struct of that name, or its leaves as columns; nothing for a group without leaves."""
        if not values:
            return {}
        if self._flatten:
            return {".".join((name, *path)): array for path, array in values.items()}
        return {name: _struct(values, known, facts)}


def _with_statistics(leaves: Sequence[Column], properties: Mapping[str, str]) -> list[Column]:
    """The leaves that writers keep statistics of."""
    named = properties.get("delta.dataSkippingStatsColumns")
    if named is not None:
        wanted = [_folded(path) for path in _paths(named)]
        return [leaf for leaf in leaves if any(_folded(leaf.path)[: len(path)] == path for path in wanted)]
    text = properties.get("delta.dataSkippingNumIndexedCols", "")
    count = int(text) if re.fullmatch(r"-1|\d{1,9}", text) else _INDEXED_LEAVES
    return list(leaves if count < 0 else leaves[:count])


def _paths(text: str) -> list[Path]:
    """Column names, separated by commas, which may hold dots and backticks."""
    paths: list[list[str]] = [[]]
    for quoted, plain, mark in _NAME_PARTS.findall(text):
        if mark == ",":
            paths.append([])
        elif quoted or plain.strip():
            paths[-1].append(quoted.replace("``", "`") or plain.strip())
    return [tuple(path) for path in paths if path]


def _folded(path: Sequence[str]) -> Path:
    return tuple(folded(part) for part in path)


def _has_bounds(leaf: Column) -> bool:
    """Whether statistics of such a column have a minimum and a maximum."""
    if isinstance(leaf.type, PrimitiveType):
        return leaf.type.name not in _WITHOUT_BOUNDS
    return isinstance(leaf.type, DecimalType)


def _booleans(values: Sequence[bool | None]) -> pa.BooleanArray:
    return arrays.primitives(values, pa.int8(), np.int8).cast(pa.bool_())


def _struct(values: Values, known: pa.BooleanArray | None, facts: Sequence[Values]) -> pa.StructArray:
    """Leaves as one struct, null where it is not `known`; a struct within it is null where no fact below it is known.

    Writers count the nulls of every column they know, so a struct whose values are all null has facts, and one that
    the table got after the file was written has none.
    """
    children: dict[str, Values] = {}
    for path, array in values.items():
        children.setdefault(path[0], {})[path[1:]] = array
    made = {name: below[()] if () in below else _inner(name, below, facts) for name, below in children.items()}
    fields = [pa.field(name, array.type) for name, array in made.items()]
    mask = None if known is None else pc.invert(known)
    return pa.StructArray.from_arrays(list(made.values()), fields=fields, mask=mask)


def _inner(name: str, values: Values, facts: Sequence[Values]) -> pa.StructArray:
    below = [{path[1:]: array for path, array in fact.items() if path[0] == name} for fact in facts]
    known = reduce(pc.or_, [array.is_valid() for fact in below for array in fact.values()])
    return _struct(values, known, below)
