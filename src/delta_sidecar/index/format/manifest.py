"""The manifest: what an index covers, which parts it has, and to which commit file it is bound.

Written as `{"crc32": "…", "manifest": {…}}`, with a checksum over the bytes of the inner object to detect damage.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import cached_property
from typing import Final, Literal

import msgspec

from delta_sidecar.errors import CorruptIndexError, DeltaSidecarError
from delta_sidecar.index.format.index_layout import IndexLayout, Path, SortKey, SortKind, is_sortable, is_time
from delta_sidecar.index.format.index_names import manifest_name
from delta_sidecar.index.format.part_entries import PartEntry, PartList
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.protocol import check_protocol, mapping_mode
from delta_sidecar.storage.store import Buffer, ObjectMeta
from delta_sidecar.values.types import DataType, StructType, parse_schema

FORMAT: Final = 1


class CommitIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A commit file as the builder saw it."""

    size: int
    modified: int
    """Milliseconds since 1970."""
    etag: str | None = None
    crc32: int | None = None
    """Checksum of its bytes: a copy of the log has other times and etags, but a rewritten log has other bytes."""

    @classmethod
    def of(cls, meta: ObjectMeta, crc32: int | None = None) -> CommitIdentity:
        return cls(meta.size, meta.last_modified_ms, meta.etag, crc32)

    def is_of(self, meta: ObjectMeta) -> bool:
        """Whether a listed file is the very one."""
        return meta.is_as(self.size, self.modified, self.etag)


class Sort(msgspec.Struct, frozen=True, omit_defaults=True):
    """What rows are sorted by, before their path."""

    kind: SortKind
    column: list[str] = []
    """Physical names."""
    granularity: Literal["month", "day", "hour", "minute", "second"] | None = None


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, dict=True):
    """An index at one version. Its parts are read when they are asked for: the first file of a listing needs none."""

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
    commit: CommitIdentity | None = None
    """None where the version has a checkpoint but no commit file any more."""
    time_column: list[str] = []
    records: int | None = None
    built_at: int = 0
    """Milliseconds since 1970."""
    user_metadata: dict[str, str] = {}
    """Metadata that users gave to the build."""
    parts_last: bool = False
    """Whether nothing follows the parts, so that a reader that needs none can cut the text off there."""
    parts_json: msgspec.Raw = msgspec.field(name="parts")
    """See `parts`."""

    @cached_property
    def parts(self) -> PartList:
        """The greatest keys first; `CorruptIndexError` if the list of them is damaged."""
        try:
            parts = _parts.decode(self.parts_json)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptIndexError(
                f"{manifest_name(self.version)} has no list of parts ({error}); build the index again"
            ) from None
        parts.check(manifest_name(self.version))
        return parts


class Hint(msgspec.Struct, frozen=True):
    """`_last_index`: which manifest is the newest."""

    version: int


class _Sealed(msgspec.Struct, frozen=True):
    crc32: str
    manifest: msgspec.Raw


class _Format(msgspec.Struct, frozen=True):
    format: int


_BEGIN: Final = b'{"crc32":"'
_MIDDLE: Final = b'","manifest":'
_PARTS: Final = b',"parts_last":true,"parts":'
_HEAD: Final = 1 << 15
"""The parts are searched for in this many bytes first."""


# Made here: the first use of a type costs a millisecond.
_sealed = msgspec.json.Decoder(_Sealed)
_format = msgspec.json.Decoder(_Format)
_manifest = msgspec.json.Decoder(Manifest)
_parts = msgspec.json.Decoder(PartList)


def text_of(manifest: Manifest) -> bytes:
    """The manifest alone, without its checksum."""
    return msgspec.json.encode(msgspec.structs.replace(manifest, parts_last=True))


def encode(manifest: Manifest) -> bytes:
    inner = text_of(manifest)
    return msgspec.json.encode(_Sealed(_digest(inner), msgspec.Raw(inner)))


def decode(data: Buffer, where: str) -> Manifest:
    """The manifest; `CorruptIndexError` for one that is broken, or of a format this version does not know."""
    try:
        digest, inner = _opened(data)
        if _digest(inner) != digest:
            raise CorruptIndexError(f"{where} is damaged: its checksum does not match; build the index again")
        try:
            manifest = _decoded(inner)
        except msgspec.ValidationError:
            _check_format(_format.decode(inner).format, where)
            raise
        _check_format(manifest.format, where)
        return manifest
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptIndexError(f"{where} is not a manifest ({error}); build the index again") from None


