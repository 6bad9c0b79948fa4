"""Where a checkpoint has typed stats for every file, the text of its stats is not read."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.testing import LogBuilder, add


def stats(value: int | None) -> dict[str, object]:
    bounds = {} if value is None else {"x": value}
    note = random.Random(value).randbytes(2_000).hex()
    nulls = {"x": 0 if bounds else 1}
    return {"numRecords": 1, "note": note, "minValues": bounds, "maxValues": bounds, "nullCount": nulls}


def text_bytes(root: Path) -> int:
    metadata = pq.read_metadata(next(root.rglob("*.checkpoint.parquet")))
    chunks = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    return sum(c.total_compressed_size for c in chunks if c.path_in_schema == "add.stats")


@pytest.mark.parametrize(("values", "read"), [([1, 2, 3], False), ([1, None, 3], True)])
def test_the_text_is_read_only_where_a_typed_leaf_is_missing(
    tmp_path: Path, values: list[int | None], read: bool
) -> None:
    files = [add(f"part-{i:05d}.parquet", stats=stats(v)) for i, v in enumerate(values)]
    built = LogBuilder(tmp_path).metadata({"x": "long"}).commit(*files).checkpoint(stats_parsed=True, stats=True)
    table = DeltaTable(str(built.root))
    with table.scan_files("x = 3") as narrow:
        found = narrow.read_all().column("path").to_pylist()
    with table.scan_files(columns=["path"]) as listing:
        listing.read_all()
    assert found == ["part-00002.parquet"]
    extra = narrow.metrics.bytes_read - listing.metrics.bytes_read
    assert (extra >= text_bytes(built.root)) is read
