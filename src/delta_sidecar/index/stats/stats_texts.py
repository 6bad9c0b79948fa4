"""Stats texts as native columns: exact, or unknown with the text kept.

Arrow's JSON parser, given the table's types, reads what it accepts exactly. A chunk that it refuses is halved until the
rows at fault stand alone; those go through the reader's tolerant decoder, and their texts are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
from numpy.typing import NDArray

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags, pc
from delta_sidecar.index.format.index_columns import (
    KINDS,
    NUM_RECORDS,
    STATS_JSON,
    TIGHT_BOUNDS,
    child,
    column,
    descendant,
    one_array,
    stats_table,
)
from delta_sidecar.index.format.index_layout import Leaf, Path
from delta_sidecar.index.stats.native_types import SIDES, native, non_negative
from delta_sidecar.values.comparison import float64s, valid
from delta_sidecar.values.stats_json import LeafDecoder, to_bounds, wire_type
from delta_sidecar.values.stats_text import EXACT_INTEGERS, are_as_written, date_texts, moment_texts, shortest
from delta_sidecar.values.types import PrimitiveType
from delta_sidecar.values.widening import Side, within_precision

_CHUNK: Final = 10_000
_ALONE: Final = 16
"""Rows of a refused chunk that are not halved any more."""
_MANY_LEAVES: Final = 256
_LONG_INTEGER: Final = r"[:,\s]-?\d{16,}\s*[,}]"
_EXACT_INTEGERS: Final = float64s([EXACT_INTEGERS])[0]


def from_texts(stats: pa.StringArray, leaves: tuple[Leaf, ...]) -> pa.Table:
    """The stats of many files out of their texts; a column that is null in every row is left out."""
    chunks = [_from_chunk(stats.slice(at, _CHUNK), leaves) for at in range(0, len(stats), _CHUNK)]
    return pa.concat_tables(chunks, promote_options="default").combine_chunks() if chunks else stats_table({}, 0)


def _from_chunk(stats: pa.StringArray, leaves: tuple[Leaf, ...]) -> pa.Table:
    if stats.null_count == len(stats):
        return stats_table({}, len(stats))
    try:
        return _parsed_strictly(stats, leaves)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError):
        if len(stats) <= _ALONE:
            return decoded_tolerantly(stats, leaves)
    half = len(stats) // 2
    parts = [_from_chunk(part, leaves) for part in (stats.slice(0, half), stats.slice(half))]
    return pa.concat_tables(parts, promote_options="default")


def _parsed_strictly(stats: pa.StringArray, leaves: tuple[Leaf, ...]) -> pa.Table:
    """By Arrow's parser, which raises `ArrowInvalid` on anything that is not exactly of its type."""
    texts = stats if not stats.null_count else pc.coalesce(stats, arrays.strings(["{}"])[0])
    _check_objects(texts)
    lines = _lines(texts)
    observed = _observed(texts, leaves) if len(leaves) > _MANY_LEAVES else leaves
    table = _read(lines, observed)
    if observed is not leaves and _unexpected(table, observed):
        observed = leaves
        table = _read(lines, leaves)
    if table.num_rows != len(stats):
        raise pa.ArrowInvalid("stats of some rows are not one object each")
    return _natives(table.combine_chunks(), stats, observed)


