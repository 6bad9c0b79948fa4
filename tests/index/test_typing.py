"""Stats texts as typed columns: a value is exact or null, and the text is kept wherever something is lost."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_sidecar.index.format.index_columns import KINDS, NUM_RECORDS, STATS_JSON, TIGHT_BOUNDS, column
from delta_sidecar.index.format.index_layout import IndexLayout, Leaf
from delta_sidecar.index.stats import typed_stats as typing
from delta_sidecar.index.stats.native_types import native_typed
from delta_sidecar.index.stats.stats_texts import decoded_tolerantly
from delta_sidecar.index.stats.typed_stats import typed_stats
from delta_sidecar.index.verify.plain_stats import StatsReader
from delta_sidecar.values.comparison import decimals
from delta_sidecar.values.types import parse_schema
from tests.properties.settings import random_cases

TYPES: dict[str, Any] = {
    "by": "byte",
    "sh": "short",
    "i": "integer",
    "l": "long",
    "f": "float",
    "d": "double",
    "s": "string",
    "bo": "boolean",
    "bi": "binary",
    "da": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "d5": "decimal(5,2)",
    "d38": "decimal(38,10)",
    "ar": {"type": "array", "elementType": "long", "containsNull": True},
    "a.b": "long",
    "st": {
        "type": "struct",
        "fields": [
            {"name": "x", "type": "long", "nullable": True, "metadata": {}},
            {"name": "in", "nullable": True, "metadata": {}, "type": {
                "type": "struct", "fields": [{"name": "y", "type": "string", "nullable": True, "metadata": {}}]}},
        ],
    },
    "a": {"type": "struct", "fields": [{"name": "b", "type": "integer", "nullable": True, "metadata": {}}]},
}  # fmt: skip


def layout(types: dict[str, Any]) -> IndexLayout:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return IndexLayout.of(parse_schema(json.dumps({"type": "struct", "fields": fields}), "none"), [])


LEAVES = layout(TYPES).leaves
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Raw(str):
    """JSON text to be put in as it is."""


def dumps(value: Any) -> str:
    """JSON with raw texts, and with keys more than once."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, list) and all(isinstance(v, tuple) for v in value):
        return "{" + ",".join(f"{json.dumps(k)}:{dumps(v)}" for k, v in value) + "}"
    if isinstance(value, dict):
        return dumps(list(value.items()))
    return json.dumps(value)


def moments(zoned: bool) -> st.SearchStrategy[str]:
    zones = st.sampled_from(
        ["Z", "+00:00", "-07:00", "+05:30", "+01:00:00", "+0100", " UTC"] if zoned else ["", "", "Z"]
    )
    fractions = st.sampled_from(["", ".5", ".123", ".123456", ".1234567", ".123456789", ".000000000"])
    whole = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda t: t.replace(microsecond=0))
    separators = st.sampled_from(["T", " "])
    return st.builds(lambda t, s, f, z: f"{t.isoformat(s)}{f}{z}", whole, separators, fractions, zones)


numbers = st.one_of(
    st.integers(-200, 200),
    st.integers(-(2**31) - 2, 2**31 + 2),
    st.integers(-(2**63) - 2, 2**63 + 2),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-1000, 1000, places=2).map(lambda d: Raw(str(d))),
    st.sampled_from([Raw(t) for t in ("1e2", "1.0", "-0", "-0.0", "1E-3", "123.450", "0.1", "1e400", "1.2567")]),
)
words = st.sampled_from(
    ["NaN", "Infinity", "-Infinity", "+Infinity", "", "12", "true", "2026-02-30", "noon", 'é"\\', '":{',
     "2026-02-10T22Z", "2026-02-10 22:00+01:00", "2026-02-10T22:00", "2026-02-10T22:00:00+01"]
)  # fmt: skip
odd = st.one_of(
    numbers,
    words,
    st.booleans(),
    st.none(),
    st.just({}),
    st.just([1]),
    st.just({"x": 1}),
    st.text(max_size=5),
    moments(True),
    moments(False),
    st.dates().map(str),
)
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "by": st.integers(-128, 127),
    "sh": st.integers(-(2**15), 2**15 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "s": st.text(max_size=8),
    "bo": st.booleans(),
    "bi": st.text(max_size=4),
    "da": st.dates().map(str),
    "ts": moments(True),
    "tn": moments(False),
    "d5": st.decimals(-999, 999, places=2).map(lambda d: Raw(str(d))),
    "d38": st.decimals(-(10**15), 10**15, places=10).map(lambda d: Raw(str(d))),
    "a.b": st.integers(-(2**63), 2**63 - 1),
}


