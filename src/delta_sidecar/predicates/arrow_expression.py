"""What a pyarrow expression implies, as a predicate of ours.

Engines push their filters as pyarrow expressions. `implied` gives a predicate that is true for every row the expression
is true for, and may be true for more: files are left out by it, rows are always filtered by the whole expression.

The tree is walked with a polarity, "where is it true" or "where is it false", because what is not understood has no
negation. Nothing is implied by a literal that Arrow may not compare as the table's own predicates do:

- Arrow compares numbers after casts that fail where they would change a value, so comparisons are exact;
- `is_in` casts in another direction, and floats are equal there by their bits (NaN is, 0.0 and -0.0 are not);
- timestamps with a zone compare with such timestamps only, those without a zone with dates and with each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from delta_sidecar.errors import PredicateError, UnknownColumnError, UnsupportedTypeError, did_you_mean
from delta_sidecar.predicates import literals
from delta_sidecar.predicates.arrow_tree import Call, FieldRef, Literal, Node, ParsedExpression, columns_in
from delta_sidecar.predicates.binding import MIRRORED, Binder, one_of
from delta_sidecar.predicates.condition import Bare, Comparison, Condition, Likeness, Membership, Name, Nullness
from delta_sidecar.predicates.expression import (
    And,
    Column,
    Compare,
    Constant,
    Expression,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Value,
)
from delta_sidecar.predicates.like import like_text
from delta_sidecar.values.calendar import MICROS_PER_DAY
from delta_sidecar.values.types import PrimitiveType, StructType, UnknownType, arrow_field, arrow_type

_COMPARISONS: Final[dict[str, Operator]] = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_NEVER: Final = Constant(False)
_MATCH: Final = 0
"""`is_in` with this behaviour finds null in a set that has null; with any other it finds null in none."""
_MANY: Final = 10_000
"""A longer list of values is taken as the range that holds them."""

_LAST_DAY: Final = 2**31 - 2
"""The last day that has another after it."""

Implied: TypeAlias = Expression | None
"""None: nothing is known."""


def implied(expression: ParsedExpression, binder: Binder, schema: pa.Schema) -> Implied:
    """A predicate on the table that is true wherever the expression is; None if nothing is known.

    `schema` has the columns as the expression finds them: a column that is not of the table's own type there, but for
    the width of its offsets or a dictionary, implies nothing.
    """
    if expression.tree is None:
        return None
    try:
        return _Walk(binder, schema).where(expression.tree, True)
    except RecursionError:
        return None


def bind_expression(
    expression: ParsedExpression, schema: StructType, partition_columns: Sequence[str], partition_timezone: str = "UTC"
) -> Implied:
    """What an expression implies of a table's columns, which it finds in the table's own types.

    Raises `UnknownColumnError` for a column that is not there, `PredicateError` for what is not a condition on them.
    """
    seen = readable(schema)
    check_expression(expression, seen)
    return implied(expression, Binder(schema, frozenset(partition_columns), partition_timezone), seen)


def readable(schema: StructType) -> pa.Schema:
    """The columns whose types are known."""
    fields: list[pa.Field] = []
    for field in schema:
        with suppress(UnsupportedTypeError):
            fields.append(arrow_field(field))
    return pa.schema(fields)


def check_expression(parsed: ParsedExpression, seen: pa.Schema) -> None:
    """Refuses what is not a condition on these columns."""
    import pyarrow.dataset as pds

    expression = parsed.expression
    for name in columns_in(parsed.tree) if parsed.tree is not None else ():
        if name not in seen.names:
            known = ", ".join(seen.names[:20])
            raise UnknownColumnError(f"no column {name!r} in the table{did_you_mean(name, seen.names)}; it has {known}")
    try:
        projected = pds.Scanner.from_batches([], schema=seen, columns={"": expression}).projected_schema
    except pa.ArrowException as error:
        raise PredicateError(f"pyarrow cannot evaluate {str(expression)[:200]}: {str(error).splitlines()[0]}") from None
    kind = projected.field(0).type
    if not pat.is_boolean(kind) and not pat.is_null(kind):
        raise PredicateError(f"a filter is a condition; {str(expression)[:200]} is {kind}")


class _Unfit(Exception):
    """Nothing is implied."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A column, and the type in which an expression sees it."""

    column: Column
    type: pa.DataType

    @property
    def name(self) -> Name:
        return Name(self.column.path)


