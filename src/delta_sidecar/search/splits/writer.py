"""Make a split: rows go into an index of the engine, the index into one file, the file beside the log.

One writer thread, and a budget for what it holds before it writes a segment. Nothing here commits: a split counts only
when a version of the log adds it.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec
import pyarrow as pa

from delta_sidecar.arrays import pc
from delta_sidecar.errors import InputError, UnknownColumnError, UnsupportedTypeError
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.splits.analyzers import MOST_RAW_BYTES
from delta_sidecar.search.splits.column_types import holds, plain_rows
from delta_sidecar.search.splits.fields import (
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    KEYWORD,
    PATH_FIELD,
    ROW_FIELD,
    STORED,
    TEXT,
    TIME,
    SplitField,
    SplitFields,
    engine,
)
from delta_sidecar.search.splits.file import SUFFIX, SplitFooter, write_split_file
from delta_sidecar.search.table import present_ms
from delta_sidecar.storage.store import Store, TakesFiles, mapped
from delta_sidecar.values.arrow_types import table_schema
from delta_sidecar.values.types import UnknownType, parse_type

HEAP: Final = 40_000_000
"""Bytes of postings that the engine holds before it writes a segment. Its least is 15,000,000."""
_ROWS: Final = 4096
"""Rows that are Python values at a time."""
_LONG_TEXT: Final = 32
"""A text bound is cut to this many characters, and is then only a lower bound."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SplitWriter:
    """Makes one split of the rows it is given.

    Args:
        fields: Which columns are indexed, and how.
        heap: Bytes that the engine holds before it writes a segment.
        folder: Where the files of the index go while it grows; a temporary directory if not given.

    Raises:
        InputError: The extra `search` is not installed.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SplitFields, SplitWriter
        >>> from delta_sidecar.storage import open_store
        >>> rows = pa.table({"id": [7, 8], "body": ["disk full", "disk replaced"]})
        >>> with SplitWriter(SplitFields.choose(rows.schema, text=["body"], key=["id"])) as writer:
        ...     writer.add(rows)
        ...     split = writer.finish(open_store("logs"))
        >>> split.numRecords, split.minValues, split.maxValues
        (2, {'id': '7'}, {'id': '8'})
    """

    def __init__(self, fields: SplitFields, *, heap: int = HEAP, folder: Path | str | None = None) -> None:
        self._fields = fields
        self._tantivy = engine()
        self._folder = Path(tempfile.mkdtemp(prefix="split-", dir=folder))
        try:
            (self._folder / "index").mkdir()
            self._schema = fields.engine_schema()
            index = self._tantivy.Index(self._schema, str(self._folder / "index"), reuse=False)
            fields.register(index)
            self._writer = index.writer(heap, 1)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._rows = 0
        self._bytes = 0
        self._bounds = {field.name: _Bounds(field) for field in fields.fields if field.kind in _BOUND}

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def bytes(self) -> int:
        """Bytes of the indexed values, as Arrow has them."""
        return self._bytes

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(
        self, rows: pa.RecordBatch | pa.Table, *, path_key: int | None = None, row_numbers: Sequence[int] | None = None
    ) -> None:
        """Index rows.

        Args:
            rows: Rows with the columns of the fields; others are ignored.
            path_key: Of a companion: the key of the file that the rows are in.
            row_numbers: Of a companion: the numbers of the rows there.

        Raises:
            UnknownColumnError: A column is missing.
            InputError: A value does not fit the type of its column.
        """
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        at = 0
        for batch in map(plain_rows, batches):
            for first in range(0, batch.num_rows, _ROWS):
                part = batch.slice(first, _ROWS)
                places = None
                if row_numbers is not None and path_key is not None:
                    places = (path_key, row_numbers[at : at + part.num_rows])
                self._add(part, places)
                at += part.num_rows

    def _add(self, batch: pa.RecordBatch, places: tuple[int, Sequence[int]] | None) -> None:
        columns: list[tuple[str, list[Any]]] = []
        for field in self._fields.fields:
            column = _column(batch, field)
            if field.name in self._bounds:
                self._bounds[field.name].see(column)
            columns.append((field.engine_name, _CONVERT[field.kind](column)))
            self._bytes += column.nbytes
        if places is not None:
            columns += [(PATH_FIELD, [places[0]] * batch.num_rows), (ROW_FIELD, list(places[1]))]
        names = [name for name, _ in columns]
        make, add, schema = self._tantivy.Document.from_dict, self._writer.add_document, self._schema
        for row in zip(*(values for _, values in columns), strict=True):
            add(make({name: value for name, value in zip(names, row) if value is not None}, schema))
        self._rows += batch.num_rows

    def finish(self, store: Store, partition_values: Mapping[str, str | None] | None = None) -> Split:
        """Write the split beside the log, under a name that no other has.

        Args:
            store: The store of the table.
            partition_values: The values of the partition columns, as the log has them.

        Returns:
            The `add` action of the split, to be committed.

        Raises:
            StorageError: The store cannot be reached.
        """
        self._writer.commit()
        self._writer.wait_merging_threads()
        stats = self._stats()
        return stored_split(store, self._folder / "index", self._folder / "split", partition_values or {}, stats)

    def _stats(self) -> dict[str, Any]:
        bounds = list(self._bounds.items())
        lows = {name: bound.low_text for name, bound in bounds if bound.low_text is not None}
        highs = {name: bound.high_text for name, bound in bounds if bound.high_text is not None}
        nulls = {name: bound.nulls for name, bound in bounds}
        moment = self._bounds.get(self._fields.time or "")
        return {
            "numRecords": self._rows,
            "minValues": lows,
            "maxValues": highs,
            "stats": msgspec.json.encode({"numRecords": self._rows, "nullCount": nulls}).decode(),
            "timeRangeStart": moment and moment.low_text,
            "timeRangeEnd": moment and moment.high_text,
            "uncompressedSizeBytes": self._bytes,
            "docMappingJson": self._fields.to_json(),
            "numMergeOps": 0,
        }

    def close(self) -> None:
        """Delete the files that the writer made on this machine. What `finish` wrote stays."""
        del self._writer
        self._writer = None
        remove_folder(self._folder)


