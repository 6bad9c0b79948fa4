"""Functions that write, on Spark: ingest into time buckets, index builds, maintenance. No reader imports them.

pyspark is imported only when a function needs Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.index.build.build import BuildReport
    from delta_sidecar.index.build.build_job import BuildOptions
    from delta_sidecar.pipeline.conflicts import RetryClass, RetryPolicy
    from delta_sidecar.pipeline.index_watch import WatchReport, watch
    from delta_sidecar.pipeline.ingest_job import IngestSummary, ingest
    from delta_sidecar.pipeline.kafka import KafkaSource, kafka_source
    from delta_sidecar.pipeline.maintenance import MaintenanceReport, StepReport, maintain, maintain_tables
    from delta_sidecar.pipeline.spark_build import build_index, index_batch
    from delta_sidecar.pipeline.streaming import await_end, ingest_stream

_MODULES = {
    "BuildOptions": "spark_build",
    "BuildReport": "spark_build",
    "IngestSummary": "ingest_job",
    "KafkaSource": "kafka",
    "MaintenanceReport": "maintenance",
    "RetryClass": "conflicts",
    "RetryPolicy": "conflicts",
    "StepReport": "maintenance",
    "WatchReport": "index_watch",
    "await_end": "streaming",
    "build_index": "spark_build",
    "index_batch": "spark_build",
    "ingest": "ingest_job",
    "ingest_stream": "streaming",
    "kafka_source": "kafka",
    "maintain": "maintenance",
    "maintain_tables": "maintenance",
    "watch": "index_watch",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BuildOptions",
    "BuildReport",
    "IngestSummary",
    "KafkaSource",
    "MaintenanceReport",
    "RetryClass",
    "RetryPolicy",
    "StepReport",
    "WatchReport",
    "await_end",
    "build_index",
    "index_batch",
    "ingest",
    "ingest_stream",
    "kafka_source",
    "maintain",
    "maintain_tables",
    "watch",
]
