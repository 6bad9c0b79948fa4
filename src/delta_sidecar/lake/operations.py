"""Operations on a table: ensure it, write, delete, update, merge, optimize. Spark commits; a policy sets the limits.

Every operation works the same way (`_Operation.run`): what the policy refuses is refused before Spark is asked; the
statement runs in a session of its own, its commit marked with a token; after a failure the log is searched for the
token before anything else; what another writer did decides whether another attempt is made, on a fresh snapshot and
with the source evaluated again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from delta_sidecar.errors import (
    DeltaSidecarError,
    InputError,
    OptionError,
    SparkError,
    TableChangedError,
    TableNotFoundError,
    UncertainCommitError,
)
from delta_sidecar.lake.commit_marks import (
    CommitMark,
    FoundCommit,
    LineageContext,
    Scalar,
    find_commit,
)
from delta_sidecar.lake.conditional_put import check_conditional_put
from delta_sidecar.lake.own_session import own_session, source_session
from delta_sidecar.lake.policies import LakePolicy
from delta_sidecar.lake.policy_effects import (
    APPEND_ONLY,
    TXN_APP,
    TXN_VERSION,
    USER_METADATA,
    Mode,
    PolicyEffects,
    check_drivers,
    check_order,
    check_plain_names,
    check_table,
    missing_properties,
    refuse_if_append_only,
    write_options,
)
from delta_sidecar.lake.sql_fragments import fragment, new_value
from delta_sidecar.lake.table_schemas import (
    Unsigned,
    changes,
    column_list,
    differences,
    schema_of_table,
    sql_type,
)
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import transaction_version
from delta_sidecar.pipeline.bucketed_table import load_table
from delta_sidecar.pipeline.conflicts import Conflict, RetryClass, describe_attempts, until_committed
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.hadoop import hadoop_options, spark_uri
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.written import find_transaction
from delta_sidecar.storage import open_store, parse_location
from delta_sidecar.storage.store import Store
from delta_sidecar.values.bucket_columns import literal, quoted
from delta_sidecar.values.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delta_sidecar.lake.table_schemas import GivenSchema

    Frame: TypeAlias = DataFrame | Callable[[], DataFrame]

_log = logging.getLogger(__name__)

OutcomeState: TypeAlias = Literal["committed", "nothing to do", "done already", "not known"]
_CREATIONS: Final = 3
"""Attempts where the location is taken, but by no table yet: its creator may be about to commit."""


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What to record in a commit, and what to do after it.

    Raises:
        OptionError: `app_id` and `batch_id` are not given together, or are out of range.

    Example:
        >>> from delta_sidecar.lake import CommitOptions, LineageContext
        >>> commit = CommitOptions({"team": "growth"}, LineageContext(tags={"job": "nightly"}), index=True)
        >>> commit.metadata["team"]
        'growth'
    """

    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    """Keys of your own for the commit's `userMetadata`; those that begin with `sidecar.` are ours."""
    lineage: LineageContext | None = None
    app_id: str | None = None
    """With `batch_id`, identifies the operation, which is then committed once, however often it is run."""
    batch_id: int | None = None
    index: bool = False
    """Bring the index up to date after the commit. If that fails it is logged: the commit stands."""

    def __post_init__(self) -> None:
        if (self.app_id is None) != (self.batch_id is None):
            raise OptionError("app_id and batch_id must be given together")
        if self.app_id == "" or (self.batch_id is not None and self.batch_id < 0):
            raise OptionError("app_id must not be empty and batch_id not negative")

    @property
    def once(self) -> tuple[str, int] | None:
        return None if self.app_id is None or self.batch_id is None else (self.app_id, self.batch_id)


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What an operation did, read from its own commit in the log.

    Example:
        >>> from delta_sidecar.lake import write
        >>> outcome = write(spark, "numbers", spark.range(3))
        >>> outcome.state, outcome.version, outcome.rows, outcome.attempts
        ('committed', 1, 3, 1)
    """

    state: OutcomeState
    """`nothing to do`: no row was concerned, so Delta made no commit. `done already`: the same `batch_id` is in the
    table. `not known`: committed, but the log could not be read afterwards."""
    token: str
    """Stands in the commit's `userMetadata` as `sidecar.token`."""
    version: int | None = None
    rows: int | None = None
    """Rows in the files that were added, copied ones included; None without statistics."""
    files: int | None = None
    """Files that were added."""
    bytes: int | None = None
    removed_files: int | None = None
    inserted: int | None = None
    """Rows, as the commit says; None where it does not: a delete of whole files may not count them."""
    updated: int | None = None
    deleted: int | None = None
    attempts: int = 1
    conflicts: tuple[str, ...] = ()
    """What the failed attempts conflicted with."""
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class EnsuredTable:
    """The table as `ensure_table` found or created it.

    Example:
        >>> from delta_sidecar.lake import ensure_table
        >>> ensure_table(spark, "users", "id BIGINT, name STRING")
        EnsuredTable(created=True, version=0, altered=())
    """

    created: bool
    """Whether this call created it."""
    version: int
    altered: tuple[str, ...] = ()
    """Properties that this call set."""


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One WHEN clause of a merge. In its SQL the table is `t` and the source is `s`.

    Example:
        >>> from delta_sidecar.lake import MergeClause
        >>> print(MergeClause.update({"name": "s.name"}, condition="s.at > t.at").sql)
        WHEN MATCHED AND (s.at > t.at) THEN UPDATE SET `name` = (s.name)
    """

    when: Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"]
    then: Literal["UPDATE", "INSERT", "DELETE"]
    values: Mapping[str, str] | None = None
    """Columns and SQL expressions; None takes all columns of the source by name."""
    condition: str | None = None

    @classmethod
    def update(cls, values: Mapping[str, str] | None = None, *, condition: str | None = None) -> MergeClause:
        """Change rows that are in both."""
        return cls("MATCHED", "UPDATE", values, condition)

    @classmethod
    def delete(cls, *, condition: str | None = None) -> MergeClause:
        """Delete rows that are in both."""
        return cls("MATCHED", "DELETE", None, condition)

    @classmethod
    def insert(cls, values: Mapping[str, str] | None = None, *, condition: str | None = None) -> MergeClause:
        """Add rows that are only in the source."""
        return cls("NOT MATCHED", "INSERT", values, condition)

    @classmethod
    def update_unmatched(cls, values: Mapping[str, str], *, condition: str | None = None) -> MergeClause:
        """Change rows that are only in the table."""
        return cls("NOT MATCHED BY SOURCE", "UPDATE", values, condition)

    @classmethod
    def delete_unmatched(cls, *, condition: str | None = None) -> MergeClause:
        """Delete rows that are only in the table."""
        return cls("NOT MATCHED BY SOURCE", "DELETE", None, condition)

    @property
    def sql(self) -> str:
        condition = None if self.condition is None else fragment("the condition of a merge clause", self.condition)
        when = self.when if condition is None else f"{self.when} AND {condition}"
        return f"WHEN {when} THEN {self._action}"

    @property
    def _action(self) -> str:
        if self.then == "DELETE":
            return "DELETE"
        if self.values is None:
            return "UPDATE SET *" if self.then == "UPDATE" else "INSERT *"
        if self.then == "UPDATE":
            return f"UPDATE SET {_assignments(self.values)}"
        names = ", ".join(map(quoted, self.values))
        return f"INSERT ({names}) VALUES ({', '.join(_values(self.values).values())})"


def _assignments(values: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(name)} = {expression}" for name, expression in _values(values).items())


def _values(values: Mapping[str, str]) -> dict[str, str]:
    return {name: new_value(f"the value of {name}", expression) for name, expression in values.items()}


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
    work = _Operation.begin(spark, table, "ensure table", policy, None, storage_options)
    wanted = schema_of_table(schema, unsigned)
    PolicyEffects.of(work.policy, wanted)
    snapshot, created = work.existing_or_created(wanted)
    if found := differences(wanted, snapshot.schema):
        raise InputError(f"{work.table} does not have the expected schema: {_some(found)}")
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
        TableChangedError: Another writer changed the schema during the write; nothing was written.
        ConflictError: Other writers committed first, at every attempt; nothing was written.
        UncertainCommitError: It failed, and may have been committed; it is not retried.
        SparkError: A Spark job failed; nothing was written.

    Example:
        >>> from delta_sidecar.lake import write
        >>> write(spark, "ids", spark.range(5)).rows
        5
        >>> write(spark, "ids", spark.range(2), mode="overwrite").removed_files
        1
    """
    work = _Operation.begin(spark, table, "write", policy, commit, storage_options)
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
    work = _Operation.begin(spark, table, "delete", policy, commit, storage_options)
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
    work = _Operation.begin(spark, table, "update", policy, commit, storage_options)
    refuse_if_append_only(work.policy, "update")
    if not values:
        raise OptionError("update needs at least one column and its new value")
    only = "" if where is None else f" WHERE {fragment('the condition', where)}"
    return work.run(work.sql(f"UPDATE {work.sql_name} SET {_assignments(values)}{only}"))


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
    work = _Operation.begin(spark, table, "merge", policy, commit, storage_options)
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
    work = _Operation.begin(spark, table, "optimize", policy, commit, storage_options)
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


