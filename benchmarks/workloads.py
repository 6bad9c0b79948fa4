"""What is measured: one function a reader and question, each with the answer it must give.

A workload is prepared (imports, warm libraries), then run once under the meter. It returns how many things it saw, and
the number is checked: a fast wrong answer is a failure, not a result. `ours` is Delta Sidecar, `deltalake` its peer,
`pyarrow` the bare reading of the same bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.specs import BUCKET, M0_VALUES, CommitSpec, IndexedSpec, LogSpec, RowsSpec, Spec, table_dir

LISTING_COLUMNS = ["path", "size", "modificationTime", "partitionValues", "deletionVector"]
# What a listing must not load: each costs more than all of the reader.
HEAVY_MODULES = ("pyspark", "duckdb", "pyarrow.flight", "pandas", "deltalake", "datafusion", "polars")
# Run in a bare interpreter: this process has loaded modules of its own, which would make the import look cheaper.
IMPORT_SCRIPT = """
import sys, time
started = time.perf_counter()
import delta_sidecar
package = time.perf_counter() - started
delta_sidecar.DeltaTable
seconds = time.perf_counter() - started
import json
print(json.dumps({"seconds": seconds, "package_s": package, "modules": sorted(sys.modules)}))
"""
READER_MODULES = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "delta_sidecar.table",
    "delta_sidecar.index.read.index_base",
    "delta_sidecar.index.read.manifests",
    "delta_sidecar.index.read.part_bounds",
    "delta_sidecar.index.read.part_merge",
    "delta_sidecar.listing.checkpoint_plan",
    "delta_sidecar.predicates.binding",
    "delta_sidecar.pruning.add_pruner",
    "delta_sidecar.pruning.bucket_ranges",
    "delta_sidecar.scan.file_scan",
    "delta_sidecar.values.stats_text",
)
STATS_PREDICATE = "m0 = 7"
UNCLUSTERED_PREDICATE = "bucket = 7"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a workload saw: a count to be checked, whatever else is worth a line, and its own clock if it has one."""

    count: int
    extra: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A named question to one reader; `right` judges the count."""

    name: str
    reader: str
    prepare: Callable[[], None]
    run: Callable[[Path, Any], Answer]
    right: Callable[[int, Any], bool]


def prepare_ours() -> None:
    """Load what opening and listing a table of ours may need: the reader imports it when it is first used."""
    _loaded(*map(import_module, READER_MODULES))


def _deltalake() -> None:
    import deltalake
    import pyarrow.dataset

    _loaded(pyarrow.dataset, deltalake.DeltaTable)


def prepare_pyarrow() -> None:
    """Load what a bare read of Parquet needs."""
    import pyarrow.parquet

    _loaded(pyarrow.parquet)


def prepare_nothing() -> None:
    """For workloads whose subject is the import itself."""


def _loaded(*things: object) -> None:
    """Imports made for their effect, so that they are not counted in the run."""
    if not all(things):
        raise ImportError(f"not loaded: {things}")


def _open_ours(table: Path) -> Any:
    from delta_sidecar import DeltaTable

    return DeltaTable(str(table))


def _open_deltalake(table: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(table))


def _row_count(batches: Iterable[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def _scan(table: Path, **arguments: Any) -> Answer:
    import pyarrow as pa

    with _open_ours(table).scan_files(**arguments) as scan:
        count = _row_count(pa.RecordBatchReader.from_stream(scan))
        return Answer(count, {"metrics": str(scan.metrics)})


def ours_first_file(table: Path, spec: LogSpec) -> Answer:
    """Open, and take one file."""
    return Answer(1 if next(iter(_open_ours(table).file_infos())).path else 0)


def ours_all_arrow(table: Path, spec: Spec) -> Answer:
    """Open, and stream every live file as Arrow, batch by batch."""
    return _scan(table)


def ours_all_objects(table: Path, spec: LogSpec) -> Answer:
    """Open, and make a Python object of every live file."""
    return Answer(sum(1 for _ in _open_ours(table).file_infos()))


def ours_stats_predicate(table: Path, spec: LogSpec) -> Answer:
    """Open, and list the files that may hold `m0 = 7`."""
    return _scan(table, predicate=STATS_PREDICATE)


def ours_partition_predicate(table: Path, spec: LogSpec) -> Answer:
    """Open, and list the files of the checkpoint's last hour and after."""
    return _scan(table, predicate=last_hour(spec))


def deltalake_open(table: Path, spec: LogSpec) -> Answer:
    """Open; nothing more is asked for."""
    return Answer(_open_deltalake(table).version())


def deltalake_all_uris(table: Path, spec: LogSpec) -> Answer:
    """Open, and take every file's URI."""
    return Answer(len(_open_deltalake(table).file_uris()))


def deltalake_stats_predicate(table: Path, spec: LogSpec) -> Answer:
    """Open, and filter by stats: `file_uris` with a pruning predicate is the call that does it."""
    return Answer(len(_open_deltalake(table).file_uris(file_pruning_predicate=STATS_PREDICATE)))


