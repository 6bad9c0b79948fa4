"""A predicate written as JSON, as the SQL text that means the same: one parser, and one meaning, for both.

{"date": "2026-02-08", "region": ["eu", "us"]}              every column equal to its value, or to one of a list
{"column": "ts", "op": ">=", "value": "2026-02-08"}         a comparison; a column in a struct is a list of names
{"and": [tree, …]}   {"or": [tree, …]}   {"not": tree}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from delta_sidecar.errors import PredicateError
from delta_sidecar.values.bucket_columns import quoted

_COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")
_FORM: Final = (
    'a predicate is SQL text, {"column": value}, {"column": name, "op": operator, "value": value}, '
    '{"and": […]}, {"or": […]} or {"not": {…}}'
)


def sql_of_tree(tree: Any) -> str:
    """The SQL text of a predicate's JSON; `PredicateError` if it is none. The caller bounds its depth."""
    if not isinstance(tree, Mapping) or not tree:
        raise PredicateError(f"{_shown(tree)} is not a predicate: {_FORM}")
    if "column" in tree and "op" in tree:
        return _comparison(tree)
    if len(tree) == 1:
        ((word, inner),) = tree.items()
        if word in ("and", "or") and isinstance(inner, Sequence) and not isinstance(inner, str):
            return _joined(word, inner)
        if word == "not" and isinstance(inner, Mapping):
            return f"NOT ({sql_of_tree(inner)})"
    return " AND ".join(_equality(name, value) for name, value in tree.items())


def _joined(word: str, inner: Sequence[Any]) -> str:
    if not inner:
        raise PredicateError(f'"{word}" has no conditions; leave it out, or give at least one')
    return f" {word.upper()} ".join(f"({sql_of_tree(each)})" for each in inner)


def _equality(column: str, value: Any) -> str:
    if value is None:
        return f"{_name(column)} IS NULL"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{_name(column)} IN {_options(value)}"
    return f"{_name(column)} = {_literal(value)}"


def _comparison(tree: Mapping[str, Any]) -> str:
    unknown = sorted(tree.keys() - {"column", "op", "value"})
    if unknown:
        raise PredicateError(f"a comparison has no field {unknown[0]!r}; it has column, op and value")
    name, op = _name(tree["column"]), tree["op"]
    word = " ".join(op.lower().split()) if isinstance(op, str) else op
    if word in ("is null", "is not null"):
        return f"{name} {word.upper()}"
    if "value" not in tree:
        raise PredicateError(f"the comparison with {_shown(op)} has no value")
    value = tree["value"]
    if word in _COMPARISONS:
        return f"{name} {word} {_literal(value)}"
    if word in _OTHERS:
        return f"{name} {word.upper()} {_OTHERS[word](value)}"
    raise PredicateError(
        f"the operator {_shown(op)} is not supported; use one of {', '.join((*_COMPARISONS, *_OTHERS))}, is null, "
        "is not null"
    )


def _options(values: Any) -> str:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise PredicateError(f"in needs a list of values, not {_shown(values)}")
    return f"({', '.join(map(_literal, values))})"


def _pattern(value: Any) -> str:
    if not isinstance(value, str):
        raise PredicateError(f"like needs a string, not {_shown(value)}")
    return _literal(value)


def _range(values: Any) -> str:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 2:
        raise PredicateError(f"between needs a list of two values, not {_shown(values)}")
    return f"{_literal(values[0])} AND {_literal(values[1])}"


_OTHERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "in": _options,
    "not in": _options,
    "like": _pattern,
    "not like": _pattern,
    "between": _range,
    "not between": _range,
}


def _name(column: Any) -> str:
    parts = [column] if isinstance(column, str) else column
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, str) and part for part in parts):
        raise PredicateError(
            f"{_shown(column)} is not a column: write its name, or a list of names for one in a struct"
        )
    return quoted(*parts)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return f"'{value.replace(chr(39), chr(39) * 2)}'"
        case int() | float():
            return repr(value)
    raise PredicateError(f"{_shown(value)} is not a value: write a string, a number, true, false or null")


def _shown(value: Any) -> str:
    """A value in a message: its beginning says enough, and its end may be megabytes away."""
    text = value if isinstance(value, str) else type(value).__name__
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
