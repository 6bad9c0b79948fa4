"""Tables as delta-spark writes them, with every feature that changes which files are live or what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.spark.oracle import SparkTable, with_setting


def test_deletion_vectors(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, name STRING, v DOUBLE) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '4')",
        "INSERT INTO {t} SELECT /*+ REPARTITION(2) */ id, concat('n', id), id / 3 FROM range(0, 40)",
        "DELETE FROM {t} WHERE id % 7 = 3",
        "UPDATE {t} SET name = 'changed' WHERE id < 5",
        "DELETE FROM {t} WHERE id % 7 = 4",
        "MERGE INTO {t} AS t USING (SELECT explode(sequence(30, 50)) AS id) AS s ON t.id = s.id "
        "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1.0 "
        "WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (s.id, 'new', 0.5)",
        "DELETE FROM {t} WHERE id = 0",
    )
    head = table.check(
        ["id >= 30 AND v < 0", "name = 'changed'", "name LIKE 'n1%'", "NOT id < 48"], rows_at=[2, 3, 5, 6]
    )
    assert any(f.deletion_vector for f in head.file_infos())
    assert head.count() == table.frame().count()


def test_column_mapping_by_name(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, p STRING, s STRUCT<a: INT, b: STRING>, gone INT) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 'x', named_struct('a', 1, 'b', 'one'), 10), (2, 'y', NULL, 20)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5')",
        "ALTER TABLE {t} RENAME COLUMN id TO key",
        "ALTER TABLE {t} RENAME COLUMN s.a TO alpha",
        "ALTER TABLE {t} RENAME COLUMN p TO `part of it`",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ADD COLUMNS (gone STRING)",
        "INSERT INTO {t} VALUES (3, 'x', named_struct('alpha', 3, 'b', 'three'), 'back'), (4, NULL, NULL, NULL)",
    )
    table.check(["key > 1", "`part of it` = 'x'", "s.alpha = 3", "gone IS NULL", "`part of it` IS NULL"], [1, 2, 6])


@pytest.mark.long
def test_column_mapping_by_id(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (`a b` BIGINT, `c,d` STRING, m MAP<STRING, STRUCT<x: INT>>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
        "INSERT INTO {t} VALUES (1, 'one', map('k', named_struct('x', 1))), (2, NULL, NULL)",
        "ALTER TABLE {t} RENAME COLUMN `a b` TO b",
        "ALTER TABLE {t} DROP COLUMN `c,d`",
        "ALTER TABLE {t} ADD COLUMNS (`a b` STRING)",
        "INSERT INTO {t} VALUES (3, map(), 'three')",
    )
    table.check(["b >= 2", "`a b` = 'three'", "`a b` IS NULL"], [1, 3])


@pytest.mark.parametrize("top", ["json", pytest.param("parquet", marks=pytest.mark.long)])
def test_v2_checkpoints(table: SparkTable, top: str) -> None:
    with with_setting(table.spark, "spark.databricks.delta.checkpointV2.topLevelFileFormat", top):
        table.sql(
            "CREATE TABLE {t} (id BIGINT, d DATE) USING delta PARTITIONED BY (d) TBLPROPERTIES "
            "('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2', "
            "'delta.enableDeletionVectors' = 'true')",
            "INSERT INTO {t} SELECT id, date_add(DATE'2026-01-01', CAST(id % 3 AS INT)) FROM range(9)",
            "DELETE FROM {t} WHERE id = 4",
            "INSERT INTO {t} VALUES (100, NULL)",
            "DELETE FROM {t} WHERE d = DATE'2026-01-02'",
            "INSERT INTO {t} VALUES (101, DATE'2026-01-05')",
        )
    names = table.log_names()
    assert any(".checkpoint." in name and name.endswith(f".{top}") and len(name) > 60 for name in names)
    head = table.check(["d >= DATE'2026-01-02'", "d IS NULL", "id > 5 AND d < DATE'2026-02-01'"])
    assert head.snapshot.segment.base is not None


@pytest.mark.long
def test_multi_part_checkpoints(table: SparkTable) -> None:
    with with_setting(table.spark, "spark.databricks.delta.checkpoint.partSize", "3"):
        table.sql(
            "CREATE TABLE {t} (id BIGINT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '3')",
            "INSERT INTO {t} SELECT /*+ REPARTITION(4) */ id FROM range(20)",
            "INSERT INTO {t} SELECT /*+ REPARTITION(4) */ id + 20 FROM range(20)",
            "DELETE FROM {t} WHERE id < 3",
            "INSERT INTO {t} VALUES (77)",
        )
    assert sum(".checkpoint.0000" in name for name in table.log_names()) > 1
    head = table.check(["id >= 20"])
    assert len(head.snapshot.segment.base.files) > 1  # type: ignore[union-attr]


def test_type_widening(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (a TINYINT, b INT, f FLOAT, n DECIMAL(6, 2), p SMALLINT) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "INSERT INTO {t} VALUES (1, 2, CAST(0.1 AS FLOAT), 12.34, 7), (NULL, NULL, NULL, NULL, 8)",
        "ALTER TABLE {t} CHANGE COLUMN a TYPE INT",
        "ALTER TABLE {t} CHANGE COLUMN b TYPE BIGINT",
        "ALTER TABLE {t} CHANGE COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} CHANGE COLUMN n TYPE DECIMAL(20, 4)",
        "ALTER TABLE {t} CHANGE COLUMN p TYPE BIGINT",
        "INSERT INTO {t} VALUES (100000, 1099511627776, 0.25, 123456.7891, 4294967296)",
    )
    table.check(["a > 5", "b = 2", "p > 7", "n = 12.34", "f = 0.25"])


@pytest.mark.long
def test_rewrites(table: SparkTable) -> None:
    """OPTIMIZE, overwrite, REPLACE TABLE and RESTORE; row tracking, so that adds carry row ids."""
    table.sql(
        "CREATE TABLE {t} (id BIGINT, k STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "INSERT INTO {t} SELECT /*+ REPARTITION(3) */ id, 'first' FROM range(9)",
        "INSERT INTO {t} VALUES (10, 'second')",
        "OPTIMIZE {t}",
        "INSERT OVERWRITE {t} VALUES (20, 'third'), (21, NULL)",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "UPDATE {t} SET k = 'updated' WHERE id = 3",
        f"CREATE TABLE rewritten USING delta LOCATION '{table.root}'",
        f"CREATE OR REPLACE TABLE rewritten (other STRING) USING delta LOCATION '{table.root}'",
        "DROP TABLE rewritten",
        "INSERT INTO {t} VALUES ('last')",
    )
    table.check(["other = 'last'"], rows_at=[3, 5, 6])


@pytest.mark.long
def test_clustered(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, k INT) USING delta CLUSTER BY (k)",
        "INSERT INTO {t} SELECT id, id % 5 FROM range(30)",
        "INSERT INTO {t} SELECT id, id % 5 FROM range(30, 60)",
        "OPTIMIZE {t}",
        "INSERT INTO {t} VALUES (99, 9)",
    )
    head = table.check(["k = 9", "k < 2"])
    with head.scan_files(columns=["clustering_provider"]) as scan:
        assert "liquid" in scan.read_all()["clustering_provider"].to_pylist()


def test_shallow_clone_has_files_elsewhere(table: SparkTable, tmp_path: Path) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 'a b'), (2, 'x%y')",
    )
    clone = SparkTable(table.spark, tmp_path / "clone of it")
    clone.sql(f"CREATE TABLE {{t}} SHALLOW CLONE {table.name}", "INSERT INTO {t} VALUES (3, 'a b')")
    clone.sql("DELETE FROM {t} WHERE id = 1")
    clone.check(["p = 'x%y'", "id = 3"])
