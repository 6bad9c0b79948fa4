"""Which way an engine takes and why, what it leaves behind, and what it asks of the store."""

from __future__ import annotations

import datetime as dt
import gc
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datafusion import SessionContext

from delta_sidecar import (
    DeltaTable,
    InputError,
    OptionError,
    QueryBuilder,
    UnknownColumnError,
    UnsupportedTableError,
)
from delta_sidecar.data import footers
from delta_sidecar.data.footers import footer_schemas, parsed_footer, schema_end
from delta_sidecar.engines import duckdb as engine
from delta_sidecar.engines.duckdb_sql import PredicateSql, text
from delta_sidecar.engines.engine_plan import NotTranslatedError
from delta_sidecar.engines.file_list import FileList
from delta_sidecar.limits import EngineLimits, ReaderLimits
from delta_sidecar.predicates.expression import Column, Compare
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import Cache, shared_cache
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.hourly import hourly, parts_asked
from tests.engines.reading import arrow, connect, rows
from tests.engines.tables import COLUMNS, TABLES, add, plain, rows_of, vector

pytestmark = pytest.mark.slow

WAYS = {
    "plain": ("files", "files"),
    "one partition": ("files", "files"),
    "deletion vectors": ("files", "dataset"),
    "odd paths": ("files", "files"),
    "pattern paths": ("dataset", "files"),
    "mapped by name": ("files", "files"),
    "mapped by id": ("files", "files"),
    "evolved": ("files", "files"),
    "other forms": ("files", "dataset"),
    "nanoseconds": ("dataset", "dataset"),
    "deltalake": ("files", "files"),
}
"""By DuckDB and by Polars."""


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    plain(tmp_path)
    return DeltaTable(tmp_path)


@pytest.mark.parametrize("name", list(TABLES))
def test_the_way_of_each_table(name: str, tmp_path: Path) -> None:
    TABLES[name](tmp_path)
    table = DeltaTable(tmp_path)
    assert tuple(table.engine_plan(engine).way for engine in ("duckdb", "polars")) == WAYS[name]
    assert table.engine_plan("datafusion").way == "dataset"


def test_the_plan_says_what_and_why(table: DeltaTable) -> None:
    plan = table.engine_plan("duckdb", "p = '1'")
    assert (plan.way, plan.reason, plan.files) == ("files", "the files alone give the rows", 1)
    assert plan.bytes == next(table.file_infos("p = '1'")).size
    text = str(plan)
    assert text.startswith("engine     duckdb\nway        files: the files alone give the rows\nfiles      1 file, ")
    assert "predicate  p = '1'" in text
    assert table.engine_plan("polars", "id < 0").reason == "no file can hold a row"
    asked = table.engine_plan("polars", way="dataset")
    assert (asked.way, asked.reason, asked.files, asked.listing) == ("dataset", "asked for", None, None)


def test_a_way_that_cannot_be_taken_is_refused(tmp_path: Path) -> None:
    TABLES["nanoseconds"](tmp_path)
    with pytest.raises(UnsupportedTableError, match=r"column 'ts' is timestamp, stored as timestamp\[ns, tz=UTC\]"):
        DeltaTable(tmp_path).to_duckdb(way="files")
    with pytest.raises(UnsupportedTableError, match="column 'ts'"):
        DeltaTable(tmp_path).to_polars(way="files")
    assert DeltaTable(tmp_path).engine_plan("duckdb", columns=["id", "s"]).way == "files"


def test_many_files_go_through_the_dataset(table: DeltaTable) -> None:
    few = limited(table, unfiltered_files=2)
    plan = few.engine_plan("duckdb")
    assert (plan.way, plan.reason, plan.files) == ("dataset", "there are more than 2 files", None)
    assert few.engine_plan("duckdb", "id >= 0").way == "files"
    assert limited(table, files=2).engine_plan("duckdb", "id >= 0").way == "dataset"


def test_many_deleted_rows_go_through_the_dataset(tmp_path: Path) -> None:
    TABLES["deletion vectors"](tmp_path)
    table = DeltaTable(tmp_path)
    assert limited(table, deleted_rows=15).engine_plan("duckdb").way == "files"
    assert limited(table, deleted_rows=14).engine_plan("duckdb").reason == "15 rows are deleted by deletion vectors"


# Files that an engine names


