"""A place for a table that Spark writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SparkTable:
    return SparkTable(spark, tmp_path / "table")
