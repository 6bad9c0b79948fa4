"""The schemas of data files, from their footers: read once per file, parsed once per schema.

A Parquet footer begins with its version and its schema. So files of one schema have footers that begin with the same
bytes, and comparing those is ten times cheaper than parsing each footer. Writers on Arrow also keep the Arrow schema,
in a key near the end; what follows it is compared, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.data.file_bytes import Sources, naming
from delta_sidecar.errors import CorruptDataError
from delta_sidecar.flow.pool import side_by_side
from delta_sidecar.storage.cache import Cache, shared_cache
from delta_sidecar.storage.store import Store, is_local

INT96: Final = pa.binary(12)
"""Stands for the old form of timestamps; no other leaf has this type."""

_GUESS: Final = 16 << 10
"""Bytes read at the end of a local file, in the hope that the footer is among them."""
_REMOTE_GUESS: Final = 64 << 10
_ENDING: Final = 8
"""The footer's length and the magic number."""
_ARROW_KEY: Final = b"ARROW:schema"
_MOST_SCHEMAS: Final = 64
_SCHEMAS_KEY: Final = ("footer schemas",)
_ENTRY_BYTES: Final = 300
"""What the cache holds for a file beside its path; files of one schema share it."""


@dataclass(frozen=True, slots=True)
class FooterSchema:
    """What a kind of data file stores."""

    arrow: pa.Schema
    """As pyarrow reads it, field ids included."""
    leaves: tuple[pa.DataType | None, ...]
    """What each Parquet column is by the file format alone, as readers that know no Arrow see it; None for what is
    rarely used, and read in different ways."""
    written: pa.Schema | None = None
    """The Arrow schema that the writer left in the file, of which pyarrow follows a part; None if there is none."""


class FileToLookAt(NamedTuple):
    """A data file as the log has it."""

    path: str
    size: int
    modification_time: int | None


def footer_schemas(files: Sequence[FileToLookAt], sources: Sources, cache: Cache = shared_cache) -> list[FooterSchema]:
    """The schema of each file. Data files never change: store, path, size and time identify a file, so one in
    the cache is not read again."""
    keys = [("footer", sources.table.identity, *file) for file in files]
    found: list[FooterSchema | None] = [cache.get(key) for key in keys]
    missing = [place for place, schema in enumerate(found) if schema is None]
    schemas = _KnownSchemas(cache)

    def look(file: FileToLookAt) -> FooterSchema:
        with naming(file.path):
            return schemas.schema(_footer(sources, file.path, file.size))

    tasks = [partial(look, files[place]) for place in missing]
    # A local footer takes ten microseconds: a thread would take longer.
    fresh = [task() for task in tasks] if is_local(sources.table) else side_by_side(tasks)
    for place, schema in zip(missing, fresh, strict=True):
        found[place] = schema
        cache.put(keys[place], schema, _ENTRY_BYTES + len(files[place].path))
    return [schema for schema in found if schema is not None]


