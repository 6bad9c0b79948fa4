"""Lines of JSON as Arrow columns: Arrow's strict parser first, and record by record where it refuses.

Arrow's parser is given the contract's types, and an unexpected field is an error to it. What it accepts is exact but
for what `_is_exact` looks at. Lines it refuses are halved until they are few; those go through Python's parser, which
says what is wrong with which field.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from delta_sidecar.pipeline.records import conversion, inference
from delta_sidecar.pipeline.records.conversion import (
    EXACT_IN_DOUBLE,
    WIDE,
    Misfit,
    Object,
    TwiceNamed,
    all_true,
    decode_json,
    encode_json,
    holds_half_pair,
    texts_in_list,
)
from delta_sidecar.pipeline.records.terms import (
    ELEMENTS,
    NOT_IN_ENCODING,
    VALUES,
    BadRecord,
    Parsed,
    Path,
    Problem,
    Report,
    Terms,
)
from delta_sidecar.values.column_names import folded, named_twice

FEW: Final = 64
"""Up to this many lines are parsed one by one rather than halved again."""
FITS: Final = object()
_SPACE: Final = conversion.JSON_SPACE.encode()


@dataclass(slots=True)
class JsonParser:
    """Parses lines under terms. There is one per task: it remembers which problems it has reported."""

    terms: Terms
    encoding: str = "utf-8"
    each: bool = False
    """Whether every line must hold a record."""
    own_text: bool = False
    """Whether each record of a list comes with its own text."""
    report: Report = field(default_factory=Report)
    fields: Mapping[str, tuple[int, pa.Field]] = field(init=False)
    fast: list[pa.Schema] = field(init=False)
    decimals: bool = field(init=False)
    """Whether the parser is to read decimals."""

    def __post_init__(self) -> None:
        self.fields = _by_name(self.terms.columns)
        self.fast = _fast_schemas(self.terms)
        self.decimals = any(_holds_decimals(column.type) for column in self.terms.columns)

    def parse(self, lines: Sequence[bytes]) -> Parsed:
        """The records of some lines; a line may hold a list of records, a blank one holds none."""
        columns = self.objects_at_once(lines)
        if columns is not None:
            return Parsed(columns, list(range(len(lines))))
        pieces = list(self._pieces(self.numbered(lines)))
        return _concatenate(pieces, self.terms.columns)

    def numbered(self, lines: Sequence[bytes]) -> list[tuple[int, bytes | None]]:
        """The lines that may hold records, in UTF-8, with their numbers."""
        encoded = enumerate(map(self.utf8, lines))
        return [(at, line) for at, line in encoded if line is None or self.each or line.strip(_SPACE)]

    def utf8(self, line: bytes) -> bytes | None:
        """The line in UTF-8; None where it is not in its encoding."""
        try:
            text = line.decode(self.encoding)
        except UnicodeDecodeError:
            return None
        return line if self.encoding == "utf-8" else text.encode(errors="surrogatepass")

    def _pieces(self, lines: list[tuple[int, bytes | None]]) -> Iterator[Parsed]:
        batch = self.at_once(lines) if self.fast else None
        if batch is not None:
            yield Parsed(batch, [at for at, _ in lines])
        elif len(lines) > FEW and self.fast:
            half = len(lines) // 2
            yield from self._pieces(lines[:half])
            yield from self._pieces(lines[half:])
        elif lines:
            yield self._one_by_one(lines)

    def objects_at_once(self, lines: Sequence[bytes]) -> list[pa.Array] | None:
        """As `at_once`, for lines of UTF-8 that each look like one object; None if one does not."""
        if not self.fast or self.encoding != "utf-8":
            return None
        try:
            texts = pa.array(lines, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            return None
        are_objects = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
        return self._by_arrow(lines) if len(lines) and all_true(are_objects) else None

    def at_once(self, lines: list[tuple[int, bytes | None]]) -> list[pa.Array] | None:
        """All lines by Arrow's parser; None if it refuses any, or may have read one inexactly."""
        # Arrow crashes on a line that is null alone, and takes two objects on a line for two rows.
        if not lines or not all(line and line[:1] == b"{" and line.rstrip(_SPACE)[-1:] == b"}" for _, line in lines):
            return None
        return self._by_arrow([line for _, line in lines if line is not None])

    def _by_arrow(self, lines: Sequence[bytes]) -> list[pa.Array] | None:
        data = b"\n".join(lines)
        if self.decimals and _is_fine(data):
            return None
        for at, schema in enumerate(self.fast):
            columns = self._typed(data, schema, len(lines))
            if columns is not None:
                if at:
                    self.fast.insert(0, self.fast.pop(at))
                return columns
        return None

    def _typed(self, data: bytes, schema: pa.Schema, rows: int) -> list[pa.Array] | None:
        try:
            table = pj.read_json(
                io.BytesIO(data),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != rows:
            return None
        arrays = list(map(_one, table.columns))
        if not all(map(_is_exact, arrays)) or (any(map(_holds_zero, arrays)) and _may_vanish(data)):
            return None
        columns = []
        for array, wanted in zip(arrays, self.terms.columns):
            converted = _as_wanted(array, wanted.type)
            if converted is None:
                return None
            columns.append(converted)
        return columns

    def _one_by_one(self, lines: list[tuple[int, bytes | None]]) -> Parsed:
        rows = _Rows(self)
        for at, line in lines:
            try:
                text = _text(line)
                records = _records(text)
                if self.each and not records:
                    raise ValueError("it is an empty list")
            except (ValueError, RecursionError) as error:
                rows.bad.append(BadRecord(at, _reason(error)))
            else:
                is_list = self.own_text and text.lstrip(conversion.JSON_SPACE).startswith("[")
                rows.add(at, records, list(texts_in_list(text)) if is_list else ())
        return rows.parsed()


def _text(line: bytes | None) -> str:
    if line is None:
        raise ValueError(NOT_IN_ENCODING)
    return line.decode(errors="surrogatepass").lstrip("\ufeff")


def _records(text: str) -> list[Object]:
    value = decode_json(text)
    records = value if isinstance(value, list) and not isinstance(value, Object) else [value]
    if not all(isinstance(record, Object) for record in records):
        raise ValueError("it is not a JSON object")
    if holds_half_pair(value):
        raise ValueError("it holds half of a surrogate pair")
    return records


def _reason(error: Exception) -> str:
    text = str(error) or "it is nested too deeply"
    return text.partition(": line")[0]


@dataclass(slots=True)
class _Rows:
    """Rows made one by one."""

    parser: JsonParser
    values: list[list[Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    rescued: dict[int, str] = field(default_factory=dict)
    problems: dict[int, list[Problem]] = field(default_factory=dict)
    misfits: set[int] = field(default_factory=set)
    bad: list[BadRecord] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)

    def add(self, line: int, records: list[Object], texts: Sequence[str] = ()) -> None:
        """Add the records of a line, whose own texts are given where the line holds more than one of them."""
        fitted = []
        known = dict(self.parser.report.known)
        for record in records:
            fit = Fit(self.parser.report)
            try:
                fitted.append((fit.record(record, self.parser.fields), fit))
            except TwiceNamed as error:
                # This line has no row to report its problems; the next line that has the same ones does.
                self.parser.report.known = known
                self.bad.append(BadRecord(line, str(error)))
                return
        self.texts |= enumerate(texts, len(self.values))
        for (values, left), fit in fitted:
            row = len(self.values)
            self.values.append(values)
            self.lines.append(line)
            if left:
                self.rescued[row] = encode_json(left)
                self.misfits.add(row)
            if fit.problems:
                self.problems[row] = fit.problems

    def parsed(self) -> Parsed:
        columns = [
            pa.array([row[at] for row in self.values], column.type)
            for at, column in enumerate(self.parser.terms.columns)
        ]
        return Parsed(columns, self.lines, self.rescued, self.problems, frozenset(self.misfits), self.bad, self.texts)


@dataclass(slots=True)
class Fit:
    """One record checked against the contract."""

    report: Report
    problems: list[Problem] = field(default_factory=list)

    def record(self, record: Object, fields: Mapping[str, tuple[int, pa.Field]]) -> tuple[list[Any], dict[str, Any]]:
        values, left = self._fields(record, fields, ())
        return values, left

    def _fields(
        self, record: Object, fields: Mapping[str, tuple[int, pa.Field]], path: Path
    ) -> tuple[list[Any], dict[str, Any]]:
        """The values of the fields, and what has no place among them."""
        values: list[Any] = [None] * len(fields)
        left: dict[str, Any] = {}
        seen: set[int] = set()
        unknown: set[str] = set()
        for name, value in record:
            place = fields.get(folded(name))
            if place is None:
                if folded(name) in unknown:
                    raise TwiceNamed(f"it names {name!r} twice, in different case")
                unknown.add(folded(name))
                _check_named_once(value)
                left[name] = value
                self._tell(self.report.new((*path, name), inference.type_of(value), encode_json(value)))
                continue
            at, known = place
            if at in seen:
                raise TwiceNamed(f"it names {known.name!r} twice, in different case")
            seen.add(at)
            values[at], rest = self.value(value, known.type, (*path, known.name))
            if rest is not FITS:
                left[name] = rest
        return values, left

    def _tell(self, problem: Problem | None) -> None:
        if problem is not None:
            self.problems.append(problem)

    def value(self, value: Any, kind: pa.DataType, path: Path) -> tuple[Any, Any]:
        """The value as one of the type, and what is left of it."""
        if value is None:
            return None, FITS
        if pa.types.is_struct(kind) and isinstance(value, Object):
            values, left = self._fields(value, _by_name(kind), path)
            return dict(zip((part.name for part in kind), values)), left or FITS
        if pa.types.is_list(kind) and isinstance(value, list) and not isinstance(value, Object):
            pairs = [self.value(item, kind.value_type, (*path, ELEMENTS)) for item in value]
            return [item for item, _ in pairs], FITS if all(left is FITS for _, left in pairs) else value
        if pa.types.is_map(kind) and isinstance(value, Object):
            return self._map(value, kind, path)
        try:
            return conversion.scalar_of_json(value, kind), FITS
        except Misfit:
            self._tell(self.report.misfit(path, encode_json(value)))
            return None, value

    def _map(self, value: Object, kind: pa.MapType, path: Path) -> tuple[Any, Any]:
        key_of = _of_text(kind.key_type)
        entries, fits, keys = [], key_of is not None, set()
        for name, item in value:
            converted, left = self.value(item, kind.item_type, (*path, VALUES))
            fits = fits and left is FITS
            try:
                key = key_of(name) if key_of else name
            except Misfit:
                self._tell(self.report.misfit(path, name))
                fits = False
                continue
            # A map holds one NaN.
            keys.add("NaN" if isinstance(key, float) and math.isnan(key) else key)
            entries.append((key, converted))
        if len(keys) < len(entries):
            # No one of the values is the key's.
            self._tell(self.report.misfit(path, encode_json(value)))
            return None, value
        return entries if key_of else None, FITS if fits else value


def _of_text(kind: pa.DataType) -> Callable[[str], Any] | None:
    """How text of JSON becomes a value of a type that has no parts; None for types that have."""
    return conversion.from_base64 if pa.types.is_binary(kind) else conversion.scalar_of_text(kind)


def _check_named_once(value: Any) -> None:
    """Refuse a value of a new field in which an object names a field twice: a struct of it would have one column."""
    if isinstance(value, Object):
        if twice := named_twice(name for name, _ in value):
            raise TwiceNamed(f"it names {twice!r} twice, in different case")
        for _, item in value:
            _check_named_once(item)
    elif isinstance(value, list):
        for item in value:
            _check_named_once(item)


def _by_name(fields: Any) -> dict[str, tuple[int, pa.Field]]:
    return {folded(known.name): (at, known) for at, known in enumerate(fields)}


# The fast path.

_AS_WRITTEN: Final = (pa.types.is_string, pa.types.is_boolean, pa.types.is_float64, pa.types.is_decimal)


def _fast_schemas(terms: Terms) -> list[pa.Schema]:
    """The schemas to parse with; none where a type inside another has no form in JSON of its own.

    Epochs are numbers in most sources, so the time column is tried as a number, too.
    """
    fields = [_fast_field(column) for column in terms.columns]
    if not fields or any(column is None for column in fields):
        return []
    plain = pa.schema(fields)
    at = next((i for i, column in enumerate(terms.columns) if column.name == terms.time_column), None)
    return [plain] if at is None else [plain, plain.set(at, pa.field(terms.columns.names[at], pa.int64()))]


def _fast_field(column: pa.Field) -> pa.Field | None:
    if _is_plain(column.type):
        return pa.field(column.name, _carried(column.type))
    if pa.types.is_float32(column.type):
        return pa.field(column.name, pa.float64())
    if pa.types.is_temporal(column.type) or pa.types.is_binary(column.type):
        return pa.field(column.name, pa.string())
    return None


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return all(_is_plain(part.type) for part in conversion.parts_of(kind))
    return any(test(kind) for test in _AS_WRITTEN) or pa.types.is_signed_integer(kind)


def _carried(kind: pa.DataType) -> pa.DataType:
    """The type that the parser is given for one of its own. It shifts digits of decimals without a look at what no
    longer fits, so these get the room for all digits that it may read."""
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_carried(part.type)) for part in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_carried(kind.value_type)))
    if pa.types.is_decimal(kind) and kind.precision + kind.scale > _DIGITS:
        return pa.decimal256(kind.precision, kind.scale)
    return kind


