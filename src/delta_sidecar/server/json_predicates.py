"""A predicate written as JSON, and the condition that it means.

{"date": "2026-02-08", "region": ["eu", null]}              every column equal to its value, or to one of a list
{"column": "ts", "op": ">=", "value": "2026-02-08"}         a comparison; a column in a struct is a list of names
{"and": [tree, …]}   {"or": [tree, …]}   {"not": tree}
{"op": "and", "terms": [tree, …]}   {"op": "not", "term": tree}   {"op": "sql", "text": "id > 7"}

Values are those of `json_literals`. What Python says as tuples is sent in the same form (`tree_of`), so that it is
understood once, by the client, as a table that is read without a server understands it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicates import condition as written
from delta_sidecar.predicates.condition import Comparison, Condition, Likeness, Membership, Name, Negation, Nullness
from delta_sidecar.predicates.literals import Literal, Null
from delta_sidecar.predicates.predicate_sql import parse_sql
from delta_sidecar.predicates.predicate_tuples import OPERATORS
from delta_sidecar.server.json_literals import json_of, json_of_value, literal_of, shown

_FORM: Final = (
    'a predicate is SQL text, {"column": value}, {"column": name, "op": operator, "value": value}, '
    '{"and": […]}, {"or": […]} or {"not": {…}}'
)
_FIELDS: Final = ("column", "op", "value", "values")


def condition_of_tree(tree: Any) -> Condition:
    """What a predicate's JSON means; `PredicateError` if it is none. The caller bounds its depth."""
    if not isinstance(tree, Mapping) or not tree:
        raise PredicateError(f"{shown(tree)} is not a predicate: {_FORM}")
    if "column" in tree and "op" in tree:
        return _comparison(tree)
    if len(tree) == 2 and tree.get("op") == "sql" and isinstance(tree.get("text"), str):
        return parse_sql(tree["text"])
    joined = _joined(tree)
    if joined is not None:
        return joined
    if len(tree) == 1:
        return _equality(*next(iter(tree.items())))
    return written.All(tuple(_equality(name, value) for name, value in tree.items()))


def _joined(tree: Mapping[str, Any]) -> Condition | None:
    """What `and`, `or` and `not` join; None if the tree has none of them."""
    if len(tree) == 1:
        ((word, inner),) = tree.items()
    elif len(tree) == 2 and isinstance(tree.get("op"), str) and ("terms" in tree or "term" in tree):
        word, inner = tree["op"].lower(), tree.get("terms", tree.get("term"))
    else:
        return None
    if word == "not":
        if not isinstance(inner, Mapping):
            raise PredicateError(f'"not" needs one condition, an object, not {shown(inner)}')
        return Negation(condition_of_tree(inner))
    if word not in ("and", "or"):
        return None
    if not isinstance(inner, list | tuple):
        raise PredicateError(f'"{word}" needs a list of conditions, not {shown(inner)}')
    if not inner:
        raise PredicateError(f'"{word}" has no conditions; leave it out, or give at least one')
    conditions = tuple(map(condition_of_tree, inner))
    return written.All(conditions) if word == "and" else written.Any(conditions)


def _equality(column: str, value: Any) -> Condition:
    """Null stands for the rows that have none, alone and in a list."""
    name = _name(column)
    if value is None:
        return Nullness(name)
    if not isinstance(value, list | tuple):
        return Comparison(name, "=", literal_of(value))
    options = _options(value)
    others = Membership(name, tuple(each for each in options if not isinstance(each, Null)))
    return others if len(others.options) == len(options) else written.Any((Nullness(name), others))


