"""Example 4 of the founding note, as written there but for the import: a `deltalake` program that changes one line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.table_builder import LogBuilder

PROGRAM = """
import delta_sidecar as deltalake

# Open table — identical to today
dt = deltalake.DeltaTable(
    "abfss://container@account.dfs.core.windows.net/table",
    storage_options=azure_credentials(),
)

# Option A: Get file URIs as a lazy iterator (for custom processing)
# Internally streams from sidecar with bounded memory
for file_info in dt.file_infos(predicate="_event_hour >= '2026021022'"):
    print(f"File: {file_info.path}, Size: {file_info.size}")
    # Process immediately — don't wait for all files

# Option B: Convert to PyArrow dataset (standard path)
# Sidecar optimization happens transparently during file discovery
dataset = dt.to_pyarrow_dataset(
    partitions=[("_event_hour", ">=", "2026021022")],
)
table = dataset.to_table(columns=["device_id", "value", "timestamp"])
print(f"Got {table.num_rows} rows from {len(dataset.get_fragments())} files")

# Option C: Use with pandas (small result sets)
df = dt.to_pandas(
    partitions=[("_event_hour", "=", "2026021023")],
    columns=["device_id", "value"],
)
"""
PLACE = "abfss://container@account.dfs.core.windows.net/table"
HOURS = ["2026021020", "2026021021", "2026021022", "2026021023"]


def write_table(root: Path) -> None:
    builder = LogBuilder(root).metadata(
        {"device_id": "string", "value": "double", "timestamp": "timestamp", "_event_hour": "string"},
        partition_by=["_event_hour"],
    )
    for place, hour in enumerate(HOURS):
        rows = pa.table(
            {
                "device_id": [f"sensor-{place}", "sensor-42"],
                "value": [float(place), 0.5],
                "timestamp": pa.array([place, place + 1], pa.timestamp("us", "UTC")),
            }
        )
        path = f"_event_hour={hour}/part-0.parquet"
        builder.commit(write_data_file(root, path, rows, partition={"_event_hour": hour}))


def test_example_4_runs_with_the_import_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(tmp_path)
    names: dict[str, object] = {"azure_credentials": dict}
    exec(compile(PROGRAM.replace(PLACE, str(tmp_path)), "example 4", "exec"), names)
    *files, got = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in files] == [
        "File: _event_hour=2026021023/part-0.parquet",
        "File: _event_hour=2026021022/part-0.parquet",
    ]
    assert got == "Got 4 rows from 2 files"
    frame = names["df"]
    assert list(frame.columns) == ["device_id", "value"]
    assert frame["device_id"].tolist() == ["sensor-3", "sensor-42"]