def _holds_decimals(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) or any(_holds_decimals(part.type) for part in conversion.parts_of(kind))


def _is_fine(data: bytes) -> bool:
    """Whether JSON may hold a number with more digits after the point than the parser has powers of ten for."""
    return _MANY_DIGITS.search(data) is not None or (
        (b"e-" in data or b"E-" in data) and _SMALL_EXPONENT.search(data) is not None
    )


def _may_vanish(data: bytes) -> bool:
    """Whether JSON may hold a number so small that the parser takes it for 0."""
    return _ZEROS in data or _has_tiny(data, b"e-") or _has_tiny(data, b"E-")


def _has_tiny(data: bytes, sign: bytes) -> bool:
    # To look for the sign is many times faster than a pattern with it.
    at = data.find(sign)
    while at >= 0:
        if _TINY.match(data, at + len(sign)):
            return True
        at = data.find(sign, at + len(sign))
    return False


_ZEROS: Final = b"0" * 300
_TINY: Final = re.compile(rb"0*[1-9][0-9]{2}")
_MANY_DIGITS: Final = re.compile(rb"\.[0-9]{28}")
_SMALL_EXPONENT: Final = re.compile(rb"[\s:,\[\"][-+]?[0-9.]+[eE]-[0-9]{2,}[\s,\]}\"]")
_DIGITS: Final = 38
"""Decimal digits that always fit 128 bits."""


