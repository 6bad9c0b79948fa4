"""A random case from its number: files of one format over a few batches, with all that real landings have in them.

Columns are missing, new, reordered, spelled in another case, nested, retyped; values are at the limits of their types
or do not fit; records do not parse; files are empty, compressed, in subdirectories. What the guide leaves open is left
out (`model.py` says what).
"""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from typing import Any

from tests.integration.ingest.model import EPOCH, File, Num, Options, TextFile, TypedFile, widens
from tests.integration.ingest.types import (
    BIGINT,
    BOOLEAN,
    DATE,
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
    ddl_of_columns,
)  # fmt: skip

KEY = "k"
FORMATS = ("json", "csv", "parquet", "delta")
NAMES = ["a", "b", "Value", "größe", "a.b", "select", "x-y", "日本", "camelCase", "n_1", "date", "_under"]
NEW_NAMES = ["extra", "Neu", "w.x", "more_2", "été", "straße", "strasse"]
FIELDS = ["p", "q", "Inner", "r.s", "ü"]
TEXTS = [
    "plain", "naïve café", "日本語", "007", "5", "true", "null", "NaN", 'say "hi"', "it's", "a,b;c|d\te",
    "back\\slash", " lead", "trail ", "😀", "{not json", "[1", "2026-02-10", "a\u2028b", "a\x85b", "-", "x" * 300,
    "#no comment", "%41", "a\x0bb", "e\u0301",
]  # fmt: skip
JSON_TEXTS = [*TEXTS, "", "line\nend", "\r\n", "tab\t", "\x00null", "\x1f"]
NO_TIMES = [
    "yesterday",
    "2026-13-01T00:00:00Z",
    "2026-02-30",
    "10:30:00",
    "now",
    "2026-02-10T25:00:00",
    "0x1F",
    "2026-02-10T10:00:00+99:00",
]
PATTERN_NO_TIMES = ["yesterday", "99/99/2026 00:00:00", "2026-02-10T10:00:00", "-"]
BAD_JSON = [
    '{"k": "cut", "ts": "2026-02', "garbage", "[1, 2]", "5", '"text"', "null",
    '{"k": "b1", "k": "b2"}', '{"k": Nan}', '{"k": +1}', '[{"k": 1}, 5]',
    "{'k': 1}", '{"k": "x"} trailing', '{"k": "x"}{"k": "y"}', '{"k": "x", "a": 01}',
    '{"k": "\\ud800"}', '{"k": "raw\ttab"}',
    '{"k": "x",}', '{"k": .5}', '{"k": tru}', '{"k": "x", "s": {"p": 1, "p": 2}}',
    '{"k": "x", "K": "y"}', '{"k": "\\x41"}', "}", '{"k": 1e}',
]  # fmt: skip
BAD_BYTES = [b'{"k": "\xff\xfe"}', b"\xc3\x28", b'{"k": "x"}\xe2\x28\xa1']
EVENING = dt.datetime(2026, 2, 10, 22, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Column:
    """A column of the case: its type, and whether its values are of mixed types (where nothing is said of types)."""

    name: str
    kind: Type
    mixed: bool = False


@dataclass(frozen=True)
class Batch:
    """The files of one batch and the options of its ingest."""

    files: tuple[File, ...]
    options: Options


@dataclass(frozen=True)
class Case:
    """Batches for one table, one after the other, by `ingest` or dropped before a stream."""

    number: int
    stream: bool
    key: str
    batches: tuple[Batch, ...]

    def __str__(self) -> str:
        lines = [
            f"case {self.number}: {'stream' if self.stream else 'batch'} of {self.batches[0].options.source_format}"
        ]
        for place, batch in enumerate(self.batches):
            options = {name: value for name, value in vars(batch.options).items() if value and name != "schema"}
            schema = f"; schema {ddl_of_columns(batch.options.schema)}" if batch.options.schema else ""
            lines.append(f"  batch {place}: {options}{schema}")
            lines += [f"    {file.path}: {_shown(file)}" for file in batch.files]
        return "\n".join(lines)


def _shown(file: File) -> str:
    if isinstance(file, TextFile):
        data = file.data
        if file.path.endswith(".gz"):
            data = gzip.decompress(data) if data else data
        elif file.path.endswith(".bz2"):
            data = bz2.decompress(data) if data else data
        return repr(data)
    return f"{ddl_of_columns(file.columns) if file.columns.fields else file.broken!r} {list(file.rows)}"


@dataclass
class Noise:
    """How likely each trouble is in a batch."""

    null: float = 0.15
    absent: float = 0.1
    no_time: float = 0.08
    new: float = 0.0
    nested: float = 0.0
    misfit: float = 0.0
    bad: float = 0.0
    bad_time: float = 0.0
    retype: float = 0.0


@dataclass
class Plan:
    """What all batches of a case share."""

    drawn: random.Random
    source_format: str
    columns: list[Column]
    time_column: str
    time_format: str | None
    times: str
    """How the time is written: text, epoch, and for typed sources tz, ntz, date."""
    typed: bool
    """Whether a schema is given."""
    read: dict[str, str]
    directories: str | None = None
    """The column that directories give."""
    new: dict[str, Type] = field(default_factory=dict)
    """Types of the new columns that batches brought."""
    serial: Iterator[int] = field(default_factory=lambda: count(1))

    def key(self) -> str:
        return f"r{next(self.serial)}"


def case(number: int) -> Case:
    """The case of that number."""
    drawn = random.Random(number)
    source_format = drawn.choices(FORMATS, [4, 4, 3, 1])[0]
    stream = drawn.random() < 0.3
    plan = _plan(drawn, source_format, stream)
    bucket = drawn.choice(["hour", "hour", "day", "month"])
    schema = _schema(plan) if plan.typed else None
    batches = []
    for place in range(drawn.choice([1, 2, 2, 3]) if not stream else drawn.choice([2, 2, 3])):
        noise = _noise(drawn)
        if stream and source_format == "delta":
            noise.new = noise.nested = noise.retype = 0
        options = Options(
            source_format, plan.time_column, plan.time_format, bucket,
            schema if place == 0 or plan.read.get("header") == "false" or drawn.random() < 0.3 else None,
            merge=drawn.random() < (0.6 if noise.new or noise.nested else 0.25),
            rescue=drawn.random() < (0.65 if noise.misfit or noise.retype else 0.3),
            bad_rows=drawn.random() < (0.75 if noise.bad or noise.bad_time else 0.3),
            read=plan.read,
        )  # fmt: skip
        if plan.read.get("mode") == "PERMISSIVE":
            options = replace(options, merge=True)
        batches.append(Batch(tuple(_files(plan, noise, place)), options))
    if drawn.random() < 0.06:
        batches[-1] = _hopeless(drawn, batches[-1])
    key = KEY if plan.read.get("header") != "false" or plan.typed else "_c0"
    return Case(number, stream, key, tuple(batches))


def lenient(options: Options) -> Options:
    """The options under which what was refused is taken."""
    return replace(options, merge=True, rescue=True, bad_rows=True)


def _hopeless(drawn: random.Random, batch: Batch) -> Batch:
    """The batch with something in it that no option helps against."""
    options = batch.options
    if options.source_format == "parquet":
        broken = TypedFile(
            "sub/no.parquet", Struct(()), (), broken=drawn.choice([b"PAR1 but no footer", b"", b"x,y\n1,2\n"])
        )
        return Batch((*batch.files, broken), options)
    if options.source_format == "delta":
        return batch
    chance = drawn.random()
    if chance < 0.3 and options.source_format == "json" and "encoding" not in options.read:
        own = TextFile("own.json", b'{"k": "own", "_rescued": "x"}')
        return Batch((*batch.files, own), replace(options, rescue=True))
    if chance < 0.6:
        return Batch(batch.files, replace(options, read={**options.read, "mode": "DROPMALFORMED"}))
    return Batch(batch.files, replace(options, read={**options.read, "dateFormat": "yyyy"}))


def _noise(drawn: random.Random) -> Noise:
    noise = Noise(null=drawn.choice([0, 0.1, 0.3]), absent=drawn.choice([0, 0.1, 0.3]), no_time=drawn.choice([0, 0.1]))
    for name, chance in [
        ("new", 0.3),
        ("nested", 0.3),
        ("misfit", 0.35),
        ("bad", 0.35),
        ("bad_time", 0.3),
        ("retype", 0.35),
    ]:
        if drawn.random() < chance:
            setattr(noise, name, drawn.choice([0.08, 0.25]))
    return noise


def _plan(drawn: random.Random, source_format: str, stream: bool) -> Plan:
    typed_source = source_format in ("parquet", "delta")
    typed = drawn.random() < 0.55
    read: dict[str, str] = {}
    if source_format == "csv":
        read |= drawn.choice(
            [
                {},
                {},
                {"sep": ";"},
                {"sep": "\t"},
                {"sep": "|", "quote": "'"},
                {"escape": "\\"},
                {"comment": "#"},
                {"nullValue": "NA"},
            ]
        )
        if drawn.random() < 0.12:
            read |= {"header": "false"}
    if not typed_source:
        if drawn.random() < 0.2:
            read |= {"multiLine": "true"}
        elif drawn.random() < 0.1:
            read |= drawn.choice([{"encoding": "ISO-8859-1"}, {"encoding": "UTF-16LE", "multiLine": "true"}])
        elif drawn.random() < 0.08:
            read |= {"mode": drawn.choice(["PERMISSIVE", "FAILFAST"])}
    if drawn.random() < 0.06 and source_format != "delta":
        read |= {"directoryColumns": "false"}
    names = drawn.sample(NAMES, drawn.randint(1, 5))
    scalar = source_format == "csv"
    columns = [
        Column(name, _random_type(drawn, 0 if scalar else 2, source_format, typed or typed_source),
               mixed=not typed and not typed_source and drawn.random() < 0.15)
        for name in names
    ]  # fmt: skip
    forms = (
        ["tz", "tz", "ntz", "date", "text", "epoch", "pattern"]
        if typed_source
        else ["text", "text", "epoch", "pattern"]
    )
    times = drawn.choice(forms)
    time_format = None
    if times == "epoch":
        time_format = drawn.choice(["epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"])
    elif times == "pattern":
        time_format = drawn.choice(["dd/MM/yyyy HH:mm:ss", "yyyyMMdd'T'HHmmssXXX", "MM-dd-yyyy"])
    time_column = "meta.ts" if not scalar and drawn.random() < 0.15 else "ts"
    if read.get("header") == "false" and not typed:
        time_column = "_c1"
    directories = drawn.choice([None, None, None, "region", "num"]) if source_format != "delta" else None
    if read.get("header") == "false":
        directories = None
    return Plan(drawn, source_format, columns, time_column, time_format, times, typed, read, directories)


def _random_type(drawn: random.Random, depth: int, source_format: str, typed: bool) -> Type:
    if depth and drawn.random() < 0.4:
        if drawn.random() < 0.55:
            names = drawn.sample(FIELDS, drawn.randint(1, 3))
            return Struct(tuple((name, _random_type(drawn, depth - 1, source_format, typed)) for name in names))
        if typed and drawn.random() < 0.25:
            return Map(drawn.choice([BIGINT, STRING, DOUBLE]))
        return Array(_random_type(drawn, depth - 1, source_format, typed))
    atoms: list[Type] = [BIGINT, DOUBLE, BOOLEAN, STRING, Dec(38, 0)]
    if typed:
        atoms += [
            Atom("tinyint"),
            Atom("smallint"),
            Atom("int"),
            Atom("int"),
            Atom("float"),
            Dec(5, 2),
            Dec(38, 18),
            Dec(20, 0),
            TIMESTAMP,
            DATE,
        ]
        if source_format in ("parquet", "delta"):
            atoms.append(Atom("binary"))
    return drawn.choice(atoms)


def _time_field(plan: Plan) -> Type:
    if plan.source_format in ("json", "csv"):
        return STRING
    return {"tz": TIMESTAMP, "ntz": NTZ, "date": DATE, "text": STRING, "pattern": STRING, "epoch": BIGINT}[plan.times]


def _schema(plan: Plan) -> Struct:
    fields: list[tuple[str, Type]] = [(KEY, STRING)]
    if plan.time_column == "ts":
        fields.append(("ts", NTZ if plan.times == "ntz" else TIMESTAMP))
    else:
        fields.append(("meta", Struct((("ts", _time_field(plan)), ("note", STRING)))))
    fields += [(column.name, column.kind) for column in plan.columns]
    if plan.directories and plan.drawn.random() < 0.6:
        fields.append((plan.directories, Atom("int") if plan.directories == "num" else STRING))
    return Struct(tuple(fields))


# Times


def _time(plan: Plan) -> dt.datetime:
    drawn = plan.drawn
    if drawn.random() < 0.05:
        return drawn.choice(
            [
                dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
                dt.datetime(1900, 1, 1, tzinfo=dt.UTC),
                dt.datetime(2999, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
            ]
        )
    return EVENING + dt.timedelta(
        hours=drawn.randint(0, 3), minutes=drawn.randint(0, 59), seconds=drawn.choice([0, 1, 59])
    )


def _time_text(plan: Plan) -> str:
    """A time as text, in one of the forms of the guide, or by the pattern."""
    drawn, time = plan.drawn, _time(plan)
    if plan.times == "pattern":
        assert plan.time_format is not None
        zone = dt.timezone(dt.timedelta(minutes=drawn.choice([60, -330])))
        return {
            "dd/MM/yyyy HH:mm:ss": time.strftime("%d/%m/%Y %H:%M:%S"),
            "yyyyMMdd'T'HHmmssXXX": _zoned(time.astimezone(zone)),
            "MM-dd-yyyy": time.strftime("%m-%d-%Y"),
        }[plan.time_format]
    form = drawn.randint(0, 7)
    if form == 0:
        return time.strftime("%Y-%m-%d")
    if form == 1:
        return time.strftime("%Y-%m-%d %H:%M:%S")
    if form == 2:
        return time.strftime("%Y-%m-%dT%H:%M:%S") + drawn.choice([".1", ".123", ".000001", ".999999"])
    if form == 3:
        return time.strftime("%Y-%m-%dT%H:%M:%S") + drawn.choice(["Z", ".5Z", ".123456Z"])
    if form == 4:
        return time.astimezone(dt.timezone(dt.timedelta(hours=drawn.choice([1, -8, 14])))).isoformat()
    if form == 5:
        return time.astimezone(dt.timezone(dt.timedelta(minutes=330))).isoformat(sep=" ")
    return time.isoformat().replace("+00:00", "Z")


def _zoned(time: dt.datetime) -> str:
    return time.strftime("%Y%m%dT%H%M%S") + time.isoformat()[-6:]


def _epoch(plan: Plan) -> int:
    time = _time(plan)
    if plan.time_format == "epoch-nanos" and time.year > 2200:
        time = time.replace(year=2200)  # nanoseconds have 64 bits
    micros = (time - EPOCH) // dt.timedelta(microseconds=1)
    if plan.time_format == "epoch-nanos":
        return micros * 1000 + (plan.drawn.choice([0, 999]) if micros > 0 else 0)
    return micros // {"epoch-seconds": 10**6, "epoch-millis": 10**3, "epoch-micros": 1}[plan.time_format or ""]


def _bad_time(plan: Plan) -> Any:
    if plan.time_format in ("epoch-seconds", "epoch-millis", "epoch-micros") and plan.drawn.random() < 0.3:
        beyond = 3 * 10**17 * 10 ** (0 if plan.time_format != "epoch-micros" else 1)
        return Num(str(beyond))
    return plan.drawn.choice(PATTERN_NO_TIMES if plan.time_format else NO_TIMES)


# Values


def _digits(drawn: random.Random, kind: Dec) -> str:
    room = kind.precision - kind.scale
    whole = drawn.choice(["0", "1", "9" * room or "0", "12"[: max(1, room)], _some_digits(drawn, room) or "0"])
    parts = ["", "." + "9" * kind.scale, ".5", ".25"[: kind.scale + 1], "." + _some_digits(drawn, kind.scale)]
    part = drawn.choice(parts) if kind.scale else ""
    return (drawn.choice(["", "-"]) if whole + part != "0" else "") + whole + part


def _some_digits(drawn: random.Random, most: int) -> str:
    """Up to so many digits, of which the first is not zero."""
    count = drawn.randint(min(1, most), most)
    return str(drawn.randrange(10 ** (count - 1), 10**count)) if count else ""


def _whole(drawn: random.Random, bits: int) -> int:
    return drawn.choice([0, 1, -1, 42, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), drawn.randint(-100, 100)])


def _value(plan: Plan, kind: Type) -> Any:
    """A value of JSON that fits the type."""
    drawn = plan.drawn
    match kind:
        case Atom(name) if name in WHOLE:
            return Num(str(_whole(drawn, WHOLE[name])))
        case Atom("double"):
            return Num(
                drawn.choice(
                    [
                        "1.5",
                        "0.1",
                        "-2.25",
                        "3",
                        "9007199254740992",
                        "0.30000000000000004",
                        *(
                            ["-2.5e-7", "1.7976931348623157e308", "5e-324", "1E5", "100.0"]
                            if plan.source_format == "json" or plan.typed
                            else []
                        ),
                    ]
                )
            )
        case Atom("float"):
            return Num(drawn.choice(["1.5", "0.25", "-3.125", "16777216", "7"]))
        case Dec():
            digits = Num(_digits(drawn, kind))
            return digits.text if plan.typed and plan.source_format == "json" and drawn.random() < 0.1 else digits
        case Atom("boolean"):
            return drawn.random() < 0.5
        case Atom("string"):
            if plan.source_format == "json":
                return drawn.choice(JSON_TEXTS)
            return _csv_text(plan)
        case Atom("timestamp"):
            return _time_text(replace(plan, times="text"))
        case Atom("date"):
            return _time(plan).strftime("%Y-%m-%d")
        case Struct(fields):
            whole = {name: _value(plan, part) for name, part in fields}
            keep = drawn.choice([name for name, _ in fields])
            return {name: part for name, part in whole.items() if name == keep or drawn.random() > 0.2}
        case Map(part):
            return {name: _value(plan, part) for name in drawn.sample(["x", "y z", "ä"], drawn.randint(1, 2))}
        case Array(part):
            some = [_value(plan, part) for _ in range(drawn.randint(0, 3))]
            return [None if drawn.random() < 0.1 else each for each in some]
    raise TypeError(kind)


def _csv_text(plan: Plan) -> str:
    texts = [text for text in TEXTS if text != "#no comment" or "comment" not in plan.read]
    if plan.read.get("multiLine") == "true":
        texts += ["line\nend", "two\r\nlines"]
    if plan.read.get("escape") == "\\":
        texts = [text for text in texts if "\\" not in text]
    if not plan.typed:
        texts += ["+1", "1.", "00"]
    return plan.drawn.choice(texts)


def _misfit(plan: Plan, kind: Type) -> Any:
    """A value of JSON that does not fit the type; of text, which takes all, one that fits."""
    drawn = plan.drawn
    csv = plan.source_format == "csv"
    wrong: list[Any] = ["no such", *([] if csv else [True, {"odd": Num("1")}])]
    match kind:
        case Atom(name) if name in WHOLE:
            bits = WHOLE[name]
            return drawn.choice([*wrong, Num("1.5"), Num(str(2 ** (bits - 1))), Num(str(-(2 ** (bits - 1)) - 1))])
        case Atom("double"):
            return drawn.choice([*wrong, Num("9007199254740993"), Num("-9007199254740993")])
        case Atom("float"):
            return drawn.choice([*wrong, Num("16777217"), Num("1e39")])
        case Dec():
            return drawn.choice(
                [*wrong, Num("1." + "0" * kind.scale + "1"), Num("1" + "0" * (kind.precision - kind.scale))]
            )
        case Atom("boolean"):
            return drawn.choice([Num("2"), "yes"])
        case Atom("string"):
            return (
                _value(plan, kind)
                if csv
                else drawn.choice(
                    [
                        Num("5"),
                        Num("1.50"),
                        Num("12345678901234567890.5"),
                        True,
                        {"o": [Num("1"), None, "x"]},
                        [Num("1")],
                    ]
                )
            )
        case Atom("timestamp") | Atom("date"):
            return drawn.choice(["no such", "2026-02-30", *([] if csv else [True])])
        case Struct(fields):
            if drawn.random() < 0.4:
                return drawn.choice([Num("5"), "no such", [Num("1")]])
            name, part = drawn.choice(fields)
            return {**_value(plan, kind), name: _misfit(plan, part)}
        case Array(part):
            if drawn.random() < 0.4:
                return drawn.choice([Num("5"), "no such", {"o": Num("1")}])
            return [_value(plan, part), _misfit(plan, part)]
        case Map():
            return drawn.choice([Num("5"), "no such", [Num("1")]])
    raise TypeError(kind)


def _with_new_field(plan: Plan, value: Any) -> Any:
    """The value with a new field in one of its objects, if it has any."""
    if isinstance(value, dict):
        name = plan.drawn.choice(["fresh", "Later"])
        deeper = [key for key, part in value.items() if isinstance(part, (dict, list))]
        if deeper and plan.drawn.random() < 0.4:
            key = plan.drawn.choice(deeper)
            return {**value, key: _with_new_field(plan, value[key])}
        return {**value, name: plan.drawn.choice([Num("7"), "new", True, {"deep": Num("1.5")}, [Num("1"), Num("2")]])}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_with_new_field(plan, value[0]), *value[1:]]
    return value


