"""Ingest beside other writers of the table: it gets through, exactly once, or says why not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from delta_sidecar.errors import ConflictError, InputError, SparkError
from delta_sidecar.index.read.manifests import newest_usable_manifest
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.pipeline import ingest_job as ingesting
from delta_sidecar.pipeline.bucketed_table import bucket_of_arguments
from delta_sidecar.pipeline.conflicts import Kind, RetryPolicy, conflict_of
from delta_sidecar.pipeline.ingest_job import IngestSettings, IngestSummary, ingest, ingest_batch
from delta_sidecar.pipeline.sources import Rows
from delta_sidecar.pipeline.streaming import await_end, ingest_stream
from delta_sidecar.storage import open_store, parse_location
from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = "SELECT timestamp_seconds(1767225600 + id * 600) AS ts, id, 'x' AS s FROM range({0}, {1})"


def events(table: SparkTable, first: int, end: int) -> DataFrame:
    return table.spark.sql(EVENTS.format(first, end))


def ids(table: SparkTable) -> list[int]:
    return sorted(row.id for row in table.frame().select("id").collect())


class Meeting:
    """Holds a write up, once, while it runs, until another statement has been committed."""

    def __init__(self, table: SparkTable, statement: str) -> None:
        self.table, self.statement = table, statement
        self.begun, self.over = table.root.with_name("begun"), table.root.with_name("over")
        self.pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Meeting:
        self.done = self.pool.submit(self.interfere)
        return self

    def __exit__(self, *error: object) -> None:
        self.begun.touch()
        self.done.result()
        self.pool.shutdown()

    def interfere(self) -> None:
        wait_for(self.begun)
        try:
            self.table.sql(self.statement)
        finally:
            self.over.touch()

    def held_up(self, frame: DataFrame) -> DataFrame:
        """The frame, whose first evaluation waits; in one task, because the other statement needs one, too."""
        begun, over = str(self.begun), str(self.over)

        def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            Path(begun).touch()
            for _ in range(2000):
                if Path(over).exists():
                    break
                time.sleep(0.02)
            yield from batches

        return frame.coalesce(1).mapInArrow(wait, frame.schema)


def wait_for(path: Path) -> None:
    for _ in range(2000):
        if path.exists():
            return
        time.sleep(0.02)


@pytest.fixture
def made(table: SparkTable) -> SparkTable:
    """A table with rows 0 to 9, whose columns can be dropped."""
    properties = {"delta.columnMapping.mode": "name"}
    ingest(events(table, 0, 10), table.root, "ts", table_properties=properties)
    return table


def test_first_ingests_that_race_to_create_the_table_all_succeed(table: SparkTable) -> None:
    barrier = threading.Barrier(3)

    def first(number: int) -> IngestSummary:
        frame = events(table, number * 10, number * 10 + 10)
        barrier.wait()
        return ingest(frame, table.root, "ts")

    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(first, range(3)))
    assert [summary.rows for summary in done] == [10, 10, 10]
    assert sorted(summary.version for summary in done) == [1, 2, 3]
    assert ids(table) == list(range(30))


def test_a_log_that_a_dead_writer_left_without_a_commit_is_finished(table: SparkTable) -> None:
    """SQL takes the empty directory for the table, and creates nothing."""
    (table.root / "_delta_log" / "_staged_commits").mkdir(parents=True)
    frame = events(table, 0, 10).selectExpr("*", "named_struct('a b', id, 'c', array(s)) AS `odd name`")
    properties = {"delta.checkpointInterval": "7", "team": "it's us"}
    done = ingest(frame, table.root, "ts", table_properties=properties)
    assert done.rows == 10
    known = load_snapshot(open_store(table.root)).metadata.properties
    assert known.items() >= {**properties, "delta.columnMapping.mode": "name"}.items()
    assert ingest(events(table, 10, 20), table.root, "ts").rows == 10
    assert ids(table) == list(range(20))
    table.check()


def test_a_place_that_is_taken_by_no_table_is_tried_again_a_few_times(
    table: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A creator makes the directory first and commits later; files that are no table's stay what they are."""
    refusals: list[str] = []
    real = ingesting.create_table

    def taken(times: int) -> Callable[..., None]:
        def create(*given: Any) -> None:
            if len(refusals) < times:
                refusals.append("taken")
                raise SparkError("[DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION] not empty, and not a Delta table")
            real(*given)

        return create

    monkeypatch.setattr(ingesting, "create_table", taken(2))
    assert ingest(events(table, 0, 10), table.root, "ts").rows == 10
    monkeypatch.setattr(ingesting, "create_table", taken(99))
    with pytest.raises(SparkError, match="not empty"):
        ingest(events(table, 0, 10), table.root.with_name("other"), "ts")
    assert len(refusals) == 2 + 4


def test_a_table_that_is_made_meanwhile_with_other_columns_is_met_as_it_is(
    table: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ingesting.create_table

    def slow(*given: Any) -> None:
        monkeypatch.setattr(ingesting, "create_table", real)
        ingest(events(table, 0, 5).drop("s"), table.root, "ts")
        real(*given)

    monkeypatch.setattr(ingesting, "create_table", slow)
    with pytest.raises(InputError, match="the contract lacks: s"):
        ingest(events(table, 5, 10), table.root, "ts")
    monkeypatch.setattr(ingesting, "create_table", slow)
    ingest(events(table, 5, 10), table.root, "ts", merge_schema=True)
    assert ids(table) == list(range(10))


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {t} SET TBLPROPERTIES ('some' = 'property')",
        "ALTER TABLE {t} ADD COLUMNS (more INT)",
    ],
)
def test_a_batch_survives_a_change_of_the_tables_metadata(made: SparkTable, statement: str) -> None:
    told: list[str] = []
    with Meeting(made, statement) as meeting:
        frame = meeting.held_up(events(made, 10, 20))
        done = ingest(frame, made.root, "ts", target_file_size=None, on_progress=told.append)
    assert (done.rows, done.version) == (10, 3)
    assert "another writer changed the schema or a property of the table (DELTA_METADATA_CHANGED)" in " ".join(told)
    assert ids(made) == list(range(20))


