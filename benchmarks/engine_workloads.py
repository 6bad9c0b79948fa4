"""What engines are asked: one hour of a table, and the rows of a table of 1 GB, here and by deltalake's own ways.

`files` hands the engine's own Parquet scanner our list, `dataset` our rows; `deltalake` is the best public way to the
same answer with deltalake in that engine: in DuckDB its list of files by partition, in Polars `scan_delta`, in
DataFusion `QueryBuilder`. `alone` is the engine over the same files, found without a table: no way can take less.
Libraries and our own modules are imported before the clock starts, and DuckDB is connected, for all alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.specs import BUCKET, EngineSpec, RowsSpec, Spec
from benchmarks.synthetic import record_counts
from benchmarks.workloads import UNCLUSTERED_PREDICATE, Answer, Workload, prepare_ours

OURS = (
    "delta_sidecar.engines.dataset",
    "delta_sidecar.engines.datafusion",
    "delta_sidecar.engines.duckdb",
    "delta_sidecar.engines.engine_plan",
    "delta_sidecar.engines.polars",
    "delta_sidecar.engines.polars_expr",
    "delta_sidecar.data.row_scan",
)
ENGINES = ("duckdb", "polars", "datafusion")


def prepare(engine: str, ours: bool) -> Callable[[], None]:
    """Import an engine, and our modules or deltalake."""

    def load() -> None:
        import_module(engine)
        import_module("pyarrow.dataset")
        if engine == "duckdb":
            _connection()
        if ours:
            prepare_ours()
            for module in OURS:
                import_module(module)
        else:
            import_module("deltalake")

    return load


def _table(table: Path) -> Any:
    from delta_sidecar import DeltaTable

    return DeltaTable(str(table))


def _deltalake(table: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(table))


@cache
def _connection() -> Any:
    import duckdb

    return duckdb.connect()


def since(spec: EngineSpec) -> str:
    """The last hour, by the time column."""
    return f"ts >= '{spec.indexed.log.last_hour_begins}'"


def duckdb_hour(way: str) -> Callable[[Path, EngineSpec], Answer]:
    """Count the hour's rows and sum a measure."""

    def run(table: Path, spec: EngineSpec) -> Answer:
        hour = _table(table).to_duckdb(_connection(), since(spec), way=way)
        return Answer(hour.aggregate("count(*), sum(m0)").fetchall()[0][0])

    return run


def duckdb_hour_deltalake(table: Path, spec: EngineSpec) -> Answer:
    """deltalake's list of the hour's files, in DuckDB's scanner."""
    return _in_duckdb(
        _deltalake(table).file_uris(file_pruning_predicate=[(BUCKET, "=", spec.indexed.log.last_hour)]), spec
    )


def duckdb_hour_alone(table: Path, spec: EngineSpec) -> Answer:
    """DuckDB over the hour's directory."""
    return _in_duckdb(_hour_files(table, spec), spec)


def _in_duckdb(files: list[str], spec: EngineSpec) -> Answer:
    begins = f"TIMESTAMPTZ '{spec.indexed.log.last_hour_begins}'"
    sql = f"SELECT count(*), sum(m0) FROM read_parquet($files) WHERE ts >= {begins}"
    return Answer(_connection().execute(sql, {"files": files}).fetchall()[0][0])


def _hour_files(table: Path, spec: EngineSpec) -> list[str]:
    return [str(path) for path in sorted((table / f"{BUCKET}={spec.indexed.log.last_hour}").iterdir())]


def polars_hour(way: str) -> Callable[[Path, EngineSpec], Answer]:
    """Count the hour's rows and sum a measure."""

    def run(table: Path, spec: EngineSpec) -> Answer:
        import polars as pl

        hour = _table(table).to_polars(since(spec), way=way)
        return Answer(hour.select(pl.len(), pl.col("m0").sum()).collect().row(0)[0])

    return run


def polars_hour_deltalake(table: Path, spec: EngineSpec) -> Answer:
    """`scan_delta`, with the bucket and the time in the filter."""
    from datetime import datetime

    import polars as pl

    begins = datetime.fromisoformat(spec.indexed.log.last_hour_begins)
    hour = pl.scan_delta(str(table)).filter(pl.col(BUCKET) == spec.indexed.log.last_hour, pl.col("ts") >= begins)
    return Answer(hour.select(pl.len(), pl.col("m0").sum()).collect().row(0)[0])


def polars_hour_alone(table: Path, spec: EngineSpec) -> Answer:
    """Polars over the hour's directory."""
    from datetime import datetime

    import polars as pl

    begins = datetime.fromisoformat(spec.indexed.log.last_hour_begins)
    hour = pl.scan_parquet(_hour_files(table, spec), glob=False, hive_partitioning=False).filter(pl.col("ts") >= begins)
    return Answer(hour.select(pl.len(), pl.col("m0").sum()).collect().row(0)[0])


