"""The query language: `error AND "disk full" host:web-7 -debug ts:[2026-01-01 TO *}`.

Words next to each other must all match. NOT binds tighter than AND, AND tighter than OR. Whatever is not understood
is an error with its position; nothing is dropped or guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from delta_sidecar.errors import InputError, QueryError
from delta_sidecar.search.query.expression import (
    ANY,
    ONE,
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

MOST_TERMS: Final = 10_000
MOST_CHARACTERS: Final = 1_000_000
DEEPEST: Final = 64
MOST_EDITS: Final = 2
"""The engine looks for words that differ in up to two characters."""

_BLANK: Final = " \t\r\n\u00a0\u3000"
_ENDS: Final = frozenset(_BLANK + "()")
_SIGNS: Final = {"&&": "AND", "||": "OR"}
_RESERVED: Final = {
    '"': "a quote within a word",
    "[": "a bracket within a word",
    "]": "a bracket that was not opened",
    "{": "a brace within a word",
    "}": "a brace that was not opened",
    "^": "boosts are not offered: ^",
}
_DIGITS: Final = re.compile(r"\d+", re.ASCII)
_BLANKS: Final = re.compile(f"[{_BLANK}]*")
_OPERATOR: Final = re.compile(f"&&|\\|\\||(?:AND|OR|NOT)(?=[{_BLANK}()]|\\Z)")
_PLAIN: Final = re.compile(rf"[^{_BLANK}()\\:*?~\"\[\]{{}}^]+(?=[{_BLANK}()]|\Z)")
"""A word in which every character is itself."""
_SLOP: Final = re.compile(r"~(\d*)", re.ASCII)


def parse_query(text: str) -> Query:
    """A query of its text.

    Args:
        text: Words, `"phrases"` (`"a b"~2` allows two words between), `AND`, `OR`, `NOT`, `+`, `-`, groups in
            parentheses, `field:word`, `field:[a TO b}`, `field:>=5`, `field:*`, `abc*`, `a*b?c`, `abc~1`, `/regex/`. A
            backslash takes the meaning from the next character. `*` alone is every document.

    Raises:
        QueryError: The text cannot be parsed; the message says where.

    Example:
        >>> from delta_sidecar.search.query.text import parse_query
        >>> parse_query("error -debug")
        Both(queries=(Word(field=None, text='error', at=0), Without(query=Word(field=None, text='debug', at=7))))
    """
    check_unicode(text, QueryError, "the query")
    if len(text) > MOST_CHARACTERS:
        raise QueryError(f"the query has {len(text):,} characters; it may have {MOST_CHARACTERS:,}")
    parser = _Parser(text)
    parser.blanks()
    if parser.done():
        raise QueryError("the query is empty; * finds every document")
    query = parser.disjunction(None, 0)
    if not parser.done():
        parser.fail("a parenthesis that was not opened")
    return query


def check_unicode(given: object, kind: type[InputError], what: str) -> None:
    """Refuse a text that cannot be written as UTF-8, such as bytes of another encoding on a command line.

    Args:
        given: Perhaps a text; anything else is let through.
        kind: The error to raise.
        what: What the text is, for the message.

    Raises:
        InputError: It cannot; of the given kind.
    """
    try:
        if isinstance(given, str):
            given.encode()
    except UnicodeEncodeError as error:
        raise kind(f"{what} is not valid Unicode at character {error.start + 1}; give it as UTF-8") from None


@dataclass
class _Parser:
    text: str
    here: int = 0
    terms: int = 0

    def done(self) -> bool:
        return self.here >= len(self.text)

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        place = self.here if at is None else at
        near = self.text[place : place + 20].strip()
        shown = f" ({near!r})" if near else ""
        raise QueryError(f"the query is not understood at character {place + 1}{shown}: {problem}")

    def blanks(self) -> None:
        found = _BLANKS.match(self.text, self.here)
        self.here = found.end() if found else self.here

    def disjunction(self, field: str | None, depth: int) -> Query:
        if depth > DEEPEST:
            self.fail(f"more than {DEEPEST} groups within one another")
        queries = [self.conjunction(field, depth)]
        while self._operator() == "OR":
            self._take_operator()
            queries.append(self.conjunction(field, depth))
        return queries[0] if len(queries) == 1 else Either(tuple(queries))

    def conjunction(self, field: str | None, depth: int) -> Query:
        queries = [self.unary(field, depth)]
        while True:
            self.blanks()
            if self.done() or self.text[self.here] == ")" or self._operator() == "OR":
                return queries[0] if len(queries) == 1 else Both(tuple(queries))
            if self._operator() == "AND":
                self._take_operator()
            queries.append(self.unary(field, depth))

    def _operator(self) -> str | None:
        """The operator that comes next, if one does."""
        self.blanks()
        found = _OPERATOR.match(self.text, self.here)
        return None if found is None else _SIGNS.get(found[0], found[0])

    def _take_operator(self) -> None:
        is_sign = self.text[self.here] in "&|"
        self.here += 2 if is_sign else len(self._operator() or "")

    def unary(self, field: str | None, depth: int) -> Query:
        is_wanted = True
        while True:
            operator, began = self._operator(), self.here
            sign = self.text[self.here : self.here + 1]
            if operator == "NOT":
                self._take_operator()
                is_wanted = not is_wanted
            elif operator is not None:
                self.fail(f"{operator} has nothing before it; quote it to search for the word")
            elif sign and sign in "+-!":
                self.here += 1
                if self.done() or self.text[self.here] in _BLANK:
                    self.fail(f"{sign} has nothing behind it; quote it to search for it", began)
                if field is not None and sign == "-" and self.text[self.here].isdigit():
                    self.fail("either a number below zero, which is quoted here, or NOT", began)
                is_wanted = is_wanted if sign == "+" else not is_wanted
            else:
                break
        query = self._primary(field, depth)
        return query if is_wanted else Without(query)

    def _primary(self, field: str | None, depth: int) -> Query:
        self.blanks()
        if self.done():
            self.fail("the query ends where a word was expected")
        sign, at = self.text[self.here], self.here
        if sign == "(":
            return self._group(field, depth)
        if sign == ")":
            self.fail("a word was expected before the parenthesis")
        self.terms += 1
        if self.terms > MOST_TERMS:
            raise QueryError(f"the query has more than {MOST_TERMS:,} words; search in several queries")
        if sign == '"':
            return self._phrase(field, at)
        if sign == "/":
            return self._regex(field, at)
        if sign in "[{":
            return self._range(field, at)
        if sign in "<>":
            return self._comparison(field, at)
        return self._word(field, depth, at)

    def _group(self, field: str | None, depth: int) -> Query:
        began = self.here
        self.here += 1
        query = self.disjunction(field, depth + 1)
        self.blanks()
        if self.done():
            self.fail("the parenthesis is not closed", began)
        self.here += 1
        return query

    def _phrase(self, field: str | None, at: int) -> Query:
        text = self._quoted()
        found = _SLOP.match(self.text, self.here)
        slop = 0
        if found:
            if not found[1]:
                self.fail('~ behind a phrase needs a number, such as "a b"~2')
            slop = self._number(found[1])
            self.here = found.end()
        self._border("a phrase")
        return Phrase(field, text, slop, at)

    def _quoted(self) -> str:
        began, parts = self.here, []
        self.here += 1
        while not self.done() and self.text[self.here] != '"':
            if self.text[self.here] == "\\" and self.text[self.here + 1 : self.here + 2] in ('"', "\\"):
                self.here += 1
            parts.append(self.text[self.here])
            self.here += 1
        if self.done():
            self.fail("the quote is not closed", began)
        self.here += 1
        return "".join(parts)

    def _regex(self, field: str | None, at: int) -> Query:
        parts: list[str] = []
        self.here += 1
        while not self.done() and self.text[self.here] != "/":
            if self.text[self.here] == "\\" and not self.text.startswith("\\/", self.here):
                parts.append("\\")
                self.here += 1
            elif self.text[self.here] == "\\":
                self.here += 1
            parts.append(self.text[self.here : self.here + 1])
            self.here += 1
        if self.done():
            self.fail("the regular expression is not closed; quote a path that begins with a slash", at)
        self.here += 1
        if not self.done() and self.text[self.here] not in _ENDS:
            self.fail("a regular expression ends with the slash; quote a path", at)
        pattern = "".join(parts)
        if not pattern:
            self.fail("the regular expression is empty", at)
        return Regex(field, pattern, at)

    def _range(self, field: str | None, at: int) -> Query:
        if field is None:
            self.fail("a range needs a field before it, such as status:[400 TO 499]; quote brackets to search for them")
        includes_low = self.text[self.here] == "["
        self.here += 1
        low = self._bound(at)
        self.blanks()
        if not self.text.startswith("TO", self.here) or self.text[self.here + 2 : self.here + 3] not in tuple(_BLANK):
            self.fail("a range is written [a TO b], with TO between the bounds")
        self.here += 2
        high = self._bound(at)
        self.blanks()
        closing = self.text[self.here : self.here + 1]
        if closing not in ("]", "}"):
            self.fail("the range is not closed with ] or }", at if not closing else None)
        self.here += 1
        self._border("a range")
        return Range(field, low, high, includes_low, closing == "]", at)

    def _bound(self, at: int) -> str | None:
        self.blanks()
        if self.done():
            self.fail("the range is not closed", at)
        if self.text[self.here] == '"':
            return self._quoted()
        parts: list[str] = []
        began = self.here
        while not self.done() and self.text[self.here] not in _BLANK + "]}":
            if self.text[self.here] == "\\":
                self.here += 1
            parts.append(self.text[self.here : self.here + 1])
            self.here += 1
        if not parts:
            self.fail("a bound is missing; * is open", began)
        text = "".join(parts)
        return None if self.text[began : self.here] == ANY else text

    def _comparison(self, field: str | None, at: int) -> Query:
        sign = self.text[self.here]
        if field is None:
            self.fail(f"a comparison needs a field before it, such as status:{sign}400; quote {sign} to search for it")
        includes = self.text.startswith("=", self.here + 1)
        self.here += 2 if includes else 1
        if not self.done() and self.text[self.here] == '"':
            value = self._quoted()
            self._border("a value")
        else:
            pieces = self._pieces()
            if any(piece.is_wild or piece.is_tilde for piece in pieces):
                self.fail("a comparison has neither wildcards nor ~; quote the value", at)
            value = _text(pieces)
        if not value:
            self.fail("a value is missing behind the comparison", at)
        if sign == ">":
            return Range(field, value, None, includes, True, at)
        return Range(field, None, value, True, includes, at)

    def _word(self, field: str | None, depth: int, at: int) -> Query:
        plain = _PLAIN.match(self.text, self.here)
        if plain is not None:
            self.here = plain.end()
            return Word(field, plain[0], at)
        pieces = self._pieces(is_name=field is None)
        if field is None and not self.done() and self.text[self.here] == ":":
            return self._field(pieces, depth, at)
        if any(piece.is_tilde for piece in pieces):
            return self._fuzzy(field, pieces, at)
        if not any(piece.is_wild for piece in pieces):
            return Word(field, _text(pieces), at)
        if len(pieces) == 1 and pieces[0].text == ANY:
            return Everything() if field is None else Exists(field, at)
        return Pattern(field, _pattern(pieces), at)

    def _fuzzy(self, field: str | None, pieces: list[_Piece], at: int) -> Query:
        if any(piece.is_wild for piece in pieces):
            self.fail("a word has either wildcards or ~, not both", at)
        border = next(place for place, piece in enumerate(pieces) if piece.is_tilde)
        text, digits = _text(pieces[:border]), _text(pieces[border + 1 :])
        if not text:
            self.fail("~ has no word before it", at)
        if digits and not _DIGITS.fullmatch(digits):
            self.fail("a whole number stands behind ~, as in abc~1; quote the text, or write \\~", at)
        distance = self._number(digits) if digits else MOST_EDITS
        if distance > MOST_EDITS:
            self.fail(f"~{distance}: words that differ in up to {MOST_EDITS} characters are found", at)
        return Fuzzy(field, text, distance, at)

    def _field(self, pieces: list[_Piece], depth: int, at: int) -> Query:
        name = _text(pieces)
        if any(piece.is_wild for piece in pieces):
            self.fail("a field's name has no wildcards; quote a text with a colon", at)
        self.here += 1
        if self.done() or self.text[self.here] in _BLANK + ")":
            self.fail(f"nothing stands behind {name}:; quote a text with a colon", at)
        operator = self._operator()
        if operator is not None or self.text[self.here] in "+-!":
            if self.text[self.here] == "-" and self.text[self.here + 1 : self.here + 2].isdigit():
                return self._negative(name)
            self.fail(f"a value must stand behind {name}:; quote it")
        self.terms -= 1  # the name was counted as a word
        return self._primary(name, depth)

    def _negative(self, name: str) -> Query:
        """A number below zero, which begins with the sign of a negation."""
        at = self.here
        pieces = self._pieces()
        if any(piece.is_wild or piece.is_tilde for piece in pieces):
            self.fail("a number has neither wildcards nor ~", at)
        return Word(name, _text(pieces), at)

    def _pieces(self, is_name: bool = False) -> list[_Piece]:
        """The characters of a word, up to a blank, a parenthesis or, in a name, a colon."""
        pieces: list[_Piece] = []
        while not self.done() and self.text[self.here] not in _ENDS:
            sign = self.text[self.here]
            if sign == "\\":
                self.here += 1
                if self.done():
                    self.fail("a backslash stands at the end; write two to search for one")
                pieces.append(_Piece(self.text[self.here]))
            elif sign == ":" and is_name:
                if not pieces:
                    self.fail("a colon without a field before it; quote the text, or write \\:")
                return pieces
            elif sign in _RESERVED:
                self.fail(f"{_RESERVED[sign]}; quote the text, or write a backslash before it")
            else:
                pieces.append(_Piece(sign, is_wild=sign in (ANY, ONE), is_tilde=sign == "~"))
            self.here += 1
        return pieces

    def _border(self, what: str) -> None:
        if not self.done() and self.text[self.here] not in _ENDS:
            self.fail(f"a blank is missing behind {what}")

    def _number(self, digits: str) -> int:
        if len(digits) > 4:
            self.fail(f"~{digits[:8]} is too much")
        return int(digits)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A character of a word, and whether it is more than itself."""

    text: str
    is_wild: bool = False
    is_tilde: bool = False


def _text(pieces: list[_Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def _pattern(pieces: list[_Piece]) -> tuple[str | Wild, ...]:
    parts: list[str | Wild] = []
    for piece in pieces:
        if piece.is_wild:
            if piece.text == ANY and parts and parts[-1] == Wild(ANY):
                continue
            parts.append(Wild(piece.text))
        elif parts and isinstance(parts[-1], str):
            parts[-1] += piece.text
        else:
            parts.append(piece.text)
    return tuple(parts)