def trees(leaf: Any, oddity: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    flat = {name: leaf(name) for name in GOOD}
    inner = st.fixed_dictionaries({}, optional={"y": leaf("s")})
    nested = {
        "st": st.fixed_dictionaries({}, optional={"x": leaf("l"), "in": inner}),
        "a": st.fixed_dictionaries({}, optional={"b": leaf("i")}),
    }
    return st.fixed_dictionaries({}, optional={**flat, **nested, "ar": oddity, "other": oddity})


def objects(leaf: Any, counts: st.SearchStrategy[Any], oddity: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    made = st.fixed_dictionaries(
        {},
        optional={
            "numRecords": counts,
            "tightBounds": st.booleans() | oddity,
            "minValues": trees(leaf, oddity),
            "maxValues": trees(leaf, oddity),
            "nullCount": trees(lambda name: counts, oddity),
            "extra": oddity,
        },
    )
    return made.map(dumps)


nothing = st.none() | st.just({})
clean = objects(lambda name: GOOD[name] | st.none(), st.integers(0, 2**63 - 1), nothing)
wild = objects(lambda name: GOOD[name] | odd, st.integers(0, 9) | odd, odd)
malformed = st.sampled_from(
    ["", "{", "{}x", "{}{}", "null", "[]", "3", '"{}"', '{"numRecords":}', '{"numRecords":1', "{\n}",
     '{"numRecords": 5 }', '{"numRecords":1,"numRecords":2}', '{"minValues":{"l":1},"minValues":{"i":2}}',
     '{"minValues":{"l":1,"l":2}}', " {}"]
)  # fmt: skip
texts = st.lists(st.one_of(st.none(), clean, clean, wild, malformed), min_size=1, max_size=24)


def strings(values: list[str | None]) -> pa.StringArray:
    return pa.array(values, pa.string())


@random_cases(80)
@given(texts)
@example(['{"numRecords":5}', None, '{"minValues":{"l":1.0}}'])
def test_typed_values_are_what_the_texts_say(values: list[str | None]) -> None:
    check(values, typed_stats(strings(values), None, LEAVES))


@random_cases(40)
@given(st.lists(clean, min_size=1, max_size=60), st.lists(wild | malformed, max_size=2))
def test_a_few_odd_rows_among_many(many: list[str], few: list[str]) -> None:
    values: list[str | None] = [*many[: len(many) // 2], *few, *many[len(many) // 2 :]]
    check(values, typed_stats(strings(values), None, LEAVES))


@random_cases(40)
@given(st.lists(clean, min_size=1, max_size=8))
def test_the_strict_and_the_tolerant_path_agree(values: list[str]) -> None:
    strict = typed_stats(strings(values), None, LEAVES)
    tolerant = decoded_tolerantly(strings(values), LEAVES)
    for name in {*strict.column_names, *tolerant.column_names} - {STATS_JSON}:
        left, right = (
            t.column(name).to_pylist() if name in t.column_names else [None] * len(values) for t in (strict, tolerant)
        )
        assert left == right, name.split("\0")


def check(values: list[str | None], found: pa.Table) -> None:
    assert found.num_rows == len(values)
    columns = {name: plain(found.column(name)) for name in found.column_names}
    kept = columns.pop(STATS_JSON, [None] * len(values))
    for row, text in enumerate(values):
        said, more = expected(text)
        for name, array in columns.items():
            want = said.pop(name, None)
            if isinstance(want, Lossy):
                more = True
                assert want.allows(array[row]), (name.split("\0"), text, array[row])
            else:
                assert array[row] == want, (name.split("\0"), text)
        more = more or any(isinstance(value, Lossy) for value in said.values())
        assert all(value is None or isinstance(value, Lossy) for value in said.values()), (said, text)
        assert kept[row] in (None, text)
        assert kept[row] == text or not more, f"{text} says more than is held"


def plain(array: pa.ChunkedArray) -> list[Any]:
    """Values as Python has them; times as numbers."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()).to_pylist()
    return array.cast(pa.int32()).to_pylist() if pa.types.is_date(kind) else array.to_pylist()


class Lossy:
    """What cannot be held exactly: unknown, or rounded outwards."""

    def __init__(self, outwards: Any = None) -> None:
        self.outwards = outwards

    def allows(self, value: Any) -> bool:
        return value is None or (self.outwards is not None and value == self.outwards)


def expected(text: str | None) -> tuple[dict[str, Any], bool]:
    """What the columns must hold, in the plainest Python there is, and whether the text says more than columns can."""
    if text is None:
        return {}, False
    try:
        content = json.loads(text, parse_float=Raw, parse_constant=Raw)
    except ValueError:
        return {}, True
    if not isinstance(content, dict):
        return {}, True
    found: dict[str, Any] = {}
    more = False
    for key, value in content.items():
        if value is None:
            continue
        if key == "numRecords":
            found[NUM_RECORDS] = count(value)
        elif key == "tightBounds":
            found[TIGHT_BOUNDS] = value if isinstance(value, bool) else Lossy()
        elif key in KINDS.values():
            kind = next(k for k, v in KINDS.items() if v == key)
            more |= below(kind, value, (), found)
        else:
            more |= says(value)
    return found, more


def says(value: Any) -> bool:
    return any(map(says, value.values())) if isinstance(value, dict) else value is not None


def below(kind: str, value: Any, path: tuple[str, ...], found: dict[str, Any]) -> bool:
    leaf = next((leaf for leaf in LEAVES if leaf.path == path), None)
    if leaf is not None and value is not None and (kind == "null_count" or leaf.bound is not None):
        found[column(kind, path)] = count(value) if kind == "null_count" else bound(value, leaf, kind)
        return False
    if leaf is None and isinstance(value, dict) and any(leaf.path[: len(path)] == path for leaf in LEAVES):
        inner = [below(kind, below_, (*path, name), found) for name, below_ in value.items()]
        return any(inner)
    return says(value)


def count(value: Any) -> Any:
    return value if type(value) is int and 0 <= value < 2**63 else Lossy()


def bound(value: Any, leaf: Leaf, kind: str) -> Any:
    name = str(leaf.type)
    if name in ("byte", "short", "integer", "long"):
        bits = {"byte": 8, "short": 16, "integer": 32, "long": 64}[name]
        return value if type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else Lossy()
    if name in ("float", "double"):
        return floating(value, name)
    if name.startswith("decimal"):
        return decimal(value, *map(int, name[8:-1].split(",")), kind)
    if name == "boolean":
        return value if isinstance(value, bool) else Lossy()
    if type(value) is not str:
        return Lossy()
    if name in ("string", "binary"):
        return value
    try:
        return (
            (date.fromisoformat(value) - EPOCH.date()).days if name == "date" else instant(value, name == "timestamp")
        )
    except ValueError:
        return Lossy()


def floating(value: Any, name: str) -> Any:
    if type(value) is str:
        special = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
        return special.get(value, Lossy())
    if type(value) not in (int, Raw) or value in ("NaN", "Infinity", "-Infinity"):
        return Lossy()
    try:
        number = float(value)
    except OverflowError:
        return Lossy()
    if math.isinf(number):
        return Lossy()
    if name == "double":
        return number
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    return Lossy() if math.isinf(single) else single


def decimal(value: Any, precision: int, scale: int, kind: str) -> Any:
    if type(value) not in (int, Raw, str):
        return Lossy()
    try:
        exact = Fraction(Decimal(value))
    except (ArithmeticError, ValueError):
        return Lossy()
    if abs(exact) > 10**60:
        return Lossy()
    scaled = exact * 10**scale
    held = math.floor(scaled) if kind == "min" else math.ceil(scaled)
    if abs(held) >= 10**precision:
        return Lossy()
    rounded = Decimal(held).scaleb(-scale)
    return rounded if held == scaled else Lossy(rounded)


def instant(text: str, zoned: bool) -> Any:
    """By datetime's own parser, which knows every form used here but ` UTC` and more than six digits."""
    cleaned = text.removesuffix(" UTC") + ("+00:00" if text.endswith(" UTC") else "")
    digits = cleaned.partition(".")[2]
    fraction = digits[: next((i for i, c in enumerate(digits) if not c.isdigit()), len(digits))]
    moment = datetime.fromisoformat(cleaned.replace(f".{fraction}", f".{fraction[:6]}") if fraction else cleaned)
    if zoned != (moment.tzinfo is not None) and not (not zoned and moment.utcoffset() == timedelta(0)):
        return Lossy()
    offset = (moment.utcoffset() or timedelta(0)) if moment.tzinfo else timedelta(0)
    micros = (moment.replace(tzinfo=UTC) - EPOCH - offset) // timedelta(microseconds=1)
    return micros if not fraction[6:].strip("0") else Lossy(micros)


# What verify reads with.


@random_cases(40)
@given(texts)
def test_the_dumb_reader_agrees(values: list[str | None]) -> None:
    """Verify's own reader, held against the plain Python above."""
    found = StatsReader(LEAVES).read(values)
    columns = {name: plain(pa.chunked_array([array])) for name, array in found.columns.items()}
    for row, text in enumerate(values):
        said, more = expected(text)
        assert more == (row in found.more), text
        for name, value in said.items():
            held = columns[name][row] if name in columns else None
            lossy = row in found.lost.get(name, [])
            assert lossy == isinstance(value, Lossy), (name.split("\0"), text)
            assert value.allows(held) if isinstance(value, Lossy) else held == value, (name.split("\0"), text)


# Typed stats beside texts.


def parsed_of(rows: list[dict[str, Any] | None]) -> pa.StructArray:
    bounds = pa.struct([("l", pa.int64()), ("i", pa.int16()), ("s", pa.string())])
    kind = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", pa.struct([("l", pa.int64()), ("i", pa.int64())])),
        ]
    )
    return pa.array(rows, kind)


@pytest.mark.parametrize(("name", "number"), [("d5", "1000"), ("d5", "-1e3"), ("d38", "1e28"), ("d38", "1" + "0" * 28)])
def test_a_decimal_of_a_digit_too_many_is_unknown_and_its_text_kept(name: str, number: str) -> None:
    text = f'{{"numRecords":5,"minValues":{{"l":1,"{name}":{number}}},"maxValues":{{"{name}":{number}}}}}'
    check([text], typed_stats(strings([text]), None, LEAVES))
    typed = {"numRecords": 5, "minValues": {"l": 1}}
    beyond = decimals([10**38 if name == "d38" else -(10**5)], pa.decimal128(*((38, 10) if name == "d38" else (5, 2))))
    leaf = next(leaf for leaf in LEAVES if leaf.path == (name,))
    native = native_typed(beyond, "min", leaf)
    assert native is not None
    assert native.to_pylist() == [None]
    found = typed_stats(strings([text]), parsed_of([typed]), LEAVES)
    assert found.column(STATS_JSON).to_pylist() == [text]


def test_typed_stats_come_first_and_texts_fill_what_they_lack() -> None:
    text = json.dumps({"numRecords": 7, "minValues": {"l": 1, "i": 2, "da": "2026-01-01"}, "nullCount": {"l": 3}})
    parsed = parsed_of([{"numRecords": 5, "minValues": {"l": 9}}, None, {"numRecords": 1}])
    found = typed_stats(strings([text, text, None]), parsed, LEAVES)
    assert found.column(NUM_RECORDS).to_pylist() == [5, 7, 1]
    assert found.column(column("min", ("l",))).to_pylist() == [9, 1, None]
    assert found.column(column("min", ("i",))).to_pylist() == [2, 2, None]
    assert found.column(column("min", ("da",))).to_pylist() == [date(2026, 1, 1), date(2026, 1, 1), None]
    assert found.column(column("null_count", ("l",))).to_pylist() == [3, 3, None]


def test_a_text_that_says_more_than_typed_stats_is_kept() -> None:
    text = json.dumps({"numRecords": 5, "minValues": {"l": 1}, "other": 1})
    found = typed_stats(strings([text]), parsed_of([{"numRecords": 5, "minValues": {"l": 1}}]), LEAVES)
    assert found.column(STATS_JSON).to_pylist() == [text]


def test_a_text_that_says_no_more_is_not_read() -> None:
    text = json.dumps({"numRecords": 5, "minValues": {"l": 1}, "maxValues": {}}, separators=(",", ":"))
    found = typed_stats(strings([text]), parsed_of([{"numRecords": 5, "minValues": {"l": 1}}]), LEAVES)
    assert STATS_JSON not in found.column_names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typing, "from_texts", None)
        typed_stats(strings([text]), parsed_of([{"numRecords": 5, "minValues": {"l": 1}}]), LEAVES)


# Wide tables.


def test_a_thousand_columns() -> None:
    wide = layout({f"c{n}": "long" if n % 2 else "string" for n in range(1000)})
    few = {f"c{n}": n if n % 2 else str(n) for n in range(32)}
    usual = json.dumps({"numRecords": 1, "minValues": few, "maxValues": few, "nullCount": dict.fromkeys(few, 0)})
    other = json.dumps({"numRecords": 2, "minValues": {"c999": 7}, "nullCount": {"c500": 1}})
    values: list[str | None] = [usual] * 40 + [other] + [usual] * 40
    found = typed_stats(strings(values), None, wide.leaves)
    assert found.column(column("min", ("c999",))).to_pylist() == [None] * 40 + [7] + [None] * 40
    assert found.column(column("null_count", ("c500",))).to_pylist()[40] == 1
    assert found.column(column("max", ("c31",))).to_pylist() == [31] * 40 + [None] + [31] * 40
    assert STATS_JSON not in found.column_names
    assert found.num_columns == 1 + 3 * 32 + 2
