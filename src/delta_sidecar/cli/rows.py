"""`sidecar read` and `sidecar changes`: rows as JSON lines or as a table.

JSON has few types. So decimals are strings (exact in every parser), timestamps are ISO 8601 with `Z` (without it, if
they have no zone), dates are ISO, binary is base64, and NaN and the infinities are the strings `NaN`, `Infinity`,
`-Infinity`. Structs, and maps with string keys, are objects; other maps are lists of `{"key": …, "value": …}`.
Integers are exact, whatever their size.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.types as pat

from delta_sidecar.cli.output import cut, write_table
from delta_sidecar.cli.reports import log_rows
from delta_sidecar.cli.sinks import Sink, write_result
from delta_sidecar.table import DeltaTable

_JSON_BATCH = 10_000


def print_rows(
    table: DeltaTable, where: str | None, limit: int | None, columns: Sequence[str] | None, sink: Sink
) -> None:
    """Print or write the rows while they are being read."""
    with table.to_batches(columns, where, limit) as rows:
        write_rows(rows.schema, rows, sink)
        log_rows(rows)


def print_changes(
    table: DeltaTable,
    start: int | str,
    end: int | None,
    where: str | None,
    columns: Sequence[str] | None,
    sink: Sink,
) -> None:
    """Print or write the changed rows while they are being read."""
    with table.changes(start, end, columns, where) as rows:
        write_rows(rows.schema, rows, sink)
        log_rows(rows)


def write_rows(schema: pa.Schema, rows: Iterator[pa.RecordBatch], sink: Sink) -> None:
    """Print or write rows as they come; all of them are written when it returns."""
    if sink.format is None:
        numbers = [f.name for f in schema if _is_number(f.type)]
        write_table(schema.names, _cells(rows), numbers)
    else:
        write_result(sink, "row", schema, rows, (_objects(batch) for batch in _small(rows)))
    sys.stdout.flush()


def _small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, _JSON_BATCH):
            yield batch.slice(start, _JSON_BATCH)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind))


def _objects(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    names = batch.schema.names
    return [dict(zip(names, row)) for row in zip(*map(json_values, batch.columns))]


def _cells(rows: Iterator[pa.RecordBatch]) -> Iterator[list[str]]:
    for batch in _small(rows):
        for row in zip(*map(json_values, batch.columns)):
            yield [_cell(value) for value in row]


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return cut(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def json_values(array: pa.Array) -> list[Any]:
    """The values of a column, as JSON can hold them."""
    convert = next((made for fits, made in _CONVERTERS if fits(array.type)), None)
    return convert(array) if convert is not None else array.to_pylist()


def _structs(array: pa.StructArray) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    columns = [json_values(child) for child in array.flatten()]
    rows = zip(*columns) if columns else (() for _ in range(len(array)))
    return _with_nulls(array, [dict(zip(names, row)) for row in rows])


def _lists(array: pa.ListArray) -> list[Any]:
    offsets = array.offsets.to_pylist()
    values = json_values(array.values[offsets[0] : offsets[-1]])
    spans = [(start - offsets[0], stop - offsets[0]) for start, stop in pairwise(offsets)]
    return _with_nulls(array, [values[start:stop] for start, stop in spans])


def _maps(array: pa.MapArray) -> list[Any]:
    offsets = array.offsets.to_pylist()
    whole = slice(offsets[0], offsets[-1])
    entries = list(zip(json_values(array.keys[whole]), json_values(array.items[whole])))
    make = dict if pat.is_string(array.type.key_type) else _entry_list
    spans = [(start - offsets[0], stop - offsets[0]) for start, stop in pairwise(offsets)]
    return _with_nulls(array, [make(entries[start:stop]) for start, stop in spans])


def _entry_list(entries: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in entries]


def _with_nulls(array: pa.Array, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist())]


def _floats(array: pa.Array) -> list[Any]:
    return [value if value is None or value - value == 0 else _not_finite(value) for value in array.to_pylist()]


def _not_finite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _timestamps(array: pa.TimestampArray) -> list[str | None]:
    """As text by Arrow, which knows years that Python does not; a zone is always UTC here."""
    zone = "" if array.type.tz is None else "Z"
    texts = array.view(pa.timestamp(array.type.unit)).cast(pa.string()).to_pylist()
    return [None if text is None else text.replace(" ", "T", 1).removesuffix(".000000") + zone for text in texts]


def _dates(array: pa.Array) -> list[str | None]:
    return array.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


def _decimals(array: pa.Array) -> list[str | None]:
    return [None if value is None else f"{value:f}" for value in array.to_pylist()]


def _binaries(array: pa.Array) -> list[str | None]:
    return [None if value is None else b64encode(value).decode("ascii") for value in array.to_pylist()]


_CONVERTERS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], list[Any]]]] = [
    (pat.is_floating, _floats),
    (pat.is_timestamp, _timestamps),
    (pat.is_date, _dates),
    (pat.is_decimal, _decimals),
    (lambda kind: bool(pat.is_binary(kind) or pat.is_large_binary(kind)), _binaries),
    (pat.is_struct, _structs),
    (pat.is_map, _maps),
    (pat.is_list, _lists),
]
