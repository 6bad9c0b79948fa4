"""Builders, a merger and a purger at once, and processes that are killed at every write: no row is lost or twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar.search import SearchTable, build_splits, doctor
from delta_sidecar.search.splits.file import read_split_list
from tests.search.lines import log_lines
from tests.search.split_racing import CHOICES, ROWS
from tests.search.test_building import ids


def program(*arguments: object) -> Any:
    command = [sys.executable, "-m", "tests.search.split_racing", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("writers", "builds"), [(2, 4), pytest.param(4, 40, marks=pytest.mark.long)])
@pytest.mark.slow
def test_all_at_once(tmp_path: Path, writers: int, builds: int) -> None:
    table = tmp_path / "logs"
    build_splits(log_lines(ROWS, first=10**6), table, **CHOICES)
    done = program("race", table, "null", writers, builds)
    assert done["codes"] == [0] * writers
    assert set(done["others"]) <= {-9}
    assert ids(table) == [*range(writers * builds * ROWS), *range(10**6, 10**6 + ROWS)]
    found = doctor(table, whole=True)
    assert found.problems == ()


@pytest.mark.long
def test_killed_at_every_write(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    assert program("die", table, "null", 1)["deaths"] >= 6
    assert ids(table) == list(range(2 * ROWS))
    opened = SearchTable(table)
    for split in opened.splits():
        read_split_list(opened.store, split.path, split)
    # Nothing is left but what is live: the files of those that died were purged.
    assert {path.name for path in table.rglob("*.split")} == {split.path for split in opened.splits()}
