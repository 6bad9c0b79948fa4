"""Digests: equal rows have equal ones, whatever the arrays look like; different rows have different ones."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.index.verify.digests import key_digests, row_digests, text_digests
from delta_sidecar.log.file_schema import DELETION_VECTOR, STRING_MAP

VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 2, "cardinality": 3}
SAMPLES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", "a", "b", "é" * 20, None]),
    (pa.binary(), [b"", b"\0", b"\0\0", None]),
    (pa.int64(), [0, 1, -1, 2**63 - 1, None]),
    (pa.int8(), [0, 1, -1, None]),
    (pa.bool_(), [True, False, None]),
    (pa.float64(), [0.0, 1.5, -1.5, float("inf"), float("nan"), None]),
    (pa.float32(), [0.0, 0.1, None]),
    (pa.date32(), [0, 1, -1, None]),
    (pa.timestamp("us", "UTC"), [0, 1, -1, None]),
    (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("1.25"), Decimal(10**30), -Decimal(10**30), None]),
    (DELETION_VECTOR, [VECTOR, {**VECTOR, "offset": None}, {**VECTOR, "cardinality": 4}, None]),
    (STRING_MAP, [[("a", "b")], [("a", None)], [("b", "a")], [("a", "b"), ("c", "d")], None]),
]


@pytest.mark.parametrize(("kind", "values"), SAMPLES, ids=lambda value: str(value)[:20])
def test_different_values_have_different_digests(kind: pa.DataType, values: list[Any]) -> None:
    found = row_digests({"c": pa.array(values, kind)}, ["c"], len(values)).tolist()
    assert len(set(found)) == len(values)
    assert found[-1] == 0, "null counts nothing"


@pytest.mark.parametrize(("kind", "values"), SAMPLES, ids=lambda value: str(value)[:20])
def test_a_slice_has_the_digests_of_its_rows(kind: pa.DataType, values: list[Any]) -> None:
    whole = pa.array(values, kind)
    found = row_digests({"c": whole}, ["c"], len(values)).tolist()
    assert row_digests({"c": whole.slice(1, 2)}, ["c"], 2).tolist() == found[1:3]


def test_columns_count_by_their_names() -> None:
    one, two = pa.array([1]), pa.array([2])
    assert row_digests({"a": one, "b": two}, ["a", "b"], 1) == row_digests({"b": two, "a": one}, ["b", "a"], 1)
    assert row_digests({"a": one, "b": two}, ["a", "b"], 1) != row_digests({"a": two, "b": one}, ["a", "b"], 1)
    assert row_digests({"a": one, "b": pa.nulls(1, pa.int64())}, ["a", "b"], 1) == row_digests({"a": one}, ["a"], 1)


def test_the_order_of_a_map_does_not_count() -> None:
    maps = pa.array([[("a", "x"), ("b", None)], [("b", None), ("a", "x")], [("a", None), ("b", "x")]], STRING_MAP)
    first, second, third = row_digests({"m": maps}, ["m"], 3).tolist()
    assert first == second != third


def test_empty_and_null_maps_are_alike() -> None:
    assert row_digests({"m": pa.array([[], None, [("a", "")]], STRING_MAP)}, ["m"], 3).tolist()[:2] == [0, 0]


def test_minus_zero_is_zero() -> None:
    first, second = row_digests({"f": pa.array([0.0, -0.0])}, ["f"], 2).tolist()
    assert first == second


def test_texts_and_keys() -> None:
    assert text_digests(pa.array(["a", None, "a", ""])).tolist()[1] == 0
    assert len({bytes(key) for key in key_digests([b"a", b"b", b"a"])}) == 2
    assert key_digests([]).shape == (0, 2)
