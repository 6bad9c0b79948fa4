"""Spark's daemon of Python workers, which imports what the tasks need before it forks the first worker.

A task that fails ends its worker, and the tests fail many on purpose: each new worker would import all of it again,
which takes longer than the task.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import delta_sidecar.pipeline.avro
import delta_sidecar.pipeline.parsing
import delta_sidecar.pipeline.records.csv_records
import delta_sidecar.pipeline.records.json_records
import delta_sidecar.pipeline.tasks  # noqa: F401

if __name__ == "__main__":
    # A worker collects garbage after each task: what the daemon has imported is none.
    gc.freeze()
    manager()
