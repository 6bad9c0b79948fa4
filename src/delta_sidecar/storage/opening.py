"""From a location and options to a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from obstore.store import MemoryStore

from delta_sidecar.errors import InputError
from delta_sidecar.storage.local import LocalStore
from delta_sidecar.storage.remote import ObstoreStore
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location


def open_store(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    profile: Mapping[str, str] | None = None,
) -> Store:
    """The store rooted at `uri`; no request is made, so a place that is not there shows at the first read."""
    location = parse_location(uri)
    if location.scheme == "file":
        return LocalStore(location)
    if location.scheme == "memory":
        return ObstoreStore(_memory(location.authority), location, ordered=False)
    raise InputError(f"{location.uri}: no such store")


@cache
def _memory(authority: str) -> MemoryStore:
    """`memory://name` is one place for the whole process."""
    return MemoryStore()