@dataclass(frozen=True, slots=True)
class _Walk:
    binder: Binder
    schema: pa.Schema

    def where(self, node: Node, wanted: bool) -> Implied:
        """What holds wherever the node is true, or false."""
        try:
            match node:
                case Literal(value):
                    return _of_literal(value, wanted)
                case FieldRef():
                    return self._bound(Bare(self._seen(node).name), wanted)
                case Call(function, arguments) if function in _COMPARISONS:
                    return self._compared(_COMPARISONS[function], arguments, wanted)
                case Call(function) if (rule := _RULES.get(function)) is not None:
                    return rule(self, node, wanted)
        except (_Unfit, PredicateError, UnknownColumnError, LookupError, ValueError, pa.ArrowException):
            return None
        return None

    def _bound(self, condition: Condition, wanted: bool) -> Expression:
        bound = self.binder.bind(condition)
        return bound if wanted else Not(bound)

    # Truth values

    def conjunction(self, call: Call, wanted: bool) -> Implied:
        """`and`: with and without Kleene's logic, what is true or false of it is the same."""
        terms = [self.where(argument, wanted) for argument in call.arguments]
        return _all(terms) if wanted else _any(terms)

    def disjunction(self, call: Call, wanted: bool) -> Implied:
        terms = [self.where(argument, wanted) for argument in call.arguments]
        return _any(terms) if wanted else _all(terms)

    def inversion(self, call: Call, wanted: bool) -> Implied:
        (argument,) = call.arguments
        return self.where(argument, not wanted)

    def and_not(self, call: Call, wanted: bool) -> Implied:
        left, right = call.arguments
        terms = [self.where(left, wanted), self.where(right, not wanted)]
        return _all(terms) if wanted else _any(terms)

    def exclusive(self, call: Call, wanted: bool) -> Implied:
        left, right = call.arguments
        return _any([_all([self.where(left, side), self.where(right, side is not wanted)]) for side in (True, False)])

    def choice(self, call: Call, wanted: bool) -> Implied:
        condition, then, otherwise = call.arguments
        return _any(
            [
                _all([self.where(condition, True), self.where(then, wanted)]),
                _all([self.where(condition, False), self.where(otherwise, wanted)]),
            ]
        )

    def first_known(self, call: Call, wanted: bool) -> Implied:
        """`coalesce` is one of its arguments."""
        return _any([self.where(argument, wanted) for argument in call.arguments])

    # Nulls

    def null(self, call: Call, wanted: bool) -> Implied:
        seen = self._field(call)
        if wanted and _option(call, "nan_is_null") and _kind(seen.type) in ("float", "double", None):
            return None
        return self._bound(Nullness(seen.name), wanted)

    def valid(self, call: Call, wanted: bool) -> Implied:
        return self._bound(Nullness(self._field(call).name), not wanted)

    def true_unless_null(self, call: Call, wanted: bool) -> Implied:
        return self._bound(Nullness(self._field(call).name), False) if wanted else _NEVER

    def known(self, call: Call, wanted: bool) -> Implied:
        """A function that gives null for null, and of which no more is understood."""
        return self._bound(Nullness(self._field(call).name), False)

    # Comparisons

    def _compared(self, op: Operator, arguments: Sequence[Node], wanted: bool) -> Implied:
        left, right = arguments
        if isinstance(_folded(left), Literal):
            left, op, right = right, MIRRORED[op], left
        value = _folded(right)
        if not isinstance(value, Literal):
            return None
        if isinstance(left, Call) and left.function != "cast":
            return self._truth(left, op, value.value, wanted)
        seen = self._seen(left)
        return self._bound(Comparison(seen.name, op, _literal(value.value, seen)), wanted)

    def _truth(self, call: Call, op: Operator, value: pa.Scalar, wanted: bool) -> Implied:
        """`(x > 1) = true`."""
        if not pat.is_boolean(value.type) or op not in ("=", "!="):
            return None
        if not value.is_valid:
            return _NEVER
        return self.where(call, (value.as_py() is (op == "=")) is wanted)

    def membership(self, call: Call, wanted: bool) -> Implied:
        seen = self._seen(call.arguments[0])
        options, finds_null = _value_set(call)
        if wanted:
            return _any([self._one_of(seen, options), *([IsNull(seen.column)] if finds_null else [])])
        _check_set(seen, options.type)
        others = _apart_by_value(options)
        if len(others) > _MANY:
            return None
        other = self._bound(Membership(seen.name, _literals(others, seen)), False)
        return other if finds_null else Or((other, IsNull(seen.column)))

    def _one_of(self, seen: _Seen, options: pa.Array) -> Implied:
        from delta_sidecar.arrays import pc

        if not len(options):
            return _NEVER
        _check_set(seen, options.type)
        if pat.is_floating(options.type) and pc.any(pc.is_nan(options)).as_py():
            return None
        if len(options) <= _MANY:
            return self._bound(Membership(seen.name, _literals(options, seen)), True)
        ends = pc.min_max(options)
        least, most = (_literal(ends[name], seen) for name in ("min", "max"))
        ranges: list[Implied] = [
            self._bound(Comparison(seen.name, ">=", least), True),
            self._bound(Comparison(seen.name, "<=", most), True),
        ]
        return _all(ranges)

    # Texts

    def prefix(self, call: Call, wanted: bool) -> Implied:
        return self._bound(Likeness(self._text(call).name, like_text(_pattern(call)) + "%"), wanted)

    def like(self, call: Call, wanted: bool) -> Implied:
        """`match_like`, as far as what stands before its first wildcard tells."""
        seen, pattern = self._text(call), _pattern(call)
        plain = pattern[: next((at for at, c in enumerate(pattern) if c in "%_\\"), len(pattern))]
        if pattern == plain:
            return self._bound(Comparison(seen.name, "=", literals.Text(plain)), wanted)
        if not wanted and pattern != plain + "%":
            return None
        return self._bound(Likeness(seen.name, like_text(plain) + "%"), wanted)

    def _text(self, call: Call) -> _Seen:
        seen = self._seen(call.arguments[0])
        if seen.column.type != PrimitiveType("string") or _option(call, "ignore_case"):
            raise _Unfit
        return seen

    # Columns

    def _field(self, call: Call) -> _Seen:
        """The column that a function of nulls is asked of: of any type, and under a cast that fails or keeps nulls."""
        node = call.arguments[0]
        if isinstance(node, FieldRef):
            return _Seen(self._column(node), self._type(node))
        return self._seen(node)

    def _seen(self, node: Node) -> _Seen:
        """The column, if the expression sees its values as the table has them."""
        match node:
            case FieldRef():
                column, seen = self._column(node), self._type(node)
                if isinstance(column.type, UnknownType) or not _is_alike(seen, arrow_type(column.type)):
                    raise _Unfit
                return _Seen(column, _value_type(seen))
            case Call("cast", [argument], options):
                inner, target = self._seen(argument), _target(options)
                if not _keeps_values(inner.type, target):
                    raise _Unfit
                return _Seen(inner.column, _value_type(target))
        raise _Unfit

    def _column(self, ref: FieldRef) -> Column:
        """Arrow's names are exact, ours are not."""
        column = self.binder.column(Name(ref.path))
        if column.path != ref.path:
            raise _Unfit
        return column

    def _type(self, ref: FieldRef) -> pa.DataType:
        fields: Any = self.schema
        found: pa.DataType | None = None
        for name in ref.path:
            places = fields.get_all_field_indices(name) if fields is not None else []
            if len(places) != 1:
                raise _Unfit
            found = fields.field(places[0]).type
            fields = found if pat.is_struct(found) else None
        if found is None:
            raise _Unfit
        return found


