"""Can rows that were written under older schemas of a range of changes be read with the schema at its end?

| since then a column was …          | older rows                                                   |
|------------------------------------|--------------------------------------------------------------|
| added                              | have null there                                              |
| widened, by the protocol's rules   | are widened                                                  |
| renamed, with column mapping       | have it under the new name                                   |
| dropped, with column mapping       | are given without it                                         |
| dropped or renamed, without        | do not fit: whether it was one or the other cannot be known  |
| dropped and added again            | do not fit: their values are not those of the new column     |
| given another type, or made NOT NULL | do not fit                                                 |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from delta_sidecar.errors import SchemaChangedError
from delta_sidecar.log.change_range import ChangeRange, TableState
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.type_changes import is_widening
from delta_sidecar.values.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType


def check_schemas(changes: ChangeRange) -> None:
    """Refuse a range with rows that do not fit the schema at its end, by the version that changed it."""
    for state, following in reversed(list(pairwise(changes.states))):
        reason = next(_misfits(state, changes.end), None)
        if reason is not None:
            raise SchemaChangedError(
                f"changes before version {following.version} do not fit the schema of version "
                f"{changes.end.version}: {reason}; end at {following.version - 1}, or start at {following.version}"
            )


def _misfits(old: TableState, new: TableState) -> Iterator[str]:
    """Why rows of an older state do not fit, in words."""
    if old.metadata.schemaString == new.metadata.schemaString and old.mapping_mode == new.mapping_mode:
        misfits: Iterator[str] = iter(())
    else:
        is_mapped = old.mapping_mode != "none" and new.mapping_mode != "none"
        misfits = _of_fields(old.schema(), new.schema(), "", is_mapped)
    yield from misfits
    if _partitioning(old) != _partitioning(new):
        yield "the table was partitioned by other columns"


def _partitioning(state: TableState) -> list[str]:
    return [field.physical_name for field in state.schema().select(state.metadata.partitionColumns)]


def _of_fields(old: StructType, new: StructType, above: str, is_mapped: bool) -> Iterator[str]:
    for field in old.fields:
        now = _same(field, new.fields)
        name = f"{above}{field.name}"
        if now is not None:
            yield from _of_field(field, now, name, is_mapped)
        elif not is_mapped:
            yield f"column {name!r} was dropped or renamed"
        elif new.find(field.name) is not None:
            yield f"column {name!r} was dropped and added again"
    for field in new.fields:
        if not field.nullable and _same(field, old.fields) is None:
            yield f"column {f'{above}{field.name}'!r} was added as NOT NULL"


def _of_field(old: StructField, new: StructField, name: str, is_mapped: bool) -> Iterator[str]:
    if old.nullable and not new.nullable:
        yield f"column {name!r} may hold nulls, and is now NOT NULL"
    yield from _of_types(old.type, new.type, name, is_mapped)


def _of_types(old: DataType, new: DataType, name: str, is_mapped: bool) -> Iterator[str]:
    match old, new:
        case StructType(), StructType():
            yield from _of_fields(old, new, f"{name}.", is_mapped)
        case ArrayType(), ArrayType():
            yield from _of_types(old.element, new.element, f"{name}.element", is_mapped)
        case MapType(), MapType():
            yield from _of_types(old.key, new.key, f"{name}.key", is_mapped)
            yield from _of_types(old.value, new.value, f"{name}.value", is_mapped)
        case PrimitiveType("void" | "null"), _:
            return
        case _ if not is_widening(old, new):
            yield f"column {name!r} was {old}, and is now {new}"


def _same(field: StructField, others: Sequence[StructField]) -> StructField | None:
    """The same column in another schema. Physical names stay when columns are renamed."""
    exact = next((other for other in others if other.physical_name == field.physical_name), None)
    if exact is not None:
        return exact
    wanted = folded(field.physical_name)
    return next((other for other in others if folded(other.physical_name) == wanted), None)