# Text files


def _other_case(drawn: random.Random, name: str) -> str:
    spelled = drawn.choice([name.upper(), name.lower(), name.title()])
    return spelled if spelled.lower() == name.lower() else name


def _respelled(drawn: random.Random, value: Any, kind: Type) -> Any:
    """The value with some names of fields in another case."""
    if isinstance(kind, Struct) and isinstance(value, dict):
        return {_other_case(drawn, name): part for name, part in value.items()}
    if isinstance(kind, Array) and isinstance(value, list):
        return [_respelled(drawn, part, kind.element) for part in value]
    return value


def _paths(plan: Plan, place: int, count: int) -> list[str]:
    drawn = plan.drawn
    suffixes = {"json": [".json", ".jsonl", ".ndjson"], "csv": [".csv"], "parquet": [".parquet"], "delta": [".parquet"]}
    paths = []
    for number in range(count):
        below = drawn.choice(["", "", "sub/", "a b/deep/er/", "2026-02/", "ü%20x/"])
        if plan.directories and drawn.random() < 0.7:
            values = (
                ["1", "42", "7"]
                if plan.directories == "num"
                else ["eu", "us-west", "007", "__HIVE_DEFAULT_PARTITION__", "a b"]
            )
            below += f"{plan.directories}={drawn.choice(values)}/"
        name = (
            drawn.choice(["f", "part ", "ö-", "x%2Fy", "a+b"])
            + f"{place}{number}"
            + drawn.choice(suffixes[plan.source_format])
        )
        if plan.source_format in ("json", "csv") and plan.read.get("encoding") is None:
            name += drawn.choice(["", "", "", ".gz", ".bz2"])
        paths.append(below + name)
    return paths


