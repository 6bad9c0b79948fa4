"""`sidecar explain`, `info` and `history`: what the reader sees, does and pays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from delta_sidecar.cli.files import moment
from delta_sidecar.cli.output import cut, write_facts, write_json, write_json_lines, write_table
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.scan.scan_plan import counted
from delta_sidecar.table import DeltaTable
from delta_sidecar.values.types import StructField


def explain(
    table: DeltaTable,
    where: str | None,
    limit: int | None,
    columns: Sequence[str] | None,
    stats: bool,
    as_json: bool,
) -> None:
    """Run a listing without printing its files, and say what it did."""
    wanted = [*(columns or ()), *(["stats"] if stats else [])] or None
    with table.scan_files(where, wanted, limit) as scan:
        for _ in scan:
            pass
        if as_json:
            write_json(_explained(table, scan))
        else:
            write_facts(_explained_lines(table, scan))


def _explained(table: DeltaTable, scan: FileScan) -> dict[str, Any]:
    cost = table.opening_cost
    return {
        "plan": scan.plan.as_dict(),
        "metrics": scan.metrics.as_dict(),
        "opening": {"requests": cost.requests, "bytes_read": cost.bytes_read},
    }


def _explained_lines(table: DeltaTable, scan: FileScan) -> Iterator[tuple[str, str]]:
    for line in scan.explain().splitlines():
        name, _, value = line.partition("  ")
        yield name, value.strip()
    done, cost = scan.metrics, table.opening_cost
    yield "opening", f"{cost.requests:,} requests, {cost.bytes_read:,} bytes, to pin the version"
    yield "base used", done.tier + (f", after a fallback: {done.fallback_reason}" if done.fallback_reason else "")
    if done.time_to_first_file_s is not None:
        yield "first file", f"after {done.time_to_first_file_s * 1000:.1f} ms"


def info(table: DeltaTable, count_files: bool, as_json: bool) -> None:
    """What the table is."""
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
    yield "base", f"{base}, {counted(size, 'byte')}" if base else "none: the log from version 0"
    yield "tail", f"{counted(facts['tail_commits'], 'commit')}, {counted(facts['tail_bytes'], 'byte')}"
    if "files" in facts:
        yield "files", f"{facts['files']:,}, {counted(facts['bytes'], 'byte')}"
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
    """What each commit says of itself, newest first."""
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