def stored_split(
    store: Store, index: Path, target: Path, partition_values: Mapping[str, str | None], more: Mapping[str, Any]
) -> Split:
    """Write a finished index as a split of a table, and say what is to be committed.

    Args:
        store: The store of the table.
        index: The directory of the index.
        target: A file beside it for the split, before it goes to the table.
        partition_values: The values of the partition columns.
        more: Further fields of the `add` action.
    """
    footer = write_split_file(index, target)
    path = f"{_directory(partition_values)}part-{uuid.uuid4()}{SUFFIX}"
    _put(store, path, target)
    return Split(
        path=path,
        partitionValues=dict(partition_values),
        size=footer.end,
        modificationTime=present_ms(),
        **_offsets(footer),
        **more,
    )


def _offsets(footer: SplitFooter) -> dict[str, Any]:
    """Our splits have no cache for their reader: it begins where it ends, before its own length."""
    return {
        "footerStartOffset": footer.start,
        "footerEndOffset": footer.end,
        "hotcacheStartOffset": footer.end - 4,
        "hotcacheLength": 0,
        "hasFooterOffsets": True,
    }


def _put(store: Store, path: str, file: Path) -> None:
    if isinstance(store, TakesFiles):
        store.put_file(path, file)
        return
    with mapped(file) as data:
        store.put_if_absent(path, data)


def _directory(partition_values: Mapping[str, str | None]) -> str:
    """A directory for each combination of partition values. The log says the values; the names are for people."""
    return "".join(f"{_name(column)}={_name(value)}/" for column, value in partition_values.items())


def _name(text: str | None) -> str:
    if text is None or text == "":
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(c if (c.isalnum() and c.isascii()) or c in "-_.: " else "_" for c in text[:100]).strip(" .") or "_"


def remove_folder(folder: Path) -> None:
    """Delete a directory of the engine, which may still make a lock file in it."""
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


# Values.


def _column(batch: pa.RecordBatch, field: SplitField) -> pa.Array:
    """The column of a field, in the one Arrow type of its kind. A type of which a value could change is refused."""
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        raise UnknownColumnError(f"the rows have no column {field.name!r}; they have {', '.join(batch.schema.names)}")
    column = batch.column(index)
    known = parse_type(field.type)
    try:
        given = table_schema(pa.schema([batch.schema.field(index)])).fields[0].type
        if not isinstance(known, UnknownType) and not holds(known, given):
            raise TypeError(f"a {given} need not be a {field.type}; cast the column")
        if field.kind == TIME and not pa.types.is_null(column.type):
            return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
        column = column.cast(_ARROW[field.kind]) if field.kind in _ARROW else column
    except (pa.ArrowException, TypeError, UnsupportedTypeError) as error:
        raise InputError(
            f"a value of the column {field.name} ({column.type}) cannot be indexed as {field.type}: {error}"
        ) from None
    if field.kind == KEYWORD:
        _refuse_long(column, field)
    return column


