"""Where results go: JSON lines for machines, tables for people. Both are streams, however long the result.

On a terminal no line is wider than it: paths are cut in the middle, other cells at their end. Elsewhere nothing is cut.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

import msgspec

_SAMPLE = 100
"""Rows whose widths decide those of the columns."""
_WIDEST = 60
_NARROWEST = 8
"""Characters that a column keeps where a table is too wide for the terminal."""
_GAP = "  "

_ENCODER = msgspec.json.Encoder()


def write_json_lines(batches: Iterable[Sequence[Any]], sink: BinaryIO | None = None) -> None:
    """One line an object; a batch is one write, and is out before the next one is made."""
    sink = sink or binary_stdout()
    for batch in batches:
        sink.write(_ENCODER.encode_lines(batch))
        sink.flush()


def write_json(value: Any) -> None:
    """One object on a line of its own."""
    write_json_lines([[value]])


def binary_stdout() -> BinaryIO:
    sys.stdout.flush()
    return sys.stdout.buffer


def terminal_width() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere."""
    return max(shutil.get_terminal_size().columns, 40) if sys.stdout.isatty() else None


def bold(text: str) -> str:
    """In bold on a terminal that can."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain or not text else f"\x1b[1m{text}\x1b[0m"


def write_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Container[str] = (),
    paths: Container[str] = (),
) -> None:
    """A table as a stream: the first rows decide the widths, later ones are held to them. The last column is free.

    `numbers` are aligned to the right, `paths` are cut in the middle.
    """
    coming = iter(rows)
    first = list(islice(coming, _SAMPLE))
    widths = [min(_WIDEST, max(len(cell) for cell in column)) for column in zip(columns, *first)]
    terminal = terminal_width()
    if terminal is not None:
        widths[-1] = max(len(cell) for cell in (columns[-1], *(row[-1] for row in first)))
        widths = _fitted(widths, terminal)
    lines = _Lines(widths, [name in numbers for name in columns], [name in paths for name in columns], terminal)
    sys.stdout.write(bold(lines.line(columns)) + "\n")
    for chunk in _chunks(lines.line(row) for row in chain(first, coming)):
        sys.stdout.write("\n".join(chunk) + "\n")


def _fitted(widths: Sequence[int], terminal: int) -> list[int]:
    """The widths that fit the terminal: what is too much is taken from the widest column, again and again."""
    fitted = list(widths)
    over = sum(fitted) + len(_GAP) * (len(fitted) - 1) - terminal
    while over > 0 and max(fitted) > _NARROWEST:
        widest = fitted.index(max(fitted))
        rest = max([width for at, width in enumerate(fitted) if at != widest], default=0)
        less = min(over, max(1, fitted[widest] - max(rest, _NARROWEST)))
        fitted[widest] -= less
        over -= less
    return fitted


class _Lines:
    """Lines of a table whose widths are known."""

    def __init__(self, widths: Sequence[int], right: Sequence[bool], paths: Sequence[bool], terminal: int | None):
        self._terminal = terminal
        self._columns = list(zip(widths, right, paths))

    def line(self, cells: Sequence[str]) -> str:
        texts = [self._cell(cell, *column) for cell, column in zip(cells, self._columns)]
        line = _GAP.join(texts).rstrip()
        return line if self._terminal is None else cut_end(line, self._terminal)

    def _cell(self, text: str, width: int, right: bool, path: bool) -> str:
        if self._terminal is not None and len(text) > width:
            text = cut_path(text, width) if path else cut_end(text, width)
        return text.rjust(width) if right else text.ljust(width)


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(lines, 1000)):
        yield chunk


def printable(text: str) -> str:
    """Text from a table must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def cut(text: str) -> str:
    """A cell of a table of rows: no wider than is pleasant."""
    return cut_end(printable(text), _WIDEST)


def cut_end(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def cut_path(text: str, width: int) -> str:
    """A path in so many characters: directories go first, then the middle of the file's name."""
    if len(text) <= width:
        return text
    directory, slash, name = text.rstrip("/").rpartition("/")
    room = width - len(name) - 2
    if slash and room > 0:
        return f"{directory[:room]}…/{name}"
    return f"…/{_cut_middle(name, width - 2)}" if slash else _cut_middle(text, width)


def _cut_middle(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def write_headline(text: str) -> None:
    """A line of its own before facts."""
    width = terminal_width()
    sys.stdout.write(bold("\n".join([text] if width is None else textwrap.wrap(text, width))) + "\n\n")


def write_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and values, one a line; on a terminal long prose goes on below itself, and long paths are cut."""
    lines = list(facts)
    indent = max(len(name) for name, _ in lines) + len(_GAP)
    width = terminal_width()
    for name, value in lines:
        shown = printable(value)
        if width is not None:
            shown = _folded(shown, width - indent, " " * indent)
        sys.stdout.write(f"{bold(name)}{' ' * (indent - len(name))}{shown}".rstrip() + "\n")


def _folded(text: str, width: int, indent: str) -> str:
    words = [cut_path(word, width) for word in text.split(" ")]
    wrapped = textwrap.wrap(" ".join(words), width, break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(wrapped)
