"""Others read a table with an index exactly as they did before it had one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pytest

from tests.integration.same import sorted_rows
from tests.integration.spark.indexed import build_on_top, build_whole, check_index
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pathlib import Path

Reader = Callable[[SparkTable], Any]


def _duckdb(table: SparkTable) -> pa.Table:
    rows = deltalake.DeltaTable(str(table.root)).to_pyarrow_dataset()
    return duckdb.from_arrow(rows).to_arrow_table()


def _query(table: SparkTable) -> pa.Table:
    opened = deltalake.DeltaTable(str(table.root))
    return pa.table(deltalake.QueryBuilder().register("t", opened).execute("SELECT * FROM t").read_all())


READERS: dict[str, Reader] = {
    "delta-spark": lambda table: table.frame().toArrow(),
    "deltalake": lambda table: deltalake.DeltaTable(str(table.root)).to_pyarrow_table(),
    "deltalake's SQL": _query,
    "duckdb": _duckdb,
    "polars": lambda table: pl.read_delta(str(table.root)).to_arrow(),
}


OF_V2 = ("delta-spark", "deltalake's SQL")
"""Who reads the rows of a table with V2 checkpoints."""


def seen(table: SparkTable, readers: Iterable[str]) -> dict[str, Any]:
    """What readers see of the table: its rows, its files, its versions."""
    rows = {name: sorted_rows(READERS[name](table)) for name in readers}
    opened = deltalake.DeltaTable(str(table.root))
    [detail] = table.spark.sql(f"DESCRIBE DETAIL {table.name}").collect()
    return rows | {
        "files": sorted(opened.file_uris()),
        "version": opened.version(),
        "history": [entry["version"] for entry in opened.history()],
        "detail": (detail["numFiles"], detail["sizeInBytes"], detail["id"]),
        "vacuumable": sorted(opened.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)),
    }


@pytest.mark.parametrize(("policy", "readers"), [("classic", tuple(READERS)), ("v2", OF_V2)], ids=["classic", "v2"])
def test_an_index_changes_nothing_for_others(table: SparkTable, policy: str, readers: tuple[str, ...]) -> None:
    table.sql(
        f"""CREATE TABLE {{t}} (id BIGINT, day STRING, at TIMESTAMP) USING delta PARTITIONED BY (day)
        TBLPROPERTIES ('delta.checkpointInterval' = '2', 'delta.checkpointPolicy' = '{policy}',
        'delta.enableDeletionVectors' = 'false')""",
        *["INSERT INTO {t} SELECT id, concat('d', id % 2), timestamp_seconds(id) FROM range(10)"] * 2,
        "DELETE FROM {t} WHERE id = 3",
    )
    before = seen(table, readers)
    build_whole(table)
    assert seen(table, readers) == before
    table.sql("INSERT INTO {t} VALUES (99, 'd9', NULL)")
    grown = seen(table, readers)
    build_on_top(table)
    check_index(table)
    assert seen(table, readers) == grown
    assert grown["version"] == before["version"] + 1
    assert leftovers(table.root) == []


def leftovers(root: Path) -> list[str]:
    """Files of ours outside the log: there must be none."""
    return [str(path) for path in root.rglob("*sidecar*") if "_delta_log" not in path.parts]
