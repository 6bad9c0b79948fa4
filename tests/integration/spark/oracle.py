"""Spark as the oracle: what our reader gives must be what Spark gives, at every version and for every predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from delta_sidecar import DeltaTable
from tests.integration.same import local_paths, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkTable:
    """A Delta table that Spark writes and both readers read."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root

    @property
    def name(self) -> str:
        return f"delta.`{self.root}`"

    def sql(self, *statements: str) -> SparkTable:
        """Run statements in which `{t}` stands for the table."""
        for statement in statements:
            self.spark.sql(statement.replace("{t}", self.name)).collect()
        return self

    def frame(self, version: int | None = None) -> DataFrame:
        reader = self.spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(str(self.root))

    def views(self) -> list[str]:
        """The views of ours that are left in the session; other tests leave theirs."""
        return [row.viewName for row in self.spark.sql("SHOW VIEWS LIKE 'sidecar_*'").collect()]

    def log_names(self) -> list[str]:
        return sorted(path.name for path in (self.root / "_delta_log").iterdir())

    def check(self, predicates: Sequence[str] = (), rows_at: Iterable[int] = ()) -> DeltaTable:
        """Files are Spark's at every version; rows at the head, at the versions named, and behind each predicate."""
        head = DeltaTable(str(self.root))
        for version in range(head.version()):
            ours, theirs = DeltaTable(str(self.root), version=version), self.frame(version)
            assert sorted(ours.file_uris()) == local_paths(theirs.inputFiles()), f"files at {version}"
            if version in set(rows_at):
                self._check_rows(ours, theirs)
        assert sorted(head.file_uris()) == local_paths(self.frame().inputFiles())
        self._check_rows(head, self.frame())
        for predicate in predicates:
            self._check_predicate(head, predicate)
        return head

    def _check_rows(self, ours: DeltaTable, theirs: DataFrame) -> None:
        found, expected = ours.to_pyarrow_table(), theirs.toArrow()
        assert found.column_names == expected.column_names
        assert sorted_rows(found) == sorted_rows(expected), f"rows at {ours.version()}"

    def _check_predicate(self, ours: DeltaTable, predicate: str) -> None:
        found = sorted_rows(ours.to_pyarrow_table(filters=predicate))
        assert found == sorted_rows(self.frame().where(predicate).toArrow()), predicate


@contextmanager
def with_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """A setting of the session, for the time of a block."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
