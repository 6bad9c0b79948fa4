"""What the ladder asks: the same table through its checkpoint and through its index, from the first file to all.

Every workload opens the table itself. `index` reads through the index, `checkpoint` is told not to, `slow` has a store
whose every request takes 30 ms, `masked` a table of which one late commit removed many files, and `pyarrow` reads the
same columns of the same files of the index, bare. What a run says of itself beside its count (time to the first file,
requests, bytes, trips) is in `extra`. A base other than the one that is asked for is a failure.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.specs import IndexedSpec, Spec
from benchmarks.workloads import (
    STATS_PREDICATE,
    Answer,
    Workload,
    is_last_hour,
    is_live,
    is_one,
    is_one_value_of_m0,
    last_hour,
    prepare_nothing,
    prepare_ours,
    prepare_pyarrow,
)

LATENCY_S = 0.030
TAKEN = 100
CORE_COLUMNS = ["path", "size", "modification_time", "partition"]
"""What a listing reads of a core part: the typed partition values replace the map."""
_LOWEST = ("0", "0.0", "''")
"""Below every bound of the measures, by their types in turn."""
_EXPLAIN = "from delta_sidecar.cli.main import run; run()"
_NO_INDEX = {"delta.sidecar.enabled": False}

Run = Callable[[Path, IndexedSpec], Answer]


def prepare_slow() -> None:
    """As for any table of ours, and the stores that wait and count."""
    prepare_ours()
    importlib.import_module("delta_sidecar.testing.stores")


def listing(base: str, options: dict[str, Any] | None = None, **arguments: Any) -> Run:
    """Open, and stream files as Arrow; `predicate` may be made from the spec."""

    def run(table: Path, spec: IndexedSpec) -> Answer:
        started = time.perf_counter()
        opened = _open(table, options=options)
        return _streamed(opened, base, started, _bound(arguments, spec))

    return run


def slow_listing(**arguments: Any) -> Run:
    """As `listing`, at 30 ms a request."""

    def run(table: Path, spec: IndexedSpec) -> Answer:
        from delta_sidecar.storage import open_store
        from delta_sidecar.testing.stores import CountingStore, SlowStore

        store = CountingStore(SlowStore(open_store(table), LATENCY_S))
        started = time.perf_counter()
        answer = _streamed(_open(table, store=store), "index", started, _bound(arguments, spec))
        return Answer(answer.count, {**answer.extra, "trips": store.round_trips()})

    return run


def first_file(base: str, options: dict[str, Any] | None = None) -> Run:
    """Open, and take one file."""

    def run(table: Path, spec: IndexedSpec) -> Answer:
        from delta_sidecar.scan.file_infos import file_infos

        started = time.perf_counter()
        opened = _open(table, options=options)
        with opened.scan_files() as scan:
            count = 1 if next(file_infos(scan)).path else 0
            seconds = time.perf_counter() - started
            return Answer(count, _cost(opened, scan, base), seconds)

    return run


def all_objects(table: Path, spec: IndexedSpec) -> Answer:
    """Open, and make a Python object of five fields of every live file."""
    started = time.perf_counter()
    from delta_sidecar.scan.file_infos import file_infos

    told: dict[str, Any] = {}
    opened = _open(table)
    with opened.scan_files() as scan:
        count = sum(1 for _ in _timed(file_infos(scan), started, told))
        return Answer(count, told | _cost(opened, scan, "index"))


def core_parts(table: Path, spec: IndexedSpec) -> Answer:
    """Read the listing's columns of every core part, a part at a time."""
    import pyarrow.parquet as pq

    return _raw(table, lambda file: [pq.ParquetFile(file).read(columns=CORE_COLUMNS)])


def core_parts_streamed(table: Path, spec: IndexedSpec) -> Answer:
    """As `core_parts`, in batches."""
    import pyarrow.parquet as pq

    return _raw(table, lambda file: pq.ParquetFile(file).iter_batches(columns=CORE_COLUMNS))


def explain(table: Path, spec: IndexedSpec) -> Answer:
    """`sidecar explain` with a predicate of one hour, from the start of the interpreter to its end."""
    command = [sys.executable, "-c", _EXPLAIN, "explain", str(table), "--where", last_hour(spec.log), "--json"]
    started = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise ChildProcessError((done.stderr.strip().splitlines() or ["no message"])[-1])
    metrics = json.loads(done.stdout)["metrics"]
    told = ("parts_read", "parts_total", "row_groups_read", "row_groups_total")
    return Answer(metrics["files_emitted"], {name: metrics[name] for name in told}, seconds)


def last_hour_by_time(spec: IndexedSpec) -> str:
    """The last hour as a predicate on the time column."""
    return f"ts >= '{spec.log.last_hour_begins}'"


def every_stat(spec: IndexedSpec) -> str:
    """A predicate that every file meets, and that needs the bounds of every column in the stats file."""
    measures = range(max(0, spec.stat_columns - 2))
    return " AND ".join(["id >= 0", *(f"m{k} >= {_LOWEST[k % 3]}" for k in measures)])