_RULES: Final[dict[str, Callable[[_Walk, Call, bool], Implied]]] = {
    "and": _Walk.conjunction,
    "and_kleene": _Walk.conjunction,
    "or": _Walk.disjunction,
    "or_kleene": _Walk.disjunction,
    "invert": _Walk.inversion,
    "and_not": _Walk.and_not,
    "and_not_kleene": _Walk.and_not,
    "xor": _Walk.exclusive,
    "if_else": _Walk.choice,
    "coalesce": _Walk.first_known,
    "is_null": _Walk.null,
    "is_valid": _Walk.valid,
    "true_unless_null": _Walk.true_unless_null,
    "is_nan": _Walk.known,
    "is_finite": _Walk.known,
    "is_inf": _Walk.known,
    "is_in": _Walk.membership,
    "starts_with": _Walk.prefix,
    "match_like": _Walk.like,
}


def _all(terms: Iterable[Implied]) -> Implied:
    """What holds where all terms do: any of them may be left out."""
    known: list[Expression] = []
    for term in terms:
        if term == _NEVER:
            return _NEVER
        if term is not None:
            known += term.terms if isinstance(term, And) else [term]
    return And(tuple(known)) if len(known) > 1 else next(iter(known), None)


def _any(terms: Iterable[Implied]) -> Implied:
    """What holds where one of the terms does: none of them may be left out."""
    known: list[Expression] = []
    for term in terms:
        if term is None:
            return None
        if term != _NEVER:
            known += term.terms if isinstance(term, Or) else [term]
    known = _gathered(known)
    return Or(tuple(known)) if len(known) > 1 else next(iter(known), _NEVER)


