"""KQL: Kusto's names, types and literals for ours, and a bound predicate as a KQL condition with exactly its meaning.

Kusto's conditions are not SQL's, and the differences are silent:

- `null != 5` is true there, `null == 5` is false. So `!=` and negations ask for `isnotnull` first.
- There is no null string: a null of a file reads as the empty string. A predicate that distinguishes the two is
  refused; all others mean the same.
- Strings have no `<`; `strcmp` compares them character by character. That is our order for a literal whose characters
  stand below the surrogates of UTF-16, and is refused for others.
- NaN is asked for by name (`isnan`), so that its place in Kusto's order does not matter.

What has no exact KQL is refused by name, never left out: a weaker filter would return rows that do not match.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from delta_sidecar.errors import InputError, PredicateError, UnsupportedTypeError
from delta_sidecar.predicates.binding import is_true
from delta_sidecar.predicates.expression import (
    INVERSE,
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Expression,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    columns_of,
)
from delta_sidecar.predicates.known_values import simplified, with_values
from delta_sidecar.predicates.like import like_regex, like_tokens
from delta_sidecar.values.calendar import MICROS_PER_DAY, MICROS_PER_SECOND, date_of
from delta_sidecar.values.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType

_TYPES: Final = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "real",
    "double": "real",
    "string": "string",
    "boolean": "bool",
    "date": "datetime",
    "timestamp": "datetime",
    "timestamp_ntz": "datetime",
}
_DIGITS: Final = 34
"""Digits of Kusto's decimal, which is 128 bits wide."""
_NAME_MARKS: Final = "_ .-"
_FIRST_YEAR, _LAST_YEAR = 1, 9999
_OPERATORS: Final[dict[Operator, str]] = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SURROGATES: Final = "\ud800"
_LONGEST_NAME: Final = 1024
TRUE, FALSE = "true", "false"


def name(text: str) -> str:
    """A name as KQL writes it, in brackets, so that it is never a keyword. `InputError` for one that Kusto does not
    accept."""
    taken = all(character.isalnum() or character in _NAME_MARKS for character in text)
    if not text or not taken or len(text) > _LONGEST_NAME or text.startswith("__") or text.endswith("__"):
        raise InputError(
            f"Kusto has no column or table named {text!r}: names are letters, digits, spaces and . _ -, and neither "
            "begin nor end with two underscores; leave the column out of `columns`, or choose another table name"
        )
    return f"['{text}']"


def type_of(field: StructField) -> str:
    """The KQL type that holds the values of a column; `UnsupportedTypeError` if there is none."""
    match field.type:
        case PrimitiveType(kind) if kind in _TYPES:
            return _TYPES[kind]
        case DecimalType(precision) if precision <= _DIGITS:
            return "decimal"
        case StructType() | ArrayType() | MapType():
            return "dynamic"
    why = f"whose decimals have {_DIGITS} digits" if isinstance(field.type, DecimalType) else "which has no such type"
    raise UnsupportedTypeError(
        f"column {field.name} is {field.type} and cannot be read by Kusto, {why}; leave it out of `columns` and of the "
        "predicate"
    )


def literal(value: Any, data_type: DataType, of: str) -> str:
    """A value in its physical form (None for null) as a literal of the KQL type; `of` names it in messages."""
    if isinstance(data_type, DecimalType):
        return f"decimal({'null' if value is None else format(value, 'f')})"
    kind = data_type.name if isinstance(data_type, PrimitiveType) else ""
    kql = _TYPES[kind]
    if kql == "string":
        return text(value or "", of)
    if value is None:
        return f"{kql}(null)"
    match kql:
        case "real":
            return f"real({_float(value)})"
        case "bool":
            return TRUE if value else FALSE
        case "datetime":
            return f"datetime({_instant(value * MICROS_PER_DAY if kind == 'date' else value, kind, of)})"
    return f"{kql}({value})"


def text(value: str, of: str) -> str:
    """A string literal; what does not print is escaped. (KQL has no escape for characters beyond U+FFFF.)"""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{of}: {value!r} holds half of a surrogate pair and cannot be written in KQL") from None
    return '"' + "".join(map(_character, value)) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable() or character > "\uffff":
        return character
    return f"\\u{ord(character):04x}"


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value) if math.isfinite(value) else "+inf" if value > 0 else "-inf"


def _instant(micros: int, kind: str, of: str) -> str:
    days, rest = divmod(micros, MICROS_PER_DAY)
    year, month, day = date_of(days)
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        raise InputError(f"{of}: Kusto's datetime holds the years {_FIRST_YEAR} to {_LAST_YEAR}, not the year {year}")
    date = f"{year:04}-{month:02}-{day:02}"
    if kind == "date":
        return date
    seconds, fraction = divmod(rest, MICROS_PER_SECOND)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{date}T{clock}.{fraction:06}Z"


