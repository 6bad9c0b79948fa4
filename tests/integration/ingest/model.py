"""What an ingest must do, by the guide alone (docs/guide/ingesting.md): a dumb second opinion in plain Python.

`applied` takes the state of a table, the files of a batch and the options: it gives the state after it or the refusal.
It parses the bytes of the files with `json` and `csv` and shares no code with what it judges.

Where the guide can be read in two ways the cases keep away (`cases.py`) or both readings pass. What is assumed here:

- A number never fits a boolean. A lone surrogate is no text: the record does not parse.
- A record that names a column twice, in whatever case and at whatever depth, is a bad row.
- Text without a multiLine option ends at `\\n`, `\\r\\n` or `\\r`, and at nothing else.
- The bad row of one record among several of a line or a document holds that record, or all of the text.
- `5.0`, `1e2` and text such as `" 5"` are not offered to whole numbers.
- An array with an element, or a field of one, that does not fit is whole in `_rescued`; the column is null or the rest.
- Columns with nothing but null, of `k=v` directories, of empty lists, of lists of mixed values, of integers beyond
  `decimal(38,0)`, or beyond 2^53 and mixed with fractions: the type is the table's own affair, the value is not.
- A refused batch writes neither to the table nor to the bad-row table.
- Records whose time is no time count among the bad rows alone: the cases give them no new column and no misfit.
"""

from __future__ import annotations

import bz2
import csv
import datetime as dt
import gzip
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any

from tests.integration.ingest.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    NTZ,
    STRING,
    TIMESTAMP,
    WHOLE,
    Array,
    Atom,
    Dec,
    Map,
    Struct,
    Type,
    Unsure,
)  # fmt: skip

RESCUED = "_rescued"
CORRUPT = "_corrupt_record"
NESTED_TIME = "_event_time"
BUCKETS = {"month": "%Y%m", "day": "%Y%m%d", "hour": "%Y%m%d%H", "minute": "%Y%m%d%H%M", "second": "%Y%m%d%H%M%S"}
TEXT_OPTIONS = {
    "sep", "quote", "escape", "comment", "nullValue", "header", "multiLine", "encoding", "lineSep", "mode",
    "pathGlobFilter", "modifiedBefore", "modifiedAfter", "directoryColumns",
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "maxFileAge",
}  # fmt: skip
EPOCHS = {"epoch-seconds": 10**6, "epoch-millis": 10**3, "epoch-micros": 1}
PATTERNS = {
    "dd/MM/yyyy HH:mm:ss": "%d/%m/%Y %H:%M:%S",
    "yyyyMMdd'T'HHmmssXXX": "%Y%m%dT%H%M%S%z",
    "MM-dd-yyyy": "%m-%d-%Y",
}
"""Patterns of Spark's that the cases use, and Python's for the same."""


@dataclass(frozen=True)
class TextFile:
    """A file of JSON or CSV as it lies there."""

    path: str
    data: bytes


@dataclass(frozen=True)
class TypedFile:
    """A file (or, for Delta, a commit) of typed rows; `broken` are the bytes of a file that is none."""

    path: str
    columns: Struct
    rows: tuple[Mapping[str, Any], ...]
    nanoseconds: bool = False
    broken: bytes | None = None


File = TextFile | TypedFile


@dataclass(frozen=True)
class Options:
    """The arguments of an ingest that decide where a record goes."""

    source_format: str
    time_column: str = "ts"
    time_format: str | None = None
    bucket: str = "hour"
    schema: Struct | None = None
    merge: bool = False
    rescue: bool = False
    bad_rows: bool = False
    read: Mapping[str, str] = field(default_factory=dict)

    @property
    def bucket_column(self) -> str:
        return f"_event_{self.bucket}"

    @property
    def encoding(self) -> str:
        return self.read.get("encoding", "UTF-8")


@dataclass(frozen=True)
class Num:
    """A number of JSON as it is written."""

    text: str

    @property
    def whole(self) -> bool:
        return re.fullmatch(r"-?\d+", self.text) is not None


@dataclass(frozen=True)
class Csv:
    """Text of a CSV field or of a directory's name, of which nobody said what it is."""

    text: str


@dataclass(frozen=True)
class JsonText:
    """Text that, read as JSON, is this value."""

    value: Any


