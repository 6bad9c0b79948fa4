"""Lines of JSON under a contract: every value is in its column exactly, or is told and left."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.pipeline.records.conversion import decode_json
from delta_sidecar.pipeline.records.inference import merged, settled, type_of
from delta_sidecar.pipeline.records.json_records import JsonInference, JsonParser
from delta_sidecar.pipeline.records.terms import Parsed, Terms

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("small", pa.int8()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(5, 2)),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("s", pa.struct([("k", pa.int32()), ("u", pa.string())])),
        ("l", pa.list_(pa.struct([("k", pa.int64())]))),
    ]
)


def parse(lines: list[str], schema: pa.Schema = SCHEMA) -> Parsed:
    return JsonParser(Terms(schema)).parse([line.encode() for line in lines])


def rows(parsed: Parsed, schema: pa.Schema) -> list[dict[str, Any]]:
    return pa.Table.from_arrays(list(parsed.columns), schema=schema).to_pylist()


def only(value: str, column: str, schema: pa.Schema = SCHEMA) -> tuple[Any, str | None]:
    """What one value of one column becomes, and what is left of it."""
    parsed = parse([f'{{"{column}": {value}}}'], schema)
    assert not parsed.bad
    assert bool(parsed.rescued) == bool(parsed.problems)
    return rows(parsed, schema)[0][column], parsed.rescued.get(0)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("n", "9223372036854775807", 9223372036854775807),
        ("n", "-0", 0),
        ("small", "-128", -128),
        ("x", "5", 5.0),
        ("x", "1e300", 1e300),
        ("x", "9007199254740992", 9007199254740992.0),
        ("x", '"Infinity"', float("inf")),
        ("f", "0.5", 0.5),
        ("d", "1.5", Decimal("1.50")),
        ("d", '"1.25"', Decimal("1.25")),
        ("d", "1e2", Decimal("100.00")),
        ("t", '"x"', "x"),
        ("t", "1.50", "1.50"),
        ("t", "true", "true"),
        ("t", '{"a": [1, "ü"]}', '{"a":[1,"ü"]}'),
        ("t", '""', ""),
        ("raw", '"AAE="', b"\x00\x01"),
        ("s", '{"U": "x"}', {"k": None, "u": "x"}),
        ("l", '[{"k": 1}, null]', [{"k": 1}, None]),
        ("n", "null", None),
    ],
)
def test_a_value_that_fits_is_stored_exactly(column: str, value: str, expected: Any) -> None:
    assert only(value, column) == (expected, None)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("n", "1.0"),
        ("n", "9223372036854775808"),
        ("n", '"1"'),
        ("n", "true"),
        ("small", "128"),
        ("x", "9007199254740993"),
        ("x", "9007199254740993.0"),
        ("x", "1e400"),
        ("x", "1e-400"),
        ("f", "-1e-400"),
        ("x", "0." + "0" * 400 + "1"),
        ("x", '"1.5"'),
        ("f", "0.12345678901"),
        ("d", "1.2567"),
        ("d", "1000"),
        ("d", '"NaN"'),
        ("b", "1"),
        ("b", '"true"'),
        ("day", '"2026-02-30"'),
        ("day", '"2026-02-10T00:00"'),
        ("at", '"soon"'),
        ("at", '"2026-02-10T00:00:00.1234567Z"'),
        ("at", '"2026-02-10T00:00:00+01:99"'),
        ("at", '"2026-02-10T00:00:00-00:60"'),
        ("day", '"0000-01-01"'),
        ("wall", '"2026-02-10T00:00:00Z"'),
        ("raw", '"?"'),
        ("s", "[]"),
        ("s", "5"),
        ("l", "{}"),
    ],
)
def test_a_value_that_does_not_fit_is_left_whole(column: str, value: str) -> None:
    stored, left = only(value, column)
    assert stored is None
    assert left is not None
    assert json.loads(left) == {column: json.loads(value)}


@pytest.mark.parametrize("column", ["n", "small", "x", "f", "d"])
def test_a_number_of_any_length_fits_or_is_left(column: str) -> None:
    """Python refuses to read integers of more than 4,300 digits."""
    stored, left = only("9" * 5000, column)
    assert stored is None
    assert left == f'{{"{column}":{"9" * 5000}}}'


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.int64(), ["1", "01", "+1"]),
        (pa.float64(), ["1", "1.0"]),
        (pa.float64(), ["NaN", "nan"]),
        (pa.float64(), ["0", "-0.0"]),
        (pa.timestamp("us", "UTC"), ["2026-02-10T00:00Z", "2026-02-10"]),
        (pa.bool_(), ["true", "TRUE"]),
    ],
)
def test_a_map_in_which_two_keys_become_one_does_not_fit(kind: pa.DataType, keys: list[str]) -> None:
    schema = pa.schema([("m", pa.map_(kind, pa.int64()))])
    value = json.dumps({key: at for at, key in enumerate(keys)})
    stored, left = only(value, "m", schema)
    assert stored is None
    assert left is not None
    assert json.loads(left) == {"m": json.loads(value)}
    assert len(only(f'{{"{keys[0]}": 1}}', "m", schema)[0]) == 1


def test_times_of_any_form_are_the_same_instant() -> None:
    texts = ["2026-02-10T23:45:00Z", "2026-02-11T00:45:00+01:00", "2026-02-10 23:45", "2026-02-10T23:45:00.000000"]
    assert len({only(json.dumps(text), "at")[0] for text in texts}) == 1


def test_new_fields_are_told_at_any_depth() -> None:
    parsed = parse(['{"n": 1, "new": {"a": 1}, "s": {"k": 1, "more": null}, "l": [{"k": 1}, {"k": 2, "z": "q"}]}'])
    told = {problem.name: problem.kind for problem in parsed.problems[0]}
    assert told == {"new": pa.struct([("a", pa.int64())]), "s.more": pa.null(), "l.z": pa.string()}
    assert json.loads(parsed.rescued[0]) == {
        "new": {"a": 1},
        "s": {"more": None},
        "l": [{"k": 1}, {"k": 2, "z": "q"}],
    }


def test_a_new_field_is_told_again_only_when_its_type_grows() -> None:
    parser = JsonParser(Terms(pa.schema([("n", pa.int64())])))
    lines = ['{"new": 1}', '{"new": 2}', '{"new": 1.5}', '{"new": "x"}', '{"new": 3}']
    parsed = parser.parse([line.encode() for line in lines])
    assert {row: [p.kind for p in some] for row, some in parsed.problems.items()} == {
        0: [pa.int64()],
        2: [pa.float64()],
        3: [pa.string()],
    }
    assert parsed.misfits == {0, 1, 2, 3, 4}


def test_what_a_bad_record_shows_is_told_by_the_next_one() -> None:
    parsed = parse(['{"new": 1, "New": 2}', '{"s": {"more": 1, "k": 1, "K": 2}}', '{"new": 3, "s": {"more": 1}}'])
    assert [bad.line for bad in parsed.bad] == [0, 1]
    assert sorted(problem.name for problem in parsed.problems[0]) == ["new", "s.more"]


@pytest.mark.parametrize(
    "line",
    [
        '{"n": 1', "null", "5", '"text"', '{"n": 1} {"n": 2}', '{"n": 1, "n": 2}', '{"n": 1, "N": 2}', "[1]", "{]",
        '{"t": "\\ud800"}', '{"s": {"k": 1, "k": 2}}', '{"n": 1}}', "{'n': 1}",
    ],
)  # fmt: skip
def test_what_is_no_record_is_bad_and_its_neighbours_are_not(line: str) -> None:
    parsed = parse(['{"n": 7}', line, '{"n": 8}'])
    assert [bad.line for bad in parsed.bad] == [1]
    assert parsed.bad[0].reason
    assert [row["n"] for row in rows(parsed, SCHEMA)] == [7, 8]
    assert list(parsed.lines) == [0, 2]


def test_bytes_that_are_no_utf8_are_bad() -> None:
    parsed = JsonParser(Terms(SCHEMA)).parse([b'{"t": "\xff"}', b'{"t": "x"}'])
    assert [bad.line for bad in parsed.bad] == [0]


def test_a_nest_without_end_is_bad() -> None:
    assert len(parse(["[" * 100_000]).bad) == 1
    assert len(parse(['{"t": ' + "[" * 100_000 + "]" * 100_000 + "}"]).bad) == 1


def test_blank_lines_are_no_records_and_a_list_holds_several() -> None:
    parsed = parse(["", '[{"n": 1}, {"n": 2}]', "   ", "\ufeff" + '{"n": 3}', "[]"])
    assert not parsed.bad
    assert [row["n"] for row in rows(parsed, SCHEMA)] == [1, 2, 3]
    assert list(parsed.lines) == [1, 1, 3]


def test_only_white_space_of_json_is_blank() -> None:
    parsed = parse(["\x0c", "\u00a0", '\x0b{"n": 1}', '{"n": 2}\x0c', " \t\r", '\t{"n": 3}\r'])
    assert [bad.line for bad in parsed.bad] == [0, 1, 2, 3]
    assert [row["n"] for row in rows(parsed, SCHEMA)] == [3]


def test_an_epoch_in_the_time_column_is_taken_as_its_text() -> None:
    parser = JsonParser(Terms(pa.schema([("ts", pa.string()), ("n", pa.int64())]), "ts"))
    lines = [b'{"ts": 1739230000123, "n": 1}', b'{"ts": 1739230000124}'] * 100
    assert parser.parse(lines).columns[0].to_pylist()[:2] == ["1739230000123", "1739230000124"]
    assert parser.fast[0].field("ts").type == pa.int64()
    assert parser.parse([b'{"ts": "x"}', b'{"ts": 1.50}']).columns[0].to_pylist() == ["x", "1.50"]


# Random records.

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-100, 100),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["2026-02-10", "1.5", "NaN", "", "007", "5", "true", "1e3", 2**53 + 1, 2**64, 10**38]),
)
names = st.sampled_from(["a", "b", "c", "d"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
records = st.dictionaries(names, values, max_size=4)


def encode(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode(errors="surrogatepass")


@given(st.lists(records, min_size=1, max_size=12))
def test_an_inferred_schema_holds_every_value(some: list[dict[str, Any]]) -> None:
    lines = [encode(record) for record in some]
    seen = JsonInference()
    for line in lines:
        seen.see([line])
    at_once = JsonInference()
    at_once.see(lines)
    schema = pa.schema([(part.name, settled(part.type)) for part in seen.kind])
    assert schema == pa.schema([(part.name, settled(part.type)) for part in at_once.kind])
    parsed = JsonParser(Terms(schema)).parse(lines)
    good = [record for at, record in enumerate(some) if at not in {bad.line for bad in parsed.bad}]
    assert all(not _is_utf8(some[bad.line]) for bad in parsed.bad)
    assert not parsed.problems
    assert list(parsed.lines) == [at for at, record in enumerate(some) if record in good]
    for row, record in zip(rows(parsed, schema) or [{}] * len(good), good, strict=True):
        assert_holds(row, record)


def test_records_that_are_bad_add_nothing_to_a_schema() -> None:
    lines = [b'{"a": 1}', b'{"a": "x", "B": 1, "b": 2, "zz": {"q": 1}}', b'{"a": {"k": 1, "K": 2}}', b"{"]
    seen = JsonInference()
    seen.see(lines)
    assert seen.kind == pa.struct([("a", pa.int64())])


def test_keys_of_a_map_are_bytes_as_its_values_are() -> None:
    schema = pa.schema([("m", pa.map_(pa.binary(), pa.binary()))])
    parsed = JsonParser(Terms(schema)).parse([b'{"m": {"YQ==": "YQ=="}}', b'{"m": {"q": "YQ=="}}'])
    assert parsed.columns[0].to_pylist()[0] == [(b"a", b"a")]
    assert parsed.misfits == {1}


TEXTS = (
    "null", "true", "5", "-0", "9007199254740993", "18446744073709551615", "1" + "0" * 40, "1.5", "1e400", "{}", "[]",
    '""', '"007"', '"1.5"', '"NaN"', '"true"', '"2026-02-10"', '{"k": 1}', '{"k": "5"}', "[1]", '["5"]',
    "[18446744073709551615]",
)  # fmt: skip


@pytest.mark.parametrize("shape", ["%s", "[%s]", '{"k": %s}'])
@pytest.mark.parametrize("text", TEXTS)
def test_inference_does_not_depend_on_the_order_of_lines(text: str, shape: str) -> None:
    """Nor on which of them come at once: what the parser of whole chunks takes adds nothing to what is known."""
    for other in TEXTS:
        one, two = (f'{{"a": {shape % value}}}'.encode() for value in (text, other))
        found = []
        for chunks in ([[one], [two]], [[two], [one]], [[one, two]], [[one] * 65 + [two]]):
            seen = JsonInference()
            for chunk in chunks:
                seen.see(chunk)
            found.append(seen.kind)
        assert all(kind == found[0] for kind in found), (one, two)


@given(st.lists(values, min_size=3, max_size=3))
def test_types_are_merged_in_any_order(some: list[Any]) -> None:
    a, b, c = (type_of(decode_json(encode(value).decode(errors="surrogatepass"))) for value in some)
    assert _sorted(merged(merged(a, b), c)) == _sorted(merged(a, merged(b, c))) == _sorted(merged(c, merged(b, a)))


def _sorted(kind: pa.DataType) -> pa.DataType:
    """The type with the fields of its structs by name."""
    if pa.types.is_struct(kind):
        parts = sorted(kind, key=lambda part: part.name)
        return pa.struct([pa.field(part.name, _sorted(part.type)) for part in parts])
    return pa.list_(_sorted(kind.value_type)) if pa.types.is_list(kind) else kind


def _is_utf8(record: Any) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def assert_holds(stored: Any, value: Any) -> None:
    """A stored value is the one of the record; absent fields of a struct are null."""
    if isinstance(value, dict) and isinstance(stored, dict):
        for name in stored:
            assert_holds(stored[name], value.get(name))
        assert set(value) <= set(stored)
    elif isinstance(value, list) and isinstance(stored, list):
        assert len(stored) == len(value)
        for inner, item in zip(stored, value):
            assert_holds(inner, item)
    elif isinstance(stored, str) and not isinstance(value, str):
        assert json.loads(stored) == value
    else:
        assert stored == value
        assert value is None or stored is not None


numbers = st.builds(
    "{}{}{}".format,
    st.integers(-(10**39), 10**39) | st.integers(-9, 9),
    st.sampled_from(["", ".5", ".000", ".12345678901234567890", "." + "0" * 60 + "1", "." + "0" * 27 + "1"]),
    st.sampled_from(["", "e0", "e2", "e-3", "e-9", "E30", "e-40", "E-77", "e-400"]),
)


@given(numbers, st.integers(1, 38), st.integers(0, 38), st.sampled_from(["%s", '"%s"']))
def test_a_decimal_is_exact_at_once_as_it_is_alone(number: str, precision: int, scale: int, form: str) -> None:
    kind = pa.decimal128(precision, min(scale, precision))
    schema = pa.schema([("d", kind), ("s", pa.struct([("d", kind)])), ("l", pa.list_(kind))])
    text = form % number
    lines = [value.encode() for value in (f'{{"d":{text}}}', f'{{"s":{{"d":{text}}}}}', f'{{"l":[{text},null]}}')]
    for line in lines:
        at_once, alone = JsonParser(Terms(schema)), JsonParser(Terms(schema))
        alone.fast = []
        first, second = at_once.parse([line]), alone.parse([line])
        assert [c.to_pylist() for c in first.columns] == [c.to_pylist() for c in second.columns]
        assert first.rescued == second.rescued


@pytest.mark.parametrize("shape", ["%s", "[%s]", '{"k":%s}'])
def test_a_decimal_without_room_for_a_number_does_not_hold_another(shape: str) -> None:
    kind = pa.decimal128(38, 36)
    kinds = {"%s": kind, "[%s]": pa.list_(kind), '{"k":%s}': pa.struct([("k", kind)])}
    schema = pa.schema([("d", kinds[shape])])
    number = shape % "71399717223787401"
    assert only(number, "d", schema)[1] is not None
    assert JsonParser(Terms(schema)).objects_at_once([f'{{"d":{shape % "1.5"}}}'.encode()]) is not None


contracts = st.dictionaries(
    names,
    st.sampled_from(
        [
            pa.int64(),
            pa.int8(),
            pa.float64(),
            pa.float32(),
            pa.string(),
            pa.bool_(),
            pa.decimal128(6, 2),
            pa.date32(),
            pa.list_(pa.int64()),
            pa.list_(pa.struct([("a", pa.string())])),
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
            pa.map_(pa.string(), pa.int64()),
        ]
    ),
    min_size=1,
)


@given(st.lists(records, min_size=1, max_size=12), contracts)
def test_parsing_at_once_and_one_by_one_are_the_same(
    some: list[dict[str, Any]], contract: dict[str, pa.DataType]
) -> None:
    schema = pa.schema(list(contract.items()))
    lines = [encode(record) for record in some]
    at_once = JsonParser(Terms(schema)).parse(lines)
    slow = JsonParser(Terms(schema))
    slow.fast = []
    one_by_one = slow.parse(lines)
    assert list(at_once.lines) == list(one_by_one.lines)
    assert at_once.rescued == one_by_one.rescued
    assert at_once.misfits == one_by_one.misfits
    assert [str(c.to_pylist()) for c in at_once.columns] == [str(c.to_pylist()) for c in one_by_one.columns]


@given(st.lists(records, min_size=1, max_size=12), contracts)
def test_nothing_of_a_record_is_lost_under_any_contract(
    some: list[dict[str, Any]], contract: dict[str, pa.DataType]
) -> None:
    schema = pa.schema(list(contract.items()))
    parsed = parse([encode(record).decode(errors="surrogatepass") for record in some if _is_utf8(record)], schema)
    assert not parsed.bad
    good = [record for record in some if _is_utf8(record)]
    for at, (row, record) in enumerate(zip(rows(parsed, schema), good, strict=True)):
        left = json.loads(parsed.rescued.get(at, "{}"))
        for name, value in record.items():
            if name not in contract or (value is not None and row.get(name) is None):
                assert left[name] == value
