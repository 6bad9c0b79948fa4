"""Rows out of splits that IndexTables wrote: stored documents, and ranges of whole numbers.

A split is a bundle: the files of a tantivy index one after the other, then a list of them, then a cache for its own
reader. The list is found from the end. Its dictionaries have a format (SSTable) that our engine does not read, so terms
cannot be looked up in it; documents and numeric ranges do not need them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import (
    CorruptDataError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
    needs_extra,
)
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.expression import Compare, Expression, columns_of, conjuncts
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.log.split_pruning import NULL_PARTITION
from delta_sidecar.search.splits.file import read_split_list, unpack_split
from delta_sidecar.search.table import SearchTable
from delta_sidecar.storage.store import Store
from delta_sidecar.values.comparison import INTEGERS
from delta_sidecar.values.partition_values import partition_column
from delta_sidecar.values.types import PrimitiveType, StructField, arrow_type

if TYPE_CHECKING:
    from delta_sidecar.predicates.predicate_tuples import Filters

BATCH_ROWS: Final = 4096
"""Documents that are Python values at a time."""
_SSTABLE: Final = "SSTable"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WIDTHS: Final[dict[str, Any]] = {
    "byte": np.int8,
    "short": np.int16,
    "integer": np.int32,
    "long": np.int64,
    "float": np.float32,
    "double": np.float64,
}


def their_rows(
    table: SearchTable, where: str | Filters | None = None, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a table of IndexTables, in batches, from each split that may hold a matching one.

    Args:
        table: The table.
        where: A predicate as of `SearchTable.splits`; only rows for which it is true come.
        columns: Names of columns; all if not given.

    Raises:
        PredicateError: The predicate cannot be parsed, or does not fit the schema.
        UnknownColumnError: There is no such column.
        UnsupportedTypeError: A column has a type that is not read out of splits, or is not stored in them.
        CorruptDataError: A split is broken or missing.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import SearchTable, create_table, their_rows
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> list(their_rows(SearchTable("logs")))
        []
    """
    schema = table.schema()
    predicate = bind_predicate(where, schema, table.partition_columns)
    wanted = [schema.resolve([name])[0] for name in (schema.names if columns is None else columns)]
    needed = {field.name: field for field in wanted}
    for column in () if predicate is None else columns_of(predicate):
        needed.setdefault(column.fields[0].name, column.fields[0])
    for split in table.splits(where):
        with open_split(table.store, table.split_path(split), split) as opened:
            for rows in opened.rows(list(needed.values()), table.partition_columns, split, predicate):
                if rows.num_rows:
                    yield rows.select([field.name for field in wanted])


