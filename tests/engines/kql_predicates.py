"""Columns of every type that KQL has, literals for them, and random predicates and rows on them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.values.types import DecimalType, PrimitiveType, StructField, StructType

UTC = dt.UTC
POOLS: Mapping[str, Sequence[Any]] = {
    "b": [-128, 0, 127],
    "i": [-(2**31), -1, 0, 5, 2**31 - 1],
    "l": [-(2**63), -1, 0, 7, 2**63 - 1],
    "f": [-1.5, 0.0, 0.5, 2.0**100],
    "d": [-1e308, -0.0, 0.1, 5e-324, 1.5],
    "c": [Decimal("-999.99"), Decimal("0.00"), Decimal("1.50")],
    "s": ["", "a", "ab", "A", "b'\"\\", "é😀", "\n\t\x00\u2028", "z%_"],
    "sr": ["", "a", "b"],
    "flag": [False, True],
    "day": [dt.date(1, 1, 1), dt.date(2026, 2, 10), dt.date(9999, 12, 31)],
    "ts": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(2026, 2, 10, 22, 0, 0, 1, UTC)],
    "ntz": [dt.datetime(1, 1, 1), dt.datetime(2026, 2, 10, 22)],
}
_TYPES = {
    "b": "byte", "i": "integer", "l": "long", "f": "float", "d": "double", "s": "string", "sr": "string",
    "flag": "boolean", "day": "date", "ts": "timestamp", "ntz": "timestamp_ntz",
}  # fmt: skip
SCHEMA = StructType(
    tuple(
        StructField(name, PrimitiveType(_TYPES[name]) if name in _TYPES else DecimalType(5, 2), name != "sr",
                    physical_name=name)
        for name in POOLS
    )
)  # fmt: skip
"""`sr` is never null."""


def bound(predicate: object) -> Expression:
    expression = bind_predicate(str(predicate), SCHEMA, [])
    assert expression is not None
    return expression


def rows() -> st.SearchStrategy[dict[str, Any]]:
    columns = {name: st.sampled_from([*pool, *_beside(name)]) for name, pool in POOLS.items()}
    return st.fixed_dictionaries(columns)


def _beside(name: str) -> list[Any]:
    """Values that are in no literal."""
    nan = [math.nan, math.inf] if name in ("f", "d") else []
    return nan if name == "sr" else [None, *nan]
