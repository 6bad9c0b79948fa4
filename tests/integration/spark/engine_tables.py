"""Tables that the tests of Spark as an engine read, and filters for them."""

from __future__ import annotations

from typing import Final

from tests.integration.spark.oracle import SparkTable

NUMBERS: Final = 60
SHAPES: Final[tuple[tuple[str, int | None], ...]] = (
    ("id >= 50", 1),
    ("id IN (3, 57, NULL)", 2),
    ("id < 5 OR id > 55", 6),
    ("NOT (id < 55)", 1),
    ("id BETWEEN 18 AND 21 AND part <> 2", 1),
    ("x IS NULL", 1),
    ("x IS NOT NULL AND id = 33", 1),
    ("s LIKE 's05%'", 1),
    ("s LIKE '%7' AND id < 20", 2),
    ("NOT (s LIKE 's0%')", None),
    ("x = double('NaN')", 6),
    ("x > 1000", 6),
    ("x < -35", None),
    ("NOT (x < 40)", 6),
    ("CAST(id AS STRING) = '57'", None),
    ("id = '57'", None),
    ("ts >= '2026-02-10 22:00:00'", None),
    ("ts < TIMESTAMP'2026-02-10 10:00:00Z'", 1),
    ("ntz >= TIMESTAMP_NTZ'2026-02-12 02:30:00'", 1),
    ("d = DATE'2026-02-12'", None),
    ("to_date(ts) = DATE'2026-02-10'", None),
    ("n = 3.50", None),
    ("part = 3", 1),
    ("part IS NULL", None),
    ("s <=> NULL", None),
    ("flag", None),
    ("st.a = 41", None),
)
"""Conditions, and the files that each must be read from, where that is the same in every time zone."""


def numbered(table: SparkTable) -> SparkTable:
    """60 rows in six files, ten hours apart, with NaN and null among them; version 0 is empty."""
    return table.sql(
        "CREATE TABLE {t} (id BIGINT, x DOUBLE, s STRING, ts TIMESTAMP, ntz TIMESTAMP_NTZ, d DATE, n DECIMAL(10, 2), "
        "flag BOOLEAN, st STRUCT<a: INT>, part INT) USING delta PARTITIONED BY (part)",
        "INSERT INTO {t} SELECT id, CASE id WHEN 7 THEN NULL WHEN 11 THEN double('NaN') ELSE -id END, "
        "IF(id = 20, NULL, concat('s', lpad(id, 3, '0'))), timestamp_seconds(1770681600 + id * 3600), "
        "CAST(timestamp_seconds(1770681600 + id * 3600) AS TIMESTAMP_NTZ), date_add(DATE'2026-02-10', int(id div 24)), "
        "id / 2, id % 2 = 0, named_struct('a', int(id)), int(id div 10) FROM range(60)",
    )


def mapped_by_name(table: SparkTable) -> SparkTable:
    """Column mapping, deletion vectors, later columns and widened types, at once."""
    return table.sql(
        "CREATE TABLE {t} (id INT, s STRUCT<a: INT, b: STRING>, v FLOAT, part STRING, `odd col,x` INT NOT NULL) "
        "USING delta PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.enableDeletionVectors' = 'true', 'delta.enableTypeWidening' = 'true')",
        "INSERT INTO {t} VALUES (1, struct(1, 'x'), float(0.1), 'a', 1), (2, struct(2, 'y'), NULL, 'a', 2), "
        "(3, NULL, float('NaN'), 'b', 3), (4, struct(NULL, NULL), float(4), NULL, 4)",
        "ALTER TABLE {t} RENAME COLUMN s.b TO c",
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        "ALTER TABLE {t} ADD COLUMNS (late ARRAY<STRUCT<q: DATE>> COMMENT 'came later')",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN w TYPE DOUBLE",
        "INSERT INTO {t} VALUES (5000000000, struct(5, 'z'), 0.1, 'a', 5, array(struct(DATE'2026-02-10'))), "
        "(6, NULL, NULL, 'b', 6, array())",
        "DELETE FROM {t} WHERE id IN (2, 6)",
    )


