"""`sidecar changes --cursor` and `sidecar cursors`: go on where the last run stopped, and only when all is written."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from delta_sidecar.lake import CdfCursorStore
from delta_sidecar.testing import LogBuilder
from tests.cli.running import COMMAND, Done, assert_refused, invoke, sidecar
from tests.data.changing import feed_table, removed, written

WHEN = 1_770_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Two rows, then two more."""
    root = tmp_path / "table"
    return feed_table(root).commit(written(root, "a", [1, 2]), mtime_ms=WHEN).commit(written(root, "b", [3, 4]))


def changes(log: LogBuilder, *more: object, columns: str = "k,_change_type,_commit_version") -> Done:
    return invoke("changes", log.root, "--cursor", "mine", "--columns", columns, "--json", *more)


def in_short(done: Done) -> list[tuple[int, str, int]]:
    return [(row["k"], row["_change_type"], row["_commit_version"]) for row in done.objects]


def test_all_rows_first_then_what_is_new(log: LogBuilder) -> None:
    expected = [(k, "insert", 1) for k in (1, 2, 3, 4)]
    assert sorted(in_short(changes(log, "--peek"))) == expected
    assert sorted(in_short(changes(log))) == expected
    assert (log.root / "_sidecar_state" / "cursors" / "mine.cursor.json").exists()
    assert changes(log).objects == []
    first = written(log.root, "c", [5])
    log.commit(first).commit(removed(first))
    assert in_short(changes(log, "--peek")) == [(5, "insert", 2), (5, "delete", 3)]
    assert in_short(changes(log, "--to", 2)) == [(5, "insert", 2)]
    assert in_short(changes(log, "--to", 2)) == []
    assert in_short(changes(log)) == [(5, "delete", 3)]
    assert in_short(changes(log, "--from", 2, "--peek")) == [(5, "insert", 2), (5, "delete", 3)]


@pytest.mark.slow
def test_conditions_and_columns_of_all_rows(log: LogBuilder) -> None:
    """Those on columns of the feed, too, though no file has them."""
    peek = ("--peek", "--where")
    assert in_short(changes(log, *peek, "k > 3")) == [(4, "insert", 1)]
    assert in_short(changes(log, *peek, "_change_type = 'insert' AND k > 3")) == [(4, "insert", 1)]
    assert in_short(changes(log, *peek, "_change_type = 'delete'")) == []
    assert len(changes(log, *peek, "_commit_version = 1", columns="_change_type").objects) == 4
    whole = sidecar("changes", log.root, "--cursor", "mine", "--to", 0, "--json").objects
    assert whole == [
        {"k": k, "s": f"s{k}", "_change_type": "insert", "_commit_version": 0,
         "_commit_timestamp": "2026-02-02T02:40:00Z"} for k in (1, 2)
    ]  # fmt: skip
    assert sorted(in_short(changes(log))) == [(3, "insert", 1), (4, "insert", 1)]


def test_the_first_version_can_be_named(log: LogBuilder) -> None:
    assert in_short(changes(log, "--from", 1)) == [(3, "insert", 1), (4, "insert", 1)]
    assert changes(log).objects == []


def test_the_cursor_stays_if_not_all_is_written(log: LogBuilder, tmp_path: Path) -> None:
    place = tmp_path / "state"
    given = ("--state", place, "--output")
    assert_refused(invoke("changes", log.root, "--cursor", "mine", *given, tmp_path / "no" / "such.parquet"), "no/such")
    assert CdfCursorStore(place).load("mine") is None
    (log.root / "a").unlink()
    done = invoke("changes", log.root, "--cursor", "mine", *given, tmp_path / "rows.parquet")
    assert done.code == 2
    assert not (tmp_path / "rows.parquet").exists()
    assert CdfCursorStore(place).load("mine") is None
    written(log.root, "a", [1, 2])
    assert "4 rows" in invoke("changes", log.root, "--cursor", "mine", *given, tmp_path / "rows.parquet").out
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 4
    assert CdfCursorStore(place).start_version("mine") == 2
    nothing = invoke("changes", log.root, "--cursor", "mine", *given, tmp_path / "none.parquet")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing is new" in nothing.err
    assert not (tmp_path / "none.parquet").exists()
    assert_refused(invoke("changes", log.root, "--cursor", "mine", *given, tmp_path / "rows.parquet"), "move it")
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 4
    assert not (log.root / "_sidecar_state").exists()


