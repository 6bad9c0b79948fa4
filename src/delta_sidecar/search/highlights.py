"""Which words of a text a query found, and the text with marks around them.

The words are those of the analyzer, with their places in the text. Only what a query wants is marked: what it
excludes is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from delta_sidecar.search.analyzers import Analyzer
from delta_sidecar.search.analyzers import Word as Token
from delta_sidecar.search.query import ANY, Fuzzy, Leaf, Pattern, Phrase, Query, Regex, Wild, Word, leaves
from delta_sidecar.search.query_binding import QueryFields, analyzer_of
from delta_sidecar.search.split_fields import KEYWORD, TEXT, SplitField

Span: TypeAlias = tuple[int, int]
Finder: TypeAlias = Callable[[Sequence[Token]], Iterator[Span]]

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
            return None if piece is None else _sequence([lambda word: is_near(piece, word, distance)], 0)
        case Regex(_, pattern):
            try:
                found = re.compile(pattern)
            except re.error:
                return None
            return _sequence([lambda word: found.fullmatch(word) is not None], 0)
    return None


def _pattern(parts: Sequence[str | Wild], made: Analyzer) -> Finder:
    if len(parts) == 2 and isinstance(parts[0], str) and parts[1] == Wild(ANY) and not made.is_whole:
        words = [word.text for word in made.words(parts[0])]
        if words:
            return _sequence([*map(_equals, words[:-1]), lambda word: word.startswith(words[-1])], 0)
    regex = re.compile("".join(_translated(part, made) for part in parts), re.DOTALL)
    return _sequence([lambda word: regex.fullmatch(word) is not None], 0)


def _translated(part: str | Wild, made: Analyzer) -> str:
    if isinstance(part, Wild):
        return ".*" if part.sign == ANY else "."
    return re.escape(made.piece(part) or part)


def _equals(wanted: str) -> Callable[[str], bool]:
    return lambda word: word == wanted


def _sequence(tests: Sequence[Callable[[str], bool]], slop: int) -> Finder:
    """Words that pass the tests one after the other, with at most `slop` others between them."""

    def chains(words: Sequence[Token], begin: int, number: int, room: int) -> Iterator[list[int]]:
        if number == len(tests):
            yield []
            return
        for at in range(begin, min(len(words), begin + room + 1)):
            if tests[number](words[at].text):
                for rest in chains(words, at + 1, number + 1, room - (at - begin)):
                    yield [at, *rest]
                    return

    def find(words: Sequence[Token]) -> Iterator[Span]:
        for first, word in enumerate(words):
            if tests and tests[0](word.text):
                for chain in chains(words, first + 1, 1, slop):
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
