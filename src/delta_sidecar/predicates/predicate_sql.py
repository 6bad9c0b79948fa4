"""SQL text into a condition: a parser of just the grammar that predicates need.

    either    := both (OR both)*
    both      := negated (AND negated)*
    negated   := (NOT | !)* predicate
    predicate := term [comparison operand] suffix*
    suffix    := IS [NOT] (NULL | UNKNOWN | TRUE | FALSE | DISTINCT FROM operand) | ISNULL | NOTNULL | NOT NULL
               | [NOT] IN (operand, …) | [NOT] BETWEEN operand AND operand | [NOT] LIKE string [ESCAPE string]
    term      := ( either ) | operand

Any word is a name wherever a name may stand, but for the few of `RESERVED`. LIKE's escape character is the
backslash unless `ESCAPE` names another, as in Spark and DataFusion.
"""

from __future__ import annotations

import time
from typing import TypeAlias

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicates import condition as written
from delta_sidecar.predicates.condition import (
    Bare,
    Comparison,
    Condition,
    Likeness,
    Membership,
    Negation,
    Nullness,
    Operand,
    Sameness,
    Truth,
)
from delta_sidecar.predicates.expression import Operator
from delta_sidecar.predicates.literals import Null
from delta_sidecar.predicates.sql_operands import OperandParser
from delta_sidecar.predicates.sql_tokens import DEEPEST, too_deep

_Parsed: TypeAlias = Condition | Operand
"""What stands in parentheses may turn out to be a condition, or a side of one."""

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
_TRUTHS = {"TRUE": True, "FALSE": False}
_MOST_TRUTHS = 6
"""How deep `IS TRUE` and similar tests may be nested: binding spells out the condition of each more than once."""


