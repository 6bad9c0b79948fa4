"""After every kind of change by delta-spark the next index, on top of the last or whole, is what the log says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.index.format.index_names import DIRECTORIES
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.pipeline.spark_build import build_index
from delta_sidecar.storage import open_store
from tests.integration.same import local_paths
from tests.integration.spark.indexed import AS_IF_LARGE, build_on_top, build_whole, check_index, read_files, verified
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CREATE = """CREATE TABLE {t} (id BIGINT, day STRING, note STRING, amount DECIMAL(10,2), at TIMESTAMP) USING delta
    PARTITIONED BY (day) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"""
ROWS = """SELECT id, concat('2026-01-0', id % 3 + 1), concat('n', id), CAST(id / 4 AS DECIMAL(10,2)),
    TIMESTAMP'2026-01-01 00:00:00Z' + make_dt_interval(0, CAST(id AS INT)) FROM range({low}, {high})"""

CHANGES: dict[str, Sequence[str]] = {
    "append": [f"INSERT INTO {{t}} {ROWS.format(low=100, high=110)}"],
    "optimize": ["OPTIMIZE {t} WHERE day = '2026-01-02'"],
    "zorder": ["OPTIMIZE {t} ZORDER BY (id)"],
    "delete with vectors": ["DELETE FROM {t} WHERE id % 5 = 0"],
    "delete twice": ["DELETE FROM {t} WHERE id % 5 = 0", "DELETE FROM {t} WHERE id % 7 = 0"],
    "delete a partition": ["DELETE FROM {t} WHERE day = '2026-01-03'"],
    "purge": ["DELETE FROM {t} WHERE id % 5 = 0", "REORG TABLE {t} APPLY (PURGE)"],
    "update": ["UPDATE {t} SET note = 'changed' WHERE id % 4 = 0"],
    "merge": [
        """MERGE INTO {t} t USING (SELECT id * 3 AS id FROM range(30)) s ON t.id = s.id
        WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged'
        WHEN NOT MATCHED THEN INSERT (id, day, note) VALUES (s.id, '2026-01-09', 'new')"""
    ],
    "add a column": [
        "ALTER TABLE {t} ADD COLUMNS (extra INT, deep STRUCT<a: INT, b: STRING>)",
        "INSERT INTO {t} VALUES (200, '2026-01-01', 'x', 1.5, NULL, 7, named_struct('a', 1, 'b', 'y'))",
    ],
    "rename a column": ["ALTER TABLE {t} RENAME COLUMN note TO remark"],
    "rename the partition column": ["ALTER TABLE {t} RENAME COLUMN day TO date"],
    "drop a column": ["ALTER TABLE {t} DROP COLUMN amount", "INSERT INTO {t} VALUES (201, '2026-01-01', 'x', NULL)"],
    "restore": ["DELETE FROM {t} WHERE id % 2 = 0", "RESTORE TABLE {t} TO VERSION AS OF 1"],
    "overwrite": [f"INSERT OVERWRITE {{t}} {ROWS.format(low=500, high=505)}"],
    "overwrite a partition": [f"INSERT INTO {{t}} REPLACE WHERE day = '2026-01-02' {ROWS.format(low=1, high=2)}"],
    "truncate": ["DELETE FROM {t}"],
    "replace the table": [
        "REPLACE TABLE {t} (other DOUBLE, at DATE) USING delta PARTITIONED BY (at)",
        "INSERT INTO {t} VALUES (1.5, DATE'2026-01-01'), (2.5, DATE'2026-01-02')",
    ],
    "v2 checkpoints from here": [
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1')",
        f"INSERT INTO {{t}} {ROWS.format(low=300, high=306)}",
    ],
    "a checkpoint": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')"],
}
ANEW = ("replace the table", "v2 checkpoints from here")
"""After these there is nothing to build on: another sort key, another directory."""
ALSO_WHOLE = ("delete twice", "merge", "drop a column", "truncate")
"""After these the whole index is built, too: vectors, columns that came and went, nothing at all."""


TELLING = ("delete twice", "merge", "drop a column", "overwrite a partition", "truncate", "replace the table")
"""The others differ from these in what Spark does, not in what the builder does."""


def _changes() -> Iterator[object]:
    for change in CHANGES:
        yield pytest.param(change, marks=[] if change in TELLING else [pytest.mark.long])


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkTable:
    """A table of three partitions and several files each, indexed as if it were large."""
    table = SparkTable(spark, tmp_path_factory.mktemp("original") / "table").sql(CREATE)
    for low in (0, 20, 40):
        table.sql(f"INSERT INTO {{t}} {ROWS.format(low=low, high=low + 20)}")
    report = build_whole(table)
    assert (report.mode, report.engine, report.version) == ("full", "spark", 3)
    assert report.parts > 2
    check_index(table)
    return table


@pytest.fixture
def copy(original: SparkTable, tmp_path: Path) -> SparkTable:
    """A table of one's own, with its index: names are relative, so a copy is as good as the original."""
    shutil.copytree(original.root, tmp_path / "table", copy_function=shutil.copy2)
    return SparkTable(original.spark, tmp_path / "table")


