"""Every known race between two writers: its class, and how it ends. `make lake-races` runs each on classic Spark and on
Connect, `make thorough` each on one of the two, `make test` those on classic Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.servers import ROOT
from tests.integration.spark import lake_races
from tests.integration.spark.lake_races import CLASSIC, RACES, REMOTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 300
MINE = [[number, "mine"] for number in range(8, 12)]
OLD = [[number, "x"] for number in range(10)]


@pytest.fixture(scope="module")
def classic(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return lake_races.run_all(spark, tmp_path_factory.mktemp("races"), CLASSIC)


@pytest.fixture(scope="module")
def remote(connect: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same over Connect, in a process that has imported nothing of `delta`."""
    command = [sys.executable, "-m", "tests.integration.spark.lake_races", connect]
    command.append(str(tmp_path_factory.mktemp("races")))
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def check(name: str, met: dict[str, Any]) -> None:
    race = RACES[name]
    assert met["end"] == race.end, met
    if race.conflict is None:
        assert not met["conflicts"]
    else:
        assert race.conflict in met["conflicts"][0], met
    rows = met["rows"]
    if race.end == "committed" and race.loser != "delete":
        assert [row for row in rows if row[1] == "mine"] == MINE
    if race.end == "TableChangedError":
        assert "column more: none before, INT now" in met["message"]
        assert rows == OLD
    if race.loser == "delete":
        assert [row for row in rows if row[0] >= 8] == []
    if race.loser == "batch":
        assert [row for row in rows if row[1] != "x"] == [[number, "theirs"] for number in range(8, 12)]


@pytest.mark.parametrize("name", CLASSIC)
def test_a_race_ends_as_it_should_on_classic_spark(name: str, classic: dict[str, Any]) -> None:
    check(name, classic[name])


@pytest.mark.long
def test_all_races_end_the_same_over_connect(remote: dict[str, Any]) -> None:
    for name in REMOTE:
        check(name, remote[name])
    assert remote["imported"] == []
    assert remote["views"] == 0


def test_every_race_is_run() -> None:
    assert {*CLASSIC, *REMOTE} == {*RACES}


def test_creators_at_the_same_moment_all_succeed(classic: dict[str, Any]) -> None:
    assert sorted(classic["create"]) == [False, False, False, True]


@pytest.mark.long
def test_creators_at_the_same_moment_all_succeed_over_connect(remote: dict[str, Any]) -> None:
    assert sorted(remote["create"]) == [False, False, False, True]