def _files(plan: Plan, noise: Noise, place: int) -> list[File]:
    drawn = plan.drawn
    if plan.source_format in ("parquet", "delta"):
        return _typed_files(plan, noise, place)
    paths = _paths(plan, place, drawn.randint(1, 5))
    files: list[File] = []
    new = _new_columns(plan, noise)
    for number, path in enumerate(paths):
        rows = drawn.choice([1, 3, 6, 10]) if number == 0 else drawn.choice([0, 0, 1, 4, 10])
        lines = _file_lines(plan, noise, rows, new, first=place == 0 and number == 0)
        files.append(TextFile(path, _packed(path, lines)))
    if drawn.random() < 0.3:
        files.append(
            TextFile(drawn.choice(["_SUCCESS", "_tmp/x.json", ".hidden.json", "sub/_part.csv"]), b"not, data\n")
        )
    return files


def _packed(path: str, data: bytes) -> bytes:
    if path.endswith(".gz"):
        return gzip.compress(data, 1, mtime=0)
    return bz2.compress(data, 1) if path.endswith(".bz2") else data


def _new_columns(plan: Plan, noise: Noise) -> dict[str, Type]:
    """New columns of a batch, with one type for all its files."""
    if not noise.new or plan.read.get("header") == "false":
        return {}
    names = plan.drawn.sample(NEW_NAMES, plan.drawn.randint(1, 2))
    typed = plan.source_format in ("parquet", "delta")
    kinds = {}
    for name in names:
        kind = plan.new.get(name)
        while kind is None or (typed and not _plain_json(kind)):
            kind = _random_type(plan.drawn, 0 if plan.source_format == "csv" else 2, plan.source_format, typed)
        plan.new[name] = kinds[name] = kind
    return kinds


