"""A Spark driver in a process of its own, because a process has one Spark: a task in JSON, an answer in JSON.

    python driver.py '{"master": "spark://…", "conf": {}, "tables": {"build": "…"}, "pause": null}'

With `pause` the first task that is about to write a part writes its process id to that file and waits to be killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from delta_sidecar.engines.spark import register, sidecar_files
from delta_sidecar.errors import InputError
from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.limits import BuildLimits
from delta_sidecar.pipeline import spark_build
from delta_sidecar.pipeline.ingest_job import ingest
from delta_sidecar.pipeline.maintenance import maintain
from delta_sidecar.pipeline.session import spark_session
from delta_sidecar.pipeline.tasks import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pausing(mark: str) -> type[Work]:
    """Tasks of which the first to write waits, once."""

    class Pausing(Work):
        def write_parcels(self, parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            try:
                with Path(mark).open("x") as file:
                    file.write(f"{os.getpid()}\n")
            except FileExistsError:
                pass
            else:
                time.sleep(120)
            yield from Work.write_parcels(self, parcels)

    return Pausing


def build_index(spark: SparkSession, order: dict[str, Any]) -> Any:
    """The whole index, however small the table, in parts of a few files."""
    if order.get("pause"):
        spark_build.Work = pausing(order["pause"])  # type: ignore[attr-defined]
    options = BuildOptions(full=True, part_rows=3, engine="spark", limits=BuildLimits(single_rows=0))
    return spark_build.build_index(order["table"], options=options, spark=spark)


def ingest_events(spark: SparkSession, order: dict[str, Any]) -> Any:
    """The same batch twice: the second time nothing is added."""
    events = spark.sql("SELECT id, timestamp_seconds(1767225600 + id * 60) AS ts FROM range(600)")
    given: dict[str, Any] = {"app_id": "driver", "batch_id": 1, "index": "always"}
    return [ingest(events, order["table"], "ts", spark=spark, **given) for _ in range(2)]


def maintain_table(spark: SparkSession, order: dict[str, Any]) -> Any:
    steps = ("optimize", "vacuum", "checkpoint", "index")
    return maintain(order["table"], spark=spark, steps=steps)


def refusals(spark: SparkSession, order: dict[str, Any]) -> Any:
    """What each step says that is refused, by an error or in its report."""
    said: dict[str, str] = {}
    for step in (build_index, ingest_events, maintain_table):
        try:
            said[step.__name__] = repr(step(spark, order))
        except InputError as error:
            said[step.__name__] = str(error)
    return said


def read_as_engine(spark: SparkSession, order: dict[str, Any]) -> Any:
    """How many rows a filter leaves, through the data source, through Spark's own reader, and in delta-spark."""
    register(spark)
    condition = "id IN (3, 7)"
    source = spark.read.format("sidecar").load(order["table"]).where(condition)
    native = sidecar_files(spark, order["table"], condition)
    delta = spark.read.format("delta").load(order["table"]).where(condition)
    return [sorted(map(str, frame.collect())) for frame in (source, native, delta)]


STEPS = {
    "build": build_index,
    "engine": read_as_engine,
    "ingest": ingest_events,
    "maintain": maintain_table,
    "refusals": refusals,
}


def main(order: dict[str, Any]) -> None:
    with spark_session(order["master"], order.get("conf")) as spark:
        answers = {
            step: msgspec.to_builtins(STEPS[step](spark, order | {"table": table}))
            for step, table in order["tables"].items()
        }
    print(json.dumps(answers))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
