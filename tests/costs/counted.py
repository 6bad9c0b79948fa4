"""A table behind a store that counts, and that is slow enough to tell round trips apart."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from delta_sidecar import DeltaTable
from delta_sidecar.storage import open_store
from delta_sidecar.testing.stores import CountingStore, SlowStore

LATENCY_S = 0.1
"""Far more than threads need to start, so that requests made together overlap."""


def counted(root: Path, latency_s: float = 0.0) -> CountingStore:
    store = open_store(str(root))
    return CountingStore(SlowStore(store, latency_s) if latency_s else store)


def opened(store: CountingStore, **arguments: Any) -> DeltaTable:
    return DeltaTable(store.root_uri, store=store, **arguments)


def commits_asked(store: CountingStore) -> list[int]:
    """The versions of the commits that were requested, newest first."""
    return sorted(
        {int(name[:20]) for name in _names(store) if len(name) == 25 and name.endswith(".json")}, reverse=True
    )


def _names(store: CountingStore) -> Iterable[str]:
    return (request.path.rpartition("/")[2] for request in store.requests)
