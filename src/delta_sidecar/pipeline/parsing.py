"""Lines of text as typed rows, in tasks: what `records` makes of them, as the columns of a frame.

Lines may come with a `__reason` why they are not records; these are not parsed.

Beside the contract's columns a row has `__left`, JSON text of what has no place in them; `__reason`, `__origin` and
`__raw` where it is a record that does not parse; and `__problems` where it shows something about the batch that its
task has not seen before.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar.pipeline.contract import (
    CORRUPT,
    LEFT,
    ORIGIN,
    PROBLEMS,
    RAW,
    REASON,
    Contract,
    arrow_schema,
    check_reserved,
    spark_type,
)
from delta_sidecar.pipeline.kafka import is_kafka
from delta_sidecar.pipeline.records.csv_records import (
    CsvInference,
    CsvParser,
    Dialect,
    header_line,
    header_names,
    header_of,
)
from delta_sidecar.pipeline.records.inference import merged_structs, settled
from delta_sidecar.pipeline.records.json_records import JsonInference, JsonParser
from delta_sidecar.pipeline.records.terms import BadRecord, Parsed, Problem, Terms
from delta_sidecar.pipeline.shipping import ship
from delta_sidecar.pipeline.sources import Format, Lines
from delta_sidecar.values.column_names import folded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

TextFormat: TypeAlias = Literal["json", "csv"]

_NOTES: Final = pa.schema(
    [(LEFT, pa.string()), (REASON, pa.string()), (ORIGIN, pa.string()), (RAW, pa.binary()), (PROBLEMS, pa.string())]
)


@dataclass(frozen=True, slots=True)
class Order:
    """How tasks parse. It travels with them."""

    format: TextFormat
    terms: Terms
    encoding: str
    dialect: Dialect
    headers: Mapping[str, str]
    """First lines of files that are divided among tasks."""
    names: Sequence[str] | None
    """Columns of CSV files without a header, where they are given."""
    extras: tuple[str, ...]
    rescue: bool = False
    permissive: bool = False
    strict: bool = False
    """Whether a record that the survey did not see is an error: nothing may be left out while writing."""
    allow_bad: bool = False
    keep_raw: bool = False
    """Whether every row comes with its text and place."""
    each: bool = False
    """Whether every line must hold a record, because it is a message."""


def order_of(
    lines: Lines,
    contract: Contract,
    names: Sequence[str] | None,
    time_column: str | None = None,
    bucket_column: str | None = None,
) -> Order:
    """The order for a contract. The time column is taken as text; so is the bucket, which Delta computes again."""
    source = lines.source
    check_reserved((field.name for field in contract.schema.fields), lines.label)
    columns = arrow_schema(contract.schema)
    if bucket_column is not None:
        columns = columns.append(pa.field(bucket_column, pa.string()))
    columns = pa.schema([c for c in columns if folded(c.name) not in set(map(folded, lines.extras))])
    at = next((i for i, name in enumerate(columns.names) if folded(name) == folded(time_column or "")), None)
    if at is not None:
        columns = columns.set(at, pa.field(columns.names[at], pa.string()))
    return Order(
        _text_format(source.format),
        Terms(columns, None if at is None else columns.names[at]),
        source.encoding,
        source.dialect,
        lines.headers,
        names,
        lines.extras,
        contract.rescue,
        source.is_permissive,
        each=is_kafka(source.uri),
    )


def _text_format(given: Format) -> TextFormat:
    if given == "json" or given == "csv":
        return given
    raise ValueError(f"{given} is not a format of text")


def parsed(lines: Lines, order: Order) -> DataFrame:
    """The rows of the lines."""
    from pyspark.sql.types import StructField, StructType

    ship(lines.frame.sparkSession)
    extras = [lines.frame.schema[name] for name in lines.extras]
    made = [StructField(c.name, spark_type(c.type)) for c in [*order.terms.columns]]
    notes = [StructField(c.name, spark_type(c.type)) for c in _NOTES]
    schema = StructType([*made, *extras, *notes])

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from parse_batches(order, batches)

    return lines.frame.mapInArrow(parse, schema)


def inferred(lines: Lines, names: Sequence[str] | None) -> StructType:
    """The schema of all records."""
    from pyspark.sql.types import StructType as Struct

    order = order_of(lines, Contract(Struct([])), names)
    ship(lines.frame.sparkSession)

    def infer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kind = infer_batches(order, batches)
        encoded = pa.schema(list(kind)).serialize().to_pybytes()
        yield pa.record_batch([pa.array([encoded], pa.binary())], names=["schema"])

    kind = pa.struct([])
    judged = [REASON] if REASON in lines.frame.columns else []
    rows = lines.frame.select("value", "origin", "start", *judged).mapInArrow(infer, "schema binary").toArrow()
    for encoded in rows.column(0).to_pylist():
        kind = merged_structs(kind, pa.struct(list(pa.ipc.read_schema(pa.BufferReader(encoded)))))
    return cast("StructType", spark_type(settled(kind) if kind.num_fields else kind))


# In the tasks.


def parse_batches(order: Order, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of lines as batches of rows."""
    if order.format == "json":
        parser = JsonParser(order.terms, order.encoding, order.each, order.keep_raw)
        for batch in batches:
            yield from _judged(order, batch)
            rest = _not_judged(batch)
            lines = rest.column("value").to_pylist()
            yield _rows(order, rest, lines, parser.parse(lines))
        return
    if order.format != "csv":
        assert_never(order.format)
    csv, files = CsvParser(order.terms, order.dialect), _Files(order)
    for batch in batches:
        yield from _judged(order, batch)
        for piece, names, lines in files.pieces(_not_judged(batch), csv):
            yield _rows(order, piece, lines, csv.parse(lines, names))


