"""A sync by kill -9 between any two steps, as a function and as a command, through a Connect server: in the end the
target is what the source is, and every change went into it once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from tests.integration.spark.driving import SECONDS

SCRIPT = Path(__file__).with_name("syncing.py")
CREATE = (
    "CREATE TABLE delta.`{t}` (id BIGINT, note STRING) USING delta TBLPROPERTIES "
    "('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
)
MERGE = (
    "MERGE INTO delta.`{t}` t USING (SELECT explode(sequence(4, 7)) AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.id, 'new')"
)
CHANGES = [
    MERGE,
    "UPDATE delta.`{t}` SET id = id + 100, note = 'moved' WHERE id < 2",
]
POINTS = [("plan", "after"), ("read", "after"), ("write", "after"), ("applied", "after"), ("move", "after")]


def run(master: str, source: Path, target: Path, **order: Any) -> subprocess.CompletedProcess[str]:
    arguments = [str(source), str(target), *order.pop("options", ("--key", "id"))]
    task = {"master": master, "arguments": arguments, "as_command": False, **order}
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(task)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment,
    )


def done(process: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert process.returncode == 0, process.stderr[-3000:]
    answer: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return answer


def rows(table: Path) -> Counter[str]:
    return Counter(map(repr, DeltaTable(table).to_pyarrow_table(columns=["id", "note"]).to_pylist()))


@pytest.mark.slow
@pytest.mark.parametrize("as_command", [False, True], ids=["function", "command"])
def test_killed_between_any_two_steps(connect: str, tmp_path: Path, as_command: bool) -> None:
    """All rows first, then changes; each run is killed one step later than the one before it."""
    source, target = tmp_path / "source", tmp_path / "target"
    rounds = [[CREATE, "INSERT INTO delta.`{t}` SELECT id, 'old' FROM range(6)"], CHANGES]
    for round_, statements in enumerate(rounds):
        sql = [statement.replace("{t}", str(source)) for statement in statements]
        # The function makes the source; a command can be killed at the same points then.
        first = run(connect, source, target, sql=sql, die=POINTS[0])
        assert first.returncode == -signal.SIGKILL, first.stderr[-3000:]
        for point in POINTS[1 + round_ :: 2] if as_command else POINTS[1:]:
            died = run(connect, source, target, die=point, as_command=as_command)
            assert died.returncode in (-signal.SIGKILL, 0), died.stderr[-3000:]
        report = done(run(connect, source, target, as_command=as_command))
        assert report["version"] == report["head"] == DeltaTable(source).version()
        assert rows(target) == rows(source)
    commits = [commit["operation"] for commit in DeltaTable(target).history()]
    assert sorted(commits) == ["MERGE", "WRITE"], "each once"
