"""The words, literals and signs of a predicate's text, and error messages that name a place in it.

Names may be quoted with `"` or backticks; a quote inside is doubled, as in strings, and there are no backslash
escapes. Comments are `-- …` and `/* … */`, which may nest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from delta_sidecar.errors import PredicateError

Kind: TypeAlias = Literal["word", "name", "string", "bytes", "number", "sign", "end"]


SUPPORTED = (
    "supported: =, !=, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM, "
    "AND, OR, NOT, between columns, literals, date(column), now() and now() - INTERVAL 1 HOUR"
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
    while lexeme := _TOKEN.match(text, position):
        position = lexeme.end()
        match lexeme.lastgroup:
            case "comment":
                position = _comment_end(text, lexeme.start())
            case "word":
                yield Token("word", lexeme[0].upper(), lexeme.start(), position)
            case "name" | "string" as kind:
                quote = lexeme[0][0]
                yield Token(kind, lexeme[0][1:-1].replace(quote * 2, quote), lexeme.start(), position)
            case "bytes":
                yield Token("bytes", lexeme[0][2:].removesuffix("'"), lexeme.start(), position)
            case "number":
                yield Token("number", lexeme[0], lexeme.start(), position)
            case "sign":
                yield _sign(text, lexeme)


def _sign(text: str, lexeme: re.Match[str]) -> Token:
    if lexeme[0] in "'\"`":
        kind = "string" if lexeme[0] == "'" else "name"
        raise misplaced(
            text, lexeme.start(), f"the predicate has an unfinished {kind}: the closing {lexeme[0]} is missing"
        )
    return Token("sign", lexeme[0], lexeme.start(), lexeme.end())


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


RESERVED = frozenset({"AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN"})
"""The only words that must be quoted to be a column's name."""


DEEPEST = 100
"""Levels of parentheses, and of conditions in conditions, so that no stack of ours or of a caller runs out."""


_REGULAR_EXPRESSIONS = frozenset({"RLIKE", "REGEXP"})


_T = TypeVar("_T")


class Cursor:
    """One text, and a place in it. Methods that ask `if …` take what they found and leave what they did not."""

    __slots__ = ("_depth", "_index", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    @property
    def _after(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._index + 1, len(self._tokens) - 1)]

    def _at_end(self) -> bool:
        return self._next.kind == "end"

    def _take(self) -> Token:
        token = self._next
        self._index += 1
        return token

    def _if_word(self, word: str) -> bool:
        is_next = self._next.is_word(word)
        self._index += is_next
        return is_next

    def _if_words(self, first: str, second: str) -> bool:
        are_next = self._next.is_word(first) and self._after.is_word(second)
        self._index += 2 * are_next
        return are_next

    def _if_sign(self, sign: str) -> bool:
        is_next = self._next.is_sign(sign)
        self._index += is_next
        return is_next

    def _expect(self, sign: str) -> None:
        if not self._if_sign(sign):
            raise self._missing(f"`{sign}`") if self._at_end() else self._unexpected()

    def _parenthesised(self, parse: Callable[[], _T]) -> _T:
        self._expect("(")
        self._depth += 1
        if self._depth > DEEPEST:
            raise too_deep()
        parsed = parse()
        self._depth -= 1
        self._expect(")")
        return parsed

    def _shown(self, token: Token) -> str:
        return shown(self._text[token.start : token.end])

    def _shown_before(self) -> str:
        return self._shown(self._tokens[self._index - 1])

    def _wrong(self, what: str) -> PredicateError:
        return misplaced(self._text, self._next.start, what)

    def _missing(self, wanted: str) -> PredicateError:
        """Something must stand here, and does not."""
        if self._at_end():
            return self._wrong(f"the predicate ends after {self._shown_before()}, where {wanted} is missing")
        return self._wrong(f"{self._shown(self._next)} is not supported where {wanted} must stand")

    def _no_operand(self) -> PredicateError:
        """A column or a literal must stand here; perhaps a keyword, this one or the one before, was meant to be it."""
        near = [self._next, self._tokens[max(self._index - 1, 0)]]
        keyword = next((token for token in near if token.is_word(*RESERVED)), None)
        if self._at_end() or keyword is None:
            return self._missing("a column or a literal")
        name = self._text[keyword.start : keyword.end]
        what = f"{shown(name)} is a keyword (quote it if it is a column: `{name}`)"
        return misplaced(self._text, keyword.start, what)

    def _unexpected(self) -> PredicateError:
        """Something stands here, and nothing may."""
        token, before = self._next, self._tokens[self._index - 1]
        if before.kind == "number" and token.kind == "word" and token.start == before.end:
            glued = self._text[before.start : token.end]
            return self._wrong(f"{shown(glued)} is not a number, and as a column's name it needs quotes")
        what = f"{self._shown(token)} after {self._shown(before)} is not supported"
        if token.is_word(*_REGULAR_EXPRESSIONS):
            what += ", nor is REGEXP_LIKE"
        return self._wrong(what)

    def _function(self, first: Token) -> PredicateError:
        """What begins with that token is called: an opening parenthesis is next."""
        closing = next((token.end for token in self._tokens[self._index :] if token.is_sign(")")), len(self._text))
        call = self._text[first.start : self._next.start].upper() + self._text[self._next.start : closing]
        return misplaced(self._text, first.start, f"the function {shown(call)} is not supported")


def too_deep() -> PredicateError:
    return PredicateError("the predicate is nested too deeply; use IN (…) for many values of one column")
