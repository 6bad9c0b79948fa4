"""`sidecar explain`, `info` and `history`, and what every command logs with `--verbose`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from delta_sidecar.cli.output import cut, write_facts, write_headline, write_json, write_json_lines, write_table
from delta_sidecar.log.segment import CheckpointFiles
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage.metered import Cost, MeteredStore
from delta_sidecar.table import DeltaTable
from delta_sidecar.texts import counted, sized
from delta_sidecar.values.types import StructField

if TYPE_CHECKING:
    from delta_sidecar.data.row_stream import RowStream

_log = logging.getLogger(__name__)


def log_opening(table: DeltaTable) -> None:
    """Log which version was opened, its base and tail, and what that cost."""
    segment = table.snapshot.segment
    base = "no base, the log from version 0" if segment.base is None else f"base {segment.base}"
    tail = f"a tail of {counted(len(segment.commits), 'commit')}, {sized(segment.tail_bytes)}"
    _log.info(
        "opened version %d of %s: %s, %s; %s", table.version(), table.table_uri, base, tail, _paid(table.opening_cost)
    )
    for note in table.snapshot.notes:
        _log.info("note: %s", note)


def log_listing(scan: FileScan) -> None:
    """Log what a listing read, and from which tier."""
    done = scan.metrics
    _log.info("listed %s from tier %s; %s", counted(done.files_emitted, "file"), done.tier, scan.headline())
    if done.fallback_reason:
        _log.info("fell back to %s: %s", done.tier, done.fallback_reason)


def log_rows(rows: RowStream) -> None:
    """Log how many data files and row groups were read."""
    done = rows.metrics
    read, pruned = counted(done.files_read, "data file"), counted(done.row_groups_pruned, "row group")
    _log.info("read %s, %s; %s skipped by their bounds", read, counted(done.row_groups_read, "row group"), pruned)


def log_total(table: DeltaTable) -> None:
    """Log all requests to the store."""
    store = table.snapshot.store
    if isinstance(store, MeteredStore):
        _log.info("%s in all", _paid(store.cost))


def _paid(cost: Cost) -> str:
    return f"{counted(cost.requests, 'request')}, {sized(cost.bytes_read)}"


def moment(milliseconds: int) -> str:
    """An instant for people, in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def explain(
    table: DeltaTable,
    where: str | None,
    limit: int | None,
    columns: Sequence[str] | None,
    stats: bool,
    as_json: bool,
    is_pinned: bool = False,
) -> None:
    """Run a listing without printing its files, and print what it did. `is_pinned`: a version was asked for."""
    wanted = [*(columns or ()), *(["stats"] if stats else [])] or None
    with table.scan_files(where, wanted, limit) as scan:
        for _ in scan:
            pass
        if as_json:
            write_json(_explained(table, scan))
        else:
            write_headline(scan.headline())
            write_facts(_explained_lines(table, scan, is_pinned))
        log_listing(scan)


def _explained(table: DeltaTable, scan: FileScan) -> dict[str, Any]:
    cost = table.opening_cost
    return {
        "plan": scan.plan.as_dict(),
        "metrics": scan.metrics.as_dict(),
        "opening": {"requests": cost.requests, "bytes_read": cost.bytes_read},
    }


def _explained_lines(table: DeltaTable, scan: FileScan, is_pinned: bool) -> Iterator[tuple[str, str]]:
    yield from scan.facts()
    done = scan.metrics
    if done.time_to_first_file_s is not None:
        yield "first file", f"after {done.time_to_first_file_s * 1000:.1f} ms"
    yield "opening", f"{_paid(table.opening_cost)}, before the listing"
    is_on_index = not isinstance(table.snapshot.segment.base, CheckpointFiles | None)
    if is_on_index and scan.fallbacks:
        yield "index", f"damaged; rebuild it from scratch: sidecar build --full {table.table_uri}"
    elif not is_on_index and table.settings.enabled:
        yield "index", _without_index(table, scan, is_pinned)


def _without_index(table: DeltaTable, scan: FileScan, is_pinned: bool) -> str:
    """What an index would save, in figures of this listing."""
    done, plan = scan.metrics, scan.plan
    if plan.predicate is None and plan.limit is None:
        return "none used; this listing returns every file, so with an index it would also read them all"
    read = done.bytes_read + table.opening_cost.bytes_read
    looked, found = counted(done.files_considered, "file"), counted(done.files_emitted, "file")
    return (
        f"none used: this listing read {sized(read)} of {_read_from(done.tier)} and checked {looked} "
        f"to find {found}. With an index it would read only the parts that may match: "
        f"sidecar build {table.table_uri}{_version_to_index(table) if is_pinned else ''}"
    )


