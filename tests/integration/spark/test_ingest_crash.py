"""The command killed in the middle of a batch: nothing is there, and the same batch run again is there once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delta_sidecar import DeltaTable
from tests.cli.running import COMMAND, invoke, sidecar
from tests.integration.servers import quick_arguments
from tests.integration.spark.driving import killed_while_writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = 150


def write_minutes(path: Path) -> None:
    """A file a minute makes the writing long enough to be met."""
    lines = [f"2026-02-{1 + n // 1440:02}T{n // 60 % 24:02}:{n % 60:02}:00Z,{n}" for n in range(MINUTES)]
    path.write_text("ts,id\n" + "\n".join(lines) + "\n")


@pytest.mark.long
def test_killed_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    write_minutes(tmp_path / "events.csv")
    table = tmp_path / "table"
    arguments = [
        "ingest", str(tmp_path / "events.csv"), str(table), "--time-column", "ts", "--bucket", "minute",
        "--app-id", "loader", "--batch-id", "1", "--master", "local[1]", "--json", *quick_arguments(),
    ]  # fmt: skip
    killed_while_writing([*COMMAND, *arguments], table, tmp_path / "log")
    assert not (table / "_delta_log" / f"{1:020}.json").exists(), "killed too late to tell anything"
    assert list(DeltaTable(str(table)).file_infos()) == []

    (done,) = sidecar(*arguments).objects
    assert (done["rows"], done["files"], done["skipped_as_replayed"]) == (MINUTES, MINUTES, False)
    (again,) = invoke(*arguments).objects
    assert (again["rows"], again["skipped_as_replayed"]) == (0, True)
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["id"])
    assert sorted(rows["id"].to_pylist()) == list(range(MINUTES))