def _plain_json(kind: Type) -> bool:
    """Whether the JSON of every value of a typed source is beyond doubt."""
    match kind:
        case Atom(name):
            return name not in ("binary", "timestamp", "date", "timestamp_ntz")
        case Array(part) | Map(part):
            return _plain_json(part)
        case Struct(fields):
            return all(_plain_json(part) for _, part in fields)
    return True


def _file_lines(plan: Plan, noise: Noise, rows: int, new: dict[str, Type], first: bool) -> bytes:
    drawn = plan.drawn
    columns = [Column(KEY, STRING), *plan.columns]
    if not rows:
        columns = columns[:1]
    elif plan.read.get("header") != "false":
        columns = [column for column in columns if column.name == KEY or drawn.random() > 0.15]
        columns += [Column(name, kind) for name, kind in new.items() if drawn.random() < 0.6]
        drawn.shuffle(columns)
    spelling = {name: name for name in ("ts", *(column.name for column in columns))}
    if drawn.random() < 0.2 and plan.read.get("header") != "false":
        spelling = {name: _other_case(drawn, name) for name in spelling}
    records: list[Any] = []
    for number in range(rows):
        records.append(_record(plan, noise, columns, spelling, new, first and number == 0))
        if noise.bad and drawn.random() < noise.bad * 1.5:
            records.append(None)
    if plan.source_format == "json":
        return _json_file(plan, records)
    return _csv_file(plan, columns, spelling, records)