def _gathered(terms: Sequence[Expression]) -> list[Expression]:
    """The terms of an OR, with `x = 1`, `x = 2` as `x IN (1, 2)`: DataFusion writes a list so."""
    values: dict[Column, list[Value]] = {}
    others: list[Expression] = []
    for term in terms:
        match term:
            case Compare(column, "=", value):
                values.setdefault(column, []).append(value)
            case In(column, options):
                values.setdefault(column, []).extend(options)
            case _:
                others.append(term)
    return [*(one_of(column, options) for column, options in values.items()), *others]


def _of_literal(value: pa.Scalar, wanted: bool) -> Implied:
    if not value.is_valid:
        return _NEVER
    return _NEVER if pat.is_boolean(value.type) and value.as_py() is not wanted else None


# Types


def _value_type(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pat.is_dictionary(data_type) else data_type


def _is_text(data_type: pa.DataType) -> bool:
    return any(is_kind(data_type) for is_kind in (pat.is_string, pat.is_large_string, pat.is_string_view))


def _is_bytes(data_type: pa.DataType) -> bool:
    return any(is_kind(data_type) for is_kind in (pat.is_binary, pat.is_large_binary, pat.is_binary_view))


def _kind(data_type: pa.DataType) -> str | None:
    """What a type's values are, if that is plain; `instant` is a timestamp with a zone, `clock` one without."""
    for name, is_kind in _KINDS.items():
        if is_kind(data_type):
            return name
    return None


_KINDS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "integer": pat.is_integer,
    "float": pat.is_float32,
    "double": pat.is_float64,
    "decimal": pat.is_decimal,
    "date": pat.is_date32,
    "instant": lambda t: pat.is_timestamp(t) and t.tz is not None,
    "clock": lambda t: pat.is_timestamp(t) and t.tz is None,
    "text": _is_text,
    "bytes": _is_bytes,
    "boolean": pat.is_boolean,
}


def _is_alike(seen: pa.DataType, own: pa.DataType) -> bool:
    """Whether values of the table's own type are the same values as they are seen."""
    value = _value_type(seen)
    return value == own or (_is_text(value) and _is_text(own)) or (_is_bytes(value) and _is_bytes(own))


_WIDER: Final = {("float", "double"), ("integer", "double"), ("integer", "decimal"), ("date", "clock")}
"""Kinds whose every value is one of the other kind, or else the cast fails."""


