"""Whether a store can refuse to overwrite an existing object, which our own files rely on."""

from __future__ import annotations

import threading
from typing import Final
from uuid import uuid4

from delta_sidecar.errors import ObjectExistsError, OptionError
from delta_sidecar.lake.policies import LakePolicy
from delta_sidecar.storage.store import Store, is_local
from delta_sidecar.storage.uri import parse_location

_PLACE: Final = "_sidecar_probe"
_lock = threading.Lock()
_known: dict[str, bool] = {}
"""By bucket: one answer for all tables in it."""


def check_conditional_put(policy: LakePolicy, store: Store, uri: str) -> None:
    """Try it, once for each bucket, if the policy asks for it and does not declare it.

    Raises:
        OptionError: The store overwrites an object that it was asked to keep.
    """
    if policy.mutation.require_conditional_put is not True or is_local(store):
        return
    location = parse_location(uri)
    bucket = f"{location.scheme}://{location.authority}"
    with _lock:
        if bucket not in _known:
            _known[bucket] = _keeps(store)
        keeps = _known[bucket]
    if not keeps:
        raise OptionError(
            f"{bucket} has no conditional put: it overwrites an object that it was asked to keep; use another store, "
            "or set require_conditional_put = false and let one process at a time write indexes and cursors"
        )


def _keeps(store: Store) -> bool:
    name = f"{_PLACE}/{uuid4().hex}"
    try:
        store.put_if_absent(name, b"1")
        store.put_if_absent(name, b"2")
    except ObjectExistsError:
        return True
    finally:
        store.delete(name)
    return False