def infer_batches(order: Order, batches: Iterator[pa.RecordBatch]) -> pa.StructType:
    """The type of all records of some batches."""
    if order.format == "json":
        json_kind = JsonInference(order.encoding)
        for batch in batches:
            json_kind.see(_not_judged(batch).column("value").to_pylist())
        return json_kind.kind
    if order.format != "csv":
        assert_never(order.format)
    csv_kind, files = CsvInference(order.dialect), _Files(order)
    for batch in batches:
        for _, names, lines in files.pieces(_not_judged(batch), CsvParser(Terms(pa.schema([])), order.dialect)):
            csv_kind.see(lines, names)
    return csv_kind.kind


def _not_judged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The lines that may be records."""
    return batch.filter(pc.is_null(batch.column(REASON))) if REASON in batch.schema.names else batch


def _judged(order: Order, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The lines that came with a reason why they are not records, as bad rows."""
    if REASON not in batch.schema.names:
        return
    judged = batch.filter(pc.is_valid(batch.column(REASON)))
    if judged.num_rows:
        bad = [BadRecord(at, reason) for at, reason in enumerate(judged.column(REASON).to_pylist())]
        nothing = [pa.array([], column.type) for column in order.terms.columns]
        yield _rows(order, judged, judged.column("value").to_pylist(), Parsed(nothing, [], bad=bad))


