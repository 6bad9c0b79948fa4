"""`sidecar files`: the live files of a table, a line each, while they are being found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from delta_sidecar.cli.output import printable, write_json_lines, write_table
from delta_sidecar.errors import UnknownColumnError
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.scan.file_infos import FileInfo, file_infos
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage import parse_location, resolve_log_path
from delta_sidecar.table import DeltaTable

JSON_COLUMNS = (
    "path",
    "uri",
    "size",
    "modification_time",
    "partition_values",
    "num_records",
    "deletion_vector",
)
SHOWN_COLUMNS = ("size", "modification_time", "partition_values", "deletion_vector", "path")
"""What people see unless they ask: all that costs little. The path is last, for it is long."""

_JSON_BATCH = 20_000


def list_files(
    table: DeltaTable,
    where: str | None,
    limit: int | None,
    columns: Sequence[str] | None,
    stats: bool,
    as_json: bool,
) -> None:
    """Print the live files."""
    chosen = _chosen(columns or (JSON_COLUMNS if as_json else SHOWN_COLUMNS), stats)
    scanned = ["path", *(name for name in chosen if name not in ("path", "uri"))]
    with table.scan_files(where, scanned, limit) as scan:
        if as_json:
            write_json_lines(_json_batches(scan, chosen, table))
        else:
            write_table(chosen, _cells(scan, chosen, table), numbers=_NUMBERS)


def _chosen(columns: Sequence[str], stats: bool) -> list[str]:
    unknown = next((name for name in columns if name != "uri" and name not in FILE_SCHEMA.names), None)
    if unknown is not None:
        known = ", ".join(["uri", *FILE_SCHEMA.names])
        raise UnknownColumnError(f"a listing has no column {unknown!r}; it has {known}")
    return list(dict.fromkeys([*columns, *(["stats"] if stats else [])]))


def _json_batches(scan: FileScan, columns: Sequence[str], table: DeltaTable) -> Iterator[list[Any]]:
    line: Callable[..., Any] = msgspec.defstruct("FileLine", columns, gc=False)
    where = UriMaker(table)
    for batch in scan:
        for start in range(0, batch.num_rows, _JSON_BATCH):
            infos = list(file_infos([batch.slice(start, _JSON_BATCH)]))
            yield list(map(line, *(_values(name, infos, where) for name in columns)))


def _values(name: str, infos: Sequence[FileInfo], where: UriMaker) -> Iterator[Any]:
    if name == "uri":
        return map(where.uri, map(attrgetter("path"), infos))
    given = map(attrgetter(name), infos)
    if name == "partition_values":
        return _encoded_once(given)
    return map(stats_json, given) if name == "stats" else given


def _encoded_once(mappings: Iterator[Mapping[str, str | None]]) -> Iterator[msgspec.Raw]:
    """The files of a partition share one mapping (as long as they live): it is written once."""
    known: dict[int, msgspec.Raw] = {}
    for mapping in mappings:
        raw = known.get(id(mapping))
        if raw is None:
            raw = known[id(mapping)] = msgspec.Raw(msgspec.json.encode(dict(mapping)))
        yield raw


class UriMaker:
    """Absolute, decoded places of files. Nearly all paths need no more than the table's place before them."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = parse_location(table.snapshot.store.root_uri)
        self._prefix = self._table.text.rstrip("/") + "/"

    def uri(self, path: str) -> str:
        if "%" in path or ":" in path or "//" in path or "/." in path or path[:1] in "/.":
            return resolve_log_path(self._table, path).text
        return self._prefix + path


def stats_json(text: str | None) -> msgspec.Raw | str | None:
    """Stats as a JSON object; text that is none stays text."""
    if not text:
        return None
    try:
        if "\n" in text or "\r" in text:
            return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(text)))
        return msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _cells(scan: FileScan, columns: Sequence[str], table: DeltaTable) -> Iterator[list[str]]:
    where = UriMaker(table)
    for info in _infos(scan):
        yield [where.uri(info.path) if name == "uri" else _shown(name, getattr(info, name)) for name in columns]


def _infos(batches: Iterator[pa.RecordBatch] | FileScan) -> Iterator[FileInfo]:
    for batch in batches:
        yield from file_infos([batch])


_NUMBERS = ("size", "num_records", "base_row_id", "default_row_commit_version")


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "modification_time":
        return moment(value)
    if name == "deletion_vector":
        return f"{value.cardinality} deleted"
    if isinstance(value, Mapping):
        return printable(", ".join(f"{k}={'null' if v is None else v}" for k, v in value.items())) or "-"
    return f"{value:,}" if isinstance(value, int) else printable(value)


def moment(milliseconds: int) -> str:
    """An instant for people, in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