def condition(expression: Expression) -> str:
    """A KQL condition, in the columns' physical names, that is true exactly where the expression is.

    `true` and `false` stand alone. `PredicateError` names what has no exact KQL.
    """
    whole = simplified(expression)
    mentioned = list(dict.fromkeys(columns_of(whole)))
    for column in mentioned:
        _check_column(column)
    for column in mentioned:
        _check_null_strings(whole, column)
    terms = whole.terms if isinstance(whole, And) else (whole,)
    return " and ".join(_kept(map(_true, terms), TRUE, FALSE))


def _check_column(column: Column) -> None:
    if column.is_partition:
        raise PredicateError(
            f"Kusto: column {column} is compared with a column of another type; compare it with a literal"
        )
    if len(column.path) > 1:
        raise PredicateError(
            f"Kusto: column {column} is in a struct, which Kusto reads as dynamic, without the types of its fields; "
            "leave the condition out and filter the result"
        )
    if not isinstance(column.type, DecimalType) and str(column.type) not in _TYPES:
        raise PredicateError(
            f"Kusto: column {column} is {column.type}: KQL has no condition for it; leave it out and filter the result"
        )
    type_of(column.fields[0])


def _check_null_strings(expression: Expression, column: Column) -> None:
    """A null string and an empty one are the same in Kusto: they must both match, or neither."""
    if not _is_string(column) or not column.fields[0].nullable:
        return
    as_null, as_empty = (_where_string_is(expression, column, value) for value in (None, ""))
    if as_null != as_empty:
        raise PredicateError(
            f"Kusto: the predicate separates null from '' in the string column {column}, and Kusto reads both as ''; "
            f"add AND {column} != '', or take both with OR {column} IS NULL OR {column} = ''"
        )


def _where_string_is(expression: Expression, column: Column, value: str | None) -> Expression:
    row = pa.record_batch([pa.array([value], pa.string())], [column.path[0]])
    return simplified(is_true(with_values(expression, row)))


def _is_string(column: Column) -> bool:
    return column.type == PrimitiveType("string")


def _is_real(column: Column) -> bool:
    return type_of(column.fields[0]) == "real"


def _kept(terms: Iterable[str], neutral: str, decisive: str) -> list[str]:
    """The conditions of an `and` or `or` that decide something in it; one at least."""
    kept = list(dict.fromkeys(term for term in terms if term != neutral)) or [neutral]
    return [decisive] if decisive in kept else kept


def _all(*terms: str) -> str:
    kept = _kept(terms, TRUE, FALSE)
    return kept[0] if len(kept) == 1 else f"({' and '.join(kept)})"


def _any(*terms: str) -> str:
    kept = _kept(terms, FALSE, TRUE)
    return kept[0] if len(kept) == 1 else f"({' or '.join(kept)})"


def _true(expression: Expression) -> str:
    """True where the expression is true, false or null elsewhere."""
    match expression:
        case Constant(value):
            return TRUE if value else FALSE
        case And(terms):
            return _all(*map(_true, terms))
        case Or(terms):
            return _any(*map(_true, terms))
        case Not(term):
            return _false(term)
        case IsNull(column):
            return FALSE if _is_string(column) else f"isnull({_of(column)})"
        case Compare(column, op, value):
            return _compare(column, op, value)
        case In(column, values):
            return _in(column, values)
        case Like(column, pattern, escape):
            return _like(column, pattern, escape)
        case CompareColumns(left, op, right):
            return _compare_columns(left, op, right)


def _false(expression: Expression) -> str:
    """True where the expression is false; false or null where it is true or unknown."""
    match expression:
        case Constant(value):
            return TRUE if value is False else FALSE
        case And(terms):
            return _any(*map(_false, terms))
        case Or(terms):
            return _all(*map(_false, terms))
        case Not(term):
            return _true(term)
        case IsNull(column):
            return _known(column)
        case Compare(column, op, value) if _is_real(column) and op not in ("=", "!="):
            return _not_ordered([column], _real_order(column, INVERSE[op], value))
        case Compare(column, op, value):
            return _compare(column, INVERSE[op], value)
        case In(column, values):
            return _all(_known(column), _not(_in(column, values)))
        case Like(column, pattern, escape):
            return _not(_like(column, pattern, escape))
        case CompareColumns(left, op, right) if op not in ("=", "!=") and any(map(_is_real, (left, right))):
            return _not_ordered([left, right], _operands(left, INVERSE[op], right))
        case CompareColumns(left, op, right):
            return _compare_columns(left, INVERSE[op], right)


def _of(column: Column) -> str:
    return name(column.physical_path[0])


def _known(column: Column) -> str:
    """Kusto's strings are never null."""
    return TRUE if _is_string(column) else f"isnotnull({_of(column)})"


def _not(term: str) -> str:
    return {TRUE: FALSE, FALSE: TRUE}.get(term, f"not({term})")


def _number(column: Column) -> str:
    return TRUE if not _is_real(column) else f"not(isnan({_of(column)}))"


