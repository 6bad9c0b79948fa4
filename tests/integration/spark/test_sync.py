"""A target that follows a source on real Spark: after random histories, in random steps, by every strategy, and after
a run that died between any two steps."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar import (
    CursorError,
    DeltaSidecarError,
    DeltaTable,
    DuplicateKeyError,
    FeedStartsLaterError,
    InputError,
    NoChangeFeedError,
    OptionError,
    OtherTableError,
    SchemaChangedError,
    TableNotFoundError,
    UnknownColumnError,
    VersionAfterLatestError,
    VersionRangeError,
)
from delta_sidecar.lake import CdfCursorStore, CdfReadOptions, ChangeFilter, apply_changes, read_changes, sync, sync_job
from tests.integration.spark.oracle import SparkTable, with_setting

FEED = "'delta.enableChangeDataFeed' = 'true'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
CREATE = "CREATE TABLE {t} (id BIGINT, part STRING, note STRING, s STRUCT<a: INT>) USING delta"
ROWS = "SELECT id, concat('p', id % 3), concat('n', id), struct(CAST(id AS INT)) FROM range({low}, {high})"
COLUMNS = "(id, part, note, s)"
STEPS = {
    "insert": "INSERT INTO {t} (id, part, note) SELECT id, 'p1', 'in' FROM range({low}, {high})",
    "insert a null key": f"INSERT INTO {{t}} {COLUMNS} SELECT NULL, 'p1', 'null', NULL "
    "WHERE NOT EXISTS (SELECT 1 FROM {t} WHERE id IS NULL)",
    "delete": "DELETE FROM {t} WHERE id % {n} = 0",
    "delete null": "DELETE FROM {t} WHERE id IS NULL",
    "update": "UPDATE {t} SET note = concat(note, 'x'), part = 'p{n}' WHERE id % {n} = 1",
    "update the key": "UPDATE {t} SET id = id + {low} WHERE id % {n} = 1",
    "swap keys": "MERGE INTO {t} t USING (SELECT a.id, b.id AS other FROM {t} a JOIN {t} b "
    "ON b.id = a.id + CASE WHEN a.id % 2 = 0 THEN 1 ELSE -1 END) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET id = s.other",
    "merge": "MERGE INTO {t} t USING (SELECT id * 3 AS id FROM range(40)) s ON t.id = s.id "
    "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'm', id = -t.id - {low} "
    "WHEN NOT MATCHED THEN INSERT (id, part, note) VALUES (s.id, 'p1', 'new')",
    "overwrite": f"INSERT OVERWRITE {{t}} {COLUMNS} SELECT id, 'p7', 'over', NULL FROM range({{n}}, {{n}} + 25)",
    "optimize": "OPTIMIZE {t}",
    "add a column": "ALTER TABLE {t} ADD COLUMNS (c{low} INT)",
    "add a nested column": "ALTER TABLE {t} ADD COLUMNS (s.c{low} INT)",
    "restore": "RESTORE TABLE {t} TO VERSION AS OF {version}",
    "switch vectors": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{flag}')",
}
USUAL = ["update the key", "merge", "add a column", "insert a null key", "overwrite", "delete"]
CASES = int(os.environ.get("DELTA_SIDECAR_SYNC_CASES", "0"))
"""Histories of a dozen random steps to try in addition."""


def source(table: SparkTable, *properties: str, partitioned: str = "", rows: int = 20) -> SparkTable:
    table.sql(f"{CREATE}{partitioned} TBLPROPERTIES ({', '.join([FEED, *properties])})")
    return table.sql(f"INSERT INTO {{t}} {ROWS.format(low=0, high=rows)}")


def rows(table: Path, columns: list[str] | None = None) -> Counter[str]:
    found = DeltaTable(table).to_pyarrow_table(columns=columns)
    return Counter(map(repr, found.to_pylist()))


def assert_same(source: SparkTable, target: Path) -> None:
    columns = DeltaTable(source.root).schema().names
    assert sorted(DeltaTable(target).schema().names) == sorted(columns)
    found, expected = rows(target, columns), rows(source.root, columns)
    assert found == expected, (found - expected, expected - found)


def inserted(source: SparkTable, first: int, target: Path) -> None:
    """What `append` by inserts makes: the rows of the first version, and all that were inserted since."""
    columns = DeltaTable(source.root).schema().names
    expected = rows_at(source, first, columns)
    if DeltaTable(source.root).version() > first:
        later = DeltaTable(source.root).changes(first + 1, None, columns, "_change_type = 'insert'")
        expected += Counter(map(repr, pa.table(later).to_pylist()))
    assert rows(target, columns) == expected


def rows_at(source: SparkTable, version: int, columns: list[str]) -> Counter[str]:
    """Columns, and fields of structs, that came later hold nothing."""
    old, new = DeltaTable(source.root, version).to_pyarrow_table(), DeltaTable(source.root).schema().to_arrow()
    found = [{name: filled(row.get(name), new.field(name).type) for name in columns} for row in old.to_pylist()]
    return Counter(map(repr, found))


def filled(value: Any, kind: pa.DataType) -> Any:
    if value is None or not pa.types.is_struct(kind):
        return value
    return {field.name: filled(value.get(field.name), field.type) for field in kind}


def check_history(table: SparkTable, names: list[str], random: Random, sync_every: float) -> None:
    properties = random.choice([[VECTORS], []])
    source(table, *properties, partitioned=random.choice(["", " PARTITIONED BY (part)"]))
    targets = {name: table.root.parent / name for name in ("upsert", "append", "replace")}
    first, since = DeltaTable(table.root).version(), 1

    def bring_up(strategy: str) -> None:
        given: dict[str, Any] = {"upsert": {"key": ["id"]}, "append": {"change_filter": "inserts_only"}, "replace": {}}
        most = random.choice([None, 1, 2, 5])
        report = sync(
            table.spark, table.root, targets[strategy], strategy=strategy, max_versions=most, **given[strategy]
        )
        assert report.is_current

    for strategy in targets:
        bring_up(strategy)
    for number, name in enumerate(names):
        version = DeltaTable(table.root).version()
        step = STEPS[name].format(
            t="{t}", n=random.randint(2, 4), low=1000 * (number + 1), high=1000 * (number + 1) + random.randint(1, 9),
            version=random.randint(since, version), flag=random.choice(["true", "false"]),
        )  # fmt: skip
        table.sql(step)
        # Spark restores neither columns that are gone nor, once they are switched off, vectors.
        since = version + 1 if "column" in name or "switch" in name else since
        if random.random() < sync_every:
            bring_up("upsert")
    for strategy in targets:
        bring_up(strategy)
    assert_same(table, targets["upsert"])
    assert_same(table, targets["replace"])
    inserted(table, first, targets["append"])
    for target in targets.values():
        assert DeltaTable(target).metadata().partition_columns == DeltaTable(table.root).metadata().partition_columns


@pytest.mark.parametrize("case", ["usual", *range(CASES)])
def test_a_target_is_what_its_source_is(table: SparkTable, case: str | int) -> None:
    random = Random(f"sync: {case}")
    if isinstance(case, str):
        check_history(table, USUAL, random, 0.3)
    else:
        check_history(table, random.choices(list(STEPS), k=12), random, 0.4)


@pytest.mark.long
def test_a_field_of_a_struct_that_came_later_is_not_there_earlier(table: SparkTable, tmp_path: Path) -> None:
    """Spark's feed has the fields of the newest version, also for ranges that end before."""
    source(table, rows=3)
    target = tmp_path / "copy"
    sync(table.spark, table.root, target, key=["id"])
    table.sql(
        "UPDATE {t} SET note = 'x' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        "ALTER TABLE {t} ADD COLUMNS (s.later INT)",
        "UPDATE {t} SET s = named_struct('a', 7, 'later', 8) WHERE id = 0",
    )
    early = read_changes(table.spark, table.root, CdfReadOptions(start_version=2, end_version=2)).frame
    assert early.schema["s"].dataType.simpleString() == "struct<a:int>"
    sync(table.spark, table.root, target, key=["id"], max_versions=1)
    assert_same(table, target)


