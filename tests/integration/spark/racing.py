"""One writer of a race, a Spark driver in a process of its own, that may be killed and started again at any moment.

    python racing.py '{"role": "ingest", "name": "a", "table": "…", "place": "…", "sources": ["…"]}'

It says that it is ready, and what it saw, in files below `place`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import TableNotFoundError
from delta_sidecar.pipeline.ingest_job import ingest
from delta_sidecar.pipeline.maintenance import maintain
from delta_sidecar.pipeline.streaming import await_end, ingest_stream
from tests.integration.servers import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES = {"delta.checkpointInterval": "3"}
"""Many checkpoints, and so many indexes."""


def ingest_batches(spark: SparkSession, order: dict[str, Any]) -> None:
    """Each source is a batch with a number."""
    for number, source in enumerate(order["sources"]):
        given: dict[str, Any] = {"app_id": order["name"], "batch_id": number, "table_properties": PROPERTIES}
        ingest(source, order["table"], "ts", spark=spark, source_format="json", **given)


def ingest_landed(spark: SparkSession, order: dict[str, Any]) -> None:
    """A stream over a directory, a file at a time."""
    query = ingest_stream(
        order["sources"][0],
        order["table"],
        "ts",
        f"{order['place']}/progress",
        spark=spark,
        source_format="json",
        read_options={"maxFilesPerTrigger": "1"},
        table_properties=PROPERTIES,
    )
    await_end(query)


def append(spark: SparkSession, order: dict[str, Any]) -> None:
    """Plain appends of Spark's own, which know nothing of us and try nothing again."""
    log = Path(order["table"], "_delta_log", f"{0:020}.json")
    while not log.exists():
        time.sleep(0.1)
    for number, source in enumerate(order["sources"]):
        frame = spark.read.schema("id BIGINT, ts TIMESTAMP").json(source)
        once = {"txnAppId": order["name"], "txnVersion": str(number)}
        frame.write.format("delta").mode("append").options(**once).save(order["table"])


def keep_order(spark: SparkSession, order: dict[str, Any]) -> None:
    """Maintain in a loop, until told to stop."""
    while not Path(order["place"], "stop").exists():
        try:
            report = maintain(order["table"], spark=spark)
        except TableNotFoundError:
            time.sleep(0.2)
            continue
        with Path(order["place"], "maintained").open("a") as log:
            log.write(json.dumps([(step.step, step.state, step.summary) for step in report.steps]) + "\n")


ROLES: dict[str, Callable[[SparkSession, dict[str, Any]], None]] = {
    "ingest": ingest_batches,
    "stream": ingest_landed,
    "append": append,
    "maintain": keep_order,
}


def main(order: dict[str, Any]) -> None:
    place = Path(order["place"], order["name"])
    place.mkdir(parents=True, exist_ok=True)
    with spark_session(place, cores=1, memory="600m") as spark:
        Path(order["place"], f"{order['name']}.ready").touch()
        ROLES[order["role"]](spark, order)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
