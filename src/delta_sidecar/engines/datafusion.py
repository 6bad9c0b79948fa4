"""A table in a session of DataFusion, and deltalake's way to ask it in SQL.

DataFusion takes one directory or one file for its own Parquet scanner, never a list, so the dataset serves it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar.engines.engine_plan import EngineReading, Refusals, RowCondition, choose_way
from delta_sidecar.engines.extras import imported
from delta_sidecar.errors import InputError
from delta_sidecar.table_access import TableAccess

if TYPE_CHECKING:
    from delta_sidecar.table import DeltaTable
    from delta_sidecar.table_access import Predicate


_SETTINGS = {"datafusion.sql_parser.enable_ident_normalization": "false"}
"""Names in SQL keep their case, as in `deltalake`."""


class _Threads:
    """The process whose threads DataFusion runs on: a fork of it has none of them, and a query there never ends."""

    process: int | None = None

    @classmethod
    def check(cls) -> None:
        """Refuse a forked process; the first one that asks has the threads."""
        cls.process = cls.process or os.getpid()
        if cls.process != os.getpid():
            raise InputError(
                "DataFusion was used before this process was forked, and its threads do not exist here; "
                "start processes with multiprocessing.get_context('spawn') or 'forkserver'"
            )


def to_datafusion(
    table: DeltaTable,
    context: Any,
    name: str,
    predicate: Predicate | None = None,
    columns: Sequence[str] | None = None,
    file_column: str | None = None,
) -> None:
    """Register a table under a name; one of that name is replaced."""
    module = imported("datafusion")
    from delta_sidecar.engines.datafusion_dataset import DataFusionDataset

    _Threads.check()
    if not isinstance(getattr(table, "_access", None), TableAccess):
        raise InputError(
            f"a {type(table).__name__} is not a delta_sidecar.DeltaTable; register other data on a "
            "datafusion.SessionContext, and this table beside it with to_datafusion(ctx, name)"
        )
    if not isinstance(context, module.SessionContext):
        raise InputError(f"ctx is a {type(context).__name__}; it takes a datafusion.SessionContext")
    dataset = DataFusionDataset.of(RowCondition.of(table, predicate).dataset(table, columns, file_column))
    if context.table_exist(name):
        context.deregister_table(name)
    context.register_dataset(name, dataset)


def datafusion_reading(
    table: DeltaTable, predicate: Predicate | None, columns: Sequence[str] | None, way: str
) -> EngineReading:
    """How DataFusion reads the table; nothing is listed for it."""
    no_files = "DataFusion has no public scan of a list of files"
    refusals = Refusals(by_request=lambda request: no_files, keeps_empty_names=True)
    return choose_way(table, "datafusion", refusals, predicate, columns, way)


class QueryBuilder:
    """Queries tables in SQL, with DataFusion. It has the methods of `deltalake.QueryBuilder`.

    Args:
        session_config: Settings of DataFusion, such as `{"datafusion.execution.batch_size": "1024"}`.

    Names in SQL keep their case. A forked process cannot query if its parent has already done so: use `spawn`.

    Raises:
        InputError: DataFusion is not installed, or was used before this process was forked.

    Example:
        >>> from delta_sidecar import DeltaTable, QueryBuilder
        >>> hours = QueryBuilder().register("events", DeltaTable("events"))
        >>> hours.execute("SELECT count(*) AS n FROM events").read_all().to_pylist()
        [{'n': 8}]
    """

    def __init__(self, session_config: Mapping[str, str] | None = None) -> None:
        module = imported("datafusion")
        self._context = module.SessionContext(module.SessionConfig(_SETTINGS | dict(session_config or {})))

    def register(self, table_name: str, delta_table: DeltaTable) -> QueryBuilder:
        """Give a table a name for later queries; a table of that name is replaced."""
        to_datafusion(delta_table, self._context, table_name)
        return self

    def execute(self, sql: str) -> pa.RecordBatchReader:
        """The result of a query, as a stream."""
        _Threads.check()
        return pa.RecordBatchReader.from_stream(self._context.sql(sql))