def _record(
    plan: Plan, noise: Noise, columns: Sequence[Column], spelling: dict[str, str], new: dict[str, Type], sound: bool
) -> dict[str, Any]:
    drawn = plan.drawn
    bad_time = not sound and drawn.random() < noise.bad_time
    record: dict[str, Any] = {}
    for column in columns:
        if column.name == KEY:
            record[spelling[KEY]] = plan.key()
            continue
        if bad_time:
            continue
        if plan.typed and column.kind == DOUBLE and plan.source_format == "json" and drawn.random() < 0.05:
            record[spelling[column.name]] = drawn.choice([Num("NaN"), Num("-Infinity"), "NaN", "Infinity"])
            continue
        if plan.typed and plan.source_format == "csv" and "nullValue" not in plan.read and drawn.random() < 0.05:
            record[spelling[column.name]] = "" if column.name not in new else None
            continue
        chance = drawn.random()
        if chance < noise.absent and plan.source_format == "json":
            continue
        if chance < noise.absent + noise.null and column.name not in new:
            record[spelling[column.name]] = None
            continue
        kind = column.kind
        if column.mixed:
            kind = drawn.choice([BIGINT, BOOLEAN, STRING, DOUBLE, Dec(38, 0)])
        fits = column.name in new or sound or drawn.random() >= noise.misfit
        value = _value(plan, kind) if fits else _misfit(plan, kind)
        if not sound and drawn.random() < noise.nested and not isinstance(column.kind, Map):
            value = _with_new_field(plan, value)
        if spelling[KEY] != KEY:
            value = _respelled(drawn, value, column.kind)
        record[spelling[column.name]] = value
    time: Any
    if bad_time:
        time = _bad_time(plan)
    elif not sound and drawn.random() < noise.no_time:
        time = "" if plan.source_format == "json" and drawn.random() < 0.3 else None
    elif plan.times == "epoch":
        time = Num(str(_epoch(plan)))
        if plan.source_format == "json" and drawn.random() < 0.3:
            time = time.text
    else:
        time = _time_text(plan)
    if plan.time_column == "meta.ts":
        if time is not None or drawn.random() < 0.5:
            record["meta"] = {"note": "n", "ts": time} if drawn.random() < 0.5 else {"ts": time, "note": None}
    elif time is not None or drawn.random() < 0.5:
        record[spelling["ts"]] = time
    if drawn.random() < 0.03 and plan.source_format == "json" and not bad_time:
        record["_event_hour"] = "1999010100"
    return record


