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
AGAIN = ["DELETE FROM delta.`{t}` WHERE id > 100", "INSERT INTO delta.`{t}` VALUES (0, 'again')"]
CHAIN: list[tuple[list[str], list[tuple[str, bool]]]] = [
    (
        [CREATE, "INSERT INTO delta.`{t}` SELECT id, 'old' FROM range(6)"],
        [("plan", False), ("read", True), ("write", True), ("", False)],
    ),
    (CHANGES, [("plan", False), ("read", False), ("applied", True), ("", True)]),
    (AGAIN, [("applied", False), ("", False)]),
]
"""Statements, then runs: after which step each is killed, and whether it is the command. The first run of each round
is a function, which also runs the statements. What comes after `plan` and `read` repeats the step; what comes after
`write` (the commit) and `applied` moves the cursor."""


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


def rows(table: Path) -> Counter[str]:
    return Counter(map(repr, DeltaTable(table).to_pyarrow_table(columns=["id", "note"]).to_pylist()))


@pytest.mark.long
def test_killed_between_any_two_steps(connect: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for statements, runs in CHAIN:
        sql = [statement.replace("{t}", str(source)) for statement in statements]
        for step, as_command in runs:
            given = {"die": (step, "after")} if step else {}
            process = run(connect, source, target, as_command=as_command, sql=sql, **given)
            sql = []
            assert process.returncode == (-signal.SIGKILL if step else 0), process.stderr[-3000:]
        report = json.loads(process.stdout.splitlines()[-1])
        assert report["version"] == report["head"] == DeltaTable(source).version()
        assert [each["kind"] for each in report["steps"]] == ["recovered"]
        assert rows(target) == rows(source)
    commits = [commit["operation"] for commit in DeltaTable(target).history()]
    assert sorted(commits) == ["MERGE", "MERGE", "WRITE"], "each once"
