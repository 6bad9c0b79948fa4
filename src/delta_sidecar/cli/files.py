"""`sidecar files`: print the live files of a table, one per line, as they are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from delta_sidecar.cli.output import write_table
from delta_sidecar.cli.reports import log_listing, moment
from delta_sidecar.cli.sinks import Sink, write_result
from delta_sidecar.errors import UnknownColumnError, did_you_mean
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.scan.file_infos import FileInfo, file_infos
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage import parse_location, resolve_log_path
from delta_sidecar.table import DeltaTable
from delta_sidecar.texts import printable, sized

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
"""The default columns of the table for people: those that cost little. The path is last, because it is long."""
_TITLES = {"modification_time": "modified", "partition_values": "partition", "deletion_vector": "deleted rows"}

_JSON_BATCH = 20_000


def list_files(
    table: DeltaTable,
    where: str | None,
    limit: int | None,
    columns: Sequence[str] | None,
    stats: bool,
    sink: Sink,
) -> None:
    """Print or write the live files."""
    for_people = sink.format is None
    chosen = _chosen(columns or (_shown_columns(table) if for_people else JSON_COLUMNS), stats)
    scanned = ["path", *(name for name in chosen if name not in ("path", "uri"))]
    uris = UriMaker(table)
    with table.scan_files(where, scanned, limit) as scan:
        if for_people:
            partitions = table.metadata().partition_columns
            titles = [_title(name, partitions) for name in chosen]
            write_table(titles, _cells(scan, chosen, uris), numbers=_NUMBERS, paths=("path", "uri"))
        else:
            fields = [pa.field("uri", pa.string()) if name == "uri" else scan.schema.field(name) for name in chosen]
            schema = pa.schema(fields)
            write_result(sink, "file", schema, _with_uris(scan, schema, uris), _json_batches(scan, chosen, uris))
        log_listing(scan)


def _shown_columns(table: DeltaTable) -> list[str]:
    """The default columns, with partitions and deletion vectors only if the table has them."""
    absent = set() if table.metadata().partition_columns else {"partition_values"}
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        absent.add("deletion_vector")
    return [name for name in SHOWN_COLUMNS if name not in absent]


def _with_uris(scan: FileScan, schema: pa.Schema, uris: UriMaker) -> Iterator[pa.RecordBatch]:
    """The batches of a listing with the requested columns."""
    for batch in scan:
        columns = [_uris(batch, uris) if name == "uri" else batch.column(name) for name in schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _uris(batch: pa.RecordBatch, uris: UriMaker) -> pa.StringArray:
    return pa.array(map(uris.uri, batch.column("path").to_pylist()), pa.string())


def _chosen(columns: Sequence[str], stats: bool) -> list[str]:
    unknown = next((name for name in columns if name != "uri" and name not in FILE_SCHEMA.names), None)
    if unknown is not None:
        known = ["uri", *FILE_SCHEMA.names]
        near = did_you_mean(unknown, known)
        raise UnknownColumnError(f"a listing has no column {unknown!r}{near}; it has {', '.join(known)}")
    return list(dict.fromkeys([*columns, *(["stats"] if stats else [])]))


def _json_batches(scan: FileScan, columns: Sequence[str], where: UriMaker) -> Iterator[list[Any]]:
    line: Callable[..., Any] = msgspec.defstruct("FileLine", columns, gc=False)
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
    """The files of a partition share one mapping, so it is encoded once."""
    known: dict[int, msgspec.Raw] = {}
    for mapping in mappings:
        raw = known.get(id(mapping))
        if raw is None:
            raw = known[id(mapping)] = msgspec.Raw(msgspec.json.encode(dict(mapping)))
        yield raw


class UriMaker:
    """Absolute, decoded locations of files. For nearly all paths this is the table's location and the path."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = parse_location(table.snapshot.store.root_uri)
        self._prefix = self._table.text.rstrip("/") + "/"

    def uri(self, path: str) -> str:
        if "%" in path or ":" in path or "//" in path or "/." in path or path[:1] in "/.":
            return resolve_log_path(self._table, path).text
        return self._prefix + path


def stats_json(text: str | None) -> msgspec.Raw | str | None:
    """Stats as a JSON object; text that is not JSON stays text."""
    if not text:
        return None
    try:
        if "\n" in text or "\r" in text:
            return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(text)))
        return msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _cells(scan: FileScan, columns: Sequence[str], where: UriMaker) -> Iterator[list[str]]:
    for info in file_infos(scan):
        yield [_shown(name, where.uri(info.path) if name == "uri" else getattr(info, name)) for name in columns]


_NUMBERS = ("size", "num_records", "base_row_id", "default_row_commit_version", _TITLES["deletion_vector"])


def _title(name: str, partitions: Sequence[str]) -> str:
    """The heading of a column; a single partition column gives its own name."""
    if name == "partition_values" and len(partitions) == 1:
        return printable(partitions[0])
    return _TITLES.get(name, name)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "size":
        return sized(value)
    if name == "modification_time":
        return moment(value)
    if name == "deletion_vector":
        return f"{value.cardinality:,}"
    if name == "partition_values" and len(value) == 1:
        return printable(next(iter(value.values())) or "null")
    if isinstance(value, Mapping):
        return printable(", ".join(f"{k}={'null' if v is None else v}" for k, v in value.items())) or "-"
    return f"{value:,}" if isinstance(value, int) else printable(value)
