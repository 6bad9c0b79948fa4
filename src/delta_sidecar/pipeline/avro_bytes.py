"""Whether bytes are an Avro record by the letter of the format.

fastavro takes some bytes that no writer makes for values: the number -1 for the last branch of a union or the last
symbol of an enum, any byte for true, a number of more than 64 bits; and of a map's entries with one key it keeps the
last. What it has read is therefore written again, and where that gives other bytes, they are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Step: TypeAlias = Callable[[bytes, int], int]
"""Where the value ends that begins at a place; ValueError where there is none."""

_SIZES: Final = {"null": 0, "float": 4, "double": 8}


def checker(schema: Any) -> Step:
    """A look at the records of a schema, as fastavro has parsed it."""
    return _step(schema, {})


def _step(schema: Any, named: dict[str, Step]) -> Step:
    if isinstance(schema, list):
        return _union([_step(branch, named) for branch in schema])
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in ("record", "error"):
        step = _in_turn([_step(field["type"], named) for field in schema["fields"]])
    elif kind == "enum":
        step = _one_of(len(schema["symbols"]))
    elif kind == "fixed":
        step = _sized(schema["size"])
    elif kind == "array":
        return _blocks(_step(schema["items"], named), is_map=False)
    elif kind == "map":
        return _blocks(_step(schema["values"], named), is_map=True)
    elif kind in _SIZES:
        return _sized(_SIZES[kind])
    else:
        return _PLAIN[kind] if kind in _PLAIN else named[kind]
    named[schema["name"]] = step
    return step


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if value >> 64:
        raise ValueError("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def _long(data: bytes, at: int) -> int:
    return _number(data, at)[1]


def _boolean(data: bytes, at: int) -> int:
    if data[at] > 1:
        raise ValueError(f"a boolean is {data[at]}")
    return at + 1


def _text(data: bytes, at: int) -> int:
    length, at = _number(data, at)
    return _ended(data, at, length)


_PLAIN: Final[Mapping[str, Step]] = {
    "boolean": _boolean, "int": _long, "long": _long, "bytes": _text, "string": _text,
}  # fmt: skip


def _ended(data: bytes, at: int, length: int) -> int:
    if not 0 <= length <= len(data) - at:
        raise ValueError(f"{length} bytes are wanted, and {len(data) - at} are left")
    return at + length


def _sized(size: int) -> Step:
    return lambda data, at: _ended(data, at, size)


def _numbered(data: bytes, at: int, many: int, what: str) -> tuple[int, int]:
    number, at = _number(data, at)
    if not 0 <= number < many:
        raise ValueError(f"number {number} is that of no {what}")
    return number, at


def _one_of(many: int) -> Step:
    return lambda data, at: _numbered(data, at, many, "symbol")[1]


def _union(branches: Sequence[Step]) -> Step:
    def step(data: bytes, at: int) -> int:
        number, at = _numbered(data, at, len(branches), "branch")
        return branches[number](data, at)

    return step


def _in_turn(steps: Sequence[Step]) -> Step:
    def step(data: bytes, at: int) -> int:
        for each in steps:
            at = each(data, at)
        return at

    return step


def _blocks(item: Step, *, is_map: bool) -> Step:
    """A list or a map: blocks of items, each after their number, which is negative where their bytes are told, too."""

    def step(data: bytes, at: int) -> int:
        keys: set[bytes] = set()
        while True:
            many, at = _number(data, at)
            if not many:
                return at
            if many < 0:
                at = _long(data, at)
            for _ in range(abs(many)):
                if is_map:
                    begin, at = at, _text(data, at)
                    if data[begin:at] in keys:
                        raise ValueError("a map has a key twice")
                    keys.add(data[begin:at])
                at = item(data, at)

    return step
