"""Where results go: JSON lines for machines, tables for people. Both are streams, however long the result."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

_SAMPLE = 100
"""Rows whose widths decide those of the columns."""
_WIDEST = 60


_ENCODER = msgspec.json.Encoder()


def write_json_lines(batches: Iterable[Sequence[Any]]) -> None:
    """One line an object; a batch is one write, and is out before the next one is made."""
    sink = binary_stdout()
    for batch in batches:
        sink.write(_ENCODER.encode_lines(batch))
        sink.flush()


def write_json(value: Any) -> None:
    """One object on a line of its own."""
    write_json_lines([[value]])


def binary_stdout() -> BinaryIO:
    sys.stdout.flush()
    return sys.stdout.buffer


def console() -> Console:
    """Colour on a terminal only; elsewhere lines are as long as they need to be."""
    from rich.console import Console

    class PipedConsole(Console):
        def on_broken_pipe(self) -> None:
            """Rich would end the process with 1; whether a closed pipe is an error is not for it to say."""
            raise BrokenPipeError

    terminal = sys.stdout.isatty()
    return PipedConsole(highlight=False, markup=False, soft_wrap=not terminal, width=None if terminal else 10_000)


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[str] = ()) -> None:
    """A table as a stream: the first rows decide the widths, later ones are held to them. The last column is free."""
    coming = iter(rows)
    first = list(islice(coming, _SAMPLE))
    widths = [min(_WIDEST, max(len(cell) for cell in column)) for column in zip(columns, *first)]
    right = [name in set(numbers) for name in columns]
    _write_heading(_line(columns, widths, right))
    for lines in _chunks(_line(row, widths, right) for row in chain(first, coming)):
        sys.stdout.write("\n".join(lines) + "\n")


def _write_heading(line: str) -> None:
    from rich.text import Text

    console().print(Text(line, style="bold"))


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(lines, 1000)):
        yield chunk


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(cells, widths, right)]
    return "  ".join(padded).rstrip()


def printable(text: str) -> str:
    """Text from a table must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def cut(text: str) -> str:
    """A cell of a table of rows: no wider than is pleasant."""
    shown = printable(text)
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - 1] + "…"


def write_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and values, one a line."""
    from rich.text import Text

    lines = list(facts)
    width = max(len(name) for name, _ in lines)
    out = console()
    for name, value in lines:
        out.print(Text.assemble((name.ljust(width), "bold"), "  ", printable(value)))