@pytest.mark.parametrize("name", ["odd paths", "evolved", "deltalake"])
def test_joined_partition_values(name: str, tmp_path: Path) -> None:
    """DuckDB joins them for every table with several; Polars from so many scans on."""
    TABLES[name](tmp_path)
    table = limited(DeltaTable(tmp_path), scans=1)
    for predicate in (None, "p > 'a'", "id > 7"):
        expected = rows(table.to_pyarrow_table(filters=predicate))
        assert rows(arrow(table.to_duckdb(connect(), predicate, way="files"))) == expected
        assert rows(table.to_polars(predicate, way="files").collect().to_arrow()) == expected
    alone = rows(table.to_pyarrow_table(columns=["id"]))
    assert rows(arrow(table.to_duckdb(connect(), columns=["id"], way="files"))) == alone
    assert rows(table.to_polars(columns=["id"], way="files").collect().to_arrow()) == alone


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_zero_and_minus_zero_are_two_partition_values(engine: str, kind: str, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"id": "long", "p": kind}, partition_by=["p"])
    values = ["0.0", "-0.0", None, "1.5", "NaN", "-0.0", "0.0"]
    log.commit(*(add(tmp_path, f"{n}.parquet", pa.table({"id": [n]}), {"p": v}) for n, v in enumerate(values)))
    table = DeltaTable(tmp_path)
    for predicate in (None, "p = 0", "id < 2"):
        expected = rows_as_text(table.to_pyarrow_table(filters=predicate))
        found = table.to_polars(predicate, way="files").collect(engine=engine)  # type: ignore[call-overload]
        assert rows_as_text(found.to_arrow()) == expected
        assert rows_as_text(arrow(table.to_duckdb(connect(), predicate, way="files"))) == expected
    assert "-0.0" in str(expected)


def rows_as_text(found: pa.Table) -> list[str]:
    """Rows in order; the text of a number has its sign."""
    return sorted(str(row) for row in found.to_pylist())


def odd_deletions(root: Path) -> None:
    log = LogBuilder(root).protocol(reader=3, features=["deletionVectors", "timestampNtz"])
    log.metadata(COLUMNS, partition_by=["p"])
    names = ["a b", "100%", "%20", "ü/ñ", "it's", 'say "hi"', "~"]
    for i, name in enumerate(names):
        log.commit(add(root, f"{name}/f {name}.parquet", rows_of(4 * i, 4), {"p": name}, vector(0, 3)))


def test_deleted_rows_of_odd_paths(tmp_path: Path) -> None:
    odd_deletions(tmp_path)
    table = DeltaTable(tmp_path)
    expected = rows(table.to_pyarrow_table())
    assert sum(expected.values()) == 14
    assert rows(arrow(table.to_duckdb(connect(), way="files"))) == expected
    for columns in (["id"], ["p"]):
        found = arrow(table.to_duckdb(connect(), "f > 0", columns, way="files"))
        assert rows(found) == rows(table.to_pyarrow_table(columns=columns, filters="f > 0"))


P = pl.col("p")
UNKNOWN = "a file that was not asked for: "


