"""Many processes on one table: no gap, nothing lost, nothing twice, no live split deleted; killed at any write, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.search import SearchTable, append, create_table
from tests.search.made import LOG, SCHEMA, added, lines, removed, splits, version_path

ROOT = Path(__file__).resolve().parents[2]


def program(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.search.racing", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_eight_writers(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA)
    result = program("race", tmp_path, 8, 10, "{}")
    assert result["codes"] == [0] * 8
    table = SearchTable(tmp_path)
    assert table.versions() == list(range(81)), "every append has a version of its own, and none is missing"
    assert {split.path for split in table.splits()} == {f"w{w}-{n}.split" for w in range(8) for n in range(10)}
    ids = [entry["id"] for entry in table.history()[:-1]]
    assert len(set(ids)) == 80


@pytest.mark.slow
def test_writers_mergers_and_a_purger(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA)
    old = [f"old-{n}.split" for n in range(10)]
    for path in (*old, "crashed.split"):
        (tmp_path / path).write_bytes(b"split")
        os.utime(tmp_path / path, (time.time() - 10_000, time.time() - 10_000))
    append(tmp_path, splits(*old))
    long_ago = int(time.time() * 1000) - 5_000_000
    (tmp_path / version_path(2)).write_bytes(
        lines(*(removed(path, deletionTimestamp=long_ago) for path in old[:5]), added("old-x.split"))
    )
    (tmp_path / "old-x.split").write_bytes(b"split")
    for number in range(3, 14):
        append(tmp_path, splits(f"old-y{number}.split"))
        (tmp_path / f"old-y{number}.split").write_bytes(b"split")
    for path in (tmp_path / LOG).iterdir():
        os.utime(path, (time.time() - 10_000, time.time() - 10_000))
    result = program("all", tmp_path, 4, 15, "{}")
    assert result["codes"] == [0] * 4
    assert result["others"] == [-9] * 3, "they were still at work"
    table = SearchTable(tmp_path)
    live = {split.path: split for split in table.splits()}
    parts = [part for path, split in live.items() for part in split.extra.get("parts", [path]) if part[0] != "o"]
    assert sorted(parts) == sorted(f"w{w}-{n}.split" for w in range(4) for n in range(15)), "each once"
    later = {f"old-y{number}.split" for number in range(3, 14)}
    assert {path for path in live if path.startswith("old")} == {*old[5:], "old-x.split", *later}
    assert all((tmp_path / path).exists() for path in live), "no live split is gone"
    assert not any((tmp_path / path).exists() for path in (*old[:5], "crashed.split")), "what is dead and old is"
    kept = [version for version in table.versions() if version]
    assert kept == list(range(kept[0], table.version + 1))
    assert kept[0] >= 10, "the old version files were cleaned up while others wrote"
    assert (tmp_path / LOG / f"{0:020d}.json").exists()


@pytest.mark.slow
def test_killed_at_every_write(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA)
    append(tmp_path, splits("a.split", "b.split", "c.split"))
    result = program("die", tmp_path)
    assert result["deaths"] > 8
    table = SearchTable(tmp_path)
    assert len(table.splits()) == result["splits"] > 3
