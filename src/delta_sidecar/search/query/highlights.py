"""Which words of a text a query found, and the text with marks around them.

The words are those of the analyzer, with their places in the text. Only what a query wants is marked: what it
excludes is not there. Patterns run in RE2, because its time grows with the text, whatever the pattern is, as the
engine's does; a regular expression of the engine that RE2 does not understand is not marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.search.query.binding import QueryFields, analyzer_of
from delta_sidecar.search.query.expression import ANY, Fuzzy, Leaf, Pattern, Phrase, Query, Regex, Wild, Word, leaves
from delta_sidecar.search.query.where import escaped
from delta_sidecar.search.splits.analyzers import Analyzer
from delta_sidecar.search.splits.analyzers import Word as Token
from delta_sidecar.search.splits.fields import KEYWORD, TEXT, SplitField

Span: TypeAlias = tuple[int, int]
Finder: TypeAlias = Callable[[Sequence[Token]], Iterator[Span]]
Test: TypeAlias = Callable[[Sequence[str]], Sequence[bool]]
"""Which of the words are wanted."""

WIDTH: Final = 200
"""Characters of a text that are shown, about."""
_BEFORE: Final = 60
"""Characters that are shown before the first mark."""
_CUT: Final = "…"


@dataclass(frozen=True)
class Marks:
    """What stands before and behind a word that was found."""

    before: str = "**"
    behind: str = "**"


class Highlighter:
    """Marks the words that a query found in one text field.

    Args:
        query: The query.
        field: The field.
        fields: What can be asked of the table.
    """

    def __init__(self, query: Query, field: SplitField, fields: QueryFields) -> None:
        self._analyzer = analyzer_of(field)
        wanted = [leaf for leaf, is_wanted in leaves(query) if is_wanted and _is_about(leaf, field, fields)]
        self._finders = [finder for leaf in wanted if (finder := _finder(leaf, self._analyzer)) is not None]

    def spans(self, text: str) -> list[Span]:
        """Where the words are that were found, in characters, in order."""
        words = self._analyzer.words(text)
        return sorted({span for find in self._finders for span in find(words)})

    def shown(self, text: str | None, marks: Marks, width: int = WIDTH) -> str | None:
        """The text around the words that were found, with marks; None if none is in it."""
        spans = [] if text is None else self.spans(text)
        if text is None or not spans:
            return None
        begin = 0 if len(text) <= width else max(0, spans[0][0] - _BEFORE)
        end = len(text) if len(text) <= width else max(begin + width, spans[0][1])
        parts = [_CUT] if begin else []
        at = begin
        for low, high in spans:
            if low >= end:
                break
            parts += [text[at:low], marks.before, text[low:high], marks.behind]
            at = high
        parts.append(text[at : max(end, at)])
        return "".join(parts) + (_CUT if max(end, at) < len(text) else "")


def _is_about(leaf: Leaf, field: SplitField, fields: QueryFields) -> bool:
    if leaf.field is None:
        return field in fields.texts
    found = fields.find(leaf.field)
    return isinstance(found, SplitField) and found.name == field.name and found.kind in (TEXT, KEYWORD)


def _finder(leaf: Leaf, made: Analyzer) -> Finder | None:
    match leaf:
        case Word(_, text):
            return _sequence([_equals(word.text) for word in made.words(text)], 0)
        case Phrase(_, text, slop):
            return _sequence([_equals(word.text) for word in made.words(text)], slop)
        case Pattern(_, parts):
            return _pattern(parts, made)
        case Fuzzy(_, text, distance):
            piece = made.piece(text)
            return None if piece is None else _sequence([_near(piece, distance)], 0)
        case Regex(_, pattern):
            return _sequence([_matching(pattern)], 0)
    return None


def _pattern(parts: Sequence[str | Wild], made: Analyzer) -> Finder:
    if len(parts) == 2 and isinstance(parts[0], str) and parts[1] == Wild(ANY) and not made.is_whole:
        words = [word.text for word in made.words(parts[0])]
        if words:
            return _sequence([*map(_equals, words[:-1]), _begins(words[-1])], 0)
    return _sequence([_matching("(?s)" + "".join(_translated(part, made) for part in parts))], 0)


def _translated(part: str | Wild, made: Analyzer) -> str:
    if isinstance(part, Wild):
        return ".*" if part.sign == ANY else "."
    return escaped(made.piece(part) or part)


def _equals(wanted: str) -> Test:
    return lambda words: [word == wanted for word in words]


def _begins(prefix: str) -> Test:
    return lambda words: [word.startswith(prefix) for word in words]


def _near(wanted: str, distance: int) -> Test:
    return lambda words: [is_near(wanted, word, distance) for word in words]


def _matching(regex: str) -> Test:
    def test(words: Sequence[str]) -> Sequence[bool]:
        try:
            found = pc.match_substring_regex(arrays.strings(words), rf"\A(?:{regex})\z")
        except pa.ArrowInvalid:
            return [False] * len(words)
        return list(found.to_pylist())

    return test


def _sequence(tests: Sequence[Test], slop: int) -> Finder:
    """Words that pass the tests one after the other, with at most `slop` others between them."""

    def chains(passed: Sequence[Sequence[bool]], begin: int, number: int, room: int) -> Iterator[list[int]]:
        if number == len(tests):
            yield []
            return
        flags = passed[number]
        for at in range(begin, min(len(flags), begin + room + 1)):
            if flags[at]:
                for rest in chains(passed, at + 1, number + 1, room - (at - begin)):
                    yield [at, *rest]
                    return

    def find(words: Sequence[Token]) -> Iterator[Span]:
        texts = [word.text for word in words]
        passed = [test(texts) for test in tests]
        for first in range(len(words)):
            if tests and passed[0][first]:
                for chain in chains(passed, first + 1, 1, slop):
                    for at in (first, *chain):
                        yield words[at].start, words[at].end

    return find


def is_near(left: str, right: str, most: int) -> bool:
    """Whether two words differ in at most this many characters that are put in, left out, changed or swapped."""
    if abs(len(left) - len(right)) > most:
        return False
    older: list[int] = []
    before = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        older, before = before, row
    return before[-1] <= most