def deltalake_partition_predicate(table: Path, spec: LogSpec) -> Answer:
    """Open, and filter by the bucket."""
    return Answer(len(_open_deltalake(table).file_uris(file_pruning_predicate=last_hour(_log(spec)))))


def pyarrow_all_arrow(table: Path, spec: LogSpec) -> Answer:
    """Stream the listing's columns out of the checkpoint, with no replay."""
    import pyarrow.parquet as pq

    columns = [f"add.{column}" for column in LISTING_COLUMNS]
    return Answer(_row_count(pq.ParquetFile(_checkpoint(table, spec)).iter_batches(columns=columns)))


def pyarrow_stats_column(table: Path, spec: LogSpec) -> Answer:
    """Stream the listing's columns and the stats text, unparsed: the floor of any predicate on JSON stats."""
    import pyarrow.parquet as pq

    columns = [f"add.{column}" for column in [*LISTING_COLUMNS, "stats"]]
    return Answer(_row_count(pq.ParquetFile(_checkpoint(table, spec)).iter_batches(columns=columns)))


def ours_rows(table: Path, spec: RowsSpec) -> Answer:
    """Every row, as one Arrow table."""
    return Answer(_open_ours(table).to_pyarrow_table().num_rows)


def ours_rows_streamed(table: Path, spec: RowsSpec) -> Answer:
    """Every row, batch by batch."""
    return Answer(_row_count(_open_ours(table).to_batches()))


def ours_rows_clustered(table: Path, spec: RowsSpec) -> Answer:
    """1 % of the rows, in few files."""
    return Answer(_row_count(list(_open_ours(table).to_batches(predicate=_id_range(spec)))))


def ours_rows_unclustered(table: Path, spec: RowsSpec) -> Answer:
    """1 % of the rows, in all files."""
    return Answer(_row_count(list(_open_ours(table).to_batches(predicate=UNCLUSTERED_PREDICATE))))


def deltalake_rows(table: Path, spec: RowsSpec) -> Answer:
    """Every row, as one Arrow table."""
    return Answer(_open_deltalake(table).to_pyarrow_table().num_rows)


def deltalake_rows_streamed(table: Path, spec: RowsSpec) -> Answer:
    """Every row, batch by batch, from the built-in engine."""
    return Answer(_row_count(_engine_batches(table, None)))


def deltalake_rows_clustered(table: Path, spec: RowsSpec) -> Answer:
    """1 % of the rows, in few files."""
    first, past = spec.clustered_range
    return Answer(_filtered(table, [("id", ">=", first), ("id", "<", past)]))


def deltalake_rows_unclustered(table: Path, spec: RowsSpec) -> Answer:
    """1 % of the rows, in all files."""
    return Answer(_filtered(table, [("bucket", "=", 7)]))


def deltalake_engine_clustered(table: Path, spec: RowsSpec) -> Answer:
    """As `rows_clustered`, by the built-in engine."""
    return Answer(_row_count(_engine_batches(table, _id_range(spec))))


def deltalake_engine_unclustered(table: Path, spec: RowsSpec) -> Answer:
    """As `rows_unclustered`, by the built-in engine."""
    return Answer(_row_count(_engine_batches(table, UNCLUSTERED_PREDICATE)))


def ours_import(table: Path, spec: Spec) -> Answer:
    """Import the package, and apart from it the facade; the count is how many heavy modules both brought in."""
    command = [sys.executable, "-c", IMPORT_SCRIPT]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ImportError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found = json.loads(done.stdout)
    modules = found["modules"]
    heavy = [name for name in HEAVY_MODULES if name in modules]
    extra = {"with_facade_s": found["seconds"], "heavy": heavy, "modules": len(modules)}
    return Answer(len(heavy), extra, found["package_s"])


def _filtered(table: Path, filters: list[tuple[str, str, int]]) -> int:
    rows: int = _open_deltalake(table).to_pyarrow_table(filters=filters).num_rows
    return rows


def _engine_batches(table: Path, predicate: str | None) -> Iterable[Any]:
    import pyarrow as pa

    reader: Iterable[Any] = pa.RecordBatchReader.from_stream(_open_deltalake(table).scan(predicate=predicate))
    return reader


def _checkpoint(table: Path, spec: LogSpec) -> Path:
    return table / "_delta_log" / f"{spec.checkpoint_version:020d}.checkpoint.parquet"


def last_hour(spec: LogSpec) -> str:
    """The last hour as a predicate on the bucket."""
    return f"{BUCKET} >= '{spec.last_hour}'"


def _id_range(spec: RowsSpec) -> str:
    first, past = spec.clustered_range
    return f"id >= {first} AND id < {past}"


