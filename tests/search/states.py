"""States as IndexTables writes them, made by hand: Avro, packed with zstd."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro

from tests.search.made import LOG, NOW, HandMade, lines, metadata, packed

PROTOCOL_4: dict[str, Any] = {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": None}


def _optional(kind: Any) -> Any:
    return ["null", kind]


TEXTS = {"type": "map", "values": "string"}
LIST = {"type": "array", "items": "string"}
ENTRY = {
    "type": "record",
    "name": "FileEntry",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "partitionValues", "type": TEXTS},
        {"name": "size", "type": "long"},
        {"name": "modificationTime", "type": "long"},
        {"name": "dataChange", "type": "boolean"},
        {"name": "minValues", "type": _optional(TEXTS), "default": None},
        {"name": "maxValues", "type": _optional(TEXTS), "default": None},
        {"name": "numRecords", "type": _optional("long"), "default": None},
        {"name": "splitTags", "type": _optional(LIST), "default": None},
        {"name": "docMappingRef", "type": _optional("string"), "default": None},
        {"name": "addedAtVersion", "type": "long", "default": 0},
        {"name": "companionSourceFiles", "type": _optional(LIST), "default": None},
        {"name": "companionDeltaVersion", "type": _optional("long"), "default": None},
        {"name": "companionFastFieldMode", "type": _optional("string"), "default": None},
        {"name": "somethingNew", "type": _optional("string"), "default": None},
    ],
}
STATE = {
    "type": "record",
    "name": "StateManifest",
    "fields": [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {
            "name": "manifests",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Info",
                    "fields": [{"name": "path", "type": "string"}, {"name": "numEntries", "type": "long"}],
                },
            },
        },
        {"name": "tombstones", "type": LIST, "default": []},
        {"name": "schemaRegistry", "type": TEXTS, "default": {}},
        {"name": "protocolVersion", "type": "int", "default": 4},
        {"name": "metadata", "type": _optional("string"), "default": None},
    ],
}


def avro(schema: Any, records: Sequence[Mapping[str, Any]]) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), list(records), codec="zstandard")
    return sink.getvalue()


def entry(path: str, **fields: Any) -> dict[str, Any]:
    core = {"path": path, "partitionValues": {}, "size": 5, "modificationTime": NOW, "dataChange": True}
    return {**core, **fields}


def state_path(version: int) -> str:
    return f"{LOG}/state-v{version:020d}"


class TheirTable(HandMade):
    """A table of protocol 4: a packed version 0, and states."""

    def __init__(self, root: Any, **changes: Any) -> None:
        super().__init__(root, PROTOCOL_4, **changes)
        self.file(f"{LOG}/{0:020d}.json", packed(lines({"protocol": PROTOCOL_4}, {"metaData": metadata(**changes)})))

    def manifest(self, name: str, *entries: Mapping[str, Any]) -> TheirTable:
        self.file(f"{LOG}/{name}", avro(ENTRY, entries))
        return self

    def state(self, version: int, manifests: Mapping[str, int], hint: bool = True, **fields: Any) -> TheirTable:
        infos = [{"path": path, "numEntries": count} for path, count in manifests.items()]
        count = sum(manifests.values()) - len(fields.get("tombstones", ()))
        content = {"formatVersion": 1, "stateVersion": version, "createdAt": NOW + version, "numFiles": count}
        self.file(f"{state_path(version)}/_manifest.avro", avro(STATE, [{**content, "manifests": infos, **fields}]))
        if hint:
            last = {"version": version, "size": count, "format": "avro-state", "stateDir": state_path(version)[17:]}
            self.file(f"{LOG}/_last_checkpoint", json.dumps(last).encode())
        return self