def datafusion_hour(table: Path, spec: EngineSpec) -> Answer:
    """Our `QueryBuilder`: DataFusion's own filter prunes."""
    from delta_sidecar import QueryBuilder

    return Answer(_asked(QueryBuilder().register("t", _table(table)), spec, ""))


def datafusion_hour_deltalake(table: Path, spec: EngineSpec) -> Answer:
    """deltalake's `QueryBuilder`, with the bucket in the condition, too."""
    from deltalake import QueryBuilder

    bucket = f" AND {BUCKET} = '{spec.indexed.log.last_hour}'"
    return Answer(_asked(QueryBuilder().register("t", _deltalake(table)), spec, bucket))


def _asked(builder: Any, spec: EngineSpec, more: str) -> int:
    import pyarrow as pa

    sql = f"SELECT count(*) AS n, sum(m0) FROM t WHERE ts >= TIMESTAMP '{spec.indexed.log.last_hour_begins}'{more}"
    found: int = pa.table(builder.execute(sql)).column("n")[0].as_py()
    return found


ROWS = {
    "all": None,
    "clustered": "",
    "unclustered": UNCLUSTERED_PREDICATE,
}
"""The predicates of the rows benchmark; the clustered range is the spec's."""


def _predicate(name: str, spec: RowsSpec) -> str | None:
    first, past = spec.clustered_range
    return f"id >= {first} AND id < {past}" if name == "clustered" else ROWS[name]


def duckdb_rows(name: str) -> Callable[[Path, RowsSpec], Answer]:
    """Every column of the rows, out of DuckDB as Arrow batches."""

    def run(table: Path, spec: RowsSpec) -> Answer:
        import pyarrow as pa

        found = _table(table).to_duckdb(_connection(), _predicate(name, spec))
        return Answer(sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(found)))

    return run


def datafusion_rows(name: str) -> Callable[[Path, RowsSpec], Answer]:
    """Every column of the rows, out of DataFusion as Arrow batches."""

    def run(table: Path, spec: RowsSpec) -> Answer:
        from delta_sidecar import QueryBuilder

        condition = _predicate(name, spec)
        sql = "SELECT * FROM t" + (f" WHERE {condition}" if condition else "")
        reader = QueryBuilder().register("t", _table(table)).execute(sql)
        return Answer(sum(batch.num_rows for batch in reader))

    return run


def deltalake_rows(name: str) -> Callable[[Path, RowsSpec], Answer]:
    """The same rows out of deltalake's own engine."""

    def run(table: Path, spec: RowsSpec) -> Answer:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_stream(_deltalake(table).scan(predicate=_predicate(name, spec)))
        return Answer(sum(batch.num_rows for batch in reader))

    return run


def _is_the_hour(count: int, spec: Spec) -> bool:
    import numpy as np

    if not isinstance(spec, EngineSpec):
        return False
    return count == int(record_counts(np.arange(spec.hour.start, spec.hour.stop)).sum())


def _is_of(name: str) -> Callable[[int, Spec], bool]:
    share = 1 if name == "all" else 100

    def right(count: int, spec: Spec) -> bool:
        return isinstance(spec, RowsSpec) and 0.8 < count * share / spec.rows < 1.2

    return right


WORKLOADS = {
    f"{workload.reader}.{workload.name}": workload
    for workload in (
        Workload("duckdb_hour_files", "ours", prepare("duckdb", True), duckdb_hour("files"), _is_the_hour),
        Workload("duckdb_hour", "alone", prepare("duckdb", False), duckdb_hour_alone, _is_the_hour),
        Workload("polars_hour", "alone", prepare("polars", False), polars_hour_alone, _is_the_hour),
        Workload("duckdb_hour_dataset", "ours", prepare("duckdb", True), duckdb_hour("dataset"), _is_the_hour),
        Workload("duckdb_hour", "deltalake", prepare("duckdb", False), duckdb_hour_deltalake, _is_the_hour),
        Workload("polars_hour_files", "ours", prepare("polars", True), polars_hour("files"), _is_the_hour),
        Workload("polars_hour_dataset", "ours", prepare("polars", True), polars_hour("dataset"), _is_the_hour),
        Workload("polars_hour", "deltalake", prepare("polars", False), polars_hour_deltalake, _is_the_hour),
        Workload("datafusion_hour_dataset", "ours", prepare("datafusion", True), datafusion_hour, _is_the_hour),
        Workload("datafusion_hour", "deltalake", prepare("datafusion", False), datafusion_hour_deltalake, _is_the_hour),
        *(
            workload
            for name in ROWS
            for workload in (
                Workload(f"duckdb_rows_{name}", "ours", prepare("duckdb", True), duckdb_rows(name), _is_of(name)),
                Workload(
                    f"datafusion_rows_{name}", "ours", prepare("datafusion", True), datafusion_rows(name), _is_of(name)
                ),
                Workload(
                    f"engine_rows_{name}", "deltalake", prepare("pyarrow", False), deltalake_rows(name), _is_of(name)
                ),
            )
        ),
    )
}
