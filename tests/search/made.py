"""Search tables for tests: written by our writers, or by hand as note 004 has them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delta_sidecar.search import SearchTable, Split
from delta_sidecar.storage import Store, open_store

LOG = "_transaction_log"
NOW = 1_696_000_000_000
FAR = 4_000_000_000_000
"""A present in which every file is old."""
V0 = f"{LOG}/{0:020d}.json"


def schema(**columns: str) -> str:
    """Spark's JSON of some columns."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


SCHEMA = schema(id="long", content="string")
PROTOCOL: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}


def metadata(**changes: Any) -> dict[str, Any]:
    """The `metaData` of note 004's example."""
    return {
        "id": "a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d",
        "name": None,
        "description": None,
        "format": {"provider": "indextables", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {},
        "createdTime": NOW,
        **changes,
    }


def added(path: str, **fields: Any) -> dict[str, Any]:
    core = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": NOW, "dataChange": True}
    return {"add": {**core, **fields}}


def removed(path: str, **fields: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": NOW, "dataChange": True, **fields}}


def version_path(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def lines(*actions: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def packed(data: bytes) -> bytes:
    """As IndexTables packs it."""
    return b"\x01\x01" + gzip.compress(data)


class HandMade:
    """A log written file by file, as another writer would."""

    def __init__(self, root: Path, protocol: Mapping[str, Any] = PROTOCOL, **changes: Any) -> None:
        self.root = root
        self.put(0, {"protocol": protocol}, {"metaData": metadata(**changes)})

    @property
    def uri(self) -> str:
        return str(self.root)

    @property
    def store(self) -> Store:
        return open_store(self.uri)

    def put(self, version: int, *actions: Mapping[str, Any]) -> HandMade:
        return self.file(version_path(version), lines(*actions))

    def file(self, path: str, data: bytes) -> HandMade:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return self

    def checkpoint(self, version: int, content: Any, hint: bool = True) -> HandMade:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.file(f"{LOG}/{version:020d}.checkpoint.json", data)
        return self.file(f"{LOG}/_last_checkpoint", json.dumps({"version": version}).encode()) if hint else self

    def drop(self, *versions: int) -> HandMade:
        for version in versions:
            (self.root / version_path(version)).unlink()
        return self


def splits(*paths: str, **fields: Any) -> list[Split]:
    return [Split(path=path, size=10, modificationTime=NOW, **fields) for path in paths]


def paths(table: str | Store | SearchTable, version: int | None = None) -> set[str]:
    """The live splits of a table."""
    opened = table if isinstance(table, SearchTable) else SearchTable(table, version)
    return {split.path for split in opened.splits()}


def flipped(path: Path, wanted: bytes, at: int) -> None:
    """Change a bit in the list of files of a split."""
    data = bytearray(path.read_bytes())
    place = data.find(wanted, data.rfind(b'{"files"'))
    assert place >= 0
    data[place + at] ^= 1
    path.write_bytes(data)