@dataclass(frozen=True)
class Kept:
    """The value in whatever type: as it is, or as its text."""

    value: Any


@dataclass(frozen=True)
class Either:
    """One or the other."""

    one: Any
    other: Any


NOTHING = object()
"""No leftover."""


@dataclass(frozen=True)
class Bad:
    """A bad row: its file, its line if it has one, and its text, or what the text must contain."""

    file: str
    line: int | None
    raw: str | bytes | None
    holds: str | None = None
    record: Any = None
    """The record, where the row as JSON will do."""
    in_file: bool = True
    """Whether it came from a file, not from a Delta table."""


@dataclass(frozen=True)
class Refusal:
    """The batch is refused: all words of one of the reasons are in the message."""

    reasons: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class State:
    """A table and its bad-row table; the columns without the bucket and `_rescued`, which the rows may have."""

    columns: Struct
    rows: tuple[Mapping[str, Any], ...] = ()
    bad: tuple[Bad, ...] = ()
    rescued: bool = False
    """Whether the column `_rescued` is needed."""


@dataclass(frozen=True)
class Done:
    """The state after a batch, and what its summary must say."""

    state: State
    rows: int
    null_bucket_rows: int
    bad_rows: int
    may_refuse: tuple[tuple[str, ...], ...] = ()
    """Reasons for a refusal that the guide leaves open: a new column that holds nothing but null."""


@dataclass
class Record:
    """A record of a source; without a value it does not parse."""

    file: str
    line: int | None
    raw: str | bytes | None
    value: dict[str, Any] | None
    columns: Struct | None = None
    """The types of a typed source."""
    directories: Mapping[str, Any] = field(default_factory=dict)
    shared: bool = False
    """Whether its bad row is the row as JSON: the text may hold others, too."""


@dataclass
class Findings:
    """What a batch has that the contract has not."""

    new: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    """New, but null in the record that has it."""
    misfits: list[str] = field(default_factory=list)


# Parsing


def _decompressed(file: TextFile) -> bytes:
    if file.path.endswith(".gz"):
        return gzip.decompress(file.data) if file.data else b""
    if file.path.endswith(".bz2"):
        return bz2.decompress(file.data) if file.data else b""
    return file.data


def _decoded(data: bytes, encoding: str) -> str | bytes:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return data


def _lines(data: bytes, options: Options) -> Iterator[tuple[int, str | bytes]]:
    """Lines that are not blank, with their number."""
    encoding = options.encoding
    if encoding != "UTF-8":
        parts: Sequence[str | bytes] = re.split(r"\r\n|\n|\r", data.decode(encoding))
    elif own := options.read.get("lineSep"):
        parts = [_decoded(line, encoding) for line in data.split(own.encode())]
    else:
        parts = [_decoded(line, encoding) for line in re.split(rb"\r\n|\n|\r", data)]
    for number, line in enumerate(parts, 1):
        if line.strip():
            yield number, line


class UnclearError(Exception):
    """The guide does not say where a value goes: `007` of CSV in a column of numbers."""


class _NoJson(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name.lower() for name, _ in pairs}) < len(pairs):
        raise _NoJson("a name twice")
    return dict(pairs)


def parsed_json(text: str) -> Any:
    """The value of a JSON text, with numbers as they are written."""
    text.encode()
    value = json.loads(text, object_pairs_hook=_object, parse_int=Num, parse_float=Num, parse_constant=Num)
    json.dumps(value, ensure_ascii=False, default=lambda number: number.text).encode()
    return value


def _json_records(file: TextFile, options: Options) -> Iterator[Record]:
    data = _decompressed(file)
    if options.read.get("multiLine") == "true":
        document = data.decode(options.encoding)
        texts: Iterator[tuple[int | None, str | bytes]] = iter([(None, document)] if document.strip() else [])
    else:
        texts = iter(_lines(data, options))
    for number, text in texts:
        try:
            value = parsed_json(text) if isinstance(text, str) else None
        except ValueError:
            value = None
        parts = value if isinstance(value, list) and all(isinstance(part, dict) for part in value) else [value]
        for part in parts:
            good = part if isinstance(part, dict) else None
            yield Record(file.path, number, text, good, shared=number is None or len(parts) > 1)