def _version_to_index(table: DeltaTable) -> str:
    """The version whose index a reader of this one finds: that of its checkpoint, or its own if there is none."""
    base = table.snapshot.segment.base
    return f" --version {table.version() if base is None else base.version}"


def _read_from(tier: str) -> str:
    return "checkpoint and log" if tier == "checkpoint" else "log"


def info(table: DeltaTable, count_files: bool, as_json: bool) -> None:
    """Print the facts about the table."""
    facts = _facts(table) | (_totals(table) if count_files else {})
    if as_json:
        write_json(facts)
    else:
        write_facts(_fact_lines(table, facts))


def _facts(table: DeltaTable) -> dict[str, Any]:
    metadata, protocol, segment = table.metadata(), table.protocol(), table.snapshot.segment
    return {
        "table": table.table_uri,
        "version": table.version(),
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "created_time": metadata.created_time,
        "min_reader_version": protocol.min_reader_version,
        "min_writer_version": protocol.min_writer_version,
        "reader_features": protocol.reader_features,
        "writer_features": protocol.writer_features,
        "schema": msgspec.Raw(table.schema().to_json().encode()),
        "partition_columns": metadata.partition_columns,
        "properties": metadata.configuration,
        "base": None if segment.base is None else str(segment.base),
        "base_bytes": 0 if segment.base is None else segment.base.size,
        "tail_commits": len(segment.commits),
        "tail_bytes": segment.tail_bytes,
    }


def _totals(table: DeltaTable) -> dict[str, int]:
    import pyarrow.compute as pc

    files = size = 0
    with table.scan_files(columns=["size"]) as scan:
        for batch in scan:
            files += batch.num_rows
            size += pc.sum(batch.column("size")).as_py() or 0
    return {"files": files, "bytes": size}


def _fact_lines(table: DeltaTable, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "table", facts["table"]
    yield "version", str(facts["version"])
    yield "id", facts["id"]
    for key in ("name", "description"):
        if facts[key]:
            yield key, facts[key]
    if facts["created_time"] is not None:
        yield "created", moment(facts["created_time"])
    yield "protocol", f"reader {facts['min_reader_version']}, writer {facts['min_writer_version']}"
    for key in ("reader_features", "writer_features"):
        if facts[key]:
            yield key.replace("_", " "), ", ".join(sorted(facts[key]))
    base, size = facts["base"], facts["base_bytes"]
    yield "base", f"{base}, {sized(size)}" if base else "none: the log from version 0"
    yield "tail", f"{counted(facts['tail_commits'], 'commit')}, {sized(facts['tail_bytes'])}"
    if "files" in facts:
        yield "files", f"{facts['files']:,}, {sized(facts['bytes'])}"
    yield "partitioned", ", ".join(facts["partition_columns"]) or "no"
    yield from _headed("properties", [f"{k} = {v}" for k, v in sorted(facts["properties"].items())])
    yield from _headed("columns", [_column(f) for f in table.schema()])


def _headed(name: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Several values under one name."""
    for place, line in enumerate(lines):
        yield name if not place else "", line


def _column(column: StructField) -> str:
    return f"{column.name} {column.type}{'' if column.nullable else ' not null'}"


def history(table: DeltaTable, limit: int | None, as_json: bool) -> None:
    """Print the `commitInfo` of each commit, newest first."""
    commits = table.history(limit)
    if as_json:
        write_json_lines([commits])
    else:
        write_table(["version", "time", "operation", "engine", "parameters"], map(_commit, commits), ["version"])


def _commit(entry: Mapping[str, Any]) -> list[str]:
    instant = entry.get("timestamp")
    parameters = entry.get("operationParameters") or {}
    shown = ", ".join(f"{k}={v}" for k, v in parameters.items()) if isinstance(parameters, Mapping) else str(parameters)
    return [
        str(entry["version"]),
        moment(instant) if isinstance(instant, int) else cut(str(instant)),
        cut(str(entry.get("operation") or "-")),
        cut(str(entry.get("engineInfo") or "-")),
        cut(shown or "-"),
    ]
