"""A table behind a store that counts, and that answers in turns to tell round trips apart."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from delta_sidecar import DeltaTable
from delta_sidecar.storage import open_store
from delta_sidecar.testing.stores import CountingStore, InStepStore


def counted(root: Path, *, in_step: bool = False) -> CountingStore:
    """In step, round trips can be counted."""
    store = open_store(str(root))
    return CountingStore(InStepStore(store) if in_step else store)


def opened(store: CountingStore, **arguments: Any) -> DeltaTable:
    return DeltaTable(store.root_uri, store=store, **arguments)


def commits_asked(store: CountingStore) -> list[int]:
    """The versions of the commits that were requested, newest first."""
    return sorted(
        {int(name[:20]) for name in _names(store) if len(name) == 25 and name.endswith(".json")}, reverse=True
    )


def _names(store: CountingStore) -> Iterable[str]:
    return (request.path.rpartition("/")[2] for request in store.requests)
