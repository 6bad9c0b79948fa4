"""Checkpoints of every kind, as the files that make them up.

Pure: a table state and a layout go in, names and bytes come out; the builder puts them on disk.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.testing.model import Action, TableState
from delta_sidecar.testing.typed_columns import partition_type, stats_type, typed_partition, typed_stats

CheckpointKind: TypeAlias = Literal["classic", "multi-part", "v2-json", "v2-parquet", "v2-classic"]
StringKind: TypeAlias = Literal["string", "large_string", "string_view", "dictionary"]

CHECKPOINT_KINDS: tuple[CheckpointKind, ...] = ("classic", "multi-part", "v2-json", "v2-parquet", "v2-classic")
STRING_KINDS: tuple[StringKind, ...] = ("string", "large_string", "string_view", "dictionary")

_STRINGS: dict[StringKind, pa.DataType] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """How a checkpoint is written. `v2-classic` is V2 inside a file with the classic name."""

    kind: CheckpointKind = "classic"
    parts: int = 2
    """Files of a multi-part checkpoint, or V2 sidecars; no V2 sidecars means that the top file holds the adds."""
    stats: bool = True
    stats_parsed: bool = False
    partition_parsed: bool = False
    tombstones: bool = True
    row_group_size: int | None = None
    strings: StringKind = "string"


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files by name relative to `_delta_log`, and the body of a `_last_checkpoint` that points to them."""

    files: Mapping[str, bytes]
    hint: Mapping[str, Any]
    sidecars: Sequence[str] = field(default=())
    """The names of the V2 sidecars among the files."""


def checkpoint_files(state: TableState, version: int, layout: CheckpointLayout, seed: str = "") -> CheckpointFiles:
    """The checkpoint of that state. `seed` keeps the made-up names of two checkpoints of one version apart."""
    files, others = _file_actions(state, layout), _other_actions(state)
    hint: dict[str, Any] = {"version": version, "size": len(files) + len(others), "numOfAddFiles": len(state.files)}
    writer = _Writer(state.metadata or {}, layout)
    if layout.kind == "classic":
        named = {f"{version:020}.checkpoint.parquet": writer.parquet(others + files)}
        return CheckpointFiles(named, hint)
    if layout.kind == "multi-part":
        return _multi_part(writer, others + files, version, hint)
    return _v2(writer, others, files, version, hint, seed)


def _multi_part(writer: _Writer, rows: list[Action], version: int, hint: dict[str, Any]) -> CheckpointFiles:
    count = max(1, writer.layout.parts)
    names = [f"{version:020}.checkpoint.{i + 1:010}.{count:010}.parquet" for i in range(count)]
    named = {name: writer.parquet(rows[i::count]) for i, name in enumerate(names)}
    return CheckpointFiles(named, hint | {"parts": count})


def _v2(
    writer: _Writer, others: list[Action], files: list[Action], version: int, hint: dict[str, Any], seed: str
) -> CheckpointFiles:
    layout, count = writer.layout, writer.layout.parts
    sidecars = {f"_sidecars/{_unique(seed, version, i)}.parquet": writer.parquet(files[i::count]) for i in range(count)}
    pointers: list[Action] = [
        {"sidecar": {"path": name.removeprefix("_sidecars/"), "sizeInBytes": len(data), "modificationTime": 1}}
        for name, data in sidecars.items()
    ]
    top: list[Action] = [{"checkpointMetadata": {"version": version}}, *others, *pointers, *([] if count else files)]
    if layout.kind == "v2-json":
        name, data = f"{version:020}.checkpoint.{_unique(seed, version, -1)}.json", _json_lines(top)
    else:
        middle = "" if layout.kind == "v2-classic" else f"{_unique(seed, version, -1)}."
        name, data = f"{version:020}.checkpoint.{middle}parquet", writer.parquet(top)
    return CheckpointFiles({**sidecars, name: data}, hint, tuple(sidecars))


def _file_actions(state: TableState, layout: CheckpointLayout) -> list[Action]:
    adds: list[Action] = [{"add": body | {"dataChange": False}} for body in state.files.values()]
    removes: list[Action] = [{"remove": body | {"dataChange": False}} for body in state.tombstones.values()]
    if not layout.tombstones:
        return adds
    half = len(adds) // 2
    return adds[:half] + removes + adds[half:]


