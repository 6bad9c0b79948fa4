"""Lines of CSV under a contract: each file by its own header, values exact, records whole."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.records.csv_records import CsvInference, CsvParser, Dialect, header_names
from delta_sidecar.pipeline.records.inference import settled
from delta_sidecar.pipeline.records.terms import Parsed, Terms

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("x", pa.float64()),
        ("d", pa.decimal128(5, 2)),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("s", pa.struct([("k", pa.int64()), ("t", pa.string())])),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


KINDS = (
    "", "x", "true", "TRUE", "5", "-0", "007", "+1", " 1", "9007199254740992", "9007199254740993",
    "18446744073709551615", "1" + "0" * 40, "1.5", "1.50", ".5", "1e5", "1e400", "NaN", "2026-02-10",
)  # fmt: skip
"""Texts that are nearly of one type, or of another."""


def parse(header: str, lines: list[str], dialect: Dialect = Dialect(), schema: pa.Schema = SCHEMA) -> Parsed:  # noqa: B008
    names = header_names(header, dialect, "f.csv")
    return CsvParser(Terms(schema), dialect).parse([line.encode() for line in lines], names)


def rows(parsed: Parsed, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    return pa.Table.from_arrays(list(parsed.columns), schema=schema).to_pylist()


def test_columns_are_matched_by_name() -> None:
    (row,) = rows(parse("B,A", ["text,5"]))
    assert (row["a"], row["b"], row["x"]) == (5, "text", None)


def test_an_empty_text_is_null_where_the_column_is_no_text() -> None:
    parsed = parse("a,x,d,day", ['"","","",""'])
    assert [rows(parsed)[0][name] for name in ("a", "x", "d", "day")] == [None] * 4
    assert not parsed.rescued
    seen = CsvInference(Dialect())
    seen.see([b'"",""', b'"1",""'], ["n", "t"])
    assert [part.type for part in seen.kind] == [pa.int64(), pa.null()]


def test_an_empty_text_is_told_from_no_text() -> None:
    assert [row["b"] for row in rows(parse("a,b", ['1,""', "2,", '3,"x ""y"", z"']))] == ["", None, 'x "y", z']


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("a", "007", 7),
        ("a", " 12", 12),
        ("a", "+5", 5),
        ("x", "1e5", 1e5),
        ("x", "-Infinity", float("-inf")),
        ("d", "1.5", 1.5),
        ("ok", "TRUE", True),
        ("s", '"{""k"": 3}"', {"k": 3, "t": None}),
        ("a", "0" * 5000 + "7", 7),
        ("x", "0" * 5000 + "7", 7.0),
    ],
)
def test_a_text_that_fits_is_stored_exactly(column: str, text: str, expected: Any) -> None:
    parsed = parse(column, [text])
    value = rows(parsed)[0][column]
    assert (float(value) if column == "d" else value) == expected
    assert not parsed.rescued


@pytest.mark.parametrize(
    ("column", "text"),
    [("a", "1.0"), ("a", "0x1F"), ("a", "x"), ("x", "9007199254740993"), ("x", "1e999"), ("d", "1.255"), ("ok", "1"),
     ("day", "2026-02-30"), ("s", "x"), ("a", "9223372036854775808"), ("day", "0000-01-01"), ("a", "9" * 5000),
     ("x", "9" * 5000), ("d", "9" * 5000), ("at", "2026-02-10 00:00:00+01:99"), ("at", "2026-02-10 00:00-00:60"),
     ("x", "9007199254740993.00"), ("x", "1e-400")],
)  # fmt: skip
def test_a_text_that_does_not_fit_is_left(column: str, text: str) -> None:
    parsed = parse(column, [text])
    assert rows(parsed)[0][column] is None
    assert json.loads(parsed.rescued[0]) == {column: text}
    assert [problem.name for problem in parsed.problems[0]] == [column]


@pytest.mark.parametrize(
    "text", ['{"k":1,"K":2}', '{"k":1,"k":2}', r'{"t":"\ud800"}', '{"t":' + "[" * 200 + "]" * 200 + "}"]
)
def test_json_inside_a_field_that_is_no_record_does_not_fit(text: str) -> None:
    parsed = parse("s,b", ['"' + text.replace('"', '""') + '",x', ",y"])
    assert [(row["s"], row["b"]) for row in rows(parsed)] == [(None, "x"), (None, "y")]
    assert json.loads(parsed.rescued[0]) == {"s": text}


@pytest.mark.parametrize("column", ["a", "x", "d", "ok", "day", "at"])
def test_a_value_fits_whatever_its_neighbours_are(column: str) -> None:
    """A chunk is converted as a whole, or value by value where one of it cannot be."""
    some = [*KINDS, "0000-01-01", "0001-01-01", "9999-12-31", "1970-13-01", "9223372036854775807", "0" * 30, "1e-400"]
    alone = {}
    for text in some:
        parsed = parse(f"{column},z", [f"{text},"])
        alone[text] = repr(rows(parsed)[0][column]), parsed.rescued
    for text in some:
        for neighbour in some:
            parsed = parse(f"{column},z", [f"{text},", f"{neighbour},"])
            assert repr(rows(parsed)[0][column]) == alone[text][0], (text, neighbour)
            assert (0 in parsed.rescued) == bool(alone[text][1]), (text, neighbour)


def test_a_new_column_is_told_with_its_type() -> None:
    parsed = parse("a,zip,new", ["1,007,5", "2,,6.5"])
    kinds = {problem.name: problem.kind for some in parsed.problems.values() for problem in some}
    assert kinds == {"zip": pa.string(), "new": pa.float64()}
    assert [json.loads(parsed.rescued[row]) for row in (0, 1)] == [{"zip": "007", "new": "5"}, {"new": "6.5"}]


def test_a_new_column_without_a_value_is_told_too() -> None:
    parsed = parse("a,new", ["1,"])
    assert [problem.name for problem in parsed.problems[0]] == ["new"]


@pytest.mark.parametrize("line", ["1", "1,2,3", '"1,2', '"1"x,2', ""])
def test_what_is_no_record_is_bad_unless_it_is_blank(line: str) -> None:
    parsed = parse("a,b", ["7,x", line, "8,y"])
    assert [bad.line for bad in parsed.bad] == ([1] if line else [])
    assert [row["a"] for row in rows(parsed)] == [7, 8]


def test_dialects() -> None:
    spark = Dialect(sep="|", escape="\\", comment="#", null_value="NA")
    parsed = parse("a|b", ['1|"x \\"y\\" \\\\ z"', "#no|record", "NA|NA", '2|"NA"', "3|a,b"], spark)
    assert [(row["a"], row["b"]) for row in rows(parsed)] == [(1, 'x "y" \\ z'), (None, None), (2, None), (3, "a,b")]


def test_a_quoted_line_end_in_a_file_that_is_read_whole() -> None:
    dialect = Dialect(multi_line=True)
    parsed = CsvParser(Terms(SCHEMA), dialect).parse([b'1,"x\ny"\r\n\r\n2,z\n3\n4,"open'], ["a", "b"])
    assert [(row["a"], row["b"]) for row in rows(parsed)] == [(1, "x\ny"), (2, "z")]
    assert [bad.raw for bad in parsed.bad] == ["3", '4,"open']


def test_headers() -> None:
    assert header_names('\ufeffa,"b ""c""",\r', Dialect(), "f") == ["a", 'b "c"', "_c2"]
    assert header_names("id,NA,b", Dialect(null_value="NA"), "f") == ["id", "NA", "b"]
    with pytest.raises(InputError, match=r"f\.csv: it names the column 'a' twice"):
        header_names("a,A", Dialect(), "f.csv")
    with pytest.raises(InputError, match="header cannot be read"):
        header_names('a,"b', Dialect(), "f.csv")