def _csv_texts(data: bytes, options: Options) -> Iterator[tuple[int, str | bytes]]:
    """Records of a CSV file with the line they begin at."""
    if options.read.get("multiLine") != "true":
        yield from _lines(data, options)
        return
    quote, number, begun, whole = options.read.get("quote", '"'), 1, 1, ""
    for piece in re.split(r"(\r\n|\n|\r)", data.decode(options.encoding)):
        if re.fullmatch(r"\r\n|\n|\r", piece):
            number += 1
            if whole.count(quote) % 2:
                whole += piece
                continue
            if whole.strip():
                yield begun, whole
            begun, whole = number, ""
        else:
            whole += piece
    if whole.strip():
        yield begun, whole


def _csv_fields(text: str | bytes, options: Options) -> list[str] | None:
    if isinstance(text, bytes):
        return None
    escape = options.read.get("escape", '"')
    try:
        (fields,) = csv.reader(
            [text], delimiter=options.read.get("sep", ","), quotechar=options.read.get("quote", '"'),
            doublequote=escape == '"', escapechar=None if escape == '"' else escape, strict=True,
        )  # fmt: skip
    except csv.Error:
        return None
    return fields


def _quoted_empty(text: str, options: Options) -> set[int]:
    """Which fields of a record are two quotes and nothing else."""
    sep, quote = options.read.get("sep", ","), options.read.get("quote", '"')
    escape = options.read.get("escape", '"')
    fields, begun, inside, place = [], 0, False, 0
    while place < len(text):
        if inside and escape != '"' and text[place] == escape:
            place += 1
        elif text[place] == quote:
            inside = not inside
        elif text[place] == sep and not inside:
            fields.append(text[begun:place])
            begun = place + 1
        place += 1
    return {number for number, part in enumerate([*fields, text[begun:]]) if part == quote * 2}


def _csv_records(file: TextFile, options: Options) -> Iterator[Record]:
    names: list[str] | None = None
    comment = options.read.get("comment")
    null = options.read.get("nullValue", "")
    shared = options.read.get("multiLine") == "true"
    for number, text in _csv_texts(_decompressed(file), options):
        if comment and isinstance(text, str) and text.startswith(comment):
            continue
        fields = _csv_fields(text, options)
        if names is None:
            if options.read.get("header", "true") != "false":
                assert fields is not None, "the cases have sane headers"
                names = fields
                continue
            if options.schema is not None:
                names = [name for name, _ in options.schema]
            else:
                names = [f"_c{place}" for place in range(len(fields or ()))]
        if fields is None or isinstance(text, bytes) or len(fields) != len(names):
            yield Record(file.path, None if shared else number, text, None)
            continue
        empty = _quoted_empty(text, options)
        values = [None if part == null and place not in empty else Csv(part) for place, part in enumerate(fields)]
        yield Record(file.path, None if shared else number, text, dict(zip(names, values)), shared=shared)


def _directories(path: str, options: Options) -> dict[str, Any]:
    if options.read.get("directoryColumns") == "false":
        return {}
    steps = [step.partition("=") for step in path.split("/")[:-1] if "=" in step]
    return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else Csv(value) for name, _, value in steps}


def _is_data(path: str) -> bool:
    return not any(step.startswith(("_", ".")) for step in path.split("/"))


def records_of(files: Sequence[File], options: Options) -> list[Record]:
    """All records of the files that are data."""
    records = []
    for file in files:
        if not _is_data(file.path):
            continue
        if isinstance(file, TypedFile):
            some = [Record(file.path, None, None, dict(row), file.columns) for row in file.rows]
        else:
            some = list((_json_records if options.source_format == "json" else _csv_records)(file, options))
        if options.source_format != "delta":
            for record in some:
                record.directories = _directories(file.path, options)
        records += some
    return records


# Times

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?",
)


def iso_time(text: str) -> dt.datetime | None:
    """The instant that a text names, in UTC where it has no zone; cut to microseconds."""
    parts = _ISO.fullmatch(text)
    if parts is None:
        return None
    day, clock, fraction, zone = parts.groups()
    if clock is None and zone is not None:
        return None
    try:
        time = dt.datetime.fromisoformat(f"{day}T{clock or '00:00'}{(zone or 'Z').replace('Z', '+00:00')}")
    except ValueError:
        return None
    return time.astimezone(dt.UTC).replace(microsecond=int((fraction or "0").ljust(6, "0")[:6]))


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _epoch_time(text: str, unit: str) -> dt.datetime | None:
    if not re.fullmatch(r"-?\d+", text):
        return None
    count = int(text)
    micros = count // 1000 if unit == "epoch-nanos" else count * EPOCHS[unit]
    try:
        return EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return None  # not in the years 1 to 9999


