"""Our change reader gives the rows of Spark's change feed: after random operations, for random ranges of versions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_sidecar import (
    DeltaSidecarError,
    DeltaTable,
    NoChangeFeedError,
    SchemaChangedError,
    VersionAfterLatestError,
    VersionRangeError,
)
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEED = "'delta.enableChangeDataFeed' = 'true'"
CREATE = "CREATE TABLE {t} (id BIGINT, part STRING, note STRING, amount DECIMAL(10,2)) USING delta"
ROWS = "SELECT id, concat('p', id % 3), concat('n', id), CAST(id / 4 AS DECIMAL(10,2)) FROM range({low}, {high})"
MERGE = """MERGE INTO {t} t USING (SELECT id * 2 AS id FROM range({low}, {high})) s ON t.id = s.id
    WHEN MATCHED AND s.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = concat(note, 'm')
    WHEN NOT MATCHED THEN INSERT (id, part, note) VALUES (s.id, 'p1', 'new')"""
STEPS = {
    "insert": "INSERT INTO {t} (id, part, note, amount) " + ROWS,
    "delete": "DELETE FROM {t} WHERE id % {n} = 0",
    "delete a partition": "DELETE FROM {t} WHERE part = 'p{n}'",
    "update": "UPDATE {t} SET note = 'changed', amount = amount + 1 WHERE id % {n} = 1",
    "update the key": "UPDATE {t} SET id = id + 1000, part = 'p9' WHERE id % {n} = 2",
    "merge": MERGE,
    "overwrite": "INSERT OVERWRITE {t} (id, part, note, amount) " + ROWS,
    "optimize": "OPTIMIZE {t}",
    "add a column": "ALTER TABLE {t} ADD COLUMNS (c{unique} INT)",
    "restore": "RESTORE TABLE {t} TO VERSION AS OF {version}",
    "switch vectors": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{flag}')",
}
VECTORS, REWRITES = "'delta.enableDeletionVectors' = 'true'", "'delta.enableDeletionVectors' = 'false'"
BY_NAME, BY_ID = "'delta.columnMapping.mode' = 'name'", "'delta.columnMapping.mode' = 'id'"
IN_COMMIT = "'delta.enableInCommitTimestamps' = 'true'"
PARTITIONED = " PARTITIONED BY (part)"
KINDS = {
    "vectors": ("", [VECTORS]),
    "vectors, by name": (PARTITIONED, [VECTORS, BY_NAME, IN_COMMIT]),
    "vectors, by id": ("", [VECTORS, BY_ID]),
    "rewrites": ("", [REWRITES]),
    "rewrites, partitioned": (PARTITIONED, [REWRITES, IN_COMMIT]),
    "rewrites, by id": (PARTITIONED, [REWRITES, BY_ID]),
}
USUAL = {
    "vectors, by name": ["delete", "merge", "add a column", "update the key", "restore"],
    "rewrites": ["update", "insert", "overwrite", "optimize"],
}
"""What every run tries, in random order."""
CASES = int(os.environ.get("DELTA_SIDECAR_CHANGE_CASES", "0"))
"""Histories of a dozen random steps to try in addition."""


def feed(table: SparkTable, start: int, end: int) -> DataFrame:
    options = {"readChangeFeed": "true", "startingVersion": str(start), "endingVersion": str(end)}
    return table.spark.read.format("delta").options(**options).load(str(table.root))


def rows(table: pa.Table, names: list[str]) -> Counter[str]:
    return Counter(repr([row[name] for name in names]) for row in table.to_pylist())


def assert_same(table: SparkTable, start: int, end: int) -> None:
    """Spark's feed may have columns that come later: they hold nothing."""
    ours, theirs = pa.table(DeltaTable(table.root).changes(start, end)), feed(table, start, end).toArrow()
    names = ours.column_names
    assert set(names) <= set(theirs.column_names)
    assert [theirs[n].null_count for n in set(theirs.column_names) - set(names)] == [theirs.num_rows] * (
        theirs.num_columns - len(names)
    )
    found, expected = rows(ours, names), rows(theirs, names)
    assert found == expected, (start, end, found - expected, expected - found)
    assert ours["_commit_version"].to_pylist() == sorted(ours["_commit_version"].to_pylist())
    chosen = pa.table(DeltaTable(table.root).changes(start, end, predicate="id > 25 AND note < 'n8'"))
    condition = (pc.field("id") > 25) & (pc.field("note") < "n8")
    assert rows(chosen, names) == rows(theirs.filter(condition), names), (start, end)


def step(name: str, random: Random, version: int, since: int) -> str:
    """A statement. What was restored to a schema before `since` has lost columns, and Spark refuses its feed."""
    low = random.randrange(40)
    return STEPS[name].format(
        t="{t}",
        n=random.randint(2, 4),
        low=low,
        high=low + random.randint(1, 15),
        unique=version,
        version=random.randint(since, version),
        flag=random.choice(["true", "false"]),
    )


def check_history(table: SparkTable, kind: str, steps: Sequence[str], random: Random, ranges: int) -> None:
    partitioned, properties = KINDS[kind]
    table.sql(f"{CREATE}{partitioned} TBLPROPERTIES ({', '.join([FEED, *properties])})")
    table.sql("INSERT INTO {t} " + ROWS.format(low=0, high=30))
    since = 1
    for name in steps:
        version = DeltaTable(table.root).version()
        table.sql(step(name, random, version, since))
        since = version + 1 if name == "add a column" else since
    head = DeltaTable(table.root).version()
    assert_same(table, 0, head)
    for _ in range(ranges):
        start = random.randint(0, head)
        assert_same(table, start, random.randint(start, head))


@pytest.mark.parametrize("case", [*USUAL, *range(CASES)])
def test_changes_are_those_of_spark(table: SparkTable, case: str | int) -> None:
    random = Random(f"changes: {case}")
    if isinstance(case, str):
        check_history(table, case, random.sample(USUAL[case], len(USUAL[case])), random, ranges=1)
    else:
        check_history(table, random.choice(list(KINDS)), random.choices(list(STEPS), k=12), random, ranges=4)


def test_what_spark_refuses_is_refused(table: SparkTable) -> None:
    """The feed is turned on at version 1; version 3 changes the type of a column."""
    table.sql(CREATE, f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEED})", "INSERT INTO {t} VALUES (1, 'p', 'n', 1.5)")
    other = table.spark.sql("SELECT 'text' AS id, 'p' AS part, 'n' AS note, 1.5 AS amount")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(table.root))
    refused: dict[tuple[int, int], tuple[str, type[DeltaSidecarError]]] = {
        (0, 2): ("DELTA_MISSING_CHANGE_DATA", NoChangeFeedError),
        (2, 3): ("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE", SchemaChangedError),
        (4, 5): ("DELTA_CDC_START_VERSION_AFTER_LATEST", VersionAfterLatestError),
        (3, 2): ("DELTA_INVALID_CDC_RANGE", VersionRangeError),
    }
    for (start, end), (condition, error) in refused.items():
        with pytest.raises(Exception, match=condition):
            feed(table, start, end).collect()
        with pytest.raises(error):
            DeltaTable(table.root).changes(start, end)
    assert pa.table(DeltaTable(table.root).changes(1, 2)).num_rows == 1
