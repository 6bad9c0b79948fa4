"""The changes of an open table by a cursor, without Spark: what `sidecar changes --cursor` prints.

As on Spark: changes after the cursor's version; without a cursor all rows of the newest version first, as inserts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.data.change_files import TIMESTAMP, TYPE, VERSION
from delta_sidecar.data.changes import change_schema
from delta_sidecar.data.row_stream import RowStream
from delta_sidecar.lake.change_feed import FEED_COLUMNS, CdfReadOptions, FeedRange, commit_digest, feed_range
from delta_sidecar.lake.cursors import CdfCursor, CdfCursorStore
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.predicates.expression import Expression, columns_of
from delta_sidecar.table import DeltaTable


@dataclass(frozen=True, slots=True, eq=False)
class TableChanges:
    """Changed rows as a stream, and the cursor that moves once they are processed."""

    schema: pa.Schema
    batches: Generator[pa.RecordBatch, None, None]
    found: FeedRange
    cursors: CdfCursorStore
    name: str

    def commit(self) -> CdfCursor | None:
        """Mark the changes as processed."""
        if self.found.is_empty:
            return self.cursors.load(self.name)
        commit = commit_digest(self.found.head, self.found.end)
        return self.cursors.advance(self.name, self.found.end, table_id=self.found.table_id, commit=commit)


def changes_by_cursor(
    table: DeltaTable,
    cursors: CdfCursorStore,
    name: str,
    options: CdfReadOptions,
    where: str | None = None,
    columns: Sequence[str] | None = None,
) -> TableChanges:
    """The changes of a table after a cursor, or from the start that the options name. The first time, if they name an
    end, the table is opened at that version."""
    found = feed_range(table.snapshot, options, cursors.load(name))
    if found.is_snapshot:
        schema, batches = _all_rows(table, found, where, columns)
    elif found.is_empty:
        nothing = table.load_cdf(table.version() + 1, columns=columns, predicate=where, allow_out_of_range=True)
        schema, batches = nothing.schema, _none()
    else:
        changed = table.changes(found.start, found.end, columns, where)
        schema, batches = changed.schema, _each(changed)
    return TableChanges(schema, batches, found, cursors, name)


def _none() -> Generator[pa.RecordBatch, None, None]:
    yield from ()


def _each(rows: RowStream) -> Generator[pa.RecordBatch, None, None]:
    with rows:
        yield from rows


def _all_rows(
    table: DeltaTable, found: FeedRange, where: str | None, columns: Sequence[str] | None
) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
    """All rows of a version, as inserts."""
    with_feed = change_schema(found.at_end)
    wanted = with_feed if columns is None else with_feed.select(columns)
    condition = bind_predicate(where, with_feed, found.at_end.metadata.partitionColumns)
    used = [] if condition is None else [column.path[0] for column in columns_of(condition)]
    after = condition if any(name in FEED_COLUMNS for name in used) else None
    read = dict.fromkeys(name for name in (*wanted.names, *(used if after else ())) if name not in FEED_COLUMNS)
    opened = (
        table if found.end == table.version() else DeltaTable(table.table_uri, found.end, store=table.snapshot.store)
    )
    rows = opened.to_batches(list(read), None if after else where)
    return wanted.to_arrow(), _as_inserts(rows, found, wanted.names, wanted.to_arrow(), after)


def _as_inserts(
    rows: RowStream, found: FeedRange, names: Sequence[str], schema: pa.Schema, condition: Expression | None
) -> Generator[pa.RecordBatch, None, None]:
    time = found.end_time_ms()
    with rows:
        for batch in rows:
            whole = _with_feed(batch, found.end, time)
            if condition is not None:
                whole = whole.filter(matching(condition, whole))
            if whole.num_rows:
                chosen = [whole.column(whole.schema.get_field_index(name)) for name in names]
                yield pa.RecordBatch.from_arrays(chosen, schema=schema)


def _with_feed(batch: pa.RecordBatch, version: int, time_ms: int | None) -> pa.RecordBatch:
    count = batch.num_rows
    times = arrays.primitives(
        [None if time_ms is None else time_ms * 1000] * count, pa.timestamp("us", "UTC"), np.int64
    )
    feed = {TYPE: arrays.strings(["insert"] * count), VERSION: arrays.int64s([version] * count), TIMESTAMP: times}
    columns = dict(zip(batch.schema.names, batch.columns)) | feed
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
