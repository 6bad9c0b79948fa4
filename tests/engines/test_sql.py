"""Questions in an engine's own language: filters it pushes or keeps, joins, limits, aggregates."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pytest
from datafusion import SessionContext

from delta_sidecar import DeltaTable, QueryBuilder
from tests.engines.reading import arrow, connect, rows
from tests.engines.tables import START, TABLES

Row = dict[str, Any]
Answer = Callable[[list[Row]], list[Row]]
LATER: Final = START + dt.timedelta(minutes=60)


def where(keeps: Callable[[Row], Any]) -> Answer:
    return lambda table: [{"id": row["id"]} for row in table if keeps(row)]


def has(name: str, test: Callable[[Any], bool]) -> Callable[[Row], bool]:
    return lambda row: row[name] is not None and test(row[name])


QUERIES: Final[dict[str, Answer]] = {
    "SELECT id FROM t WHERE id > 7": where(lambda r: r["id"] > 7),
    "SELECT id FROM t WHERE i IN (1, -2)": where(has("i", lambda v: v in (1, -2))),
    "SELECT id FROM t WHERE i NOT IN (1, -2)": where(has("i", lambda v: v not in (1, -2))),
    "SELECT id FROM t WHERE i > 0 OR s = 'a'": where(lambda r: (r["i"] or 0) > 0 or r["s"] == "a"),
    "SELECT id FROM t WHERE NOT (i > 0)": where(has("i", lambda v: v <= 0)),
    "SELECT id FROM t WHERE id BETWEEN 3 AND 13": where(lambda r: 3 <= r["id"] <= 13),
    "SELECT id FROM t WHERE s IS NULL": where(lambda r: r["s"] is None),
    "SELECT id FROM t WHERE s IS NOT NULL AND p IS NULL": where(lambda r: r["s"] is not None and r["p"] is None),
    "SELECT id FROM t WHERE s LIKE 'a%'": where(has("s", lambda v: v.startswith("a"))),
    "SELECT id FROM t WHERE length(s) = 1": where(has("s", lambda v: len(v) == 1)),
    "SELECT id FROM t WHERE CAST(id AS VARCHAR) = '7'": where(lambda r: r["id"] == 7),
    "SELECT id FROM t WHERE CAST(i AS DOUBLE) > 0.5": where(has("i", lambda v: v > 0.5)),
    "SELECT id FROM t WHERE id % 3 = 1 AND id > 4": where(lambda r: r["id"] % 3 == 1 and r["id"] > 4),
    "SELECT id FROM t WHERE p = '1'": where(lambda r: r["p"] == "1"),
    "SELECT id FROM t WHERE day = DATE '2026-02-11'": where(lambda r: r["day"] == dt.date(2026, 2, 11)),
    "SELECT id FROM t WHERE id < 0": where(lambda r: False),
    "SELECT count(*) AS n, sum(id) AS total, min(s) AS low FROM t": lambda table: [
        {
            "n": len(table),
            "total": sum(row["id"] for row in table),
            "low": min((row["s"] for row in table if row["s"] is not None), default=None),
        }
    ],
    "SELECT p, count(*) AS n FROM t GROUP BY p": lambda table: [
        {"p": p, "n": sum(row["p"] == p for row in table)} for p in {row["p"] for row in table}
    ],
    "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id WHERE b.i = 0": where(has("i", lambda v: v == 0)),
    "SELECT DISTINCT flag FROM t": lambda table: [{"flag": flag} for flag in {row["flag"] for row in table}],
    "SELECT id FROM t ORDER BY id DESC LIMIT 3": lambda table: [
        {"id": number} for number in sorted((row["id"] for row in table), reverse=True)[:3]
    ],
}
"""Texts that all three engines take, and their answers."""
ZONED: Final = {
    "duckdb": "SELECT id FROM t WHERE ts > TIMESTAMPTZ '2026-02-10 21:00:00+00'",
    "datafusion": "SELECT id FROM t WHERE ts > TIMESTAMP '2026-02-10T21:00:00Z'",
}


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    root = tmp_path_factory.mktemp("table")
    TABLES[request.param](root)
    return DeltaTable(root)


def in_duckdb(table: DeltaTable, way: str) -> Callable[[str], pa.Table]:
    connection = connect()
    relation = table.to_duckdb(connection, way=way)

    def ask(sql: str, held: object = connection) -> pa.Table:
        return arrow(relation.query("t", sql))

    return ask


def in_polars(table: DeltaTable, way: str) -> Callable[[str], pa.Table]:
    context = pl.SQLContext(t=table.to_polars(way=way))
    return lambda sql: context.execute(sql, eager=True).to_arrow()


def in_datafusion(table: DeltaTable, way: str) -> Callable[[str], pa.Table]:
    builder = QueryBuilder().register("t", table)
    return lambda sql: builder.execute(sql).read_all()


ENGINES: Final = {
    "duckdb": (in_duckdb, "auto"),
    "duckdb dataset": (in_duckdb, "dataset"),
    "polars": (in_polars, "auto"),
    "polars dataset": (in_polars, "dataset"),
    "datafusion": (in_datafusion, "dataset"),
}


def cases() -> Iterator[Any]:
    for table, engine in product(TABLES, ENGINES):
        is_alike = ENGINES[engine][1] == "dataset" and table != "evolved"
        mark = pytest.mark.long if is_alike else pytest.mark.slow
        yield pytest.param(table, engine, marks=[mark] if engine != "duckdb" else [])


@pytest.mark.parametrize(("table", "engine"), list(cases()), indirect=["table"])
def test_answers_are_those_of_plain_python(engine: str, table: DeltaTable) -> None:
    begin, way = ENGINES[engine]
    ask = begin(table, way)
    everything = table.to_pyarrow_table().to_pylist()
    for sql, answer in QUERIES.items():
        assert rows(ask(sql)) == rows(answer(everything)), sql
    zoned = ZONED.get(engine.partition(" ")[0])
    if zoned is not None:
        assert rows(ask(zoned)) == rows(where(has("ts", lambda v: v > LATER))(everything))


@pytest.mark.parametrize("way", ["files", "dataset"])
def test_duckdb_finds_nan(way: str, tmp_path: Path) -> None:
    """Parquet statistics know nothing of NaN: a scan that believes them would lose these rows."""
    TABLES["plain"](tmp_path)
    table = DeltaTable(tmp_path)
    connection = connect()
    relation = table.to_duckdb(connection, way=way)
    nans = {row["id"] for row in table.to_pyarrow_table().to_pylist() if row["f"] != row["f"]}
    assert {i for (i,) in relation.filter("isnan(f)").project("id").fetchall()} == nans
    assert {i for (i,) in relation.filter("f <> 1.5 AND f <> 0.1").project("id").fetchall()} > nans


def test_datafusion_replaces_a_table_of_the_same_name(tmp_path: Path) -> None:
    for name in ("plain", "odd paths"):
        TABLES[name](tmp_path / name)
    context = SessionContext()
    for name in ("plain", "odd paths"):
        table = DeltaTable(tmp_path / name)
        table.to_datafusion(context, "t")
        assert context.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": table.count()}]


def test_query_builder_is_deltalakes(tmp_path: Path) -> None:
    import deltalake

    TABLES["deltalake"](tmp_path)
    sql = "SELECT id, s FROM t WHERE id > 3"
    ours = QueryBuilder({"datafusion.execution.batch_size": "5"}).register("t", DeltaTable(tmp_path)).execute(sql)
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path)).execute(sql)
    assert rows(ours.read_all()) == rows(pa.table(theirs.read_all()))


def test_names_in_sql_keep_their_case(tmp_path: Path) -> None:
    import deltalake

    deltalake.write_deltalake(tmp_path, pa.table({"dayOfYear": [1, 2], "day": [3, 4]}))
    sql = "SELECT t.dayOfYear FROM t WHERE dayOfYear > 1"
    ours = QueryBuilder().register("t", DeltaTable(tmp_path)).execute(sql).read_all()
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path)).execute(sql)
    assert ours.to_pydict() == pa.table(theirs.read_all()).to_pydict() == {"dayOfYear": [2]}


FORKED = """
import multiprocessing, sys
from delta_sidecar import DeltaTable, QueryBuilder

def ask(path):
    try:
        print(QueryBuilder().register("t", DeltaTable(path)).execute("SELECT count(*) AS n FROM t").read_all()["n"][0])
    except Exception as error:
        print(type(error).__name__, error)

ask(sys.argv[1])
child = multiprocessing.get_context("fork").Process(target=ask, args=sys.argv[1:])
sys.stdout.flush()
child.start()
child.join(60)
sys.exit(1 if child.is_alive() else child.exitcode)
"""


@pytest.mark.slow
def test_a_forked_process_is_refused_rather_than_left_waiting(tmp_path: Path) -> None:
    import deltalake

    deltalake.write_deltalake(tmp_path, pa.table({"x": [1, 2]}))
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "2"
    assert second.startswith("InputError DataFusion was used before this process was forked")