def _some(lines: Sequence[str], most: int = 5) -> str:
    more = f", and {len(lines) - most} more" if len(lines) > most else ""
    return "; ".join(lines[:most]) + more


@dataclass(slots=True)
class _Operation:
    """A running operation. Every attempt begins with the table as it is."""

    spark: SparkSession
    table: str
    name: str
    policy: LakePolicy
    commit: CommitOptions
    storage_options: Mapping[str, str] | None = field(repr=False)
    store: Store
    mark: CommitMark
    first: Snapshot | None = None
    """The table as the first attempt saw it; None while there was none."""
    asked: bool = False
    """Whether Spark was asked to commit in the current attempt."""
    attempts: int = 0
    tried: list[Conflict] = field(default_factory=list)
    creations: int = 0

    @classmethod
    def begin(
        cls,
        spark: SparkSession,
        table: str | os.PathLike[str],
        name: str,
        policy: LakePolicy | None,
        commit: CommitOptions | None,
        storage_options: Mapping[str, str] | None,
    ) -> _Operation:
        """The operation, with what the policy says of store and session checked."""
        place, policy, commit = parse_location(table).text, policy or LakePolicy(), commit or CommitOptions()
        mark = CommitMark(name, commit.metadata, commit.lineage)
        check_drivers(policy, place, lambda setting: spark.conf.get(setting, None))
        store = open_store(place, storage_options)
        check_conditional_put(policy, store, place)
        check_reach(spark, place)
        return cls(spark, place, name, policy, commit, storage_options, store, mark)

    @property
    def place(self) -> str:
        """The table in Spark's words."""
        return spark_uri(self.table, self.storage_options)

    @property
    def sql_name(self) -> str:
        return f"delta.{quoted(self.place)}"

    @property
    def settings(self) -> dict[str, str]:
        """Of the session that runs the statement."""
        access = hadoop_options(self.table, self.storage_options) if self.storage_options else {}
        return dict(PolicyEffects.of(self.policy).session_settings) | access

    @property
    def commit_settings(self) -> dict[str, str]:
        """What marks the commit of a SQL statement."""
        once = self.commit.once
        txn = {} if once is None else {TXN_APP: once[0], TXN_VERSION: str(once[1])}
        return {USER_METADATA: self.mark.text} | txn

    def sql(self, statement: str) -> Callable[[Snapshot | None], None]:
        """Runs a SQL statement in a session of its own, its commit marked."""

        def run(snapshot: Snapshot | None) -> None:
            assert snapshot is not None
            self.check(snapshot)
            with self.failures(), own_session(self.spark, self.settings | self.commit_settings) as session:
                self.asked = True
                session.sql(statement).collect()

        return run

    @contextmanager
    def failures(self) -> Iterator[None]:
        with spark_failures(f"{self.table}: the {self.name} failed"):
            yield

    # One operation, in attempts.

    def run(self, statement: Callable[[Snapshot | None], None], creates: bool = False) -> WriteOutcome:
        """The outcome of a statement that commits once, whatever other writers do meanwhile, or an error."""

        def attempt() -> WriteOutcome:
            self.asked, self.attempts = False, self.attempts + 1
            snapshot = load_table(self.store)
            if snapshot is None and not creates:
                raise TableNotFoundError(
                    f"no Delta table at {self.table}; check the path, or create it with ensure_table"
                )
            if snapshot is not None:
                self.saw(snapshot)
                if self._is_in(snapshot):
                    return self._outcome("done already")
            statement(snapshot)
            return self._afterwards()

        retry = self.policy.mutation.retry.to_pipeline()
        what = f"{self.table}: the {self.name}"
        try:
            outcome = until_committed(
                attempt, self._committed, retry, what=what, may_retry=self._may_retry, tried=self.tried
            )
        except Exception as error:
            told = self._told(error)
            if told is error:
                raise
            raise told from error
        return self._with_index(outcome)

    def saw(self, snapshot: Snapshot) -> None:
        if self.first is None:
            self.first = snapshot

    def check(self, snapshot: Snapshot, replaces_schema: bool = False) -> None:
        """Hold the table to the policy. An append-only one says so itself, for other writers."""
        check_table(self.policy, snapshot, replaces_schema)
        if self.policy.mutation.append_only and snapshot.metadata.properties.get(APPEND_ONLY) != "true":
            _log.warning("%s: setting %s, which aborts running writes", self.table, APPEND_ONLY)
            self.set_properties({APPEND_ONLY: "true"})

    def _afterwards(self) -> WriteOutcome:
        """After a statement that did not fail. The commit stands, so nothing here may fail."""
        try:
            return self._committed() or self._outcome("nothing to do")
        except DeltaSidecarError as error:
            _log.warning("%s: the %s is done, but its commit was not found: %s", self.table, self.name, error)
            return self._outcome("not known")

    def _committed(self) -> WriteOutcome | None:
        """The outcome, if the commit of this operation, or another with its batch number, is in the log."""
        if self.first is None:
            return None
        found = find_commit(self.store, self.first.version, self.mark)
        if found is not None:
            return self._outcome("committed", found)
        return self._outcome("done already") if self._is_in(load_table(self.store)) else None

    def _is_in(self, snapshot: Snapshot | None) -> bool:
        """Whether the batch number is in the table.

        Delta keeps the highest number of an application and skips all up to it. A lower one that the log does not
        have was never committed, and Delta would drop its rows without a word: it is refused.
        """
        once = self.commit.once
        known = None if once is None or snapshot is None else transaction_version(snapshot, once[0])
        if once is None or known is None or known < once[1]:
            return False
        if known == once[1] or find_transaction(self.store, -1, *once) is not None:
            return True
        raise InputError(
            f"{self.table} has batch {known} of app_id {once[0]!r}, and the log does not show that batch {once[1]} was "
            "committed: the numbers of an app_id must grow; give this one a higher number or another app_id"
        )

    def _outcome(self, state: OutcomeState, commit: FoundCommit | None = None) -> WriteOutcome:
        met = tuple(map(str, self.tried))
        outcome = WriteOutcome(state, self.mark.token, attempts=self.attempts, conflicts=met)
        return outcome if commit is None else replace(outcome, **asdict(commit))

    def _may_retry(self, conflict: Conflict) -> bool:
        """Whether another attempt may be made; an error that says what changed if the table is another one now."""
        if conflict.kind.needs_look:
            now = load_table(self.store)
            if now is None:
                self.creations += 1
                return self.creations <= _CREATIONS
            if self.first is not None and (found := self._changes(self.first, now)):
                error = TableChangedError(
                    f"{self.table}: another writer changed the table during the {self.name}: {_some(found)}; "
                    "nothing was written: check that it still fits, and run it again"
                )
                error.conflicts = tuple(map(str, self.tried))
                raise error
        if conflict.retry_class is RetryClass.FATAL:
            self.tried.pop()  # No other writer is to blame.
            return False
        return True

    @staticmethod
    def _changes(before: Snapshot, now: Snapshot) -> list[str]:
        if before.metadata.id != now.metadata.id:
            return ["it was replaced by another table"]
        return changes(before.schema, now.schema, before.partition_columns, now.partition_columns)

    def _told(self, error: Exception) -> Exception:
        """The error with what was tried; one after which the commit may still be made says so."""
        if self.asked and RetryClass.of(error) is RetryClass.UNKNOWN and not isinstance(error, TableChangedError):
            tried = f" after {describe_attempts(self.tried)}" if self.tried else ""
            return UncertainCommitError(
                f"{error}; its commit (token {self.mark.token}) is not in the log, but may still arrive: look at "
                f"the table before you run it again{tried}"
            )
        if type(error) is SparkError and RetryClass.of(error) is RetryClass.FATAL:
            return InputError(str(error))
        if self.tried and not getattr(error, "conflicts", ()):
            error.add_note(f"before that: {describe_attempts(self.tried)}")
        return error

    def _with_index(self, outcome: WriteOutcome) -> WriteOutcome:
        if not self.commit.index or outcome.version is None:
            return outcome
        from delta_sidecar.pipeline.spark_build import build_index

        try:
            build_index(self.table, outcome.version, self.storage_options, spark=self.spark)
        except Exception as error:
            reason = str(error).partition("\n")[0]
            _log.warning("%s: version %d is committed, but not indexed: %s", self.table, outcome.version, reason)
            return outcome
        return replace(outcome, indexed=True)

    # The table itself.

    def existing_or_created(self, schema: StructType) -> tuple[Snapshot, bool]:
        """The table, and whether we made it. Another's at the same moment is as good."""
        snapshot = load_table(self.store)
        if snapshot is not None:
            return snapshot, False
        mark = CommitMark("create table", self.commit.metadata, self.commit.lineage)

        def attempt() -> Snapshot:
            for make in (self._create, self._finish):
                with spark_failures(f"{self.table} could not be created"):
                    make(schema, mark)
                made = load_table(self.store)
                if made is not None:
                    return made
            raise SparkError(f"{self.table} was created, but its log has no commit that can be read from here")

        def may_retry(conflict: Conflict) -> bool:
            self.creations += 1
            return self.creations <= _CREATIONS

        retry = self.policy.mutation.retry.to_pipeline()
        what = f"{self.table}: the creation"
        snapshot = until_committed(attempt, lambda: load_table(self.store), retry, what=what, may_retry=may_retry)
        return snapshot, self._made_by(mark)

    def _made_by(self, mark: CommitMark) -> bool:
        try:
            return find_commit(self.store, -1, mark) is not None
        except DeltaSidecarError:
            return False

    def _create(self, schema: StructType, mark: CommitMark) -> None:
        check_plain_names(self.policy, schema)
        effects = PolicyEffects.of(self.policy, schema)
        partitions = ", ".join(map(quoted, effects.partition_by))
        properties = _properties(effects.table_properties)
        statement = (
            f"CREATE TABLE IF NOT EXISTS {self.sql_name} ({column_list(schema)}) USING delta"
            + (f" PARTITIONED BY ({partitions})" if partitions else "")
            + (f" TBLPROPERTIES ({properties})" if properties else "")
        )
        with own_session(self.spark, self.settings | {USER_METADATA: mark.text}) as session:
            session.sql(statement).collect()

    def _finish(self, schema: StructType, mark: CommitMark) -> None:
        """Where a writer that died left a log without a commit, SQL takes the directory for the table and does
        nothing. An append of no rows makes the table, or conflicts with who does."""
        effects = PolicyEffects.of(self.policy, schema)
        columns = [f"CAST(NULL AS {sql_type(column.type)}) AS {quoted(column.name)}" for column in schema.fields]
        options = effects.delta_properties | {"userMetadata": mark.text}
        with own_session(self.spark, self.settings) as session:
            frame = session.sql(f"SELECT {', '.join(columns)} WHERE false")
            writer = frame.write.format("delta").mode("append").options(**options)
            writer.partitionBy(*effects.partition_by).save(self.place)

    def set_properties(self, properties: Mapping[str, str]) -> Snapshot:
        """Set properties of the table; who was faster has set them, too."""

        def attempt() -> Snapshot:
            with own_session(self.spark, self.settings) as session, spark_failures(f"{self.table} was not altered"):
                session.sql(f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ({_properties(properties)})").collect()
            return found() or _gone(self.table)

        def found() -> Snapshot | None:
            snapshot = load_table(self.store)
            known = {} if snapshot is None else snapshot.metadata.properties
            return snapshot if known.items() >= properties.items() else None

        retry = self.policy.mutation.retry.to_pipeline()
        return until_committed(attempt, found, retry, what=f"{self.table}: the change of properties")


def _properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())


def _gone(table: str) -> Snapshot:
    raise SparkError(f"{table} was altered, but its log does not show it from here")