def mapped_by_id(table: SparkTable) -> SparkTable:
    """Column mapping by id, with a column that was dropped and one of the same name added."""
    return table.sql(
        "CREATE TABLE {t} (id BIGINT, a STRING, c CHAR(4), m MAP<STRING, STRUCT<k: INT>>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
        "INSERT INTO {t} VALUES (1, 'old', 'ab', map('x', struct(1))), (2, NULL, NULL, NULL)",
        "ALTER TABLE {t} DROP COLUMN a",
        "ALTER TABLE {t} RENAME COLUMN id TO number",
        "ALTER TABLE {t} ADD COLUMNS (a DATE)",
        "INSERT INTO {t} VALUES (3, 'cd', map(), DATE'2026-02-10')",
    )


PARTITIONS: Final = (
    "p_d DATE, p_ts TIMESTAMP, p_ntz TIMESTAMP_NTZ, p_s STRING, p_n DECIMAL(10, 3), p_b BOOLEAN, p_f DOUBLE, "
    "p_r FLOAT, p_i INT, p_l BIGINT, p_y TINYINT"
)
TYPED: Final = (
    "id INT, ts TIMESTAMP, ntz TIMESTAMP_NTZ, d DATE, f FLOAT, x DOUBLE, big DECIMAL(38, 0), fine DECIMAL(38, 20), "
    f"raw BINARY, flag BOOLEAN, s STRING, a ARRAY<INT>, m MAP<STRING, INT>, small SMALLINT, {PARTITIONS}"
)


def typed(table: SparkTable) -> SparkTable:
    """Values at the edges of their types, in columns and as partition values."""
    names = ", ".join(part.split()[0] for part in PARTITIONS.replace("(10, 3)", "").split(", "))
    return table.sql(
        f"CREATE TABLE {{t}} ({TYPED}) USING delta PARTITIONED BY ({names})",
        """INSERT INTO {t} VALUES
        (1, TIMESTAMP'1969-12-31 23:59:59.999999Z', TIMESTAMP_NTZ'1900-01-01 00:00:00.000001', DATE'1582-10-15',
         float('-0.0'), double('NaN'), 99999999999999999999999999999999999999, 0.00000000000000000001, X'00FF', true,
         'ÿ 🦆', array(1, NULL), map('k', NULL), 1,
         DATE'2026-01-01', TIMESTAMP'2026-01-01 10:00:00.123456Z', TIMESTAMP_NTZ'2026-01-01 10:00:00.5', 'a/b=c%20d:e',
         1.5, true, double(0.1), float(0.1), -5, 5000000000, 7),
        (2, TIMESTAMP'2026-02-10 22:00:00.123456Z', TIMESTAMP_NTZ'2026-02-10 22:00:00', DATE'9999-12-31', float('NaN'),
         double(1.5), -99999999999999999999999999999999999999, -1.5, X'', false, '', array(), map(), -1,
         DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59Z', TIMESTAMP_NTZ'1969-12-31 23:59:59', '', -1, false,
         double('NaN'), float('-Infinity'), 0, -1, -7),
        (3, TIMESTAMP'1800-01-01 00:00:00Z', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', DATE'0001-01-01',
         float('Infinity'), double(0.1), 0, 123456789012345678.12345678901234567890, NULL, NULL, repeat('x', 100), NULL,
         NULL, NULL, DATE'2026-01-02', TIMESTAMP'2026-03-29 01:30:00Z', TIMESTAMP_NTZ'2026-03-08 02:30:00',
         'ü 🦆 #?*{}[]', 0, true, double('Infinity'), float(1.5), 1, 1, 1),
        (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, '__HIVE_DEFAULT_PARTITION__', NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
    )