def _check_objects(texts: pa.StringArray) -> None:
    """Each text begins as an object and ends as one: then as many objects as texts means one each."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2], np.uint8) if texts.buffers()[2] is not None else np.empty(0, np.uint8)
    if not (np.diff(offsets) > 1).all():
        raise pa.ArrowInvalid("a text is empty")
    inside = data[offsets[0] : offsets[-1]]
    if (
        (data[offsets[:-1]] != ord("{")).any()
        or (data[offsets[1:] - 1] != ord("}")).any()
        or (inside == ord("\n")).any()
    ):
        raise pa.ArrowInvalid("a text is not one line with one object")


def _lines(texts: pa.StringArray) -> pa.Buffer:
    whole = pa.LargeListArray.from_arrays(_int64s(0, len(texts)), texts)
    return pc.binary_join(whole, "\n")[0].as_buffer()


def _int64s(*values: int) -> pa.Int64Array:
    return arrays.int64s(values)


def _read(lines: pa.Buffer, leaves: tuple[Leaf, ...]) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=max(lines.size + 1, 1 << 16)),
        parse_options=pj.ParseOptions(explicit_schema=_wire_schema(leaves), unexpected_field_behavior="infer"),
    )


@lru_cache(maxsize=16)
def _wire_schema(leaves: tuple[Leaf, ...]) -> pa.Schema:
    bounds = {leaf.path: _wire(leaf) for leaf in leaves if leaf.bound is not None}
    counts = {leaf.path: pa.int64() for leaf in leaves}
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    trees = {"minValues": bounds, "maxValues": bounds, "nullCount": counts}
    return pa.schema([*fields, *((key, nested_type(tree)) for key, tree in trees.items() if tree)])


def nested_type(leaves: dict[Path, pa.DataType]) -> pa.DataType:
    """The struct type of leaves by their paths, in order."""
    tops: dict[str, dict[Path, pa.DataType]] = {}
    for path, leaf_type in leaves.items():
        tops.setdefault(path[0], {})[path[1:]] = leaf_type
    return pa.struct([(name, below[()] if () in below else nested_type(below)) for name, below in tops.items()])


def _wire(leaf: Leaf) -> pa.DataType:
    assert leaf.bound is not None
    if pa.types.is_temporal(leaf.bound):
        return pa.string()
    return pa.float64() if pa.types.is_float32(leaf.bound) else leaf.bound


def _observed(texts: pa.StringArray, leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """The leaves in the first, a middle and the last text: usually few, even in a wide table."""
    paths: set[Path] = set()
    for at in {0, len(texts) // 2, len(texts) - 1}:
        try:
            content = msgspec.json.decode(texts[at].as_buffer())
        except (msgspec.DecodeError, UnicodeDecodeError):
            return leaves
        for key in KINDS.values():
            paths.update(_paths(content.get(key), ()))
    return tuple(leaf for leaf in leaves if leaf.path in paths)


def _paths(value: Any, above: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _paths(below, (*above, name))
    elif above:
        yield above


def _unexpected(table: pa.Table, leaves: tuple[Leaf, ...]) -> bool:
    return bool(table.schema != _wire_schema(leaves))


def _natives(table: pa.Table, stats: pa.StringArray, leaves: tuple[Leaf, ...]) -> pa.Table:
    """Native columns out of what the parser gave, and the texts of rows that say more than these hold."""
    columns: dict[str, pa.Array] = {}
    kept = _says_more(table, _wire_schema(leaves))
    for kind, key in KINDS.items():
        if key not in table.column_names:
            continue
        tree = one_array(table.column(key))
        for leaf in leaves:
            array = None if leaf.bound is None and kind != "null_count" else descendant(tree, leaf.path)
            if array is None or array.null_count == len(array):
                continue
            native_array, inexact = _native_text(array, kind, leaf)
            columns[column(kind, leaf.path)] = native_array
            kept |= inexact
    columns |= _tops(table)
    kept |= _lost_count(table, columns) | _otherwise_written(stats, columns)
    if kept.any():
        columns[STATS_JSON] = pc.if_else(arrays.booleans(kept), stats, arrays.strings([None])[0])
    return stats_table(columns, len(stats))


def _tops(table: pa.Table) -> dict[str, pa.Array]:
    return {
        NUM_RECORDS: non_negative(one_array(table.column("numRecords"))),
        TIGHT_BOUNDS: one_array(table.column("tightBounds")),
    }


def _lost_count(table: pa.Table, columns: dict[str, pa.Array]) -> Flags:
    return valid(one_array(table.column("numRecords"))) & ~valid(columns[NUM_RECORDS])


def _native_text(array: pa.Array, kind: str, leaf: Leaf) -> tuple[pa.Array, Flags]:
    """The native array, and where it does not hold what the text says."""
    if kind == "null_count":
        counts = non_negative(array)
        return counts, valid(array) & ~valid(counts)
    assert leaf.bound is not None
    if pa.types.is_temporal(leaf.bound):
        return _temporal(array, leaf)
    if pa.types.is_float32(leaf.bound):
        return _singles(array)
    if pa.types.is_decimal(leaf.bound):
        held = within_precision(array)
        return held, valid(array) & ~valid(held)
    return _finite(array) if pa.types.is_floating(leaf.bound) else (array, np.zeros(len(array), np.bool_))


def _finite(numbers: pa.Array) -> tuple[pa.Array, Flags]:
    """Numbers that the type holds; JSON has no infinite ones, so that one is a number beyond the type's range."""
    beyond = pc.is_inf(numbers)
    if not pc.any(beyond).as_py():
        return numbers, np.zeros(len(numbers), np.bool_)
    held = pc.if_else(beyond, pa.nulls(1, numbers.type)[0], numbers)
    return held, valid(numbers) & ~valid(held)


