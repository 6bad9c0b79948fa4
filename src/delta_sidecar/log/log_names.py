"""What a file name in the log directory says."""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct


class Kind(Enum):
    COMMIT = "commit"
    COMPACTED = "compacted"
    CHECKSUM = "checksum"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTI_PART_CHECKPOINT = "multi-part checkpoint"
    UUID_CHECKPOINT = "V2 checkpoint"
    JSON_CHECKPOINT = "JSON checkpoint"


class LogName(Struct, frozen=True):
    kind: Kind
    version: int
    end_version: int = -1
    """The last version of a compacted range."""
    part: int = 0
    parts: int = 0


_NAME = re.compile(
    r"(?P<version>\d{20})\."
    r"(?:(?P<commit>json)"
    r"|(?P<crc>crc)"
    r"|(?P<end>\d{20})\.compacted\.json"
    r"|checkpoint\.(?:(?P<classic>parquet)"
    r"|(?P<json>json)"
    r"|(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|(?P<uuid>[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})\.(?:json|parquet)))",
    re.ASCII,
)


def parse_name(name: str, kinds: frozenset[Kind]) -> LogName | None:
    """What the bare name says, or None for anything that is not part of a log with these kinds of files."""
    found = _parsed(name)
    return found if found is not None and found.kind in kinds else None


def _parsed(name: str) -> LogName | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = int(match["version"])
    if match["commit"]:
        return LogName(Kind.COMMIT, version)
    if match["crc"]:
        return LogName(Kind.CHECKSUM, version)
    if match["end"]:
        return LogName(Kind.COMPACTED, version, end_version=int(match["end"]))
    if match["classic"]:
        return LogName(Kind.CLASSIC_CHECKPOINT, version)
    if match["json"]:
        return LogName(Kind.JSON_CHECKPOINT, version)
    if match["part"]:
        return LogName(Kind.MULTI_PART_CHECKPOINT, version, part=int(match["part"]), parts=int(match["parts"]))
    return LogName(Kind.UUID_CHECKPOINT, version)


def version_prefix(version: int) -> str:
    """How every name of a version begins."""
    return f"{version:020d}"


def commit_name(version: int) -> str:
    return f"{version:020d}.json"