def _other_actions(state: TableState) -> list[Action]:
    actions: list[Action] = [{"txn": body} for body in state.transactions.values()]
    actions += [{"domainMetadata": body} for body in state.domains.values() if not body["removed"]]
    actions += [{"protocol": state.protocol}] if state.protocol else []
    return actions + ([{"metaData": state.metadata}] if state.metadata else [])


class _Writer:
    """Rows of one table's checkpoint as Parquet, all with one schema."""

    def __init__(self, metadata: Mapping[str, Any], layout: CheckpointLayout) -> None:
        self.layout = layout
        known = "schemaString" in metadata
        self.stats = stats_type(metadata) if layout.stats_parsed and known else None
        self.partition = partition_type(metadata) if layout.partition_parsed and known else None
        self.schema = self._schema()

    def parquet(self, actions: Sequence[Action]) -> bytes:
        rows = [self._row(action) for action in actions]
        step = self.layout.row_group_size or max(1, len(rows))
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, self.schema) as writer:
            # One table a row group: pyarrow cannot slice string views.
            for start in range(0, len(rows), step):
                writer.write_table(pa.Table.from_pylist(rows[start : start + step], schema=self.schema))
        return sink.getvalue()

    def _row(self, action: Action) -> Action:
        body = action.get("add")
        if body is None:
            return action
        row = dict(body) if self.layout.stats else {k: v for k, v in body.items() if k != "stats"}
        if self.stats is not None:
            row["stats_parsed"] = typed_stats(body.get("stats"), self.stats)
        if self.partition is not None:
            row["partitionValues_parsed"] = typed_partition(body["partitionValues"], self.partition)
        return {"add": row}

    def _schema(self) -> pa.Schema:
        text = _STRINGS[self.layout.strings]
        text_map = pa.map_(pa.string() if self.layout.strings == "dictionary" else text, text)
        vector = pa.struct(
            [
                ("storageType", text),
                ("pathOrInlineDv", text),
                ("offset", pa.int32()),
                ("sizeInBytes", pa.int32()),
                ("cardinality", pa.int64()),
            ]
        )
        return pa.schema(
            [
                ("txn", pa.struct([("appId", text), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
                ("add", self._add(text, text_map, vector)),
                ("remove", _remove(text, text_map, vector)),
                ("metaData", _metadata(text, text_map)),
                ("protocol", _protocol(text)),
                ("domainMetadata", pa.struct([("domain", text), ("configuration", text), ("removed", pa.bool_())])),
                *self._v2_columns(text),
            ]
        )

    def _v2_columns(self, text: pa.DataType) -> list[tuple[str, pa.DataType]]:
        if not self.layout.kind.startswith("v2"):
            return []
        sidecar = pa.struct([("path", text), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
        return [("checkpointMetadata", pa.struct([("version", pa.int64())])), ("sidecar", sidecar)]

    def _add(self, text: pa.DataType, text_map: pa.DataType, vector: pa.DataType) -> pa.StructType:
        optional = [
            ("stats", text if self.layout.stats else None),
            ("stats_parsed", self.stats),
            ("partitionValues_parsed", self.partition),
        ]
        return pa.struct(
            [
                ("path", text),
                ("partitionValues", text_map),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("tags", text_map),
                ("deletionVector", vector),
                ("baseRowId", pa.int64()),
                ("defaultRowCommitVersion", pa.int64()),
                ("clusteringProvider", text),
                *[(name, kind) for name, kind in optional if kind is not None],
            ]
        )


def _remove(text: pa.DataType, text_map: pa.DataType, vector: pa.DataType) -> pa.StructType:
    return pa.struct(
        [
            ("path", text),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("extendedFileMetadata", pa.bool_()),
            ("partitionValues", text_map),
            ("size", pa.int64()),
            ("deletionVector", vector),
        ]
    )


def _metadata(text: pa.DataType, text_map: pa.DataType) -> pa.StructType:
    return pa.struct(
        [
            ("id", text),
            ("name", text),
            ("description", text),
            ("format", pa.struct([("provider", text), ("options", text_map)])),
            ("schemaString", text),
            ("partitionColumns", pa.list_(text)),
            ("configuration", text_map),
            ("createdTime", pa.int64()),
        ]
    )


def _protocol(text: pa.DataType) -> pa.StructType:
    return pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(text)),
            ("writerFeatures", pa.list_(text)),
        ]
    )


def _json_lines(actions: Sequence[Action]) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


def _unique(seed: str, version: int, index: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/{version}/{index}"))
