"""The directory of an index and the names of its files.

`_delta_log/_sidecars/`, or `_delta_log/_sidecar_index/` on tables with the v2Checkpoint feature, where Delta's cleanup
empties the first. Versions are never zero-padded and no name contains `.checkpoint.`, because cleaners delete those.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from delta_sidecar.log.actions import Protocol
from delta_sidecar.log.dialect import LOG_DIRECTORY

SIDECARS: Final = f"{LOG_DIRECTORY}/_sidecars"
SIDECAR_INDEX: Final = f"{LOG_DIRECTORY}/_sidecar_index"
DIRECTORIES: Final = (SIDECARS, SIDECAR_INDEX)
HINT: Final = "_last_index"

_MANIFEST = re.compile(r"v(\d{1,19})\.manifest\.json")
_PART = re.compile(r"v\d{1,19}(?:-[0-9a-f]{32}(?:-\d+)?)?(?:\.core|\.stats)?\.parquet")
_SINGLE = re.compile(r"v(\d{1,19})\.parquet")
_LEASE = re.compile(r"([0-9a-f]{32})\.lease\.json")


def directory_for(protocol: Protocol) -> str:
    """Where the index of a table with this protocol lives."""
    return SIDECAR_INDEX if "v2Checkpoint" in (protocol.readerFeatures or ()) else SIDECARS


def manifest_name(version: int) -> str:
    return f"v{version}.manifest.json"


def manifest_version(name: str) -> int | None:
    """The version of a manifest by its name; None if it is not a manifest."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def new_build_id() -> str:
    return uuid.uuid4().hex


def part_id(version: int, build: str) -> str:
    """A name that no other task, build or try has: parts of one build share its id."""
    return f"v{version}-{build}-{10**11 + uuid.uuid4().int % (9 * 10**11)}"


def single_id(version: int) -> str:
    """The part of a table that is small enough for one, found without a manifest."""
    return f"v{version}"


def single_version(name: str) -> int | None:
    """The version of the part of a small table; None if the name is not one."""
    match = _SINGLE.fullmatch(name)
    return int(match[1]) if match else None


def is_part(name: str) -> bool:
    return _PART.fullmatch(name) is not None


def lease_name(build: str) -> str:
    return f"{build}.lease.json"


def build_of_lease(name: str) -> str | None:
    match = _LEASE.fullmatch(name)
    return match[1] if match else None
