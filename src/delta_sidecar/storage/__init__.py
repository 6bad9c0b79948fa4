"""Object stores: get, ranges, list, put-if-absent; locations and options."""

from __future__ import annotations

from delta_sidecar.storage.opening import open_location, open_store
from delta_sidecar.storage.options import RetryPolicy, StoreSettings
from delta_sidecar.storage.ranged_file import RangedFile
from delta_sidecar.storage.retrying import RetryingStore
from delta_sidecar.storage.store import Buffer, ByteRange, ObjectMeta, Store
from delta_sidecar.storage.uri import Location, canonical_uri, parse_location, resolve_log_path

__all__ = [
    "Buffer",
    "ByteRange",
    "Location",
    "ObjectMeta",
    "RangedFile",
    "RetryPolicy",
    "RetryingStore",
    "Store",
    "StoreSettings",
    "canonical_uri",
    "open_location",
    "open_store",
    "parse_location",
    "resolve_log_path",
]
