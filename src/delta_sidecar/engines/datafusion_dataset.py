"""The dataset that DataFusion reads: a filter that DataFusion gives means what it means in DataFusion.

DataFusion writes its filters as pyarrow expressions and does not check the rows again. pyarrow would give other
answers:

| filter               | DataFusion                                             | pyarrow                          |
|----------------------|--------------------------------------------------------|----------------------------------|
| `null IN (…)`        | null                                                   | false                            |
| `<`, `<=`, `>`, `>=` | NaN is above all numbers, NaN with a minus below them  | false for NaN                    |
| `= NaN`, `!= NaN`    | NaN is equal to NaN                                    | NaN is equal to nothing          |

So such terms are rewritten. Floats are compared as integers of the same order, which one of our functions computes. A
literal that is a dictionary, for a column that is one, becomes the value in it: pruning understands that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from delta_sidecar.engines.dataset import Filter, TableDataset, TableFragment
from delta_sidecar.errors import InputError
from delta_sidecar.predicates.arrow_tree import Call, FieldRef, Literal, Node, ParsedExpression

_COMPARISONS: Final[dict[str, Callable[..., pc.Expression]]] = {
    "equal": pc.equal,
    "not_equal": pc.not_equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
}
_CONNECTIVES: Final[dict[str, Callable[..., pc.Expression]]] = {
    "and": pc.and_,
    "and_kleene": pc.and_kleene,
    "or": pc.or_,
    "or_kleene": pc.or_kleene,
}
_OF_ONE: Final[dict[str, Callable[..., pc.Expression]]] = {"invert": pc.invert, "is_valid": pc.is_valid}
_ORDER: Final = "delta_sidecar_float_order"
_UNKNOWN: Final = pa.scalar(None, pa.bool_())


class DataFusionDataset(TableDataset):
    """A table's rows, for DataFusion."""

    @classmethod
    def of(cls, dataset: TableDataset) -> DataFusionDataset:
        return cls(replace(dataset._contents, meaning=in_datafusion))

    def get_fragments(self, filter: Filter = None) -> list[TableFragment]:  # noqa: A002
        """The files that may hold rows, or one without rows: DataFusion fails to plan a scan of none."""
        return super().get_fragments(filter) or [TableFragment(self._contents, _no_files(self._listing(False)), 0)]


def _no_files(listing: Any) -> pa.RecordBatch:
    with listing as files:
        return pa.RecordBatch.from_pylist([], files.schema)


def in_datafusion(expression: pc.Expression, schema: pa.Schema) -> pc.Expression:
    """The expression that has in pyarrow the meaning that this one has in DataFusion; `schema` has the columns.

    Raises `InputError` for one that cannot be taken apart where its meaning may be another.
    """
    parsed = ParsedExpression(expression)
    if parsed.key is None:
        raise _refused(expression)
    return _in_datafusion(_Hashed(parsed), schema)


class _Hashed:
    """An expression that is equal to another of the same bytes."""

    def __init__(self, parsed: ParsedExpression) -> None:
        self.parsed = parsed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.parsed.key == other.parsed.key

    def __hash__(self) -> int:
        return hash(self.parsed.key)


@lru_cache(maxsize=8)  # DataFusion gives the same filter for every file
def _in_datafusion(hashed: _Hashed, schema: pa.Schema) -> pc.Expression:
    tree, expression = hashed.parsed.tree, hashed.parsed.expression
    if tree is None:
        raise _refused(expression)
    try:
        is_other = any(_differs(node, schema) for node in _nodes(tree))
        return _rewritten(tree, schema) if is_other else expression
    except (LookupError, ValueError, TypeError, RecursionError):
        raise _refused(expression) from None


def _refused(expression: pc.Expression) -> InputError:
    return InputError(
        f"DataFusion pushes the filter {str(expression)[:200]}, which may mean something else in pyarrow; "
        "query the table with to_duckdb, or give the condition as predicate="
    )


def _nodes(tree: Node) -> Iterator[Node]:
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack += node.arguments


def _differs(node: Node, schema: pa.Schema) -> bool:
    """Whether this very node may have another meaning in pyarrow."""
    match node:
        case Call("is_in"):
            return True
        case Literal(value) if pat.is_dictionary(value.type):
            return True
        case Call(function, arguments) if function not in ("is_valid", "is_null"):
            return any(_is_float(argument, schema) for argument in arguments)
    return False


def _is_float(node: Node, schema: pa.Schema) -> bool:
    match node:
        case Literal(value):
            return bool(pat.is_floating(value.type))
        case FieldRef(path):
            return bool(pat.is_floating(_type(path, schema)))
    return False


def _type(path: tuple[str, ...], schema: pa.Schema) -> pa.DataType:
    found: Any = schema
    for name in path:
        found = (found if isinstance(found, pa.Schema) else found.type).field(name)
    return found.type


def _rewritten(node: Node, schema: pa.Schema) -> pc.Expression:
    """The node in pyarrow, with DataFusion's meaning; `LookupError` or `ValueError` for a node it does not have."""
    match node:
        case Literal(value):
            return pc.scalar(value.value if pat.is_dictionary(value.type) else value)
        case FieldRef(path):
            return pc.field(*path)
    terms = [_rewritten(argument, schema) for argument in node.arguments]
    match node.function:
        case name if name in _CONNECTIVES:
            return reduce(_CONNECTIVES[name], terms)
        case name if name in _COMPARISONS:
            if any(_is_float(argument, schema) for argument in node.arguments) and not _is_plain(node):
                terms = [_order(term) for term in terms]
            return _COMPARISONS[name](*terms)
        case "is_null" if node.options is not None:
            return pc.is_null(*terms, nan_is_null=node.options["nan_is_null"].as_py())
        case "is_in" if node.options is not None:
            return _member(terms[0], node.options["value_set"].values)
    return _OF_ONE[node.function](*terms)


def _is_plain(call: Call) -> bool:
    """Whether pyarrow answers as DataFusion does: it is asked if a float is one that is not NaN."""
    numbers = [node.value.as_py() for node in call.arguments if isinstance(node, Literal)]
    return call.function in ("equal", "not_equal") and any(n is None or not math.isnan(n) for n in numbers)


def _member(value: pc.Expression, options: pa.Array) -> pc.Expression:
    """`IN`: unknown for null, and for what is not found among options of which one is null."""
    found = pc.is_in(value, value_set=options.drop_null())
    return pc.if_else(pc.is_valid(value), pc.if_else(found, True, _UNKNOWN) if options.null_count else found, _UNKNOWN)


def _order(value: pc.Expression) -> pc.Expression:
    """Integers in the order of floats."""
    _register_order()
    return pc.Expression._call(_ORDER, [value.cast(pa.float64())])


@lru_cache(maxsize=1)
def _register_order() -> None:
    about = {"summary": "Integers in the order of floats", "description": "0.0 is -0.0; NaN is an end by its sign."}
    pc.register_scalar_function(_ordered, _ORDER, about, {"float": pa.float64()}, pa.int64())


def _ordered(_: pc.UdfContext, floats: Any) -> Any:
    """The bits of a float are in its order if it is positive, and in the other order below the sign if it is not."""
    if isinstance(floats, pa.Scalar):
        return _ordered(_, pa.array([floats.as_py()], pa.float64()))[0]
    numbers = floats.to_numpy(zero_copy_only=False)
    bits = np.where(numbers == 0, 0.0, numbers).view(np.int64)
    ordered = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return pa.array(ordered, pa.int64(), mask=floats.is_null().to_numpy(zero_copy_only=False))
