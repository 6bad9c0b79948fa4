"""Search tables on a real S3 server: conditional writes decide, and a lost answer is settled by what is there."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from delta_sidecar.search import (
    SearchTable,
    append,
    build_splits,
    checkpoint,
    clean_log,
    create_table,
    doctor,
    overwrite,
    purge,
)
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import TakesFiles
from tests.integration.servers import ObjectServer
from tests.search.lines import log_lines
from tests.search.made import FAR, SCHEMA, splits
from tests.search.split_racing import CHOICES, ROWS
from tests.search.test_split_races import program

ROOT = Path(__file__).resolve().parents[3]
BUILDS = int(os.environ.get("DELTA_SIDECAR_SPLIT_RACES", "2"))
"""Builds of each writer in a race; where it is set, processes also die at every write and not at some."""


def test_writers_race(s3: ObjectServer) -> None:
    uri, options = s3.uri(f"race-{uuid.uuid4().hex}"), s3.storage_options
    create_table(uri, SCHEMA, storage_options=options)
    command = [sys.executable, "-m", "tests.search.racing", "race", uri, "4", "5", json.dumps(options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["codes"] == [0] * 4, done.stderr
    table = SearchTable(uri, storage_options=options)
    assert table.versions() == list(range(21))
    assert {split.path for split in table.splits()} == {f"w{w}-{n}.split" for w in range(4) for n in range(5)}


def test_a_life(s3: ObjectServer) -> None:
    """Create, write, checkpoint, clean, purge: all that a store is asked for."""
    uri, options = s3.uri(f"life-{uuid.uuid4().hex}/a b"), s3.storage_options
    create_table(uri, SCHEMA, storage_options=options)
    store = SearchTable(uri, storage_options=options).store
    for name in ("a.split", "b.split", "c.split", "crashed.split"):
        store.put_if_absent(name, b"split")
    append(store, splits("a.split", f"{uri}/b.split"))
    overwrite(store, splits("c.split"))
    assert checkpoint(store) == 2
    assert len(clean_log(store, now_ms=FAR).deleted) == 1
    assert purge(store, now_ms=FAR).deleted == ("a.split", "b.split", "crashed.split")
    opened = SearchTable(uri, storage_options=options, options={"checkpoint.read.timeoutSeconds": 20})
    assert ([split.path for split in opened.splits()], opened.versions()) == (["c.split"], [0, 2])


@pytest.mark.parametrize("size", [10, (20 << 20) + 7])
def test_a_file_goes_up_whole(s3: ObjectServer, tmp_path: Path, size: int) -> None:
    """A small one in one request, a large one in parts."""
    store = open_store(s3.uri(f"file-{uuid.uuid4().hex}"), s3.storage_options)
    assert isinstance(store, TakesFiles)
    data = random.Random(size).randbytes(size)
    (tmp_path / "split").write_bytes(data)
    store.put_file("a b/part.split", tmp_path / "split")
    assert bytes(store.get("a b/part.split")) == data


def ids(table: SearchTable) -> list[int]:
    return sorted(table.search("*", limit=10_000, columns=["id"]).to_table()["id"].to_pylist())


def test_writers_a_merger_and_a_purger_race(s3: ObjectServer) -> None:
    """No gap, no row lost or twice, no live split deleted; merger and purger are killed in the midst of it."""
    pytest.importorskip("tantivy", reason="the extra `search` is not installed")
    uri, options = s3.uri(f"all-{uuid.uuid4().hex}"), s3.storage_options
    build_splits(log_lines(ROWS, first=10**6), uri, **CHOICES, storage_options=options)
    done = program("race", uri, json.dumps(options), 2, BUILDS)
    assert done["codes"] == [0, 0]
    assert done["others"] == [-9, -9]
    table = SearchTable(uri, storage_options=options)
    assert ids(table) == [*range(2 * BUILDS * ROWS), *range(10**6, 10**6 + ROWS)]
    assert doctor(uri, whole=True, storage_options=options).problems == ()
    kept = [version for version in table.versions() if version]
    assert kept == list(range(kept[0], table.version + 1))


@pytest.mark.long
def test_killed_at_writes(s3: ObjectServer) -> None:
    """Each death leaves a whole table: the same work, run again, ends with every row once, and no file beside."""
    pytest.importorskip("tantivy", reason="the extra `search` is not installed")
    uri, options = s3.uri(f"die-{uuid.uuid4().hex}"), s3.storage_options
    step = 1 if "DELTA_SIDECAR_SPLIT_RACES" in os.environ else 4
    assert program("die", uri, json.dumps(options), step)["deaths"] >= 6 // step
    table = SearchTable(uri, storage_options=options)
    assert ids(table) == list(range(2 * ROWS))
    files = [meta.path for page in table.store.list_after("") for meta in page]
    assert {path for path in files if path.endswith(".split")} == {split.path for split in table.splits()}