@dataclass(slots=True)
class _Files:
    """The CSV files of a task, one after the other, each with its columns."""

    order: Order
    origin: str | None = None
    start: int = -1
    names: list[str] | None = None

    def pieces(
        self, batch: pa.RecordBatch, parser: CsvParser
    ) -> Iterator[tuple[pa.RecordBatch, list[str], list[bytes]]]:
        """The lines of each file in a batch, less its header."""
        whole = self.order.dialect.multi_line
        if self.order.names is not None and not whole:
            if batch.num_rows:
                yield batch, list(self.order.names), batch.column("value").to_pylist()
            return
        for begin, end in _runs(batch):
            piece = batch.slice(begin, end - begin)
            origin, start = piece.column("origin")[0].as_py(), piece.column("start")[0].as_py()
            if (origin, start) != (self.origin, self.start) or whole:
                self.origin, self.start, self.names = origin, start, self._known(origin, start)
            lines = piece.column("value").to_pylist()
            if whole:
                lines = [_without_mark(line, self.order.encoding) for line in lines]
            if self.names is None:
                piece, lines = self._take_header(piece, lines, parser)
            if self.names is not None and lines:
                yield piece, self.names, lines

    def _known(self, origin: str, start: int) -> list[str] | None:
        if self.order.names is not None:
            return list(self.order.names)
        if start == 0:
            return None
        if origin not in self.order.headers:
            raise RuntimeError(f"{origin}: its first line was not read before the others")
        return header_names(self.order.headers[origin], self.order.dialect, unquote(origin))

    def _take_header(
        self, piece: pa.RecordBatch, lines: list[bytes], parser: CsvParser
    ) -> tuple[pa.RecordBatch, list[bytes]]:
        """The lines after the header, which is the first line that is not blank."""
        assert self.origin is not None
        dialect = self.order.dialect
        if dialect.multi_line:
            try:
                text = lines[0].decode(dialect.encoding)
            except UnicodeDecodeError:
                # The parser says so of the whole file, which has no column that anybody knows.
                self.names = []
                return piece, lines
            text = _LEADING.sub("", text) if not dialect.comment else _without_comments(text, dialect.comment)
            if not text:
                return piece.slice(0, 0), []
            self.names, after = header_of(text, dialect, unquote(self.origin))
            return piece, [text[after:].encode(dialect.encoding)] if dialect.header else lines
        for at, line in enumerate(lines):
            text = header_line(line, dialect, unquote(self.origin)).lstrip("\ufeff")
            if parser.is_blank(text):
                continue
            self.names = header_names(text, dialect, unquote(self.origin))
            return (piece.slice(at + 1), lines[at + 1 :]) if dialect.header else (piece, lines)
        return piece.slice(0, 0), []


def _without_mark(data: bytes, encoding: str) -> bytes:
    """A whole file without the mark at its begin."""
    try:
        return data.removeprefix("\ufeff".encode(encoding))
    except UnicodeEncodeError:
        return data


_LEADING: Final = re.compile(r"^[\r\n]+")


