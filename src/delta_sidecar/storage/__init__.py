"""Object stores: get, ranges, list, put-if-absent; locations and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.storage.opening import open_location, open_store
    from delta_sidecar.storage.options import RetryPolicy, StoreSettings
    from delta_sidecar.storage.ranged_file import RangedFile
    from delta_sidecar.storage.retrying import RetryingStore
    from delta_sidecar.storage.store import Buffer, ByteRange, ObjectMeta, Store
    from delta_sidecar.storage.uri import Location, canonical_uri, parse_location, resolve_log_path

_MODULES = {
    "Buffer": "store",
    "ByteRange": "store",
    "Location": "uri",
    "ObjectMeta": "store",
    "RangedFile": "ranged_file",
    "RetryPolicy": "options",
    "RetryingStore": "retrying",
    "Store": "store",
    "StoreSettings": "options",
    "canonical_uri": "uri",
    "open_location": "opening",
    "open_store": "opening",
    "parse_location": "uri",
    "resolve_log_path": "uri",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)

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
