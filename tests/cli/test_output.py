"""Output is a stream: what is known is out before more is asked for, and little is held."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import pytest

from delta_sidecar.cli import output
from delta_sidecar.texts import printable, sized


class Sink(io.TextIOWrapper):
    """A standard output that shows what has reached it."""

    def __init__(self) -> None:
        self.seen = io.BytesIO()
        super().__init__(self.seen, encoding="utf-8", write_through=True)

    def lines(self) -> int:
        return self.seen.getvalue().count(b"\n")


def test_a_batch_is_out_before_the_next_is_made() -> None:
    sink = Sink()

    def batches() -> Iterator[list[Any]]:
        for number in range(3):
            assert sink.lines() == number * 2
            yield [{"n": number}, {"n": number}]

    with redirect_stdout(sink):
        output.write_json_lines(batches())
    assert sink.lines() == 6


@pytest.mark.slow
def test_a_table_holds_few_rows() -> None:
    sink = Sink()

    held = []

    def rows() -> Iterator[list[str]]:
        for number in range(20_000):
            held.append(number - sink.lines())
            yield [str(number), "x"]

    with redirect_stdout(sink):
        output.write_table(["n", "name"], rows(), ["n"])
    assert max(held) < 1200
    assert sink.lines() == 20_001


def test_columns_are_aligned_by_the_first_rows() -> None:
    sink = Sink()
    with redirect_stdout(sink):
        output.write_table(["n", "name", "path"], [["1", "long name", "p"], ["1,000", "b", "q"]], ["n"])
    assert sink.seen.getvalue().decode().splitlines() == [
        "    n  name       path",
        "    1  long name  p",
        "1,000  b          q",
    ]


@pytest.mark.parametrize(
    ("text", "shown"), [("naïve", "naïve"), ("a\nbé", "a\\nbé"), ("\x1b[31m", "\\x1b[31m"), ("\u202e", "\\u202e")]
)
def test_only_what_does_not_print_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_no_table_fact_or_headline_steers_the_terminal() -> None:
    sink = Sink()
    with redirect_stdout(sink):
        output.write_headline("reads \x1b[31m")
        output.write_table(["a\x1b[31m", "b\n"], [["\x1b[2J", "\x07"]])
        output.write_facts([("c\x1b[31m", "\x1b[2J")])
    assert sink.seen.getvalue().decode().splitlines() == [
        "reads \\x1b[31m",
        "",
        "a\\x1b[31m  b\\n",
        "\\x1b[2J       \\x07",  # whoever gives rows escapes them before they are measured
        "c\\x1b[31m  \\x1b[2J",
    ]


def test_long_cells_are_cut() -> None:
    assert output.cut("a" * 60) == "a" * 60
    assert output.cut("a" * 61) == "a" * 59 + "…"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a/b.parquet", "a/b.parquet"),
        ("hour=2026021023/part-0001.parquet", "hour…/part-0001.parquet"),
        ("lake/part-00019-0123456789-c000.parquet", "…/part-00019…00.parquet"),
        ("lake/events/of/a/long/year/", "lake/events/of/a/…/year"),
        ("part-00019-0123456789-c000.parquet", "part-00019-…000.parquet"),
    ],
)
def test_paths_are_cut_where_they_tell_least(path: str, shown: str) -> None:
    assert output.cut_path(path, 23) == shown


UUIDS = ("9f3c61de-52b0-4bd5-9c4e-7f6a1be0c2d4", "9f3c61de-52b0-4bd5-9c4e-7f6a1be0c2d5")


@pytest.mark.parametrize(
    ("paths", "width", "shown"),
    [
        ([f"part-00000-{uuid}-c000.parquet" for uuid in UUIDS], 36, ["…3c61de-52b0-4bd5-9c4e-7f6a1be0c2d4…", "d5…"]),
        ([f"part-0000{n}-{UUIDS[0]}.parquet" for n in (1, 2)], 16, ["part-00001-9f3c…", "part-00002-9f3c…"]),
        ([f"hour={h}/part-0.parquet" for h in (2026021022, 2026021023)], 12, ["…2026021022…", "…2026021023…"]),
        ([f"part-{n}-{u}.parquet" for u in UUIDS for n in (10, 29)], 20, ["…10-9f3c61…1be0c2d4…"]),
        ([f"{n}/part-{n}-{u}.parquet" for n, u in ((10, UUIDS[0]), (29, UUIDS[1]))], 20, ["…-9c4e-7f6a1be0c2d4…"]),
        (["a" * 30, "b" * 30], 8, ["aaaa…aaa"]),
        (["dir/" + "a" * 30], 10, ["…/aaaa…aaa"]),
    ],
)
def test_paths_of_a_table_are_told_apart(paths: list[str], width: int, shown: list[str]) -> None:
    cut = output._PathCut(paths)
    found = [cut(path, width) for path in paths]
    assert all(len(path) <= width for path in found)
    assert len(set(found)) == len(paths)
    assert all(path.endswith(end) for path, end in zip(found, shown))


def test_a_later_path_that_is_not_like_the_first_is_cut_as_any() -> None:
    cut = output._PathCut(["part-1-c000.parquet", "part-2-c000.parquet"])
    assert cut("part-3-c000.parquet", 9) == "part-3-c…"
    assert cut("year/other-file.bin", 12) == output.cut_path("year/other-file.bin", 12)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (128 * 10**9, "128 GB"),
        (5 * 10**22, "50,000 EB"),
    ],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert sized(count) == text
