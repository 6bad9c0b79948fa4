"""The rows that a range of versions changed, as a stream: Delta's change feed, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from delta_sidecar.data.change_files import (
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    GIVEN_TYPE,
    RECORDED_TYPE,
    TIMESTAMP,
    TYPE,
    VERSION,
    ChangedFile,
    ChangedFiles,
)
from delta_sidecar.data.change_pruning import InsertPruner
from delta_sidecar.data.changed_schema import check_schemas
from delta_sidecar.data.file_bytes import Sources
from delta_sidecar.data.match import FieldMatch, field_match
from delta_sidecar.data.read_metrics import ReadMetrics
from delta_sidecar.data.reader import RowReader
from delta_sidecar.data.request import RowRequest, plan_request
from delta_sidecar.data.row_scan import default_threads, group_bytes
from delta_sidecar.data.row_stream import RowStream, RowWork
from delta_sidecar.errors import CorruptDataError, CorruptLogError, MissingDataError, UnsupportedTableError
from delta_sidecar.log.change_range import ChangeRange, TableState
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.settings import Settings
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.types import StructField, StructType

if TYPE_CHECKING:
    from delta_sidecar.data.arrow_step import ArrowStep

Bind: TypeAlias = Callable[[StructType], Expression | None]
"""What the predicate says of rows of a schema."""

_NAMES: Final = (TYPE, VERSION, TIMESTAMP)
CHANGE_BUFFER: Final = 256 << 10
"""Bytes of a column that are read at once: change files may be as large as any others, and several are read at a
time."""
_BATCH_ROWS: Final = 1 << 14
"""The most rows in a batch. Where vectors select the rows, several files are decoded at once and much of them is
dropped: smaller batches hold a quarter less memory there, and take no longer."""


def change_schema(state: TableState, kind: StructField = GIVEN_TYPE) -> StructType:
    """The columns of the table, and what the feed adds to them."""
    schema = state.schema()
    if not schema.fields:
        raise CorruptLogError(f"version {state.version} has no schema, so its changes cannot be read")
    for name in schema.names:
        if folded(name) in _NAMES:
            raise UnsupportedTableError(
                f"column {name!r} has the name of a column of the change feed; rename it, or use another reader"
            )
    return StructType((*schema.fields, kind, COMMIT_VERSION, COMMIT_TIMESTAMP))


def read_changes(
    changes: ChangeRange,
    sources: Sources,
    settings: Settings,
    *,
    columns: Sequence[str] | None,
    bind: Bind,
    step: ArrowStep | None = None,
) -> RowStream:
    """The changed rows of a range, oldest version first, in the schema at its end.

    `columns` are names of the table or of the feed, in the order wanted. `bind` gives the predicate for a schema: the
    kind of change is a column of some files, and the same for all rows of others. `step` is done with every batch.
    """
    check_schemas(changes)
    plan = _Plan(changes.end, settings, columns, bind, settings.read_threads or default_threads(sources.table))
    metrics = ReadMetrics()
    given, recorded = plan.given(), plan.recorded()
    reader = ChangeReader(
        RowReader(given, sources, step, metrics), RowReader(recorded, sources, step, metrics), metrics
    )
    files = ChangedFiles(
        changes,
        sources.table.root_uri,
        given.partition_fields,
        settings.partition_timezone,
        InsertPruner(given.row_predicate, metrics),
    )
    work = RowWork(files, reader, threads=plan.threads, memory_budget=settings.memory_budget, enough=None)
    return RowStream(work, reader.schema, None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to read of the two kinds of files."""

    state: TableState
    settings: Settings
    columns: Sequence[str] | None
    bind: Bind
    threads: int

    def given(self) -> RowRequest:
        """For data files: what happened is the same for all their rows."""
        return self._request(change_schema(self.state, GIVEN_TYPE), _NAMES)

    def recorded(self) -> RowRequest:
        """For files of changed rows: what happened is in a column, which never has a field id."""
        request = self._request(change_schema(self.state, RECORDED_TYPE), (VERSION, TIMESTAMP))
        return replace(request, match=_recorded_match(field_match(self.state.mapping_mode)))

    def _request(self, schema: StructType, constants: Sequence[str]) -> RowRequest:
        return plan_request(
            schema,
            [*self.state.metadata.partitionColumns, *constants],
            mapping_mode=self.state.mapping_mode,
            columns=self.columns,
            predicate=self.bind(schema),
            limit=None,
            batch_size=min(self.settings.row_batch_size, _BATCH_ROWS),
            group_bytes=group_bytes(self.settings.memory_budget, self.threads),
        )


def _recorded_match(others: FieldMatch) -> FieldMatch:
    def match(stored: Sequence[pa.Field], wanted: StructField) -> int | None:
        if wanted is RECORDED_TYPE:
            return next((place for place, field in enumerate(stored) if field.name == TYPE), None)
        return others(stored, wanted)

    return match


@dataclass(frozen=True, slots=True, eq=False)
class ChangeReader:
    """Reads the changed rows of files, any number of them at once."""

    given: RowReader
    recorded: RowReader
    metrics: ReadMetrics

    @property
    def schema(self) -> pa.Schema:
        """The rows that are read."""
        return self.given.schema

    def read(self, changed: ChangedFile, /) -> Generator[pa.RecordBatch, None, None]:
        reader = self.recorded if changed.change_type is None else self.given
        try:
            with closing(reader.read(changed.file)) as batches:
                for batch in batches:
                    if changed.change_type is None:
                        _check_types(batch, changed)
                    yield batch
        except MissingDataError:
            raise MissingDataError(
                f"the changes of version {changed.version} are gone: {changed.file.path!r} or its deletion vector is "
                "missing, perhaps vacuumed; restore it, or read the table as a whole and then the changes after it "
                "(with a cursor: reset it)"
            ) from None

    def promised_rows(self, changed: ChangedFile, /) -> int:
        return 0


def _check_types(batch: pa.RecordBatch, changed: ChangedFile) -> None:
    place = batch.schema.get_field_index(TYPE)
    if place >= 0 and batch.column(place).null_count:
        raise CorruptDataError(
            f"change file {changed.file.path!r} of version {changed.version} has rows without {TYPE}; restore it or "
            f"start after version {changed.version}"
        )
