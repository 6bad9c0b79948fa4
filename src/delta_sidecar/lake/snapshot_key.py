"""One version of one table, as a value: for caches, cursors and registrations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from delta_sidecar.errors import InputError
from delta_sidecar.storage.uri import parse_location

if TYPE_CHECKING:
    from delta_sidecar.table import DeltaTable

_WITHOUT_CASE: Final = ("az", "abfss")
"""Azure's accounts and containers have no capitals. Old buckets of S3 may have some, and then they count."""


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """One version of one table. Keys of the same version are equal, however the location was written.

    Args:
        canonical_uri: The location. It is converted to its canonical form: `s3a` and `s3n` are `s3`, local paths are
            absolute, case in the names of an Azure account or container is ignored.
        version: The version.

    Raises:
        InputError: The location has an unknown form, or the version is not a whole number of 0 or more.

    Example:
        >>> from delta_sidecar.lake import SnapshotKey
        >>> SnapshotKey("s3a://lake/events/", 7)
        SnapshotKey(canonical_uri='s3://lake/events', version=7)
    """

    canonical_uri: str
    version: int

    def __post_init__(self) -> None:
        if type(self.version) is not int or self.version < 0:
            raise InputError(f"a snapshot's version is {self.version!r}; it takes a whole number of 0 or more")
        object.__setattr__(self, "canonical_uri", _canonical(self.canonical_uri))

    @classmethod
    def of(cls, table: DeltaTable) -> SnapshotKey:
        """The key of the version that is open."""
        return cls(table.table_uri, table.version())

    def __str__(self) -> str:
        return f"{self.canonical_uri}@{self.version}"


def _canonical(uri: str | os.PathLike[str]) -> str:
    location = parse_location(uri)
    if location.scheme in _WITHOUT_CASE:
        location = replace(location, authority=location.authority.lower())
    return location.uri