def _opened(data: Buffer) -> tuple[str, Buffer]:
    """The checksum and the bytes that it is of. Written as we write it, the envelope need not be parsed."""
    view = memoryview(data)
    digest, begins = len(_BEGIN), len(_BEGIN) + 8 + len(_MIDDLE)
    if bytes(view[:digest]) == _BEGIN and bytes(view[digest + 8 : begins]) == _MIDDLE and bytes(view[-1:]) == b"}":
        return bytes(view[digest : digest + 8]).decode("latin-1"), view[begins:-1]
    sealed = _sealed.decode(data)
    return sealed.crc32, bytes(sealed.manifest)


def _decoded(inner: Buffer) -> Manifest:
    """Where the parts come last they are not even skipped: of a billion files they are megabytes."""
    view, size = memoryview(inner), _HEAD
    while (at := bytes(view[:size]).find(_PARTS)) < 0:
        if size >= len(view):
            return _manifest.decode(inner)
        size *= 8
    start = at + len(_PARTS)
    head = _manifest.decode(bytes(view[:start]) + b"null}")
    return msgspec.structs.replace(head, parts_json=msgspec.Raw(view[start:-1]))


def _check_format(number: int, where: str) -> None:
    if number != FORMAT:
        raise CorruptIndexError(f"{where} has format {number}, but this version reads {FORMAT}; update delta-sidecar")


def _digest(data: Buffer) -> str:
    return f"{zlib.crc32(data):08x}"


def with_parts(manifest: Manifest, parts: Iterable[PartEntry]) -> Manifest:
    """The same manifest with other parts."""
    return msgspec.structs.replace(manifest, parts_json=parts_json(parts))


def parts_json(parts: Iterable[PartEntry]) -> msgspec.Raw:
    """Parts as a manifest holds them."""
    return msgspec.Raw(msgspec.json.encode(PartList.of(parts)))


def totals(parts: Iterable[PartEntry]) -> tuple[int, int, int | None]:
    """Files, bytes and records of parts together."""
    entries = list(parts)
    records = [part.records for part in entries]
    known = None if any(r is None for r in records) else sum(r for r in records if r is not None)
    return sum(p.rows for p in entries), sum(p.bytes for p in entries), known


def layout_of(manifest: Manifest) -> IndexLayout:
    """The columns of an index. `CorruptIndexError` if this reader does not know its protocol, or its schema cannot be
    read or lacks a column that it needs."""
    name, text = manifest_name(manifest.version), manifest.metadata.schemaString
    try:
        check_protocol(manifest.protocol)
        mode = mapping_mode(manifest.protocol, manifest.metadata)
        schema = parse_schema(text, mode) if text else StructType()
        layout = IndexLayout.of(schema, manifest.metadata.partitionColumns)
    except (DeltaSidecarError, ValueError, TypeError, KeyError, AttributeError) as error:
        # Whether the log's own protocol or schema is like that shows when the log is read.
        raise CorruptIndexError(
            f"{name}: its protocol or schema cannot be read ({error}); build the index again"
        ) from None
    leaves = {leaf.path: leaf for leaf in layout.leaves}
    partition: dict[Path, DataType] = {(field.physical_name,): field.type for field in layout.partition}
    kind, path, time = manifest.sort.kind, tuple(manifest.sort.column), tuple(manifest.time_column)
    types = partition if kind == "partition" else {leaf.path: leaf.type for leaf in layout.leaves}
    # A build gives `modification_time` no column, and the other kinds one.
    is_key = not path if kind == "modification_time" else path in types and is_sortable(types[path])
    if not is_key or (time and (time not in leaves or not is_time(leaves[time].type))):
        raise CorruptIndexError(
            f"{name}: the sort or time column is not in the table's schema, or not of a type for it; "
            "build the index again"
        )
    key = SortKey(kind, path, types[path]) if path else SortKey(kind)
    return msgspec.structs.replace(layout, time=leaves.get(time), sort=key, granularity=manifest.sort.granularity)
