"""What opening, listing and writing a search table cost in requests and round trips; and that Delta pays nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from delta_sidecar.search import SearchTable, Split, append, checkpoint, create_table
from delta_sidecar.testing.stores import CountingStore
from tests.costs.counted import counted
from tests.search.made import SCHEMA, splits
from tests.search.states import TheirTable, entry

NEVER = {"checkpoint.interval": 10**6}


def table(root: Path, head: int, checkpointed: int | None = None) -> Path:
    create_table(root, SCHEMA)
    for version in range(1, head + 1):
        append(root, splits(f"{version}.split"), options=NEVER)
        if version == checkpointed:
            checkpoint(root)
    return root


def answered(store: CountingStore) -> Counter[str]:
    """Requests that brought something; guesses at version files that are not there may be under way."""
    return Counter(request.verb for request in store.requests if not request.failed)


def test_a_young_table_two_trips_to_every_split(tmp_path: Path) -> None:
    store = counted(table(tmp_path, head=3), in_step=True)
    opened = SearchTable(store)
    assert store.round_trips() == 2, "the hint that is not there; the listings beside versions 0 to 7"
    assert answered(store) == {"list": 2, "stream": 4}, "the second listing looks for states"
    store.reset()
    assert len(opened.splits()) == 3
    assert store.requests == [], "all versions came with the listing"


def test_a_checkpoint_and_a_short_tail_three_trips(tmp_path: Path) -> None:
    store = counted(table(tmp_path, head=14, checkpointed=10), in_step=True)
    assert len(SearchTable(store).splits()) == 14
    assert store.round_trips() == 3, "the hint; the listing beside versions 11 to 18; the checkpoint"
    assert answered(store) == {"get": 2, "list": 1, "stream": 4}


def test_a_state_of_indextables_is_found_in_few_trips(tmp_path: Path) -> None:
    made = TheirTable(tmp_path)
    for version in range(1, 6):
        made.manifest(f"manifests/m{version}.avro", entry(f"{version}.split"))
        made.state(version, {f"manifests/m{v}.avro": 1 for v in range(1, version + 1)})
    store = counted(tmp_path, in_step=True)
    assert len(SearchTable(store).splits()) == 5
    assert store.round_trips() <= 7, "hint; listing; whole listing; states; version 0; the state; its manifests at once"
    assert answered(store)["list"] == 3


def test_an_append_is_one_put(tmp_path: Path) -> None:
    store = counted(table(tmp_path, head=3))
    append(store, [Split(path="x.split")], options=NEVER)
    counts = answered(store)
    assert (counts["put"], counts["list"]) == (1, 2)


def test_the_delta_path_imports_nothing_of_it(tmp_path: Path) -> None:
    code = (
        "import json, sys, delta_sidecar; delta_sidecar.DeltaTable; import delta_sidecar.index.read.opening; "
        "print(json.dumps([m for m in sys.modules if 'search' in m and 'sidecar' in m]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_the_names_bring_nothing_heavy(tmp_path: Path) -> None:
    heavy = ("pyspark", "pandas", "tantivy", "fastavro", "pyarrow.parquet", "pyarrow.dataset")
    code = (
        "import sys\nfrom delta_sidecar.search import SearchTable, append, create_table\n"
        f"create_table({str(tmp_path)!r}, {SCHEMA!r}); SearchTable({str(tmp_path)!r}).splits()\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