def _not_ordered(columns: Sequence[Column], inverse: str) -> str:
    """An order that does not hold between values: its inverse does, or one of them is NaN."""
    nans = [f"isnan({_of(column)})" for column in columns if _is_real(column)]
    return _all(*map(_known, columns), _any(*nans, inverse))


def _compare(column: Column, op: Operator, value: Any) -> str:
    if _is_string(column):
        return _compare_string(column, op, value)
    if column.type == PrimitiveType("boolean"):
        return _among_booleans(column, [flag for flag in (False, True) if _holds(flag, op, value)])
    if _is_real(column):
        return _compare_real(column, op, value)
    comparison = f"{_of(column)} {_OPERATORS[op]} {_literal(value, column)}"
    return _all(_known(column), comparison) if op == "!=" else comparison


def _literal(value: Any, column: Column) -> str:
    try:
        return literal(value, column.type, f"Kusto: the predicate on column {column}")
    except InputError as error:
        raise PredicateError(str(error)) from None


def _compare_real(column: Column, op: Operator, value: float) -> str:
    if math.isnan(value):
        return _known(column) if op == "!=" else FALSE
    comparison = _real_order(column, op, value)
    return _not_ordered([column], comparison) if op == "!=" else _all(_number(column), comparison)


def _real_order(column: Column, op: Operator, value: Any) -> str:
    """The comparison alone; of NaN nothing but `!=` holds, and that is for the caller."""
    return FALSE if math.isnan(value) else f"{_of(column)} {_OPERATORS[op]} {_literal(value, column)}"


def _compare_string(column: Column, op: Operator, value: str) -> str:
    if op in ("=", "!=") and not value:
        return f"{'isempty' if op == '=' else 'isnotempty'}({_of(column)})"
    quoted = _literal(value, column)
    if op in ("=", "!="):
        return f"{_of(column)} {_OPERATORS[op]} {quoted}"
    if max(value, default="") >= _SURROGATES:
        raise PredicateError(
            f"Kusto: the order of {column} and {value!r} may differ in Kusto, where characters after U+D7FF have "
            "another order; compare with a literal of other characters"
        )
    return f"strcmp({_of(column)}, {quoted}) {_OPERATORS[op]} 0"


def _holds(left: bool, op: Operator, right: bool) -> bool:
    match op:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right


def _among_booleans(column: Column, flags: Sequence[bool]) -> str:
    if len(set(flags)) == 2:
        return _known(column)
    return f"{_of(column)} == {TRUE if flags[0] else FALSE}" if flags else FALSE


def _in(column: Column, values: Sequence[Any]) -> str:
    """`in` is an OR of `==`; zero has two signs, and an empty string its own test."""
    if column.type == PrimitiveType("boolean"):
        return _among_booleans(column, list(values))
    numbers = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    apart = [value for value in numbers if value in ("", 0.0) and (_is_string(column) or _is_real(column))]
    members = ", ".join(_literal(value, column) for value in numbers if value not in apart)
    tests = [_compare(column, "=", value) for value in apart]
    if members:
        tests.append(_all(_number(column), f"{_of(column)} in ({members})"))
    return _any(*tests)


def _like(column: Column, pattern: str, escape: str) -> str:
    tokens = like_tokens(pattern, escape)
    subject = _of(column)

    def quoted(part: str) -> str:
        return _literal(part, column)

    match tokens:
        case []:
            return _compare(column, "=", "")
        case [("", part)]:
            return _compare(column, "=", part)
        case [("", part), ("%", _)]:
            return f"{subject} startswith_cs {quoted(part)}"
        case [("%", _), ("", part)]:
            return f"{subject} endswith_cs {quoted(part)}"
        case [("%", _), ("", part), ("%", _)]:
            return f"{subject} contains_cs {quoted(part)}"
    if all(wildcard == "%" for wildcard, _ in tokens):
        return TRUE
    return f"{subject} matches regex {quoted(like_regex(tokens))}"


def _compare_columns(left: Column, op: Operator, right: Column) -> str:
    comparison = _operands(left, op, right)
    if op == "!=":
        return _not_ordered([left, right], comparison)
    return _all(_number(left), _number(right), comparison)


def _operands(left: Column, op: Operator, right: Column) -> str:
    """The comparison of two columns as values of one KQL type."""
    kinds = {type_of(column.fields[0]) for column in (left, right)}
    if kinds & {"string", "bool"} and op not in ("=", "!="):
        raise PredicateError(f"Kusto: columns {left} and {right} have no order in KQL; compare them with = or !=")
    if kinds == {"real", "decimal"}:
        raise PredicateError(f"Kusto: columns {left} and {right} are real and decimal, and cannot be compared exactly")
    cast = (
        "toreal" if len(kinds) > 1 and "real" in kinds else "todecimal" if len(kinds) > 1 and "decimal" in kinds else ""
    )
    wanted = cast.removeprefix("to")
    sides = [f"{cast}({_of(c)})" if cast and type_of(c.fields[0]) != wanted else _of(c) for c in (left, right)]
    return f"{sides[0]} {_OPERATORS[op]} {sides[1]}"
