"""Conditions on partition values of every type: the rows are those that pyarrow's own filter keeps."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import build_index
from delta_sidecar.storage import open_store
from tests.predicates.arrow_expressions import DAY, leaves, truths

CONDITIONS = 120
MOMENT = dt.datetime(1970, 1, 2)
ROWS = pa.table(
    {
        "id": range(4),
        "long": pa.array([0, 3, None, 2**53 + 1], pa.int64()),
        "byte": pa.array([3, None, -1, 0], pa.int8()),
        "text": ["a", "ab", None, "é"],
        "day": [MOMENT.date(), None, dt.date(1969, 12, 31), dt.date(1970, 1, 1)],
        "at": pa.array([0, DAY, None, DAY + 1], pa.timestamp("us", "UTC")),
        "wall": pa.array([DAY, None, 0, -1], pa.timestamp("us")),
        "amount": pa.array([Decimal("1.50"), Decimal("3.00"), None, Decimal("0.01")], pa.decimal128(12, 2)),
        "flag": [True, False, None, True],
        "ratio": [0.1, 1.5, None, 3.0],
    }
)
NAMES = [name for name in ROWS.column_names if name != "id"]


@pytest.mark.slow
@pytest.mark.parametrize("zone", [pytest.param("UTC", marks=pytest.mark.slow), "Asia/Tokyo"])
def test_conditions_on_partition_values(tmp_path: Path, zone: str) -> None:
    """An instant is one whatever zone the texts of the log are read in."""
    write_deltalake(tmp_path, ROWS, partition_by=NAMES)
    build_index(open_store(tmp_path))
    table = DeltaTable(tmp_path, options={"delta.sidecar.partition_timezone": zone})
    (rows,) = table.to_pyarrow_table().combine_chunks().to_batches()
    dataset = table.to_pyarrow_dataset()
    every = [leaf for leaf in leaves(map(pc.field, NAMES)) if truths(leaf, rows) is not None]
    left_out = 0
    for condition in random.Random(7).sample(every, CONDITIONS):
        for expression in (condition, pc.invert(condition)):
            kept = truths(expression, rows)
            assert kept is not None
            wanted = sorted(n for n, is_kept in zip(rows["id"].to_pylist(), kept, strict=True) if is_kept)
            assert sorted(dataset.to_table(columns=["id"], filter=expression)["id"].to_pylist()) == wanted, expression
            listed = len(dataset.get_fragments(expression))
            assert listed >= len(wanted)
            left_out += rows.num_rows - listed
    assert left_out > CONDITIONS, "files are left out"