texts = st.one_of(
    st.text(st.characters(exclude_characters="\r\n\x00", exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["1", "2.5", "007", "true", "-0", "1e5", "9007199254740993", '"', ",", "NaN", "2026-02-10"]),
    st.none(),
)


fields = st.one_of(
    st.text("a1 ,;\"'\\\té\ufeff\x00", max_size=4),
    st.sampled_from(["", '""', '"a"', '"a,b"', '"x ""y"""', '"', 'a"b', '"a"b', "NA", '"NA"', "'q,'", '" "', "\r"]),
)
dialects = st.sampled_from(
    [
        Dialect(),
        Dialect(escape="\\"),
        Dialect(escape=""),
        Dialect(quote="'", escape="'", sep=";"),
        Dialect(null_value="NA"),
        Dialect(comment="1"),
        Dialect(sep="\t"),
        Dialect(sep=", "),
    ]
)


@given(st.lists(st.lists(fields, min_size=1, max_size=3), min_size=1, max_size=6), dialects, st.integers(1, 3))
def test_lines_are_divided_at_once_as_they_are_one_by_one(lines: list[list[str]], dialect: Dialect, width: int) -> None:
    encoded = [dialect.sep.join(line).encode() for line in lines]
    parser = CsvParser(Terms(pa.schema([])), dialect)
    columns, places, bad = parser.divide(encoded, width)
    texts, no_text = parser._decoded(encoded)
    plainly = parser._one_by_one(((at, text, 0) for at, text in texts), width, no_text)
    assert ([c.to_pylist() for c in columns], list(places), bad) == ([c.to_pylist() for c in plainly[0]], *plainly[1:])


def test_lines_with_quotes_are_divided_at_once() -> None:
    """One by one takes some hundred times longer, and files in which every field is quoted are common."""
    parser = CsvParser(Terms(pa.schema([])), Dialect(null_value="NA"))
    lines = [b'"1","x ""y"", z",""', b'"2",plain,', b'"3","NA",NA']
    columns, places = parser._at_once(lines, 3) or ([], [])
    assert places == [0, 1, 2]
    assert [c.to_pylist() for c in columns] == [["1", "2", "3"], ['x "y", z', "plain", None], ["", None, None]]


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=12), st.booleans())
def test_an_inferred_schema_gives_every_text_back(some: list[tuple[str | None, ...]], quoted: bool) -> None:
    sink = io.StringIO()
    for record in some:
        cells = (
            "" if t is None else '"' + t.replace('"', '""') + '"' if quoted or t == "" else _cell(t) for t in record
        )
        sink.write(",".join(cells) + "\n")
    lines = [line.encode() for line in sink.getvalue().split("\n")[:-1]]
    seen = CsvInference(Dialect())
    for line in lines:
        seen.see([line], ["a", "b", "c"])
    schema = pa.schema([(part.name, settled(part.type)) for part in seen.kind])
    parsed = CsvParser(Terms(schema), Dialect()).parse(lines, ["a", "b", "c"])
    assert not parsed.bad
    assert not parsed.problems
    for row, record in zip(rows(parsed, schema), some, strict=True):
        for value, text in zip(row.values(), record):
            assert_same(value, text)


@pytest.mark.parametrize("text", KINDS)
def test_inference_does_not_depend_on_the_order_of_lines(text: str) -> None:
    """Nor on which of them come at once."""
    for other in KINDS:
        one, two = text.encode() + b",", other.encode() + b","
        many = [b"%d," % at for at in range(70)] if text == "5" else [one] * 70
        found = []
        for chunks in ([[one], [two]], [[two], [one]], [[one, two]], [[*many, two]], [many, [two]]):
            seen = CsvInference(Dialect())
            for chunk in chunks:
                seen.see(chunk, ["a", "b"])
            found.append(seen.kind)
        assert all(kind == found[0] for kind in found), (one, two)


def _cell(text: str) -> str:
    sink = io.StringIO()
    csv.writer(sink, lineterminator="").writerow([text, "x"])
    return sink.getvalue()[:-2]


def assert_same(value: Any, text: str | None) -> None:
    if text is None or isinstance(value, str):
        assert value == text
    elif value is None:
        assert text == ""
    elif isinstance(value, bool):
        assert text == str(value).lower()
    else:
        assert text is not None
        assert value == (int(text) if isinstance(value, int) else float(text))
