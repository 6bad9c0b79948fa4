"""The examples of public names that need Spark run."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.events_table import write_events
from tests.examples import examples, needs_spark, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [{"ts": "2026-02-10T23:45:00Z", "id": 1}, {"ts": "2026-02-11T00:15:00Z", "id": 2}, {"ts": None, "id": 3}]


@pytest.mark.parametrize("example", [e for e in examples() if needs_spark(e)], ids=lambda e: e.name)
def test_examples_run(
    spark: SparkSession, example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    write_events(tmp_path / "tables" / "events")
    monkeypatch.chdir(tmp_path)
    run(example, spark=spark, here=tmp_path / "tables")