def _singles(doubles: pa.DoubleArray) -> tuple[pa.FloatArray, Flags]:
    """Numbers rounded to floats, and where the shortest text of the float is another number than the log's."""
    held, _ = _finite(pc.cast(doubles, pa.float32(), safe=False))
    same = pc.fill_null(pc.equal(shortest(held), doubles), False)
    return held, valid(doubles) & ~arrays.to_numpy_bool(same)


def _otherwise_written(stats: pa.StringArray, columns: dict[str, pa.Array]) -> Flags:
    """Rows with numbers that the columns hold and give back in another form: whole ones beyond what a double tells
    apart, decimals as texts."""
    wide = np.zeros(len(stats), np.bool_)
    quoted = np.zeros(len(stats), np.int64)
    has_decimals = False
    for array in columns.values():
        has_decimals |= pa.types.is_decimal(array.type)
        if pa.types.is_float64(array.type):
            wide |= arrays.to_numpy_bool(pc.fill_null(pc.greater_equal(pc.abs(array), _EXACT_INTEGERS), False))
        elif pa.types.is_string(array.type) or pa.types.is_temporal(array.type):
            quoted += valid(array)
    if wide.any():
        wide &= arrays.to_numpy_bool(pc.fill_null(pc.match_substring_regex(stats, _LONG_INTEGER), False))
    return wide | (counts_of(stats, '":"') > quoted) if has_decimals else wide


def counts_of(stats: pa.StringArray, pattern: str) -> NDArray[np.int64]:
    """How often a pattern is in each text; 0 for a null."""
    counts = pc.fill_null(pc.count_substring_regex(stats, pattern), 0)
    return np.frombuffer(counts.buffers()[1], np.int32)[counts.offset : counts.offset + len(counts)].astype(np.int64)


def _temporal(texts: pa.StringArray, leaf: Leaf) -> tuple[pa.Array, Flags]:
    assert leaf.bound is not None
    try:
        return pc.cast(texts, leaf.bound), valid(texts) & ~are_as_written(texts, leaf.bound)
    except pa.ArrowInvalid:
        values = native(to_bounds(texts.to_pylist(), leaf.type, Side.MINIMUM), leaf)
        round_trip = date_texts(values) if pa.types.is_date(leaf.bound) else moment_texts(values)
        return values, valid(texts) & ~arrays.to_numpy_bool(pc.fill_null(pc.equal(round_trip, texts), False))


