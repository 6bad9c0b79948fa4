"""What an engine's filter costs: the parts and bytes of the index that the same predicate in SQL costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.stores import CountingStore
from tests.costs.counted import counted, opened
from tests.costs.hourly import BUCKET, bucket, hourly, moment

HEAD = 12


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    """Nothing is remembered from before."""
    shared_cache.clear()
    yield
    shared_cache.clear()


@pytest.mark.parametrize(
    ("sql", "expression", "files"),
    [
        (f"ts >= '{moment(10).isoformat()}'", pc.field("ts") >= moment(10), 12),
        (f"{BUCKET} = '{bucket(3)}'", pc.field(BUCKET) == bucket(3), 4),
        ("m in (3, 5)", pc.if_else(pc.field("m").is_valid(), pc.field("m").isin([3, 5]), pc.scalar(None)), 8),
        ("m > 100", pc.field("m") > 100, 0),
    ],
)
def test_an_expression_reads_what_sql_reads(tmp_path: Path, sql: str, expression: pc.Expression, files: int) -> None:
    hourly(tmp_path, head=HEAD, index=HEAD)
    stores: list[CountingStore] = []
    for by_dataset in (False, True):
        shared_cache.clear()
        stores.append(counted(tmp_path))
        table = opened(stores[-1])
        stores[-1].reset()
        if by_dataset:
            assert len(table.to_pyarrow_dataset().get_fragments(expression)) == files
        else:
            columns = ["path", "size", "partition_values", "deletion_vector"]
            assert table.scan_files(sql, columns).read_all().num_rows == files
    by_sql, by_expression = map(of_parts, stores)
    assert by_expression == by_sql
    assert by_sql, "parts are read"


def of_parts(store: CountingStore) -> list[tuple[str, str, int, int]]:
    """The requests for parts; those of the opening may still be under way beside them."""
    parts = (request for request in store.requests if request.path.endswith(".parquet"))
    return sorted((request.verb, request.path, request.start, request.bytes) for request in parts)