def text_time(text: str, time_format: str | None) -> dt.datetime | None:
    """The instant that a text of the time column names, or None if it is no time."""
    if time_format is None:
        return iso_time(text)
    if time_format.startswith("epoch-"):
        return _epoch_time(text, time_format)
    try:
        time = dt.datetime.strptime(text, PATTERNS[time_format])
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)


BAD_TIME, NUMBER = object(), object()


def event_time(value: Any, time_format: str | None) -> Any:
    """The time of a record: an instant, None, `BAD_TIME`, or `NUMBER` where nobody said what it counts."""
    if value is None:
        return None
    match value:
        case str() | Csv():
            text = value if isinstance(value, str) else value.text
            time = text_time(text, time_format)
            return None if not text else BAD_TIME if time is None else time
        case Num() | int():
            if time_format is None or not time_format.startswith("epoch-"):
                return NUMBER
            time = _epoch_time(value.text if isinstance(value, Num) else str(value), time_format)
            return BAD_TIME if time is None else time
        case dt.datetime():
            return value
        case dt.date():
            return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    raise TypeError(value)


def bucket_of(time: dt.datetime | None, bucket: str) -> str | None:
    """The bucket of a time; of one without zone the time as it is written."""
    return None if time is None else time.strftime(BUCKETS[bucket])


# Inference


def _numbers_type(numbers: Sequence[str]) -> Type:
    if all(re.fullmatch(r"-?\d+", text) for text in numbers):
        values = [int(text) for text in numbers]
        if all(-(2**63) <= value < 2**63 for value in values):
            return BIGINT
        return Dec(38, 0) if all(abs(value) < 10**38 for value in values) else Unsure()
    whole = [abs(int(text)) for text in numbers if re.fullmatch(r"-?\d+", text)]
    held = all(_into_double(text) is not None for text in numbers) and all(value <= 2**53 for value in whole)
    return DOUBLE if held else Unsure()


def inferred(values: Sequence[Any]) -> Type:
    """The type of all these values of JSON or CSV."""
    some = [value for value in values if value is not None]
    if not some:
        return Unsure()
    if all(isinstance(value, bool) for value in some):
        return BOOLEAN
    if all(isinstance(value, Num) for value in some):
        return _numbers_type([value.text for value in some])
    if all(isinstance(value, Csv) for value in some):
        texts = [value.text for value in some if value.text]
        return _csv_type(texts) if texts else Unsure()
    if all(isinstance(value, dict) for value in some):
        return extended(Struct(()), some)
    if all(isinstance(value, list) for value in some):
        parts = [part for value in some for part in value]
        kinds = {type(part) for part in parts if part is not None}
        element = inferred(parts) if len(kinds) == 1 else Unsure()
        return Unsure() if isinstance(element, Unsure) else Array(element)
    return STRING


_CANONICAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def _csv_type(texts: Sequence[str]) -> Type:
    if all(text in ("true", "false") for text in texts):
        return BOOLEAN
    if all(_CANONICAL.fullmatch(text) for text in texts):
        return _numbers_type(texts)
    return STRING


def extended(columns: Type, values: Sequence[Any]) -> Any:
    """The type with the fields that these values of JSON or CSV have and it has not, at any depth."""
    if isinstance(columns, Array):
        lists = [value for value in values if isinstance(value, list)]
        return Array(extended(columns.element, [part for value in lists for part in value]))
    if not isinstance(columns, Struct):
        return columns
    objects = [value for value in values if isinstance(value, dict)]
    by_name: dict[str, list[Any]] = {}
    for value in objects:
        for name, part in value.items():
            known = columns.find(name)
            spelled = known[0] if known else next((other for other in by_name if other.lower() == name.lower()), name)
            by_name.setdefault(spelled, []).append(part)
    for name, parts in by_name.items():
        known = columns.find(name)
        columns = columns.with_field(name, extended(known[1], parts) if known else inferred(parts))
    return columns


# One value into one type: the expected value and the leftover

CONSTANTS = ("NaN", "Infinity", "-Infinity")


