"""One part against what its manifest says of it: bytes, rows, order, bounds, counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.format.index_columns import NUM_RECORDS, PARTITION, column, one_array
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.manifest import Manifest
from delta_sidecar.index.format.part_entries import FileEntry, KeyValue, PartEntry, cut_path
from delta_sidecar.index.format.part_format import MANIFEST_KEY
from delta_sidecar.index.format.seals import chunk_checksums, computed_checksums, footer_crc32, footer_length
from delta_sidecar.index.stats.index_rows import off_bucket
from delta_sidecar.log.file_keys import all_plain
from delta_sidecar.storage.store import Buffer
from delta_sidecar.values.comparison import comparable, unscaled_integers
from delta_sidecar.values.types import PrimitiveType

_MAGIC: Final = b"PAR1"


def check_files(files: Mapping[str, Buffer], part: PartEntry) -> None:
    """The footers and the checksums of chunks; `CorruptIndexError` for the first that does not match."""
    for name, data in files.items():
        _check_footer(bytes(data), name, part.core if name == part.core_name else part.stats)
        if part.stats is not None:
            _check_chunks(data, name)


def _check_footer(data: bytes, path: str, entry: FileEntry | None) -> None:
    assert entry is not None
    footer = footer_length(data)
    if data[-4:] != _MAGIC or footer != entry.footer or not 0 < footer <= len(data) - 12:
        raise CorruptIndexError(f"{path}: its footer does not have the {entry.footer} bytes that the manifest says")
    if footer_crc32(data, footer) != entry.footer_crc32:
        raise CorruptIndexError(f"{path}: the checksum of its footer does not match the manifest")


def _check_chunks(data: Buffer, name: str) -> None:
    metadata = pq.read_metadata(pa.BufferReader(data))
    if chunk_checksums(data, metadata) not in (computed_checksums(data, metadata), None):
        raise CorruptIndexError(f"{name}: the checksums of its columns do not match")


def check_embedded(files: Mapping[str, Buffer], part: PartEntry, manifest: Manifest) -> Iterator[str]:
    """A part in one file describes itself: as its manifest does, unless it was written for an older one."""
    path = part.core_name
    metadata = pq.read_metadata(pa.BufferReader(files[path])).metadata or {}
    if MANIFEST_KEY not in metadata:
        yield f"{path} has no manifest inside"
        return
    try:
        inner = msgspec.json.decode(metadata[MANIFEST_KEY], type=Manifest)
    except msgspec.DecodeError as error:
        yield f"{path} has no valid manifest inside ({error})"
        return
    same_version = ("table_id", "version", "schema_hash", "commit") if inner.version >= manifest.version else ()
    for name in ("format", "sort", "time_column", *same_version):
        if getattr(inner, name) != getattr(manifest, name):
            yield f"{path}: {name} is {getattr(inner, name)}, but in its manifest {getattr(manifest, name)}"
    if inner.files != part.rows:
        yield f"{path} says that it holds {inner.files} files, but it holds {part.rows}"


def check_entry(rows: pa.Table, part: PartEntry, layout: IndexLayout) -> Iterator[str]:
    """What the manifest says of the rows, and their order."""
    paths = _bytes(rows)
    keys = _ranks(_key_column(rows, layout))
    if any(left < right for left, right in pairwise(zip(keys, _seconds(rows, layout), paths))):
        yield f"part {part.id} is not sorted by key, time and path, descending"
    for name, claim, fact in _facts(rows, part, layout, keys, paths):
        if claim != fact:
            yield f"part {part.id}: the manifest says {name} is {claim}, but its rows give {fact}"


def check_floats(rows: pa.Table, part: PartEntry, layout: IndexLayout) -> Iterator[str]:
    """Partition values as floats of a column that is a double: readers would take them for other numbers."""
    for field in layout.partition:
        name = column(PARTITION, (field.physical_name,))
        there = name in rows.column_names and pa.types.is_float32(rows.column(name).type)
        if there and field.type == PrimitiveType("double"):
            yield f"part {part.id} has the values of {field.name!r}, which is a double, as float; build with --full"


def _facts(
    rows: pa.Table, part: PartEntry, layout: IndexLayout, keys: list[tuple[int, Any]], paths: list[bytes]
) -> Iterator[tuple[str, Any, Any]]:
    known = [key[1] for key in keys if key[0]]
    kind = _key_column(rows, layout).type
    yield "key", part.key, (_shown(min(known, default=None), kind), _shown(max(known, default=None), kind))
    yield "key_unknown", part.key_unknown, len(keys) - len(known)
    lows, highs, time = _times(rows, layout)
    yield "time", part.time, (_least(lows, time), _greatest(highs, time))
    yield "time_unknown", part.time_unknown, sum(low is None or high is None for low, high in zip(lows, highs))
    plain = rows.num_rows > 0 and all_plain(one_array(rows.column("path")))
    ends = (cut_path(min(paths)), cut_path(max(paths))) if plain else None
    yield "path", part.path, ends
    yield "vectors", part.vectors, rows.num_rows - rows.column("deletion_vector").null_count
    yield "bytes", part.bytes, sum(size or 0 for size in rows.column("size").to_pylist())
    yield "records", part.records, _records(rows)
    yield "off_bucket", part.off_bucket, int(off_bucket(rows, layout).sum())


def _records(rows: pa.Table) -> int | None:
    counts = rows.column(NUM_RECORDS).to_pylist()
    return None if None in counts else sum(counts)


def _bytes(rows: pa.Table) -> list[bytes]:
    paths: list[bytes] = rows.column("path").cast(pa.binary()).to_pylist()
    return paths


def _key_column(rows: pa.Table, layout: IndexLayout) -> pa.Array:
    sort = layout.sort
    if sort.kind == "modification_time":
        name = "modification_time"
    else:
        name = column(PARTITION if sort.kind == "partition" else "min", sort.path)
    return one_array(rows.column(name)) if name in rows.column_names else pa.nulls(rows.num_rows, pa.int64())


def _ranks(keys: pa.Array) -> list[tuple[int, Any]]:
    """Keys that compare: unknown ones, which NaN is one of, below all others."""
    return [
        (0, 0) if key is None or (isinstance(key, float) and math.isnan(key)) else (1, key)
        for key in comparable(keys).to_pylist()
    ]


def _seconds(rows: pa.Table, layout: IndexLayout) -> list[tuple[int, Any]]:
    """What rows of one key are sorted by: the time column's minimum, where it is not the key itself."""
    if layout.time is None or layout.sort.path == layout.time.path:
        return [(0, 0)] * rows.num_rows
    return [(0, 0) if low is None else (1, low) for low in _times(rows, layout)[0]]


def _times(rows: pa.Table, layout: IndexLayout) -> tuple[list[Any], list[Any], pa.DataType]:
    if layout.time is None:
        return [], [], pa.null()
    bounds = []
    for kind in ("min", "max"):
        name = column(kind, layout.time.path)
        array = one_array(rows.column(name)) if name in rows.column_names else pa.nulls(rows.num_rows, pa.int64())
        bounds.append(comparable(array).to_pylist())
    return bounds[0], bounds[1], pa.int64()


def _least(values: Sequence[Any], kind: pa.DataType) -> KeyValue:
    return _shown(min((v for v in values if v is not None), default=None), kind)


def _greatest(values: Sequence[Any], kind: pa.DataType) -> KeyValue:
    return _shown(max((v for v in values if v is not None), default=None), kind)


def _shown(value: Any, kind: pa.DataType) -> KeyValue:
    """A key as manifests write it."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return f"{unscaled_integers(pa.array([value], kind))[0]}e-{kind.scale}"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass") if pa.types.is_string(kind) else value.hex()
    key: KeyValue = value
    return key