def _without_comments(text: str, comment: str) -> str:
    """The text from its first line that is not a comment."""
    while (bare := _LEADING.sub("", text)).startswith(comment):
        text = re.split(r"\r\n|\r|\n", bare, maxsplit=1)[-1] if re.search(r"[\r\n]", bare) else ""
    return bare


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Where the lines of each file begin and end in a batch."""
    if not batch.num_rows:
        return
    ends = pc.run_end_encode(batch.column("origin")).run_ends.to_pylist()
    begin = 0
    for end in ends:
        if batch.column("start")[begin].as_py() == batch.column("start")[end - 1].as_py():
            yield begin, end
        else:
            starts = batch.column("start").slice(begin, end - begin).to_pylist()
            cuts = [at for at in range(1, len(starts)) if starts[at] != starts[at - 1]]
            yield from zip([begin, *(begin + c for c in cuts)], [*(begin + c for c in cuts), end])
        begin = end


def _rows(order: Order, batch: pa.RecordBatch, lines: Sequence[bytes], result: Parsed) -> pa.RecordBatch:
    """The rows of a batch: those that parse, then those that do not."""
    bad = [] if order.permissive else list(result.bad)
    _check(order, batch, lines, result, bad)
    corrupt = list(result.bad) if order.permissive else []
    places = [*result.lines, *(record.line for record in corrupt), *(record.line for record in bad)]
    good, more = len(result.lines), len(corrupt) + len(bad)
    columns = [_extended(c, field.type, more) for c, field in zip(result.columns, order.terms.columns)]
    if corrupt:
        _set_corrupt(
            order, columns, good, [_text(lines, record.line, record.raw, order.encoding) for record in corrupt]
        )
    extras = [batch.column(name).take(pa.array(places, pa.int32())) for name in order.extras]
    notes = _notes(order, batch, lines, result, bad, places, good + len(corrupt))
    names = [*order.terms.columns.names, *order.extras, *_NOTES.names]
    return pa.record_batch([*columns, *extras, *notes], names=names)


def _check(order: Order, batch: pa.RecordBatch, lines: Sequence[bytes], result: Parsed, bad: list[Any]) -> None:
    """While writing: what the survey did not see ends the task, and nothing is committed."""
    if not order.strict:
        return
    if bad and not order.allow_bad:
        raise RuntimeError(f"{batch.column('origin')[0]}: a record no longer parses: {bad[0].reason}")
    if result.misfits and not order.rescue:
        line = result.lines[min(result.misfits)]
        raise RuntimeError(f"{batch.column('origin')[0]}: a record no longer fits: {lines[line][:200]!r}")


def _extended(column: pa.Array, kind: pa.DataType, more: int) -> pa.Array:
    return pa.concat_arrays([column, pa.nulls(more, kind)]) if more else column


def _set_corrupt(order: Order, columns: list[pa.Array], good: int, texts: list[str]) -> None:
    at = order.terms.columns.names.index(CORRUPT)
    columns[at] = pa.concat_arrays([columns[at].slice(0, good), pa.array(texts, pa.string())])


def _text(lines: Sequence[bytes], line: int, raw: str | None, encoding: str) -> str:
    """The text of a record. Bytes that are none stand as escapes, and then a backslash is doubled."""
    if raw is not None:
        return raw
    try:
        return lines[line].decode(encoding)
    except UnicodeDecodeError:
        marked = lines[line].decode(encoding, errors=_MARKED).replace("\\", "\\\\")
        return _MARKS.sub(lambda mark: f"\\x{ord(mark[0]) - _MARK:02x}", marked)


_MARK: Final = 0xDC00
_MARKS: Final = re.compile("[\udc00-\udcff]")
_MARKED: Final = "delta_sidecar.marked"


def _marked(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are no text as halves of surrogate pairs, which no text holds."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(_MARK + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_MARKED, _marked)


def _notes(
    order: Order,
    batch: pa.RecordBatch,
    lines: Sequence[bytes],
    result: Parsed,
    bad: list[Any],
    places: list[int],
    good: int,
) -> list[pa.Array]:
    total = len(places)
    nothing = pa.nulls(total, pa.string())
    rescued = _sparse(result.rescued, total) if order.rescue and result.rescued else nothing
    problems = {row: encode_problems(of_row) for row, of_row in result.problems.items()}
    problem_texts = _sparse(problems, total) if problems and not order.strict else nothing
    if not bad and not order.keep_raw:
        return [rescued, nothing, nothing, pa.nulls(total, pa.binary()), problem_texts]
    reasons = pa.array([None] * good + [record.reason for record in bad], pa.string())
    kept = range(total) if order.keep_raw else range(good, total)
    raws: list[bytes | None] = [None] * total
    for row in kept:
        raws[row] = _in_utf8(lines[places[row]], order.encoding)
    for row, text in result.texts.items():
        raws[row] = text.encode()
    for row, record in enumerate(bad, good):
        if record.raw is not None:
            raws[row] = record.raw.encode()
    # Spark gives the place of a file as a URI.
    all_origins = [unquote(origin) for origin in batch.column("origin").to_pylist()]
    origins = [all_origins[places[row]] if row in kept else None for row in range(total)]
    return [rescued, reasons, pa.array(origins, pa.string()), pa.array(raws, pa.binary()), problem_texts]


def _in_utf8(line: bytes | None, encoding: str) -> bytes | None:
    """A record's text in UTF-8; its bytes as they are where they are no text."""
    if line is None or encoding == "utf-8":
        return line
    try:
        return line.decode(encoding).encode()
    except UnicodeError:
        return line


def _sparse(texts: Mapping[int, str], total: int) -> pa.Array:
    return pa.array([texts.get(row) for row in range(total)], pa.string())


def encode_problems(problems: Sequence[Problem]) -> str:
    """Problems as text, on their way from a task to the driver."""
    return json.dumps([[list(p.path), _encoded(p.kind), p.example] for p in problems])


def _encoded(kind: pa.DataType | None) -> str | None:
    if kind is None:
        return None
    return base64.b64encode(pa.schema([pa.field("_", kind)]).serialize().to_pybytes()).decode()


def decode_problems(text: str) -> Iterator[Problem]:
    """Problems out of their text."""
    for path, kind, example in json.loads(text):
        yield Problem(tuple(path), None if kind is None else _decoded(kind), example)


def _decoded(text: str) -> pa.DataType:
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text))).field(0).type