def _open(table: Path, **arguments: Any) -> Any:
    from delta_sidecar import DeltaTable

    return DeltaTable(str(table), **arguments)


def _bound(arguments: dict[str, Any], spec: IndexedSpec) -> dict[str, Any]:
    return {name: value(spec) if callable(value) else value for name, value in arguments.items()}


def _streamed(opened: Any, base: str, started: float, arguments: dict[str, Any]) -> Answer:
    import pyarrow as pa

    told: dict[str, Any] = {}
    with opened.scan_files(**arguments) as scan:
        count = sum(b.num_rows for b in _timed(pa.RecordBatchReader.from_stream(scan), started, told))
        return Answer(count, told | _cost(opened, scan, base))


def _cost(opened: Any, scan: Any, base: str) -> dict[str, Any]:
    """What opening and the scan took together; an error if they stood on another base."""
    done, opening, found = scan.metrics, opened.opening_cost, str(opened.snapshot.segment.base)
    passed_over = done.fallback_reason if base == "index" else None
    if base not in found or passed_over or done.tier not in (base, "log"):
        raise ValueError(f"read on top of {found}, not of the {base}: {done.fallback_reason or done.tier}")
    return {
        "requests": opening.requests + done.requests,
        "bytes": opening.bytes_read + done.bytes_read,
        "parts_read": done.parts_read,
        "parts_total": done.parts_total,
        "mask": done.mask_size,
        "strategy": done.strategy,
    }


def _timed(items: Iterable[Any], started: float, told: dict[str, Any]) -> Iterator[Any]:
    """The same items; when the first came is noted."""
    found = iter(items)
    for item in found:
        told["first_s"] = time.perf_counter() - started
        yield item
        break
    yield from found


def _raw(table: Path, read: Callable[[Path], Iterable[Any]]) -> Answer:
    files = sorted((table / "_delta_log" / "_sidecars").glob("*.core.parquet"))
    return Answer(sum(piece.num_rows for file in files for piece in read(file)))


def _is_base(count: int, spec: Spec) -> bool:
    return isinstance(spec, IndexedSpec) and count == spec.files


def _is_last_hour_by_time(count: int, spec: Spec) -> bool:
    """One file more is right: the last of the hour before ends a millisecond before it, which bounds may be off by."""
    return is_last_hour(count, spec) or is_last_hour(count - 1, spec)


def _is_taken(count: int, spec: Spec) -> bool:
    return count == TAKEN


def _hour(spec: IndexedSpec) -> str:
    return last_hour(spec.log)


_ONE_BY_ONE = {**_NO_INDEX, "delta.commit.parallelism": 1}

WORKLOADS = {
    f"{workload.reader}.{workload.name}": workload
    for workload in (
        Workload("first_file", "checkpoint", prepare_ours, first_file("checkpoint", _NO_INDEX), is_one),
        Workload(
            "last_hour_one_by_one",
            "checkpoint",
            prepare_ours,
            listing("checkpoint", _ONE_BY_ONE, predicate=_hour),
            is_last_hour,
        ),
        Workload(
            "last_hour", "checkpoint", prepare_ours, listing("checkpoint", _NO_INDEX, predicate=_hour), is_last_hour
        ),
        Workload("all_arrow", "checkpoint", prepare_ours, listing("checkpoint", _NO_INDEX), is_live),
        Workload("first_file", "index", prepare_ours, first_file("index"), is_one),
        Workload("every_stat", "index", prepare_ours, listing("index", predicate=every_stat), is_live),
        Workload("all_arrow", "index", prepare_ours, listing("index"), is_live),
        Workload("last_hour", "index", prepare_ours, listing("index", predicate=_hour), is_last_hour),
        Workload(
            "last_hour_by_time",
            "index",
            prepare_ours,
            listing("index", predicate=last_hour_by_time),
            _is_last_hour_by_time,
        ),
        Workload("take", "index", prepare_ours, listing("index", limit=TAKEN), _is_taken),
        Workload(
            "stats_predicate", "index", prepare_ours, listing("index", predicate=STATS_PREDICATE), is_one_value_of_m0
        ),
        Workload("all_objects", "index", prepare_ours, all_objects, is_live),
        Workload("all_arrow", "masked", prepare_ours, listing("index"), is_live),
        Workload("last_hour", "slow", prepare_slow, slow_listing(predicate=_hour), is_last_hour),
        Workload("all_arrow", "slow", prepare_slow, slow_listing(), is_live),
        Workload("explain", "index", prepare_nothing, explain, is_last_hour),
        Workload("core_parts", "pyarrow", prepare_pyarrow, core_parts, _is_base),
        Workload("core_parts_streamed", "pyarrow", prepare_pyarrow, core_parts_streamed, _is_base),
    )
}
