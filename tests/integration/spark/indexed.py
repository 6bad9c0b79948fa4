"""An index beside a table that Spark writes: as verify sees it, and as Spark itself sees the table."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from delta_sidecar.index.build.build import BuildOptions, BuildReport
from delta_sidecar.index.read.manifests import newest_usable_manifest
from delta_sidecar.index.read.part_rows import read_file_keys
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.pipeline.spark_build import build_index
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Store
from tests.integration.same import local_paths
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AS_IF_LARGE = BuildLimits(single_rows=0, small_rows=2, small_parts=3)
"""Tables of a few files as those of millions are: in several parts, incremental."""


def build_whole(table: SparkTable) -> BuildReport:
    """The whole index, on Spark, in several parts."""
    options = BuildOptions(full=True, part_rows=2, engine="spark", limits=AS_IF_LARGE)
    return build_index(str(table.root), options=options, spark=table.spark)


def build_on_top(table: SparkTable) -> BuildReport:
    """On top of the index that is there; whole, on Spark, where that cannot be."""
    return build_index(
        str(table.root), options=BuildOptions(part_rows=2, engine="spark", limits=AS_IF_LARGE), spark=table.spark
    )


def check_index(table: SparkTable) -> None:
    """The index of the newest version holds what the log says, and the very files that Spark reads."""
    store = open_store(table.root)
    paths, size = verified(store)
    [detail] = table.spark.sql(f"DESCRIBE DETAIL {table.name}").collect()
    assert len(paths) == detail["numFiles"]
    assert size == detail["sizeInBytes"]
    absolute = [path if path.startswith("/") else f"{table.root}/{path}" for path in map(unquote, paths)]
    assert sorted(absolute) == local_paths(table.frame().inputFiles())


def verified(store: Store, version: int | None = None) -> tuple[list[str], int]:
    """Paths and bytes of the files in an index that verifies, by default that of the head."""
    snapshot = load_snapshot(store, version)
    report = verify_index(store, snapshot.version)
    assert report.problems == ()
    found, passed = newest_usable_manifest(snapshot)
    assert found is not None
    assert passed == []
    keys = [read_file_keys(store, found.directory, part) for part in found.manifest.parts]
    return [path for batch in keys for path in batch.column("path").to_pylist()], found.manifest.bytes


def read_files(spark: SparkSession, table: SparkTable) -> list[str]:
    """The files that rows come from, as Spark says it."""
    from pyspark.sql import functions as F

    rows = table.frame().select(F.input_file_name().alias("name")).distinct().collect()
    return local_paths(unquote(row["name"]) for row in rows)