def _is_exact(array: pa.Array) -> bool:
    """Whether the parser cannot have changed a value: it rounds large integers in a double, and checks no precision."""
    kind = array.type
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return all(map(_is_exact, _parts(array)))
    if pa.types.is_float64(kind):
        return all_true(pc.less(pc.abs(array), float(EXACT_IN_DOUBLE)))
    if pa.types.is_decimal(kind):
        largest = pa.scalar(Decimal(10**kind.precision - 1).scaleb(-kind.scale, WIDE), kind)
        return all_true(pc.less_equal(pc.abs(array), largest))
    return True


def _holds_zero(array: pa.Array) -> bool:
    """Whether a double is 0, which may be one that the parser found too small."""
    if pa.types.is_struct(array.type) or pa.types.is_list(array.type):
        return any(map(_holds_zero, _parts(array)))
    return pa.types.is_float64(array.type) and bool(pc.any(pc.equal(array, 0.0)).as_py())


def _parts(array: pa.Array) -> list[pa.Array]:
    """The fields of an array of structs, the elements of one of lists; a struct without fields is text by then."""
    if pa.types.is_struct(array.type):
        return list(array.flatten())
    return [array.flatten()] if pa.types.is_list(array.type) else []


def _as_wanted(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The array in the contract's type; None where a value does not fit."""
    if array.type == kind:
        return array
    if pa.types.is_int64(array.type):
        return pc.cast(array, pa.string())
    if _is_plain(kind):
        return pc.cast(array, kind)
    if pa.types.is_float32(kind):
        narrow = pc.cast(array, kind, safe=False)
        return narrow if all_true(pc.equal(pc.cast(narrow, pa.float64()), array)) else None
    convert = _of_text(kind)
    assert convert is not None
    try:
        return pa.array([None if text is None else convert(text) for text in array.to_pylist()], kind)
    except Misfit:
        return None


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _concatenate(pieces: list[Parsed], columns: pa.Schema) -> Parsed:
    """The pieces as one, rows counted through."""
    if len(pieces) == 1:
        return pieces[0]
    arrays = [
        pa.concat_arrays([piece.columns[at] for piece in pieces]) if pieces else pa.array([], column.type)
        for at, column in enumerate(columns)
    ]
    lines: list[int] = []
    rescued: dict[int, str] = {}
    problems: dict[int, list[Problem]] = {}
    misfits: set[int] = set()
    texts: dict[int, str] = {}
    for piece in pieces:
        start = len(lines)
        rescued |= {start + row: text for row, text in piece.rescued.items()}
        problems |= {start + row: of_row for row, of_row in piece.problems.items()}
        misfits |= {start + row for row in piece.misfits}
        texts |= {start + row: text for row, text in piece.texts.items()}
        lines.extend(piece.lines)
    bad = [bad for piece in pieces for bad in piece.bad]
    return Parsed(arrays, lines, rescued, problems, frozenset(misfits), bad, texts)


# Inference.


@dataclass(slots=True)
class JsonInference:
    """The schema of all records it has seen: chunks that the parser takes under the schema so far add nothing to it."""

    encoding: str = "utf-8"
    kind: pa.StructType = field(default_factory=lambda: pa.struct([]))
    parser: JsonParser | None = None

    def see(self, lines: Sequence[bytes]) -> None:
        """Take some lines in; those that do not parse say nothing."""
        columns = None if self.parser is None else self.parser.objects_at_once(lines)
        if columns is not None and not self._learns(columns):
            return
        parser = self.parser or JsonParser(Terms(pa.schema([])), self.encoding)
        self._see(parser.numbered(lines))

    def _learns(self, columns: list[pa.Array]) -> bool:
        """Whether values that the parser took say more than is known."""
        return any(_adds(column, part.type) for column, part in zip(columns, self.kind))

    def _see(self, lines: list[tuple[int, bytes | None]]) -> None:
        if self.parser is None and len(lines) > FEW:
            # The first few tell what most of the others are like.
            self._see(lines[:FEW])
            self._see(lines[FEW:])
            return
        if self.parser is not None and self.parser.fast:
            columns = self.parser.at_once(lines)
            if columns is not None and not self._learns(columns):
                return
            if len(lines) > 4 * FEW:
                half = len(lines) // 2
                self._see(lines[:half])
                self._see(lines[half:])
                return
        before = self.kind
        for _, line in lines:
            try:
                records = _records(_text(line))
                for record in records:
                    _check_named_once(record)
            except (ValueError, RecursionError, TwiceNamed):
                continue
            for record in records:
                self.kind = inference.merged_structs(self.kind, inference.struct_of(record))
        if self.kind != before or self.parser is None:
            settled = [pa.field(part.name, inference.settled(part.type)) for part in self.kind]
            self.parser = JsonParser(Terms(pa.schema(settled)), self.encoding)


def _adds(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether values that the parser took may say more of their type than is known of it: the first of a column, what
    may be text that the parser takes for a decimal, or the first integer that a double may not hold, which matters if
    fractions follow."""
    if kind in (inference.NOTHING, inference.HUGE) or (pa.types.is_struct(kind) and not kind.num_fields):
        return bool(array.null_count < len(array))
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return any(_adds(part, inner.type) for part, inner in zip(_parts(array), conversion.parts_of(kind)))
    if kind != inference.SMALL or len(array) == array.null_count:
        return False
    ends = pc.min_max(array)
    return bool(max(abs(ends["min"].as_py()), abs(ends["max"].as_py())) > EXACT_IN_DOUBLE)
