"""Operations on a table: ensure it, write, delete, update, merge, optimize. Spark commits; a policy sets the limits.

Each runs as a `TableOperation`, which makes its commit once, whatever other writers do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.lake.commit_options import CommitOptions, EnsuredTable, WriteOutcome
from delta_sidecar.lake.merge_clauses import MergeClause, assignments
from delta_sidecar.lake.own_session import source_session
from delta_sidecar.lake.policies import LakePolicy
from delta_sidecar.lake.policy_effects import (
    Mode,
    PolicyEffects,
    check_order,
    check_table,
    missing_properties,
    refuse_if_append_only,
    write_options,
)
from delta_sidecar.lake.sql_fragments import fragment
from delta_sidecar.lake.table_operation import TableOperation
from delta_sidecar.lake.table_schemas import Unsigned, differences, schema_of_table, some
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.values.bucket_columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delta_sidecar.lake.table_schemas import GivenSchema

    Frame: TypeAlias = DataFrame | Callable[[], DataFrame]


def ensure_table(
    spark: SparkSession,
    table: str | os.PathLike[str],
    schema: GivenSchema,
    *,
    policy: LakePolicy | None = None,
    unsigned: Unsigned = "refuse",
    alter: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> EnsuredTable:
    """Create the table if there is none, or else check that it is as expected. Callers that race all succeed.

    Args:
        spark: A session, classic or Connect.
        table: The location of the table: a local path or a URI such as `s3://bucket/events`.
        schema: A StructType, DDL, Spark's JSON, an Arrow schema, or a DataFrame (all its columns become nullable).
        policy: Partitioning, properties and features.
        unsigned: `widen` turns Arrow's unsigned numbers into the next larger signed ones.
        alter: Set properties of the policy that an existing table lacks. That aborts running writes.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Returns:
        An `EnsuredTable`: whether it was created, and its version.

    Raises:
        InputError: An existing table has other columns, partitions or properties; the message names them.
        OptionError: The policy does not fit the store or the session.
        SparkError: Spark could not create the table.

    Example:
        >>> from delta_sidecar.lake import ensure_table
        >>> ensure_table(spark, "people", "id BIGINT, name STRING").created
        True
        >>> ensure_table(spark, "people", "id BIGINT, name STRING").created
        False
    """
    work = TableOperation.begin(spark, table, "ensure table", policy, None, storage_options)
    wanted = schema_of_table(schema, unsigned)
    PolicyEffects.of(work.policy, wanted)
    snapshot, created = work.existing_or_created(wanted)
    if found := differences(wanted, snapshot.schema):
        raise InputError(f"{work.table} does not have the expected schema: {some(found)}")
    check_table(work.policy, snapshot)
    missing = missing_properties(work.policy, snapshot)
    if not missing:
        return EnsuredTable(created, snapshot.version)
    told = ", ".join(f"{name}={value}" for name, value in missing.items())
    if not alter:
        raise InputError(
            f"{work.table} lacks {told} of the policy; pass alter=True to set it (this aborts running writes)"
        )
    return EnsuredTable(created, work.set_properties(missing).version, tuple(missing))


def write(
    spark: SparkSession,
    table: str | os.PathLike[str],
    source: Frame,
    *,
    mode: Mode = "append",
    replace_where: str | None = None,
    policy: LakePolicy | None = None,
    commit: CommitOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteOutcome:
    """Append to a table, or overwrite it or a part of it, in one commit. If there is no table, it is created.

    Args:
        spark: A session, classic or Connect.
        table: The location of the table: a local path or a URI such as `s3://bucket/events`.
        source: The rows: a DataFrame, or a function that returns one. A function is called at every attempt: give one
            if the rows depend on the table itself.
        mode: `append` or `overwrite`.
        replace_where: With `overwrite`: replace only the rows that match this SQL condition.
        policy: The policy that the write must obey.
        commit: Metadata, lineage, a batch number, the index.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Returns:
        A `WriteOutcome`.

    Raises:
        OptionError: The policy forbids it, or Delta would ignore a part of it.
        InputError: The table does not match the policy, or the rows do not fit.
        TableChangedError: Another writer changed the schema during the write; nothing was committed.
        ConflictError: Other writers committed first, at every attempt; nothing was committed.
        UncertainCommitError: It failed, and may have been committed; it is not retried.
        SparkError: A Spark job failed; nothing was committed.

    Example:
        >>> from delta_sidecar.lake import write
        >>> write(spark, "ids", spark.range(5)).rows
        5
        >>> write(spark, "ids", spark.range(2), mode="overwrite").removed_files
        1
    """
    work = TableOperation.begin(spark, table, "write", policy, commit, storage_options)
    options = write_options(work.policy, mode, replace_where) | {"userMetadata": work.mark.text}
    if work.commit.once is not None:
        options |= {"txnAppId": work.commit.once[0], "txnVersion": str(work.commit.once[1])}
    replaces_schema = mode == "overwrite" and work.policy.schema.schema_mode == "overwrite"

    def statement(snapshot: Snapshot | None) -> None:
        frame = _frame_of(source)
        if snapshot is None:
            snapshot, _ = work.existing_or_created(schema_of_table(frame))
            work.saw(snapshot)
        work.check(snapshot, replaces_schema)
        with work.failures(), source_session(frame, work.settings) as (session, view):
            writer = session.table(view).write.format("delta").mode(mode).options(**options)
            if replaces_schema and work.policy.write.partition_by:
                writer = writer.partitionBy(*work.policy.write.partition_by)
            work.asked = True
            writer.save(work.place)

    return work.run(statement, creates=True)


def delete(
    spark: SparkSession,
    table: str | os.PathLike[str],
    where: str,
    *,
    policy: LakePolicy | None = None,
    commit: CommitOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteOutcome:
    """Delete the rows that match a condition, in one commit.

    Args:
        spark: A session, classic or Connect.
        table: The location of the table.
        where: A SQL condition; `true` deletes all rows.
        policy: The policy that the operation must obey.
        commit: Metadata, lineage, a batch number, the index.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Returns:
        A `WriteOutcome`. Files of deleted rows are gone from the table; VACUUM removes them from the store.

    Raises:
        OptionError: The table is append-only by policy.
        DeltaSidecarError: As for `write`.

    Example:
        >>> from delta_sidecar.lake import delete, write
        >>> _ = write(spark, "visits", spark.range(5))
        >>> delete(spark, "visits", "id = 3").state, delete(spark, "visits", "id = 3").state
        ('committed', 'nothing to do')
    """
    work = TableOperation.begin(spark, table, "delete", policy, commit, storage_options)
    refuse_if_append_only(work.policy, "delete")
    return work.run(work.sql(f"DELETE FROM {work.sql_name} WHERE {fragment('the condition', where)}"))


def update(
    spark: SparkSession,
    table: str | os.PathLike[str],
    values: Mapping[str, str],
    where: str | None = None,
    *,
    policy: LakePolicy | None = None,
    commit: CommitOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteOutcome:
    """Change the rows that match a condition, in one commit.

    Args:
        spark: A session, classic or Connect.
        table: The location of the table.
        values: The new values: SQL expressions by column.
        where: A SQL condition; all rows if not given.
        policy: The policy that the operation must obey.
        commit: Metadata, lineage, a batch number, the index.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Returns:
        A `WriteOutcome`.

    Raises:
        OptionError: The table is append-only by policy, or no column is named.
        DeltaSidecarError: As for `write`.

    Example:
        >>> from delta_sidecar.lake import update, write
        >>> _ = write(spark, "scores", spark.range(5).selectExpr("id", "0 AS score"))
        >>> update(spark, "scores", {"score": "score + 1"}, "id > 2").state
        'committed'
    """
    work = TableOperation.begin(spark, table, "update", policy, commit, storage_options)
    refuse_if_append_only(work.policy, "update")
    if not values:
        raise OptionError("update needs at least one column and its new value")
    only = "" if where is None else f" WHERE {fragment('the condition', where)}"
    return work.run(work.sql(f"UPDATE {work.sql_name} SET {assignments(values)}{only}"))


def merge(
    spark: SparkSession,
    table: str | os.PathLike[str],
    source: Frame,
    on: str,
    clauses: Sequence[MergeClause],
    *,
    policy: LakePolicy | None = None,
    commit: CommitOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteOutcome:
    """Merge rows into a table, in one commit. In all SQL the table is `t` and the source is `s`.

    Args:
        spark: A session, classic or Connect.
        table: The location of the table.
        source: The rows: a DataFrame, or a function that returns one, which is called at every attempt.
        on: The SQL condition that matches rows of both, such as `t.id = s.id`.
        clauses: What happens to rows: see `MergeClause`.
        policy: The policy that the operation must obey. If it is append-only, clauses may only insert.
        commit: Metadata, lineage, a batch number, the index.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Returns:
        A `WriteOutcome`.

    Raises:
        OptionError: There is no clause, or the policy refuses one.
        DeltaSidecarError: As for `write`.

    Example:
        >>> from delta_sidecar.lake import MergeClause, merge, write
        >>> _ = write(spark, "stock", spark.range(3))
        >>> merge(spark, "stock", spark.range(2, 5), "t.id = s.id", [MergeClause.insert()]).rows
        2
    """
    work = TableOperation.begin(spark, table, "merge", policy, commit, storage_options)
    if not clauses:
        raise OptionError("merge needs at least one clause, such as MergeClause.insert()")
    for clause in clauses:
        if clause.then != "INSERT":
            refuse_if_append_only(work.policy, f"merge with {clause.then}")
    if work.policy.schema.schema_mode == "overwrite":
        raise OptionError('schema_mode = "overwrite" cannot be used with merge: Delta ignores it there')
    whens, condition = " ".join(clause.sql for clause in clauses), fragment("the condition of the merge", on)

    def statement(snapshot: Snapshot | None) -> None:
        assert snapshot is not None
        frame = _frame_of(source)
        work.check(snapshot)
        with work.failures(), source_session(frame, work.settings | work.commit_settings) as (session, view):
            work.asked = True
            session.sql(f"MERGE INTO {work.sql_name} t USING {view} s ON {condition} {whens}").collect()

    return work.run(statement)


def optimize(
    spark: SparkSession,
    table: str | os.PathLike[str],
    where: str | None = None,
    *,
    policy: LakePolicy | None = None,
    commit: CommitOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteOutcome:
    """Compact small files to the policy's size, ordered by its `zorder_by`. No row changes.

    Args:
        spark: A session, classic or Connect.
        table: The location of the table.
        where: A SQL condition on partition columns; all partitions if not given.
        policy: `target_file_size` and `zorder_by`.
        commit: Metadata, lineage, the index; a batch number is refused.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Returns:
        A `WriteOutcome`.

    Raises:
        OptionError: A batch number was given, but Delta keeps none for OPTIMIZE.
        InputError: Delta cannot order the table by these columns.
        DeltaSidecarError: As for `write`.

    Example:
        >>> from delta_sidecar.lake import optimize, write
        >>> _ = write(spark, "small", spark.range(2)), write(spark, "small", spark.range(2))
        >>> optimize(spark, "small").removed_files
        2
    """
    work = TableOperation.begin(spark, table, "optimize", policy, commit, storage_options)
    if work.commit.once is not None:
        raise OptionError("optimize takes no batch_id: Delta would ignore it, and running it again changes no row")
    only = "" if where is None else f" WHERE {fragment('the condition', where)}"
    names = work.policy.write.zorder_by
    order = f" ZORDER BY ({', '.join(map(quoted, names))})" if names else ""
    run = work.sql(f"OPTIMIZE {work.sql_name}{only}{order}")

    def statement(snapshot: Snapshot | None) -> None:
        assert snapshot is not None
        check_order(work.policy, snapshot)
        run(snapshot)

    return work.run(statement)


def _frame_of(source: Frame) -> DataFrame:
    frame = source() if callable(source) else source
    if not hasattr(frame, "createOrReplaceTempView"):
        raise OptionError(f"the source is a {type(frame).__name__}; give a DataFrame, or a function that returns one")
    return frame
