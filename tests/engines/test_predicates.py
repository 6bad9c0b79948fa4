"""A predicate gives the same rows in every engine, on every kind of table, as plain Python over the table's rows."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from delta_sidecar import DeltaTable
from tests.engines.reading import READERS, rows
from tests.engines.tables import START, TABLES, UNLIKE, typed_partitions

Row = Mapping[str, Any]
Truth = bool | None


def of(name: str, test: Callable[[Any], bool]) -> Callable[[Row], Truth]:
    """A condition on a column, unknown for null."""
    return lambda row: None if row[name] is None else test(row[name])


def no(condition: Callable[[Row], Truth]) -> Callable[[Row], Truth]:
    def negated(row: Row) -> Truth:
        value = condition(row)
        return None if value is None else not value

    return negated


def either(*conditions: Callable[[Row], Truth]) -> Callable[[Row], Truth]:
    def any_of(row: Row) -> Truth:
        values = [condition(row) for condition in conditions]
        return True if True in values else None if None in values else False

    return any_of


LATER = START + dt.timedelta(minutes=60)
QUERIES: Final[dict[str, Callable[[Row], Truth]]] = {
    "id = 7": of("id", lambda v: v == 7),
    "id != 7": of("id", lambda v: v != 7),
    "id < 5": of("id", lambda v: v < 5),
    "id >= 14.5": of("id", lambda v: v > 14),
    "id BETWEEN 3 AND 13": of("id", lambda v: 3 <= v <= 13),
    "i IN (1, -2, 99)": of("i", lambda v: v in (1, -2)),
    "i NOT IN (1, -2)": of("i", lambda v: v not in (1, -2)),
    "i IN (1, NULL)": of("i", lambda v: v == 1),
    "i IS NULL": lambda row: row["i"] is None,
    "NOT (i > 0)": of("i", lambda v: v <= 0),
    "i > 0 OR s = 'a'": either(of("i", lambda v: v > 0), of("s", lambda v: v == "a")),
    "NOT (i > 0 OR s = 'a')": no(either(of("i", lambda v: v > 0), of("s", lambda v: v == "a"))),
    "f > 1": of("f", lambda v: v > 1),
    "f >= 0.1": of("f", lambda v: v >= 0.1),
    "NOT (f > 1)": of("f", lambda v: not v > 1),
    "f != 1.5": of("f", lambda v: v != 1.5),
    "f = 0.0": of("f", lambda v: v == 0),
    "f IN (0.0, 1.5)": of("f", lambda v: v in (0.0, 1.5)),
    "NOT (f < 5)": of("f", lambda v: not v < 5),
    "f > g": lambda row: None if None in (row["f"], row["g"]) else row["f"] > row["g"],
    "f != g": lambda row: None if None in (row["f"], row["g"]) else row["f"] != row["g"],
    "f = f": lambda row: None if row["f"] is None else row["f"] == row["f"],
    "g = 0.1": of("g", lambda v: v == 0.1),
    "g = '0.1'": of("g", lambda v: math.isclose(v, 0.1, rel_tol=1e-7)),
    "g > 0.1": of("g", lambda v: v > 0.1),
    "s = 'it''s'": of("s", lambda v: v == "it's"),
    "s > 'a'": of("s", lambda v: v.encode() > b"a"),
    "s LIKE 'a\\_%'": of("s", lambda v: v.startswith("a_")),
    "s LIKE '%e'": of("s", lambda v: v.endswith("e")),
    "s LIKE 'a__'": of("s", lambda v: len(v) == 3 and v[0] == "a"),
    "s LIKE '_'": of("s", lambda v: len(v) == 1),
    "s LIKE 't%e'": of("s", lambda v: v.startswith("t") and v.endswith("e")),
    "s NOT LIKE 'a%'": of("s", lambda v: not v.startswith("a")),
    "raw > X'00'": of("raw", lambda v: v > b"\0"),
    "raw = 'abc'": of("raw", lambda v: v == b"abc"),
    "dec < 0.25": of("dec", lambda v: v < Decimal("0.25")),
    "dec = 1.5": of("dec", lambda v: v == Decimal("1.5")),
    "flag": of("flag", lambda v: v),
    "flag IS NOT TRUE": lambda row: row["flag"] is not True,
    "day = '2026-02-11'": of("day", lambda v: v == dt.date(2026, 2, 11)),
    "ts > '2026-02-10T21:00:00Z'": of("ts", lambda v: v > LATER),
    "date(ts) = '2026-02-10'": of("ts", lambda v: v.date() == dt.date(2026, 2, 10)),
    "wall <= '2026-02-10 21:00:00'": of("wall", lambda v: v <= LATER.replace(tzinfo=None)),
    "p = '1' OR p IS NULL": lambda row: row["p"] in ("1", None),
    "p > 'a' AND id > 2": lambda row: row["p"] is not None and row["p"].encode() > b"a" and row["id"] > 2,
    "p = '1' OR id > 20": either(of("p", lambda v: v == "1"), of("id", lambda v: v > 20)),
    "id < 0": of("id", lambda v: v < 0),
}
NESTED: Final[dict[str, Callable[[Row], Truth]]] = {
    "st.a > 3": lambda row: None if row["st"] is None or row["st"]["a"] is None else row["st"]["a"] > 3,
    "st.b IS NULL": lambda row: row["st"] is None or row["st"]["b"] is None,
    "arr IS NULL": lambda row: row["arr"] is None,
}
UNTRANSLATED: Final[dict[str, Callable[[Row], Truth]]] = {
    "day < ts": lambda row: (
        None if None in (row["day"], row["ts"]) else dt.datetime.combine(row["day"], dt.time(), dt.UTC) < row["ts"]
    ),
    "dec < id": lambda row: None if None in (row["dec"], row["id"]) else row["dec"] < row["id"],
}


ALIKE: Final = ("duckdb dataset", "polars dataset", "datafusion")
"""Readers whose rows all come through our dataset: on most tables they repeat "pyarrow"."""


def cases() -> Iterator[Any]:
    for table, engine in product(TABLES, READERS):
        repeats = table not in UNLIKE or (engine in ALIKE and table != "evolved")
        mark = pytest.mark.long if repeats and engine in ALIKE else pytest.mark.slow
        is_quick = engine == "pyarrow" and table in UNLIKE
        yield pytest.param(table, engine, marks=[] if is_quick else [mark])


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    root = tmp_path_factory.mktemp("table")
    TABLES[request.param](root)
    return DeltaTable(root)


@pytest.mark.parametrize(("table", "engine"), list(cases()), indirect=["table"])
def test_rows_are_those_that_plain_python_keeps(engine: str, table: DeltaTable) -> None:
    everything = table.to_pyarrow_table().to_pylist()
    assert READERS[engine](table, None) == rows(everything)
    known = QUERIES | UNTRANSLATED | (NESTED if "st" in table.schema().names else {})
    for predicate, keeps in known.items():
        expected = rows(row for row in everything if keeps(row) is True)
        assert READERS[engine](table, predicate) == expected, predicate


@pytest.mark.parametrize(
    ("engine", "combinations"),
    [
        pytest.param(engine, combinations, marks=[pytest.mark.slow] if combinations > 4 and engine in ALIKE else [])
        for engine, combinations in product(READERS, (4, 70))
    ],
)
def test_partition_values_of_every_type(engine: str, combinations: int, tmp_path: Path) -> None:
    typed_partitions(tmp_path, combinations)
    table = DeltaTable(tmp_path)
    everything = table.to_pyarrow_table().to_pylist()
    queries: dict[str | None, Callable[[Row], Truth]] = {
        None: lambda row: True,
        "id > 2": of("id", lambda v: v > 2),
        "f != 3 AND id > 1": lambda row: row["f"] is not None and row["f"] != 3 and row["id"] > 1,
        "d > 0 OR id = 0": either(of("d", lambda v: v > 0), of("id", lambda v: v == 0)),
        "id > 0 OR raw = 'abc'": either(of("id", lambda v: v > 0), of("raw", lambda v: v == b"abc")),
        "ts < '2026-02-10T20:30:00Z'": of("ts", lambda v: v < START + dt.timedelta(minutes=30)),
        "id > 3 OR dec = 12.5": either(of("id", lambda v: v > 3), of("dec", lambda v: v == Decimal("12.5"))),
        "NOT flag": of("flag", operator.not_),
    }
    for predicate, keeps in queries.items():
        expected = rows(row for row in everything if keeps(row) is True)
        assert READERS[engine](table, predicate) == expected, predicate