class _KnownSchemas:
    """Schemas by the bytes that footers of them have in common; those of earlier reads are in the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: tuple[_KnownSchema, ...] = cache.get(_SCHEMAS_KEY) or ()

    def schema(self, footer: bytes) -> FooterSchema:
        """The schema of a footer: one that is known, or a new one."""
        arrow = _arrow_part(footer)
        for known in self._known:
            if footer.startswith(known.start) and known.arrow == arrow:
                return known.schema
        schema = parsed_footer(footer)
        end = schema_end(footer)
        if end is not None:
            self._known = (_KnownSchema(footer[:end], arrow, schema), *self._known)[:_MOST_SCHEMAS]
            self._cache.put(_SCHEMAS_KEY, self._known, sum(known.bytes for known in self._known))
        return schema


class _KnownSchema(NamedTuple):
    start: bytes
    """What a footer of it begins with."""
    arrow: bytes
    """The Arrow schema in it and what follows; empty if there is none."""
    schema: FooterSchema

    @property
    def bytes(self) -> int:
        return 4 * (len(self.start) + len(self.arrow))


def _footer(sources: Sources, log_path: str, size: int) -> bytes:
    store, path = sources.locate(log_path)
    local = store.local_path(path)
    return _local_footer(local) if local is not None else _remote_footer(store, path, size)


def _local_footer(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _GUESS))
        tail = file.read(_GUESS)
        length = _length(tail)
        if length + _ENDING > len(tail):
            file.seek(max(0, size - length - _ENDING))
            tail = file.read(length + _ENDING)
        return _checked(tail, length)


def _remote_footer(store: Store, path: str, size: int) -> bytes:
    guess = min(size, _REMOTE_GUESS)
    tail = bytes(store.get_range(path, size - guess, guess))
    length = _length(tail)
    if length + _ENDING > len(tail):
        start = max(0, size - length - _ENDING)
        tail = bytes(store.get_range(path, start, size - start))
    return _checked(tail, length)


def _length(tail: bytes) -> int:
    if tail[-4:] != b"PAR1" or len(tail) < _ENDING:
        raise CorruptDataError("it does not end as a Parquet file; restore it or repair the table")
    return int.from_bytes(tail[-8:-4], "little")


def _checked(tail: bytes, length: int) -> bytes:
    if length + _ENDING > len(tail):
        raise CorruptDataError("its footer reaches before its beginning; restore it or repair the table")
    return tail[len(tail) - length - _ENDING : len(tail) - _ENDING]


def _arrow_part(footer: bytes) -> bytes:
    at = footer.find(_ARROW_KEY)
    return b"" if at < 0 else footer[at:]


def parsed_footer(footer: bytes) -> FooterSchema:
    """The schema of a footer, by pyarrow."""
    whole = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    parquet = pq.ParquetFile(pa.BufferReader(whole), coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False)
    schema = parquet.metadata.schema
    leaves = tuple(_leaf(schema.column(i)) for i in range(len(schema)))
    return FooterSchema(parquet.schema_arrow.remove_metadata(), leaves, _written(parquet.metadata))


def _written(metadata: pq.FileMetaData) -> pa.Schema | None:
    import base64

    kept = (metadata.metadata or {}).get(_ARROW_KEY)
    if kept is None:
        return None
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept))).remove_metadata()
    except (ValueError, OSError):
        return None


_UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_INTEGERS: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def _leaf(column: pq.ColumnSchema) -> pa.DataType | None:
    """The type of a Parquet column by its physical and logical type."""
    import json

    told = json.loads(column.logical_type.to_json())
    match column.physical_type, told["Type"]:
        case "BOOLEAN", "None":
            return pa.bool_()
        case "INT96", _:
            return INT96
        case "FLOAT", "None":
            return pa.float32()
        case "DOUBLE", "None":
            return pa.float64()
        case "INT32", "None":
            return pa.int32()
        case "INT64", "None":
            return pa.int64()
        case (("INT32" | "INT64"), "Int"):
            return _INTEGERS[told["bitWidth"]] if told["isSigned"] else None
        case "INT32", "Date":
            return pa.date32()
        case "INT64", "Timestamp":
            return pa.timestamp(_UNITS[told["timeUnit"]], "UTC" if told["isAdjustedToUTC"] else None)
        case (("INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY"), "Decimal") if told["precision"] <= 38:
            return pa.decimal128(told["precision"], told["scale"])
        case "BYTE_ARRAY", "String":
            return pa.string()
        case "BYTE_ARRAY", "None":
            return pa.binary()
    return None


def schema_end(footer: bytes) -> int | None:
    """Where the schema ends in a footer, which is Thrift in its compact form; None if it is not in its usual place."""
    try:
        at, field = 0, 0
        while field < _SCHEMA_FIELD:
            kind, field, at = _field(footer, at, field)
            at = _skipped(footer, at, kind)
        return at if field == _SCHEMA_FIELD else None
    except (IndexError, KeyError):
        return None


_SCHEMA_FIELD: Final = 2
_BYTES_OF: Final = {1: 0, 2: 0, 3: 1, 7: 8}
_VARINTS: Final = (4, 5, 6)
_TEXT, _LIST, _SET, _STRUCT = 8, 9, 10, 12


def _field(data: bytes, at: int, before: int) -> tuple[int, int, int]:
    """The kind and number of the field that begins at a place, and where its value begins."""
    head = data[at]
    if head >> 4:
        return head & 15, before + (head >> 4), at + 1
    number, at = _varint(data, at + 1)
    return head & 15, number >> 1 ^ -(number & 1), at


def _skipped(data: bytes, at: int, kind: int) -> int:
    """Where a value of a kind ends."""
    if kind in _VARINTS:
        return _varint(data, at)[1]
    if kind == _TEXT:
        length, at = _varint(data, at)
        return at + length
    if kind in (_LIST, _SET):
        return _skipped_list(data, at)
    if kind == _STRUCT:
        return _skipped_struct(data, at)
    return at + _BYTES_OF[kind]


def _skipped_list(data: bytes, at: int) -> int:
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    kind = head & 15
    for _ in range(count):
        # A boolean has its value in its kind as a field, and a byte of its own in a list.
        at = at + 1 if kind in (1, 2) else _skipped(data, at, kind)
    return at


def _skipped_struct(data: bytes, at: int) -> int:
    number = 0
    while data[at]:
        kind, number, at = _field(data, at, number)
        at = _skipped(data, at, kind)
    return at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
