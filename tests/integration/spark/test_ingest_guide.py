"""The guide to ingesting runs: its commands and its Python, on the session of this process."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import invoke

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "ingesting.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "landing").mkdir()
    rows = [{"ts": "2026-02-10T23:45:00Z", "id": 1}, {"ts": "2026-02-11T00:15:00Z", "id": 2}, {"ts": None, "id": 3}]
    (tmp_path / "landing" / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands(spark: SparkSession, here: Path) -> None:
    (block,) = blocks("sh")
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        done = invoke(*arguments)
        assert (program, done.code) == ("sidecar", 0), done.err
    for table in ("events_by_hour", "events_by_day", "followed"):
        assert spark.read.format("delta").load(str(here / table)).count() == 3


def test_python(spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("python")
    exec(compile(block.replace('read.json("', f'read.json("{here}/'), PAGE.name, "exec"), {"spark": spark})
    assert capsys.readouterr().out.startswith("3 3 1 1\nIngestSummary(")
