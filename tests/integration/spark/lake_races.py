"""Races of one operation of ours with one other statement: the operation is held up while the other one commits.

    python -m tests.integration.spark.lake_races sc://… DIRECTORY

runs all of them over Spark Connect and prints what each met, as JSON; on classic Spark the tests call `run_all`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from delta_sidecar import DeltaTable
from delta_sidecar.lake import (
    CommitOptions,
    DeltaMutationPolicy,
    DeltaRetryPolicy,
    DeltaWritePolicy,
    LakePolicy,
    MergeClause,
    WriteOutcome,
    delete,
    ensure_table,
    merge,
    write,
)
from delta_sidecar.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUICK = LakePolicy(
    write=DeltaWritePolicy(target_file_size=None),
    mutation=DeltaMutationPolicy(retry=DeltaRetryPolicy(attempts=4, first_delay=0.01, longest_delay=0.1)),
)
FOLLOW_UP = "INSERT INTO {t} SELECT 100 AS id, 'follow' AS s"
WAIT = 60.0


@dataclass(frozen=True)
class Race:
    """Who loses, against what, with which end."""

    loser: str
    winner: str
    conflict: str | None
    """The condition that the loser meets."""
    end: str
    """The state of the outcome, or the name of the error."""


RACES = {
    "append append": Race("append", FOLLOW_UP, None, "committed"),
    "append feature": Race(
        "append",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')",
        None,
        "committed",
    ),
    "merge vectors": Race(
        "merge", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", None, "committed"
    ),
    "append property": Race(
        "append", "ALTER TABLE {t} SET TBLPROPERTIES ('foo' = 'bar')", "DELTA_METADATA_CHANGED", "committed"
    ),
    "append column": Race(
        "append", "ALTER TABLE {t} ADD COLUMNS (more INT)", "DELTA_METADATA_CHANGED", "TableChangedError"
    ),
    "merge column": Race(
        "merge", "ALTER TABLE {t} ADD COLUMNS (more INT)", "DELTA_METADATA_CHANGED", "TableChangedError"
    ),
    "merge append": Race("merge", FOLLOW_UP, "DELTA_CONCURRENT_APPEND", "committed"),
    "merge merge": Race(
        "merge",
        "MERGE INTO {t} t USING (SELECT 9L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = 'other'",
        "DELTA_CONCURRENT_APPEND",
        "committed",
    ),
    "merge delete": Race("merge", "DELETE FROM {t} WHERE id = 9", "DELTA_CONCURRENT_APPEND", "committed"),
    "merge update": Race("merge", "UPDATE {t} SET s = 'other' WHERE id = 9", "DELTA_CONCURRENT_APPEND", "committed"),
    "merge optimize": Race("merge", "OPTIMIZE {t}", "DELTA_CONCURRENT_APPEND", "committed"),
    "merge overwrite": Race(
        "merge", "INSERT OVERWRITE {t} SELECT 9L AS id, 'all' AS s", "DELTA_CONCURRENT_APPEND", "committed"
    ),
    "delete update": Race("delete", "UPDATE {t} SET s = 'other' WHERE id = 9", "DELTA_CONCURRENT_APPEND", "committed"),
    "delete delete": Race("delete", "DELETE FROM {t} WHERE id = 9", "DELTA_CONCURRENT_APPEND", "committed"),
    "same batch": Race("batch", FOLLOW_UP, "DELTA_CONCURRENT_TRANSACTION", "done already"),
}


class Meeting:
    """Holds an operation up, at its first evaluation, until another statement has been committed."""

    def __init__(self, place: Path) -> None:
        self.begun, self.over = place / "begun", place / "over"

    def _waiting(self) -> Callable[[], None]:
        begun, over = str(self.begun), str(self.over)

        def wait() -> None:
            Path(begun).touch()
            deadline = time.monotonic() + WAIT
            while not Path(over).exists() and time.monotonic() < deadline:
                time.sleep(0.01)

        return wait

    def held_up(self, frame: DataFrame) -> DataFrame:
        """In one task, because the other statement needs one, too."""
        wait = self._waiting()

        def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            wait()
            yield from batches

        return frame.coalesce(1).mapInArrow(passed, frame.schema)

    def condition(self, spark: SparkSession) -> str:
        """A SQL function that is true, once it has waited."""
        wait = self._waiting()

        def held(number: int) -> bool:
            wait()
            return True

        name = f"held_up_{self.begun.parent.name.replace(' ', '_')}"
        spark.udf.register(name, held, "boolean")
        return f"{name}(id)"

    def interfere(self, statement: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT
        while not self.begun.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            statement()
        finally:
            self.over.touch()


def rows(spark: SparkSession, first: int, end: int, text: str = "x") -> DataFrame:
    return spark.range(first, end).selectExpr("id", f"'{text}' AS s")


def lose(spark: SparkSession, table: str, kind: str, meeting: Meeting) -> WriteOutcome:
    """The operation that is held up."""
    calls: list[int] = []

    def source() -> DataFrame:
        calls.append(1)
        return meeting.held_up(rows(spark, 8, 12, "mine"))

    if kind == "append":
        return write(spark, table, source, policy=QUICK)
    if kind == "batch":
        return write(spark, table, source, policy=QUICK, commit=CommitOptions(app_id="loader", batch_id=7))
    if kind == "merge":
        clauses = [MergeClause.update(), MergeClause.insert()]
        return merge(spark, table, source, "t.id = s.id", clauses, policy=QUICK)
    return delete(spark, table, f"id >= 8 AND {meeting.condition(spark)}", policy=QUICK)


def run(spark: SparkSession, place: Path, name: str) -> dict[str, Any]:
    """One race; what the loser met, how it ended, and what is in the table then."""
    race, here = RACES[name], place / name
    here.mkdir(parents=True)
    table = str(here / "table")
    rows(spark, 0, 10).repartition(2).write.format("delta").save(table)
    meeting = Meeting(here)

    def win() -> None:
        if race.loser == "batch":
            options = {"txnAppId": "loader", "txnVersion": "7"}
            rows(spark, 8, 12, "theirs").write.format("delta").mode("append").options(**options).save(table)
        else:
            spark.sql(race.winner.replace("{t}", f"delta.`{table}`")).collect()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(meeting.interfere, win)
        try:
            outcome = lose(spark, table, race.loser, meeting)
            met: dict[str, Any] = {"end": outcome.state, "conflicts": outcome.conflicts, "message": ""}
        except Exception as error:
            met = {"end": type(error).__name__, "conflicts": getattr(error, "conflicts", ()), "message": str(error)}
        finally:
            meeting.begun.touch()
        other.result()
    found = DeltaTable(table).to_pyarrow_table(columns=["id", "s"]).to_pylist()
    return met | {"rows": sorted([row["id"], row["s"]] for row in found)}


def create_at_once(spark: SparkSession, place: Path, creators: int = 4) -> list[bool]:
    """Several creators of one table at the same moment; whether each was the one."""
    table = str(place / "created")
    with ThreadPoolExecutor(creators) as pool:
        begun = [pool.submit(ensure_table, spark, table, "id BIGINT, s STRING", policy=QUICK) for _ in range(creators)]
        return [future.result().created for future in begun]


ALL = "DELTA_SIDECAR_LAKE_RACES" in os.environ
"""Without it, each race is run on one of the two, and one of each class on both."""
CLASSIC = tuple(RACES) if ALL else (
    "append append", "append property", "append column", "merge append", "merge delete", "merge optimize",
    "delete update", "same batch",
)  # fmt: skip
REMOTE = tuple(RACES) if ALL else (
    "append feature", "merge vectors", "append property", "merge column", "merge merge", "merge update",
    "merge overwrite", "delete delete", "same batch",
)  # fmt: skip


def run_all(spark: SparkSession, place: Path, names: Iterable[str]) -> dict[str, Any]:
    return {name: run(spark, place, name) for name in names} | {"create": create_at_once(spark, place)}


def main(address: str, place: Path) -> None:
    with spark_session(address) as spark:
        answer = run_all(spark, place, REMOTE)
        answer["imported"] = sorted(name for name in sys.modules if name.startswith("delta."))
        answer["views"] = len(spark.catalog.listTables())
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