def _json_text(drawn: random.Random, value: Any) -> str:
    gap = drawn.choice(["", " "])
    match value:
        case Num(text):
            return text
        case dict():
            parts = [
                f"{json.dumps(name, ensure_ascii=drawn.random() < 0.3)}:{gap}{_json_text(drawn, part)}"
                for name, part in value.items()
            ]
            return "{" + f",{gap}".join(parts) + "}"
        case list():
            return "[" + f",{gap}".join(_json_text(drawn, part) for part in value) + "]"
    return json.dumps(value, ensure_ascii=drawn.random() < 0.3)


def _json_file(plan: Plan, records: Sequence[Any]) -> bytes:
    drawn = plan.drawn
    encoding = plan.read.get("encoding", "UTF-8")
    if plan.read.get("multiLine") == "true":
        good = [_shuffled(drawn, record) for record in records if record is not None]
        if None in records and drawn.random() < 0.4:
            return drawn.choice(['{"k": "cut",\n "a": [1', "garbage\nof lines\n", "5"]).encode(encoding)
        if not good:
            return b""
        if len(good) == 1 and drawn.random() < 0.6:
            return (json_pretty(_json_text(drawn, good[0])) + "\n").encode(encoding)
        return ("[\n" + ",\n".join(_json_text(drawn, record) for record in good) + "\n]").encode(encoding)
    lines: list[bytes] = []
    listed: list[bytes] = []
    for record in records:
        if record is None:
            raw = drawn.choice(BAD_JSON) + (f" {plan.key()}" if "mode" in plan.read else "")
            plain = encoding == "UTF-8" and "mode" not in plan.read and drawn.random() < 0.15
            lines.append(drawn.choice(BAD_BYTES) if plain else raw.encode(encoding))
        else:
            text = _encoded(_json_text(drawn, _shuffled(drawn, record)), encoding)
            if lines and lines[-1][:1] == b"{" and encoding == "UTF-8" and listed and drawn.random() < 0.3:
                text = b"[" + listed.pop() + b", " + text + b"]"
                lines.pop()
            elif encoding == "UTF-8":
                listed = [text]
            lines.append(text)
            continue
        listed = []
    return _joined(plan, lines, encoding)


def json_pretty(text: str) -> str:
    """The text of an object over several lines: line ends where JSON has blanks, outside of texts."""
    return "{\n" + text[1:-1] + "\n}"


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(json.loads(text), ensure_ascii=True).encode(encoding)


def _shuffled(drawn: random.Random, record: dict[str, Any]) -> dict[str, Any]:
    items = list(record.items())
    if drawn.random() < 0.3:
        drawn.shuffle(items)
    return dict(items)


def _joined(plan: Plan, lines: list[bytes], encoding: str) -> bytes:
    drawn = plan.drawn
    end = drawn.choice(["\n", "\n", "\r\n", "\r"]).encode(encoding)
    if drawn.random() < 0.2:
        lines.insert(drawn.randint(0, len(lines)), b"")
    return end.join(lines) + (end if lines and drawn.random() < 0.7 else b"")


def _csv_file(plan: Plan, columns: Sequence[Column], spelling: dict[str, str], records: Sequence[Any]) -> bytes:
    drawn = plan.drawn
    encoding = plan.read.get("encoding", "UTF-8")
    names = [spelling[column.name] for column in columns]
    place = 1 if plan.read.get("header") == "false" else drawn.randint(0, len(names))
    names.insert(place, spelling["ts"])
    if not records and (drawn.random() < 0.5 or plan.read.get("header") == "false"):
        return b""
    lines: list[bytes] = []
    if plan.read.get("header") != "false":
        lines.append(_csv_line(plan, names))
    if "comment" in plan.read and drawn.random() < 0.4:
        lines.insert(drawn.randint(0, len(lines)), b"# a comment, before, the first, record")
    for record in records:
        if record is None:
            lines.append(_bad_csv(plan, len(names)))
            continue
        fields = [_csv_field(record.get(name)) for name in names]
        lines.append(_csv_line(plan, fields))
        if "comment" in plan.read and drawn.random() < 0.1:
            lines.append(b"# a comment, of no matter, how many, fields")
    return _joined(
        plan, [line if encoding == "UTF-8" else line.decode().encode(encoding, "replace") for line in lines], encoding
    )


