"""Which types of rows fit the columns of a search table. The table's types are the contract: a value that would change
on its way in is refused before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from delta_sidecar.values.types import DataType, DecimalType, StructType

_HELD: Final = {
    "short": {"byte"},
    "integer": {"byte", "short"},
    "long": {"byte", "short", "integer"},
    "float": {"byte", "short"},
    "double": {"byte", "short", "integer", "float"},
}
"""Types of which every value is a value of another, too."""


def holds(known: DataType, given: DataType) -> bool:
    """Whether a column of one type holds every value of another as it is."""
    if isinstance(known, DecimalType) and isinstance(given, DecimalType):
        return known.scale >= given.scale and known.precision - known.scale >= given.precision - given.scale
    return str(known) == str(given) or str(given) == "void" or str(given) in _HELD.get(str(known), ())


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """A column that a source does not have as the table has it."""

    name: str
    known: str
    """Its type in the table."""
    given: str | None
    """Its type in the source; None if it is gone."""

    def __str__(self) -> str:
        if self.given is None:
            return f"the source has no column {self.name!r}, which is indexed"
        return f"the column {self.name} of the source is {self.given}, and was {self.known} when the table was made"

    @property
    def remedy(self) -> str:
        return "add it" if self.given is None else f"cast it to {self.known}"


def changed_columns(known: StructType, given: StructType, names: Iterable[str]) -> Iterator[ChangedColumn]:
    """What a source does not have as a table has it: columns that are gone, or of a type that does not fit.

    Args:
        known: The columns of the table.
        given: The columns of the source.
        names: The columns of the table that are filled from the source.
    """
    for name in names:
        before, now = known.find(name), given.find(name)
        if now is None:
            yield ChangedColumn(name, "" if before is None else str(before.type), None)
        elif before is not None and not holds(before.type, now.type):
            yield ChangedColumn(name, str(before.type), str(now.type))


def as_known(known: StructType, given: StructType) -> StructType:
    """The columns of a source with the types that a table has them in."""

    def typed(name: str, data_type: DataType) -> DataType:
        found = known.find(name)
        return data_type if found is None else found.type

    return StructType(tuple(replace(column, type=typed(column.name, column.type)) for column in given))


def plain_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows in the types that Arrow computes with: no views, dictionaries or half floats."""
    columns = [_plain(column) for column in batch.columns]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    fields = [
        field.with_type(column.type).with_metadata(None) for field, column in zip(batch.schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    wanted = _PLAIN.get(column.type)
    return column if wanted is None else column.cast(wanted)


_PLAIN: Final = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
