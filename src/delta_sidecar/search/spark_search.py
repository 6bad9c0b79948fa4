"""Search from Spark: register the data source. The source itself needs pyspark to be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import needs_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_search(spark: SparkSession) -> None:
    """Make `spark.read.format("sidecar_search")` known to a session, on its workers, too.

    Options of a read are `query`, `where`, `columns`, `version`, and those of the object store. Rows have a column
    `score`. Each split that may hold a hit is a task.

    Args:
        spark: The session. Workers that are not on this machine get this package; the libraries it stands on must be
            installed there.

    Raises:
        InputError: The extra `spark` is not installed.
        pyspark.errors.PySparkException: Spark did not take the package or the source.

    Example:
        >>> from delta_sidecar.search import follow, register_search
        >>> _ = follow(f"{here}/events", text=["_event_hour"], filters=["id"])
        >>> register_search(spark)
        >>> found = spark.read.format("sidecar_search").option("query", "id:>=6")
        >>> found.load(f"{here}/events").count() > 0
        True
    """
    try:
        from delta_sidecar.pipeline.shipping import ship
        from delta_sidecar.search.spark_source import SearchSource
    except ImportError:
        raise needs_extra("searching from Spark", "pyspark", "spark") from None
    ship(spark)
    spark.dataSource.register(SearchSource)
