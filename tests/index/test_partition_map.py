"""Partition maps that typed columns tell: given back exactly, and refused where anything would be lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.index.format.partition_map import is_told_by, partition_map
from delta_sidecar.log.file_schema import STRING_MAP


def maps(*rows: dict[str, str | None] | None) -> pa.MapArray:
    return pa.array([None if row is None else list(row.items()) for row in rows], STRING_MAP)


def rows_of(found: pa.MapArray) -> list[dict[str, Any]]:
    found.validate(full=True)
    assert found.type == STRING_MAP
    return [dict(row) for row in found.to_pylist()]


TYPED: list[tuple[dict[str, pa.Array], list[dict[str, str]]]] = [
    ({"p": pa.array(["a", "é", ""])}, [{"p": "a"}, {"p": "é"}, {"p": ""}]),
    ({"p": pa.array([1, -20], pa.int64())}, [{"p": "1"}, {"p": "-20"}]),
    ({"p": pa.array([1, -20], pa.int8())}, [{"p": "1"}, {"p": "-20"}]),
    ({"p": pa.array([date(2026, 2, 10), date(1, 1, 1)])}, [{"p": "2026-02-10"}, {"p": "0001-01-01"}]),
    (
        {"day": pa.array([date(2026, 2, 10), date(2026, 2, 11)]), "n": pa.array([7, 8]), "s": pa.array(["x", "y"])},
        [{"day": "2026-02-10", "n": "7", "s": "x"}, {"day": "2026-02-11", "n": "8", "s": "y"}],
    ),
    ({"a b.c": pa.array(["x"]), "é": pa.array(["y"])}, [{"a b.c": "x", "é": "y"}]),
]


@pytest.mark.parametrize(("typed", "rows"), TYPED)
def test_round_trip(typed: dict[str, pa.Array], rows: list[dict[str, str]]) -> None:
    found = partition_map(typed, len(rows))
    assert rows_of(found) == rows
    assert [list(row) for row in found.to_pylist()] == [list(row.items()) for row in rows], "in the columns' order"
    assert is_told_by(maps(*rows), typed)


def test_a_table_without_partitions_has_empty_maps() -> None:
    assert rows_of(partition_map({}, 3)) == [{}, {}, {}]
    assert is_told_by(maps({}, {}), {})
    assert not is_told_by(maps({}, {"p": "1"}), {})


def test_no_rows() -> None:
    assert rows_of(partition_map({"p": pa.array([], pa.string())}, 0)) == []


@pytest.mark.parametrize("count", [16_999, 17_000, 17_001, 40_000])
def test_more_rows_than_a_batch_has(count: int) -> None:
    typed = {"p": pa.array([f"{n % 7}" for n in range(count)]), "q": pa.array(range(count))}
    found = partition_map(typed, count)
    found.validate(full=True)
    assert len(found) == count
    assert [found[n].as_py() for n in (0, count - 1)] == [
        [("p", "0"), ("q", "0")],
        [("p", f"{(count - 1) % 7}"), ("q", f"{count - 1}")],
    ]


def test_slices() -> None:
    """Arrays that do not begin at the start of their buffers."""
    whole = {"p": pa.array(["a", "b", "c", "d"]), "n": pa.array([1, 2, 3, 4])}
    typed = {name: array.slice(1, 2) for name, array in whole.items()}
    assert rows_of(partition_map(typed, 2)) == [{"p": "b", "n": "2"}, {"p": "c", "n": "3"}]
    one = {"p": whole["p"].slice(2, 2)}
    assert rows_of(partition_map(one, 2)) == [{"p": "c"}, {"p": "d"}]
    assert is_told_by(maps({"p": "x"}, {"p": "c"}, {"p": "d"}).slice(1), one)


REFUSED: dict[str, tuple[pa.MapArray, dict[str, pa.Array]]] = {
    "a null value": (maps({"p": None}), {"p": pa.array([None], pa.string())}),
    "a null among values": (maps({"p": "1"}, {"p": None}), {"p": pa.array([1, None])}),
    "a null map": (maps(None), {"p": pa.array(["a"])}),
    "a missing key": (maps({}), {"p": pa.array(["a"])}),
    "a key more": (maps({"p": "a", "q": "b"}), {"p": pa.array(["a"])}),
    "another order": (maps({"q": "b", "p": "a"}), {"p": pa.array(["a"]), "q": pa.array(["b"])}),
    "a number spelled otherwise": (maps({"p": "007"}), {"p": pa.array([7])}),
    "a number with a sign": (maps({"p": "+7"}), {"p": pa.array([7])}),
    "a date with a time": (maps({"p": "2026-02-10 00:00:00"}), {"p": pa.array([date(2026, 2, 10)])}),
    "another case of the key": (maps({"P": "a"}), {"p": pa.array(["a"])}),
    "another value": (maps({"p": "a"}, {"p": "b"}), {"p": pa.array(["a", "c"])}),
    "a timestamp": (maps({"p": "1970-01-01 00:00:00"}), {"p": pa.array([0], pa.timestamp("us"))}),
    "a float": (maps({"p": "0.5"}), {"p": pa.array([0.5])}),
    "a boolean": (maps({"p": "true"}), {"p": pa.array([True])}),
    "bytes": (maps({"p": "a"}), {"p": pa.array([b"a"])}),
    "a decimal": (maps({"p": "1"}), {"p": pa.array([1]).cast(pa.decimal128(20, 0))}),
}


@pytest.mark.parametrize(("found", "typed"), REFUSED.values(), ids=REFUSED)
def test_what_would_be_lost_is_refused(found: pa.MapArray, typed: dict[str, pa.Array]) -> None:
    assert not is_told_by(found, typed)


def test_several_threads_share_what_is_made_once() -> None:
    """More sets of names than are kept, so that they are forgotten while others are at work."""

    def made(number: int) -> list[dict[str, Any]]:
        return rows_of(partition_map({f"p{number % 150}": pa.array(["x"] * 3)}, 3))

    with ThreadPoolExecutor(8) as pool:
        for number, rows in enumerate(pool.map(made, range(1_500))):
            assert rows == [{f"p{number % 150}": "x"}] * 3