def test_a_batch_that_no_longer_fits_is_refused_by_name(made: SparkTable) -> None:
    with (
        Meeting(made, "ALTER TABLE {t} DROP COLUMN s") as meeting,
        pytest.raises(InputError, match="the contract lacks: s"),
    ):
        ingest(meeting.held_up(events(made, 10, 20)), made.root, "ts", target_file_size=None)
    assert ids(made) == list(range(10))


def test_without_our_retry_the_same_change_is_a_conflict(made: SparkTable) -> None:
    with Meeting(made, "ALTER TABLE {t} SET TBLPROPERTIES ('some' = 'property')") as meeting:
        frame = meeting.held_up(events(made, 10, 20))
        with pytest.raises(Exception) as caught:
            frame.write.format("delta").mode("append").save(str(made.root))
    conflict = conflict_of(caught.value)
    assert conflict is not None
    assert conflict.kind is Kind.METADATA


def test_a_stream_survives_a_change_of_the_tables_metadata(made: SparkTable) -> None:
    landing = made.root.with_name("landing")
    events(made, 10, 20).write.json(str(landing))
    source = made.spark.readStream.schema("ts TIMESTAMP, id BIGINT, s STRING").json(str(landing))
    done: list[IngestSummary] = []
    with Meeting(made, "ALTER TABLE {t} SET TBLPROPERTIES ('some' = 'property')") as meeting:
        checkpoint = made.root.with_name("checkpoint")
        frame = meeting.held_up(source)
        await_end(ingest_stream(frame, made.root, "ts", checkpoint, target_file_size=None, on_batch=done.append))
    assert [summary.rows for summary in done] == [10]
    assert ids(made) == list(range(20))


def test_the_same_batch_twice_at_once_is_added_once(made: SparkTable) -> None:
    barrier = threading.Barrier(2)

    def same(number: int) -> IngestSummary:
        barrier.wait()
        return ingest(events(made, 10, 20), made.root, "ts", app_id="loader", batch_id=1)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(same, range(2)))
    assert sorted(summary.skipped_as_replayed for summary in done) == [False, True]
    assert ids(made) == list(range(20))


def test_writers_that_add_columns_at_once_both_succeed(made: SparkTable) -> None:
    barrier = threading.Barrier(2)

    def widen(number: int) -> IngestSummary:
        frame = events(made, 10 * number, 10 * number + 10).selectExpr("*", f"id AS extra{number}")
        barrier.wait()
        return ingest(frame, made.root, "ts", merge_schema=True)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(widen, (1, 2)))
    assert [summary.rows for summary in done] == [10, 10]
    assert ids(made) == list(range(30))
    rows = made.frame().where("extra1 IS NOT NULL OR extra2 IS NOT NULL").count()
    assert rows == 20


def failing_after(write: Callable[..., bool], error: Exception) -> Callable[..., bool]:
    def written(*given: Any) -> bool:
        write(*given)
        raise error

    return written


def test_a_commit_that_was_made_although_it_failed_is_not_made_again(
    made: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (SparkError("the connection was lost"), SparkError("[DELTA_CONCURRENT_WRITE] by ourselves")):
        with monkeypatch.context() as patched:
            patched.setattr(ingesting, "_write", failing_after(ingesting._write, error))
            done = ingest(events(made, 10, 20), made.root, "ts")
        assert done.rows == 10
        assert not done.skipped_as_replayed
    assert ids(made) == sorted([*range(10), *range(10, 20), *range(10, 20)])


def test_attempts_are_bounded_and_user_errors_are_not_tried_again(
    made: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    def lost(*given: Any) -> bool:
        attempts.append("lost")
        raise SparkError("[DELTA_METADATA_CHANGED] again")

    settings = IngestSettings(
        table=parse_location(made.root).text,
        bucket=bucket_of_arguments("ts", "hour", None),
        target_file_size=None,
        time_column="ts",
        index="never",
        retry=RetryPolicy(3, sleep=lambda seconds: None),
    )
    with monkeypatch.context() as patched:
        patched.setattr(ingesting, "_write", lost)
        with pytest.raises(ConflictError, match="at each of 3 attempts"):
            ingest_batch(made.spark, Rows.of(events(made, 10, 20), "events"), settings, None)
    assert len(attempts) == 3
    assert ids(made) == list(range(10))


def test_a_checkpoint_of_another_writer_gets_its_index_from_the_next_batch(table: SparkTable) -> None:
    first = ingest(events(table, 0, 10), table.root, "ts", table_properties={"delta.checkpointInterval": "3"})
    assert not first.indexed
    for number in (10, 20):
        events(table, number, number + 10).write.format("delta").mode("append").save(str(table.root))
    done = ingest(events(table, 30, 40), table.root, "ts")
    assert (done.version, done.indexed) == (4, True)
    found, _ = newest_usable_manifest(load_snapshot(open_store(table.root)))
    assert found is not None
    assert found.manifest.version == 3
    again = ingest(events(table, 40, 50), table.root, "ts")
    assert (again.version, again.indexed) == (5, False)
