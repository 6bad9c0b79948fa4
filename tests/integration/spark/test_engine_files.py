"""`sidecar_files`: Spark's own Parquet reader over the pruned files gives the rows that our reader gives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.engines.spark import sidecar_files
from delta_sidecar.errors import PredicateError, TableNotFoundError, UnknownColumnError, UnsupportedTableError
from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.table_builder import LogBuilder
from tests.events_table import write_events
from tests.integration.same import local_paths, sorted_rows
from tests.integration.spark.oracle import SparkTable, with_setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREDICATES = (
    "id >= 50",
    "id IN (3, 57) OR x > 1000 OR x = 'NaN'",
    "NOT (x > -5)",
    "x != -3 AND id < 5",
    "x IS NULL OR s IS NULL",
    "s LIKE 's0!_%' ESCAPE '!' OR s LIKE '%_7'",
    "ts >= '2026-02-10 22:00:00' AND ts < '2026-02-11T01:00:00Z'",
    "ntz = '2026-02-10 05:00:00'",
    "d <= '2026-02-10' AND n > 3.5",
    "flag AND st.a > 40",
    "part = 3 AND NOT flag",
    "date(ts) = '2026-02-11' AND id BETWEEN 20 AND 30",
)
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "spark-engine.md"


def test_rows_are_those_of_our_reader(spark: SparkSession, typed: SparkTable, numbers: SparkTable) -> None:
    ours = DeltaTable(str(numbers.root))
    with with_setting(spark, "spark.sql.session.timeZone", "America/Los_Angeles"):
        frame = sidecar_files(spark, typed.root)
        assert frame.columns == typed.frame().columns
        assert sorted_rows(frame.toArrow()) == sorted_rows(typed.frame().toArrow())
        one = sidecar_files(spark, typed.root, "p_d = '2026-01-01'")
        assert sorted_rows(one.toArrow()) == sorted_rows(
            DeltaTable(str(typed.root), 1).to_pyarrow_table(filters="p_d = '2026-01-01'")
        )
        for predicate in PREDICATES:
            found = sidecar_files(spark, numbers.root, predicate)
            expected = ours.to_pyarrow_table(filters=predicate)
            assert sorted_rows(found.toArrow()) == sorted_rows(expected), predicate
    hour = sidecar_files(spark, numbers.root, "id IN (3, 57)")
    assert local_paths(hour.inputFiles()) == sorted(ours.file_uris(predicate="id IN (3, 57)"))
    assert hour.where("part = 0").select("part").distinct().count() == 1
    assert sidecar_files(spark, numbers.root, "id < 0").collect() == []
    assert sidecar_files(spark, numbers.root, version=0).schema == hour.schema
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == "32"


def test_columns_mapped_by_name_are_renamed(spark: SparkSession, table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, `a b` STRING, part INT) USING delta PARTITIONED BY (part) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {t} VALUES (1, 'x', 1), (2, 'y', 2)",
        "ALTER TABLE {t} RENAME COLUMN `a b` TO `c.d`",
        "ALTER TABLE {t} RENAME COLUMN part TO day",
        "ALTER TABLE {t} ADD COLUMNS (late INT)",
    )
    assert sorted_rows(sidecar_files(spark, table.root).toArrow()) == sorted_rows(table.frame().toArrow())
    found = sidecar_files(spark, table.root, [("c.d", "=", "y"), ("day", "=", 2)])
    assert [row.asDict() for row in found.collect()] == [{"id": 2, "c.d": "y", "day": 2, "late": None}]


def test_tables_whose_files_do_not_give_the_rows_are_refused(
    spark: SparkSession, mapped_by_name: SparkTable, mapped_by_id: SparkTable, tmp_path: Path
) -> None:
    way = re.escape("use spark.read.format('sidecar') (delta_sidecar.engines.spark.register)")
    with pytest.raises(UnsupportedTableError, match=rf"column 'id' had another type, so its files alone .*{way}$"):
        sidecar_files(spark, mapped_by_name.root)
    with pytest.raises(UnsupportedTableError, match="maps the fields of column 's' by name"):
        sidecar_files(spark, mapped_by_name.root, version=1)
    with pytest.raises(UnsupportedTableError, match="it maps its columns by id"):
        sidecar_files(spark, mapped_by_id.root)
    vectors = SparkTable(spark, tmp_path / "vectors").sql(
        "CREATE TABLE {t} (id BIGINT, part INT) USING delta PARTITIONED BY (part) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT id, id % 2 FROM range(10)",
        "DELETE FROM {t} WHERE id = 4",
    )
    with pytest.raises(UnsupportedTableError, match="files of it have deletion vectors"):
        sidecar_files(spark, vectors.root)
    assert sidecar_files(spark, vectors.root, "part = 1").count() == 5
    hidden = tmp_path / "hidden"
    added = write_data_file(hidden, "_x.parquet", pa.table({"id": pa.array([1], pa.int64())}))
    LogBuilder(hidden).metadata({"id": "long"}).commit(added)
    with pytest.raises(UnsupportedTableError, match=r"Spark skips files that are named like '_x\.parquet'"):
        sidecar_files(spark, hidden)


def test_bad_calls_are_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path / "events")
    for predicate, kind, line in (
        ("nope = 1", UnknownColumnError, "no column 'nope' in the table"),
        ("value > value", PredicateError, "columns value (double) and value (double) cannot be compared here"),
    ):
        with pytest.raises(kind) as told:
            sidecar_files(spark, tmp_path / "events", predicate)
        assert str(told.value).startswith(line)
        assert "\n" not in str(told.value)
    with pytest.raises(TableNotFoundError):
        sidecar_files(spark, tmp_path / "nowhere")


def test_the_guide_and_the_examples_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_events(tmp_path / "events")
    names: dict[str, object] = {"spark": spark}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        exec(compile(block.replace('"events"', json.dumps(str(tmp_path / "events"))), GUIDE.name, "exec"), names)
    assert capsys.readouterr().out.split() == ["2", "2", "4", "2"]