def test_what_has_no_answer_is_one_line(log: LogBuilder, tmp_path: Path) -> None:
    changes(log)
    assert_refused(invoke("changes", log.root, "--from", 0, "--peek"), "--cursor")
    shutil.rmtree(log.root / "_delta_log")
    assert_refused(changes(log), "no Delta table")
    LogBuilder(log.root).metadata({"k": "long"}, (), {"delta.enableChangeDataFeed": "true"}, table_id="other").commit()
    assert_refused(changes(log), "is now table", "reset the cursor")
    feed_table(tmp_path / "off", **{"delta.enableChangeDataFeed": "false"}).commit()
    assert_refused(invoke("changes", tmp_path / "off", "--cursor", "mine"), "no change feed")


def test_cursors_are_listed_and_reset(log: LogBuilder) -> None:
    changes(log)
    invoke("changes", log.root, "--cursor", "a/b", "--to", 0)
    (first, second) = invoke("cursors", "list", log.root, "--json").objects
    assert (first["dataset_name"], first["last_version"]) == ("a/b", 0)
    assert (second["dataset_name"], second["last_version"]) == ("mine", 1)
    lines = invoke("cursors", "list", "--state", log.root / "_sidecar_state").out.splitlines()
    assert [line.split()[:2] for line in lines] == [["cursor", "version"], ["a/b", "0"], ["mine", "1"]]
    assert invoke("cursors", "reset", log.root, "--cursor", "mine", "--to", 0).code == 0
    assert in_short(changes(log)) == [(3, "insert", 1), (4, "insert", 1)]
    assert "deleted" in invoke("cursors", "reset", log.root, "--cursor", "mine").out
    assert len(changes(log).objects) == 4
    assert_refused(invoke("cursors", "reset", log.root, "--cursor", "nope"), "no cursor 'nope'")
    assert_refused(invoke("cursors", "reset", log.root), "--cursor")
    assert_refused(invoke("cursors", "list"), "--state")
    assert_refused(invoke("cursors", "list", log.root, "--cursor", "mine"), "reset")


def test_a_sync_needs_no_spark_to_say_what_is_next(log: LogBuilder, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    (report,) = invoke("sync", log.root, target, "--key", "k", "--dry-run", "--json").objects
    assert (report["version"], report["head"], report["dry_run"], report["is_current"]) == (None, 1, True, False)
    assert [(step["kind"], step["end"]) for step in report["steps"]] == [("snapshot", 1)]
    assert not target.exists()
    shown = invoke("sync", log.root, target, "--key", "k", "--dry-run").out
    assert [line.split()[0] for line in shown.splitlines()] == ["source", "target", "cursor", "snapshot", "dry"]
    CdfCursorStore(tmp_path / "state").advance("table", 0)
    feed_table(target).commit()
    held = invoke("sync", log.root, target, "--key", "k", "--state", tmp_path / "state", "--dry-run", "--json").objects
    assert [(step["kind"], step["start"], step["end"]) for step in held[0]["steps"]] == [("changes", 1, 1)]
    CdfCursorStore(tmp_path / "state").advance("table", 1)
    current = invoke("sync", log.root, target, "--key", "k", "--state", tmp_path / "state", "--json").objects
    assert json.loads(json.dumps(current[0]))["steps"] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_ends_well_when_stopped(log: LogBuilder, tmp_path: Path, number: signal.Signals) -> None:
    feed_table(tmp_path / "copy").commit()
    CdfCursorStore(tmp_path / "state").advance("table", 1)
    given = ("--key", "k", "--state", str(tmp_path / "state"), "--watch", "--interval", "0.2", "--verbose")
    command = [*COMMAND, "sync", str(log.root), str(tmp_path / "copy"), *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stderr is not None
            assert any("version 1; waiting" in line for line in watching.stderr)
            watching.send_signal(number)
            assert watching.wait(60) == 0
        finally:
            watching.kill()


def test_a_sync_that_cannot_be_is_one_line(log: LogBuilder, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    assert_refused(invoke("sync", log.root, target), "needs a key")
    assert_refused(invoke("sync", log.root, target, "--key", "k", "--strategy", "nope"), "'nope'")
    assert_refused(invoke("sync", log.root, target, "--key", "k", "--filter", "nope"), "'nope'")
    assert_refused(invoke("sync", log.root, target, "--key", "nope"), "'nope'")
    assert_refused(invoke("sync", log.root, log.root, "--key", "k"), "both source and target")
    assert_refused(invoke("sync", tmp_path / "none", target, "--key", "k"), "no Delta table")
    assert_refused(invoke("sync", log.root, target, "--key", "k", "--watch", "--dry-run"), "--dry-run")
    written(target, "a", [1])
    feed_table(target).commit(written(target, "a", [1]))
    assert_refused(invoke("sync", log.root, target, "--key", "k"), "has rows")
    assert not (target / "_sidecar_state").exists()
