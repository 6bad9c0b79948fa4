"""Cores of parts that were read before: parts never change, so a checksum says which one it is."""

from __future__ import annotations

from delta_sidecar.index.entries import PartEntry
from delta_sidecar.index.part_file import PartFile, fetch_core
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.store import Store


def fetch_core_cached(store: Store, directory: str, part: PartEntry, keep: bool, by_ranges: bool) -> PartFile:
    """The core of a part, from the cache if it is there, else as `fetch_core` gives it; `keep` puts it there."""
    key = (store.identity, directory, part.core_name, part.core)
    found: PartFile | None = shared_cache.get(key)
    if found is None:
        found = fetch_core(store, directory, part, by_ranges)
        if keep:
            shared_cache.put(key, found, part.core.size)
    return found.through(store)
