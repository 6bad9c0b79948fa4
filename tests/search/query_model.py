"""Search in plain Python: documents are divided, compared and counted without the engine.

Shares the query tree with `src`, and no code: the tests compare its answers with the engine's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from delta_sidecar.search.query.expression import (
    Both,
    Either,
    Everything,
    Exists,
    Fuzzy,
    Pattern,
    Phrase,
    Query,
    Range,
    Regex,
    Wild,
    Without,
    Word,
)

Document = Mapping[str, Any]
_FOLDS = {"ß": "ss", "æ": "ae", "ø": "o", "ı": "i"}


def _lower(text: str) -> str:
    """Character by character: what stands around a character does not matter."""
    return "".join(character.lower() for character in text)


def _fold(text: str) -> str:
    """A letter loses the mark that it is one character with; a mark of its own stays."""
    bare = (unicodedata.normalize("NFD", c)[0] if c.isalpha() and not "가" <= c <= "힣" else c for c in text)
    return "".join(_FOLDS.get(c, c) for c in bare)


def _runs(text: str, is_part: Callable[[str], bool]) -> list[str]:
    words, word = [], ""
    for character in text + " ":
        if is_part(character):
            word += character
        elif word:
            words.append(word)
            word = ""
    return words


def _is_cjk(character: str) -> bool:
    name = unicodedata.name(character, "")
    return name.startswith(("CJK UNIFIED", "HIRAGANA", "KATAKANA LETTER", "THAI"))


def _cjk(text: str) -> list[str]:
    def is_part(character: str) -> bool:
        return unicodedata.category(character)[0] in "LMN"

    words: list[str] = []
    for run in _runs(text, is_part):
        word = ""
        for character in run:
            if _is_cjk(character):
                words += [word] if word else []
                words.append(character)
                word = ""
            else:
                word += character
        words += [word] if word else []
    return words


DIVIDE: dict[str, Callable[[str], list[str]]] = {
    "default": lambda text: [_lower(word) for word in _runs(text, str.isalnum)],
    "simple": lambda text: _runs(text, str.isalnum),
    "whitespace": lambda text: _runs(text, lambda c: c not in " \t\n\r\x0c"),
    "raw": lambda text: [text],
    "raw_lower": lambda text: [_lower(text)],
    "folded": lambda text: [_fold(_lower(word)) for word in _runs(text, str.isalnum)],
    "cjk": lambda text: [_lower(word) for word in _cjk(text)],
}
LOWERS = {"default", "raw_lower", "folded", "cjk", "en", "de"}


class Model:
    """Which documents a query finds.

    Args:
        analyzers: The analyzers of the text fields; the first are those of words without a field.
        defaults: The fields of words without a field.
        stem: The stem of a word, by language.
        typed: Reads the text of a query as a value of a field.
    """

    def __init__(
        self,
        analyzers: Mapping[str, str],
        defaults: Sequence[str],
        stem: Callable[[str, str], str],
        typed: Mapping[str, Callable[[str], Any]],
    ) -> None:
        self.analyzers = analyzers
        self.defaults = defaults
        self.stem = stem
        self.typed = typed

    def words(self, field: str, text: str) -> list[str]:
        name = self.analyzers[field]
        if name in DIVIDE:
            return DIVIDE[name](text)
        return [self.stem(name, word) for word in DIVIDE["default"](text)]

    def finds(self, query: Query, document: Document) -> bool:
        match query:
            case Both(queries):
                return all(self.finds(one, document) for one in queries)
            case Either(queries):
                return any(self.finds(one, document) for one in queries)
            case Without(one):
                return not self.finds(one, document)
            case Everything():
                return True
            case _:
                fields = [query.field] if query.field is not None else self.defaults
                return any(self._in_field(query, field, document.get(field)) for field in fields)

    def _in_field(self, query: Query, field: str, value: Any) -> bool:
        if value is None:
            return False
        if field in self.typed:
            return self._typed(query, field, value)
        words = self.words(field, value)
        match query:
            case Word(_, text):
                return _follows(words, self.words(field, text), 0)
            case Phrase(_, text, slop):
                return _follows(words, self.words(field, text), slop)
            case Exists():
                return bool(words)
            case Pattern(_, parts):
                return self._pattern(field, parts, words)
            case Fuzzy(_, text, distance):
                wanted = self._changed(field, text)
                return any(edits(wanted, word) <= distance for word in words)
            case Regex(_, pattern):
                return any(re.fullmatch(pattern, word) for word in words)
        raise AssertionError(query)

    def _changed(self, field: str, text: str) -> str:
        name = self.analyzers[field]
        text = _lower(text) if name in LOWERS else text
        return _fold(text) if name == "folded" else text

    def _pattern(self, field: str, parts: Sequence[str | Wild], words: Sequence[str]) -> bool:
        if len(parts) == 2 and isinstance(parts[0], str) and parts[1] == Wild("*"):
            begin = self.words(field, parts[0])
            for at in range(len(words)):
                heads, last = words[at : at + len(begin) - 1], words[at + len(begin) - 1 :][:1]
                if heads == begin[:-1] and last and last[0].startswith(begin[-1]):
                    return True
            return False
        wanted = [part if isinstance(part, Wild) else self._changed(field, part) for part in parts]
        return any(_wild(wanted, word) for word in words)

    def _typed(self, query: Query, field: str, value: Any) -> bool:
        read = self.typed[field]
        match query:
            case Word(_, text) | Phrase(_, text):
                return bool(value == read(text))
            case Range(_, low, high, with_low, with_high):
                above = low is None or value > read(low) or (with_low and value == read(low))
                below = high is None or value < read(high) or (with_high and value == read(high))
                return above and below and value == value
            case Exists():
                return True
        raise AssertionError(query)


def _wild(parts: Sequence[str | Wild], word: str) -> bool:
    if not parts:
        return not word
    first, rest = parts[0], parts[1:]
    if isinstance(first, str):
        return word.startswith(first) and _wild(rest, word[len(first) :])
    if first.sign == "?":
        return bool(word) and _wild(rest, word[1:])
    return any(_wild(rest, word[at:]) for at in range(len(word) + 1))


def _follows(words: Sequence[str], wanted: Sequence[str], slop: int) -> bool:
    """Whether the wanted words are there in order, with at most `slop` others between them."""
    places = [[at for at, word in enumerate(words) if word == one] for one in wanted]
    return any(
        all(a < b for a, b in pairwise(chosen)) and chosen[-1] - chosen[0] - (len(wanted) - 1) <= slop
        for chosen in product(*places)
        if chosen
    )


def edits(left: str, right: str) -> int:
    """Characters put in, left out, changed, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        older, before = before, row
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
