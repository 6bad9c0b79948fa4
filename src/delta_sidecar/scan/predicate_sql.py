"""SQL text into a condition. The grammar is sqlglot's; what is accepted of it is listed here, node by node.

Names may be quoted with `"` or backticks. String literals double their quotes and know no backslash escapes;
LIKE's escape character is the backslash unless `ESCAPE` names another, as in Spark and DataFusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NoReturn

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

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

_SUPPORTED = (
    "supported: =, !=, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM, "
    "AND, OR, NOT, between columns and literals"
)
_COMPARISONS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


class SidecarDialect(Dialect):
    """sqlglot's own dialect, and backticks and X'…'."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar = ['"', "`"]
        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]


def parse_sql(text: str) -> Condition:
    """The condition; `PredicateError` for anything that is not one."""
    if not text.strip():
        raise PredicateError("the predicate is empty; leave it out to match everything")
    return _condition(_parse(text))


def _parse(text: str) -> exp.Expr:
    dialect = SidecarDialect()
    try:
        parsed = dialect.parser().parse_into(exp.Condition, dialect.tokenize(text), text)
    except ParseError as error:
        raise PredicateError(_explain(error, text)) from None
    except SqlglotError:
        raise PredicateError(f"the predicate has an unfinished string or name, or a bad character: {text!r}") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise PredicateError(f"the predicate must be one condition, without `;`: {text!r}")
    return parsed[0]


def _explain(error: ParseError, text: str) -> str:
    first = error.errors[0] if error.errors else {}
    near, before = first.get("highlight"), first.get("start_context", "")
    if not near:
        return f"the predicate cannot be parsed: {text!r}; {_SUPPORTED}"
    quote = f" (quote it if it is a column: `{near}`)" if near.isidentifier() else ""
    return f"the predicate cannot be parsed at {near!r}, character {len(before) + 1}{quote}: {text!r}; {_SUPPORTED}"


def _refuse(node: exp.Expr) -> NoReturn:
    raise PredicateError(f"{node.sql()!r} is not supported in a predicate; {_SUPPORTED}")


def _condition(node: exp.Expr) -> Condition:
    match node:
        case exp.Paren():
            return _condition(node.this)
        case exp.And():
            return written.All(tuple(map(_condition, _flat(node, exp.And))))
        case exp.Or():
            return written.Any(tuple(map(_condition, _flat(node, exp.Or))))
        case exp.Not():
            return Negation(_condition(node.this))
        case exp.Is():
            return _is(node)
        case exp.In():
            return _in(node)
        case exp.Between():
            return _between(node)
        case exp.Like() | exp.Escape():
            return _like(node)
        case exp.NullSafeEQ():
            return Sameness(_operand(node.this), _operand(node.expression))
        case exp.NullSafeNEQ():
            return Negation(Sameness(_operand(node.this), _operand(node.expression)))
        case _ if type(node) in _COMPARISONS:
            return Comparison(_operand(node.this), _COMPARISONS[type(node)], _operand(node.expression))
    return Bare(_operand(node))


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The terms of a chain, which sqlglot nests to the left, without recursion: chains may be long."""
    terms: list[exp.Expr] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, kind):
            pending += [current.expression, current.this]
        else:
            terms.append(current)
    return terms


def _is(node: exp.Is) -> Condition:
    match node.expression:
        case exp.Null():
            return _is_null(node.this)
        case exp.Boolean():
            return Truth(_condition(node.this), bool(node.expression.this))
    _refuse(node)


def _is_null(node: exp.Expr) -> Condition:
    inner = node.unnest()
    if isinstance(inner, (exp.Predicate, exp.Connector, exp.Not, exp.Escape)):
        return Truth(_condition(inner), None)
    return Nullness(_operand(inner))


def _in(node: exp.In) -> Condition:
    options = node.args.get("expressions")
    if not options:
        _refuse(node)
    return Membership(_operand(node.this), tuple(map(_operand, options)))


def _between(node: exp.Between) -> Condition:
    if node.args.get("symmetric"):
        _refuse(node)
    operand = _operand(node.this)
    low, high = _operand(node.args["low"]), _operand(node.args["high"])
    return written.All((Comparison(operand, ">=", low), Comparison(operand, "<=", high)))


def _like(node: exp.Expr) -> Condition:
    like, escape = (node.this, _text(node.expression)) if isinstance(node, exp.Escape) else (node, "\\")
    if not isinstance(like, exp.Like):
        _refuse(node)
    if isinstance(like.expression, exp.Null):
        return Bare(Null())
    likeness = Likeness(_operand(like.this), _text(like.expression), escape)
    return Negation(likeness) if like.args.get("negate") else likeness


def _text(node: exp.Expr) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string:
        _refuse(node.parent or node)
    return str(node.this)


def _operand(node: exp.Expr) -> Operand:
    match node:
        case exp.Paren():
            return _operand(node.this)
        case exp.Column() | exp.Dot():
            return Name(tuple(_parts(node)))
        case exp.Null():
            return Null()
        case exp.Boolean():
            return Boolean(bool(node.this))
        case exp.HexString():
            return _bytes(node)
        case exp.Literal():
            return Text(str(node.this)) if node.is_string else _number(str(node.this))
        case exp.Neg():
            return _negative(node)
        case exp.Cast():
            return _cast(node)
    _refuse(node)


def _parts(node: exp.Expr) -> Iterator[str]:
    if isinstance(node, exp.Dot):
        yield from _parts(node.this)
        node = node.expression
    parts = node.parts if isinstance(node, exp.Column) else [node]
    for part in parts:
        if not isinstance(part, exp.Identifier):
            _refuse(node)
        yield str(part.this)


def _bytes(node: exp.HexString) -> Bytes:
    digits = str(node.this)
    return Bytes(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)))


def _number(text: str) -> Number:
    value = parse_number(text)
    if isinstance(value, float):
        raise PredicateError(f"{text!r} is not a number; write infinities and NaN as CAST('NaN' AS DOUBLE)")
    return Number(value, text)


def _negative(node: exp.Neg) -> Literal:
    match _operand(node.this):
        case Number(value, text):
            return Number(value.copy_negate(), text[1:] if text.startswith("-") else f"-{text}")
        case Float(value):
            return Float(-value)
        case Null():
            return Null()
    _refuse(node)


def _cast(node: exp.Cast) -> Literal:
    operand = _operand(node.this)
    if isinstance(operand, Name) or isinstance(node, exp.TryCast):
        _refuse(node)
    target = node.to
    sizes = [int(size.name) for size in target.expressions if size.name.isdigit()]
    return cast(operand, target.this.value.upper(), sizes)