def _keeps_values(seen: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast that fails where it would lose something keeps every value."""
    kinds = _kind(seen), _kind(_value_type(target))
    return None not in kinds and (kinds[0] == kinds[1] or kinds in _WIDER)


def _target(options: pa.StructScalar | None) -> pa.DataType:
    """The type of a cast, if it fails where it would lose something."""
    if options is None:
        raise _Unfit
    names = [field.name for field in options.type]
    allowed = [name for name in names if name.startswith("allow_") and options[name].as_py() is not False]
    if allowed or "to_type" not in names:
        raise _Unfit
    return options.type.field("to_type").type


def _folded(node: Node) -> Node:
    """A literal under casts as the literal that it is."""
    match node:
        case Call("cast", [argument], options):
            value = _folded(argument)
            if isinstance(value, Literal):
                try:
                    return Literal(value.value.cast(_target(options)))
                except pa.ArrowException:
                    raise _Unfit from None
    return node


# Literals


def _literals(values: pa.Array, seen: _Seen) -> tuple[literals.Literal, ...]:
    return tuple(_literal(value, seen) for value in values)


def _literal(value: pa.Scalar, seen: _Seen) -> literals.Literal:
    """The literal, as Arrow compares it with the column."""
    while isinstance(value, pa.DictionaryScalar):
        value = value.value
    if not value.is_valid:
        return literals.Null()
    kind = _kind(value.type)
    as_seen, read = (_LITERALS.get((_kind(t), kind)) for t in (seen.type, arrow_type(seen.column.type)))
    if as_seen is None or read is None:
        raise _Unfit
    as_seen(value)
    return read(value)


def _number(value: pa.Scalar) -> literals.Literal:
    """An exact number; a float by its own value, not as it prints."""
    number = value.as_py()
    if isinstance(number, float) and not math.isfinite(number):
        return literals.Float(number)
    return literals.Number(Decimal(number), str(Decimal(number)))


def _whole(most: int) -> Callable[[pa.Scalar], literals.Literal]:
    """Whole numbers that a float holds; Arrow refuses to compare it with others."""

    def read(value: pa.Scalar) -> literals.Literal:
        if abs(value.as_py()) > most:
            raise _Unfit
        return _number(value)

    return read


def _instant(value: pa.Scalar) -> literals.Instant:
    ticks, per_second = value.value, {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[value.type.unit]
    micros, rest = divmod(ticks * 10**6, per_second)
    return literals.Instant(micros, not rest, value.type.tz is not None)


def _clock_of_day(value: pa.Scalar) -> literals.Literal:
    instant = _instant(value)
    if abs(instant.value) > _LAST_DAY * MICROS_PER_DAY:
        raise _Unfit
    return instant


def _float(value: pa.Scalar) -> literals.Literal:
    return literals.Float(value.as_py())


_LITERALS: Final[dict[tuple[str | None, str | None], Callable[[pa.Scalar], literals.Literal]]] = {
    ("integer", "integer"): _number,
    ("integer", "float"): _number,
    ("integer", "double"): _number,
    ("integer", "decimal"): _number,
    ("float", "integer"): _whole(2**24),
    ("float", "float"): _float,
    ("float", "double"): _float,
    ("double", "integer"): _whole(2**53),
    ("double", "float"): _float,
    ("double", "double"): _float,
    ("decimal", "integer"): _number,
    ("decimal", "decimal"): _number,
    ("date", "date"): lambda value: literals.Day(value.value),
    ("date", "clock"): _clock_of_day,
    ("instant", "instant"): _instant,
    ("clock", "clock"): _instant,
    ("clock", "date"): lambda value: literals.Instant(value.value * MICROS_PER_DAY),
    ("text", "text"): lambda value: literals.Text(value.as_py()),
    ("bytes", "bytes"): lambda value: literals.Bytes(value.as_py()),
    ("boolean", "boolean"): lambda value: literals.Boolean(value.as_py()),
}
"""By the kinds of column and literal."""


def _value_set(call: Call) -> tuple[pa.Array, bool]:
    """The values of `is_in` without null, and whether it finds null."""
    if call.options is None:
        raise _Unfit
    values = call.options["value_set"].values
    if pat.is_dictionary(values.type):
        values = values.dictionary_decode()
    finds_null = values.null_count > 0 and call.options["null_matching_behavior"].as_py() == _MATCH
    return values.drop_null(), finds_null


def _check_set(seen: _Seen, options: pa.DataType) -> None:
    """`is_in` casts values to the column's type, whatever becomes of them: both must be of one kind."""
    kinds = _kind(seen.type), _kind(options)
    if kinds[0] is None or (kinds[0] != kinds[1] and kinds != ("double", "float")):
        raise _Unfit


def _apart_by_value(options: pa.Array) -> pa.Array:
    """The values that a row is not, in our sense, if Arrow does not find it: zeros of another sign are equal to us."""
    if not pat.is_floating(options.type):
        return options
    from delta_sidecar.arrays import pc

    return options.filter(pc.and_(pc.not_equal(options, pa.scalar(0, options.type)), pc.invert(pc.is_nan(options))))


def _option(call: Call, name: str) -> bool:
    return call.options is not None and call.options[name].as_py() is not False


def _pattern(call: Call) -> str:
    pattern = None if call.options is None else call.options["pattern"].as_py()
    if not isinstance(pattern, str):
        raise _Unfit
    return pattern
