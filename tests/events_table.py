"""The table that the guides and the examples of docstrings are about."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa

from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.table_builder import LogBuilder

FIRST_HOUR = 1_770_753_600_000_000
"""2026-02-10T20:00:00Z, in microseconds."""


def write_events(root: Path) -> None:
    """Four hours, two events each, a commit an hour; with a change feed."""
    columns = {"ts": "timestamp", "id": "long", "value": "double", "_event_hour": "string"}
    builder = LogBuilder(root).metadata(columns, ["_event_hour"], {"delta.enableChangeDataFeed": "true"})
    for hour in range(4):
        start = FIRST_HOUR + hour * 3_600_000_000
        rows = pa.table(
            {
                "ts": pa.array([start, start + 1_800_000_000], pa.timestamp("us", "UTC")),
                "id": pa.array([2 * hour, 2 * hour + 1], pa.int64()),
                "value": [0.5, math.nan],
            }
        )
        path = f"_event_hour=20260210{20 + hour}/part-0.parquet"
        builder.commit(write_data_file(root, path, rows, partition={"_event_hour": f"20260210{20 + hour}"}))
