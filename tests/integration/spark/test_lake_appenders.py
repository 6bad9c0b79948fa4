"""Fifty appenders at once: no row is lost, none is there twice, and each is told its own commit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import OptionError
from delta_sidecar.lake import DeltaMutationPolicy, LakePolicy, write
from tests.integration.servers import ROOT, ObjectServer, s3_jars
from tests.integration.spark.lake_appenders import append_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 400


def check(table: DeltaTable, outcomes: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    rows = Counter(table.to_pyarrow_table(columns=["writer"])["writer"].to_pylist())
    assert rows == dict.fromkeys(names, 2)
    assert [outcome["state"] for outcome in outcomes] == ["committed"] * len(names)
    assert {outcome["rows"] for outcome in outcomes} == {2}
    told = {outcome["version"]: outcome["writer"] for outcome in outcomes}
    said = {
        commit["version"]: json.loads(commit["userMetadata"])["writer"]
        for commit in table.history()
        if commit["operation"] == "WRITE"
    }
    assert told == said


def begun(order: dict[str, Any]) -> subprocess.Popen[str]:
    Path(order["place"]).mkdir(parents=True)
    command = [sys.executable, "-m", "tests.integration.spark.lake_appenders", json.dumps(order)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def ended(driver: subprocess.Popen[str]) -> list[dict[str, Any]]:
    try:
        said, complaint = driver.communicate(timeout=SECONDS)
    finally:
        driver.kill()
    assert driver.returncode == 0, complaint[-3000:]
    answer: list[dict[str, Any]] = json.loads(said.splitlines()[-1])
    return answer


@pytest.mark.parametrize("threads", [12, pytest.param(50, marks=pytest.mark.long)])
def test_threads_of_one_driver_on_a_local_table(spark: SparkSession, tmp_path: Path, threads: int) -> None:
    names = [f"w{number}" for number in range(threads)]
    outcomes = append_at_once(spark, str(tmp_path / "table"), names)
    check(DeltaTable(str(tmp_path / "table")), outcomes, names)


@pytest.mark.server
@pytest.mark.long
@pytest.mark.xdist_group("s3")
def test_several_drivers_on_a_local_table(tmp_path: Path) -> None:
    """They create it at the same moment, too."""
    table, names = str(tmp_path / "table"), [[f"{driver}{number}" for number in range(5)] for driver in "ab"]
    orders = [{"table": table, "names": own, "place": str(tmp_path / own[0])} for own in names]
    drivers = [begun(order) for order in orders]
    outcomes = [outcome for driver in drivers for outcome in ended(driver)]
    check(DeltaTable(table), outcomes, [name for own in names for name in own])


@pytest.mark.long
def test_fifty_threads_of_one_driver_on_a_table_in_s3(s3: ObjectServer, tmp_path: Path) -> None:
    if not s3_jars():
        pytest.fail("Hadoop's driver for S3 is not set up: run `make setup`", pytrace=False)
    names, uri = [f"w{number}" for number in range(50)], s3.uri("fifty-appenders")
    order = {"table": uri, "names": names, "place": str(tmp_path / "driver"), "s3": s3.storage_options}
    outcomes = ended(begun(order))
    check(DeltaTable(uri, storage_options=s3.storage_options), outcomes, names)


def test_several_drivers_on_s3_are_refused_without_a_log_store_that_coordinates_them(spark: SparkSession) -> None:
    policy = LakePolicy(mutation=DeltaMutationPolicy(drivers="many"))
    with pytest.raises(OptionError, match=r"drivers = \"many\" needs a LogStore that coordinates drivers"):
        write(spark, "s3://lake/events", spark.range(1), policy=policy)