def is_live(count: int, spec: Spec) -> bool:
    """As many as there are live files."""
    if isinstance(spec, CommitSpec):
        return count == spec.adds
    return count == (spec if isinstance(spec, IndexedSpec) else _log(spec)).live_files


def _is_checkpoint(count: int, spec: Spec) -> bool:
    return count == _log(spec).files + 2


def _is_head(count: int, spec: Spec) -> bool:
    return count == _log(spec).head


def is_one_value_of_m0(count: int, spec: Spec) -> bool:
    """About as many as have one value of `m0`."""
    expected = _log(spec).live_files / M0_VALUES
    return 0.5 * expected < count < 2 * expected


def is_last_hour(count: int, spec: Spec) -> bool:
    """As many as there are in the last hour of the checkpoint and after, give or take what the tail removes."""
    log = _log(spec)
    newest = (log.files - 1) // log.files_per_hour * log.files_per_hour
    added = log.tail_commits * log.adds_per_commit
    most, removed = log.files - newest + added, log.files + added - log.live_files
    return max(1, most - removed) <= count <= most


def _is_all_rows(count: int, spec: Spec) -> bool:
    return isinstance(spec, RowsSpec) and count == spec.rows


def _is_clustered(count: int, spec: Spec) -> bool:
    return isinstance(spec, RowsSpec) and count == spec.rows // 100


def _is_unclustered(count: int, spec: Spec) -> bool:
    return isinstance(spec, RowsSpec) and 0.8 < count / (spec.rows / 100) < 1.2


def _is_any(count: int, spec: Spec) -> bool:
    return count >= 0


def is_one(count: int, spec: Spec) -> bool:
    """A single thing."""
    return count == 1


def _log(spec: Spec) -> LogSpec:
    if isinstance(spec, IndexedSpec):
        return spec.log
    if not isinstance(spec, LogSpec):
        raise TypeError(f"this workload needs a LogSpec, got {type(spec).__name__}")
    return spec


WORKLOADS = {
    f"{workload.reader}.{workload.name}": workload
    for workload in (
        Workload("first_file", "ours", prepare_ours, ours_first_file, is_one),
        Workload("all_arrow", "ours", prepare_ours, ours_all_arrow, is_live),
        Workload("all_objects", "ours", prepare_ours, ours_all_objects, is_live),
        Workload("stats_predicate", "ours", prepare_ours, ours_stats_predicate, is_one_value_of_m0),
        Workload("partition_predicate", "ours", prepare_ours, ours_partition_predicate, is_last_hour),
        Workload("open", "deltalake", _deltalake, deltalake_open, _is_head),
        Workload("all_uris", "deltalake", _deltalake, deltalake_all_uris, is_live),
        Workload("stats_predicate", "deltalake", _deltalake, deltalake_stats_predicate, is_one_value_of_m0),
        Workload("partition_predicate", "deltalake", _deltalake, deltalake_partition_predicate, is_last_hour),
        Workload("all_arrow", "pyarrow", prepare_pyarrow, pyarrow_all_arrow, _is_checkpoint),
        Workload("stats_column", "pyarrow", prepare_pyarrow, pyarrow_stats_column, _is_checkpoint),
        Workload("huge_commit", "ours", prepare_ours, ours_all_arrow, is_live),
        Workload("rows_all", "ours", prepare_ours, ours_rows, _is_all_rows),
        Workload("rows_streamed", "ours", prepare_ours, ours_rows_streamed, _is_all_rows),
        Workload("rows_clustered", "ours", prepare_ours, ours_rows_clustered, _is_clustered),
        Workload("rows_unclustered", "ours", prepare_ours, ours_rows_unclustered, _is_unclustered),
        Workload("rows_all", "deltalake", _deltalake, deltalake_rows, _is_all_rows),
        Workload("rows_streamed", "deltalake", _deltalake, deltalake_rows_streamed, _is_all_rows),
        Workload("rows_clustered", "deltalake", _deltalake, deltalake_rows_clustered, _is_clustered),
        Workload("rows_unclustered", "deltalake", _deltalake, deltalake_rows_unclustered, _is_unclustered),
        Workload("engine_clustered", "deltalake", _deltalake, deltalake_engine_clustered, _is_clustered),
        Workload("engine_unclustered", "deltalake", _deltalake, deltalake_engine_unclustered, _is_unclustered),
        Workload("import", "ours", prepare_nothing, ours_import, _is_any),
    )
}


def run(workload: Workload, spec: Spec) -> Answer:
    """Run one workload on its table and check its count."""
    answer = workload.run(table_dir(spec), spec)
    if not workload.right(answer.count, spec):
        raise ValueError(f"{workload.reader}.{workload.name} saw {answer.count}, which is not what the table holds")
    return answer


def table_of(key: str) -> str:
    """Which of the listing's tables a workload reads."""
    name = key.split(".", 1)[1]
    if name == "huge_commit":
        return "commit"
    return "rows" if name.startswith(("rows_", "engine_")) else "log"
