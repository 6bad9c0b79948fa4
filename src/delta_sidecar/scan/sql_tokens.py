"""The words, literals and signs of a predicate's text, and the words for a place in it.

Names may be quoted with `"` or backticks; a quote inside is doubled, as in strings, and there are no backslash
escapes. Comments are `-- …` and `/* … */`, which may nest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from delta_sidecar.errors import PredicateError

Kind: TypeAlias = Literal["word", "name", "string", "bytes", "number", "sign", "end"]

SUPPORTED = (
    "supported: =, !=, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM, "
    "AND, OR, NOT, between columns and literals"
)
_TOKEN = re.compile(
    r"""
      (?P<space> \s++ | --[^\r\n]*+ )
    | (?P<comment> /\* )
    | (?P<bytes> [xX]'[^']*+' | 0[xX][0-9a-fA-F]++ )
    | (?P<string> '(?:[^']++|'')*+' )
    | (?P<name> "(?:[^"]++|"")*+" | `(?:[^`]++|``)*+` )
    | (?P<number> (?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)? )
    | (?P<word> (?:[\w$]|[^\x00-\x7f\s])++ )
    | (?P<sign> <=> | <= | >= | <> | != | == | :: | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_AROUND = 40
"""Characters shown on either side of a place: a predicate may be megabytes of an IN list."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text. `value` is what it means: words in capitals, quotes and their doubling taken off."""

    kind: Kind
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.value in words

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.value in signs


def tokenize(text: str) -> list[Token]:
    """The tokens, and one of kind `end` after them; `PredicateError` for what was begun and not ended."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise PredicateError("the predicate is not Unicode: it holds half of a surrogate pair")
    return [*_tokens(text), Token("end", "", len(text), len(text))]


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while found := _TOKEN.match(text, position):
        position = found.end()
        match found.lastgroup:
            case "comment":
                position = _comment_end(text, found.start())
            case "word":
                yield Token("word", found[0].upper(), found.start(), position)
            case "name" | "string" as kind:
                quote = found[0][0]
                yield Token(kind, found[0][1:-1].replace(quote * 2, quote), found.start(), position)
            case "bytes":
                yield Token("bytes", found[0][2:].removesuffix("'"), found.start(), position)
            case "number":
                yield Token("number", found[0], found.start(), position)
            case "sign":
                yield _sign(text, found)


def _sign(text: str, found: re.Match[str]) -> Token:
    if found[0] in "'\"`":
        kind = "string" if found[0] == "'" else "name"
        raise misplaced(
            text, found.start(), f"the predicate has an unfinished {kind}: the closing {found[0]} is missing"
        )
    return Token("sign", found[0], found.start(), found.end())


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    raise misplaced(text, start, "the predicate has an unfinished comment: the closing */ is missing")


def misplaced(text: str, position: int, what: str) -> PredicateError:
    """The error: what is wrong, at which place, and what there is instead."""
    return PredicateError(f"{what}, at character {position + 1}: {_excerpt(text, position)!r}; {SUPPORTED}")


def shown(text: str) -> str:
    """A piece of the text in quotes, cut where it is long."""
    return repr(text if len(text) <= _AROUND else f"{text[:_AROUND]}…")


def _excerpt(text: str, position: int) -> str:
    start, end = max(0, position - _AROUND), position + _AROUND
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
