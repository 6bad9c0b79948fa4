"""Engines on an S3 server and an Azure emulator: Polars by itself with the table's options, others by our store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from delta_sidecar import DeltaTable, QueryBuilder, UnsupportedTableError
from delta_sidecar.storage import open_store
from tests.engines.reading import arrow, rows
from tests.engines.tables import plain
from tests.integration.servers import ObjectServer


def at(name: str) -> Any:
    """The name of a server's fixture, with the markers that a test has which asks for it by name."""
    marks = [pytest.mark.server, getattr(pytest.mark, name), pytest.mark.xdist_group(name)]
    return pytest.param(name, marks=marks)


@pytest.fixture(params=[at("s3"), at("azurite")])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaTable:
    server: ObjectServer = request.getfixturevalue(request.param)
    uri = server.uri(f"engines-{tmp_path.name}")
    store = open_store(uri, server.storage_options)
    plain(tmp_path)
    for file in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        store.put_if_absent(str(file.relative_to(tmp_path)), file.read_bytes())
    return DeltaTable(uri, storage_options=server.storage_options)


def test_every_engine_reads_a_remote_table(table: DeltaTable) -> None:
    expected = rows(table.to_pyarrow_table(filters="id > 20"))
    plan = table.engine_plan("polars", "id > 20")
    assert (plan.way, plan.files) == ("files", 2), plan.reason
    assert rows(table.to_polars("id > 20").collect().to_arrow()) == expected
    assert rows(table.to_polars("id > 20", way="dataset").collect().to_arrow()) == expected
    assert rows(arrow(table.to_duckdb(duckdb.connect(), "id > 20"))) == expected
    found = QueryBuilder().register("t", table).execute("SELECT * FROM t WHERE id > 20")
    assert rows(found.read_all()) == expected


def test_duckdb_says_why_it_does_not_read_by_itself(table: DeltaTable) -> None:
    assert "with credentials of its own" in table.engine_plan("duckdb").reason
    with pytest.raises(UnsupportedTableError, match="which is not loaded on the connection"):
        table.to_duckdb(duckdb.connect(), way="files")
