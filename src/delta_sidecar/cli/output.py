"""Output of results: JSON lines for programs, tables for people. Both are written as streams.

No line is wider than the terminal: paths are cut where they are alike, other cells at their end. In a pipe nothing is
cut.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO, TypeAlias

import msgspec

from delta_sidecar.texts import printable

_SAMPLE = 100
"""Rows whose widths decide those of the columns."""
_WIDEST = 60
_NARROWEST = 8
"""Characters that a column keeps where a table is too wide for the terminal."""
_GAP = "  "

Cut: TypeAlias = Callable[[str, int], str]
"""Shortens a text to a number of characters."""

_ENCODER = msgspec.json.Encoder()


def write_json_lines(batches: Iterable[Sequence[Any]], sink: BinaryIO | None = None) -> None:
    """One line per object. A batch is one write, and is flushed before the next one is made."""
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
    """In bold, on a terminal that supports it."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain or not text else f"\x1b[1m{text}\x1b[0m"


def write_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Container[str] = (),
    paths: Container[str] = (),
) -> None:
    """A table as a stream: the first rows decide the widths, later ones are cut to them. The last column is not.

    `numbers` are aligned to the right, `paths` are cut where those of the first rows are alike.
    """
    headings = list(map(printable, columns))
    coming = iter(rows)
    first = list(islice(coming, _SAMPLE))
    widths = [min(_WIDEST, max(len(cell) for cell in column)) for column in zip(headings, *first)]
    terminal = terminal_width()
    if terminal is not None:
        widths[-1] = max(len(cell) for cell in (headings[-1], *(row[-1] for row in first)))
        widths = _fitted(widths, terminal)
    cuts = [_PathCut([row[at] for row in first]) if name in paths else cut_end for at, name in enumerate(columns)]
    lines = _Lines(widths, [name in numbers for name in columns], cuts, terminal)
    sys.stdout.write(bold(lines.line(headings)) + "\n")
    for chunk in _chunks(lines.line(row) for row in chain(first, coming)):
        sys.stdout.write("\n".join(chunk) + "\n")


def _fitted(widths: Sequence[int], terminal: int) -> list[int]:
    """The widths that fit the terminal: the excess is taken from the widest column, again and again."""
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

    def __init__(self, widths: Sequence[int], right: Sequence[bool], cuts: Sequence[Cut], terminal: int | None):
        self._terminal = terminal
        self._columns = list(zip(widths, right, cuts))

    def line(self, cells: Sequence[str]) -> str:
        texts = [self._cell(cell, *column) for cell, column in zip(cells, self._columns)]
        line = printable(_GAP.join(texts).rstrip())
        return line if self._terminal is None else cut_end(line, self._terminal)

    def _cell(self, text: str, width: int, right: bool, cut: Cut) -> str:
        if self._terminal is not None:
            text = cut(text, width)
        return text.rjust(width) if right else text.ljust(width)


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(lines, 1000)):
        yield chunk


def cut(text: str) -> str:
    """A cell of a table of rows, cut to a readable width."""
    return cut_end(printable(text), _WIDEST)


def cut_end(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def cut_path(text: str, width: int) -> str:
    """A path, cut to a number of characters: directories go first, then the middle of the file's name."""
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


class _PathCut:
    """Cuts paths so that they stay different: first the beginning and the end that the first paths share."""

    def __init__(self, paths: Sequence[str]) -> None:
        several = list(paths) if len(set(paths)) > 1 else [""]
        self._head = _beginning(several)
        self._tail = _beginning([path[len(self._head) :][::-1] for path in several])[::-1]
        self._cores = {path[len(self._head) : len(path) - len(self._tail)] for path in several}

    def __call__(self, text: str, width: int) -> str:
        """The path, cut to a number of characters."""
        begin, end = len(self._head), len(text) - len(self._tail)
        is_alike = text.startswith(self._head) and text.endswith(self._tail) and begin <= end
        if len(text) <= width or not is_alike or not (self._head or self._tail):
            return cut_path(text, width)
        if end < width:
            return cut_end(text, width)
        room = width - 2
        if end - begin <= room or self._differ_in_last(room):
            return f"…{text[end - room : end]}{'…' if self._tail else ''}"
        return f"{'…' if self._head else ''}{_cut_middle(text[begin:end], room)}{'…' if self._tail else ''}"

    def _differ_in_last(self, count: int) -> bool:
        return len({core[-count:] for core in self._cores}) == len(self._cores)


def _beginning(texts: Sequence[str]) -> str:
    """The longest beginning that all the texts share."""
    first, last = min(texts), max(texts)
    return first[: next((at for at, (a, b) in enumerate(zip(first, last)) if a != b), len(first))]


def write_headline(text: str) -> None:
    """A line of its own before facts."""
    text, width = printable(text), terminal_width()
    sys.stdout.write(bold("\n".join([text] if width is None else textwrap.wrap(text, width))) + "\n\n")


def write_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and values, one per line. On a terminal, long values are wrapped and long paths are cut."""
    lines = [(printable(name), printable(value)) for name, value in facts]
    indent = max(len(name) for name, _ in lines) + len(_GAP)
    width = terminal_width()
    for name, shown in lines:
        if width is not None:
            shown = _folded(shown, width - indent, " " * indent)
        sys.stdout.write(f"{bold(name)}{' ' * (indent - len(name))}{shown}".rstrip() + "\n")


def _folded(text: str, width: int, indent: str) -> str:
    words = [cut_path(word, width) for word in text.split(" ")]
    wrapped = textwrap.wrap(" ".join(words), width, break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(wrapped)
