"""Every way to ask a table that needs no Spark: conditions and queries of `query_questions` in, rows out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import duckdb
import polars as pl
import pyarrow as pa
from datafusion import SessionContext

from delta_sidecar import DeltaTable, QueryBuilder
from tests.engines.reading import arrow
from tests.integration.spark.query_questions import CONDITIONS, Condition, Meaning, Query


class Way(ABC):
    """A way to ask one table."""

    meaning: Meaning

    def __init__(self, table: DeltaTable, way: str = "auto") -> None:
        self.table = table
        self.way = way

    @abstractmethod
    def rows(self, condition: Condition) -> pa.Table:
        """All columns of the rows that a condition is true of."""

    @abstractmethod
    def answer(self, query: Query) -> pa.Table:
        """What a query gives."""


def written(query: Query, rows: str, whole: str) -> str:
    """A query as SQL, of tables of these names."""
    limit = "" if query.limit is None else f" LIMIT {query.limit}"
    return query.sql.format(t=rows, whole=whole) + limit


def chosen(condition: str, whole: str) -> str:
    """The rows that a condition is true of, as a table of a query."""
    return f"(SELECT * FROM {whole} WHERE {condition})"


class DuckDBSql(Way):
    """Conditions in DuckDB's own SQL. The zone of its session is not Spark's."""

    meaning = "spark"

    def __init__(self, table: DeltaTable, way: str = "auto") -> None:
        super().__init__(table, way)
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'America/Los_Angeles'")
        table.to_duckdb(self.connection, way=way).create_view("whole")

    def rows(self, condition: Condition) -> pa.Table:
        return self._asked(f"SELECT * FROM whole WHERE {condition.in_duckdb}")

    def answer(self, query: Query) -> pa.Table:
        rows = chosen(CONDITIONS[query.condition].in_duckdb, "whole")
        return self._asked(written(query, rows, "whole"))

    def _asked(self, sql: str) -> pa.Table:
        return arrow(self.connection.sql(sql))


class DuckDBPredicate(DuckDBSql):
    """Conditions as `predicate=` of `to_duckdb`."""

    meaning = "predicate"

    def rows(self, condition: Condition) -> pa.Table:
        return arrow(self.table.to_duckdb(self.connection, condition.predicate, way=self.way))

    def answer(self, query: Query) -> pa.Table:
        chosen = self.table.to_duckdb(self.connection, CONDITIONS[query.condition].predicate, way=self.way)
        chosen.create_view("chosen", replace=True)
        return self._asked(written(query, "chosen", "whole"))


class PolarsPredicate(Way):
    """Conditions as `predicate=` of `to_polars`."""

    meaning = "predicate"

    def rows(self, condition: Condition) -> pa.Table:
        return self._frame(condition.predicate).collect().to_arrow()

    def answer(self, query: Query) -> pa.Table:
        chosen = self._frame(CONDITIONS[query.condition].predicate)
        context = pl.SQLContext(chosen=chosen, whole=self._frame(None))
        return context.execute(written(query, "chosen", "whole"), eager=True).to_arrow()

    def _frame(self, predicate: str | None) -> pl.LazyFrame:
        return self.table.to_polars(predicate, way=self.way)


class DataFusionSql(Way):
    """Conditions in DataFusion's own SQL, by `QueryBuilder`."""

    meaning = "datafusion"

    def __init__(self, table: DeltaTable, way: str = "auto") -> None:
        super().__init__(table, way)
        self.builder = QueryBuilder().register("whole", table)

    def rows(self, condition: Condition) -> pa.Table:
        return self.builder.execute(f"SELECT * FROM whole WHERE {condition.in_datafusion}").read_all()

    def answer(self, query: Query) -> pa.Table:
        rows = chosen(CONDITIONS[query.condition].in_datafusion, "whole")
        return self.builder.execute(written(query, rows, "whole")).read_all()


class DataFusionPredicate(Way):
    """Conditions as `predicate=` of `to_datafusion`."""

    meaning = "predicate"

    def rows(self, condition: Condition) -> pa.Table:
        return self._context(condition).sql("SELECT * FROM chosen").to_arrow_table()

    def answer(self, query: Query) -> pa.Table:
        context = self._context(CONDITIONS[query.condition])
        self.table.to_datafusion(context, "whole")
        return context.sql(written(query, "chosen", "whole")).to_arrow_table()

    def _context(self, condition: Condition) -> SessionContext:
        context = SessionContext()
        self.table.to_datafusion(context, "chosen", condition.predicate)
        return context


class ArrowDataset(Way):
    """Conditions as filters of the pyarrow dataset."""

    meaning = "arrow"

    def __init__(self, table: DeltaTable, way: str = "auto") -> None:
        super().__init__(table, way)
        self.dataset = table.to_pyarrow_dataset()

    def rows(self, condition: Condition) -> pa.Table:
        return self.dataset.to_table(filter=condition.arrow)

    def answer(self, query: Query) -> pa.Table:
        return query.arrow(self.dataset, CONDITIONS[query.condition].arrow)


WAYS: Final[dict[str, tuple[Callable[[DeltaTable, str], Way], str]]] = {
    "duckdb files": (DuckDBPredicate, "files"),
    "duckdb files, own SQL": (DuckDBSql, "files"),
    "duckdb dataset": (DuckDBPredicate, "dataset"),
    "duckdb dataset, own SQL": (DuckDBSql, "dataset"),
    "polars files": (PolarsPredicate, "files"),
    "polars dataset": (PolarsPredicate, "dataset"),
    "datafusion": (DataFusionPredicate, "dataset"),
    "datafusion, own SQL": (DataFusionSql, "dataset"),
    "pyarrow": (ArrowDataset, "dataset"),
}
SHARED_OUT: Final = ("polars dataset", "datafusion")
"""Ways that differ little from others: each question is asked of one table only."""
