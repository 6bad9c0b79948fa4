"""Lines of CSV as Arrow columns: each file by its own header, matched to the contract by name.

Lines are divided by Arrow, where a look at all of them shows that it can only read them one way; others by a small
strict tokenizer, which tells an empty text from no text and refuses what follows a closing quote. Columns are then
converted as wholes, and value by value where that fails.
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.records import conversion, inference
from delta_sidecar.pipeline.records.conversion import (
    EXACT_IN_DOUBLE,
    Misfit,
    all_true,
    decode_json,
    encode_json,
    holds_half_pair,
)
from delta_sidecar.pipeline.records.json_records import FITS, Fit
from delta_sidecar.pipeline.records.terms import NOT_IN_ENCODING, BadRecord, Parsed, Problem, Report, Terms
from delta_sidecar.values.column_names import folded, named_twice

Record: TypeAlias = list[str | None]
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_FIRST_DAY: Final = pa.scalar(datetime.date.min)
"""Arrow knows days of a year 0, which Python and Spark do not write."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the CSV is written."""

    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    null_value: str = ""
    header: bool = True
    encoding: str = "utf-8"
    multi_line: bool = False

    def tokens(self) -> _Tokens:
        return _Tokens(self)


def _regular_line(dialect: Dialect) -> str | None:
    """A pattern of Arrow's for lines that every CSV reader divides alike; None if there is none for the dialect."""
    if not (len(dialect.sep) == len(dialect.quote) == 1 and dialect.sep.isascii() and dialect.quote.isascii()):
        return None
    sep, quote, escape = (re.escape(text) for text in (dialect.sep, dialect.quote, dialect.escape))
    doubled = not dialect.escape or dialect.escape == dialect.quote
    inside = rf"(?:[^{quote}\r\n]|{quote}{quote})*" if doubled else rf"[^{quote}{escape}\r\n]*"
    field = rf"(?:{quote}{inside}{quote}|[^{sep}{quote}\r\n]*)"
    return rf"^{field}(?:{sep}{field})*$"


class _Tokens:
    """Divides text into records and fields."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.regular = _regular_line(dialect)
        sep, quote, escape = (re.escape(text) for text in (dialect.sep, dialect.quote, dialect.escape))
        plain = rf"(?:(?!{sep}|[\r\n])(?s:.))*" if dialect.multi_line else rf"(?:(?!{sep})(?s:.))*"
        if not dialect.quote:
            self.field, self.escaped = re.compile(f"(?P<plain>{plain})"), None
            return
        if not dialect.escape or dialect.escape == dialect.quote:
            inside, self.escaped = f"(?:[^{quote}]|{quote}{quote})*", re.compile(f"{quote}({quote})")
        else:
            inside = f"(?:[^{quote}{escape}]|{escape}(?s:.))*"
            self.escaped = re.compile(f"{escape}([{quote}{escape}])")
        self.field = re.compile(f"{quote}(?P<quoted>{inside}){quote}|(?!{quote})(?P<plain>{plain})")

    def record(self, text: str, at: int = 0) -> tuple[Record, int]:
        """The fields of the record that begins there, and where the next one does; ValueError if it has no end."""
        fields: Record = []
        while True:
            match = self.field.match(text, at)
            if match is None:
                raise ValueError("a quote is not closed")
            fields.append(self._value(match))
            at = match.end()
            if at >= len(text):
                return fields, at
            if text.startswith(self.dialect.sep, at):
                at += len(self.dialect.sep)
            elif self.dialect.multi_line and (end := _LINE_END.match(text, at)):
                return fields, end.end()
            else:
                raise ValueError("text follows a closing quote")

    def _value(self, match: re.Match[str]) -> str | None:
        quoted = match.groupdict().get("quoted")
        if quoted is not None:
            assert self.escaped is not None
            value = self.escaped.sub(r"\1", quoted)
            return None if value and value == self.dialect.null_value else value
        plain = match["plain"]
        return None if plain in ("", self.dialect.null_value) else plain


def header_line(line: bytes, dialect: Dialect, origin: str) -> str:
    """A file's first line as text. Where it has no names it only says how many columns there are."""
    try:
        return line.decode(dialect.encoding, errors="strict" if dialect.header else "replace")
    except UnicodeDecodeError:
        raise InputError(
            f"{origin}: its header is not in the encoding {dialect.encoding}; name the right one "
            "(--read-option encoding=…)"
        ) from None


