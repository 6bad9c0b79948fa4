"""The state of tables that IndexTables writes since its protocol 4.

`state-v{version}/_manifest.avro` is a whole version: it names Avro files of splits (in `manifests/`, shared between
states), paths that are removed from them (tombstones), and the texts that splits refer to (`docMappingRef`). It is a
base of the log, as a checkpoint is, and also a version by itself: there are no version files between states. Version
files that came after a state are replayed on it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import msgspec

from delta_sidecar.errors import CorruptLogError, ObjectNotFoundError, UnsupportedFeatureError, needs_extra
from delta_sidecar.flow.pool import side_by_side
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.segment import OtherBase
from delta_sidecar.search.log.actions import Split, SplitKeys, Wire, from_wire
from delta_sidecar.search.log.checkpoints import metadata_of, protocol_of
from delta_sidecar.search.log.dialect import LOG_DIRECTORY
from delta_sidecar.storage.store import ObjectMeta, Store

_STATE: Final = re.compile(rf"{LOG_DIRECTORY}/state-v(\d+)/_manifest\.avro", re.ASCII)
_PREFIX: Final = f"{LOG_DIRECTORY}/state-v"
_FORMAT: Final = 1
_REGISTRY_KEY: Final = "docMappingSchema."
_AT_ONCE: Final = 16


def list_states(store: Store) -> dict[int, ObjectMeta]:
    """The states that are there, by version."""
    found: dict[int, ObjectMeta] = {}
    for page in store.list_after(_PREFIX, _PREFIX, f"{LOG_DIRECTORY}/state-w"):
        for meta in page:
            match = _STATE.fullmatch(meta.path)
            if match is not None and meta.size:
                found[int(match[1])] = meta
    return found


class _ManifestInfo(msgspec.Struct):
    path: str
    numEntries: int


class _State(msgspec.Struct):
    """What `_manifest.avro` says."""

    manifests: list[_ManifestInfo]
    formatVersion: int = _FORMAT
    createdAt: int = 0
    numFiles: int = 0
    totalBytes: int = 0
    tombstones: list[str] = []
    schemaRegistry: dict[str, str] = {}
    protocolVersion: int = 4
    metadata: str | None = None


@dataclass(frozen=True)
class TheirState(OtherBase):
    """One state, as a base of the log."""

    store: Store
    version_: int
    """By the name of its directory, as IndexTables finds it."""
    meta: ObjectMeta
    content_: _State
    wire_metadata: Wire
    wire_protocol: Wire
    keys: SplitKeys = field(repr=False)

    def __str__(self) -> str:
        return f"state {self.version}"

    @property
    def kind(self) -> str:
        return "state"

    @property
    def version(self) -> int:
        return self.version_

    @property
    def size(self) -> int:
        return self.meta.size

    @property
    def part_count(self) -> int:
        return len(self.content_.manifests)

    @property
    def nbytes(self) -> int:
        return self.meta.size

    @property
    def content(self) -> str:
        return f"{self.meta.path} {self.meta.size} {self.meta.last_modified_ms}"

    @property
    def created_ms(self) -> int:
        return self.content_.createdAt

    @property
    def split_count(self) -> int:
        """How many splits the state says it has."""
        return self.content_.numFiles

    @property
    def protocol(self) -> Protocol:
        return protocol_of(self.wire_protocol, self.meta.path)

    @property
    def metadata(self) -> Metadata:
        return metadata_of(self.wire_metadata, self.meta.path)

    def read(self) -> TheirState:
        """The same, with its splits read: what is broken shows here."""
        assert self.splits is not None
        return self

    @cached_property
    def splits(self) -> list[Split]:
        """The live splits: of a path that is named twice the later entry, and nothing that a tombstone names."""
        paths = [_manifest_path(self.version, info.path) for info in self.content_.manifests]
        reads = [partial(_records, self.store, path) for path in paths]
        groups = [group for at in range(0, len(reads), _AT_ONCE) for group in side_by_side(reads[at : at + _AT_ONCE])]
        live: dict[bytes, Split] = {}
        for path, info, records in zip(paths, self.content_.manifests, groups, strict=True):
            if len(records) != info.numEntries:
                raise CorruptLogError(
                    f"{path} holds {len(records)} splits, its state says {info.numEntries}; restore the file"
                )
            for split in self._restored(records, path):
                live[self.keys.key(split.path)] = split
        for path in self.content_.tombstones:
            live.pop(self.keys.key(path), None)
        return list(live.values())

    def _restored(self, records: Iterable[Wire], path: str) -> Iterable[Split]:
        texts = {**(self.metadata.properties), **self.content_.schemaRegistry}
        for record in records:
            reference = record.get("docMappingRef")
            if reference is not None and record.get("docMappingJson") is None:
                text = texts.get(reference) or texts.get(f"{_REGISTRY_KEY}{reference}")
                record = {**record, "docMappingJson": text}
            yield from_wire(Split, record, path)


def read_state(store: Store, version: int, meta: ObjectMeta, known: tuple[Wire | None, Wire | None]) -> TheirState:
    """Open a state. `known` are protocol and metadata of the version files up to it: a state may leave out its own."""
    records = _records(store, meta.path)
    if len(records) != 1:
        raise CorruptLogError(f"{meta.path} holds {len(records)} records instead of one; restore the file")
    try:
        content = msgspec.convert({k: v for k, v in records[0].items() if v is not None}, _State, strict=False)
    except msgspec.ValidationError as error:
        raise CorruptLogError(f"{meta.path} is not a state ({error}); restore the file") from None
    if content.formatVersion > _FORMAT:
        raise UnsupportedFeatureError(
            f"{meta.path} has format version {content.formatVersion}, this reader knows {_FORMAT}; use a newer release"
        )
    own = _own_metadata(content.metadata, meta.path)
    protocol, metadata = known
    if own is None and metadata is None:
        raise CorruptLogError(f"{meta.path} holds no metadata, and no version file up to it does; restore version 0")
    numbered: Wire = {"minReaderVersion": content.protocolVersion, "minWriterVersion": content.protocolVersion}
    if protocol is not None and int(protocol.get("minReaderVersion") or 0) >= content.protocolVersion:
        numbered = protocol
    return TheirState(store, version, meta, content, own or metadata or {}, numbered, SplitKeys(store.root_uri))


def _own_metadata(text: str | None, path: str) -> Wire | None:
    """The metadata in a state, bare or as an action."""
    if not text:
        return None
    try:
        wire = msgspec.json.decode(text.encode(), type=Wire)
    except msgspec.DecodeError as error:
        raise CorruptLogError(f"{path}: the metadata is broken ({error}); restore the file") from None
    inner = wire.get("metaData", wire)
    return inner if isinstance(inner, dict) and inner.get("id") else None


def _manifest_path(version: int, path: str) -> str:
    """Relative to the log, or a bare name in the state's own directory."""
    return f"{LOG_DIRECTORY}/{path}" if "/" in path else f"{_PREFIX}{version:020d}/{path}"


def _records(store: Store, path: str) -> list[dict[str, Any]]:
    """The records of an Avro file."""
    try:
        import fastavro
    except ImportError:
        raise needs_extra("a search table of IndexTables", "fastavro", "search") from None
    try:
        data = bytes(store.get(path))
    except ObjectNotFoundError as error:
        raise CorruptLogError(f"{path} is gone, and a state names it ({error}); restore the file") from None
    try:
        return [_record(record, path) for record in fastavro.reader(io.BytesIO(data))]
    except CorruptLogError:
        raise
    except Exception as error:
        if "zstandard" in str(error) and "install" in str(error):
            raise needs_extra("a search table of IndexTables", "backports.zstd", "search") from None
        raise CorruptLogError(f"{path} is not an Avro file ({error}); restore the file") from None


def _record(record: object, path: str) -> dict[str, Any]:
    if not isinstance(record, Mapping):
        raise CorruptLogError(f"{path} does not hold records; restore the file")
    return dict(record)
