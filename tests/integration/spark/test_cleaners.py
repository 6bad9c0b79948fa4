"""What Spark's own cleaners leave of an index: VACUUM and the log's cleanup, on tables of either kind of checkpoint."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.index_names import SIDECAR_INDEX, SIDECARS
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from tests.index.models import index_rows_at, small_parts
from tests.integration.spark.oracle import SparkTable, with_setting

DAY = 86_400


def age(root: Path, days: int) -> None:
    """Everything there becomes so much older; the log's versions stay in order."""
    for path in root.rglob("*"):
        if path.is_file():
            order = int(path.name[:20]) if path.name[:20].isdigit() else 0
            then = time.time() - days * DAY + order
            os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("policy", "single"),
    [
        pytest.param("classic", True, marks=pytest.mark.long),
        ("v2", False),
        pytest.param("classic", False, marks=pytest.mark.long),
    ],
)
def test_vacuum_and_log_cleanup_leave_the_index_alone(table: SparkTable, policy: str, single: bool) -> None:
    table.sql(
        "CREATE TABLE {t} (x LONG, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ("
        f"'delta.checkpointPolicy'='{policy}', 'delta.checkpointInterval'='2', "
        "'delta.logRetentionDuration'='interval 7 days', 'delta.enableExpiredLogCleanup'='true')",
        *(f"INSERT INTO {{t}} VALUES ({n}, 'a'), ({n}, 'b')" for n in range(2)),
    )
    store = open_store(str(table.root))
    for version in (1, 2):
        build_index(store, version, BuildOptions(part_rows=2, limits=small_parts(single=100 if single else 0)))
    directory = table.root / (SIDECAR_INDEX if policy == "v2" else SIDECARS)
    age(table.root, 30)
    before = {path.name for path in directory.iterdir()}
    with (
        with_setting(table.spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"),
        # As many tasks as VACUUM lists with, 10,000 by default.
        with_setting(table.spark, "spark.sql.sources.parallelPartitionDiscovery.parallelism", "2"),
    ):
        table.sql(
            "DELETE FROM {t} WHERE x = 0",
            *(f"INSERT INTO {{t}} VALUES ({n}, 'c')" for n in range(2)),
            "VACUUM {t} RETAIN 0 HOURS",
        )
    assert f"{0:020}.json" not in table.log_names(), "the cleanup did clean up"
    assert {path.name for path in directory.iterdir()} == before
    head = DeltaTable(str(table.root)).version()
    assert build_index(store).version == head
    found = verify_index(store)
    assert (found.version, found.problems) == (head, ())
    live = sorted(os.path.basename(uri) for uri in DeltaTable(str(table.root)).file_uris())
    assert sorted(os.path.basename(row["path"]) for row in index_rows_at(store, head)) == live
    assert table.frame().count() == 2 + 2