class Died(BaseException):
    """Stands for a process that is gone: nothing catches it."""


def dying(step: Callable[..., Any], after: bool) -> Callable[..., Any]:
    def step_that_dies(*given: Any, **more: Any) -> Any:
        if after:
            step(*given, **more)
        raise Died

    return step_that_dies


def test_a_run_that_died_is_repeated_once_more_and_no_more(
    table: SparkTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of: plan, read, merge, move. `append` would show a row that comes twice."""
    source(table, rows=6)
    target = tmp_path / "copy"
    points: list[tuple[Any, str, bool]] = [
        (CdfCursorStore, "plan", True), (sync_job, "applied", False), (sync_job, "applied", True),
        (CdfCursorStore, "advance", True),
    ]  # fmt: skip
    for number in range(2):
        for place, name, after in points:
            with monkeypatch.context() as patch:
                patch.setattr(place, name, dying(getattr(place, name), after))
                with pytest.raises(Died):
                    sync(table.spark, table.root, target, strategy="append")
        # What comes while it lies dead is not in the step that was begun.
        table.sql(f"INSERT INTO {{t}} {ROWS.format(low=100 * number + 100, high=100 * number + 103)}")
    (last,) = sync(table.spark, table.root, target, strategy="append").steps
    assert last.kind == "changes"
    assert sync(table.spark, table.root, target, strategy="append").steps == ()
    assert_same(table, target)
    assert table.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None
    table.sql(
        f"INSERT INTO {{t}} {ROWS.format(low=900, high=902)}", f"INSERT INTO {{t}} {ROWS.format(low=950, high=952)}"
    )
    with ThreadPoolExecutor(2) as both:
        given = {"strategy": "append", "max_versions": 1}
        twice = [both.submit(sync, table.spark, table.root, target, **given) for _ in range(2)]
        assert all(each.result().version == DeltaTable(table.root).version() for each in twice)
    assert_same(table, target)
    (target / "_sidecar_state" / "cursors" / "table.cursor.json").unlink()
    (found,) = sync(table.spark, table.root, target, strategy="append").steps
    assert (found.kind, found.end) == ("recovered", DeltaTable(table.root).version())
    assert_same(table, target)


def test_a_merge_is_made_once(table: SparkTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(table, rows=6)
    target = tmp_path / "copy"
    told: list[str] = []
    assert sync(table.spark, table.root, target, key=["id"], dry_run=True).steps[0].kind == "snapshot"
    assert not target.exists()
    sync(table.spark, table.root, target, key=["id"], progress=told.append)
    assert told[-1] == "writing all rows of version 1"
    table.sql("UPDATE {t} SET id = id + 100 WHERE id < 2", "ALTER TABLE {t} ADD COLUMNS (later INT)", "OPTIMIZE {t}")
    with monkeypatch.context() as patch:
        patch.setattr(sync_job, "applied", dying(sync_job.applied, True))
        with pytest.raises(Died):
            sync(table.spark, table.root, target, key=["id"], max_versions=1)
    version = DeltaTable(target).version()
    dry = sync(table.spark, table.root, target, key=["id"], dry_run=True)
    assert [(step.kind, step.start, step.end) for step in dry.steps] == [("recovered", 2, 2), ("changes", 3, 4)]
    done = sync(table.spark, table.root, target, key=["id"])
    assert [(step.kind, step.start, step.end) for step in done.steps] == [("recovered", 2, 2), ("changes", 3, 4)]
    assert DeltaTable(target).version() == version + 1, "the new column"
    assert_same(table, target)
    settings = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
    assert [table.spark.conf.get(name, None) for name in settings] == [None, None]
    assert table.views() == []
    table.sql("OPTIMIZE {t} ZORDER BY (note)")
    (nothing,) = sync(table.spark, table.root, target, key=["id"]).steps
    assert (nothing.target_version, DeltaTable(target).version()) == (None, version + 1)
    with with_setting(table.spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        table.spark.sql(f"VACUUM delta.`{target}` RETAIN 0 HOURS").collect()
    assert (target / "_sidecar_state" / "cursors" / "table.cursor.json").exists(), "VACUUM leaves the state alone"
    assert_same(table, target)


def test_a_replace_is_made_where_the_target_is_another(table: SparkTable, tmp_path: Path) -> None:
    """Also if the source has nothing new."""
    source(table, rows=4)
    target = tmp_path / "copy"
    given: dict[str, Any] = {"strategy": "append", "change_filter": "inserts_only"}
    sync(table.spark, table.root, target, **given)
    table.sql("DELETE FROM {t} WHERE id = 2")
    sync(table.spark, table.root, target, **given)
    (step,) = sync(table.spark, table.root, target, strategy="replace").steps
    assert step.kind == "snapshot"
    assert_same(table, target)
    assert sync(table.spark, table.root, target, strategy="replace").steps == ()


@pytest.mark.long
def test_a_source_that_went_another_way_is_noticed(table: SparkTable, tmp_path: Path) -> None:
    source(table, rows=4)
    target = tmp_path / "copy"
    shutil.copytree(table.root, tmp_path / "older")
    table.sql("DELETE FROM {t} WHERE id = 2")
    sync(table.spark, table.root, target, key=["id"])
    shutil.rmtree(table.root)
    shutil.move(tmp_path / "older", table.root)
    table.sql("DELETE FROM {t} WHERE id = 0", "DELETE FROM {t} WHERE id = 1")
    with pytest.raises(OtherTableError, match="is now another commit"):
        sync(table.spark, table.root, target, key=["id"])
    sync(table.spark, table.root, target, key=["id"], full=True)
    assert_same(table, target)


def version_of(table: Path) -> int | None:
    return DeltaTable(table).version() if DeltaTable.is_deltatable(table) else None


def test_what_cannot_be_synced_is_refused_by_name(table: SparkTable, tmp_path: Path) -> None:
    source(table, rows=4)
    spark, target = table.spark, tmp_path / "copy"

    def refused(error: type[DeltaSidecarError], words: str, **given: Any) -> None:
        before = version_of(target)
        with pytest.raises(error, match=words) as raised:
            sync(spark, table.root, target, **{"key": ["id"]} | given)
        assert type(raised.value) is error
        assert "\n" not in str(raised.value)
        assert version_of(target) == before

    refused(OptionError, "needs a key", key=[])
    refused(OptionError, "takes no key", strategy="append")
    refused(OptionError, "'nope' is not known", strategy="nope")
    refused(UnknownColumnError, "'nope'", key=["nope"])
    with pytest.raises(OptionError, match="both source and target"):
        sync(spark, table.root, table.root, key=["id"])
    refused(DuplicateKeyError, r'several rows with the key {"part":"p0"} at version 1', key=["part"])
    shutil.rmtree(target)
    sync(spark, table.root, target, key=["id"])
    sync(spark, table.root, tmp_path / "appended", strategy="append")

    table.sql(f"INSERT INTO {{t}} {ROWS.format(low=2, high=3)}")
    refused(DuplicateKeyError, r'key {"id":2} is inserted although the target has it')
    table.sql("DELETE FROM {t} WHERE id = 2", "INSERT INTO {t} (id) VALUES (50), (50)", "DELETE FROM {t} WHERE id = 50")
    with pytest.raises(InputError, match="updates or deletes, which strategy append does not apply"):
        sync(spark, table.root, tmp_path / "appended", strategy="append")
    refused(OptionError, "was written with another strategy or filter", key=[], strategy="append")
    refused(OptionError, "leave the filter out", key=[], strategy="replace", change_filter="inserts_only")
    twice = read_changes(spark, table.root, CdfReadOptions(start_version=4))
    with pytest.raises(DuplicateKeyError, match=r'{"id":50} occurs more than once'):
        apply_changes(twice, target, key=["id"], name="another")
    sync(spark, table.root, target, key=["id"], full=True)
    assert_same(table, target)

    other = spark.sql("SELECT 'text' AS id, 'p' AS part, 'n' AS note, struct(1 AS a) AS s")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(table.root))
    refused(SchemaChangedError, "do not fit")

    shutil.rmtree(table.root)
    source(table, rows=3)
    refused(OtherTableError, "is now table")
    CdfCursorStore(target / "_sidecar_state").reset("table")
    refused(InputError, "already has rows")
    sync(spark, table.root, target, key=["id"], full=True)
    assert_same(table, target)


def test_each_reason_for_no_changes_is_an_answer_of_its_own(table: SparkTable, tmp_path: Path) -> None:
    spark, cursors = table.spark, CdfCursorStore(tmp_path / "state")
    by_cursor = CdfReadOptions(cursor_store=cursors, dataset_name="mine")

    def refused(error: type[DeltaSidecarError], options: CdfReadOptions | None = None) -> None:
        with pytest.raises(error) as raised:
            read_changes(spark, table.root, options)
        assert type(raised.value) is error

    refused(TableNotFoundError)
    table.sql(CREATE, f"INSERT INTO {{t}} {ROWS.format(low=0, high=3)}")
    refused(NoChangeFeedError)
    refused(NoChangeFeedError, CdfReadOptions(start_version=1))
    table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEED})")
    refused(FeedStartsLaterError, CdfReadOptions(start_version=1))
    refused(VersionAfterLatestError, CdfReadOptions(start_version=4))
    refused(VersionRangeError, CdfReadOptions(start_version=2, end_version=1))

    first = read_changes(spark, table.root, by_cursor)
    assert (first.is_snapshot, first.start, first.end, first.has_changes) == (True, 2, 2, True)
    assert {(row._change_type, row._commit_version) for row in first.frame.collect()} == {("insert", 2)}
    assert cursors.load("mine") is None, "reading does not move it"
    first.commit()
    nothing = read_changes(spark, table.root, by_cursor)
    assert (nothing.start, nothing.end, nothing.has_changes, nothing.frame.count()) == (3, 2, False, 0)
    assert nothing.frame.columns == first.frame.columns
    assert nothing.commit() == cursors.load("mine")

    table.sql("UPDATE {t} SET note = 'x' WHERE id = 1", "OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 2")
    kinds = {
        ChangeFilter.INCLUDE_ALL: ["delete", "update_postimage", "update_preimage"],
        ChangeFilter.INSERTS_AND_UPDATES_ONLY: ["update_postimage", "update_preimage"],
        ChangeFilter.INSERTS_ONLY: [],
    }
    for chosen, expected in kinds.items():
        some = CdfReadOptions(start_version=3, columns=["_change_type"], change_filter=chosen)
        assert sorted(row[0] for row in read_changes(spark, table.root, some).frame.collect()) == expected
    assert not read_changes(spark, table.root, CdfReadOptions(start_version=4, end_version=4)).has_changes
    when = DeltaTable(table.root).history(1)[0]["timestamp"] / 1000
    timed = CdfReadOptions(start_timestamp=datetime.fromtimestamp(when, UTC), predicate="id > 0")
    assert [row.id for row in read_changes(spark, table.root, timed).frame.collect()] == [2]

    again = read_changes(spark, table.root, by_cursor)
    assert (again.start, again.end) == (3, 5)
    apply_changes(first, tmp_path / "copy", key=["id"])
    done = apply_changes(again, tmp_path / "copy", key=["id"])
    assert (done.inserted, done.updated, done.deleted, done.was_there) == (0, 1, 1, False)
    assert apply_changes(again, tmp_path / "copy", key=["id"]).was_there
    assert_same(table, tmp_path / "copy")
    again.commit()
    with pytest.raises(CursorError, match="does not move back"):
        first.commit()
    with pytest.raises(OptionError, match="without a cursor"):
        read_changes(spark, table.root).commit()

    shutil.rmtree(table.root)
    source(table)
    refused(OtherTableError, by_cursor)


@pytest.mark.long
def test_deleted_rows_stay_where_the_filter_leaves_deletes_out(table: SparkTable, tmp_path: Path) -> None:
    source(table, rows=4)
    target = tmp_path / "copy"
    given: dict[str, Any] = {"key": ["id"], "change_filter": "inserts_and_updates_only"}
    sync(table.spark, table.root, target, **given)
    table.sql("DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET id = 77 WHERE id = 2", "INSERT INTO {t} (id) VALUES (1)")
    sync(table.spark, table.root, target, **given)
    found = DeltaTable(target).to_pyarrow_table(columns=["id", "note"]).to_pylist()
    assert sorted((row["id"], row["note"]) for row in found) == [(0, "n0"), (1, None), (3, "n3"), (77, "n2")]
