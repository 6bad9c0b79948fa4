"""After random DELETE, UPDATE, MERGE, OPTIMIZE and RESTORE, what a companion finds is what a scan of the rows finds."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar.search import Companion, SplitCache, follow, merge_splits, rows_of_hits
from tests.integration.spark.oracle import SparkTable
from tests.search.test_companion import hits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = int(os.environ.get("DELTA_SIDECAR_COMPANION_CASES", "1"))
STEPS = 6 if "DELTA_SIDECAR_COMPANION_CASES" in os.environ else 3
CREATE = "CREATE TABLE {t} (id BIGINT, part STRING, body STRING) USING delta"
ROWS = "SELECT id, concat('p', id % 3), concat_ws(' ', 'line', id, 'word', id % 7) FROM range({low}, {high})"
MERGE = """MERGE INTO {t} t USING (SELECT id * 2 AS id FROM range({low}, {high})) s ON t.id = s.id
    WHEN MATCHED AND s.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET body = concat(body, ' merged')
    WHEN NOT MATCHED THEN INSERT (id, part, body) VALUES (s.id, 'p1', 'new line')"""
OPERATIONS = {
    "insert": "INSERT INTO {t} (id, part, body) " + ROWS,
    "delete": "DELETE FROM {t} WHERE id % {n} = 0",
    "update": "UPDATE {t} SET body = concat(body, ' changed{n}') WHERE id % {n} = 1",
    "merge": MERGE,
    "optimize": "OPTIMIZE {t}",
    "restore": "RESTORE TABLE {t} TO VERSION AS OF {version}",
}
KINDS = [
    ("", "'delta.enableDeletionVectors' = 'true'"),
    (" PARTITIONED BY (part)", "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'"),
]


@pytest.mark.parametrize("seed", range(CASES))
def test_search_is_a_scan_of_the_rows(spark: SparkSession, table: SparkTable, seed: int) -> None:
    dice, cache = Random(seed), SplitCache()
    partitioned, properties = KINDS[seed % len(KINDS)]
    uri = str(table.root)
    table.sql(f"{CREATE}{partitioned} TBLPROPERTIES ({properties})")
    table.sql("INSERT INTO {t} (id, part, body) " + ROWS.format(low=0, high=200))
    follow(uri, text=["body"], key=["id"], rows_per_split=150)
    names = list(OPERATIONS)
    dice.shuffle(names)
    for number in range(STEPS):
        name = names[number % len(names)]
        low = dice.randrange(300)
        made = {"low": low, "high": low + dice.randrange(1, 60), "n": dice.randrange(2, 8)}
        table.sql(
            OPERATIONS[name].format(t="{t}", version=dice.randrange(1, Companion(uri).table.version() + 1), **made)
        )
        if dice.random() < 0.7:
            before = Companion(uri).lag()
            report = follow(uri, engine="spark", spark=spark) if number == 1 else follow(uri)
            assert report.indexed_files == before.files
            assert Companion(uri).lag().is_in_step
            compare(table, cache, name)
        if dice.random() < 0.3:
            merge_splits(f"{uri}/_search")
    follow(uri)
    compare(table, cache, "the end")


def compare(table: SparkTable, cache: SplitCache, after: str) -> None:
    companion = Companion(table.root)
    rows, _ = rows_of_hits(companion, *hits(companion, cache=cache), ["id", "body"])
    expected = companion.table.to_pyarrow_table(columns=["id", "body"])
    assert sorted(map(str, rows.to_pylist())) == sorted(map(str, expected.to_pylist())), after
