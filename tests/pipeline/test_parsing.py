"""Lines as rows in tasks, without Spark: headers of files, what bad rows hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.parsing import Order, TextFormat, decode_problems, infer_batches, parse_batches
from delta_sidecar.pipeline.records.conversion import DEEPEST
from delta_sidecar.pipeline.records.csv_records import Dialect
from delta_sidecar.pipeline.records.terms import Terms

COLUMNS = [("id", pa.int64()), ("t", pa.string())]
CORRUPT = ("_corrupt_record", pa.string())


def order(
    file_format: TextFormat = "csv", columns: Sequence[tuple[str, pa.DataType]] = COLUMNS, **dialect: Any
) -> Order:
    made = Dialect(**dialect)
    return Order(file_format, Terms(pa.schema(columns)), made.encoding, made, {}, None, ())


def batch(*values: bytes) -> pa.RecordBatch:
    """Lines of one file, or one file as a whole."""
    origins, starts = pa.array(["f"] * len(values)), pa.array([0] * len(values), pa.int64())
    return pa.record_batch([pa.array(values, pa.binary()), origins, starts], names=["value", "origin", "start"])


def parse(asked: Order, *values: bytes) -> list[dict[str, Any]]:
    return [row for made in parse_batches(asked, iter([batch(*values)])) for row in made.to_pylist()]


def pairs(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The values of the contract's columns."""
    return [tuple(value for name, value in row.items() if not name.startswith("__")) for row in rows]


def raws(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["__raw"] for row in rows]


def test_a_format_without_a_parser_is_not_taken_for_csv() -> None:
    unknown: Any = "xml"
    asked = replace(order(), format=unknown)
    with pytest.raises(AssertionError, match="xml"):
        parse(asked, b"1,a")
    with pytest.raises(AssertionError, match="xml"):
        infer_batches(asked, iter([batch(b"1,a")]))


@pytest.mark.parametrize("header", [True, False])
def test_a_comment_in_a_file_that_is_read_whole_is_one_line(header: bool) -> None:
    columns = COLUMNS if header else [("_c0", pa.int64()), ("_c1", pa.string())]
    asked = order(columns=columns, multi_line=True, comment="#", header=header)
    text = b"#note\n1,a\n#more\n\n2,b\n"
    assert pairs(parse(asked, b"#top\nid,t\n" + text if header else text)) == [(1, "a"), (2, "b")]
    assert [part.type for part in infer_batches(asked, iter([batch(b"id,t\n" + text)]))][1] == pa.string()


@pytest.mark.parametrize("multi_line", [False, True])
def test_a_header_that_is_not_in_the_encoding_is_refused(multi_line: bool) -> None:
    lines = [b"id,caf\xe9", b"1,2"]
    if multi_line:
        (row,) = parse(order(multi_line=True), b"\n".join(lines))
        assert row["__reason"] == "it is not in the encoding of the file"
        good, bad = (lines[0].decode("latin-1") + "\n1,2").encode(), b"\n".join(lines)
        for files, names in (((bad,), []), ((bad, good), ["id", "café"])):
            batches = [batch(data) for data in files]
            assert [part.name for part in infer_batches(order(multi_line=True), iter(batches))] == names
        return
    for work in (parse, lambda asked, *some: infer_batches(asked, iter([batch(*some)]))):
        with pytest.raises(InputError, match=r"f: its header is not in the encoding utf-8"):
            work(order(), *lines)
    assert [part.name for part in infer_batches(order(encoding="latin-1"), iter([batch(*lines)]))] == ["id", "café"]


def test_a_first_line_without_names_may_be_a_bad_row() -> None:
    columns = [("_c0", pa.int64()), ("_c1", pa.string())]
    rows = parse(order(columns=columns, header=False), b"1,caf\xe9", b"2,x")
    assert [(row["_c0"], row["__reason"]) for row in rows] == [
        (2, None),
        (None, "it is not in the encoding of the file"),
    ]