@pytest.mark.parametrize("change", [*_changes()])
def test_the_index_follows_a_change(copy: SparkTable, change: str) -> None:
    copy.sql(*CHANGES[change])
    report = build_on_top(copy)
    anew = change in ANEW
    assert (report.mode, report.engine) == (("full", "spark") if anew else ("incremental", "process"))
    check_index(copy)
    if change in ALSO_WHOLE:
        assert build_whole(copy).engine == "spark"
        check_index(copy)


def test_files_with_rows_are_in_the_index(copy: SparkTable, spark: SparkSession) -> None:
    copy.sql(*CHANGES["merge"], *CHANGES["optimize"])
    build_on_top(copy)
    paths, _ = verified(open_store(copy.root))
    assert {f"{copy.root}/{path}" for path in paths} >= set(read_files(spark, copy))


def test_an_older_version_gets_an_index_too(copy: SparkTable) -> None:
    for directory in DIRECTORIES:
        shutil.rmtree(copy.root / directory, ignore_errors=True)
    copy.sql(*CHANGES["truncate"])
    build_index(str(copy.root), version=2, options=BuildOptions(engine="spark", limits=AS_IF_LARGE), spark=copy.spark)
    paths, _ = verified(open_store(copy.root), 2)
    assert sorted(f"{copy.root}/{path}" for path in paths) == local_paths(copy.frame(2).inputFiles())


COLUMNS = "(id, day, note, amount, at)"
RANDOM_STEPS = (
    "INSERT INTO {t} {columns} {rows}",
    "INSERT INTO {t} {columns} {rows}",
    "DELETE FROM {t} WHERE id % {n} = 0",
    "UPDATE {t} SET amount = amount + 1 WHERE id % {n} = 1",
    "OPTIMIZE {t}",
    "OPTIMIZE {t} WHERE day = '2026-01-0{n}'",
    "REORG TABLE {t} APPLY (PURGE)",
    "RESTORE TABLE {t} TO VERSION AS OF {version}",
    "INSERT OVERWRITE {t} {columns} {rows}",
    "ALTER TABLE {t} ADD COLUMNS (c{unique} INT)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '{n}')",
)


def random_step(random: Random, version: int) -> str:
    low = random.randrange(1000)
    given = {
        "n": random.randint(1, 5),
        "version": random.randint(max(1, version - 3), version),
        "rows": ROWS.format(low=low, high=low + random.randint(1, 8)),
        "columns": COLUMNS,
        "unique": version,
    }
    return random.choice(RANDOM_STEPS).replace("{t}", "{{t}}").format(**given)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.long
def test_random_changes_with_indexes_in_between(copy: SparkTable, seed: int) -> None:
    random, store = Random(seed), open_store(copy.root)
    for _ in range(7):
        copy.sql(random_step(random, load_snapshot(store).version))
        if random.random() < 0.6:
            build_on_top(copy)
            verified(store)
    build_on_top(copy)
    check_index(copy)
