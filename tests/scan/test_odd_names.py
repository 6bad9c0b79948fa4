"""Columns whose names are hard on JSON, SQL, Arrow and Parquet: a predicate on one prunes, whatever the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder

NAMES = [
    'q"uote',
    "back\\slash",
    "tab\there",
    "line\nbreak",
    "\x01",
    "nul\0nul",
    "a.b",
    "`tick`",
    "é\u2028",
    "f0",
    " ",
    "'",
]


def stats(name: str, low: int, high: int, inside: str | None = None) -> dict[str, Any]:
    def leaf(value: int) -> dict[str, Any]:
        return {name: value} if inside is None else {name: {inside: value}}

    return {"numRecords": 9, "minValues": leaf(low), "maxValues": leaf(high), "nullCount": leaf(0)}


def sources(root: Path, log: LogBuilder) -> list[DeltaTable]:
    """The same table by its commits, by its checkpoint and by its index."""
    tables = [DeltaTable(str(root))]
    log.checkpoint()
    tables.append(DeltaTable(str(root)))
    build_index(open_store(str(root)))
    shared_cache.clear()
    tables.append(DeltaTable(str(root)))
    assert verify_index(open_store(str(root))).problems == ()
    return tables


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name(tmp_path: Path, name: str) -> None:
    log = LogBuilder(tmp_path).metadata({name: "long", "x": "long"})
    log.commit(add("low", stats=stats(name, 0, 4)), add("high", stats=stats(name, 5, 9)))
    quoted = "`" + name.replace("`", "``") + "`"
    for table in sources(tmp_path, log):
        for predicate in (f"{quoted} > 4", [(name, ">", 4)]):
            assert [f.path for f in table.file_infos(predicate)] == ["high"]  # type: ignore[arg-type]
        found = table.get_stats_for_files(["low", "high"], None if "." in name else [name])
        assert sorted(found.column(f"max.{name}").to_pylist()) == [4, 9]


@pytest.mark.parametrize("name", NAMES)
def test_a_field_of_any_name(tmp_path: Path, name: str) -> None:
    inner = {"type": "struct", "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}}]}
    log = LogBuilder(tmp_path).metadata({"s": inner})
    log.commit(add("low", stats=stats("s", 0, 4, name)), add("high", stats=stats("s", 5, 9, name)))
    quoted = "`" + name.replace("`", "``") + "`"
    for table in sources(tmp_path, log):
        assert [f.path for f in table.file_infos(f"s.{quoted} > 4")] == ["high"]


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_column_of_any_name(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({name: [1, 2, 3]}), tmp_path / "f.parquet")
    LogBuilder(tmp_path).metadata({name: "long"}).commit(add("f.parquet", size=(tmp_path / "f.parquet").stat().st_size))
    table = DeltaTable(str(tmp_path))
    assert [v for batch in table.to_batches(predicate=[(name, ">", 1)]) for v in batch.column(0).to_pylist()] == [2, 3]


@pytest.mark.parametrize("name", NAMES)
def test_a_partition_column_of_any_name(tmp_path: Path, name: str) -> None:
    log = LogBuilder(tmp_path).metadata({name: "long", "x": "long"}, [name])
    log.commit(add("low", partition={name: "4"}), add("high", partition={name: "9"}))
    for table in sources(tmp_path, log):
        assert [f.path for f in table.file_infos([(name, ">", 4)])] == ["high"]
        assert [f.partition_values for f in table.file_infos([(name, "=", 4)])] == [{name: "4"}]
