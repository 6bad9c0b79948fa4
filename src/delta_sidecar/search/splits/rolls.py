"""Rows in, splits out: one after the other as each is full, and for each partition its own.

Used by a process that builds alone and by every task of a build on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import InputError, UnsupportedTypeError
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.splits.column_types import plain_rows
from delta_sidecar.search.splits.fields import SplitFields
from delta_sidecar.search.splits.writer import HEAP, SplitWriter
from delta_sidecar.storage.store import Store

ROWS: Final = 1_000_000
"""Rows of a split, at most."""
_MOST_OPEN: Final = 4
"""Partitions that are written at once. Each holds postings; with more, the fullest is finished."""
_LEAST_HEAP: Final = 15_000_000

Partition = tuple[str | None, ...]


class SplitRolls:
    """Writes rows into splits of a table, without committing them.

    Args:
        store: The store of the table.
        fields: Which columns are indexed, and how.
        partition_columns: Columns whose value is one for each split.
        rows: Rows of a split, at most.
        heap: Bytes that the engine holds before it writes a segment, of all open splits together.
        folder: Where the files of unfinished splits go; a temporary directory if not given.
    """

    def __init__(
        self,
        store: Store,
        fields: SplitFields,
        partition_columns: Sequence[str] = (),
        *,
        rows: int = ROWS,
        heap: int = HEAP,
        folder: Path | str | None = None,
    ) -> None:
        self._store = store
        self._fields = fields
        self._columns = list(partition_columns)
        self._rows = rows
        self._heap = heap if not partition_columns else max(_LEAST_HEAP, heap // _MOST_OPEN)
        self._folder = folder
        self._open: dict[Partition, SplitWriter] = {}
        self._made: list[Split] = []

    def __enter__(self) -> SplitRolls:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Index rows.

        Raises:
            UnknownColumnError: A column is missing.
            InputError: A value does not fit the type of its column.
            StorageError: The store cannot be reached.
        """
        for partition, rows in _partitioned(plain_rows(batch), self._columns):
            at = 0
            while at < rows.num_rows:
                writer = self._writer(partition)
                part = rows.slice(at, self._rows - writer.rows)
                writer.add(part)
                at += part.num_rows
                if writer.rows >= self._rows:
                    self._finish(partition)

    def _writer(self, partition: Partition) -> SplitWriter:
        found = self._open.get(partition)
        if found is None:
            if len(self._open) >= _MOST_OPEN:
                self._finish(max(self._open, key=lambda key: self._open[key].rows))
            found = self._open[partition] = SplitWriter(self._fields, heap=self._heap, folder=self._folder)
        return found

    def _finish(self, partition: Partition) -> None:
        with self._open.pop(partition) as writer:
            self._made.append(writer.finish(self._store, dict(zip(self._columns, partition, strict=True))))

    def finish(self) -> list[Split]:
        """All splits that were written, to be committed."""
        for partition in list(self._open):
            self._finish(partition)
        return self._made


def _partitioned(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows of each partition, in their order."""
    if not batch.num_rows:
        return
    if not columns:
        yield (), batch
        return
    codes = np.zeros(batch.num_rows, np.int64)
    texts: list[list[str | None]] = []
    for name in columns:
        encoded = arrays.pc.dictionary_encode(_texts(batch, name), null_encoding="encode")
        values = encoded.dictionary.to_pylist()
        if "" in values:
            raise InputError(
                f"the partition column {name} has an empty text, which the log cannot tell from no value; "
                "give such rows another value, or none"
            )
        numbers = np.frombuffer(encoded.indices.buffers()[1], np.int32)[encoded.indices.offset :][: batch.num_rows]
        codes = codes * len(values) + numbers
        texts.append(values)
    for code in np.unique(codes).tolist():
        chosen = codes == code
        partition: list[str | None] = []
        for values in reversed(texts):
            partition.append(values[code % len(values)])
            code //= len(values)
        yield tuple(reversed(partition)), batch if chosen.all() else arrays.filtered(batch, chosen)


def _texts(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Partition values as the log has them."""
    column = batch.column(name) if name in batch.schema.names else None
    if column is None:
        raise InputError(f"the rows have no partition column {name!r}; they have {', '.join(batch.schema.names)}")
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    check_partition_type(name, column.type)
    return column.cast(pa.string())


def check_partition_type(name: str, kind: pa.DataType) -> None:
    """Refuse a type of partition columns whose texts are not the same everywhere."""
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    if not (is_text or types.is_integer(kind) or types.is_boolean(kind) or types.is_date32(kind)):
        raise UnsupportedTypeError(
            f"the partition column {name} is {kind}; it can be a string, a whole number, a boolean or a date"
        )