def _csv_field(value: Any) -> str | None:
    match value:
        case Num(text):
            return text
        case bool():
            return str(value).lower()
    return value


def _csv_line(plan: Plan, fields: Sequence[str | None]) -> bytes:
    drawn = plan.drawn
    sep, quote = plan.read.get("sep", ","), plan.read.get("quote", '"')
    null = plan.read.get("nullValue", "")
    latin = plan.read.get("encoding") == "ISO-8859-1"
    parts = []
    for value in fields:
        if value is None or value == null != "":
            parts.append(null)
            continue
        if value == "":
            parts.append(quote * 2)
            continue
        text = value.encode("latin-1", "replace").decode("latin-1") if latin else value
        if any(mark in text for mark in (sep, quote, "\n", "\r")) or drawn.random() < 0.2:
            escape = plan.read.get("escape", quote)
            text = quote + text.replace(quote, (quote if escape == '"' else escape) + quote) + quote
        parts.append(text)
    return sep.join(parts).encode()


def _bad_csv(plan: Plan, width: int) -> bytes:
    drawn = plan.drawn
    sep, quote = plan.read.get("sep", ","), plan.read.get("quote", '"')
    first = "z" + plan.key()
    kinds = [sep.join([first] + ["z"] * more) for more in (width - 2, width, width + 6)]
    if plan.read.get("header") == "false":
        kinds = [] if not plan.typed else kinds
    if plan.read.get("multiLine") != "true":
        kinds.append(sep.join([first] + ["z"] * (width - 2) + [quote + "open"]))
        if plan.read.get("escape", '"') == '"':
            kinds.append(sep.join([quote + "a" + quote + first] + ["z"] * (width - 1)))
    if not kinds:
        return b""
    plain = plan.read.get("encoding") is None and "mode" not in plan.read and plan.read.get("multiLine") != "true"
    if plain and drawn.random() < 0.15:
        return sep.encode().join([b"\xff\xfe"] + [b"z"] * (width - 1))
    return drawn.choice(kinds).encode()


# Typed files

NARROW: dict[Type, list[Type]] = {
    Atom("tinyint"): [Atom("smallint"), Atom("int"), BIGINT],
    Atom("smallint"): [Atom("tinyint"), Atom("int"), BIGINT],
    Atom("int"): [Atom("tinyint"), Atom("smallint"), BIGINT, DOUBLE],
    BIGINT: [Atom("tinyint"), Atom("int"), DOUBLE],
    Atom("float"): [Atom("tinyint"), Atom("smallint"), Atom("int"), DOUBLE],
    DOUBLE: [Atom("float"), Atom("int"), Atom("smallint"), BIGINT],
    Dec(5, 2): [Dec(10, 4), Atom("tinyint"), BIGINT, Dec(4, 1)],
    Dec(38, 18): [BIGINT, Dec(20, 2), Dec(5, 2)],
    Dec(38, 0): [BIGINT, Atom("int"), Dec(20, 0)],
    Dec(20, 0): [BIGINT, Atom("int"), Dec(38, 0), Dec(10, 0)],
}
"""Number types that a file may have instead of the column's: wider and narrower ones."""
STRANGE: dict[Type, list[Type]] = {
    STRING: [BIGINT, BOOLEAN, DOUBLE, Struct((("odd", BIGINT),))],
    BOOLEAN: [BIGINT, STRING],
    BIGINT: [STRING, BOOLEAN, Array(BIGINT)],
    Atom("int"): [STRING, Struct((("odd", STRING),))],
    DOUBLE: [STRING, BOOLEAN],
    Dec(5, 2): [STRING],
}
"""Types that have nothing to do with the column's."""


def _typed_value(plan: Plan, kind: Type) -> Any:
    drawn = plan.drawn
    match kind:
        case Atom(name) if name in WHOLE:
            extra = [5, 16777217, 2**53 + 1] if name == "bigint" else [5, 16777217] if name == "int" else [5]
            return drawn.choice([_whole(drawn, WHOLE[name]), *extra])
        case Atom("double"):
            ordinary = [1.5, 0.1, -2.5, 5e-324, 0.30000000000000004, -0.25]
            return drawn.choice([*ordinary, math.nan, math.inf, -math.inf, 2.0**63, -(2.0**63), 2.0**53 + 2, 1e23])
        case Atom("float"):
            return drawn.choice([1.5, 0.25, -3.5, math.nan, math.inf, 16777216.5 - 0.5])
        case Dec():
            return Decimal(_digits(drawn, kind))
        case Atom("boolean"):
            return drawn.random() < 0.5
        case Atom("string"):
            return drawn.choice([*JSON_TEXTS])
        case Atom("binary"):
            return drawn.choice([b"", b"\x00\xff", b"text"])
        case Atom("timestamp"):
            return _time(plan).replace(microsecond=drawn.choice([0, 1, 999999]))
        case Atom("date"):
            return _time(plan).date()
        case Struct(fields):
            return {name: None if drawn.random() < 0.2 else _typed_value(plan, part) for name, part in fields}
        case Map(part):
            return {name: _typed_value(plan, part) for name in drawn.sample(["x", "y z", "ä"], drawn.randint(0, 2))}
        case Array(part):
            return [None if drawn.random() < 0.15 else _typed_value(plan, part) for _ in range(drawn.randint(0, 3))]
    raise TypeError(kind)