def header_names(line: str, dialect: Dialect, origin: str) -> list[str]:
    """The columns of a file by its first line; one without a name is called by its place, as all are where that line
    is a record like the others."""
    return header_of(line.lstrip("\ufeff").rstrip("\r\n"), dialect, origin)[0]


def header_of(text: str, dialect: Dialect, origin: str) -> tuple[list[str], int]:
    """The columns of a file by the first record of its text, and where the next one begins."""
    try:
        # A name is never the text that stands for no value.
        names, after = replace(dialect, null_value="").tokens().record(text)
    except ValueError as error:
        what = "header" if dialect.header else "first line, which gives the number of columns,"
        raise InputError(f"{origin}: its {what} cannot be read: {error}") from None
    made = [(name if dialect.header else "") or f"_c{at}" for at, name in enumerate(names)]
    return checked_names(made, origin), after


def checked_names(names: list[str], origin: str) -> list[str]:
    """The names, each of them once."""
    if twice := named_twice(names):
        raise InputError(f"{origin}: it names the column {twice!r} twice; give the columns names of their own")
    return names


@dataclass(slots=True)
class CsvParser:
    """Parses lines of one file after the other under terms. There is one per task: it remembers which problems it has
    reported."""

    terms: Terms
    dialect: Dialect
    report: Report = field(default_factory=Report)
    tokens: _Tokens = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.dialect.tokens()

    def parse(self, lines: Sequence[bytes], names: Sequence[str]) -> Parsed:
        """The records of some lines of a file with these columns."""
        columns, places, bad = self.divide(lines, len(names))
        rescue = _Rescue(self.report, {}, {}, set())
        by_name = dict(zip((folded(name) for name in names), range(len(names))))
        arrays = []
        for wanted in self.terms.columns:
            at = by_name.pop(folded(wanted.name), None)
            if at is None:
                arrays.append(pa.nulls(len(places), wanted.type))
            else:
                arrays.append(rescue.column(columns[at], wanted, names[at]))
        for at in by_name.values():
            rescue.unknown(columns[at], names[at])
        texts = {row: encode_json(left) for row, left in rescue.left.items()}
        return Parsed(arrays, places, texts, rescue.problems, frozenset(rescue.misfits), bad)

    def divide(self, lines: Sequence[bytes], width: int) -> tuple[list[pa.Array], list[int], list[BadRecord]]:
        """The fields of all records, column by column, as text; the line of each; what is not a record.

        A file that is read whole comes without the mark at its begin.
        """
        if self.dialect.multi_line:
            return self._divide_files(lines, width)
        fields_and_places = self._at_once(lines, width)
        if fields_and_places is not None:
            return *fields_and_places, []
        texts, bad = self._decoded(lines)
        return self._one_by_one(((at, text, 0) for at, text in texts), width, bad)

    def _decoded(self, lines: Sequence[bytes]) -> tuple[list[tuple[int, str]], list[BadRecord]]:
        """The texts of lines that may be records, or of whole files."""
        texts: list[tuple[int, str]] = []
        bad: list[BadRecord] = []
        for at, line in enumerate(lines):
            try:
                text = line.decode(self.dialect.encoding)
            except UnicodeDecodeError:
                bad.append(BadRecord(at, NOT_IN_ENCODING))
                continue
            if self.dialect.multi_line or not self.is_blank(text):
                texts.append((at, text))
        return texts, bad

    def is_blank(self, text: str) -> bool:
        """Whether a line is not a record: empty, or a comment."""
        return not text or (self.dialect.comment != "" and text.startswith(self.dialect.comment))

    def _at_once(self, lines: Sequence[bytes], width: int) -> tuple[list[pa.Array], list[int]] | None:
        """The columns of all records and their lines, by Arrow's functions; None if a line is not in its encoding."""
        try:
            if self.dialect.encoding == "utf-8":
                texts = pa.array(lines, pa.binary()).cast(pa.string())
            else:
                texts = pa.array([line.decode(self.dialect.encoding) for line in lines], pa.string())
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        is_record = pc.not_equal(texts, "")
        if self.dialect.comment:
            is_record = pc.and_not(is_record, pc.starts_with(texts, self.dialect.comment))
        columns = self._plain(texts.filter(is_record), width)
        return None if columns is None else (columns, pc.indices_nonzero(is_record).to_pylist())

    def _plain(self, array: pa.StringArray, width: int) -> list[pa.Array] | None:
        """The columns of lines that all have as many fields as the header."""
        if not len(array):
            return [pa.array([], pa.string())] * width
        if self.dialect.quote and _any(pc.match_substring(array, self.dialect.quote)):
            return self._quoted(array, width)
        divided = pc.split_pattern(array, self.dialect.sep)
        if not all_true(pc.equal(pc.list_value_length(divided), width)):
            return None
        values = divided.flatten()
        return [self._nulled(values.take(pa.array(np.arange(at, len(values), width)))) for at in range(width)]

    def _quoted(self, array: pa.StringArray, width: int) -> list[pa.Array] | None:
        """The same of lines with quotes, if every quote opens or closes a field, or stands doubled inside one."""
        shape = self.tokens.regular
        if shape is None or not all_true(pc.match_substring_regex(array, shape)):
            return None
        if array[0].as_py().startswith("\ufeff"):
            # Arrow would take it for the mark at the begin of a file, and leave it out.
            return None
        names = [str(at) for at in range(width)]
        # Without a line end after the last line Arrow takes an empty field there for a quoted one.
        data = b"\n".join([*array.cast(pa.binary()).to_pylist(), b""])
        try:
            table = pv.read_csv(
                io.BytesIO(data),
                pv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
                pv.ParseOptions(delimiter=self.dialect.sep, quote_char=self.dialect.quote),
                pv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=["", self.dialect.null_value],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(array):
            return None
        return [self._without_null_value(column.combine_chunks()) for column in table.columns]

    def _without_null_value(self, column: pa.Array) -> pa.Array:
        """The column, with nulls for the text that stands for one, quoted or not."""
        null = self.dialect.null_value
        return pc.if_else(pc.equal(column, null), pa.scalar(None, pa.string()), column) if null else column

    def _nulled(self, column: pa.Array) -> pa.Array:
        nulls = pa.array({"", self.dialect.null_value}, pa.string())
        return pc.if_else(pc.is_in(column, value_set=nulls), pa.scalar(None, pa.string()), column)

    def _one_by_one(
        self, texts: Iterator[tuple[int, str, int]], width: int, bad: list[BadRecord]
    ) -> tuple[list[pa.Array], list[int], list[BadRecord]]:
        records: list[Record] = []
        places: list[int] = []
        for at, text, start in texts:
            try:
                record, _ = self.tokens.record(text, start)
                if len(record) != width:
                    raise ValueError(f"it has {len(record)} fields, the header {width}")
            except ValueError as error:
                bad.append(BadRecord(at, str(error)))
                continue
            records.append(record)
            places.append(at)
        return _columns(records, width), places, bad

    def _divide_files(self, files: Sequence[bytes], width: int) -> tuple[list[pa.Array], list[int], list[BadRecord]]:
        """Records of whole files, whose header is taken off already. After a quote that has no end nothing is sure."""
        records: list[Record] = []
        places: list[int] = []
        texts, bad = self._decoded(files)
        for at, text in texts:
            start = 0
            while start < len(text):
                if (end := _LINE_END.match(text, start)) is not None:
                    start = end.end()
                    continue
                if self.dialect.comment and text.startswith(self.dialect.comment, start):
                    start = _next_line(text, start)
                    continue
                try:
                    record, after = self.tokens.record(text, start)
                except ValueError as error:
                    bad.append(BadRecord(at, f"{error}; this is the rest of the file", text[start:]))
                    break
                if len(record) != width:
                    reason = f"it has {len(record)} fields, the header {width}"
                    bad.append(BadRecord(at, reason, text[start:after].rstrip("\r\n")))
                else:
                    records.append(record)
                    places.append(at)
                start = after
        return _columns(records, width), places, bad


def _next_line(text: str, start: int) -> int:
    end = _LINE_END.search(text, start)
    return len(text) if end is None else end.end()


def _columns(records: list[Record], width: int) -> list[pa.Array]:
    return [pa.array([record[at] for record in records], pa.string()) for at in range(width)]


@dataclass(slots=True)
class _Rescue:
    """What of some rows has no place in the contract."""

    report: Report
    left: dict[int, dict[str, Any]]
    problems: dict[int, list[Problem]]
    misfits: set[int]

    def column(self, texts: pa.Array, wanted: pa.Field, name: str) -> pa.Array:
        """A column in its type; values that do not fit are null, and kept aside."""
        if pa.types.is_string(wanted.type):
            return texts
        at_once = converted(texts, wanted.type)
        if at_once is not None:
            return at_once
        convert = self._by_value(wanted)
        values: list[Any] = []
        for row, text in enumerate(texts.to_pylist()):
            try:
                values.append(convert(text) if text else None)
            except Misfit:
                values.append(None)
                self._leave(row, name, text, self.report.misfit((wanted.name,), text))
        return pa.array(values, wanted.type)

    def _by_value(self, wanted: pa.Field) -> Callable[[str], Any]:
        convert = conversion.scalar_of_text(wanted.type)
        return convert if convert is not None else lambda text: _of_json_text(text, wanted)

    def unknown(self, texts: pa.Array, name: str) -> None:
        """A column that the contract lacks."""
        if len(texts) == texts.null_count:
            if len(texts):
                self._leave(0, name, None, self.report.new((name,), inference.NOTHING, "null"))
            return
        kind = inference.NOTHING
        for row, text in enumerate(texts.to_pylist()):
            if text is not None:
                kind = inference.merged(kind, inference.type_of_text(text))
                self._leave(row, name, text, self.report.new((name,), kind, text))

    def _leave(self, row: int, name: str, text: str | None, problem: Problem | None) -> None:
        self.misfits.add(row)
        if text is not None:
            self.left.setdefault(row, {})[name] = text
        if problem is not None:
            self.problems.setdefault(row, []).append(problem)


def _of_json_text(text: str, wanted: pa.Field) -> Any:
    """A struct, list or map that is written as JSON inside a field."""
    try:
        value = decode_json(text)
        result, left = Fit(Report()).value(value, wanted.type, (wanted.name,))
        fits = left is FITS and not holds_half_pair(value)
    except (ValueError, RecursionError):
        raise Misfit from None
    if not fits:
        raise Misfit
    return result


def converted(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """A column of text in a type other than text, all at once; None where one by one is safer."""
    try:
        if pa.types.is_integer(kind) and all_true(pc.match_substring_regex(texts, "^-?[0-9]+$")):
            return pc.cast(texts, kind)
        if pa.types.is_float64(kind):
            numbers = pc.cast(texts, kind)
            zeros = texts.filter(pc.equal(numbers, 0.0))
            is_exact = all_true(pc.less(pc.abs(numbers), float(EXACT_IN_DOUBLE)))
            return numbers if is_exact and all_true(pc.match_substring_regex(zeros, "^[^1-9eE]*([eE]|$)")) else None
        if pa.types.is_date32(kind) and all_true(pc.match_substring_regex(texts, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")):
            days = pc.cast(texts, kind)
            return days if all_true(pc.greater_equal(days, _FIRST_DAY)) else None
    except pa.ArrowInvalid:
        return None
    return None


def _any(array: pa.Array) -> bool:
    return bool(pc.any(array, min_count=0).as_py())


@dataclass(slots=True)
class CsvInference:
    """The schema of all files it has seen, in the order their columns came."""

    dialect: Dialect
    kind: pa.StructType = field(default_factory=lambda: pa.struct([]))

    def see(self, lines: Sequence[bytes], names: Sequence[str]) -> None:
        """Take some lines of a file with these columns in; those that do not parse say nothing."""
        columns, _, _ = CsvParser(Terms(pa.schema([])), self.dialect).divide(lines, len(names))
        known = {folded(part.name): part.type for part in self.kind}
        kinds = [self._type(column, known.get(folded(name))) for column, name in zip(columns, names)]
        seen = pa.struct([pa.field(name, kind) for name, kind in zip(names, kinds)])
        self.kind = inference.merged_structs(self.kind, seen)

    def _type(self, texts: pa.Array, known: pa.DataType | None) -> pa.DataType:
        if known == pa.string() or len(texts) == texts.null_count:
            return inference.NOTHING if known is None else known
        if known is not None and _is_still(texts, known):
            return known
        different = pc.unique(texts).to_pylist()
        kind = self._merged(different[:_FIRST])
        if len(different) <= _FIRST or kind == pa.string() or _is_still(texts, kind):
            return kind
        return self._merged(different)

    @staticmethod
    def _merged(texts: Sequence[str]) -> pa.DataType:
        kind = inference.NOTHING
        for text in texts:
            kind = inference.merged(kind, inference.type_of_text(text))
            if kind == pa.string():
                break
        return kind


_FIRST: Final = 64
"""The number of texts of a column that show what most of the others are like."""


def _is_still(texts: pa.Array, kind: pa.DataType) -> bool:
    """Whether all texts are of the type that those before had; only answered for the usual types."""
    if kind == inference.SMALL:
        return all_true(pc.match_substring_regex(texts, "^(0|-?[1-9][0-9]{0,14})$"))
    if kind == pa.float64():
        return all_true(pc.match_substring_regex(texts, r"^-?(0|[1-9][0-9]{0,14})\.[0-9]+$"))
    return False
