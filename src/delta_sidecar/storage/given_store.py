"""A store that the caller passes: one of ours, or an obstore store with its own credentials."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from delta_sidecar.errors import InputError
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import Location, parse_location

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    GivenStore: TypeAlias = Store | ObjectStore

_SCHEMES = {"S3Store": {"s3"}, "GCSStore": {"gs"}, "AzureStore": {"az", "abfss"}, "MemoryStore": {"memory"}}


def given_store(
    uri: str | os.PathLike[str],
    store: GivenStore,
    storage_options: Mapping[str, str] | None = None,
    profile: Mapping[str, str] | None = None,
) -> Store:
    """The given store, rooted at `uri`.

    One of ours is rooted already, and is used as it is. One of obstore's holds a bucket, or a directory of it: the
    place that `uri` names must be in it.
    """
    if hasattr(store, "root_uri"):
        return cast(Store, store)
    kind = next((c.__name__ for c in type(store).__mro__ if c.__module__.partition(".")[0] == "obstore"), None)
    if kind is None:
        raise InputError(f"store is a {type(store).__name__}; it takes an obstore store, such as S3Store")
    return _on_obstore(parse_location(uri), store, kind, storage_options, profile)


def _on_obstore(
    location: Location,
    client: ObjectStore,
    kind: str,
    storage_options: Mapping[str, str] | None,
    profile: Mapping[str, str] | None,
) -> Store:
    from delta_sidecar.storage.cloud import store_on
    from delta_sidecar.storage.local import LocalStore

    if kind == "LocalStore" and location.scheme == "file":
        _below(location, client)
        # Ours reads the same directory: obstore's hides some names and lists in no order.
        return LocalStore(location)
    if location.scheme not in _SCHEMES.get(kind, ()):
        raise InputError(f"{location.uri} is not in a {kind}; give the store that holds the table")
    config: Mapping[str, Any] = getattr(client, "config", {})
    bucket = config.get("bucket") or config.get("container_name")
    if bucket is not None and bucket != location.bucket:
        raise InputError(f"{location.uri} is not in the given {kind}, which holds {bucket!r}")
    return store_on(client, _number(client), location, _below(location, client), storage_options, profile)


def _below(location: Location, client: ObjectStore) -> str:
    """The path of the table below the prefix of a store."""
    prefix, path = str(getattr(client, "prefix", None) or "").strip("/"), location.path.strip("/")
    if prefix and path != prefix and not path.startswith(f"{prefix}/"):
        raise InputError(f"{location.uri} is not in the given store, which holds only what is below {prefix!r}")
    return path[len(prefix) :].strip("/")


_numbers: dict[int, int] = {}


def _number(client: ObjectStore) -> int:
    """One number for all tables of one client: what a process remembers of a table goes by it."""
    from delta_sidecar.storage.remote import client_numbers

    if id(client) not in _numbers:
        _numbers[id(client)] = next(client_numbers)
        weakref.finalize(client, _numbers.pop, id(client), None).atexit = False
    return _numbers[id(client)]
