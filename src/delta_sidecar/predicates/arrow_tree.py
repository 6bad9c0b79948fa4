"""A pyarrow expression as a tree that can be walked.

No public call of pyarrow takes an expression apart. Its pickle does: it is an Arrow IPC file whose one record batch
holds the literals and options, typed, and whose schema metadata lists the tree:

| key                | value                          | followed by                              |
|--------------------|--------------------------------|------------------------------------------|
| `call`             | the function                   | its arguments, `options`, `end`          |
| `field_ref`        | a column's name                |                                          |
| `nested_field_ref` | the number of names in a path  | that number of `field_ref`               |
| `literal`          | a column of the batch          |                                          |
| `options`          | a column of the batch          |                                          |

Keys repeat, which a dictionary would lose, so the metadata is read through Arrow's C data interface.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class FieldRef:
    path: tuple[str, ...]
    """Names from the top of the schema down."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: pa.Scalar


@dataclass(slots=True)
class Call:
    function: str
    arguments: list[Node]
    options: pa.StructScalar | None = None


Node: TypeAlias = FieldRef | Literal | Call


def is_arrow_expression(value: object) -> bool:
    """Whether a value is a pyarrow expression; pyarrow's functions are not imported for it."""
    compute = sys.modules.get("pyarrow._compute")
    return compute is not None and isinstance(value, compute.Expression)


class ParsedExpression:
    """A pyarrow expression and its tree: pickled once, and parsed once when the tree is first asked for."""

    def __init__(self, expression: pc.Expression) -> None:
        self.expression = expression
        self._pickle = _pickle(expression)

    @cached_property
    def tree(self) -> Node | None:
        """None if it cannot be read, as with a column that is given by its number."""
        if self._pickle is None:
            return None
        try:
            file = pa.ipc.open_file(self._pickle)
            return _tree(_metadata(file.schema), file.get_batch(0))
        except (pa.ArrowException, LookupError, ValueError, TypeError, StopIteration):
            return None

    @property
    def key(self) -> bytes | None:
        """Bytes that only the same expression has, None if there are none. pyarrow's `equals` takes 0.0 for -0.0."""
        return None if self._pickle is None else self._pickle.to_pybytes()


def _pickle(expression: pc.Expression) -> pa.Buffer | None:
    try:
        _, (pickled, *_) = expression.__reduce__()
    except (pa.ArrowException, LookupError, ValueError, TypeError):
        return None
    return pickled


def columns_in(tree: Node) -> Iterator[str]:
    """The top-level columns that a tree names, with repeats."""
    match tree:
        case FieldRef(path):
            yield path[0]
        case Call(_, arguments):
            for argument in arguments:
                yield from columns_in(argument)


_ASSOCIATIVE: Final = frozenset({"and", "and_kleene", "or", "or_kleene"})


def _tree(entries: Iterator[tuple[str, str]], values: pa.RecordBatch) -> Node:
    """The tree that the entries list; `ValueError` if they do not list one.

    Long chains of AND and OR, which are as deep as they are long, become one call with many arguments.
    """
    calls: list[Call] = []
    for key, value in entries:
        if key == "call":
            calls.append(Call(value, []))
            continue
        if key == "options":
            calls[-1].options = values.column(int(value))[0]
            continue
        node = calls.pop() if key == "end" else _leaf(key, value, entries, values)
        if not calls:
            return _only(node, entries)
        _add(calls[-1], node)
    raise ValueError("an expression has no end")


def _add(call: Call, node: Node) -> None:
    if isinstance(node, Call) and node.function == call.function and call.function in _ASSOCIATIVE:
        call.arguments.extend(node.arguments)
    else:
        call.arguments.append(node)


def _only(node: Node, entries: Iterator[tuple[str, str]]) -> Node:
    if next(entries, None) is not None:
        raise ValueError("an expression goes on after its end")
    return node


def _leaf(key: str, value: str, entries: Iterator[tuple[str, str]], values: pa.RecordBatch) -> Node:
    match key:
        case "field_ref":
            return FieldRef((value,))
        case "nested_field_ref":
            return FieldRef(tuple(_name(*next(entries)) for _ in range(int(value))))
        case "literal":
            return Literal(values.column(int(value))[0])
    raise ValueError(f"an expression has {key!r}")


def _name(key: str, value: str) -> str:
    if key != "field_ref":
        raise ValueError(f"a path has {key!r}")
    return value


class _CSchema(ctypes.Structure):
    """The first members of Arrow's `struct ArrowSchema`."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype = ctypes.c_void_p
_pointer_in.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The metadata of a schema, in order and with repeated keys: a count, then lengths and bytes of keys and values."""
    capsule: Any = schema.__arrow_c_schema__()
    exported = _CSchema.from_address(_pointer_in(capsule, b"arrow_schema"))
    texts: list[str] = []
    if exported.metadata:
        count, place = _int32(exported.metadata), exported.metadata + 4
        for _ in range(2 * count):
            length = _int32(place)
            texts.append(ctypes.string_at(place + 4, length).decode())
            place += 4 + length
    del capsule  # the memory is Arrow's until here
    return zip(texts[::2], texts[1::2], strict=True)


def _int32(address: int) -> int:
    return ctypes.c_int32.from_address(address).value
