"""Object stores: get, ranges, list, put-if-absent; locations and options."""

from __future__ import annotations

from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Buffer, ByteRange, ObjectMeta, Store
from delta_sidecar.storage.uri import Location, canonical_uri, parse_location, resolve_log_path

__all__ = [
    "Buffer",
    "ByteRange",
    "Location",
    "ObjectMeta",
    "Store",
    "canonical_uri",
    "open_store",
    "parse_location",
    "resolve_log_path",
]