def parse_sql(text: str, now: int | None = None) -> Condition:
    """The condition; `PredicateError` for anything that is not one.

    `now()` is `now`, microseconds since 1970-01-01 UTC, or else the present.
    """
    return _Parser(text, time.time_ns() // 1000 if now is None else now).whole()


class _Parser(OperandParser):
    __slots__ = ()

    def whole(self) -> Condition:
        if self._at_end():
            raise PredicateError("the predicate is empty; leave it out to match everything")
        condition = _condition(self._either())
        if self._if_sign(";") and not self._at_end():
            raise self._wrong(f"{self._shown(self._next)} follows `;`: the predicate must be one condition")
        if not self._at_end():
            raise self._unexpected()
        return _shallow(condition)

    def _either(self) -> _Parsed:
        terms = [self._both()]
        while self._if_word("OR"):
            terms.append(self._both())
        return terms[0] if len(terms) == 1 else written.Any(tuple(map(_condition, terms)))

    def _both(self) -> _Parsed:
        terms = [self._negated()]
        while self._if_word("AND"):
            terms.append(self._negated())
        return terms[0] if len(terms) == 1 else written.All(tuple(map(_condition, terms)))

    def _negated(self) -> _Parsed:
        negations = 0
        while self._if_word("NOT") or self._if_sign("!"):
            negations += 1
        parsed = self._predicate()
        for _ in range(negations):
            parsed = Negation(_condition(parsed))
        return parsed

    def _predicate(self) -> _Parsed:
        parsed = self._term()
        if self._next.is_sign("<=>", *_COMPARISONS):
            parsed = self._comparison(self._side(parsed))
        while (suffixed := self._suffixed(parsed)) is not None:
            parsed = suffixed
        return parsed

    def _term(self) -> _Parsed:
        if not self._next.is_sign("("):
            return self._operand()
        parsed = self._parenthesised(self._either)
        return self._casts(self._side(parsed)) if self._next.is_sign("::") else parsed

    def _side(self, parsed: _Parsed) -> Operand:
        """What was parsed, as a side of the comparison that is next."""
        if isinstance(parsed, Operand):
            return parsed
        raise self._wrong(f"{self._shown(self._next)} after a condition is not supported")

    def _comparison(self, left: Operand) -> Condition:
        sign = self._take().value
        right = self._operand()
        return Sameness(left, right) if sign == "<=>" else Comparison(left, _COMPARISONS[sign], right)

    def _suffixed(self, left: _Parsed) -> Condition | None:
        """What IS, IN, BETWEEN or LIKE make of the term before them; None if none of them is next."""
        if self._if_word("IS"):
            return self._is(left)
        if self._if_word("ISNULL"):
            return _null(left)
        if self._if_word("NOTNULL") or self._if_words("NOT", "NULL"):
            return Negation(_null(left))
        negative = self._next.is_word("NOT") and self._after.is_word("IN", "BETWEEN", "LIKE")
        if not negative and not self._next.is_word("IN", "BETWEEN", "LIKE"):
            return None
        operand = self._side(left)
        self._index += negative
        condition = self._ranged(operand)
        return Negation(condition) if negative else condition

    def _is(self, left: _Parsed) -> Condition:
        negative = self._if_word("NOT")
        if self._if_words("DISTINCT", "FROM"):
            same = Sameness(self._side(left), self._operand())
            return same if negative else Negation(same)
        condition = self._state(left)
        return Negation(condition) if negative else condition

    def _state(self, left: _Parsed) -> Condition:
        if self._if_word("NULL") or self._if_word("UNKNOWN"):
            return _null(left)
        if self._next.is_word(*_TRUTHS):
            return Truth(_condition(left), _TRUTHS[self._take().value])
        raise self._missing("NULL, TRUE, FALSE or DISTINCT FROM")

    def _ranged(self, operand: Operand) -> Condition:
        match self._take().value:
            case "IN":
                return self._in(operand)
            case "BETWEEN":
                return self._between(operand)
            case _:
                return self._like(operand)

    def _in(self, operand: Operand) -> Condition:
        return Membership(operand, self._parenthesised(self._options))

    def _options(self) -> tuple[Operand, ...]:
        options = [self._operand()]
        while self._if_sign(",") and not self._next.is_sign(")"):
            options.append(self._operand())
        return tuple(options)

    def _between(self, operand: Operand) -> Condition:
        if self._next.is_word("SYMMETRIC", "ASYMMETRIC") and not self._after.is_word("AND"):
            if self._next.is_word("SYMMETRIC"):
                raise self._wrong("BETWEEN SYMMETRIC is not supported")
            self._take()
        low = self._operand()
        if not self._if_word("AND"):
            raise self._missing("AND and the upper end of BETWEEN")
        return written.All((Comparison(operand, ">=", low), Comparison(operand, "<=", self._operand())))

    def _like(self, operand: Operand) -> Condition:
        pattern = None if self._if_word("NULL") else self._string("a string as the pattern of LIKE")
        escape = self._string("a string of one character") if self._if_word("ESCAPE") else "\\"
        return Bare(Null()) if pattern is None else Likeness(operand, pattern, escape)

    def _string(self, wanted: str) -> str:
        if self._next.kind != "string":
            raise self._missing(wanted)
        return self._take().value


def _condition(parsed: _Parsed) -> Condition:
    return Bare(parsed) if isinstance(parsed, Operand) else parsed


def _null(parsed: _Parsed) -> Condition:
    return Nullness(parsed) if isinstance(parsed, Operand) else Truth(parsed, None)


def _shallow(condition: Condition) -> Condition:
    """The condition, if those who walk down it by recursion can."""
    level, depth = [(condition, 0)], 0
    while level:
        depth += 1
        if depth > DEEPEST or max(truths for _, truths in level) > _MOST_TRUTHS:
            raise too_deep()
        level = [(inner, truths + isinstance(outer, Truth)) for outer, truths in level for inner in _inner(outer)]
    return condition


def _inner(condition: Condition) -> tuple[Condition, ...]:
    match condition:
        case written.All(conditions) | written.Any(conditions):
            return conditions
        case Negation(inner) | Truth(inner):
            return (inner,)
    return ()
