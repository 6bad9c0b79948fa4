"""Which index is the newest, for writers that ask after every batch: at a request's cost."""

from __future__ import annotations

from pathlib import Path

from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.format.index_names import HINT
from delta_sidecar.index.read.manifests import newest_index
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.testing import CountingStore, LogBuilder, add


def newest(root: Path, head: int | None = None) -> tuple[int, dict[str, int]]:
    """The newest index, and what it cost to know it."""
    store = CountingStore(open_store(root))
    snapshot = load_snapshot(open_store(root))
    found = newest_index(store, snapshot.protocol, snapshot.version if head is None else head)
    return found, dict(store.counts())


def test_the_hint_tells_in_one_request(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit(add("a"))
    assert newest(tmp_path)[0] == -1
    build_index(open_store(tmp_path))
    log.commit(add("b"))
    assert newest(tmp_path) == (0, {"get": 1})


def test_names_tell_where_the_hint_is_lost_or_of_another_table(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit(add("a"))
    build_index(open_store(tmp_path))
    log.commit(add("b"))
    hint = log.log / "_sidecars" / HINT
    hint.write_text(hint.read_text().replace("0", "500"))
    assert newest(tmp_path)[0] == 0
    hint.unlink()
    assert newest(tmp_path)[0] == 0