def _comparison(tree: Mapping[str, Any]) -> Condition:
    unknown = sorted(tree.keys() - set(_FIELDS))
    if unknown:
        raise PredicateError(f"a comparison has no field {unknown[0]!r}; it has column, op and value")
    name, op = _name(tree["column"]), tree["op"]
    word = " ".join(op.lower().split()) if isinstance(op, str) else ""
    if word in ("is null", "is not null"):
        return _negated(Nullness(name), word == "is not null")
    if "value" in tree and "values" in tree:
        raise PredicateError("a comparison has value or values, not both")
    if "value" not in tree and "values" not in tree:
        raise PredicateError(f"the comparison with {shown(op)} has no value")
    value = tree["value"] if "value" in tree else tree["values"]
    if word in OPERATORS:
        return Comparison(name, OPERATORS[word], literal_of(value))
    made = _OTHERS.get(word.removeprefix("not "))
    if made is None:
        words = (*OPERATORS, *(f"{no}{each}" for each in _OTHERS for no in ("", "not ")))
        raise PredicateError(
            f"the operator {shown(op)} is not supported; use one of {', '.join(words)}, is null, is not null"
        )
    return _negated(made(name, value), word.startswith("not "))


def _negated(condition: Condition, is_negative: bool) -> Condition:
    return Negation(condition) if is_negative else condition


def _options(values: Any) -> tuple[Literal, ...]:
    if not isinstance(values, list | tuple):
        raise PredicateError(f"in needs a list of values, not {shown(values)}")
    return tuple(map(literal_of, values))


def _membership(name: Name, values: Any) -> Condition:
    return Membership(name, _options(values))


def _likeness(name: Name, value: Any) -> Condition:
    if not isinstance(value, str):
        raise PredicateError(f"like needs a string, not {shown(value)}")
    return Likeness(name, value)


def _range(name: Name, values: Any) -> Condition:
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise PredicateError(f"between needs a list of two values, the least and the greatest, not {shown(values)}")
    low, high = map(literal_of, values)
    return written.All((Comparison(name, ">=", low), Comparison(name, "<=", high)))


_OTHERS: Final[Mapping[str, Callable[[Name, Any], Condition]]] = {
    "in": _membership,
    "like": _likeness,
    "between": _range,
}


def _name(column: Any) -> Name:
    if isinstance(column, str):
        return Name((column,), dotted=True)
    if isinstance(column, list | tuple) and column and all(isinstance(part, str) and part for part in column):
        return Name(tuple(column))
    raise PredicateError(f"{shown(column)} is not a column: write its name, or a list of names for one in a struct")


def tree_of(condition: Condition) -> dict[str, Any]:
    """The JSON of a condition that was made of tuples: `condition_of_tree` gives the same one back."""
    match condition:
        case written.All(conditions):
            return {"and": list(map(tree_of, conditions))}
        case written.Any(conditions):
            return {"or": list(map(tree_of, conditions))}
        case Negation(inner):
            return {"not": tree_of(inner)}
        case Nullness(Name(parts)):
            return {"column": _written(parts), "op": "is null"}
        case Comparison(Name(parts), op, right) if not isinstance(right, Name | written.DayOf):
            return {"column": _written(parts), "op": op, "value": json_of(right)}
        case Membership(Name(parts), options):
            values = [json_of(each) for each in options if not isinstance(each, Name | written.DayOf)]
            return {"column": _written(parts), "op": "in", "value": values}
        case Likeness(Name(parts), pattern):
            return {"column": _written(parts), "op": "like", "value": pattern}
    raise PredicateError(f"a {type(condition).__name__} has no form in JSON; write the predicate as SQL text")


def _written(parts: Sequence[str]) -> str | list[str]:
    return parts[0] if len(parts) == 1 else list(parts)


def with_json_values(tree: Any) -> Any:
    """A predicate's object with Python's values, such as dates, bytes and infinities, in the forms of JSON."""
    if not isinstance(tree, Mapping):
        return json_of_value(tree)
    return {name: _inner(name, value) for name, value in tree.items()}


def _inner(name: Any, value: Any) -> Any:
    if name in ("and", "or", "terms") and isinstance(value, list | tuple):
        return [with_json_values(each) for each in value]
    return with_json_values(value)
