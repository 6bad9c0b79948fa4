"""Search tables on a real S3 server: conditional writes decide, and a lost answer is settled by what is there."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

from delta_sidecar.search import SearchTable, append, checkpoint, clean_log, create_table, overwrite, purge
from tests.integration.servers import ObjectServer
from tests.search.made import FAR, SCHEMA, splits

ROOT = Path(__file__).resolve().parents[3]


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
