"""Stats out of the log as native columns, from typed stats of a checkpoint where it has them, else from the texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
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
from delta_sidecar.index.format.index_layout import Leaf
from delta_sidecar.index.stats.native_types import native_typed, non_negative
from delta_sidecar.index.stats.stats_texts import counts_of, from_texts, minimum_of_texts
from delta_sidecar.log.checkpoint_rows import STATS_PARSED
from delta_sidecar.values.comparison import float64s, valid
from delta_sidecar.values.stats_text import DATE, EXACT_INTEGERS, LOCAL, ZONED, stats_text


def typed_stats(stats: pa.StringArray, parsed: pa.StructArray | None, leaves: tuple[Leaf, ...]) -> pa.Table:
    """The stats of many files as flat columns; what is null in every row has none."""
    if parsed is None or parsed.null_count == len(parsed):
        return from_texts(stats, leaves)
    typed, unsure = typed_from_parsed(parsed, stats, leaves)
    if unsure.any():
        typed = _merged(typed, from_texts(stats.filter(arrays.booleans(unsure)), leaves), unsure)
    return _with_texts_of_lost(typed, stats, parsed)


def typed_from_parsed(parsed: pa.StructArray, stats: pa.StringArray, leaves: Sequence[Leaf]) -> tuple[pa.Table, Flags]:
    """What typed stats say, and the rows of which the text says more."""
    typed = _from_parsed(parsed, leaves)
    return typed, _incomplete(typed, stats)


def stats_without_needless_text(files: pa.RecordBatch, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    """File rows without the texts of stats that the typed stats hold in full, to save memory."""
    if STATS_PARSED not in files.schema.names:
        return files
    _, unsure = typed_from_parsed(files.column(STATS_PARSED), files.column("stats"), leaves)
    text = pc.if_else(arrays.booleans(unsure), files.column("stats"), arrays.strings([None])[0])
    return files.set_column(files.schema.get_field_index("stats"), "stats", text)


def one_minimum(stats: pa.StringArray, parsed: pa.StructArray | None, leaf: Leaf) -> pa.Array:
    """The minimum of one leaf, for sorting only: what the columns cannot hold is lost."""
    assert leaf.bound is not None
    texts = minimum_of_texts(stats, leaf)
    array = None if parsed is None else descendant(parsed, ("minValues", *leaf.path))
    typed = None if array is None else native_typed(array, "min", leaf)
    return texts if typed is None else pc.coalesce(typed, texts)


def _from_parsed(parsed: pa.StructArray, leaves: Sequence[Leaf]) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for kind, key in KINDS.items():
        tree = child(parsed, key)
        if tree is None:
            continue
        for leaf in leaves:
            array = descendant(tree, leaf.path)
            native = None if array is None else native_typed(array, kind, leaf)
            if native is not None:
                columns[column(kind, leaf.path)] = native
    records, tight = child(parsed, "numRecords"), child(parsed, "tightBounds")
    if records is not None and pa.types.is_signed_integer(records.type):
        columns[NUM_RECORDS] = non_negative(records.cast(pa.int64()))
    if tight is not None and pa.types.is_boolean(tight.type):
        columns[TIGHT_BOUNDS] = tight
    return stats_table(columns, len(parsed))


def _incomplete(typed: pa.Table, stats: pa.StringArray) -> Flags:
    """Rows whose text says something that the typed stats do not give back: it has not as many leaves as they have, or
    times in another form, or numbers whose form must be looked at, or is broken off.

    A count that is off for another reason (a text with `":` in a value, a key that is null) only costs a look.
    """
    if stats.null_count == len(stats):
        return np.zeros(len(stats), np.bool_)
    leaf_counts, zoned, local, days, quoted = (np.zeros(len(stats), np.int64) for _ in range(5))
    unsure = np.zeros(len(stats), np.bool_)
    has_decimals = False
    for name in typed.column_names:
        array = one_array(typed.column(name))
        known = valid(array)
        leaf_counts += known
        has_decimals |= pa.types.is_decimal(array.type)
        if pa.types.is_string(array.type) or pa.types.is_temporal(array.type):
            quoted += known
        if pa.types.is_timestamp(array.type):
            (local if array.type.tz is None else zoned)[known] += 1
        elif pa.types.is_date(array.type):
            days += known
        elif pa.types.is_float32(array.type):
            unsure |= known
        elif pa.types.is_float64(array.type):
            wide = pc.greater_equal(pc.abs(array), float64s([EXACT_INTEGERS])[0])
            unsure |= arrays.to_numpy_bool(pc.fill_null(wide, False))
    unsure |= (counts_of(stats, r'":[^{]') != leaf_counts) | (leaf_counts == 0)
    unsure |= ~arrays.to_numpy_bool(pc.fill_null(pc.ends_with(stats, "}"), True))
    for pattern, times in ((ZONED, zoned), (LOCAL, local)):
        if times.any():
            unsure |= counts_of(stats, pattern) != times
    if days.any():
        unsure |= counts_of(stats, DATE) < days
    if has_decimals:
        unsure |= counts_of(stats, '":"') != quoted
    return unsure & valid(stats)


def _with_texts_of_lost(typed: pa.Table, stats: pa.StringArray, parsed: pa.StructArray) -> pa.Table:
    """Where there is no text and the columns do not hold all typed stats (NaN, a type of no use): these as a text."""
    silent = ~valid(stats)
    if not silent.any():
        return typed
    parsed_counts, typed_counts = _leaf_count(parsed), np.zeros(len(stats), np.int64)
    for name in typed.column_names:
        typed_counts += valid(one_array(typed.column(name))) if name != STATS_JSON else 0
    lost = silent & (parsed_counts != typed_counts)
    if not lost.any():
        return typed
    texts = stats_text(pc.if_else(arrays.booleans(lost), arrays.strings([None])[0], arrays.strings([""])[0]), parsed)
    kept = pc.if_else(arrays.booleans(lost), texts, arrays.strings([None])[0])
    columns = {name: one_array(typed.column(name)) for name in typed.column_names}
    columns[STATS_JSON] = pc.coalesce(columns[STATS_JSON], kept) if STATS_JSON in columns else kept
    return stats_table(columns, len(stats))


def _leaf_count(array: pa.StructArray) -> NDArray[np.int64]:
    """The number of known leaves in each row."""
    count = np.zeros(len(array), np.int64)
    for field in array.type:
        inner = child(array, field.name)
        assert inner is not None
        count += _leaf_count(inner) if pa.types.is_struct(inner.type) else valid(inner)
    return count


def _merged(typed: pa.Table, texts: pa.Table, rows: Flags) -> pa.Table:
    """Typed leaves where they are known, else what the texts of some rows say."""
    columns = {name: typed.column(name).combine_chunks() for name in typed.column_names}
    for name in texts.column_names:
        array = texts.column(name).combine_chunks()
        spread = pc.replace_with_mask(pa.nulls(len(rows), array.type), arrays.booleans(rows), array)
        columns[name] = pc.coalesce(columns[name], spread) if name in columns else spread
    return stats_table(columns, len(rows))
