"""Changes of a column's type: those of the protocol are followed, others are refused for rows and prune nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import UnsupportedTypeError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import add, column
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.type_changes import is_widening
from delta_sidecar.values.types import parse_type


@pytest.mark.parametrize(
    ("old", "new", "legal"),
    [
        ("byte", "short", True),
        ("byte", "decimal(3,0)", True),
        ("byte", "decimal(4,2)", False),
        ("short", "byte", False),
        ("integer", "long", True),
        ("integer", "double", True),
        ("integer", "float", False),
        ("integer", "decimal(12,2)", True),
        ("long", "decimal(19,0)", True),
        ("long", "decimal(18,0)", False),
        ("long", "double", False),
        ("float", "double", True),
        ("double", "float", False),
        ("decimal(5,2)", "decimal(7,3)", True),
        ("decimal(5,2)", "decimal(5,3)", False),
        ("decimal(5,2)", "double", False),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("string", "integer", False),
        ("string", "blob", False),
        ("timestamp", "timestamp_ntz", False),
    ],
)
def test_what_widens(old: str, new: str, legal: bool) -> None:
    assert is_widening(parse_type(old), parse_type(new)) is legal


def changed(root: Path, kind: Any, changes: Any, inside: Any = None) -> LogBuilder:
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.int64()), "y": [3, 4]}), root / "f.parquet")
    size = (root / "f.parquet").stat().st_size
    metadata = {"delta.typeChanges": changes}
    fields = [column("x", kind, metadata={} if inside else metadata), column("y")]
    log = LogBuilder(root).protocol(3, features=["typeWidening", "timestampNtz"]).metadata(fields)
    stats = {
        "numRecords": 2,
        "minValues": {"x": 1, "y": 3},
        "maxValues": {"x": 2, "y": 4},
        "nullCount": {"x": 0, "y": 0},
    }
    return log.commit(add("f.parquet", size=size, stats=stats))


@pytest.mark.parametrize(
    ("kind", "changes", "named"),
    [
        ("long", [{"fromType": "string", "toType": "long"}], "from string to long"),
        ("long", [{"fromType": "integer", "toType": "long"}, {"fromType": "long", "toType": "short"}], "long to short"),
        ("double", [{"fromType": "long", "toType": "double", "fieldPath": "element"}], "from long to double"),
        ("long", [{"fromType": "blob", "toType": "long"}], "from blob to long"),
        ("long", "unreadable", "cannot be read"),
        ("long", [7], "cannot be read"),
        ("long", [{"toType": "long"}], "cannot be read"),
    ],
)
def test_rows_are_refused_and_files_listed(tmp_path: Path, kind: str, changes: Any, named: str) -> None:
    changed(tmp_path, kind, changes)
    for indexed in (False, True):
        table = DeltaTable(str(tmp_path))
        assert [f.path for f in table.file_infos()] == ["f.parquet"]
        assert [f.path for f in table.file_infos("y = 3")] == ["f.parquet"]
        assert [f.path for f in table.file_infos("y = 5")] == []
        for read in (table.to_batches, table.to_pyarrow_table, table.to_pandas, table.to_pyarrow_dataset, table.scan):
            with pytest.raises(UnsupportedTypeError, match=f"'x'.*{named}"):
                read()
        with pytest.raises(UnsupportedTypeError, match="'x'"):
            table.to_batches(columns=["y"])
        assert table.count() == 2
        if not indexed:
            build_index(open_store(str(tmp_path)))


def test_a_nested_column_is_named(tmp_path: Path) -> None:
    changes = {"delta.typeChanges": [{"fromType": "date", "toType": "long"}]}
    inner = {"type": "struct", "fields": [column("z", "long", metadata=changes)]}
    changed(tmp_path, {"type": "array", "elementType": inner, "containsNull": True}, None, inside=True)
    with pytest.raises(UnsupportedTypeError, match=r"'x\.element\.z' was changed from date to long"):
        DeltaTable(str(tmp_path)).to_pyarrow_table()


def test_bounds_of_another_type_prune_nothing(tmp_path: Path) -> None:
    """As text, 9 is above 10: bounds of the time before the change say nothing of numbers."""
    changed(tmp_path, "long", [{"fromType": "string", "toType": "long"}])
    for indexed in (False, True):
        assert [f.path for f in DeltaTable(str(tmp_path)).file_infos("x > 5")] == ["f.parquet"]
        if not indexed:
            build_index(open_store(str(tmp_path)))


def test_a_widened_column_is_read(tmp_path: Path) -> None:
    changed(tmp_path, "decimal(20,0)", [{"fromType": "long", "toType": "decimal(20,0)"}])
    assert DeltaTable(str(tmp_path)).to_pyarrow_table(columns=["x"])["x"].to_pylist() == [1, 2]
