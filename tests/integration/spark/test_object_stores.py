"""A build on Spark of a table in an object store: tasks read and write through our own stores, without Hadoop's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from delta_sidecar.engines.spark import register
from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.pipeline.index_watch import watch
from delta_sidecar.pipeline.spark_build import build_index
from delta_sidecar.storage import open_store
from tests.integration.servers import ObjectServer
from tests.integration.spark.indexed import AS_IF_LARGE, verified
from tests.pipeline.test_index_watch import Script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(uri: str, server: ObjectServer, commits: int = 3) -> list[str]:
    """Commits of four files each, then a checkpoint; the files of the table."""
    for _ in range(commits):
        rows = pa.table({"id": range(4), "part": ["a", "b", "c", "ä ö"]})
        given = {"partition_by": ["part"], "mode": "append", "storage_options": server.storage_options}
        deltalake.write_deltalake(uri, rows, **given)
    table = deltalake.DeltaTable(uri, storage_options=server.storage_options)
    table.create_checkpoint()
    return [path.removeprefix(f"{uri}/") for path in table.file_uris()]


@pytest.fixture(params=["s3", "azurite"])
def server(request: pytest.FixtureRequest, s3: ObjectServer, azurite: ObjectServer) -> ObjectServer:
    return s3 if request.param == "s3" else azurite


def test_an_index_is_built_on_spark_then_on_top_of_it(spark: SparkSession, server: ObjectServer) -> None:
    uri = server.uri("built-on-spark")
    write(uri, server)
    given = {
        "storage_options": server.storage_options,
        "spark": spark,
        "options": BuildOptions(part_rows=3, engine="spark", limits=AS_IF_LARGE),
    }
    first = build_index(uri, **given)  # type: ignore[arg-type]
    files = write(uri, server, commits=1)
    second = build_index(uri, **given)  # type: ignore[arg-type]
    assert (first.mode, first.engine, first.files) == ("full", "spark", 12)
    assert (second.mode, second.built_on, second.files) == ("incremental", 2, 16)
    paths, _ = verified(open_store(uri, server.storage_options))
    assert len(paths) == len(files) == 16


def test_a_table_in_a_store_is_read_as_a_source_and_its_keys_are_not_shown(
    spark: SparkSession, server: ObjectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = server.uri("source")
    write(uri, server)
    register(spark)
    secret = f"{server.storage_options.get('azure_storage_account_key', 'testing')}"
    reader = spark.read.format("sidecar").options(**server.storage_options)
    frame = reader.option("predicate", "part = 'ä ö' OR id = 1").load(uri)
    assert sorted((row.id, row.part) for row in frame.collect()) == [(1, "b")] * 3 + [(3, "ä ö")] * 3
    frame.explain(mode="extended")
    assert secret not in capsys.readouterr().out
    with pytest.raises(AnalysisException, match=r"delta_sidecar\.errors\.\w+: ") as told:
        spark.read.format("sidecar").options(**server.storage_options).load(server.uri("nothing"))
    assert secret not in str(told.value)


def test_a_table_in_a_store_is_watched(spark: SparkSession, server: ObjectServer) -> None:
    uri = server.uri("watched")
    write(uri, server)
    versions: list[int] = []
    script = Script(lambda: None, lambda: write(uri, server, commits=2))
    watch(uri, server.storage_options, stop=script, on_build=lambda built: versions.append(built.version))
    assert versions == [2, 4]
    verified(open_store(uri, server.storage_options))
