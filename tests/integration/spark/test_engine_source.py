"""The data source `sidecar`: the rows that delta-spark gives, from the files that a filter leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from delta_sidecar import errors
from delta_sidecar.engines.spark import register
from delta_sidecar.pipeline.failures import own_error
from tests.integration.same import sorted_rows
from tests.integration.spark.engine_tables import (
    NUMBERS,
    SHAPES,
    TYPED,
)
from tests.integration.spark.oracle import SparkTable, with_setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECRET = "dGhpcyBpcyBub3QgYSBrZXk="
ZONES = ("UTC", "America/Los_Angeles")


@contextmanager
def registered(spark: SparkSession, push_filters: bool) -> Iterator[None]:
    """The source, in which every file is a group of its own, so that partitions count files."""
    with (
        with_setting(spark, "spark.sql.files.maxPartitionBytes", "1b"),
        with_setting(spark, "spark.sql.files.openCostInBytes", "1b"),
    ):
        register(spark, push_filters=push_filters)
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.fixture
def source(spark: SparkSession) -> Iterator[SparkSession]:
    with registered(spark, push_filters=False):
        yield spark


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    with registered(spark, push_filters=True):
        yield spark


def read(table: SparkTable, **options: Any) -> DataFrame:
    return table.spark.read.format("sidecar").options(**options).load(str(table.root))


def check_same(table: SparkTable) -> None:
    ours, theirs = read(table), table.frame()
    assert ours.schema == theirs.schema
    assert sorted_rows(ours.toArrow()) == sorted_rows(theirs.toArrow())


def test_rows_and_schemas_are_those_of_delta_spark(
    source: SparkSession, mapped_by_name: SparkTable, mapped_by_id: SparkTable, typed: SparkTable
) -> None:
    check_same(mapped_by_name)
    check_same(mapped_by_id)
    for zone in ZONES:
        with with_setting(source, "spark.sql.session.timeZone", zone):
            check_same(typed)
    assert sorted(row.id for row in read(typed).where("p_s = 'a/b=c%20d:e'").collect()) == [1]
    assert TYPED.count("p_") > 5


def test_variants_and_void_columns_are_read(source: SparkSession, table: SparkTable) -> None:
    table.sql(
        "CREATE TABLE {t} (id BIGINT, v VARIANT, s STRUCT<v: VARIANT>, nothing VOID) USING delta",
        "INSERT INTO {t} (id, v, s) SELECT id, if(id = 1, NULL, parse_json(concat('[', id, ', \"x\"]'))), "
        "named_struct('v', parse_json('1')) FROM range(3)",
    )
    shown = ("id", "to_json(v)", "to_json(s.v)", "nothing")
    assert sorted_rows(read(table).selectExpr(*shown).toArrow()) == sorted_rows(
        table.frame().selectExpr(*shown).toArrow()
    )


@pytest.mark.parametrize("zone", ZONES)
def test_pushed_filters_give_the_rows_of_delta_spark_from_the_files_that_may_match(
    pushing: SparkSession, numbers: SparkTable, zone: str
) -> None:
    with with_setting(pushing, "spark.sql.session.timeZone", zone):
        asked = [f"coalesce({condition}, false) AS c{n}" for n, (condition, _) in enumerate(SHAPES)]
        expected = numbers.frame().selectExpr("id", *asked).collect()
        for n, (condition, files) in enumerate(SHAPES):
            found = read(numbers).where(condition).select("id")
            assert files is None or found.rdd.getNumPartitions() == files, condition
            ids = sorted(row.id for row in found.collect())
            assert ids == sorted(row.id for row in expected if row[f"c{n}"]), condition


def test_one_frame_serves_many_filters(source: SparkSession, numbers: SparkTable) -> None:
    from pyspark.sql import functions as F

    frame = read(numbers)
    halves = frame.where("part = 3").union(frame.where("part = 5"))
    assert sorted(row.part for row in halves.select("part").distinct().collect()) == [3, 5]
    assert [frame.where("id >= 50").count(), frame.count(), frame.where("id < 5").count()] == [10, NUMBERS, 5]
    seventh = F.udf(lambda number: number % 7 == 3, "boolean")
    assert frame.where(seventh("id") & (F.col("id") >= 50)).count() == len([n for n in range(50, 60) if n % 7 == 3])
    joined = frame.alias("a").join(frame.where("id < 45").alias("b"), "id").where("a.part = 4")
    assert joined.count() == 5


def test_spark_still_mixes_up_the_plans_of_one_frame(pushing: SparkSession, numbers: SparkTable) -> None:
    """If this fails, filters can be pushed by default: Spark no longer reads the files of another filter."""
    frame = read(numbers)
    assert frame.where("id >= 50").count() == 10
    assert frame.count() == 10


def test_options_limits_and_plans(
    source: SparkSession, numbers: SparkTable, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = read(numbers, account_key=SECRET)
    assert len(frame.limit(3).collect()) == 3
    assert read(numbers, version=0).count() == 0
    assert read(numbers, versionAsOf=1, predicate="id < 5").count() == 5
    assert read(numbers, predicate="id < 5", columns="part,id").columns == ["part", "id"]
    chosen = source.read.format("sidecar").schema("id BIGINT").option("predicate", "id IN (1, 57)")
    assert sorted(row.id for row in chosen.load(str(numbers.root)).collect()) == [1, 57]
    assert read(numbers, predicate="id < 0").collect() == []
    files = [read(numbers, predicate=p).rdd.getNumPartitions() for p in ("id < 5 OR id > 55", "part = 3", "x < 0")]
    assert files == [2, 1, 6]
    for mode in ("extended", "formatted"):
        frame.where("id > 3").explain(mode=mode)
    shown = capsys.readouterr().out + repr(frame) + frame._jdf.queryExecution().toString()
    assert "sidecar" in shown
    assert SECRET not in shown


def test_small_files_share_tasks(spark: SparkSession, numbers: SparkTable) -> None:
    register(spark)
    assert read(numbers).rdd.getNumPartitions() == 3


@pytest.mark.parametrize(
    ("options", "kind", "line"),
    [
        ({"path": "/nowhere"}, errors.TableNotFoundError, "/nowhere"),
        ({"predicate": "nope = 1"}, errors.UnknownColumnError, "no column 'nope' in the table"),
        ({"verison": "1"}, errors.OptionError, "unknown option 'verison' (did you mean version?)"),
        ({"version": "77"}, errors.VersionNotFoundError, "77"),
    ],
    ids=["no table", "no column", "no option", "no version"],
)
def test_errors_are_lines(
    source: SparkSession, numbers: SparkTable, options: dict[str, str], kind: type[Exception], line: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as told:
        source.read.format("sidecar").options(**({"path": str(numbers.root)} | options)).load()
    found = own_error(str(told.value))
    assert type(found) is kind
    assert line in str(found)
