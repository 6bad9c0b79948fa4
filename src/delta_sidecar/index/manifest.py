"""The manifest: what an index covers, which parts it has, and to which commit file it is bound.

Written as `{"crc32": "…", "manifest": {…}}`, the checksum over the bytes of the inner object: a flipped bit is seen.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.layout import Layout, Path, SortKey, SortKind
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.protocol import mapping_mode
from delta_sidecar.log.schema import DataType, StructType, parse_schema
from delta_sidecar.storage.store import Buffer, ObjectMeta

FORMAT: Final = 1

KeyValue = int | float | str | None
"""A bound of the sort key or of the time column: whole numbers, dates (days), timestamps (microseconds) and booleans as
integers; floats as numbers or `Infinity`, `-Infinity`; decimals and strings as text; binary as hexadecimal digits."""


class FileEntry(msgspec.Struct, frozen=True, array_like=True):
    """One Parquet file of a part."""

    size: int
    footer: int
    """Bytes of the footer, without the eight that end the file: it begins at `size - 8 - footer`."""
    crc32: int
    """Of the whole file."""
    footer_crc32: int
    """Of the footer and the eight bytes after it."""


class PartEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part: some rows of the index, sorted by key and path."""

    id: str
    rows: int
    bytes: int
    """Of the data files together."""
    core: FileEntry
    """`{id}.core.parquet`; `{id}.parquet` where core and stats are one file."""
    stats: FileEntry | None = None
    """`{id}.stats.parquet`."""
    records: int | None = None
    """Rows in the data files together, deleted ones too; None if any count is unknown."""
    key: tuple[KeyValue, KeyValue] = (None, None)
    """The smallest and the greatest known key."""
    key_unknown: int = 0
    """Rows whose key is null or unknown; they are sorted first."""
    time: tuple[KeyValue, KeyValue] = (None, None)
    """The smallest minimum and the greatest maximum of the time column, as in the log."""
    time_unknown: int = 0
    """Rows of which a bound of the time column is unknown."""
    path: tuple[str, str] | None = None
    """The smallest and the greatest path, in the order of their bytes; None where a path may have two spellings."""
    vectors: int = 0
    """Rows with a deletion vector."""

    @property
    def core_name(self) -> str:
        return f"{self.id}.parquet" if self.stats is None else f"{self.id}.core.parquet"

    @property
    def stats_name(self) -> str:
        """The file that holds the bounds."""
        return f"{self.id}.parquet" if self.stats is None else f"{self.id}.stats.parquet"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.core_name,) if self.stats is None else (self.core_name, self.stats_name)


class CommitIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A commit file as the builder saw it."""

    size: int
    modified: int
    """Milliseconds since 1970."""
    etag: str | None = None

    @classmethod
    def of(cls, meta: ObjectMeta) -> CommitIdentity:
        return cls(meta.size, meta.last_modified_ms, meta.etag)

    def is_of(self, meta: ObjectMeta) -> bool:
        """Whether a listed file is the very one: same size, and same etag or, where either has none, same time."""
        if self.size != meta.size:
            return False
        return self.etag == meta.etag if self.etag and meta.etag else self.modified == meta.last_modified_ms


class Sort(msgspec.Struct, frozen=True, omit_defaults=True):
    """What rows are sorted by, before their path."""

    kind: SortKind
    column: list[str] = []
    """Physical names."""
    granularity: Literal["month", "day", "hour", "minute", "second"] | None = None


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """An index at one version."""

    format: int
    writer: str
    build: str
    table_id: str
    version: int
    protocol: Protocol
    metadata: Metadata
    schema_hash: str
    """SHA-256 of the metadata's `schemaString`, in hexadecimal digits."""
    sort: Sort
    files: int
    bytes: int
    parts: list[PartEntry]
    """In the order of their keys."""
    commit: CommitIdentity | None = None
    """None where the version has a checkpoint but no commit file any more."""
    time_column: list[str] = []
    records: int | None = None
    built_at: int = 0
    """Milliseconds since 1970."""


class Hint(msgspec.Struct, frozen=True):
    """`_last_index`: which manifest is the newest."""

    version: int


class _Sealed(msgspec.Struct, frozen=True):
    crc32: str
    manifest: msgspec.Raw


class _Format(msgspec.Struct, frozen=True):
    format: int


def encode(manifest: Manifest) -> bytes:
    inner = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Sealed(_digest(inner), msgspec.Raw(inner)))


def decode(data: Buffer, where: str) -> Manifest:
    """The manifest; `CorruptIndexError` for one that is broken, or of a format this version does not know."""
    try:
        sealed = msgspec.json.decode(bytes(data), type=_Sealed)
        inner = bytes(sealed.manifest)
        if _digest(inner) != sealed.crc32:
            raise CorruptIndexError(f"{where} is damaged: its checksum does not agree; build the index again")
        found = msgspec.json.decode(inner, type=_Format).format
        if found != FORMAT:
            raise CorruptIndexError(
                f"{where} has format {found}, and this version reads {FORMAT}; update delta-sidecar"
            )
        return msgspec.json.decode(inner, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptIndexError(f"{where} is not a manifest ({error}); build the index again") from None


def _digest(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def totals(parts: Sequence[PartEntry]) -> tuple[int, int, int | None]:
    """Files, bytes and records of parts together."""
    records = [part.records for part in parts]
    known = None if any(r is None for r in records) else sum(r for r in records if r is not None)
    return sum(p.rows for p in parts), sum(p.bytes for p in parts), known


def layout_of(manifest: Manifest) -> Layout:
    """The columns of an index, as its manifest has them; `CorruptIndexError` where the schema does not bear it out."""
    text = manifest.metadata.schemaString
    mode = mapping_mode(manifest.protocol, manifest.metadata)
    schema = parse_schema(text, mode) if text else StructType()
    layout = Layout.of(schema, manifest.metadata.partitionColumns)
    leaves = {leaf.path: leaf for leaf in layout.leaves}
    partition: dict[Path, DataType] = {(field.physical_name,): field.type for field in layout.partition}
    kind, path, time = manifest.sort.kind, tuple(manifest.sort.column), tuple(manifest.time_column)
    types = partition if kind == "partition" else {leaf.path: leaf.type for leaf in layout.leaves}
    if (time and time not in leaves) or (kind != "modification_time" and path not in types):
        raise CorruptIndexError(
            f"{manifest.version}: the sort or time column is not in the table's schema; build the index again"
        )
    key = SortKey(kind, path, types[path]) if path else SortKey(kind)
    return dataclasses.replace(layout, time=leaves.get(time), sort=key, granularity=manifest.sort.granularity)
