"""`sidecar changes`: a range of versions, printed or written; each reason for no answer is one line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.running import assert_refused, invoke
from tests.data.changing import feed_table, removed, written


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two rows, then one deleted with its file and two inserted, a minute later."""
    root = tmp_path / "table"
    first = written(root, "a", [1, 2])
    log = feed_table(root).commit(first, mtime_ms=1_770_000_000_000)
    log.commit(removed(first), written(root, "b", [2, 3]), mtime_ms=1_770_000_060_000)
    return root


def test_lines_of_json(table: Path) -> None:
    first = {"_change_type": "insert", "_commit_version": 0, "_commit_timestamp": "2026-02-02T02:40:00Z"}
    assert invoke("changes", table, "--from", 0, "--to", 0, "--json").objects == [
        {"k": 1, "s": "s1", **first},
        {"k": 2, "s": "s2", **first},
    ]
    asked = ("--where", "_change_type = 'delete'", "--columns", "k,_commit_version", "--json")
    expected = [{"k": k, "_commit_version": 1} for k in (1, 2)]
    assert invoke("changes", table, "--from", 0, *asked).objects == expected
    assert invoke("changes", table, "--since", "2026-02-02T02:40:01Z", *asked).objects == expected


def test_a_table_for_people(table: Path) -> None:
    done = invoke("changes", table, "--from", 1, "--columns", "k,_change_type")
    assert done.out.split() == ["k", "_change_type", "1", "delete", "2", "delete", "2", "insert", "3", "insert"]


def test_a_file(table: Path, tmp_path: Path) -> None:
    done = invoke("changes", table, "--from", 0, "--output", tmp_path / "changes.parquet")
    assert "6 rows" in done.out
    assert pq.read_table(tmp_path / "changes.parquet")["_commit_version"].to_pylist() == [0, 0, 1, 1, 1, 1]


def test_what_has_no_answer_is_one_line(table: Path, tmp_path: Path) -> None:
    assert_refused(invoke("changes", table), "--from", "--since")
    assert_refused(invoke("changes", table, "--from", 0, "--since", "2026-02-02"), "--from", "--since")
    assert_refused(invoke("changes", table, "--from", 2), "no version 2", "nothing new")
    assert_refused(invoke("changes", table, "--from", 1, "--to", 0), "ends at version 0")
    assert_refused(invoke("changes", table, "--since", "2027-01-01"), "nothing new")
    assert_refused(invoke("changes", table, "--from", 0, "--columns", "nope"), "nope")
    feed_table(tmp_path / "off", **{"delta.enableChangeDataFeed": "false"}).commit()
    assert_refused(invoke("changes", tmp_path / "off", "--from", 0), "no change feed", "delta.enableChangeDataFeed")