def _into_double(text: str) -> float | None:
    number = float(text)
    if text in CONSTANTS:
        return number
    if math.isinf(number) or (number == 0 and re.search("[1-9]", text.lower().split("e")[0])):
        return None
    if re.fullmatch(r"-?\d+(\.0*)?", text) and int(number) != Decimal(text):
        return None
    return number


def _into_float(text: str) -> float | None:
    if text in CONSTANTS:
        return float(text)
    try:
        (number,) = struct.unpack("f", struct.pack("f", float(text)))
    except OverflowError:
        return None
    return number if number == float(text) else None


def _into_decimal(text: str, kind: Dec) -> Decimal | None:
    if text in CONSTANTS:
        return None
    with localcontext(prec=100):
        number = Decimal(text)
        scaled = number.scaleb(kind.scale)
        if scaled != scaled.to_integral_value() or abs(scaled) >= 10**kind.precision:
            return None
        return number


def _number(text: str, kind: Type) -> Any:
    """The number in that type, or None if it does not fit."""
    match kind:
        case Dec():
            return _into_decimal(text, kind)
        case Atom("double"):
            return _into_double(text)
        case Atom("float"):
            return _into_float(text)
        case Atom(name) if name in WHOLE and re.fullmatch(r"-?\d+", text):
            limit = 2 ** (WHOLE[name] - 1)
            return int(text) if -limit <= int(text) < limit else None
    return None


def _moment(text: str, kind: Type) -> Any:
    time = iso_time(text)
    if time is None or kind == TIMESTAMP:
        return time
    if kind == NTZ:
        return time.replace(tzinfo=None)
    return time.date() if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None


def _scalar(value: Any, kind: Type) -> Any:
    """A scalar of JSON or CSV in that type, or None if it does not fit."""
    moment = kind in (TIMESTAMP, NTZ, Atom("date"))
    match value:
        case Csv(text):
            if kind == STRING:
                return text
            if kind == BOOLEAN:
                return {"true": True, "false": False}.get(text)
            if moment:
                return _moment(text, kind)
            if not _CANONICAL.fullmatch(text) and re.fullmatch(r"[+-]?[\d.]+", text):
                raise UnclearError(f"{text!r} in a column of {kind}")
            return _number(text, kind) if _CANONICAL.fullmatch(text) else None
        case bool():
            return value if kind == BOOLEAN else None
        case Num(text):
            return _number(text, kind)
        case str():
            if moment:
                return _moment(value, kind)
            if isinstance(kind, Dec) and _CANONICAL.fullmatch(value):
                return _number(value, kind)
            return value if kind == STRING else float(value) if kind == DOUBLE and value in CONSTANTS else None
    return None


def placed(value: Any, kind: Type, path: str, findings: Findings) -> tuple[Any, Any]:
    """A value of JSON or CSV in the contract's type, and what did not fit."""
    if value is None:
        return None, NOTHING
    match kind, value:
        case Unsure(), _:
            return Kept(value), NOTHING
        case _, Csv("") if kind != STRING:
            return None, NOTHING
        case Atom("string"), bool() | Num() | dict() | list():
            return JsonText(value), NOTHING
        case Struct(), dict():
            return _placed_object(value, kind, path, findings)
        case Map(part), dict():
            parts = {name: placed(each, part, f"{path}.{name}", findings) for name, each in value.items()}
            if all(rest is NOTHING for _, rest in parts.values()):
                return {name: each for name, (each, _) in parts.items()}, NOTHING
            return Either(None, {name: each for name, (each, _) in parts.items()}), value
        case Array(part), list():
            elements = [placed(each, part, path, findings) for each in value]
            if all(rest is NOTHING for _, rest in elements):
                return [each for each, _ in elements], NOTHING
            return Either(None, [each for each, _ in elements]), value
    fit = _scalar(value, kind)
    if fit is None:
        findings.misfits.append(path)
        return None, value
    return fit, NOTHING


def _placed_object(value: dict[str, Any], kind: Struct, path: str, findings: Findings) -> tuple[dict[str, Any], Any]:
    ours: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, part in value.items():
        known = kind.find(name)
        below = f"{path}.{name}" if path else name
        if known is None:
            (findings.empty if part is None else findings.new).append(below)
            if part is not None:
                rest[name] = part
            continue
        ours[known[0]], left = placed(part, known[1], below, findings)
        if left is not NOTHING:
            rest[name] = left
    return ours, rest or NOTHING


