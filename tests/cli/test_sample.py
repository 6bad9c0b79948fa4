"""`sidecar sample` writes a table that the other commands work on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import assert_refused, invoke, sidecar

SMALL = ("--hours", 3, "--files-per-hour", 2, "--rows-per-file", 4)


@pytest.mark.slow
def test_a_sample_is_indexed_verified_explained_and_read(tmp_path: Path) -> None:
    table = tmp_path / "events"
    (made,) = sidecar("sample", table, *SMALL, "--json").objects
    hours = {"first_hour": "2026021021", "last_hour": "2026021023"}
    assert made == {"table": str(table), "version": 6, "files": 5, "rows": 24} | hours
    (built,) = invoke("build", table, "--json").objects
    assert (built["files"], built["engine"]) == (5, "process")
    (checked,) = invoke("verify", table, "--json").objects
    assert checked["ok"]
    hour = "ts >= '2026-02-10T23:00:00Z'"
    assert "2 files emitted, 3 of 5 pruned" in invoke("explain", table, "--where", hour).out
    assert len(invoke("read", table, "--where", hour, "--json").objects) == 8


def test_it_says_what_it_wrote(tmp_path: Path) -> None:
    said = invoke("sample", tmp_path, *SMALL)
    assert said.code == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["table", "version", "files", "rows", "hours"]
    assert "2026021021 to 2026021023" in said.out


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("hello")
    assert_refused(invoke("sample", tmp_path), "is not empty")
    assert_refused(invoke("sample", tmp_path / "new", "--hours", 0), "--hours")
    assert_refused(invoke("sample", tmp_path / "new", "--hours", 1_000_000), "at most 100,000")
    assert_refused(invoke("sample", "az://lake/events"), "local disk")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
