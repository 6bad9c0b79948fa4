"""What `DeltaTable` and the engines use of an open table: its store, its listing and its rows.

`DeltaTable._access` makes it. Engines take what they need of a table from here and from the table's public methods, so
this is the whole seam. Imports are in the methods: a listing needs no reader of rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, TypeAlias, cast

from delta_sidecar.errors import CorruptLogError
from delta_sidecar.storage.uri import Location, parse_location

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from delta_sidecar.data.arrow_step import ArrowStep
    from delta_sidecar.data.file_bytes import Sources, StoreOpener
    from delta_sidecar.data.row_stream import RowStream
    from delta_sidecar.log.change_range import ChangeRange
    from delta_sidecar.log.snapshot import Snapshot
    from delta_sidecar.predicates.arrow_tree import ParsedExpression
    from delta_sidecar.predicates.condition import Condition
    from delta_sidecar.predicates.expression import Expression
    from delta_sidecar.predicates.predicate_tuples import Filters, RowFilters
    from delta_sidecar.scan.file_scan import FileScan
    from delta_sidecar.scan.scan_position import ScanPosition
    from delta_sidecar.settings import Settings
    from delta_sidecar.storage.store import Store
    from delta_sidecar.values.types import StructType

Predicate: TypeAlias = "str | Filters | pc.Expression"
"""SQL text, tuples, or an expression of pyarrow."""
Bindable: TypeAlias = "Predicate | RowFilters | ParsedExpression | Condition"
"""A predicate in any form, parsed or not."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableAccess:
    """One version of a table: how its files are listed and read. It holds credentials, so it has no `repr`."""

    snapshot: Snapshot
    settings: Settings
    store: Store
    """Holds the table; counts what it is asked."""
    open_store: StoreOpener
    """Opens another store, with the table's options."""
    storage_options: Mapping[str, str] | None
    profile: Mapping[str, str] | None
    has_given_store: bool
    """The store is an object of the user; the options do not lead to it."""

    @property
    def location(self) -> Location:
        """Where the table is."""
        return parse_location(self.store.root_uri)

    def bind(self, predicate: Bindable | None) -> Expression | None:
        """The predicate bound to the schema, for pruning files. Of a pyarrow expression, the parts we understand."""
        if predicate is None:
            return None
        return self._bound(predicate, self.snapshot.schema, self.snapshot.partition_columns)

    def _bound(
        self,
        predicate: Bindable,
        schema: StructType,
        partitions: Sequence[str],
        now: int | None = None,
    ) -> Expression | None:
        """What a predicate says of files or rows of a schema. Text and tuples load nothing that is made for pyarrow's
        expressions."""
        zone, expression = self.settings.partition_timezone, _expression(predicate)
        if expression is not None:
            from delta_sidecar.predicates.arrow_expression import bind_expression

            return bind_expression(expression, schema, partitions, zone)
        from delta_sidecar.predicates.binding import bind_predicate

        return bind_predicate(cast("str | Filters | RowFilters | Condition", predicate), schema, partitions, zone, now)

    def bind_all(self, predicates: Iterable[Bindable | None]) -> Expression | None:
        """What predicates say of files together."""
        return self._bound_all(predicates, self.snapshot.schema, self.snapshot.partition_columns)

    def _bound_all(
        self,
        predicates: Iterable[Bindable | None],
        schema: StructType,
        partitions: Sequence[str],
    ) -> Expression | None:
        given = [predicate for predicate in predicates if predicate is not None]
        if not given:
            return None
        from delta_sidecar.predicates.expression import all_of

        return all_of(self._bound(predicate, schema, partitions) for predicate in given)

    def row_schema(self, file_column: str | None) -> tuple[StructType, tuple[str, ...]]:
        """The columns of rows, and those that are the same for all rows of a file: the partition columns, and the one
        that says which file a row is from, if it has a name."""
        schema, partitions = self.snapshot.schema, tuple(self.snapshot.partition_columns)
        if file_column is None:
            return schema, partitions
        from delta_sidecar.data.file_column import with_file_column

        return with_file_column(schema, file_column), (*partitions, file_column)

    def listing(
        self,
        predicate: Expression | None,
        columns: Sequence[str] | None,
        limit: int | None = None,
        strategy: str | None = None,
        after: ScanPosition | None = None,
    ) -> FileScan:
        """The files that may hold a matching row."""
        from delta_sidecar.scan.file_scan import FileScan

        return FileScan(self.snapshot, self.settings, predicate, columns, limit, strategy, after)

    def file_columns(
        self, columns: Sequence[str] | None, predicate: Expression | None, file_column: str | None = None
    ) -> tuple[str, ...]:
        """What a listing must say of files to read these columns of the matching rows."""
        from delta_sidecar.data.request import file_columns

        return file_columns(*self.row_schema(file_column), columns, predicate)

    def rows(
        self,
        files: Iterator[pa.RecordBatch],
        columns: Sequence[str] | None,
        predicate: Expression | None,
        limit: int | None = None,
        *,
        store: Store | None = None,
        step: ArrowStep | None = None,
        batch_size: int | None = None,
        file_column: str | None = None,
    ) -> RowStream:
        """The rows of files of a listing, read from the table's own store or from another that has them."""
        from delta_sidecar.data.row_scan import read_rows, reading_options

        return read_rows(
            files,
            self.store if store is None else store,
            *self.row_schema(file_column),
            mapping_mode=self.snapshot.mapping_mode,
            columns=columns,
            predicate=predicate,
            limit=limit,
            open_other=self.open_store,
            step=step,
            **reading_options(self.settings, batch_size),
        )

    def matching_rows(
        self,
        predicates: Sequence[Predicate | RowFilters | None],
        columns: Sequence[str] | None,
        limit: int | None = None,
        store: Store | None = None,
        file_column: str | None = None,
    ) -> RowStream:
        """The rows that all predicates are true of."""
        if not self.snapshot.schema.fields:
            raise CorruptLogError(f"{self.location.text} has no schema: you can list its files, but not read rows")
        schema, partitions = self.row_schema(file_column)
        expressions = [_expression(each) for each in predicates]
        conditions = [parsed or given for parsed, given in zip(expressions, predicates)]
        bound = self._bound_all(conditions, schema, partitions)
        step = self._step([each for each in expressions if each is not None], columns, schema)
        names = columns if step is None else step.names
        listed = self.listing(_of_files(bound, file_column), self.file_columns(names, bound, file_column))
        return self.rows(iter(listed), names, bound, limit, store=store, step=step, file_column=file_column)

    def changes(
        self, start: int, end: int | None, columns: Sequence[str] | None, predicate: Predicate | Condition | None
    ) -> RowStream:
        """The rows that versions `start` … `end` changed."""
        from delta_sidecar.log.change_range import change_range

        limits = self.settings.commit_limits
        return self._changes_of(change_range(self.snapshot, start, end, limits), columns, predicate)

    def no_changes(self, columns: Sequence[str] | None, predicate: Predicate | None) -> RowStream:
        """A stream without rows, with the schema of changes."""
        from delta_sidecar.log.change_range import empty_range

        return self._changes_of(empty_range(self.snapshot), columns, predicate)

    def _changes_of(
        self, changes: ChangeRange, columns: Sequence[str] | None, predicate: Predicate | Condition | None
    ) -> RowStream:
        from delta_sidecar.data.changes import CHANGE_BUFFER, change_schema, read_changes

        expression = _expression(predicate)
        condition = expression or predicate
        partitions, now = changes.end.metadata.partitionColumns, time.time_ns() // 1000

        def bind(schema: StructType) -> Expression | None:
            return None if condition is None else self._bound(condition, schema, partitions, now)

        parsed = [] if expression is None else [expression]
        step = self._step(parsed, columns, change_schema(changes.end))
        names = columns if step is None else step.names
        sources = self.sources(column_buffer=CHANGE_BUFFER)
        return read_changes(changes, sources, self.settings, columns=names, bind=bind, step=step)

    def _step(
        self, expressions: Sequence[ParsedExpression], columns: Sequence[str] | None, schema: StructType
    ) -> ArrowStep | None:
        """What is left to do with the rows: pyarrow expressions are applied as a whole. None if there are none."""
        if not expressions:
            return None
        from delta_sidecar.data.arrow_step import arrow_step
        from delta_sidecar.data.file_column import with_file_type
        from delta_sidecar.predicates.arrow_expression import readable
        from delta_sidecar.predicates.arrow_tree import ParsedExpression

        whole = expressions[0]
        if len(expressions) > 1:
            whole = ParsedExpression(reduce(and_, (each.expression for each in expressions)))
        names = schema.names if columns is None else schema.select(columns).names
        return arrow_step(with_file_type(readable(schema), schema), names, whole)

    def sources(self, column_buffer: int | None = None) -> Sources:
        """The stores that the table's files lie in; see there for the buffer."""
        from delta_sidecar.data.file_bytes import Sources

        return Sources(self.store, self.open_store, self.settings.limits.small_file, column_buffer)

    def store_on(self, filesystem: object) -> Store | None:
        """The table's files in a file system of the user; None without one."""
        if filesystem is None:
            return None
        from delta_sidecar.data.filesystem_store import FilesystemStore, checked_filesystem

        return FilesystemStore(checked_filesystem(filesystem), self.store.root_uri)


def _expression(predicate: Bindable | None) -> ParsedExpression | None:
    """The expression of pyarrow that a predicate is; None if it is another form, which needs nothing of pyarrow's."""
    if predicate is None or isinstance(predicate, (str, list, tuple)):
        return None
    from delta_sidecar.predicates.arrow_tree import ParsedExpression, is_arrow_expression

    if is_arrow_expression(predicate):
        return ParsedExpression(predicate)
    return predicate if isinstance(predicate, ParsedExpression) else None


def _of_files(predicate: Expression | None, file_column: str | None) -> Expression | None:
    """What a predicate on rows says of a listing."""
    if file_column is None:
        return predicate
    from delta_sidecar.data.file_column import without_file_column

    return without_file_column(predicate)
