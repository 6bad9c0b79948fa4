"""Checkpoints of a search table: all live splits of a version in one file.

`{version}.checkpoint.json` is one JSON object of protocol, metadata, `add`, `mergeskip`, recent `remove` and `batches`,
the number of the last batch of each application; note 004's has none of the last three, and files of action lines are
read, too. Tables with the feature `parquetCheckpoint` may have `{version}.checkpoint.parquet` instead: a row for each
split, and the rest in the file's own metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from delta_sidecar.errors import CorruptLogError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.log_names import Kind, version_prefix
from delta_sidecar.log.segment import CheckpointFiles, CheckpointState
from delta_sidecar.search.log.actions import MergeSkip, RemovedSplit, Split, Wire, from_wire, to_wire
from delta_sidecar.search.log.dialect import LOG_DIRECTORY
from delta_sidecar.search.log.packing import unpack
from delta_sidecar.storage.store import Store

_REST: Final = b"delta_sidecar.search_checkpoint"
_ROW_GROUP: Final = 10_000

T = TypeVar("T")


class _Rest(msgspec.Struct):
    """What a checkpoint holds beside its splits."""

    version: int
    timestamp: int
    protocol: Wire
    metaData: Wire
    mergeskip: list[Wire] = []
    remove: list[Wire] = []
    numFiles: int | None = None
    """How many splits it holds, so that a reader notices when some are missing."""
    batches: dict[str, int] = {}
    """The number of the last batch of each application."""


@dataclass(frozen=True)
class SplitCheckpoint:
    """A checkpoint that was read and understood."""

    version: int
    protocol: Wire
    metadata: Wire
    adds: Sequence[Wire]
    mergeskips: Sequence[Wire]
    removes: Sequence[Wire]
    path: str
    batches: Mapping[str, int]

    @cached_property
    def splits(self) -> list[Split]:
        return [from_wire(Split, wire, self.path) for wire in self.adds]

    @cached_property
    def skips(self) -> list[MergeSkip]:
        return [from_wire(MergeSkip, wire, self.path) for wire in self.mergeskips]

    @cached_property
    def removed(self) -> list[RemovedSplit]:
        return [from_wire(RemovedSplit, wire, self.path) for wire in self.removes]

    def state(self) -> CheckpointState:
        """Protocol and metadata, for the log."""
        return CheckpointState(protocol_of(self.protocol, self.path), metadata_of(self.metadata, self.path))

    def read(self) -> SplitCheckpoint:
        """The same, with every action decoded: what is broken shows here."""
        self.state()
        assert self.splits is not None
        assert self.skips is not None
        assert self.removed is not None
        return self

    def reopened(self) -> SplitCheckpoint:
        return self


def protocol_of(wire: Wire, where: str) -> Protocol:
    return _converted(wire, Protocol, where)


def metadata_of(wire: Wire, where: str) -> Metadata:
    return _converted(wire, Metadata, where)


def _converted(wire: Wire, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert({k: v for k, v in wire.items() if v is not None}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise CorruptLogError(f"{where}: protocol or metadata is broken ({error}); restore the file") from None


def checkpoint_path(version: int, as_parquet: bool) -> str:
    return f"{LOG_DIRECTORY}/{version_prefix(version)}.checkpoint.{'parquet' if as_parquet else 'json'}"


def open_checkpoint(store: Store, files: CheckpointFiles) -> SplitCheckpoint:
    """Read a checkpoint whole; `CorruptLogError` if it is broken or not complete. One that is gone was cleaned up since
    it was listed: then the log is listed again."""
    path = files.files[0].path
    data = bytes(store.get(path))
    read = _from_parquet if files.kind is Kind.CLASSIC_CHECKPOINT else _from_json
    opened = read(data, files.version, path)
    if not opened.protocol or not opened.metadata:
        raise CorruptLogError(f"{path} holds no {'metadata' if opened.protocol else 'protocol'}; restore the file")
    return opened


def _from_json(data: bytes, version: int, path: str) -> SplitCheckpoint:
    text = b"".join(bytes(piece) for piece in unpack([data], path))
    found: dict[str, list[Wire]] = {"protocol": [], "metaData": [], "add": [], "mergeskip": [], "remove": []}
    count: int | None = None
    batches: dict[str, int] = {}
    for content in _objects(text, path):
        for name, actions in found.items():
            given = content.get(name)
            items = given if isinstance(given, list) else [] if given is None else [given]
            if not all(isinstance(item, dict) for item in items):
                raise CorruptLogError(f"{path}: {name} is not an action; restore the file")
            actions.extend(items)
        count = content.get("numFiles", count)
        batches |= _batches(content.get("batches"), path)
    adds = found["add"]
    if count is not None and count != len(adds):
        raise CorruptLogError(f"{path} holds {len(adds)} splits and says {count}; restore the file")
    last = {name: actions[-1] if actions else {} for name, actions in found.items()}
    return SplitCheckpoint(
        version, last["protocol"], last["metaData"], adds, found["mergeskip"], found["remove"], path, batches
    )


def _batches(wire: Any, path: str) -> dict[str, int]:
    try:
        return msgspec.convert(wire or {}, dict[str, int])
    except msgspec.ValidationError as error:
        raise CorruptLogError(f"{path}: the numbers of batches are broken ({error}); restore the file") from None


def _objects(text: bytes, path: str) -> list[Wire]:
    """The one object of note 004, or an object for each line."""
    try:
        try:
            objects = [msgspec.json.decode(text)]
        except msgspec.DecodeError:
            objects = [msgspec.json.decode(line) for line in text.split(b"\n") if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptLogError(f"{path} is not a checkpoint ({error}); restore the file") from None
    if not all(isinstance(content, dict) for content in objects):
        raise CorruptLogError(f"{path} is not a checkpoint: it holds no JSON object; restore the file")
    return objects


def _from_parquet(data: bytes, version: int, path: str) -> SplitCheckpoint:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        rest = msgspec.json.decode((file.schema_arrow.metadata or {})[_REST], type=_Rest)
        texts = (text for batch in file.iter_batches(columns=["add"]) for text in batch.column(0).to_pylist())
        adds = [msgspec.json.decode(text, type=Wire) for text in texts]
    except (pa.ArrowException, KeyError, msgspec.DecodeError, UnicodeDecodeError, TypeError, OSError) as error:
        raise CorruptLogError(f"{path} is not a checkpoint ({error}); restore the file") from None
    if rest.numFiles is not None and rest.numFiles != len(adds):
        raise CorruptLogError(f"{path} holds {len(adds)} splits and says {rest.numFiles}; restore the file")
    return SplitCheckpoint(version, rest.protocol, rest.metaData, adds, rest.mergeskip, rest.remove, path, rest.batches)


def encode_checkpoint(
    version: int,
    protocol: Wire,
    metadata: Wire,
    splits: Sequence[Split],
    skips: Iterable[MergeSkip],
    removed: Iterable[RemovedSplit],
    now_ms: int,
    as_parquet: bool,
    batches: Mapping[str, int],
) -> bytes:
    """The bytes of a checkpoint."""
    rest = _Rest(
        version,
        now_ms,
        protocol,
        metadata,
        [to_wire(skip) for skip in skips],
        [to_wire(gone) for gone in removed],
        len(splits),
        dict(batches),
    )
    if as_parquet:
        return _to_parquet(rest, splits)
    wire = {"protocol": rest.protocol, "metaData": rest.metaData, "add": [to_wire(split) for split in splits]}
    more = {"mergeskip": rest.mergeskip, "remove": rest.remove, "batches": rest.batches}
    return msgspec.json.encode({**wire, **more, "version": version, "timestamp": now_ms, "numFiles": len(splits)})


def _to_parquet(rest: _Rest, splits: Sequence[Split]) -> bytes:
    """The whole action as text, which keeps unknown fields, and beside it what people ask such a file for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from delta_sidecar import arrays
    from delta_sidecar.log.file_schema import FILE_SCHEMA

    names = ("path", "size", "modification_time", "partition_values", "num_records")
    fields = [*(FILE_SCHEMA.field(name) for name in names), pa.field("add", pa.string())]
    schema = pa.schema(fields, {_REST: msgspec.json.encode(rest)})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=False) as writer:
        for start in range(0, len(splits), _ROW_GROUP):
            group = splits[start : start + _ROW_GROUP]
            columns: dict[str, list[Any]] = {
                "path": [split.path for split in group],
                "size": [split.size for split in group],
                "modification_time": [split.modificationTime for split in group],
                "partition_values": [split.partitionValues for split in group],
                "num_records": [split.numRecords for split in group],
                "add": [msgspec.json.encode(to_wire(split)).decode() for split in group],
            }
            batch = arrays.record_batch(columns, schema)
            writer.write_table(pa.Table.from_arrays(batch.columns, schema=schema))
    return bytes(sink.getvalue())
