"""Values at the edges of their types, in data columns and as partition values, as delta-spark writes them."""

from __future__ import annotations

from delta_sidecar import DeltaTable
from tests.integration.same import local_paths
from tests.integration.spark.oracle import SparkTable

EDGES = """
INSERT INTO {t} VALUES
 (1, TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP_NTZ'1900-01-01 00:00:00.000001', DATE'1582-10-15', float('-0.0'),
  double('NaN'), 99999999999999999999999999999999999999, 0.00000000000000000001, X'00FF', true, 'ÿ 🦆',
  array(1, NULL), map('k', NULL)),
 (2, TIMESTAMP'2026-02-10 22:00:00.123456', TIMESTAMP_NTZ'2026-02-10 22:00:00', DATE'9999-12-31', float('NaN'),
  double(1.5), -99999999999999999999999999999999999999, -1.5, X'', false, '', array(), map()),
 (3, TIMESTAMP'0001-01-01 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', DATE'0001-01-01', float('Infinity'),
  double(0.1), 0, 123456789012345678.12345678901234567890, NULL, NULL, repeat('x', 100), NULL, NULL),
 (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""


def test_edges_of_types(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id INT, ts TIMESTAMP, ntz TIMESTAMP_NTZ, d DATE, f FLOAT, x DOUBLE, big DECIMAL(38, 0), "
        "fine DECIMAL(38, 20), raw BINARY, flag BOOLEAN, s STRING, a ARRAY<INT>, m MAP<STRING, INT>) USING delta",
        EDGES,
        "INSERT INTO {t} (id, ts) VALUES (5, TIMESTAMP'1969-07-20 20:17:40.5')",
    )
    table.check(
        [
            "ts < TIMESTAMP'1970-01-01 00:00:00'",
            "ts > TIMESTAMP'2026-02-10 22:00:00.123'",
            "ts = TIMESTAMP'1969-12-31 23:59:59.999999'",
            "ntz >= TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
            "d <= DATE'1582-10-15'",
            "big = 99999999999999999999999999999999999999",
            "fine = 0.00000000000000000001",
            "fine < 0",
            "s > 'ÿ'",
            "s LIKE 'xxxx%'",
            "s = ''",
            "flag",
            "x = 0.1",
            "id IN (2, 5) AND s IS NULL",
        ]
    )


def test_nested_and_wide(table: SparkTable) -> None:
    wide = ", ".join(f"c{n} INT" for n in range(60))
    table.sql(
        f"CREATE TABLE {{t}} (id BIGINT, s STRUCT<a: STRUCT<b: INT, `c.d`: STRING>, l: ARRAY<STRUCT<x: DOUBLE>>>, "
        f"{wide}) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {t} (id, s, c59) VALUES (1, struct(struct(1, 'one'), array(struct(1.5))), 59)",
        "INSERT INTO {t} (id, s, c0) VALUES "
        "(2, struct(NULL, array()), 0), (3, NULL, 1), (4, struct(struct(NULL, ''), NULL), 2)",
    )
    table.check(["s.a.b = 1", "s.a.`c.d` = ''", "s.a IS NULL", "c59 IS NULL", "c59 = 59", "c0 >= 1"])


def test_partition_values(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, d DATE, ts TIMESTAMP, s STRING, n DECIMAL(10, 3), b BOOLEAN, f DOUBLE) "
        "USING delta PARTITIONED BY (d, ts, s, n, b, f)",
        "INSERT INTO {t} VALUES "
        "(1, DATE'2026-01-01', TIMESTAMP'2026-01-01 10:00:00.123456', 'a/b=c%20d:e', 1.5, true, double(0.1)), "
        "(2, DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59', '', -1, false, double('NaN')), "
        "(3, NULL, NULL, NULL, NULL, NULL, NULL), "
        "(4, DATE'2026-01-02', TIMESTAMP'2026-03-29 01:30:00', 'ü 🦆 #?*', 0, true, double('Infinity')), "
        "(5, DATE'2026-01-02', TIMESTAMP'2026-03-29 01:30:00', '__HIVE_DEFAULT_PARTITION__', 0, true, 1e300D)",
        "DELETE FROM {t} WHERE s = 'a/b=c%20d:e' AND id = 77",
    )
    table.check(
        [
            "d = DATE'1969-12-31'",
            "ts >= TIMESTAMP'2026-01-01 10:00:00.123456'",
            "ts = TIMESTAMP'2026-01-01 10:00:00.123456'",
            "s = 'a/b=c%20d:e'",
            "s IS NULL",
            "s LIKE 'ü%'",
            "n < 0",
            "NOT b",
            "f = 0.1",
            "f IS NULL",
        ]
    )


def test_a_variant_can_be_listed_and_its_neighbours_read(table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, v VARIANT) USING delta",
        "INSERT INTO {t} SELECT id, parse_json(concat('[', id, ']')) FROM range(3)",
    )
    ours = DeltaTable(str(table.root))
    assert sorted(ours.file_uris()) == local_paths(table.frame().inputFiles())
    assert sorted(ours.to_pyarrow_table(columns=["id"])["id"].to_pylist()) == [0, 1, 2]
    assert [f.path for f in ours.file_infos(predicate="id > 2")] == []