@dataclass(frozen=True)
class OpenSplit:
    """A split whose files are unpacked."""

    path: str
    index: Any
    searcher: Any
    fields: Mapping[str, Mapping[str, Any]]
    """The fields of the index, by name: type and options."""

    def rows(
        self,
        columns: Sequence[StructField],
        partitions: Sequence[str],
        split: Split,
        predicate: Expression | None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the documents for which the predicate is true; reads `batch_rows` documents at a time."""
        from delta_sidecar.predicates.evaluation import matching

        for documents in self._documents(predicate, batch_rows):
            filled = [
                partition_array(split, column, len(documents))
                if column.name in partitions
                else self._column(documents, column)
                for column in columns
            ]
            batch = pa.RecordBatch.from_arrays(filled, names=[column.name for column in columns])
            yield batch if predicate is None else batch.filter(matching(predicate, batch))

    def _documents(self, predicate: Expression | None, batch_rows: int) -> Iterator[list[dict[str, list[Any]]]]:
        import tantivy

        if not self.searcher.num_docs:
            return
        query = self._range(predicate) or tantivy.Query.all_query()
        hits = self.search(query, self.searcher.num_docs)
        ordered = sorted((address for _, address in hits), key=lambda a: (a.segment_ord, a.doc))
        for first in range(0, len(ordered), batch_rows):
            yield [self.searcher.doc(address).to_dict() for address in ordered[first : first + batch_rows]]

    def _range(self, predicate: Expression | None) -> Any | None:
        """What the engine can leave out by itself: a range of a column of whole numbers. The predicate decides."""
        import tantivy

        for term in () if predicate is None else conjuncts(predicate):
            if not isinstance(term, Compare) or isinstance(term.value, bool) or not isinstance(term.value, int):
                continue
            column = term.column
            is_whole = isinstance(column.type, PrimitiveType) and column.type.name in INTEGERS
            if column.is_partition or not is_whole or self.fields.get(str(column.path[0]), {}).get("type") != "i64":
                continue
            low, high = _interval(term)
            if low is not None or high is not None:
                whole = tantivy.FieldType.Integer
                return tantivy.Query.range_query(self.index.schema, column.path[0], whole, low, high)
        return None

    def search(self, query: Any, limit: int) -> list[tuple[Any, Any]]:
        """Hits of a query of the engine; what needs the dictionaries is refused."""
        try:
            return list(self.searcher.search(query, limit=limit, count=False).hits)
        except ValueError as error:
            if _SSTABLE in str(error):
                raise UnsupportedFeatureError(
                    f"text search in {self.path} is not supported: its dictionary format is SSTable, and the engine "
                    "reads FST; build the splits again to search them"
                ) from None
            raise CorruptDataError(f"{self.path} cannot be searched ({error}); build the split again") from None

    def _column(self, documents: Sequence[Mapping[str, list[Any]]], column: StructField) -> pa.Array:
        field = self.fields.get(column.name)
        if field is not None and not (field.get("options") or {}).get("stored"):
            raise UnsupportedTypeError(f"the column {column.name} is not stored in {self.path}; leave it out")
        values = []
        for document in documents:
            found = document.get(column.name) or [None]
            if len(found) > 1:
                raise UnsupportedTypeError(f"the column {column.name} has several values in a row of {self.path}")
            values.append(found[0])
        try:
            return _array(values, column)
        except (TypeError, ValueError, OverflowError) as error:
            raise CorruptDataError(f"{self.path}: {column.name} does not hold {column.type} ({error})") from None


def _interval(term: Compare) -> tuple[int | None, int | None]:
    """The whole numbers that a comparison leaves, both ends included."""
    value = term.value
    assert isinstance(value, int)
    least, most = -(2**63), 2**63 - 1
    low = {"=": value, ">=": value, ">": min(value + 1, most)}.get(term.op)
    high = {"=": value, "<=": value, "<": max(value - 1, least)}.get(term.op)
    if low is None and high is None:
        return None, None
    return least if low is None else low, most if high is None else high


def _array(values: Sequence[Any], column: StructField) -> pa.Array:
    name = column.type.name if isinstance(column.type, PrimitiveType) else str(column.type)
    if name == "string":
        return arrays.strings(values)
    if name in _WIDTHS:
        return arrays.primitives(values, arrow_type(column.type), _WIDTHS[name])
    if name == "boolean":
        return arrays.primitives([None if v is None else int(bool(v)) for v in values], pa.int8(), np.int8).cast(
            pa.bool_()
        )
    if name in ("timestamp", "timestamp_ntz"):
        return arrays.int64s([_micros(value) for value in values]).view(arrow_type(column.type))
    if name == "date":
        return arrays.int32s([_days(value) for value in values]).view(pa.date32())
    raise UnsupportedTypeError(f"the column {column.name} is {column.type}, which splits do not give; leave it out")


def _micros(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is not a time")
    return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)


def _days(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, date):
        raise TypeError(f"{type(value).__name__} is not a date")
    return (date(value.year, value.month, value.day) - _EPOCH.date()).days


def partition_array(split: Split, column: StructField, count: int) -> pa.Array:
    """The value of a partition column, for each row of a split."""
    text = split.partitionValues.get(column.name)
    maps = [{column.name: None if text == NULL_PARTITION else text}] * count
    batch = arrays.record_batch({"partition_values": maps}, FILE_SCHEMA)
    found = partition_column(batch.column(0), column)
    if count and not found.known[0].as_py():
        raise CorruptDataError(f"{split.path}: the partition value {text!r} is no {column.type}")
    return found.values


@contextmanager
def open_split(store: Store, path: str, split: Split | None = None) -> Iterator[OpenSplit]:
    """Unpack a split into a temporary directory and open it there: the engine reads nothing but files."""
    try:
        import tantivy
    except ImportError:
        raise needs_extra("reading splits", "tantivy", "search") from None
    listed = read_split_list(store, path, split)
    with _unpacked() as folder:
        unpack_split(store, listed, Path(folder))
        try:
            meta = msgspec.json.decode((Path(folder) / "meta.json").read_bytes())
            fields = {field["name"]: field for field in meta["schema"]}
            index = tantivy.Index.open(folder)
            searcher = index.searcher()
        except (ValueError, OSError, KeyError, TypeError) as error:
            raise CorruptDataError(f"{path} is not a split that can be opened ({error}); build it again") from None
        yield OpenSplit(path, index, searcher, fields)


@contextmanager
def _unpacked() -> Iterator[str]:
    """A temporary directory. The engine watches the files it has opened, and may make a lock file among them while
    they are deleted."""
    folder = tempfile.mkdtemp(prefix="split-")
    try:
        yield folder
    finally:
        for pause in (0.0, 0.01, 0.1, 1.0):
            time.sleep(pause)
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