@pytest.mark.parametrize("name", ["plain", "deletion vectors"])
@pytest.mark.parametrize("change", [lambda names: [*names[:1], "/other", *names[2:]], lambda names: names[:-1]])
def test_files_that_duckdb_names_otherwise_go_through_the_dataset(
    name: str, change: Callable[[list[str]], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join by their names would lose rows, and bring deleted ones back."""
    TABLES[name](tmp_path)
    table, names = DeltaTable(tmp_path), engine._names
    monkeypatch.setattr(engine, "_names", lambda connection, paths: change(names(connection, paths)))
    assert re.match(r"DuckDB knows .*\.parquet by another name", table.engine_plan("duckdb").reason)
    assert rows(arrow(table.to_duckdb(connect()))) == rows(table.to_pyarrow_table())
    with pytest.raises(UnsupportedTableError, match="by another name"):
        table.to_duckdb(connect(), way="files")


def test_a_scan_of_duckdb_names_files_as_its_list_does(tmp_path: Path) -> None:
    odd_deletions(tmp_path)
    connection, paths = duckdb.connect(), DeltaTable(tmp_path).file_uris()
    listed = ", ".join(map(text, paths))
    scanned = connection.sql(f"SELECT DISTINCT filename FROM read_parquet([{listed}], filename = true)").fetchall()
    assert sorted(name for (name,) in scanned) == sorted(paths) == sorted(engine._names(connection, paths))


@pytest.mark.parametrize(
    "condition",
    [P == "1", P != "0", P.is_null(), P.is_not_null(), P.is_in(["1"]), pl.col("id") == 13],
)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_loses_no_row_of_a_file_it_names_otherwise(
    engine: str, condition: pl.Expr, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delta_sidecar.engines.polars._names", misspelled)
    frame = limited(table, scans=1).to_polars(way="files")
    assert frame.select(pl.len()).collect().item() == 36
    with pytest.raises(pl.exceptions.InvalidOperationError, match=f"{UNKNOWN}.*p=1/f.parquet"):
        frame.filter(condition).collect(engine=engine)  # type: ignore[call-overload]


def misspelled(files: FileList, places: Sequence[int]) -> list[str]:
    """As an engine might name the second file."""
    return [files.paths[place].replace("p=1/", "p%3D1/") for place in places]


def test_a_file_that_the_log_has_twice(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"id": "long", "p": "string"}, partition_by=["p"])
    once = add(tmp_path, "f.parquet", pa.table({"id": [1, 2]}), {"p": "a"})
    log.commit(once, replace(once, path=f"file://{tmp_path}/f.parquet", partition={"p": "b"}))
    table = DeltaTable(tmp_path)
    assert table.engine_plan("duckdb").reason == f"the log has {tmp_path}/f.parquet twice"
    for found in (arrow(table.to_duckdb()), table.to_polars().collect().to_arrow()):
        assert rows(found) == rows(table.to_pyarrow_table())
        assert found.num_rows == 4


def limited(table: DeltaTable, **limits: int) -> DeltaTable:
    return DeltaTable(table.table_uri, limits=ReaderLimits(engines=EngineLimits(**limits)))


def test_a_pyarrow_expression_is_applied_by_pyarrow(table: DeltaTable) -> None:
    expression = pc.field("id") % 5 == 1 if hasattr(pc.Expression, "__mod__") else pc.field("id") == 6
    assert table.engine_plan("duckdb", expression).reason == "only pyarrow applies a pyarrow expression"
    expected = rows(table.to_pyarrow_table(filters=expression))
    assert rows(arrow(table.to_duckdb(predicate=expression))) == expected
    assert rows(table.to_polars(expression).collect().to_arrow()) == expected


UNASKED = [
    pc.field("i") == 1,
    (pc.field("id") > 3) & pc.field("s").is_null(),
    pc.field("p") == "1",
    pc.field("st", "a") > 3,
    pc.utf8_length(pc.field("s")) > 1,
    pc.field("p").isin(["0"]) | pc.field("f").is_nan(),
]


@pytest.mark.parametrize("expression", UNASKED, ids=str)
@pytest.mark.parametrize(
    "columns",
    [
        ["id"],
        ["p"],
        ["s", "id"],
        ["day", "p"],
    ],
    ids=str,
)
def test_a_pyarrow_expression_of_columns_that_are_not_asked_for(
    columns: list[str], expression: pc.Expression, table: DeltaTable
) -> None:
    expected = rows(table.to_pyarrow_table(columns=columns, filters=expression))
    assert expected
    relation, frame = table.to_duckdb(predicate=expression, columns=columns), table.to_polars(expression, columns)
    context = SessionContext()
    table.to_datafusion(context, "t", expression, columns)
    assert relation.columns == frame.collect_schema().names() == columns
    assert rows(arrow(relation)) == rows(frame.collect().to_arrow()) == expected
    assert rows(context.sql("SELECT * FROM t").to_arrow_table()) == expected
    count = sum(expected.values())
    assert relation.aggregate("count(*)").fetchall() == [(count,)]
    assert frame.select(pl.len()).collect().item() == count
    assert context.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": count}]


@pytest.mark.parametrize("expression", [pc.field("nope") == 1, pc.field("ID") == 1], ids=str)
def test_a_pyarrow_expression_of_a_column_that_is_not_there(expression: pc.Expression, table: DeltaTable) -> None:
    with pytest.raises(UnknownColumnError):
        arrow(table.to_duckdb(predicate=expression, columns=["s"]))


@pytest.mark.parametrize("name", ["plain", "one partition", "evolved", "odd paths", "mapped by id", "other forms"])
def test_each_column_alone_has_all_rows(name: str, tmp_path: Path) -> None:
    """Also one that no file has, and one that is only in the log."""
    TABLES[name](tmp_path)
    table = DeltaTable(tmp_path)
    for column in table.schema().names:
        expected = rows(table.to_pyarrow_table(columns=[column]))
        assert rows(arrow(table.to_duckdb(connect(), columns=[column]))) == expected, column
        assert rows(table.to_polars(columns=[column]).collect().to_arrow()) == expected, column
        assert table.to_polars(columns=[column]).select(pl.len()).collect().item() == sum(expected.values())


@pytest.mark.parametrize("scans", [1, 100])
@pytest.mark.parametrize("way", ["files", "dataset"])
def test_names_that_polars_takes_for_patterns(way: str, scans: int, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata(
        {"id": "long", "^id$": "long", "*": "integer", "^.*$": "string"}, partition_by=["^.*$"]
    )
    for n in range(2):
        stored = pa.table({"id": [n, n], "^id$": [n + 10, n + 11], "*": pa.array([n, 7], pa.int16())})
        log.commit(add(tmp_path, f"{n}.parquet", stored, {"^.*$": f"p{n}"}))
    table = limited(DeltaTable(tmp_path), scans=scans)
    for columns in (None, ["^id$"], ["*"], ["^.*$"], ["*", "id"], ["^.*$", "^id$"]):
        for predicate in (None, "id = 1"):
            frame = table.to_polars(predicate, columns, way)
            assert frame.collect_schema().names() == (columns or ["id", "^id$", "*", "^.*$"])
            assert rows(frame.collect().to_arrow()) == rows(
                table.to_pyarrow_table(columns=columns, filters=predicate)
            ), columns


@pytest.mark.parametrize("way", ["files", "dataset"])
def test_columns_come_in_the_order_asked_for(way: str, table: DeltaTable) -> None:
    wanted = ["p", "s", "id"]
    relation = table.to_duckdb(columns=wanted, predicate="f > 0", way=way)
    assert relation.columns == wanted
    assert table.to_polars(columns=wanted, predicate="f > 0", way=way).collect_schema().names() == wanted
    expected = rows(table.to_pyarrow_table(columns=wanted, filters="f > 0"))
    assert rows(arrow(relation)) == expected
    assert rows(table.to_polars("f > 0", wanted, way).collect().to_arrow()) == expected


def test_bad_input_is_one_line(table: DeltaTable) -> None:
    with pytest.raises(OptionError, match="way is 'fast'; it takes one of auto, files, dataset"):
        table.to_polars(way="fast")
    with pytest.raises(OptionError, match="engine is 'spark'; it takes one of duckdb, polars, datafusion"):
        table.engine_plan("spark")
    with pytest.raises(UnknownColumnError, match="nope"):
        table.to_duckdb(columns=["nope"])
    with pytest.raises(InputError, match="columns is empty"):
        table.to_duckdb(columns=[])
    for way in ("auto", "files", "dataset"):
        for wanted in (["id", "s", "id"], ["p", "p"]):
            for call in (table.to_duckdb, table.to_polars):
                with pytest.raises(InputError, match=f"columns names '{wanted[0]}' twice, .* name each column once$"):
                    call(columns=wanted, way=way)
    with pytest.raises(InputError, match="columns names 'id' twice"):
        table.to_datafusion(SessionContext(), "t", columns=["id", "id"])
    with pytest.raises(InputError, match="connection is a str; it takes what duckdb"):
        table.to_duckdb("memory")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ctx is a str; it takes a datafusion"):
        table.to_datafusion("ctx", "t")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "call"), [("duckdb", "to_duckdb"), ("polars", "to_polars")])
def test_a_missing_engine_says_how_to_install_it(
    name: str, call: str, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=f"^{name} is not installed; run: pip install 'delta-sidecar\\[engines\\]'$"):
        getattr(table, call)()


# DuckDB's connection


def test_a_relation_outlives_everything_but_its_connection(tmp_path: Path) -> None:
    TABLES["deletion vectors"](tmp_path)
    connection = duckdb.connect()
    relation = DeltaTable(tmp_path).to_duckdb(connection, "id > 3")
    expected = rows(DeltaTable(tmp_path).to_pyarrow_table(filters="id > 3"))
    gc.collect()
    assert rows(arrow(relation)) == expected
    assert rows(arrow(relation)) == expected
    joined = relation.set_alias("a").join(relation.set_alias("b"), "a.id = b.id")
    assert len(joined.fetchall()) == sum(expected.values())


@pytest.mark.parametrize("name", ["plain", "deletion vectors", "nanoseconds"])
def test_nothing_is_left_behind_on_a_connection(name: str, tmp_path: Path) -> None:
    TABLES[name](tmp_path)
    table, connection = DeltaTable(tmp_path), duckdb.connect()
    catalog = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal"
    for _ in range(10):
        table.to_duckdb(connection, "id > 3").aggregate("count(*)").fetchall()
    assert connection.execute(catalog).fetchall() == []


def test_texts_compare_as_bytes_whatever_the_connection_says(table: DeltaTable) -> None:
    connection = duckdb.connect()
    connection.execute("SET default_collation = 'nocase'")
    for predicate in ("s = 'b'", "s > 'a'", "s IN ('A', 'zzz')", "s LIKE 'A'"):
        found = table.to_duckdb(connection, predicate, way="files")
        assert rows(arrow(found)) == rows(table.to_pyarrow_table(filters=predicate)), predicate


@pytest.mark.parametrize("name", ["plain", "one partition", "deletion vectors"])
def test_bytes_are_bytes_whatever_the_connection_says(name: str, tmp_path: Path) -> None:
    TABLES[name](tmp_path)
    table, connection = DeltaTable(tmp_path), duckdb.connect()
    connection.execute("SET binary_as_string = true")
    for predicate in (None, [("raw", ">=", b"a")]):
        found = table.to_duckdb(connection, predicate, ["id", "raw", "s"], way="files")
        assert [str(kind) for kind in found.types] == ["BIGINT", "BLOB", "VARCHAR"]
        assert rows(arrow(found)) == rows(table.to_pyarrow_table(columns=["id", "raw", "s"], filters=predicate))


CLOSED = ["SET enable_external_access = false", "SET disabled_filesystems = 'LocalFileSystem'"]


@pytest.mark.parametrize("setting", CLOSED)
@pytest.mark.parametrize("name", ["plain", "one partition", "deletion vectors"])
def test_a_connection_that_may_not_open_files_gets_the_dataset(name: str, setting: str, tmp_path: Path) -> None:
    TABLES[name](tmp_path)
    table, connection = DeltaTable(tmp_path), duckdb.connect()
    connection.execute(setting)
    assert rows(arrow(table.to_duckdb(connection))) == rows(table.to_pyarrow_table())
    with pytest.raises(UnsupportedTableError, match="the connection does not let DuckDB open the files"):
        table.to_duckdb(connection, way="files")


@pytest.mark.parametrize("name", ["plain", "one partition"])
def test_a_connection_that_may_open_some_files(name: str, tmp_path: Path) -> None:
    TABLES[name](tmp_path)
    table, uris = DeltaTable(tmp_path), DeltaTable(tmp_path).file_uris()
    for allowed in ([f"{tmp_path}/"], [], [uris[0]]):
        connection = duckdb.connect()
        kind = "allowed_paths" if allowed == uris[:1] else "allowed_directories"
        connection.execute(f"SET {kind} = [{', '.join(map(text, allowed))}]")
        connection.execute("SET enable_external_access = false")
        assert rows(arrow(table.to_duckdb(connection))) == rows(table.to_pyarrow_table())
        if allowed == [f"{tmp_path}/"]:
            assert table.to_duckdb(connection, way="files").aggregate("count(*)").fetchall() == [(36,)]


@pytest.mark.parametrize("collation", ["nocase", "noaccent", "nocase.noaccent"])
@pytest.mark.parametrize("deleted", [(), (0,)])
@pytest.mark.parametrize("partitions", [["p"], []])
def test_files_are_joined_by_their_exact_names(
    partitions: list[str], deleted: tuple[int, ...], collation: str, tmp_path: Path
) -> None:
    log = LogBuilder(tmp_path).protocol(reader=3, features=["deletionVectors"])
    log.metadata({"id": "long", "p": "string"} if partitions else {"id": "long"}, partition_by=partitions)
    for n, name in enumerate(["a", "A", "e", "é", "É"]):
        rows_there = pa.table({"id": [3 * n, 3 * n + 1, 3 * n + 2]})
        gone = vector(*sorted({n % 3, *deleted})) if deleted else None
        log.commit(add(tmp_path, f"{name}.parquet", rows_there, {"p": str(n)} if partitions else {}, gone))
    table, connection = DeltaTable(tmp_path), duckdb.connect()
    connection.execute(f"SET default_collation = '{collation}'")
    found = arrow(table.to_duckdb(connection, way="files"))
    assert rows(found) == rows(table.to_pyarrow_table())


# Costs


def test_a_listing_reads_what_scan_files_reads(tmp_path: Path) -> None:
    hourly(tmp_path, head=20, index=20)
    predicate = "ts >= '2026-02-10T20:00:00Z'"
    asked = []
    for plan in (False, True):
        shared_cache.clear()
        store = CountingStore(open_store(str(tmp_path)))
        table = DeltaTable(store.root_uri, store=store)
        if plan:
            # No file is there: the plan ends at the first footer.
            with pytest.raises(Exception, match="is missing"):
                table.engine_plan("duckdb", predicate)
        else:
            table.scan_files(predicate).read_all()
        asked.append(parts_asked(store))
    assert asked[0] == asked[1]
    assert len(asked[0]) == 1


@pytest.fixture
def footers_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose footers are read; the process knows none before."""
    shared_cache.clear()
    read: list[str] = []
    found = footers._footer
    monkeypatch.setattr(footers, "_footer", lambda sources, path, size: read.append(path) or found(sources, path, size))
    return read


def test_only_files_that_may_match_are_opened_and_once(table: DeltaTable, footers_read: list[str]) -> None:
    plan = table.engine_plan("duckdb", "id = 13")
    assert plan.files == 1
    assert footers_read == ["p%3D1/f.parquet"]
    table.to_polars("id = 13")
    assert len(footers_read) == 1


def test_no_cache_remembers_no_footer(table: DeltaTable, footers_read: list[str]) -> None:
    limit = shared_cache.limit
    try:
        forgetful = DeltaTable(table.table_uri, options={"delta.sidecar.cache_size": 0})
        for _ in range(2):
            assert forgetful.engine_plan("duckdb").way == "files"
        assert len(footers_read) == 6
    finally:
        shared_cache.resize(limit)


@pytest.mark.parametrize("engine", ["polars", "datafusion"])
def test_what_the_request_refuses_is_not_listed(
    engine: str, tmp_path: Path, footers_read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pl, "__version__", "1.38.1")
    hourly(tmp_path, head=20, index=20)
    store = CountingStore(open_store(str(tmp_path)))
    plan = DeltaTable(store.root_uri, store=store).engine_plan(engine, "ts >= '2026-02-10T20:00:00Z'")
    assert (plan.way, plan.files, plan.listing) == ("dataset", None, None)
    assert parts_asked(store) == []
    assert footers_read == []


def test_what_the_listing_refuses_opens_no_file(tmp_path: Path, footers_read: list[str]) -> None:
    TABLES["deletion vectors"](tmp_path)
    plan = DeltaTable(tmp_path).engine_plan("polars")
    assert plan.reason == "deletion vectors, which Polars has no public way to apply"
    assert plan.files == 3
    assert footers_read == []


F, S = pl.col("f"), pl.col("s")
OWN_FILTERS = [
    F > 1,
    F != 1.5,
    math.nan == F,
    F == 0,
    ~F.is_in([1.5, -0.0]),
    F.is_in([0.0, math.nan]),
    ~F.is_in([1.5, None]),
    S.is_in(["a", None]),
    ~S.is_in(["a"]),
    ~S.is_in(["a", None]),
    ~(S == "a"),
    S != "a",
    F.is_nan() | S.is_null(),
    (F > 1) & (S < "b"),
]


@pytest.mark.parametrize("condition", OWN_FILTERS, ids=str)
@pytest.mark.parametrize("way", ["files", "dataset"])
def test_filters_of_polars_have_its_own_meaning(way: str, condition: pl.Expr, table: DeltaTable) -> None:
    held = pl.from_arrow(table.to_pyarrow_table())
    assert isinstance(held, pl.DataFrame)
    frame = table.to_polars(way=way).filter(condition)
    assert rows(frame.collect().to_arrow()) == rows(held.filter(condition).to_arrow())
    assert rows(frame.select("id").collect().to_arrow()) == rows(held.filter(condition).select("id").to_arrow())
    assert frame.select(pl.len()).collect().item() == held.filter(condition).height


# Stores that an engine does not reach


@pytest.fixture
def remote(tmp_path: Path) -> CountingStore:
    """A table of many files in a store that only this library reaches."""
    log = LogBuilder(tmp_path).metadata({"id": "long"})
    log.commit(*(add(tmp_path, f"f{n}.parquet", pa.table({"id": [n]})) for n in range(FILES)))
    store = open_store(f"memory://{tmp_path.name}-{id(log)}")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            store.put_if_absent(str(file.relative_to(tmp_path)), file.read_bytes())
    return CountingStore(store)


FILES = 300


def test_the_dataset_serves_where_an_engine_does_not_reach(remote: CountingStore) -> None:
    table = DeltaTable(remote.root_uri, store=remote)
    plan = table.engine_plan("duckdb", "id > 290")
    assert (plan.reason, plan.listing) == ("DuckDB cannot read memory://", None)
    assert not [path for path in remote.paths() if path.startswith("f")], "no footer was read"
    assert table.engine_plan("polars").reason == "Polars cannot use a store that was given as an object"
    assert table.to_duckdb(connect(), "id > 290").aggregate("count(*)").fetchall() == [(9,)]
    assert table.to_polars("id > 290").select(pl.len()).collect().item() == 9


@pytest.mark.parametrize("engine", ["duckdb", "polars", "datafusion"])
def test_a_query_that_is_abandoned_stops_the_requests(engine: str, remote: CountingStore) -> None:
    table = DeltaTable(remote.root_uri, store=remote)
    if engine == "duckdb":
        connection = duckdb.connect()
        assert len(table.to_duckdb(connection, way="dataset").limit(1).fetchall()) == 1
    elif engine == "polars":
        assert table.to_polars(way="dataset").head(1).collect().height == 1
    else:
        reader = QueryBuilder().register("t", table).execute("SELECT id FROM t LIMIT 1")
        assert reader.read_all().num_rows == 1
    gc.collect()
    time.sleep(0.5)  # what is under way comes to its end
    asked = [path for path in remote.paths() if path.startswith("f")]
    assert 0 < len(asked) < FILES // 2
    time.sleep(0.3)
    assert len([path for path in remote.paths() if path.startswith("f")]) == len(asked)


# Footers


def test_footers_are_parsed_once_a_schema(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(footers, "parsed_footer", lambda footer: parsed.append(1) or parsed_footer(footer))
    files = [footers.FileToLookAt(f.path, f.size, f.modification_time) for f in table.file_infos()]
    for cache in (Cache(), Cache(limit=0)):
        parsed.clear()
        found = footer_schemas(files, table._access.sources(), cache)
        assert len(found) == len(files)
        assert len({id(schema) for schema in found}) == 1
        assert len(parsed) == 1


def test_the_schema_of_a_footer_ends_where_the_rows_are_counted(tmp_path: Path) -> None:
    """The same rows twice: footers are equal up to there, and differ after it."""
    from delta_sidecar.data.footers import _local_footer

    ends = []
    for count in (3, 12):
        add(tmp_path, f"{count}.parquet", rows_of(0, count))
        footer = _local_footer(str(tmp_path / f"{count}.parquet"))
        end = schema_end(footer)
        assert end is not None
        ends.append((footer[:end], footer[end : end + 2]))
    (first, three), (second, twelve) = ends
    assert first == second
    # A field of 64 bits, and the count in zigzag form.
    assert (three, twelve) == (b"\x16\x06", b"\x16\x18")


def test_no_schema_in_other_bytes() -> None:
    assert schema_end(b"") is None
    assert schema_end(b"\x15\x04") is None
    assert schema_end(bytes(range(256))) is None


def test_all_columns_are_there(table: DeltaTable) -> None:
    assert list(COLUMNS) == table.to_duckdb().columns == table.to_polars().collect_schema().names()
    assert isinstance(table.to_polars(), pl.LazyFrame)


def test_polars_of_before_does_not_read_files(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl, "__version__", "1.38.1")
    plan = table.engine_plan("polars")
    assert (plan.way, plan.reason) == ("dataset", "Polars 1.38.1 loses rows of files; 2.0 does not")


@pytest.mark.parametrize("way", ["files", "dataset"])
def test_a_frame_can_be_collected_again(way: str, table: DeltaTable) -> None:
    frame = table.to_polars("id > 3", way=way)
    first, second = frame.collect(), frame.head(2).collect()
    assert rows(first.to_arrow()) == rows(table.to_pyarrow_table(filters="id > 3"))
    assert second.height == 2
    assert rows(frame.collect().to_arrow()) == rows(first.to_arrow())


def test_files_elsewhere(tmp_path: Path) -> None:
    """A clone has files of other tables, by their absolute paths: local ones are files as any."""
    log = LogBuilder(tmp_path / "clone").metadata({"id": "long"})
    original = add(tmp_path / "original", "f.parquet", pa.table({"id": [1, 2]}))
    log.commit(replace(original, path=f"file://{tmp_path}/original/f.parquet"))
    clone = DeltaTable(tmp_path / "clone")
    assert clone.engine_plan("duckdb").way == "files"
    assert clone.to_duckdb(predicate="id = 2").fetchall() == [(2,)]
    log.commit(replace(original, path="s3://elsewhere/f.parquet"))
    plan = DeltaTable(tmp_path / "clone").engine_plan("polars")
    assert plan.reason == "s3://elsewhere/f.parquet lies in another store than the table"


EXTREMES = [
    ("ts", "<", dt.datetime.max),
    ("ts", ">", dt.datetime.min),
    ("wall", "<=", dt.datetime.max),
    ("day", "<", dt.date.max),
    ("day", ">=", dt.date.min),
    ("i", "<", 10**30),
    ("id", ">", -(2**63)),
    ("dec", "<", 10**20),
    ("f", "<", math.inf),
    ("f", ">", -math.inf),
    ("f", "<", 1.7976931348623157e308),
    ("g", ">", 5e-324),
    ("s", "!=", "\0"),
    ("s", "<", "\U0010ffff"),
    ("s", "=", "'; DROP TABLE t; --"),
    ("raw", ">=", b"\0"),
]


@pytest.mark.parametrize("term", EXTREMES, ids=str)
def test_extreme_literals(term: tuple[str, str, object], table: DeltaTable) -> None:
    expected = rows(table.to_pyarrow_table(filters=[term]))
    assert rows(arrow(table.to_duckdb(connect(), [term], way="files"))) == expected
    assert rows(table.to_polars([term], way="files").collect().to_arrow()) == expected


@pytest.mark.parametrize("micros", [2**63 - 1, -(2**63), 9 * 10**18 + 1])
def test_times_that_duckdb_does_not_have_are_not_translated(micros: int, table: DeltaTable) -> None:
    ts = Column(table.schema().resolve(["ts"]))
    with pytest.raises(NotTranslatedError, match="is out of the range of a timestamp in DuckDB"):
        PredicateSql().write(Compare(ts, "<", micros))
    assert PredicateSql().write(Compare(ts, "<", 9 * 10**18))


WRITTEN_OTHERWISE = [
    ("date", pa.date64()),
    ("timestamp", pa.timestamp("us", "+05:30")),
    ("timestamp", pa.timestamp("us", "-03:30")),
    ("timestamp", pa.timestamp("us", "-08:00")),
    ("timestamp", pa.timestamp("us", "Europe/Berlin")),
    ("timestamp", pa.timestamp("ms", "Etc/UTC")),
]


@pytest.mark.parametrize("form", ["plain", "dictionary", "list", "struct", "unasked"])
@pytest.mark.parametrize(("kind", "written"), WRITTEN_OTHERWISE, ids=str)
def test_types_that_the_writer_left_in_a_file(form: str, kind: str, written: pa.DataType, tmp_path: Path) -> None:
    """Polars follows the Arrow schema in a file, and fails where it does not know what that says."""
    times = pa.array([1_770_681_600_000, None], pa.int64()).cast(written)
    delta: object = kind
    if form == "dictionary":
        times = times.dictionary_encode()
    elif form == "list":
        times = pa.ListArray.from_arrays([0, 1, 2], times, pa.list_(pa.field("element", written)))
        delta = {"type": "array", "elementType": kind, "containsNull": True}
    elif form == "struct":
        times = pa.StructArray.from_arrays([times], ["a"])
        delta = {"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}}]}
    log = LogBuilder(tmp_path).metadata({"id": "long", "v": delta})
    log.commit(replace(add(tmp_path, "f.parquet", pa.table({"id": [1, 2], "v": times})), stats=None))
    table, columns = DeltaTable(tmp_path), ["id"] if form == "unasked" else None
    expected = rows(table.to_pyarrow_table(columns=columns))
    assert rows(table.to_polars(columns=columns).collect().to_arrow()) == expected
    assert rows(arrow(table.to_duckdb(connect(), columns=columns))) == expected
    if written in (pa.timestamp("us", "+05:30"), pa.timestamp("us", "-03:30")):
        assert "which Polars does not know" in table.engine_plan("polars", columns=columns).reason
    if written == pa.date64() and form != "unasked":
        assert "which Polars reads in its own way" in table.engine_plan("polars").reason


def test_partition_values_alone_need_no_file_that_polars_cannot_read(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"v": "timestamp", "p": "string"}, partition_by=["p"])
    times = pa.table({"v": pa.array([1, 2], pa.timestamp("us", "+05:30"))})
    log.commit(add(tmp_path, "f.parquet", times, {"p": "a"}), add(tmp_path, "g.parquet", times, {"p": "b"}))
    table = DeltaTable(tmp_path)
    assert table.engine_plan("polars", columns=["p"]).reason == "the log has all the columns asked for"
    assert sorted(table.to_polars(columns=["p"]).collect().rows()) == [("a",), ("a",), ("b",), ("b",)]
    assert table.to_polars("p = 'b'", ["p"]).collect().rows() == [("b",), ("b",)]


@pytest.mark.parametrize("way", ["auto", "dataset"])
@pytest.mark.parametrize("partitions", [[], [""]])
def test_a_column_without_a_name(partitions: list[str], way: str, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"": "long", "b": "long"}, partition_by=partitions)
    for n in (1, 2):
        stored = pa.table({"b": [n + 5]}) if partitions else pa.table({"": [n], "b": [n + 5]})
        log.commit(add(tmp_path, f"{n}.parquet", stored, {"": str(n)} if partitions else {}))
    table = DeltaTable(tmp_path)
    for call in (table.to_duckdb, table.to_polars):
        for columns in (None, [""]):
            with pytest.raises(
                InputError, match=r"an empty name, which (duckdb|polars) does not support; leave it out"
            ):
                call(columns=columns, way=way)
    for predicate, expected in ((None, [(6,), (7,)]), ([("", ">", 1)], [(7,)]), ([("b", "<", 7)], [(6,)])):
        assert sorted(table.to_duckdb(predicate=predicate, columns=["b"], way=way).fetchall()) == expected
        assert sorted(table.to_polars(predicate, ["b"], way).collect().rows()) == expected
    context = SessionContext()
    table.to_datafusion(context, "t")
    assert rows(context.sql("SELECT * FROM t").to_arrow_table()) == rows(table.to_pyarrow_table())


def test_a_column_with_a_scanners_own_name(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"file_row_number": "long", "filename": "string"})
    log.commit(add(tmp_path, "f.parquet", pa.table({"file_row_number": [7], "filename": ["x"]})))
    table = DeltaTable(tmp_path)
    plan = table.engine_plan("duckdb")
    assert plan.reason.startswith("files have a column 'file_row_number', a name that scanners use themselves")
    assert table.to_duckdb().fetchall() == [(7, "x")]
    taken, root = "__sidecar_File", tmp_path / "named"
    named = LogBuilder(root).metadata({"id": "long", taken: "string"}, partition_by=[taken])
    named.commit(*(add(root, f"{n}.parquet", pa.table({"id": [n]}), {taken: str(n)}) for n in (1, 2)))
    plan = DeltaTable(root).engine_plan("polars")
    assert plan.reason == "column '__sidecar_File' has a name that scans use themselves"
