"""Files in groups by their bytes, and the bytes that a group travels as."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from delta_sidecar.engines.spark.file_groups import Splitting, grouped, packed, parse_bytes, unpacked
from delta_sidecar.errors import OptionError
from delta_sidecar.pruning.listing_columns import output_schema

COLUMNS = ("path", "size", "partition_values", "deletion_vector")
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab", "offset": 1, "sizeInBytes": 36, "cardinality": 2}


def listing(*sizes: int | None, vector: object = None) -> pa.RecordBatch:
    rows = [
        {"path": f"hour=2026021022/part-{n:05d}-0b7a1c52.parquet", "size": size, "deletion_vector": vector}
        | {"partition_values": [("hour", "2026021022")]}
        for n, size in enumerate(sizes)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=output_schema(COLUMNS))


def counts(batches: list[pa.RecordBatch], splitting: Splitting) -> list[int]:
    return [sum(part.num_rows for part in group) for group in grouped(batches, splitting)]


def test_groups_are_filled_by_bytes_and_keep_the_order() -> None:
    batches = [listing(60, 60, 10), listing(10, 200, 5)]
    splitting = Splitting(max_bytes=100, open_cost=1)
    assert counts(batches, splitting) == [1, 3, 1, 1]
    paths = [p for group in grouped(batches, splitting) for part in group for p in part["path"].to_pylist()]
    assert paths == [p for batch in batches for p in batch["path"].to_pylist()]


def test_small_files_share_a_task_and_all_cores_get_one() -> None:
    small = [listing(*[1000] * 100)]
    assert counts(small, Splitting()) == [31, 31, 31, 7]
    assert counts(small, Splitting(cores=16)) == [6] * 16 + [4]
    assert counts([listing(None, None)], Splitting(cores=1)) == [2]
    assert counts([], Splitting(cores=4)) == []


def test_a_group_travels_as_few_bytes() -> None:
    (group,) = grouped([listing(*range(1, 1001))], Splitting(max_bytes=1 << 40))
    data = packed(group)
    assert len(pickle.dumps(data)) < 20 * 1000
    (back,) = unpacked(data)
    assert back.schema.names == ["path", "size", "partition_values"]
    assert back.to_pylist() == [
        {k: v for k, v in row.items() if k != "deletion_vector"} for row in group[0].to_pylist()
    ]


def test_deletion_vectors_travel_along() -> None:
    (back,) = unpacked(packed([listing(1), listing(2, vector=VECTOR)]))
    found = back.column("deletion_vector").to_pylist()
    assert found[0] is None
    assert VECTOR.items() <= found[1].items()


@pytest.mark.parametrize(("text", "expected"), [("134217728b", 128 << 20), ("128m", 128 << 20), ("1G", 1 << 30)])
def test_sizes_as_spark_writes_them(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(OptionError, match="'much' is not a number of bytes; write it like 128m"):
        parse_bytes("much")