def test_a_header_that_does_not_end_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"f: its header cannot be read: a quote is not closed"):
        parse(order(multi_line=True), b'id,"t\n1,a')


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_the_mark_at_the_begin_of_a_whole_file_is_none_of_its_text(encoding: str) -> None:
    asked = order(columns=[("id", pa.string()), ("t", pa.string())], multi_line=True, encoding=encoding)
    assert pairs(parse(asked, "\ufeffid,t\n\ufeffa,b".encode(encoding))) == [("\ufeffa", "b")]
    bare = order(columns=[("_c0", pa.string())], multi_line=True, encoding=encoding, header=False)
    for given in (bare, replace(bare, names=["_c0"])):
        assert pairs(parse(given, "\ufeffa\n\ufeffb".encode(encoding))) == [("a",), ("\ufeffb",)]


def test_blanks_are_a_field_of_a_whole_file() -> None:
    asked = order(columns=[("_c0", pa.string())], multi_line=True, header=False)
    assert pairs(parse(asked, b"   \n  ")) == [("   ",), ("  ",)]


def test_a_record_of_a_list_has_its_own_text() -> None:
    first, second = b'{"t":"2026-01-01", "id":1}', b'{ "t": "j\\u00fcnk" , "id": 2 }'
    asked = replace(order("json"), keep_raw=True)
    rows = parse(asked, b" [" + first + b" ,\t" + second + b"] ", b'{"id": 3}', b"[" + first + b"]")
    assert raws(rows) == [first, second, b'{"id": 3}', first]
    whole = b'[{"id": 1}, {"id": 2, "ID": 2}]'
    twice, *others = sorted(parse(asked, whole, b'[{"id": 3}]'), key=lambda row: row["__reason"] is None)
    assert twice["__raw"] == whole, "no record of that line is a row"
    assert raws(others) == [b'{"id": 3}']


def test_every_message_holds_a_record_or_is_bad() -> None:
    messages = ["\ufeff[]", "\u00a0[]", "\x0c", "[ ]", "", " ", '{"id": 1}', "\ufeff"]
    rows = parse(replace(order("json"), each=True), *(text.encode() for text in messages))
    assert [row["__reason"] is None for row in rows] == [True] + [False] * 7
    rows = parse(order("json"), *(text.encode() for text in messages))
    assert sum(row["__reason"] is not None for row in rows) == 3, "a line of a file may be blank or an empty list"


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_bad_row_is_the_text_of_its_record_whatever_the_encoding(file_format: str) -> None:
    """Bytes of Latin-1 may be valid UTF-8, which is another text."""
    text = "{Ã©" if file_format == "json" else "Ã©,é,x"
    rows = parse(order(file_format, encoding="latin-1"), *(line.encode("latin-1") for line in ("id,t", text)))
    assert raws(rows)[-1] == text.encode()
    (row,) = parse(order(multi_line=True, encoding="utf-16-le"), "id,t\n1,é,x".encode("utf-16-le"))
    assert row["__raw"] == "1,é,x".encode()
    (row,) = parse(order("json", encoding="ascii"), "{é".encode())
    assert (row["__raw"], row["__reason"]) == ("{é".encode(), "it is not in the encoding of the file")


def test_escapes_of_a_record_that_is_no_text_are_told_from_its_own() -> None:
    asked = replace(order("json", columns=[*COLUMNS, CORRUPT]), permissive=True)
    rows = parse(asked, b"{\xff\\xff", b"{\\xff", "{é\\".encode())
    assert [row["_corrupt_record"] for row in rows] == ["{\\xff\\\\xff", "{\\xff", "{é\\"]


@pytest.mark.parametrize("nest", [('{"a":', "}"), ("[", "]")])
def test_json_is_carried_to_one_depth_and_bad_beyond(nest: tuple[str, str]) -> None:
    def parsed_at(depth: int) -> dict[str, Any]:
        inner = depth - 1
        (row,) = parse(order("json"), f'{{"new":{nest[0] * inner}1{nest[1] * inner}}}'.encode())
        return row

    (problem,) = decode_problems(parsed_at(DEEPEST)["__problems"])
    assert problem.name == "new"
    for depth in (DEEPEST + 1, 130, 320, 1000, 100_000):
        assert parsed_at(depth)["__reason"] == "it is nested too deeply"
    wide = b'{"id": 1, "t": [' + b"{}," * 200 + b"{}]}"
    assert parse(order("json"), wide)[0]["__reason"] is None
