"""SQL text into a condition: a parser of just the grammar that predicates need.

    either    := both (OR both)*
    both      := negated (AND negated)*
    negated   := (NOT | !)* predicate
    predicate := term [comparison operand] suffix*
    suffix    := IS [NOT] (NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM operand) | ISNULL | NOTNULL | NOT NULL
               | [NOT] IN (operand, …) | [NOT] BETWEEN operand AND operand | [NOT] LIKE string [ESCAPE string]
    term      := ( either ) [:: type]* | operand
    operand   := (+ | -)* (name | literal | CAST(operand AS type) | type string | ( operand )) [:: type]*

Any word is a name wherever a name may stand, but for the few of `_RESERVED`. LIKE's escape character is the
backslash unless `ESCAPE` names another, as in Spark and DataFusion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from delta_sidecar.errors import PredicateError
from delta_sidecar.scan import condition as written
from delta_sidecar.scan.casts import cast
from delta_sidecar.scan.condition import (
    Bare,
    Comparison,
    Condition,
    Likeness,
    Membership,
    Name,
    Negation,
    Nullness,
    Operand,
    Sameness,
    Truth,
)
from delta_sidecar.scan.expression import Operator
from delta_sidecar.scan.literals import Boolean, Bytes, Float, Literal, Null, Number, Text, parse_number
from delta_sidecar.scan.sql_tokens import Kind, Token, misplaced, tokenize
from delta_sidecar.scan.sql_types import MOST_WORDS, TYPES

_Parsed: TypeAlias = Condition | Operand
"""A column or literal in parentheses may turn out to be a condition, or a side of one."""
_T = TypeVar("_T")

_COMPARISONS: dict[str, Operator] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_RESERVED = frozenset({"AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN"})
_CONSTANTS: dict[str, Literal] = {"NULL": Null(), "TRUE": Boolean(True), "FALSE": Boolean(False)}
_TRUTHS = {"TRUE": True, "FALSE": False}
_REGULAR_EXPRESSIONS = ("RLIKE", "REGEXP")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]*")
_DEEPEST = 100
"""Levels of parentheses and of conditions in conditions, so that no stack of ours or of a caller runs out."""


def parse_sql(text: str) -> Condition:
    """The condition; `PredicateError` for anything that is not one."""
    return _Parser(text).whole()


class _Parser:
    """One text, and the place in it."""

    __slots__ = ("_depth", "_index", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0

    def whole(self) -> Condition:
        if self._next.kind == "end":
            raise PredicateError("the predicate is empty; leave it out to match everything")
        condition = _condition(self._either())
        ended = self._sign(";")
        if self._next.kind != "end":
            raise self._second() if ended else self._unexpected()
        return _shallow(condition)

    # Conditions

    def _either(self) -> _Parsed:
        terms = [self._both()]
        while self._word("OR"):
            terms.append(self._both())
        return terms[0] if len(terms) == 1 else written.Any(tuple(map(_condition, terms)))

    def _both(self) -> _Parsed:
        terms = [self._negated()]
        while self._word("AND"):
            terms.append(self._negated())
        return terms[0] if len(terms) == 1 else written.All(tuple(map(_condition, terms)))

    def _negated(self) -> _Parsed:
        negations = 0
        while self._word("NOT") or self._sign("!"):
            negations += 1
        parsed = self._predicate()
        for _ in range(negations):
            parsed = Negation(_condition(parsed))
        return parsed

    def _predicate(self) -> _Parsed:
        parsed = self._term()
        if self._next.kind == "sign":
            parsed = self._comparison(parsed)
        while (suffixed := self._suffixed(parsed)) is not None:
            parsed = suffixed
        return parsed

    def _comparison(self, left: _Parsed) -> _Parsed:
        if self._next.value in _COMPARISONS:
            operand, op = self._side(left), _COMPARISONS[self._take().value]
            return Comparison(operand, op, self._operand())
        if self._next.value == "<=>":
            operand = self._side(left)
            self._take()
            return Sameness(operand, self._operand())
        return left

    def _suffixed(self, left: _Parsed) -> Condition | None:
        """The condition that IS, IN, BETWEEN or LIKE make of what is before them; None if there is none of them."""
        if self._word("IS"):
            return self._is(left)
        if self._word("ISNULL"):
            return _null(left)
        if self._word("NOTNULL") or self._words("NOT", "NULL"):
            return Negation(_null(left))
        for word, parse in (("IN", self._in), ("BETWEEN", self._between), ("LIKE", self._like)):
            if self._is_word(self._next, word):
                return parse(self._side(left))
            if self._is_word(self._next, "NOT") and self._is_word(self._tokens[self._index + 1], word):
                operand = self._side(left)
                self._take()
                return _negation(parse(operand))
        return None

    def _is(self, left: _Parsed) -> Condition:
        negative = self._word("NOT")
        if self._words("DISTINCT", "FROM"):
            same = Sameness(self._side(left), self._operand())
            return same if negative else Negation(same)
        if self._word("NULL") or self._word("UNKNOWN"):
            condition = _null(left)
        elif self._next.kind == "word" and self._next.value in _TRUTHS:
            condition = Truth(_condition(left), _TRUTHS[self._take().value])
        else:
            raise self._missing("NULL, TRUE, FALSE or DISTINCT FROM")
        return Negation(condition) if negative else condition

    def _in(self, operand: Operand) -> Condition:
        self._take()
        self._expect("(")
        options = [self._operand()]
        while self._sign(",") and not self._at_sign(")"):
            options.append(self._operand())
        self._expect(")")
        return Membership(operand, tuple(options))

    def _between(self, operand: Operand) -> Condition:
        self._take()
        if self._is_word(self._next, "SYMMETRIC", "ASYMMETRIC") and not self._is_word(self._after, "AND"):
            if self._next.value == "SYMMETRIC":
                raise self._refused("BETWEEN SYMMETRIC")
            self._take()
        low = self._operand()
        if not self._word("AND"):
            raise self._missing("AND and the upper end of BETWEEN")
        return written.All((Comparison(operand, ">=", low), Comparison(operand, "<=", self._operand())))

    def _like(self, operand: Operand) -> Condition:
        self._take()
        pattern = None if self._word("NULL") else self._string("a string (the pattern of LIKE)")
        escape = self._string("a string of one character") if self._word("ESCAPE") else "\\"
        return Bare(Null()) if pattern is None else Likeness(operand, pattern, escape)

    def _term(self) -> _Parsed:
        if not self._at_sign("("):
            return self._operand()
        parsed = self._parenthesised(self._either)
        return self._casts(self._side(parsed)) if self._at_sign("::") else parsed

    # Columns and literals

    def _operand(self) -> Operand:
        signs: list[Token] = []
        while self._at_sign("-", "+"):
            signs.append(self._take())
        operand = self._casts(self._primary())
        for sign in reversed(signs):
            operand = self._negative(operand, sign) if sign.value == "-" else operand
        return operand

    def _primary(self) -> Operand:
        match self._next.kind:
            case "word":
                return self._worded()
            case "name":
                return self._name()
            case "string":
                return Text(self._take().value)
            case "number":
                return _number(self._take().value)
            case "bytes":
                return self._bytes()
        if self._at_sign("("):
            return self._parenthesised(self._operand)
        raise self._missing("a column or a literal")

    def _worded(self) -> Operand:
        word = self._next.value
        if word in _CONSTANTS:
            self._take()
            return _CONSTANTS[word]
        if word == "CAST" and self._after.kind == "sign" and self._after.value == "(":
            return self._cast()
        if word in _RESERVED:
            raise self._missing("a column or a literal")
        return self._typed() or self._name()

    def _name(self) -> Name:
        start = self._index
        parts = [self._part()]
        while self._sign("."):
            parts.append(self._part())
        if self._at_sign("("):
            raise self._function(start)
        return Name(tuple(parts))

    def _part(self) -> str:
        if self._next.kind not in ("word", "name"):
            raise self._missing("a name")
        token = self._take()
        return token.value if token.kind == "name" else self._text[token.start : token.end]

    def _bytes(self) -> Bytes:
        if not _HEXADECIMAL.fullmatch(digits := self._next.value):
            raise misplaced(self._text, self._next.start, f"{self._shown(self._next)} is not hexadecimal")
        self._take()
        return Bytes(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)))

    def _negative(self, operand: Operand, sign: Token) -> Literal:
        match operand:
            case Number(value, text):
                return Number(value.copy_negate(), text[1:] if text.startswith("-") else f"-{text}")
            case Float(value):
                return Float(-value)
            case Null():
                return operand
        raise misplaced(self._text, sign.start, "'-' is not supported before anything but a number")

    # Types

    def _cast(self) -> Operand:
        start = self._index
        self._take()
        return self._parenthesised(lambda: self._cast_body(start))

    def _cast_body(self, start: int) -> Literal:
        operand = self._operand()
        if not self._word("AS"):
            raise self._missing("AS and a type")
        return self._converted(operand, start)

    def _casts(self, operand: Operand) -> Operand:
        while self._sign("::"):
            operand = self._converted(operand, self._index - 1)
        return operand

    def _converted(self, operand: Operand, start: int) -> Literal:
        target = self._type()
        if target is None:
            raise self._missing("a type that literals can have, as in CAST('1' AS INT)")
        if isinstance(operand, Name):
            raise misplaced(self._text, self._tokens[start].start, "a cast of a column is not supported")
        return cast(operand, *target)

    def _typed(self) -> Literal | None:
        """`DATE '…'` and the like; None, and nothing taken, where the word is no type before a string."""
        start = self._index
        target = self._type()
        if target is not None and self._next.kind == "string":
            return cast(Text(self._take().value), *target)
        self._index = start
        return None

    def _type(self) -> tuple[str, Sequence[int]] | None:
        """The type that stands next and its sizes; None, and nothing taken, if there is none."""
        ahead = self._tokens[self._index : self._index + MOST_WORDS]
        for count in range(len(ahead), 0, -1):
            name = " ".join(token.value for token in ahead[:count] if token.kind == "word")
            if name in TYPES and name.count(" ") == count - 1:
                self._index += count
                return TYPES[name], self._sizes(TYPES[name])
        return None

    def _sizes(self, target: str) -> list[int]:
        start, sizes = self._index, list[int]()
        opened = self._sign("(")
        while opened and self._next.kind == "number" and len(sizes) < 3:
            sizes.append(self._size(target, len(sizes)))
            if not self._sign(","):
                break
        if opened and not (sizes and self._sign(")")):
            self._index = start
            return []
        return sizes

    def _size(self, target: str, place: int) -> int:
        token = self._take()
        if not token.value.isdigit() or len(token.value) > 9 or (target == "DECIMAL" and int(token.value) > 38):
            raise misplaced(self._text, token.start, f"{self._shown(token)} is not a size that {target} can have")
        if place >= (2 if target == "DECIMAL" else 1):
            raise misplaced(self._text, token.start, f"{target} has no more sizes")
        return int(token.value)

    # The place

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    @property
    def _after(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._index + 1, len(self._tokens) - 1)]

    def _take(self) -> Token:
        token = self._next
        self._index += 1
        return token

    def _is_word(self, token: Token, *words: str) -> bool:
        return token.kind == "word" and token.value in words

    def _word(self, word: str) -> bool:
        """Whether that word is next; then it is taken."""
        found = self._is_word(self._next, word)
        self._index += found
        return found

    def _words(self, first: str, second: str) -> bool:
        found = self._is_word(self._next, first) and self._is_word(self._after, second)
        self._index += 2 * found
        return found

    def _at_sign(self, *signs: str) -> bool:
        return self._next.kind == "sign" and self._next.value in signs

    def _sign(self, sign: str) -> bool:
        """Whether that sign is next; then it is taken."""
        found = self._at_sign(sign)
        self._index += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            raise self._missing(f"`{sign}`") if self._next.kind == "end" else self._unexpected()

    def _string(self, what: str) -> str:
        if self._next.kind != "string":
            raise self._missing(what)
        return self._take().value
