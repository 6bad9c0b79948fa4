"""An index read back, and the dumb model to compare it with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from delta_sidecar.index.format.manifest import Manifest, layout_of
from delta_sidecar.index.read.manifests import listed_manifests, read_manifest
from delta_sidecar.index.read.whole_part import completed, read_part
from delta_sidecar.limits import BuildLimits
from delta_sidecar.storage.store import Store

VECTOR = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")


def manifest_at(store: Store, version: int) -> tuple[Manifest, str]:
    """The manifest of a version, and its directory."""
    directory = next(d for v, d, _ in listed_manifests(store) if v == version)
    return read_manifest(store, directory, version), directory


def index_rows_at(store: Store, version: int) -> list[dict[str, Any]]:
    """Every row of an index, as its parts hold it."""
    manifest, directory = manifest_at(store, version)
    layout = layout_of(manifest)
    tables = [completed(read_part(store, directory, part, layout)) for part in manifest.parts]
    assert [t.num_rows for t in tables] == [p.rows for p in manifest.parts]
    return [row for table in tables for row in table.to_pylist()]


def assert_index_is(
    store: Store, version: int, files: Iterable[Mapping[str, Any]], stats_dropped: bool = False
) -> None:
    """The index of a version has exactly these files, with all that their adds say."""
    rows = sorted(index_rows_at(store, version), key=_order)
    bodies = sorted(files, key=lambda body: (body["path"], _vector(body.get("deletionVector")) or ()))
    assert [row["path"] for row in rows] == [body["path"] for body in bodies]
    for row, body in zip(rows, bodies, strict=True):
        assert (row["size"], row["modification_time"]) == (body["size"], body["modificationTime"])
        assert dict(row["partition_values"]) == body["partitionValues"]
        assert _vector(row["deletion_vector"]) == _vector(body.get("deletionVector"))
        assert dict(row["tags"] or []) == (body.get("tags") or {})
        assert row["base_row_id"] == body.get("baseRowId")
        assert row["num_records"] in records_of(body, stats_dropped)


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["path"], _vector(row["deletion_vector"]) or ()


def _vector(vector: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    return None if vector is None else tuple(vector.get(name) for name in VECTOR)


def records_of(body: Mapping[str, Any], dropped: bool) -> set[int | None]:
    """What the stats say, or nothing where a checkpoint dropped them."""
    try:
        said: int | None = json.loads(body.get("stats") or "{}").get("numRecords")
    except ValueError:
        said = None
    return {said, None} if dropped else {said}


def small_parts(single: int = 1, small: int = 3, most: int = 2, rows: int = 4, **others: int) -> BuildLimits:
    """The limits of a builder that makes many parts out of few files, and rewrites and merges them."""
    return BuildLimits(single_rows=single, small_rows=small, small_parts=most, part_rows=rows, **others)
