"""Spark reads a table through its index, in one of two ways.

| call                                    | rows are read by                     | for                                |
|-----------------------------------------|--------------------------------------|------------------------------------|
| `register(spark)`, then                 | the table's own reader, in Python on | every table this package can read  |
| `spark.read.format("sidecar").load(…)`  | the workers                          |                                    |
| `sidecar_files(spark, path, predicate)` | Spark's Parquet reader               | tables whose files alone give rows |
"""

from __future__ import annotations

from delta_sidecar.engines.spark.file_frame import sidecar_files
from delta_sidecar.engines.spark.source import register

__all__ = ["register", "sidecar_files"]
