"""Operations on real tables: their outcome, what policies refuse as Delta does, and settings that do not leak."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import InputError, OptionError, SparkError, TableNotFoundError, UncertainCommitError
from delta_sidecar.lake import (
    CommitOptions,
    DeltaMutationPolicy,
    DeltaSchemaPolicy,
    DeltaWritePolicy,
    LakePolicy,
    LineageContext,
    MergeClause,
    delete,
    ensure_table,
    merge,
    optimize,
    table_operation,
    update,
    write,
)
from delta_sidecar.lake.policies import FEATURES
from delta_sidecar.lake.policy_effects import TXN_APP, TXN_VERSION, USER_METADATA
from delta_sidecar.pipeline import RetryClass, spark_build
from tests.integration.spark.oracle import SparkTable, with_setting

PLAIN = LakePolicy(write=DeltaWritePolicy(target_file_size=None))
APPEND_ONLY = LakePolicy(write=DeltaWritePolicy(target_file_size=None), mutation=DeltaMutationPolicy(append_only=True))


def rows(table: SparkTable, first: int, end: int) -> Any:
    return table.spark.range(first, end).selectExpr("id", "CAST(id % 2 AS STRING) AS p")


def marks(table: SparkTable) -> list[dict[str, Any]]:
    """What each commit says of itself, oldest first."""
    history = reversed(list(DeltaTable(str(table.root)).history()))
    return [json.loads(commit.get("userMetadata") or "{}") for commit in history]


def ids(table: SparkTable) -> list[int]:
    return sorted(DeltaTable(str(table.root)).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def test_each_operation_tells_its_own_commit(table: SparkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, root = table.spark, str(table.root)
    with pytest.raises(TableNotFoundError):
        delete(spark, root, "true")
    commit = CommitOptions({"team": "growth"}, LineageContext({"spec": b"\xff"}), index=True)
    first = write(spark, root, rows(table, 0, 6), policy=PLAIN, commit=commit)
    assert (first.state, first.version, first.rows, first.indexed) == ("committed", 1, 6, True)
    assert marks(table)[1] == {
        "team": "growth",
        "sidecar.operation": "write",
        "sidecar.token": first.token,
        "sidecar.lineage": {"hashes": {"spec": "ff"}, "tags": {}},
    }

    def broken(*given: Any, **more: Any) -> None:
        raise SparkError("no index today")

    with monkeypatch.context() as patched:
        patched.setattr(spark_build, "build_index", broken)
        gone = delete(spark, root, "id = 0", policy=PLAIN, commit=CommitOptions(index=True))
    assert (gone.state, gone.version, gone.indexed) == ("committed", 2, False)
    assert delete(spark, root, "id = 0", policy=PLAIN).state == "nothing to do"
    clauses = [MergeClause.delete(condition="s.id = 5"), MergeClause.update({"p": "'new'"}), MergeClause.insert()]
    merged = merge(spark, root, lambda: rows(table, 4, 8), "t.id = s.id", clauses, policy=PLAIN)
    assert (merged.version, ids(table)) == (3, [1, 2, 3, 4, 6, 7])
    once = CommitOptions(app_id="job", batch_id=3)
    changed = [update(spark, root, {"p": "concat(p, '!')"}, "id = 1", policy=PLAIN, commit=once) for _ in range(2)]
    assert [outcome.state for outcome in changed] == ["committed", "done already"]
    ordered = LakePolicy(write=DeltaWritePolicy(zorder_by=("id",)))
    packed = optimize(spark, root, policy=ordered)
    assert (packed.state, packed.files) == ("committed", 1)
    assert [mark.get("sidecar.operation") for mark in marks(table)] == [
        "create table", "write", "delete", "merge", "update", "optimize",
    ]  # fmt: skip
    assert table.views() == []
    table.check()


def test_overwrites_replace_what_they_say(table: SparkTable) -> None:
    spark, root = table.spark, str(table.root)
    write(spark, root, rows(table, 0, 6), policy=LakePolicy(write=DeltaWritePolicy(partition_by=("p",))))
    write(spark, root, rows(table, 10, 11), mode="overwrite", replace_where="p = '0'", policy=PLAIN)
    assert ids(table) == [1, 3, 5, 10]
    with pytest.raises(InputError, match="partitioned by p, the policy by id"):
        write(spark, root, rows(table, 0, 1), policy=LakePolicy(write=DeltaWritePolicy(partition_by=("id",))))
    with pytest.raises(InputError, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        write(spark, root, rows(table, 0, 2), mode="overwrite", replace_where="p = '0'", policy=PLAIN)
    grown = rows(table, 20, 21).selectExpr("*", "1 AS more")
    with pytest.raises(InputError, match="DELTA_METADATA_MISMATCH"):
        write(spark, root, grown, policy=PLAIN)
    write(spark, root, grown, policy=LakePolicy(schema=DeltaSchemaPolicy(schema_mode="merge")))
    replacing = LakePolicy(
        write=DeltaWritePolicy(partition_by=("more",)), schema=DeltaSchemaPolicy(schema_mode="overwrite")
    )
    write(spark, root, grown, mode="overwrite", policy=replacing)
    assert DeltaTable(root).metadata().partition_columns == ["more"]
    table.check()


def test_an_append_only_table_only_grows(table: SparkTable) -> None:
    spark, root = table.spark, str(table.root)
    write(spark, root, rows(table, 0, 3), policy=PLAIN)
    write(spark, root, rows(table, 3, 5), policy=APPEND_ONLY)
    assert DeltaTable(root).metadata().configuration["delta.appendOnly"] == "true"
    merge(spark, root, rows(table, 4, 6), "t.id = s.id", [MergeClause.insert()], policy=APPEND_ONLY)
    version = DeltaTable(root).version()
    refused = [
        lambda: delete(spark, root, "id = 1", policy=APPEND_ONLY),
        lambda: update(spark, root, {"p": "'x'"}, policy=APPEND_ONLY),
        lambda: write(spark, root, rows(table, 0, 1), mode="overwrite", policy=APPEND_ONLY),
        lambda: write(spark, root, rows(table, 0, 1), mode="overwrite", replace_where="p = '0'", policy=APPEND_ONLY),
        lambda: merge(spark, root, rows(table, 0, 1), "t.id = s.id", [MergeClause.update()], policy=APPEND_ONLY),
    ]
    for operation in refused:
        with pytest.raises(OptionError, match="is refused: the policy is append_only"):
            operation()
    with pytest.raises(InputError, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        delete(spark, root, "id = 1", policy=PLAIN)
    assert (DeltaTable(root).version(), ids(table)) == (version, list(range(6)))


def test_delta_refuses_or_ignores_what_our_policies_refuse(table: SparkTable) -> None:
    properties = "CREATE TABLE {t} (id BIGINT, p STRING, l ARRAY<INT>) USING delta PARTITIONED BY (p) TBLPROPERTIES "
    for pair, condition in {
        "'delta.targetFileSize' = '1'": "DELTA_UNKNOWN_CONFIGURATION",
        "'delta.dataSkippingStatsColumns' = 'p'": "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN",
        "'delta.dataSkippingStatsColumns' = 'l'": "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE",
        "'delta.feature.nope' = 'supported'": "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
    }.items():
        with pytest.raises(Exception, match=condition) as caught:
            table.sql(f"{properties} ({pair})")
        assert RetryClass.of(caught.value) is RetryClass.FATAL
    table.sql(
        "CREATE TABLE {t} (id BOOLEAN, p STRING, x INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1')"
    )
    optimize(table.spark, table.root, policy=LakePolicy(write=DeltaWritePolicy(zorder_by=("id",))))
    for column, condition in {"p": "ON_PARTITION_COLUMN", "x": "ON_COLUMN_WITHOUT_STATS"}.items():
        with pytest.raises(Exception, match=condition):
            table.sql(f"OPTIMIZE {{t}} ZORDER BY ({column})")
        with pytest.raises(InputError, match=f"zorder_by names {column}"):
            optimize(table.spark, table.root, policy=LakePolicy(write=DeltaWritePolicy(zorder_by=(column,))))
    other = SparkTable(table.spark, table.root.with_name("clustered"))
    other.sql("CREATE TABLE {t} (id BIGINT, x DOUBLE) USING delta CLUSTER BY (id)")
    with pytest.raises(InputError, match="is clustered"):
        optimize(table.spark, other.root, policy=LakePolicy(write=DeltaWritePolicy(zorder_by=("x",))))
    with pytest.raises(Exception, match="ZORDER"):
        other.sql("OPTIMIZE {t} ZORDER BY (x)")


def test_a_table_is_made_as_the_policy_has_it_or_checked(table: SparkTable) -> None:
    spark, root = table.spark, str(table.root)
    policy = LakePolicy(
        write=DeltaWritePolicy(
            partition_by=("day",), stats_policy="explicit", stats_columns=("odd name", "id"), enable_features=FEATURES
        ),
        schema=DeltaSchemaPolicy(column_mapping_mode="name"),
    )
    schema = "id BIGINT NOT NULL COMMENT 'it''s', `odd name` STRING, day DATE, s STRUCT<a: INT NOT NULL>"
    assert ensure_table(spark, root, schema, policy=policy).created
    assert not ensure_table(spark, root, schema, policy=policy).created
    known = DeltaTable(root).metadata()
    assert known.partition_columns == ["day"]
    assert known.configuration["delta.dataSkippingStatsColumns"] == "`odd name`,id"
    with pytest.raises(InputError, match="column id: INT expected, BIGINT in the table"):
        ensure_table(spark, root, "id INT NOT NULL")
    with pytest.raises(InputError, match=r"lacks delta.appendOnly=true of the policy; pass alter=True"):
        ensure_table(spark, root, schema, policy=APPEND_ONLY)
    altered = ensure_table(spark, root, schema, policy=APPEND_ONLY, alter=True)
    assert altered.altered == ("delta.appendOnly",)
    assert DeltaTable(root).metadata().configuration["delta.appendOnly"] == "true"
    dead = table.root.with_name("dead")
    (dead / "_delta_log").mkdir(parents=True)
    assert ensure_table(spark, dead, "id BIGINT, p STRING").created


def test_what_marks_one_commit_reaches_no_other(table: SparkTable) -> None:
    """Not even while it is set: statements of other threads of the session, and what they set for themselves."""
    spark, root = table.spark, str(table.root)
    write(spark, root, rows(table, 0, 4), policy=PLAIN)
    once = CommitOptions(app_id="job", batch_id=1)
    with with_setting(spark, TXN_APP, "other"), with_setting(spark, TXN_VERSION, "1"), ThreadPoolExecutor(3) as pool:
        ours = [
            pool.submit(write, spark, root, rows(table, 4, 6), policy=PLAIN),
            pool.submit(update, spark, root, {"p": "'u'"}, "id = 0", policy=PLAIN, commit=once),
        ]
        theirs = pool.submit(lambda: rows(table, 6, 8).write.format("delta").mode("append").save(root))
        outcomes = [future.result() for future in ours]
        theirs.result()
    assert [outcome.state for outcome in outcomes] == ["committed", "committed"]
    assert ids(table) == list(range(8))
    tokens = [mark.get("sidecar.token") for mark in marks(table)]
    assert {outcome.token for outcome in outcomes} <= {*tokens}
    assert tokens.count(None) == 1
    assert spark.conf.get(USER_METADATA, None) is None


def test_a_batch_below_the_last_one_is_done_already_or_refused(table: SparkTable) -> None:
    """Delta would skip it without a word."""
    spark, root = table.spark, str(table.root)
    for batch in (1, 5):
        numbered = CommitOptions(app_id="job", batch_id=batch)
        outcome = write(spark, root, rows(table, batch, batch + 1), policy=PLAIN, commit=numbered)
        assert (outcome.state, outcome.inserted) == ("committed", 1)
    for batch in (1, 5):
        numbered = CommitOptions(app_id="job", batch_id=batch)
        assert write(spark, root, rows(table, 0, 9), policy=PLAIN, commit=numbered).state == "done already"
    with pytest.raises(InputError, match="the numbers of an app_id must grow"):
        write(spark, root, rows(table, 3, 4), policy=PLAIN, commit=CommitOptions(app_id="job", batch_id=3))
    assert ids(table) == [1, 5]
    with pytest.raises(OptionError, match="the source is a str"):
        write(spark, root, "rows", policy=PLAIN)  # type: ignore[arg-type]


def test_a_commit_that_was_made_although_it_failed_is_found(table: SparkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    real = table_operation.own_session

    @contextmanager
    def lost(*given: Any) -> Iterator[Any]:
        with real(*given) as session:
            yield session
        raise SparkError("the connection was lost")

    write(table.spark, table.root, rows(table, 0, 4), policy=PLAIN)
    monkeypatch.setattr(table_operation, "own_session", lost)
    assert delete(table.spark, table.root, "id = 1", policy=PLAIN).state == "committed"
    with pytest.raises(UncertainCommitError, match=r"lost; its commit \(token .*\) is not in the log, but may still"):
        delete(table.spark, table.root, "id = 1", policy=PLAIN)
    assert ids(table) == [0, 2, 3]


def test_what_the_source_raises_is_not_tried_again(table: SparkTable) -> None:
    calls: list[int] = []

    def broken() -> Any:
        calls.append(1)
        raise ZeroDivisionError("in the caller's own function")

    write(table.spark, table.root, rows(table, 0, 4), policy=PLAIN)
    with pytest.raises(ZeroDivisionError):
        write(table.spark, table.root, broken, policy=PLAIN)
    assert calls == [1]


def test_rows_whose_expression_fails_are_no_uncertain_commit(table: SparkTable) -> None:
    """Spark fails before it commits, so there is nothing to look for: the input is wrong, and the error says so."""
    from pyspark.sql.functions import udf

    write(table.spark, table.root, rows(table, 0, 4), policy=PLAIN)
    failing = udf(lambda number: 1 // (number - 2), "bigint")
    sources = {
        "raise_error": rows(table, 0, 4).selectExpr("if(id = 2, raise_error('no such row'), id) AS id", "p"),
        "udf": rows(table, 0, 4).withColumn("id", failing("id")),
        "cast": rows(table, 0, 4).selectExpr("CAST(concat(p, 'x') AS BIGINT) AS id", "p"),
    }
    for name, source in sources.items():
        with pytest.raises(InputError) as told:
            write(table.spark, table.root, source, policy=PLAIN)
        assert not isinstance(told.value, UncertainCommitError), name
    assert ids(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("place", ["memory://here/table"])
def test_a_place_that_spark_does_not_reach_is_refused(table: SparkTable, place: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists only in this process"):
        write(table.spark, place, rows(table, 0, 1), policy=PLAIN)
