"""Filters that DataFusion gives to the dataset mean what they mean in DataFusion over rows in memory."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datafusion import SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_sidecar import DeltaTable, QueryBuilder
from delta_sidecar.engines.datafusion_dataset import DataFusionDataset
from delta_sidecar.errors import InputError

FLOATS: Final = [0.5, 2.0, math.nan, -0.0, 0.0, None, -math.nan, math.inf, -math.inf, 1.0, None, math.nan]
ROWS: Final = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "s": ["a", "b", None, "c", "d", None, "a", "b", "x", None, "", "z"],
        "f": pa.array(FLOATS, pa.float64()),
        "g": pa.array(FLOATS[::-1], pa.float64()),
        "h": pa.array(FLOATS, pa.float32()),
        "b": [True, False, None] * 4,
    }
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("floats")
    for start in range(0, ROWS.num_rows, 3):
        deltalake.write_deltalake(path, ROWS.slice(start, 3), mode="append")
    memory = SessionContext()
    memory.register_record_batches("t", [ROWS.to_batches()])
    return {"memory": memory, "table": QueryBuilder().register("t", DeltaTable(path)), "path": path}


def check(tables: dict[str, Any], condition: str) -> None:
    sql = f"SELECT id FROM t WHERE {condition} ORDER BY id"
    expected = pa.table(tables["memory"].sql(sql)).column("id").to_pylist()
    assert tables["table"].execute(sql).read_all().column("id").to_pylist() == expected, condition


@pytest.mark.parametrize(
    "condition",
    [
        "s NOT IN ('a', 'x', 'y', 'z')",
        "s NOT IN ('a', 'x', 'y', 'z', NULL)",
        "s IN ('a', 'x', 'y', 'z') IS NULL",
        "f > 1",
        "NOT (f > 1)",
        "f < -5",
        "f = 'NaN'",
        "f <> 'NaN'",
        "f = f",
        "f < g",
        "f = g",
        "f IN (0.0, 1, 3, 4)",
        "f NOT IN ('NaN', 1, 3, 4)",
        "f NOT BETWEEN 0.0 AND 1",
        "COALESCE(f > 1, true)",
        "h >= 2",
        "(f > 1) = (s = 'a')",
        "id = 1 AND id = 2",
        "id = 100",
        "id < 0 AND f > 1",
    ],
)
def test_filter(tables: dict[str, Any], condition: str) -> None:
    check(tables, condition)


NUMBERS: Final = st.sampled_from(["0.0", "-0.0", "1.0", "0.5", "2.0", "'NaN'", "'-NaN'", "'inf'", "'-inf'", "-3.5"])
TEXTS: Final = st.sampled_from(["'a'", "'b'", "'c'", "''", "'q'"])


def conditions_on(column: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    options = st.lists(values, min_size=1, max_size=6, unique=True).flatmap(
        lambda some: st.sampled_from([some, some, [*some, "NULL"]])
    )
    operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    compared = st.tuples(operator, values).map(lambda pair: f"{column} {pair[0]} {pair[1]}")
    member = st.tuples(st.sampled_from(["IN", "NOT IN"]), options).map(
        lambda pair: f"{column} {pair[0]} ({', '.join(pair[1])})"
    )
    between = st.tuples(st.sampled_from(["", "NOT "]), values, values).map(
        lambda ends: f"{column} {ends[0]}BETWEEN {ends[1]} AND {ends[2]}"
    )
    return compared | member | between | st.sampled_from([f"{column} IS NULL", f"{column} IS NOT NULL"])


LEAVES: Final = st.one_of(
    conditions_on("f", NUMBERS),
    conditions_on("h", NUMBERS),
    conditions_on("s", TEXTS),
    conditions_on("id", st.sampled_from(["0", "3", "5", "40"])),
    st.sampled_from(["b", "f < g", "f >= g", "f <> g", "f = g"]),
)
CONDITIONS: Final = st.recursive(
    LEAVES,
    lambda terms: st.one_of(
        st.tuples(terms, st.sampled_from(["AND", "OR"]), terms).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        terms.map(lambda term: f"NOT ({term})"),
        terms.map(lambda term: f"({term}) IS NULL"),
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=60)
@given(condition=CONDITIONS)
def test_any_filter(tables: dict[str, Any], condition: str) -> None:
    check(tables, condition)


def test_no_file_is_left(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, ROWS.slice(0, 0))
    empty = QueryBuilder().register("t", DeltaTable(tmp_path))
    assert empty.execute("SELECT id FROM t ORDER BY id").read_all().num_rows == 0
    assert empty.execute("SELECT count(*) AS n FROM t").read_all().to_pylist() == [{"n": 0}]
    assert DeltaTable(tmp_path).to_pyarrow_dataset().get_fragments() == []


def test_files_are_left_out(tables: dict[str, Any]) -> None:
    dataset = DataFusionDataset.of(DeltaTable(tables["path"]).to_pyarrow_dataset())
    again = pickle.loads(pickle.dumps(dataset))
    for form in (dataset, again):
        assert len(form.get_fragments(pc.field("id") > 8)) == 1
        assert len(form.get_fragments(pc.field("id").isin([1, 4]))) == 2
        assert len(form.get_fragments((pc.field("f") > 1) & (pc.field("id") < 3))) == 1
        assert len(form.get_fragments(pc.field("f") > 100)) == 4, "any file may hold NaN"


def test_true_and_false_are_filters(tables: dict[str, Any]) -> None:
    dataset = DeltaTable(tables["path"]).to_pyarrow_dataset()
    for no in (False, pa.scalar(False), pa.scalar(None, pa.bool_())):
        assert dataset.to_table(filter=no).num_rows == 0
    assert dataset.to_table(filter=True).num_rows == ROWS.num_rows
    assert dataset.get_fragments(False) == []


def test_an_unknown_function_of_floats_is_refused(tables: dict[str, Any]) -> None:
    dataset = DataFusionDataset.of(DeltaTable(tables["path"]).to_pyarrow_dataset())
    with pytest.raises(InputError, match="to_duckdb"):
        dataset.to_table(filter=pc.round(pc.field("f")) > 1.0)
    assert dataset.to_table(filter=pc.utf8_length(pc.field("s")) == 0).num_rows == 1


def test_other_data_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"a Table is not a delta_sidecar\.DeltaTable; register other data on"):
        QueryBuilder().register("t", pa.table({"id": [1]}))  # type: ignore[arg-type]