def _retyped(plan: Plan, kind: Type, free: bool) -> Type:
    """Another type in a file; `free`: there is no contract, so that the two must widen one way or be strangers."""
    drawn = plan.drawn
    match kind:
        case Struct(fields):
            place = drawn.randrange(len(fields))
            return Struct(
                tuple(
                    (name, _retyped(plan, part, free) if number == place else part)
                    for number, (name, part) in enumerate(fields)
                )
            )
        case Array(part):
            return Array(_retyped(plan, part, free))
    near = [other for other in NARROW.get(kind, ()) if not free or widens(kind, other) or widens(other, kind)]
    strange = STRANGE.get(kind, [])
    if near and (drawn.random() < 0.8 or not strange):
        return drawn.choice(near)
    return drawn.choice(strange) if strange else kind


def _nested_new(plan: Plan, kind: Type) -> Type:
    """The type with a new field in its struct, if it has one."""
    match kind:
        case Struct(fields):
            deeper = [name for name, part in fields if isinstance(part, (Struct, Array))]
            if deeper and plan.drawn.random() < 0.4:
                name = plan.drawn.choice(deeper)
                return Struct(tuple((key, _nested_new(plan, part) if key == name else part) for key, part in fields))
            new = plan.new.setdefault(
                "." + fields[0][0], plan.drawn.choice([BIGINT, STRING, Array(BIGINT), Struct((("deep", DOUBLE),))])
            )
            return Struct((*fields, ("fresh" + fields[0][0].lower(), new)))
        case Array(part):
            return Array(_nested_new(plan, part))
    return kind


def _typed_files(plan: Plan, noise: Noise, place: int) -> list[File]:
    drawn = plan.drawn
    free = place == 0 and not plan.typed
    times = plan.times
    if place and plan.time_column == "ts" and times in ("tz", "date", "text") and plan.source_format == "parquet":
        times = drawn.choice(["tz", "date", "text"])
    plan = replace(plan, times=times)
    new = _new_columns(plan, noise)
    files: list[File] = []
    retyped: dict[str, Type] = {}
    one_schema = plan.source_format == "delta"
    changed = {column.name: column.kind for column in plan.columns}
    for name, kind in changed.items():
        if one_schema and drawn.random() < noise.retype:
            retyped[name] = _retyped(plan, kind, free)
        if one_schema and drawn.random() < noise.nested:
            retyped[name] = _nested_new(plan, retyped.get(name, kind))
    for number, path in enumerate(_paths(plan, place, drawn.randint(1, 4) if not one_schema else drawn.randint(1, 2))):
        own: list[tuple[str, Type]] = [(KEY, STRING)]
        for column in plan.columns:
            kind = retyped.get(column.name, column.kind)
            if not one_schema and number and column.name not in retyped and drawn.random() < noise.retype:
                kind = _retyped(plan, kind, free)
                retyped[column.name] = column.kind
            if not one_schema and drawn.random() < noise.nested:
                kind = _nested_new(plan, kind)
            if drawn.random() > 0.12:
                own.append((column.name, kind))
        own += [(name, kind) for name, kind in new.items() if drawn.random() < 0.6]
        if plan.time_column == "ts":
            own.append(("ts", _time_field(plan)))
        else:
            own.append(("meta", Struct((("ts", _time_field(plan)), ("note", STRING)))))
        drawn.shuffle(own)
        if drawn.random() < 0.2 and not one_schema:
            own = [(name if name in ("ts", "meta") else _other_case(drawn, name), kind) for name, kind in own]
        if drawn.random() < 0.05 and not one_schema:
            own.append(("_event_hour", STRING))
        rows = drawn.choice([1, 4, 10]) if number == 0 else drawn.choice([0, 1, 4, 10])
        sound = place == 0 and number == 0
        if not rows:
            own = [(KEY, STRING), *(each for each in own if each[0] in ("ts", "meta"))]
        made = [_typed_row(plan, noise, Struct(tuple(own)), sound and not each) for each in range(rows)]
        nanos = not one_schema and plan.times in ("tz", "ntz") and plan.time_column == "ts" and drawn.random() < 0.4
        files.append(TypedFile(path, Struct(tuple(own)), tuple(made), nanos))
    return files


def _typed_row(plan: Plan, noise: Noise, columns: Struct, sound: bool) -> dict[str, Any]:
    drawn = plan.drawn
    row: dict[str, Any] = {}
    bad_time = not sound and plan.times in ("text", "pattern") and drawn.random() < noise.bad_time
    for name, kind in columns:
        if name.lower() == KEY:
            row[name] = plan.key()
        elif name in ("ts", "meta"):
            continue
        elif bad_time or drawn.random() < noise.null:
            row[name] = None
        else:
            row[name] = _typed_value(plan, kind)
    time: Any
    if bad_time:
        time = _bad_time(plan)
    elif not sound and drawn.random() < noise.no_time:
        time = None
    elif plan.times == "epoch":
        time = _epoch(plan)
    elif plan.times in ("text", "pattern"):
        time = _time_text(plan)
    elif plan.times == "date":
        time = _time(plan).date()
    else:
        time = _time(plan).replace(microsecond=drawn.choice([0, 1, 500000, 999999]))
        time = time.replace(tzinfo=None) if plan.times == "ntz" else time
    if plan.time_column == "ts":
        row["ts"] = time
    else:
        row["meta"] = {"ts": time, "note": drawn.choice(["n", None])}
    return row
