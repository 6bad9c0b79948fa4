"""A watch beside delta-spark, which writes and makes its checkpoints as it likes."""

from __future__ import annotations

from delta_sidecar.index.build.build import BuildOptions, BuildReport
from delta_sidecar.pipeline.index_watch import watch
from delta_sidecar.storage import open_store
from tests.integration.spark.indexed import AS_IF_LARGE, check_index, verified
from tests.integration.spark.oracle import SparkTable
from tests.pipeline.test_index_watch import Script

INSERT = "INSERT INTO {t} SELECT id, CAST(id % 3 AS STRING) FROM range(9)"


def test_each_checkpoint_of_spark_is_indexed_on_top_of_the_last(table: SparkTable) -> None:
    table.sql(
        """CREATE TABLE {t} (id BIGINT, part STRING) USING delta PARTITIONED BY (part)
        TBLPROPERTIES ('delta.checkpointInterval' = '2', 'delta.enableDeletionVectors' = 'true')""",
        *[INSERT] * 2,
    )
    built: list[BuildReport] = []
    script = Script(
        lambda: table.sql(INSERT),
        lambda: table.sql("DELETE FROM {t} WHERE id = 4"),
        lambda: table.sql(INSERT),
    )
    options = BuildOptions(engine="spark", limits=AS_IF_LARGE)
    report = watch(
        str(table.root), stop=script, on_build=built.append, spark=table.spark, tail_commits=2, options=options
    )
    assert [(done.version, done.mode, done.engine) for done in built] == [
        (2, "full", "spark"),
        (4, "incremental", "process"),
    ]
    assert (report.polls, report.failures) == (4, 0)
    verified(open_store(table.root), 4)
    again = BuildOptions(limits=AS_IF_LARGE)
    watch(str(table.root), stop=Script(), tail_commits=1, spark=table.spark, options=again)
    check_index(table)