# Typed sources


def widens(source: Type, target: Type) -> bool:
    """Whether every value of one type is exactly one of the other."""
    if source == target:
        return True
    match source, target:
        case Atom(a), Atom(b) if a in WHOLE and b in WHOLE:
            return WHOLE[a] <= WHOLE[b]
        case Atom("float"), Atom("double"):
            return True
        case Atom("tinyint" | "smallint"), Atom("float" | "double"):
            return True
        case Atom("int"), Atom("double"):
            return True
        case Atom(a), Dec(precision, scale) if a in WHOLE:
            return precision - scale >= {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[a]
        case Dec(), Dec():
            return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
    return False


def _union(one: Type, other: Type, path: str, refusals: list[tuple[str, ...]]) -> Type:
    """The type of a column that two files have."""
    match one, other:
        case Struct(), Struct():
            for name, kind in other:
                known = one.find(name)
                below = f"{path}.{name}" if path else name
                one = one.with_field(name, _union(known[1], kind, below, refusals) if known else kind)
            return one
        case Array(a), Array(b):
            return Array(_union(a, b, path, refusals))
    if widens(other, one):
        return one
    if widens(one, other):
        return other
    refusals.append((path.split(".")[0],))
    return one


def _with_new(kind: Type, source: Type) -> Any:
    """The contract with the fields that a typed source has and it has not."""
    match kind, source:
        case Struct(), Struct():
            for name, part in source:
                known = kind.find(name)
                kind = kind.with_field(name, _with_new(known[1], part) if known else part)
            return kind
        case Array(a), Array(b):
            return Array(_with_new(a, b))
    return kind


def _type_findings(source: Type, target: Type, path: str, findings: Findings) -> None:
    match source, target:
        case Struct(), Struct():
            for name, kind in source:
                known = target.find(name)
                below = f"{path}.{name}" if path else name
                if known is None:
                    findings.new.append(below)
                else:
                    _type_findings(kind, known[1], below, findings)
        case Array(a), Array(b):
            _type_findings(a, b, path, findings)
        case _:
            if not widens(source, target):
                findings.misfits.append(path)


def _typed_scalar(value: Any, source: Type, target: Type) -> Any:
    if widens(source, target):
        return float(value) if target in (DOUBLE, Atom("float")) else value
    numeric = {*WHOLE, "float", "double"}
    if not all(isinstance(kind, Dec) or (isinstance(kind, Atom) and kind.name in numeric) for kind in (source, target)):
        return None
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return value if target in (DOUBLE, Atom("float")) else None
        return _into_float(repr(value)) if target == Atom("float") else _number(repr(value), target)
    return _number(format(value, "f") if isinstance(value, Decimal) else str(value), target)


def placed_typed(value: Any, source: Type, target: Type) -> tuple[Any, Any]:
    """A value of a typed source in the contract's type, and what did not fit."""
    if value is None:
        return None, NOTHING
    match source, target:
        case _, Unsure():
            return Kept(value), NOTHING
        case Struct(), Struct():
            ours: dict[str, Any] = {}
            rest: dict[str, Any] = {}
            for name, kind in source:
                part = value.get(name)
                known = target.find(name)
                if known is None:
                    if part is not None:
                        rest[name] = part
                    continue
                ours[known[0]], left = placed_typed(part, kind, known[1])
                if left is not NOTHING:
                    rest[name] = left
            return ours, rest or NOTHING
        case Array(a), Array(b):
            elements = [placed_typed(each, a, b) for each in value]
            if all(left is NOTHING for _, left in elements):
                return [each for each, _ in elements], NOTHING
            return Either(None, [each for each, _ in elements]), value
        case Map(), Map() if source == target:
            return value, NOTHING
    fit = _typed_scalar(value, source, target)
    return (None, value) if fit is None else (fit, NOTHING)


# A batch


def _found(value: Mapping[str, Any] | None, path: str) -> Any:
    """The value at a dotted path, names in any case."""
    first, _, rest = path.partition(".")
    if value is None:
        return None
    exact = value.get(first)
    part = exact if exact is not None else next((v for k, v in value.items() if k.lower() == first.lower()), None)
    return _found(part, rest) if rest else part


def _without(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: part for key, part in value.items() if key.lower() != name.lower()}


def _early_refusals(files: Sequence[File], records: Sequence[Record], options: Options) -> list[tuple[str, ...]]:
    reasons: list[tuple[str, ...]] = []
    if options.read.get("mode") == "DROPMALFORMED":
        reasons.append(("DROPMALFORMED",))
    if options.source_format in ("json", "csv"):
        reasons += [(name,) for name in options.read if name not in TEXT_OPTIONS]
    reasons += [
        (file.path.split("/")[-1],) for file in files if isinstance(file, TypedFile) and file.broken is not None
    ]
    if options.rescue and any(RESCUED in (record.value or ()) for record in records):
        reasons.append((RESCUED,))
    return reasons


def _time_type(options: Options, time_name: str, records: Sequence[Record], state: State | None) -> Type:
    known = None if state is None else state.columns.find(time_name)
    if known is not None:
        return known[1]
    is_ntz = any(_type_at(record.columns, options.time_column) == NTZ for record in records)
    return NTZ if is_ntz else TIMESTAMP


def _type_at(columns: Type | None, path: str) -> Type | None:
    """The type at a dotted path; None where there is nothing."""
    for name in path.split("."):
        known = columns.find(name) if isinstance(columns, Struct) else None
        columns = None if known is None else known[1]
    return columns


def applied(state: State | None, files: Sequence[File], options: Options) -> Done | Refusal:
    """The state after a batch, or why it is refused."""
    permissive = options.read.get("mode") == "PERMISSIVE"
    typed = options.source_format in ("parquet", "delta")
    broken = any(isinstance(file, TypedFile) and file.broken is not None for file in files)
    records = [] if broken else records_of(files, options)
    reasons = _early_refusals(files, records, options)
    if reasons:
        return Refusal(tuple(reasons))

    bad: list[Bad] = []
    corrupt: list[Record] = []
    timed: list[tuple[Record, Any]] = []
    for record in records:
        if record.value is None:
            if permissive:
                corrupt.append(record)
            else:
                bad.append(Bad(record.file, record.line, record.raw))
            continue
        whole = record.value
        record.value = _without(whole, options.bucket_column)
        written = _found(record.value, options.time_column)
        time = event_time(written, options.time_format)
        if time is NUMBER:
            reasons.append((options.time_column.split(".")[-1],))
        elif time is BAD_TIME:
            holds = str(written) if typed else None
            shared = whole if record.shared else None
            bad.append(Bad(record.file, record.line, record.raw, holds, shared, options.source_format != "delta"))
        else:
            timed.append((record, time))
    if bad and not options.bad_rows and options.source_format == "delta":
        # Rows of a table are not known by their files.
        reasons.append((options.time_column.split(".")[-1], "is not a time"))
    elif bad and not options.bad_rows:
        reasons += [
            (each.file.split("/")[-1], *((f"line {each.line}",) if each.line is not None else ())) for each in bad
        ]

    nested = "." in options.time_column
    time_name = NESTED_TIME if nested else options.time_column
    time_type = _time_type(options, time_name, records, state)
    contract = options.schema or (state.columns if state else None)
    bare = [(record, time, record.value or {}) for record, time in timed]
    if not nested:
        bare = [(record, time, _without(value, time_name)) for record, time, value in bare]
    found = Findings()
    inference = contract is None
    wide = _without_field(contract or Struct(()), time_name)
    if inference and options.source_format == "json" and not any(record.value for record in records):
        reasons.append(("no record to infer a schema from",))
    if typed:
        wide = _typed_contract(wide, files, options, time_name, nested, inference, found, reasons)
    elif inference or options.merge:
        wide = extended(wide, [value for _, _, value in bare])
        if options.source_format == "csv":
            # The header names a column, whatever becomes of the records below it.
            headers = [dict.fromkeys(_without(record.value, time_name)) for record in records if record.value]
            wide = extended(wide, headers)
    wide = _with_directories(wide, files, options, inference or options.merge, found)
    if permissive and wide.find(CORRUPT) is None:
        wide = wide.with_field(CORRUPT, STRING if corrupt else Unsure())

    rows = [_row(*each, wide, time_name, time_type, options, found) for each in bare]
    rows += [{CORRUPT: record.raw, **_directory_values(record, wide)} for record in corrupt]
    if found.new:
        assert inference or not options.merge or typed, found
        if not options.rescue and not options.merge:
            reasons += [_named(path) for path in found.new]
    if found.misfits and not options.rescue:
        reasons += [_named(path) for path in found.misfits]
    empty = [] if options.merge else [_named(path) for path in found.empty]
    if reasons:
        return Refusal(tuple(dict.fromkeys([*reasons, *empty])))
    done = _done(state, wide, time_name, time_type, rows, bad)
    return replace(done, may_refuse=tuple(empty))


def _named(path: str) -> tuple[str, ...]:
    """What the message says of a column at a path: the name of the field."""
    return (path.rsplit(".", 1)[-1],)


def _without_field(columns: Struct, name: str) -> Struct:
    return Struct(tuple((key, kind) for key, kind in columns if key.lower() != name.lower()))


def _typed_contract(
    wide: Struct,
    files: Sequence[File],
    options: Options,
    time_name: str,
    nested: bool,
    inference: bool,
    found: Findings,
    reasons: list[tuple[str, ...]],
) -> Struct:
    """The contract for typed rows: widened over files where there is none, else what differs goes into `found`."""
    for file in files:
        assert isinstance(file, TypedFile)
        own = _without_field(file.columns, options.bucket_column)
        own = own if nested else _without_field(own, time_name)
        if inference:
            wide = _union(wide, own, "", reasons)  # type: ignore[assignment]
            continue
        if options.merge:
            wide = _with_new(wide, own)
        _type_findings(own, wide, "", found)
    return wide


def _with_directories(wide: Struct, files: Sequence[File], options: Options, grow: bool, found: Findings) -> Struct:
    """A directory gives its column whatever its files hold, even none of them a record."""
    for file in files if options.source_format != "delta" else ():
        for name in _directories(file.path, options) if _is_data(file.path) else ():
            if wide.find(name) is None and grow:
                wide = wide.with_field(name, Unsure())
            elif wide.find(name) is None:
                found.empty.append(name)
    return wide


def _directory_values(record: Record, wide: Struct) -> dict[str, Any]:
    ours, _ = _placed_object(dict(record.directories), wide, "", Findings())
    return ours


def _row(
    record: Record,
    time: dt.datetime | None,
    value: dict[str, Any],
    wide: Struct,
    time_name: str,
    time_type: Type,
    options: Options,
    found: Findings,
) -> dict[str, Any]:
    if record.columns is not None:
        ours, rest = placed_typed(value, _without_field(record.columns, options.bucket_column), wide)
        if "." not in options.time_column:
            source = _without_field(_without_field(record.columns, options.bucket_column), time_name)
            ours, rest = placed_typed(value, source, wide)
    else:
        ours, rest = _placed_object(value, wide, "", found)
    theirs, more = _placed_object(dict(record.directories), wide, "", found)
    row = {**ours, **theirs}
    left = {**({} if rest is NOTHING else rest), **({} if more is NOTHING else more)}
    if left:
        row[RESCUED] = left
    if time is not None:
        row[time_name] = time.replace(tzinfo=None) if time_type == NTZ else time.astimezone(dt.UTC)
        row[options.bucket_column] = bucket_of(row[time_name], options.bucket)
    return row


def _grown(known: Type, kind: Type) -> Type:
    """A column's type after a batch under a contract that may lack fields which the table has."""
    match known, kind:
        case Struct(), Struct():
            for name, part in kind:
                old = known.find(name)
                known = known.with_field(name, part if old is None else _grown(old[1], part))
            return known
        case Array(a), Array(b):
            return Array(_grown(a, b))
    return kind


def _done(
    state: State | None, wide: Struct, time_name: str, time_type: Type, rows: Sequence[dict[str, Any]], bad: list[Bad]
) -> Done:
    before = state or State(Struct(()))
    columns = before.columns
    for name, kind in wide.with_field(time_name, time_type):
        known = columns.find(name)
        columns = columns.with_field(name, kind if known is None else _grown(known[1], kind))
    rescued = before.rescued or any(RESCUED in row for row in rows)
    after = State(columns, (*before.rows, *rows), (*before.bad, *bad), rescued)
    nulls = sum(time_name not in row for row in rows)
    return Done(after, len(rows), nulls, len(bad))
