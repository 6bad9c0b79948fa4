"""One operation on a table, in attempts: its commit is marked, looked for after a failure, and made once.

What the policy refuses is refused before Spark is asked. The statement runs in a session of its own, its commit marked
with a token; after a failure the log is searched for the token before anything else; what another writer did decides
whether another attempt is made, on a fresh snapshot and with the source evaluated again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from delta_sidecar.errors import (
    DeltaSidecarError,
    InputError,
    SparkError,
    TableChangedError,
    TableNotFoundError,
    UncertainCommitError,
)
from delta_sidecar.lake.commit_marks import CommitMark, FoundCommit, find_commit
from delta_sidecar.lake.commit_options import CommitOptions, OutcomeState, WriteOutcome
from delta_sidecar.lake.conditional_put import check_conditional_put
from delta_sidecar.lake.own_session import own_session
from delta_sidecar.lake.policies import LakePolicy
from delta_sidecar.lake.policy_effects import (
    APPEND_ONLY,
    TXN_APP,
    TXN_VERSION,
    USER_METADATA,
    PolicyEffects,
    check_drivers,
    check_plain_names,
    check_table,
)
from delta_sidecar.lake.table_schemas import changes, column_list, some, sql_type
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import transaction_version
from delta_sidecar.pipeline.bucketed_table import load_table
from delta_sidecar.pipeline.conflicts import CREATIONS, Conflict, RetryClass, describe_attempts, until_committed
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.hadoop import hadoop_options, spark_uri
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.written import find_transaction
from delta_sidecar.storage import open_store, parse_location
from delta_sidecar.storage.store import Store
from delta_sidecar.values.bucket_columns import literal, quoted
from delta_sidecar.values.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TableOperation:
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
    ) -> TableOperation:
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
                return self.creations <= CREATIONS
            if self.first is not None and (found := self._changes(self.first, now)):
                error = TableChangedError(
                    f"{self.table}: another writer changed the table during the {self.name}: {some(found)}; "
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
            return self.creations <= CREATIONS

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
