"""Many appenders of one table at once: threads of one Spark driver.

    python -m tests.integration.spark.lake_appenders '{"table": "…", "names": ["a", "b"], "place": "…", "s3": {…}}'

prints the outcome of each, as JSON. Several such processes are several drivers.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from delta_sidecar.lake import (
    CommitOptions,
    DeltaMutationPolicy,
    DeltaRetryPolicy,
    DeltaWritePolicy,
    LakePolicy,
    write,
)
from tests.integration.servers import s3_jars, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICY = LakePolicy(
    write=DeltaWritePolicy(target_file_size=None),
    mutation=DeltaMutationPolicy(retry=DeltaRetryPolicy(attempts=20, longest_delay=2)),
)


def append_at_once(
    spark: SparkSession, table: str, names: Sequence[str], storage_options: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """One thread for each name, which appends two rows of that name; all begin together."""
    barrier = threading.Barrier(len(names))

    def append(name: str) -> dict[str, Any]:
        frame = spark.range(0, 2, 1, 1).selectExpr("id", f"'{name}' AS writer")
        barrier.wait(60)
        commit = CommitOptions({"writer": name})
        outcome = write(spark, table, frame, policy=POLICY, commit=commit, storage_options=storage_options)
        return {"writer": name} | msgspec.to_builtins(outcome)

    with ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(append, names))


def main(order: dict[str, Any]) -> None:
    options = order.get("s3")
    jars = s3_jars() if options else []
    with spark_session(Path(order["place"]), memory="900m", more_jars=jars) as spark:
        Path(order["place"], "ready").touch()
        print(json.dumps(append_at_once(spark, order["table"], order["names"], options)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