def _says_more(table: pa.Table, schema: pa.Schema) -> Flags:
    """Rows with keys that have no column in the index."""
    more = np.zeros(table.num_rows, np.bool_)
    for field in table.schema:
        known = schema.field(field.name).type if field.name in schema.names else None
        if field.type != known:
            more |= _extra(one_array(table.column(field.name)), known)
    return more


def _extra(array: pa.Array, known: pa.DataType | None) -> Flags:
    """Where an array has a value outside the known type."""
    if known is None or not pa.types.is_struct(known) or not pa.types.is_struct(array.type):
        return valid(array) if not pa.types.is_struct(array.type) else _any_leaf(array)
    more = np.zeros(len(array), np.bool_)
    for field in array.type:
        index = known.get_field_index(field.name)
        inner = known.field(index).type if index >= 0 else None
        if field.type != inner:
            more |= _extra(child(array, field.name), inner)
    return more


def _any_leaf(array: pa.StructArray) -> Flags:
    """Where any leaf of a struct has a value."""
    flags = np.zeros(len(array), np.bool_)
    for field in array.type:
        inner = child(array, field.name)
        assert inner is not None
        flags |= _any_leaf(inner) if pa.types.is_struct(inner.type) else valid(inner)
    return flags


# Texts that the strict parser refuses.


def decoded_tolerantly(stats: pa.StringArray, leaves: tuple[Leaf, ...]) -> pa.Table:
    """As much as can be read of each text; all texts are kept."""
    decoder, builders = _tolerant(leaves)
    values = decoder.read(stats)
    columns = {name: build(values[path]) for name, (path, build) in builders.items()}
    tight = values[("tightBounds",)]
    columns[TIGHT_BOUNDS] = arrays.primitives(tight, pa.int8(), np.int8).cast(pa.bool_())
    columns[STATS_JSON] = stats
    return stats_table(columns, len(stats))


_Builder: TypeAlias = Callable[[Sequence[Any]], pa.Array]


@lru_cache(maxsize=16)
def _tolerant(leaves: tuple[Leaf, ...]) -> tuple[LeafDecoder, dict[str, tuple[Path, _Builder]]]:
    """A decoder of all leaves, and how each column is made of its values."""
    paths: dict[Path, Any] = {("numRecords",): int, ("tightBounds",): bool}
    builders: dict[str, tuple[Path, _Builder]] = {NUM_RECORDS: (("numRecords",), _counts)}
    for leaf in leaves:
        for kind, key in KINDS.items():
            path = (key, *leaf.path)
            if kind == "null_count":
                paths[path] = int
                builders[column(kind, leaf.path)] = (path, _counts)
            elif leaf.bound is not None:
                paths[path] = _wire_python(leaf)
                builders[column(kind, leaf.path)] = (path, _bound_builder(leaf, SIDES[kind]))
    return LeafDecoder(paths), builders


def _wire_python(leaf: Leaf) -> Any:
    return bool if leaf.type == PrimitiveType("boolean") else wire_type(leaf.type)


def _bound_builder(leaf: Leaf, side: Side) -> _Builder:
    if leaf.type == PrimitiveType("boolean"):
        return lambda values: arrays.primitives(values, pa.int8(), np.int8).cast(pa.bool_())
    if leaf.type == PrimitiveType("binary"):
        return arrays.strings
    return lambda values: native(to_bounds(values, leaf.type, side), leaf)


def _counts(values: Sequence[int | None]) -> pa.Int64Array:
    return arrays.int64s([v if v is not None and 0 <= v < 1 << 63 else None for v in values])


def minimum_of_texts(stats: pa.StringArray, leaf: Leaf) -> pa.Array:
    """The minimum of one leaf alone, by the tolerant decoder."""
    return _bound_builder(leaf, Side.MINIMUM)(_one_decoder(leaf).read(stats)["minValues", *leaf.path])


@lru_cache(maxsize=16)
def _one_decoder(leaf: Leaf) -> LeafDecoder:
    return LeafDecoder({("minValues", *leaf.path): _wire_python(leaf)})
