"""Stores over the network (and in memory), on obstore. Imported when one is opened: local tables do not need it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from delta_sidecar.errors import OptionError
from delta_sidecar.storage import options as known
from delta_sidecar.storage.failures import scrubbed
from delta_sidecar.storage.options import CLIENT_DEFAULTS, StoreOptions, StoreSettings, read_options
from delta_sidecar.storage.remote import ObstoreStore, client_numbers
from delta_sidecar.storage.retrying import RetryingStore
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import Location

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SERVICES = {"s3": known.S3, "az": known.AZURE, "abfss": known.AZURE, "gs": known.GOOGLE}
_ONE_ATTEMPT: Any = {"max_retries": 0}


def open_cloud(
    location: Location,
    storage_options: Mapping[str, str] | None,
    profile: Mapping[str, str] | None,
    settings: StoreSettings | None,
) -> Store:
    """The store rooted at a location that is not local."""
    service = _SERVICES.get(location.scheme, known.LOCAL)
    options = read_options(service, storage_options, profile, settings=settings)
    client, number = _shared_client(location, options)
    return _retrying(client, number, location, location.path, options.settings)


def store_on(
    client: ObjectStore,
    number: int,
    location: Location,
    path: str,
    storage_options: Mapping[str, str] | None,
    profile: Mapping[str, str] | None,
) -> Store:
    """The store rooted at a location, on a client that is there. `path` is the location's, as the client has it."""
    options = read_options(known.LOCAL, storage_options, profile)
    return _retrying(client, number, location, path, options.settings)


def _retrying(client: ObjectStore, number: int, location: Location, path: str, settings: StoreSettings) -> Store:
    store = ObstoreStore(client, location, _lists_in_order(location), settings.gap, number, path)
    return RetryingStore(store, settings)


_clients: OrderedDict[Hashable, tuple[ObjectStore, int]] = OrderedDict()
_clients_lock = threading.Lock()
_MOST_CLIENTS = 32


def _shared_client(location: Location, options: StoreOptions) -> tuple[ObjectStore, int]:
    """One client, and so one pool of connections, for all tables that are reached in the same way, and its number."""
    way = (location.scheme, location.authority, *(_items(m) for m in (options.config, options.client)))
    key = (*way, frozenset(options.from_environment))
    with _clients_lock:
        if key not in _clients:
            _clients[key] = _client(location, options), next(client_numbers)
            if len(_clients) > _MOST_CLIENTS:
                _clients.popitem(last=False)
        _clients.move_to_end(key)
        return _clients[key]


def _items(options: Mapping[str, Any]) -> Hashable:
    return tuple(sorted((name, str(value)) for name, value in options.items()))


def _lists_in_order(location: Location) -> bool:
    """Whether a service lists in path order: all but S3's directory buckets (by their name) and memory."""
    return location.scheme != "memory" and not location.bucket.endswith("--x-s3")


def _client(location: Location, options: StoreOptions) -> ObjectStore:
    _check_encryption(location, options)
    try:
        if location.scheme == "memory":
            return _memory(location.authority)
        if location.scheme == "s3":
            return _s3(location, options)
        if location.scheme == "gs":
            return _google(location, options)
        return _azure(location, options)
    except (BaseError, ValueError, TypeError) as e:
        raise OptionError(f"{location.uri}: the storage options are not valid: {scrubbed(str(e))}") from None


_TRUE = frozenset(["true", "1", "on", "yes", "y"])


def _check_encryption(location: Location, options: StoreOptions) -> None:
    """Refuse an unencrypted endpoint unless it is allowed: obstore would fail at every request without saying why."""
    endpoint = options.config.get("endpoint") or options.config.get("base_url") or ""
    allowed = (options.client.get("allow_http", ""), options.config.get("use_emulator", ""))
    if endpoint.lower().startswith("http://") and not any(value.lower() in _TRUE for value in allowed):
        server = scrubbed(endpoint).partition("?")[0]
        raise OptionError(
            f"{location.uri}: the endpoint {server} is not encrypted; set the storage option allow_http=true"
        )


@cache
def _memory(authority: str) -> MemoryStore:
    """`memory://name` is one place for the whole process."""
    return MemoryStore()


def _s3(location: Location, options: StoreOptions) -> S3Store:
    config = {"region": "us-east-1"} | dict(options.config)
    fixed = None if "session_token" not in options.from_environment else _static_credentials(options)
    return S3Store(
        location.bucket,
        config=cast(Any, config),
        client_options=cast(Any, options.client),
        retry_config=_ONE_ATTEMPT,
        credential_provider=cast(Any, fixed),
    )


def _static_credentials(options: StoreOptions) -> Any:
    """A given key without the token of the environment, which belongs to another key: obstore would send both."""
    key, secret = options.config.get("access_key_id"), options.config.get("secret_access_key")
    if key is None or secret is None or "access_key_id" in options.from_environment:
        return None
    return lambda: {"access_key_id": key, "secret_access_key": secret, "token": None, "expires_at": None}


def _google(location: Location, options: StoreOptions) -> GCSStore:
    return GCSStore(
        location.bucket,
        config=cast(Any, dict(options.config)),
        client_options=cast(Any, options.client),
        retry_config=_ONE_ATTEMPT,
    )


def _azure(location: Location, options: StoreOptions) -> AzureStore:
    """An account that the location names counts over one of the options."""
    config = dict(options.config) | _azure_host(location, options)
    if "account_name" not in config and config.get("use_emulator") != "true":
        raise ValueError("the Azure storage account is not known; pass account_name")
    return AzureStore(
        location.bucket,
        config=cast(Any, config),
        client_options=cast(Any, options.client),
        retry_config=_ONE_ATTEMPT,
    )


def _azure_host(location: Location, options: StoreOptions) -> dict[str, str]:
    host = location.authority.partition("@")[2]
    if not host:
        return {}
    config = {"account_name": location.account or ""}
    if "endpoint" not in options.config and not host.endswith(".dfs.core.windows.net"):
        config["endpoint"] = f"https://{host.replace('.dfs.', '.blob.', 1)}"
    if "fabric.microsoft.com" in host:
        config["use_fabric_endpoint"] = "true"
    return config


def object_store_options(
    location: Location, storage_options: Mapping[str, str] | None, profile: Mapping[str, str] | None
) -> dict[str, str] | None:
    """The options of a place under the names of Rust's object_store, for engines built on it; None where they are not
    known to work there."""
    prefix = {"s3": "aws_", "az": "azure_storage_", "abfss": "azure_storage_"}.get(location.scheme)
    if prefix is None:
        return None
    options = read_options(_SERVICES[location.scheme], storage_options, profile)
    config = dict(options.config)
    if location.scheme == "s3":
        config = {"region": "us-east-1"} | config
        if "session_token" in options.from_environment and _static_credentials(options) is not None:
            del config["session_token"]
    else:
        config |= _azure_host(location, options)
    client = {name: value for name, value in options.client.items() if name not in CLIENT_DEFAULTS}
    return {f"{prefix}{name}": value for name, value in config.items()} | client