def _refuse_long(column: pa.Array, field: SplitField) -> None:
    """The engine leaves out longer values, so that no lookup, pattern or count of values would be right."""
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > MOST_RAW_BYTES:
        raise InputError(
            f"a value of the column {field.name} has {longest:,} bytes; values that are looked up as a whole have at "
            f"most {MOST_RAW_BYTES:,}: index the column as a text, or store it only"
        )


_ARROW: Final[dict[str, pa.DataType]] = {
    TEXT: pa.string(),
    KEYWORD: pa.string(),
    INTEGER: pa.int64(),
    FLOAT: pa.float64(),
    BOOLEAN: pa.bool_(),
    DATE: pa.date32(),
}


def _plain(column: pa.Array) -> list[Any]:
    return list(column.to_pylist())


def _wholes(*steps: pa.DataType) -> Callable[[pa.Array], list[Any]]:
    """Times and days as the numbers they are."""

    def numbers(column: pa.Array) -> list[Any]:
        for step in steps:
            column = column.cast(step)
        return list(column.to_pylist())

    return numbers


def _floats(column: pa.Array) -> list[Any]:
    """NaN in one form: beyond infinity in the engine's order, so no range of numbers has it."""
    return [math.nan if value is not None and math.isnan(value) else value for value in column.to_pylist()]


def _json(column: pa.Array) -> list[Any]:
    encode = msgspec.json.Encoder(enc_hook=str).encode
    values = column.to_pylist()
    if _has_floats(column.type):
        values = [_spelled(value) for value in values]
    return [None if value is None else encode(value) for value in values]


def _has_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_has_floats(kind.field(at).type) for at in range(kind.num_fields))


def _spelled(value: Any) -> Any:
    """Floats that JSON does not have, as texts."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {name: _spelled(one) for name, one in value.items()}
        case list():
            return [_spelled(one) for one in value]
        case tuple():
            return tuple(_spelled(one) for one in value)
    return value


_CONVERT: Final[dict[str, Callable[[pa.Array], list[Any]]]] = {
    TEXT: _plain,
    KEYWORD: _plain,
    INTEGER: _plain,
    FLOAT: _floats,
    BOOLEAN: _plain,
    TIME: _wholes(pa.int64()),
    DATE: _wholes(pa.int32()),
    STORED: _json,
}

_BOUND: Final = frozenset({KEYWORD, INTEGER, FLOAT, TIME, DATE})


class _Bounds:
    """The least and the greatest value of a column, and how many are missing."""

    def __init__(self, field: SplitField) -> None:
        self._field = field
        self._low: Any = None
        self._high: Any = None
        self._has_nan = False
        self.nulls = 0

    def see(self, column: pa.Array) -> None:
        self.nulls += column.null_count
        if column.null_count == len(column):
            return
        if self._field.kind == FLOAT and not self._has_nan:
            self._has_nan = bool(pc.any(pc.is_nan(column)).as_py())
        if self._field.kind == TIME:
            column = column.cast(pa.int64())
        found = pc.min_max(column)
        low, high = found["min"].as_py(), found["max"].as_py()
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    @property
    def low_text(self) -> str | None:
        if self._low is None or self._has_nan:
            return None
        if self._field.kind == KEYWORD:
            # A text is never less than its beginning.
            return str(self._low)[: _LONG_TEXT - 1]
        return self._text(self._low)

    @property
    def high_text(self) -> str | None:
        if self._high is None or self._has_nan:
            return None
        if self._field.kind == KEYWORD:
            return self._high if len(self._high) < _LONG_TEXT else None
        return self._text(self._high)

    def _text(self, value: Any) -> str | None:
        if self._field.kind == TIME:
            return _moment(value, is_instant=self._field.type == "timestamp")
        if self._field.kind == DATE:
            return str(value.isoformat())
        return repr(value)


def _moment(micros: int, is_instant: bool) -> str | None:
    """None for years that a text does not have."""
    try:
        text = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(timespec="microseconds")
    except OverflowError:
        return None
    return f"{text}Z" if is_instant else text
