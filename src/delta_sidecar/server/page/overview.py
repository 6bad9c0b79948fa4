"""The first look at a table: everything that the page shows before anyone asks for more.

What it holds does not grow with the number of files, and it costs what opening the table costs, and one listing.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.log.segment import OtherBase
from delta_sidecar.server.page.health import findings
from delta_sidecar.server.page.part_map import examples, index_of, map_of
from delta_sidecar.server.page.timeline import log_names, timeline
from delta_sidecar.server.reading import OpenTable

_COLUMNS: Final = 200
_LONGEST: Final = 120
_FEW: Final = 200_000
"""Up to this many files the page measures a full load without being asked."""


def overview(opened: OpenTable) -> dict[str, Any]:
    """A version of a table: facts, health, timeline and map."""
    table, snapshot = opened.table, opened.table.snapshot
    base = snapshot.segment.base
    index = index_of(snapshot)
    metadata, cost = snapshot.metadata, table.opening_cost
    schema, names = snapshot.schema, log_names(snapshot)
    return {
        "table": opened.name,
        "location": opened.access.location.text,
        "version": opened.version,
        "name": _short(metadata.name),
        "description": _short(metadata.description),
        "columns": [[_short(field.name), _short(str(field.type))] for field in list(schema)[:_COLUMNS]],
        "column_count": len(list(schema)),
        "partitioned_by": [_short(name) for name in snapshot.partition_columns[:_COLUMNS]],
        "base": None if base is None else _short(str(base)),
        "base_kind": None if base is None else base.kind if isinstance(base, OtherBase) else "checkpoint",
        "base_bytes": 0 if base is None else base.size,
        "tail": {"commits": len(snapshot.segment.commits), "bytes": snapshot.segment.tail_bytes},
        "index": None if index is None else _index(index),
        "is_small": index is not None and index.manifest.files <= _FEW,
        "notes": [_short(note, 400) for note in snapshot.notes[:5]],
        "health": msgspec.to_builtins(findings(snapshot, names.log)),
        "log": timeline(snapshot, names),
        "map": None if index is None else map_of(index),
        "examples": examples(snapshot, index),
        "opening": {"requests": cost.requests, "bytes": cost.bytes_read},
    }


def _index(index: IndexBase) -> dict[str, Any]:
    manifest = index.manifest
    return {
        "version": index.version,
        "files": manifest.files,
        "bytes": manifest.bytes,
        "records": manifest.records,
        "size": index.size,
        "built_at": manifest.built_at or None,
    }


def _short(text: str | None, most: int = _LONGEST) -> str | None:
    return text if text is None or len(text) <= most else f"{text[:most]}…"
