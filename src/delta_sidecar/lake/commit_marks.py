"""Marks of commits: the one text that a commit carries for us, and finding the commit by it.

Spark gives a commit one string, `userMetadata`. We write a JSON object: the user's keys as they are, ours with the
prefix `sidecar.`. Each operation has a new random token in it, so its commit is found even if others commit at the same
time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import uuid4

import msgspec

from delta_sidecar.errors import OptionError
from delta_sidecar.pipeline.written import MarkedCommit, find_marked, records_of, total_of
from delta_sidecar.storage.store import Store

Scalar: TypeAlias = str | int | float | bool | None

OURS: Final = "sidecar."
TOKEN: Final = "sidecar.token"
OPERATION: Final = "sidecar.operation"
LINEAGE: Final = "sidecar.lineage"
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})+")


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class LineageContext:
    """Where the rows of a commit come from: named hashes, and tags. It is stored in the commit metadata.

    Raises:
        OptionError: A hash is neither bytes nor hexadecimal text.

    Example:
        >>> from delta_sidecar.lake import LineageContext
        >>> LineageContext({"spec": bytes(2), "plan": "00ff"}, {"job": "nightly"}).hashes
        {'spec': '0000', 'plan': '00ff'}
    """

    hashes: Mapping[str, bytes | str] = field(default_factory=dict)
    """Kept as hexadecimal text."""
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hashes", {name: _hex(name, value) for name, value in self.hashes.items()})
        object.__setattr__(self, "tags", {name: str(value) for name, value in self.tags.items()})


def _hex(name: str, value: bytes | str) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value).lower()
    if not _HEX.fullmatch(text):
        raise OptionError(f"the lineage hash {name} is neither bytes nor hexadecimal text")
    return text


@dataclass(frozen=True, slots=True)
class CommitMark:
    """What a commit says of itself.

    Raises:
        OptionError: A key of the user begins with `sidecar.`, or a value is not text, a number or a boolean.
    """

    operation: str
    user: Mapping[str, Scalar] = field(default_factory=dict)
    lineage: LineageContext | None = None
    token: str = field(default_factory=lambda: str(uuid4()))

    def __post_init__(self) -> None:
        for name, value in self.user.items():
            if name.startswith(OURS):
                raise OptionError(
                    f"the commit metadata key {name!r} is reserved: {OURS}* are our own keys; choose another name"
                )
            if any(_SURROGATE.search(text) for text in (name, value) if isinstance(text, str)):
                raise OptionError(f"the commit metadata {name!r} has lone surrogates, so it is not text; remove them")
            if not isinstance(value, str | int | float | bool | None):
                raise OptionError(
                    f"the commit metadata {name} is a {type(value).__name__}; give text, numbers or booleans"
                )

    @property
    def text(self) -> str:
        """For `userMetadata`."""
        said: dict[str, Any] = {**self.user, OPERATION: self.operation, TOKEN: self.token}
        if self.lineage is not None:
            said[LINEAGE] = {"hashes": self.lineage.hashes, "tags": self.lineage.tags}
        return msgspec.json.encode(said).decode()

    def is_in(self, text: str) -> bool:
        """Whether a commit's `userMetadata` bears this mark's token."""
        return self.token in text and read_mark(text).get(TOKEN) == self.token


def read_mark(text: str | None) -> dict[str, Any]:
    """What the `userMetadata` of a commit says, if it is one of ours or another JSON object; else nothing."""
    try:
        said = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return said if isinstance(said, dict) else {}


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A commit of ours in the log."""

    version: int
    rows: int | None
    """Rows of the files it added; None where the table keeps no statistics."""
    files: int
    bytes: int
    removed_files: int
    inserted: int | None
    updated: int | None
    deleted: int | None


def find_commit(store: Store, after: int, mark: CommitMark) -> FoundCommit | None:
    """The commit with a mark, among those after a version; None if there is none."""
    found = find_marked(store, after, mark.is_in)
    return None if found is None else _sum_up(found)


def _sum_up(found: MarkedCommit) -> FoundCommit:
    adds = found.adds()
    return FoundCommit(
        found.version,
        total_of([records_of(add) for add in adds]),
        len(adds),
        sum(add.size or 0 for add in adds),
        found.count_removed(),
        found.count_of("numTargetRowsInserted", "numOutputRows"),
        found.count_of("numTargetRowsUpdated", "numUpdatedRows"),
        found.count_of("numTargetRowsDeleted", "numDeletedRows"),
    )
