"""The guide to tables with many jobs runs: its policy file is valid, and its Python does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delta_sidecar.lake import load_policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "many-jobs.md"


def block(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def test_the_policy_file_is_valid(tmp_path: Path) -> None:
    (tmp_path / "events.toml").write_text(block("toml"))
    policy = load_policy(tmp_path / "events.toml")
    assert (policy.write.partition_by, policy.schema.schema_mode) == (("day",), "merge")


def test_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), PAGE.name, "exec"), {"spark": spark})
    first, second, last = capsys.readouterr().out.splitlines()
    assert (first, second) == ("committed 1 100", "done already")
    assert last.startswith("2 3 ")
