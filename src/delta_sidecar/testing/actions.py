"""The actions of a log, as values with defaults, so a test gives only the fields that matter to it.

    add("a.parquet", partition={"p": "1"}, stats={"numRecords": 3})

Each is frozen and gives its wire form by `wire()`; what has no class of its own is made by a function that
returns the wire form.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from delta_sidecar.testing.model import Action

Stats: TypeAlias = Mapping[str, Any]
"""`numRecords`, `minValues`, `maxValues`, `nullCount`, `tightBounds`; Python values are encoded as Spark does."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """A deletion vector's descriptor; the vector itself need not exist for a listing."""

    path: str = "vBn[lx{q8@P<9BNH/isA"
    storage: str = "u"
    offset: int | None = 1
    size: int = 36
    cardinality: int = 1

    def wire(self) -> dict[str, Any]:
        body: dict[str, Any] = {"storageType": self.storage, "pathOrInlineDv": self.path}
        if self.offset is not None:
            body["offset"] = self.offset
        return body | {"sizeInBytes": self.size, "cardinality": self.cardinality}


@dataclass(frozen=True, slots=True)
class AddFile:
    """A file that becomes part of the table."""

    path: str
    size: int = 100
    modification_time: int = 1_700_000_000_000
    partition: Mapping[str, str | None] = field(default_factory=dict)
    stats: Stats | str | None = None
    """A mapping is encoded; a text goes into the log as it is, broken or not."""
    dv: DeletionVector | None = None
    tags: Mapping[str, str] | None = None
    data_change: bool = True
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    def wire(self) -> Action:
        body = {
            "path": self.path,
            "partitionValues": dict(self.partition),
            "size": self.size,
            "modificationTime": self.modification_time,
            "dataChange": self.data_change,
        }
        return {"add": body | _present(self._optional())}

    def _optional(self) -> dict[str, Any]:
        return {
            "stats": self.stats if self.stats is None or isinstance(self.stats, str) else stats_json(self.stats),
            "tags": self.tags,
            "deletionVector": self.dv and self.dv.wire(),
            "baseRowId": self.base_row_id,
            "defaultRowCommitVersion": self.default_row_commit_version,
            "clusteringProvider": self.clustering_provider,
        }


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """A file that leaves the table. `extended` writes the optional size and partition values, too."""

    path: str
    dv: DeletionVector | None = None
    deletion_timestamp: int | None = 1_700_000_000_000
    data_change: bool = True
    extended: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)
    size: int = 100

    def wire(self) -> Action:
        body: dict[str, Any] = {"path": self.path, "dataChange": self.data_change}
        extended = {"extendedFileMetadata": True, "partitionValues": dict(self.partition), "size": self.size}
        optional = {"deletionTimestamp": self.deletion_timestamp, "deletionVector": self.dv and self.dv.wire()}
        return {"remove": body | _present(optional) | (extended if self.extended else {})}


add = AddFile
remove = RemoveFile

Spec: TypeAlias = AddFile | RemoveFile | Action
"""What a commit takes: one of the classes, or any action in its wire form."""


def wire(spec: Spec) -> Action:
    """The wire form of whatever a commit takes."""
    return spec.wire() if isinstance(spec, AddFile | RemoveFile) else spec


def protocol(
    reader: int = 1,
    writer: int | None = None,
    features: Sequence[str] | None = None,
    writer_features: Sequence[str] | None = None,
) -> Action:
    """A protocol; `features` are the reader features, and also the writer features by default."""
    body: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer or (7 if reader >= 3 else 2)}
    if reader >= 3:
        body["readerFeatures"] = list(features or [])
    if body["minWriterVersion"] >= 7:
        body["writerFeatures"] = list(features or [] if writer_features is None else writer_features)
    return {"protocol": body}


def column(name: str, kind: Any = "long", *, nullable: bool = True, metadata: Stats | None = None) -> dict[str, Any]:
    """A field of the table's schema; `kind` is the protocol's type, a name or its JSON form."""
    return {"name": name, "type": kind, "nullable": nullable, "metadata": dict(metadata or {})}


def metadata(
    columns: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    table_id: str = "5f0e1c8e-7a53-4f0e-9d0c-3f3c5e1d2a11",
    name: str | None = None,
) -> Action:
    """A metadata action; `columns` is `{"x": "long"}` or a list of `column(…)`."""
    if isinstance(columns, Mapping):
        columns = [column(name, kind) for name, kind in columns.items()]
    fields = list(columns or [column("x")])
    body: dict[str, Any] = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": msgspec.json.encode({"type": "struct", "fields": fields}).decode(),
        "partitionColumns": list(partition_by),
        "configuration": dict(configuration or {}),
        "createdTime": 1_700_000_000_000,
    }
    return {"metaData": body | _present({"name": name})}


def commit_info(operation: str = "WRITE", timestamp: int = 1_700_000_000_000, **more: Any) -> Action:
    return {"commitInfo": {"timestamp": timestamp, "operation": operation, "operationParameters": {}} | more}


def txn(app_id: str = "app", version: int = 1) -> Action:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": 1_700_000_000_000}}


def domain_metadata(domain: str = "app.domain", configuration: str = "{}", removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": domain, "configuration": configuration, "removed": removed}}


def cdc(
    path: str = "_change_data/cdc-0.parquet", size: int = 10, partition: Mapping[str, str | None] | None = None
) -> Action:
    return {"cdc": {"path": path, "partitionValues": dict(partition or {}), "size": size, "dataChange": False}}


def unknown_action(name: str = "fromTheFuture", **body: Any) -> Action:
    return {name: body}


def stats_json(stats: Stats) -> str:
    """Stats as Spark writes them: timestamps cut to milliseconds, decimals as numbers, NaN as text."""
    return _STATS.encode(_stat_value(stats)).decode()


_STATS = msgspec.json.Encoder(decimal_format="number")


def _stat_value(value: Any) -> Any:
    match value:
        case Mapping():
            return {k: _stat_value(v) for k, v in value.items()}
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return text + "Z" if value.tzinfo else text
        case float() if value != value:
            return "NaN"
        case float() if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
    return value


def _present(body: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in body.items() if v is not None}
