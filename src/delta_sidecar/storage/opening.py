"""From a location and options, or a store that the caller passes, to a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta_sidecar.storage.local import LocalStore
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import Location, parse_location

if TYPE_CHECKING:
    from delta_sidecar.storage.given_store import GivenStore
    from delta_sidecar.storage.options import StoreSettings


def open_store(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    profile: Mapping[str, str] | None = None,
    settings: StoreSettings | None = None,
) -> Store:
    """The store rooted at `uri`. No request is made: a place that is not there shows at the first read."""
    return open_location(parse_location(uri), storage_options, profile, settings)


def open_location(
    location: Location,
    storage_options: Mapping[str, str] | None = None,
    profile: Mapping[str, str] | None = None,
    settings: StoreSettings | None = None,
) -> Store:
    """The store rooted at a location."""
    if location.scheme == "file":
        return LocalStore(location)
    from delta_sidecar.storage.cloud import open_cloud

    return open_cloud(location, storage_options, profile, settings)


def store_at(
    uri: str | os.PathLike[str],
    store: GivenStore | None,
    storage_options: Mapping[str, str] | None = None,
    profile: Mapping[str, str] | None = None,
) -> Store:
    """The store rooted at `uri`: opened with the options or, where one is given, that one."""
    if store is None:
        return open_store(uri, storage_options, profile)
    from delta_sidecar.storage.given_store import given_store

    return given_store(uri, store, storage_options, profile)
