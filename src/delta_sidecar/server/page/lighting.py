"""What a listing reads, by its own report; and what a reader without an index reads to know the same table."""

from __future__ import annotations

import time
from typing import Any, Final

import pyarrow.compute as pc

from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.server.page.part_map import index_of, positions_of
from delta_sidecar.server.page.shown_tables import ShownTables
from delta_sidecar.server.reading import OpenTable
from delta_sidecar.server.requests import ReadRequest
from delta_sidecar.server.tokens import Caller

LONGEST_S: Final = 30.0
"""Then a listing is ended, and the page says so: it is for looking, not for work."""
_PATHS: Final = 5
"""Files that are named."""


def lit(tables: ShownTables, request: ReadRequest, caller: Caller, longest_s: float = LONGEST_S) -> dict[str, Any]:
    """List the files that may match, and tell which parts and row groups that read."""
    began = time.perf_counter()
    with tables.listed(request, caller, with_index=True) as opened:
        access = opened.access
        scan = access.listing(access.bind(request.bindable), ["path", "size"])
        report = _run(opened, scan, began, longest_s)
        base = index_of(opened.table.snapshot)
        if base is not None and not scan.fallbacks:
            read = scan.row_groups_read
            looked = {name: () for name in scan.plan.parts if name not in read}
            report["index"] = base.content
            report["read"] = positions_of(base, read)
            report["looked_at"] = [at for at, _ in positions_of(base, looked)]
        plan = scan.plan
        return report | {
            "predicate": plan.predicate,
            "pruned_by": plan.pruning,
            "explained": scan.explain().replace(plan.table, access.location.text),
        }


def full_load(
    tables: ShownTables, request: ReadRequest, caller: Caller, longest_s: float = LONGEST_S
) -> dict[str, Any]:
    """List every file without the index, as a reader must that knows of none."""
    began = time.perf_counter()
    with tables.listed(request, caller, with_index=False) as opened:
        return _run(opened, opened.access.listing(None, ["path", "size"]), began, longest_s)


def _run(opened: OpenTable, scan: FileScan, began: float, longest_s: float) -> dict[str, Any]:
    """The figures of a listing, from the opening of the table to its last file."""
    size, is_whole = 0, True
    paths: list[str] = []
    with scan:
        for batch in scan:
            size += pc.sum(batch.column("size")).as_py() or 0
            if len(paths) < _PATHS:
                paths += batch.column("path").slice(0, _PATHS - len(paths)).to_pylist()
            if time.perf_counter() - began > longest_s:
                is_whole = False
                break
        done = scan.metrics
    seconds, cost = time.perf_counter() - began, opened.cost
    first = done.time_to_first_file_s
    return {
        "version": opened.version,
        "tier": done.tier,
        "fallback": done.fallback_reason,
        "is_whole": is_whole,
        "files": done.files_emitted,
        "data_bytes": size,
        "paths": paths,
        "commits": done.commits_scanned,
        "parts": [done.parts_read, done.parts_total],
        "row_groups": [done.row_groups_read, done.row_groups_total],
        "requests": cost.requests,
        "bytes": cost.bytes_read,
        "seconds": seconds,
        "first_file_s": None if first is None else first + seconds - done.elapsed_s,
    }
