"""The actions of the log, as far as they matter to a reader.

Unknown actions and unknown fields are ignored. `commitInfo` and `txn` do not change the file set.
"""

from __future__ import annotations

from typing import Any

import msgspec


class DeletionVector(msgspec.Struct, gc=False, frozen=True):
    """Where the deleted rows of a file are written down."""

    storageType: str
    pathOrInlineDv: str
    offset: int | None = None
    sizeInBytes: int | None = None
    cardinality: int | None = None

    @property
    def unique_id(self) -> str:
        """The protocol's `dvUniqueId`: the descriptor's text as it is."""
        start = f"{self.storageType}{self.pathOrInlineDv}"
        return start if self.offset is None else f"{start}@{self.offset}"


class Add(msgspec.Struct, gc=False):
    path: str
    size: int | None = None
    modificationTime: int | None = None
    partitionValues: dict[str, str | None] | None = None
    stats: str | None = None
    deletionVector: DeletionVector | None = None
    tags: dict[str, str | None] | None = None
    baseRowId: int | None = None
    defaultRowCommitVersion: int | None = None
    clusteringProvider: str | None = None


class BareAdd(msgspec.Struct, gc=False):
    """An add without its stats and tags, for columns that need neither: their text is most of a commit."""

    path: str
    size: int | None = None
    modificationTime: int | None = None
    partitionValues: dict[str, str | None] | None = None
    deletionVector: DeletionVector | None = None

    @property
    def stats(self) -> None:
        """Not known."""


class Remove(msgspec.Struct, gc=False):
    path: str
    deletionVector: DeletionVector | None = None


class Format(msgspec.Struct, frozen=True):
    provider: str = "parquet"
    options: dict[str, str | None] | None = None


class Metadata(msgspec.Struct, frozen=True):
    """The `metaData` action."""

    id: str
    schemaString: str | None = None
    partitionColumns: list[str] = []
    configuration: dict[str, str | None] | None = None
    name: str | None = None
    description: str | None = None
    createdTime: int | None = None
    format: Format | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that have a value."""
        return {k: v for k, v in (self.configuration or {}).items() if v is not None}


class Protocol(msgspec.Struct, frozen=True):
    """The `protocol` action."""

    minReaderVersion: int
    minWriterVersion: int = 0
    readerFeatures: list[str] | None = None
    writerFeatures: list[str] | None = None


class Transaction(msgspec.Struct, frozen=True):
    """The `txn` action: how far an application has written."""

    appId: str
    version: int
    lastUpdated: int | None = None


class Sidecar(msgspec.Struct, frozen=True):
    """A V2 checkpoint's reference to a file of adds and removes."""

    path: str
    sizeInBytes: int | None = None


class StateLine(msgspec.Struct, gc=False):
    """A line of a commit, read only for what is not a file."""

    metaData: Metadata | None = None
    protocol: Protocol | None = None


class FileLine(msgspec.Struct, gc=False):
    """A line of a commit, read only for its file."""

    add: Add | None = None
    remove: Remove | None = None


class BareFileLine(msgspec.Struct, gc=False):
    """A line of a commit, read only for its file, without stats and tags."""

    add: BareAdd | None = None
    remove: Remove | None = None


class CompactedLine(msgspec.Struct, gc=False):
    """A line of a compacted file, read to see whether it says each thing once."""

    add: BareAdd | None = None
    remove: Remove | None = None
    metaData: Metadata | None = None


class InfoLine(msgspec.Struct, gc=False):
    """A line of a commit, read only for its provenance."""

    commitInfo: dict[str, Any] | None = None


class ChangedAdd(msgspec.Struct, gc=False):
    """An add, read for the rows that it inserts."""

    path: str
    size: int | None = None
    partitionValues: dict[str, str | None] | None = None
    deletionVector: DeletionVector | None = None
    dataChange: bool = True


class ChangedRemove(msgspec.Struct, gc=False):
    """A remove, read for the rows that it deletes. Size and partition values may be missing."""

    path: str
    size: int | None = None
    partitionValues: dict[str, str | None] | None = None
    deletionVector: DeletionVector | None = None
    dataChange: bool = True


class ChangeData(msgspec.Struct, gc=False):
    """The `cdc` action: a file of changed rows."""

    path: str
    size: int | None = None
    partitionValues: dict[str, str | None] | None = None


class ChangeInfo(msgspec.Struct, gc=False):
    """What `commitInfo` says that matters to a change feed. Writers put what they like into it."""

    operation: Any = None
    operationMetrics: Any = None
    inCommitTimestamp: Any = None


class ChangeLine(msgspec.Struct, gc=False):
    """A line of a commit, read for the rows that the commit changed."""

    add: ChangedAdd | None = None
    remove: ChangedRemove | None = None
    cdc: ChangeData | None = None
    commitInfo: ChangeInfo | None = None


class JudgedAdd(ChangedAdd, gc=False):
    """An add with its statistics, by which it may turn out to insert no wanted row."""

    stats: Any = None


class JudgedChangeLine(ChangeLine, gc=False):
    """A line of a commit, read for the rows that the commit changed, with the statistics of added files."""

    add: JudgedAdd | None = None


class TransactionLine(msgspec.Struct, gc=False):
    """A line of a commit, read only for applications' progress."""

    txn: Transaction | None = None


class TopLine(msgspec.Struct, gc=False):
    """A line of a V2 checkpoint's JSON top file."""

    metaData: Metadata | None = None
    protocol: Protocol | None = None
    sidecar: Sidecar | None = None
    add: Add | None = None
    txn: Transaction | None = None


class Checksum(msgspec.Struct, frozen=True):
    """A version's `.crc` file, as far as a reader trusts it."""

    metadata: Metadata | None = None
    protocol: Protocol | None = None


class LastCheckpoint(msgspec.Struct, frozen=True):
    """The hint in `_last_checkpoint`."""

    version: int
    size: int | None = None
    parts: int | None = None
    checksum: str | None = None
