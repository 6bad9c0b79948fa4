"""Decode the stats text of file rows: only the requested leaves, directly from Arrow's buffer.

A msgspec struct made for exactly those leaves skips everything else without making objects of it. A row that does not
fit the struct is decoded again leaf by leaf; what cannot be read even so is unknown. As in every JSON reader of
the field, the last of two equal keys counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.values import temporal
from delta_sidecar.values.comparison import FLOATS, INTEGERS, comparison_type, decimals, float64s, integers
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType
from delta_sidecar.values.widening import Side, rounded_decimal

Path: TypeAlias = tuple[str, ...]
"""Keys from the top of the stats object down to a leaf, e.g. `("minValues", "a", "b")`."""
Text: TypeAlias = memoryview | str
Tree: TypeAlias = dict[str, Any]
"""Keys to subtrees, or at a leaf to its Python type."""

_CHUNK: Final = 8192
"""Rows decoded before their structs are dropped."""
_SPECIAL_FLOATS: Final = {
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_UNNAMEABLE: Final = re.compile(r'["\\\x00-\x1f]')
_RAW_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def wire_type(data_type: DataType) -> Any:
    """The Python type that a bound of this type decodes to."""
    match data_type:
        case DecimalType():
            return Decimal
        case PrimitiveType(name) if name in INTEGERS:
            return int
        case PrimitiveType(name) if name in FLOATS:
            return float | str
    return str


def to_bounds(values: Sequence[Any], data_type: DataType, side: Side) -> pa.Array:
    """Decoded bounds in the column's comparison type, as written (unwidened); what is out of range is null."""
    match data_type:
        case DecimalType():
            target = comparison_type(data_type)
            assert target is not None
            return decimals([rounded_decimal(v, data_type, side) for v in values], target)
        case PrimitiveType(name) if name in INTEGERS:
            return integers(values)
        case PrimitiveType(name) if name in FLOATS:
            return float64s([_SPECIAL_FLOATS.get(v) if type(v) is str else v for v in values])
        case PrimitiveType("date"):
            return temporal.dates(values)
        case PrimitiveType("timestamp" | "timestamp_ntz" as name):
            return temporal.timestamps(values, zoned=name == "timestamp")
    return arrays.strings(values).view(pa.binary())


class LeafDecoder:
    """Reads a fixed set of leaves out of stats texts."""

    __slots__ = ("_decode", "_getters", "_object")

    def __init__(self, leaves: Mapping[Path, Any]) -> None:
        """`leaves` gives each leaf's path and Python type."""
        self._object = _object_of(_tree(leaves))
        self._decode = msgspec.json.Decoder(self._object.struct).decode if self._object.is_nameable else None
        self._getters = {path: attrgetter(name) for path, name in self._object.attributes().items()}

    def read(self, stats: pa.Array) -> dict[Path, list[Any]]:
        """The values of each leaf, row by row; None where unknown."""
        return self._read(_chunks(stats))

    def read_texts(self, texts: Sequence[str | None]) -> dict[Path, list[Any]]:
        """As `read`, of texts that are in no array."""
        return self._read(texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK))

    def _read(self, chunks: Iterable[Sequence[Text | None]]) -> dict[Path, list[Any]]:
        values: dict[Path, list[Any]] = {path: [] for path in self._getters}
        for chunk in chunks:
            rows = self._rows(chunk)
            for path, getter in self._getters.items():
                values[path].extend(map(getter, rows))
        return values

    def _rows(self, texts: Sequence[Text | None]) -> list[Any]:
        decode = self._decode
        if decode is None:
            return [self._row(text) for text in texts]
        try:
            return [decode(text) for text in texts]  # type: ignore[arg-type]
        except (msgspec.DecodeError, TypeError, UnicodeDecodeError):
            return [self._row(text) for text in texts]

    def _row(self, text: Text | None) -> Any:
        if text is None:
            return self._object.struct()
        if self._decode is None:
            return _leaf_by_leaf(text, self._object)
        try:
            return self._decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _leaf_by_leaf(text, self._object)


def _tree(leaves: Mapping[Path, Any]) -> Tree:
    root: Tree = {}
    for path, leaf_type in leaves.items():
        level = root
        for key in path[:-1]:
            level = level.setdefault(key, {})
        level[path[-1]] = leaf_type
    return root


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object of which some keys are wanted."""

    struct: Any
    """A struct type with fields `f0`, `f1`, …, in the order of the keys."""
    keys: dict[str, Any]
    """Keys to objects below, or at a leaf to its Python type."""
    is_nameable: bool
    """Whether msgspec takes the keys as names: not those with quotes, backslashes or control characters."""

    def attributes(self) -> dict[Path, str]:
        """The dotted attribute of each leaf."""
        attributes: dict[Path, str] = {}
        for i, (key, node) in enumerate(self.keys.items()):
            if isinstance(node, _Object):
                attributes |= {(key, *path): f"f{i}.{name}" for path, name in node.attributes().items()}
            else:
                attributes[(key,)] = f"f{i}"
        return attributes


def _object_of(tree: Tree) -> _Object:
    keys = {key: _object_of(node) if isinstance(node, dict) else node for key, node in tree.items()}
    fields: list[tuple[str, Any, Any]] = []
    for i, node in enumerate(keys.values()):
        if isinstance(node, _Object):
            fields.append((f"f{i}", node.struct, msgspec.field(default_factory=node.struct)))
        else:
            fields.append((f"f{i}", node | None, None))
    is_nameable = not any(map(_UNNAMEABLE.search, keys))
    rename = {f"f{i}": key for i, key in enumerate(keys)} if is_nameable else None
    struct = msgspec.defstruct("Leaves", fields, rename=rename, gc=False)
    below = all(node.is_nameable for node in keys.values() if isinstance(node, _Object))
    return _Object(struct, keys, is_nameable and below)


def _leaf_by_leaf(text: Text | msgspec.Raw, wanted: _Object) -> Any:
    """As much of an object as can be read."""
    try:
        raw = _RAW_OBJECT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return wanted.struct()
    values = {f"f{i}": _node(raw[key], node) for i, (key, node) in enumerate(wanted.keys.items()) if key in raw}
    return wanted.struct(**{name: value for name, value in values.items() if value is not None})


def _node(raw: msgspec.Raw, node: Any) -> Any:
    if isinstance(node, _Object):
        return _leaf_by_leaf(raw, node)
    try:
        return msgspec.json.decode(raw, type=node | None)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _chunks(stats: pa.Array) -> Iterator[list[memoryview | None]]:
    """The texts as slices of the array's own buffer, a few thousand at a time."""
    for start in range(0, len(stats), _CHUNK):
        yield _texts(stats.slice(start, _CHUNK))


def _texts(stats: pa.Array) -> list[memoryview | None]:
    if not (pa.types.is_string(stats.type) or pa.types.is_large_string(stats.type)):
        stats = stats.cast(pa.large_string())
    validity, offsets, data = stats.buffers()
    width = np.int64 if pa.types.is_large_string(stats.type) else np.int32
    ends = np.frombuffer(offsets, width)[stats.offset : stats.offset + len(stats) + 1].tolist()
    view = memoryview(data if data is not None else b"")
    texts: list[memoryview | None] = [view[a:b] for a, b in pairwise(ends)]
    if validity is not None and stats.null_count:
        known = arrays.to_numpy_bool(stats.is_valid()).tolist()
        return [text if ok else None for text, ok in zip(texts, known, strict=True)]
    return texts
