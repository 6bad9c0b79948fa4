"""Which range of the index a row goes to."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from delta_sidecar.pipeline.spark_build import SHARE_ROWS, _edges, _row_shares
from delta_sidecar.pipeline.tasks import range_numbers, unpacked


def rank(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["key"] is not None, row["key"] or 0, row["modification_time"], row["path"]


def test_a_range_begins_at_its_edge_and_the_greatest_keys_come_first() -> None:
    chosen = random.Random(1)
    for _ in range(200):
        count = chosen.randint(8, 40)
        keys = pa.table(
            {
                "key": pa.array([chosen.choice([None, 1, 2, 3]) for _ in range(count)], pa.int64()),
                "modification_time": pa.array([chosen.randint(0, 2) for _ in range(count)], pa.int64()),
                "path": [str(number) for number in range(count)],
            }
        )
        edges = _edges(keys, chosen.randint(2, 6))
        assert edges is not None
        numbers = range_numbers(edges, keys.combine_chunks().to_batches()[0]).tolist()
        begins = [rank(edge) for edge in edges.to_pylist()]
        assert begins == sorted(begins, reverse=True)
        assert numbers == [sum(edge >= rank(row) for edge in begins) for row in keys.to_pylist()]


def test_small_batches_are_shared_out_together() -> None:
    sizes = [1] * 500 + [SHARE_ROWS, 3, SHARE_ROWS - 3, 1]
    batches = [pa.record_batch({"at": pa.repeat(pa.scalar(at, pa.int32()), size)}) for at, size in enumerate(sizes)]
    shares = _row_shares(batches)
    rows = [list(unpacked(share.rows or b"")) for share in shares]
    assert [sum(batch.num_rows for batch in share) for share in rows] == [500, SHARE_ROWS, SHARE_ROWS, 1]
    assert [batch for share in rows for batch in share] == batches
    assert _row_shares([]) == []
