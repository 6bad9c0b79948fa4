"""A place for a table that Spark writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delta_sidecar import build_index
from tests.integration.spark import engine_tables
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SparkTable:
    return SparkTable(spark, tmp_path / "table")


# Tables that the tests of Spark as an engine read, and do not change.


@pytest.fixture(scope="session")
def mapped_by_name(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkTable:
    return engine_tables.mapped_by_name(SparkTable(spark, tmp_path_factory.mktemp("engine") / "name"))


@pytest.fixture(scope="session")
def mapped_by_id(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkTable:
    return engine_tables.mapped_by_id(SparkTable(spark, tmp_path_factory.mktemp("engine") / "id"))


@pytest.fixture(scope="session")
def typed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkTable:
    """In an odd place, with an index."""
    table = engine_tables.typed(SparkTable(spark, tmp_path_factory.mktemp("engine") / "odd %20:é [x]{1} #?"))
    build_index(table.root)
    return table


@pytest.fixture(scope="session")
def numbers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkTable:
    """With an index."""
    table = engine_tables.numbered(SparkTable(spark, tmp_path_factory.mktemp("engine") / "numbers"))
    build_index(table.root)
    return table
