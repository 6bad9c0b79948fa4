"""Changes into a target table, once: by key, by appending, or as a whole.

By key, every change of the range is a put (insert, row after an update) or a delete (delete, row before an update) of
its key. Of each key the last one counts, in the order of versions and within one version deletes before puts. Where
keys are unique, puts and deletes of a key alternate; if they do not, or if a key is put that the target has already,
the source has several rows with that key, and the merge is refused rather than made to lose one of them.

A target's log says how far it has come: each commit records the source's version as a transaction, under an application
id made from source, target and cursor. So a range that was applied is not applied again, whatever happened to the
cursor.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from delta_sidecar.data.change_files import TYPE, VERSION
from delta_sidecar.errors import (
    DeltaSidecarError,
    DuplicateKeyError,
    InputError,
    OptionError,
    SchemaChangedError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from delta_sidecar.lake.change_feed import FEED_COLUMNS, CdfReadResult, ChangeFilter, feed_failures
from delta_sidecar.lake.own_session import source_session, view_of
from delta_sidecar.lake.policy_effects import TXN_APP, TXN_VERSION
from delta_sidecar.listing.live_files import live_rows
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import transaction_version
from delta_sidecar.pipeline.bucketed_table import NEEDS_MAPPING, load_table
from delta_sidecar.pipeline.conflicts import Conflict, RetryPolicy, until_committed
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.session import set_storage_options
from delta_sidecar.pipeline.written import MarkedCommit, find_transaction
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import canonical_uri
from delta_sidecar.values.bucket_columns import literal, quoted
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.types import ArrayType, DataType, MapType, PrimitiveType, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PUTS: Final = f"{TYPE} IN ('insert', 'update_postimage')"


class MergeStrategy(Enum):
    """How changes are applied to a target.

    Example:
        >>> from delta_sidecar.lake import MergeStrategy
        >>> MergeStrategy("upsert")
        <MergeStrategy.UPSERT: 'upsert'>
    """

    UPSERT = "upsert"
    """By key: the target has the rows of the source."""
    APPEND = "append"
    """Inserted rows are added. Other changes are refused, unless the filter `inserts_only` leaves them out."""
    REPLACE = "replace"
    """The target is overwritten by all rows at the end of the range, with their schema."""


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """What applying changes did to a target.

    Example:
        >>> from delta_sidecar.lake import apply_changes, read_changes
        >>> changes = read_changes(spark, here / "events")
        >>> done = apply_changes(changes, here / "copy", key=["id"])
        >>> done.inserted, done.version, apply_changes(changes, here / "copy", key=["id"]).was_there
        (8, 0, True)
    """

    end: int
    """The version of the source that the target has now."""
    version: int | None
    """The version of the target that the changes made; None if there was nothing to apply."""
    was_there: bool
    """Whether the target already had them, from an attempt that died after its commit."""
    inserted: int | None = None
    """Rows; None where the commit does not say."""
    updated: int | None = None
    deleted: int | None = None


def apply_changes(
    changes: CdfReadResult,
    target: str | os.PathLike[str],
    *,
    key: Sequence[str] = (),
    strategy: MergeStrategy | str = MergeStrategy.UPSERT,
    name: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    retry: RetryPolicy | None = None,
) -> AppliedChanges:
    """Apply changes to a Delta table, once, and create it if there is none.

    The cursor does not move: call `commit` of the changes afterwards. If the process dies in between, the changes are
    in the target, and applying them again does nothing.

    Columns that are new in the source are added to the target. Any other difference of the schemas is refused, except
    with `REPLACE`, which adopts the source's schema.

    Args:
        changes: The result of `read_changes`.
        target: The location of the target.
        key: The columns that identify a row; null is a value like any other. Needed for `UPSERT`.
        strategy: `UPSERT`, `APPEND` or `REPLACE`, or its name.
        name: With the source's id and the target's location, this names the transactions in the target's log; the
            name of the cursor if not given.
        storage_options: Credentials and settings of the target's object store; the source's if not given.
        retry: How often to try again after a conflict with another writer.

    Returns:
        What the target's commit says of itself.

    Raises:
        DuplicateKeyError: Several rows of the source have the same key.
        SchemaChangedError: The schemas differ in more than new columns.
        InputError: The target has rows that no sync has written, or `APPEND` gets updates or deletes.
        OptionError: The key or the strategy is wrong.
        UnknownColumnError: The source has no such key column.
        UnsupportedTypeError: A key column is a map or a variant, which cannot be compared.
        ConflictError: Other writers committed first, at every attempt.

    Example:
        >>> from delta_sidecar.lake import apply_changes, read_changes
        >>> changes = read_changes(spark, here / "events")
        >>> apply_changes(changes, here / "copy", key=["id"]).inserted
        8
    """
    options = changes.source.storage_options if storage_options is None else storage_options
    own = changes.options.dataset_name if name is None else name
    place = TargetTable(changes.source.spark, str(target), txn_app_id(changes.table_id, target, own or ""), options)
    how = Way(strategy_of(strategy), tuple(key), retry or RetryPolicy())
    set_storage_options(place.spark, [place.uri], options)
    check_reach(place.spark, place.uri)
    return applied(changes, place, how)


def strategy_of(strategy: MergeStrategy | str) -> MergeStrategy:
    """The strategy of that name."""
    try:
        return MergeStrategy(strategy)
    except ValueError:
        known = ", ".join(each.value for each in MergeStrategy)
        raise OptionError(f"strategy {strategy!r} is not known; use one of {known}") from None


def txn_app_id(table_id: str, target: str | os.PathLike[str], name: str) -> str:
    """The id of the transactions of a sync: the same as long as source, target and cursor are the same."""
    parts = json.dumps([table_id, canonical_uri(target), name])
    return f"sidecar-sync-{blake2b(parts.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Way:
    """How changes are applied."""

    strategy: MergeStrategy
    key: tuple[str, ...] = ()
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    overwrite: bool = False
    """Whether all rows of the source take the place of those in the target."""

    def __post_init__(self) -> None:
        if self.strategy is MergeStrategy.UPSERT and not self.key:
            raise OptionError("strategy upsert needs a key: the columns that identify a row")
        if self.strategy is not MergeStrategy.UPSERT and self.key:
            raise OptionError(f"strategy {self.strategy.value} takes no key: it does not compare rows")
        if len({folded(name) for name in self.key}) != len(self.key):
            raise OptionError(f"the key names a column twice: {', '.join(self.key)}")

    def check_key(self, schema: StructType) -> None:
        """Whether the columns of the key can identify rows of a schema."""
        for name in self.key:
            column = schema.find(name)
            if column is None:
                raise UnknownColumnError(f"the key names column {name!r}, which the source does not have")
            if not _is_comparable(column.type):
                raise UnsupportedTypeError(f"column {name!r} is {column.type}, which cannot be a key")


def _is_comparable(kind: DataType) -> bool:
    match kind:
        case StructType():
            return all(_is_comparable(column.type) for column in kind.fields)
        case ArrayType():
            return _is_comparable(kind.element)
        case PrimitiveType(name):
            return name != "variant"
    return not isinstance(kind, MapType)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table that Spark writes, and the transactions of one sync in its log."""

    spark: SparkSession
    uri: str
    app_id: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        """The location in Spark's words."""
        return spark_uri(self.uri, self.storage_options)

    @property
    def store(self) -> Store:
        return open_store(self.uri, self.storage_options)

    def snapshot(self) -> Snapshot | None:
        """The newest version; None if there is no table."""
        return load_table(self.store)

    def written(self, version: int, before: int) -> AppliedChanges | None:
        """What the commit with a transaction says; None if the target does not have it."""
        now = self.snapshot()
        reached = None if now is None else transaction_version(now, self.app_id)
        if reached is None or reached < version:
            return None
        commit = find_transaction(self.store, before, self.app_id, version)
        return AppliedChanges(version, None, True) if commit is None else _told(version, commit)

    def transaction(self, version: int) -> dict[str, str]:
        """Settings of a session whose next statement carries a transaction."""
        return {TXN_APP: self.app_id, TXN_VERSION: str(version)}

    def writer(self, frame: DataFrame, version: int, mode: str, reached: int | None = None) -> Any:
        """A write that carries a transaction, unless the target has reached that version: it would not be made."""
        writer: Any = frame.write.format("delta").mode(mode)
        if reached is not None and reached >= version:
            return writer
        return writer.option("txnAppId", self.app_id).option("txnVersion", str(version))


def _told(end: int, commit: MarkedCommit) -> AppliedChanges:
    return AppliedChanges(
        end,
        commit.version,
        False,
        commit.count_of("numTargetRowsInserted", "numOutputRows"),
        commit.count_of("numTargetRowsUpdated"),
        commit.count_of("numTargetRowsDeleted"),
    )


def applied(changes: CdfReadResult, target: TargetTable, way: Way) -> AppliedChanges:
    """Apply changes, unless the target has them."""
    way.check_key(changes.range.schema)
    before = target.snapshot()
    reached = None if before is None else transaction_version(before, target.app_id)
    if reached is not None and reached >= changes.end and not way.overwrite:
        return AppliedChanges(reached, None, True)
    if changes.end < changes.start:
        return AppliedChanges(changes.end, None, False)
    application = _Application(changes, target, way)
    at = -1 if before is None else before.version

    def attempt() -> AppliedChanges:
        with _failures(changes.source.uri, target.uri):
            application.run(target.snapshot())
        done = target.written(changes.end, at) or AppliedChanges(changes.end, None, False)
        if way.overwrite and done.version is None:
            # An overwrite by the same version carries no transaction, which Delta would skip.
            now = target.snapshot()
            return replace(done, version=None if now is None else now.version, was_there=False)
        return done

    def committed() -> AppliedChanges | None:
        # An overwrite by the same version does not show by its transaction; made twice, it is the same.
        return None if way.overwrite else target.written(changes.end, at)

    what = f"{way.strategy.value} of {changes.source.uri} into {target.uri}"
    return until_committed(attempt, committed, way.retry, what=what, may_retry=application.still_fits)


def check_vacant(snapshot: Snapshot | None, uri: str) -> None:
    """Refuse a target with rows of others: afterwards nothing would show which rows are the source's."""
    if snapshot is not None and next(live_rows(snapshot, ["path"], 1), None) is not None:
        raise InputError(
            f"{uri} already has rows, and the first run adds all rows of the source; name an empty or a new table, or "
            "overwrite it (strategy replace, or full)"
        )


def check_schema(source: StructType, target: StructType, uri: str) -> bool:
    """Refuse a target that the rows do not fit; whether it lacks columns, which are added."""
    reason = next(_misfits(source, target, ""), None)
    if reason is not None:
        raise SchemaChangedError(
            f"the rows do not fit {uri}: {reason}; only new columns can be added; use strategy replace, or start "
            "over with all rows of the source (full)"
        )
    return _lacks(source, target)


def _misfits(source: DataType, target: DataType, above: str) -> Iterator[str]:
    match source, target:
        case StructType(), StructType():
            yield from _misfits_of_fields(source, target, above)
        case ArrayType(), ArrayType():
            yield from _misfits(source.element, target.element, f"{above}element.")
        case MapType(), MapType():
            yield from _misfits(source.key, target.key, f"{above}key.")
            yield from _misfits(source.value, target.value, f"{above}value.")
        case _ if str(source) != str(target):
            yield f"column {above[:-1]!r} is {source} in the source, but {target} in the target"


def _misfits_of_fields(source: StructType, target: StructType, above: str) -> Iterator[str]:
    for column in target.fields:
        given = source.find(column.name)
        if given is None:
            yield f"the source has no column {f'{above}{column.name}'!r} any more"
        else:
            yield from _misfits(given.type, column.type, f"{above}{column.name}.")


def _lacks(source: DataType, target: DataType) -> bool:
    match source, target:
        case StructType(), StructType():
            found = [(column.type, target.find(column.name)) for column in source.fields]
            return any(there is None or _lacks(kind, there.type) for kind, there in found)
        case ArrayType(), ArrayType():
            return _lacks(source.element, target.element)
        case MapType(), MapType():
            return _lacks(source.key, target.key) or _lacks(source.value, target.value)
    return False


@dataclass(frozen=True, slots=True)
class _Application:
    """One range of changes on its way into a target."""

    changes: CdfReadResult
    target: TargetTable
    way: Way

    @property
    def columns(self) -> list[str]:
        """The columns that go into the target."""
        return [name for name in self.changes.frame.columns if name not in FEED_COLUMNS]

    @property
    def schema(self) -> StructType:
        return self.changes.range.schema.select(self.columns)

    def still_fits(self, conflict: Conflict) -> bool:
        """Whether to try again: not if another writer has changed the columns in a way that the rows do not fit."""
        now = self.target.snapshot() if conflict.kind.needs_look else None
        if now is not None and self.way.strategy is not MergeStrategy.REPLACE:
            check_schema(self.schema, now.schema, self.target.uri)
        return True

    def run(self, target: Snapshot | None) -> None:
        """Write the changes in one commit."""
        self._check_columns()
        if self.way.strategy is MergeStrategy.REPLACE or (self.changes.is_snapshot and self.way.overwrite):
            self._overwrite(target)
        elif self.changes.is_snapshot:
            check_vacant(target, self.target.uri)
            self._check_unique()
            self._append(target, self._rows(self.changes.frame))
        elif self.way.strategy is MergeStrategy.APPEND:
            self._append(target, self._rows(self.changes.frame.where(self._only_inserts())))
        else:
            self._merge(target)

    def _check_columns(self) -> None:
        needed = {MergeStrategy.UPSERT: (TYPE, VERSION, *self.way.key), MergeStrategy.APPEND: (TYPE,)}
        given = {folded(name) for name in self.changes.frame.columns}
        for name in needed.get(self.way.strategy, ()):
            if folded(name) not in given:
                raise UnknownColumnError(
                    f"the changes were read without column {name!r}, which is needed to apply them; read it as well"
                )

    def _rows(self, frame: DataFrame) -> DataFrame:
        return frame.selectExpr(*map(quoted, self.columns))

    # All rows.

    def _overwrite(self, target: Snapshot | None) -> None:
        self._check_unique()
        rows = self.changes.source.rows(self.changes.end)
        condition = self.changes.options.predicate
        rows = self._rows(rows if condition is None else rows.where(condition))
        reached = None if target is None else transaction_version(target, self.target.app_id)
        writer = self.target.writer(rows, self.changes.end, "overwrite", reached).option("overwriteSchema", "true")
        self._save(writer)

    def _append(self, target: Snapshot | None, rows: DataFrame) -> None:
        writer = self.target.writer(rows, self.changes.end, "append")
        if target is None:
            self._save(writer)
            return
        if check_schema(self.schema, target.schema, self.target.uri):
            writer = writer.option("mergeSchema", "true")
        writer.save(self.target.path)

    def _save(self, writer: Any) -> None:
        """Into a new table, or one that becomes as new: partitioned as the source is."""
        partitions = self.changes.range.at_end.metadata.partitionColumns
        chosen = [name for name in partitions if name in self.columns]
        if any(NEEDS_MAPPING.search(name) for name in self.columns):
            writer = writer.option("delta.columnMapping.mode", "name")
        (writer.partitionBy(*chosen) if chosen else writer).save(self.target.path)

    def _check_unique(self) -> None:
        """All rows that have a key in common with another are too many. Only the key columns are read for that."""
        if not self.way.key:
            return
        keys = ", ".join(map(quoted, self.way.key))
        with view_of(self.changes.frame) as rows:
            found = self.changes.source.spark.sql(
                f"SELECT to_json(struct({keys}), map('ignoreNullFields', 'false')) AS k FROM {rows} "
                f"GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
            ).collect()
        if found:
            raise DuplicateKeyError(
                f"{self.changes.source.uri} has several rows with the key {found[0]['k']} at version "
                f"{self.changes.end}; choose a key that is unique"
            )

    # Inserts.

    def _only_inserts(self) -> str:
        refusal = literal(
            "delta_sidecar.errors.InputError: the changes hold updates or deletes, which strategy append does not "
            "apply; use upsert, or leave them out with the filter inserts_only\n"
        )
        return f"CASE WHEN {TYPE} = 'insert' THEN true ELSE CAST(raise_error({refusal}) AS BOOLEAN) END"

    # By key.

    def _merge(self, target: Snapshot | None) -> None:
        if target is None:
            self._create()
        lacks = target is not None and check_schema(self.schema, target.schema, self.target.uri)
        if not lacks and not self.changes.range.has_changed_files():
            return
        names = _Names.beside(self.changes.frame.columns)
        last, settings = self._last_of_each(names), self.target.transaction(self.changes.end)
        with source_session(last, settings) as (session, source):
            session.sql(self._statement(source, names, lacks)).collect()

    def _create(self) -> None:
        """An empty table, whose log does not say yet how far it has come."""
        writer: Any = self._rows(self.changes.frame).where("false").write.format("delta").mode("append")
        self._save(writer)

    def _last_of_each(self, names: _Names) -> DataFrame:
        """The last change of each key, with `put` and `was_put`: whether it is one, and whether the first was.

        One exchange and one sort, by key, version and kind. Puts and deletes of a key must alternate: two of a kind
        in a row are rows with the same key. Without the deletes of the feed only puts in one version tell.
        """
        keys = ", ".join(map(quoted, self.way.key))
        window = f"OVER (PARTITION BY {keys} ORDER BY {VERSION}, {names.put})"
        columns = [quoted(name) for name in self.columns]
        alike = f"{names.next} = {names.put}"
        steps = [f"lead({names.put}) {window} AS {names.next}"]
        if self._alternates:
            steps.append(f"row_number() {window} AS {names.number}")
            was_put = f"({names.number} % 2 = 1) = {names.put}"
        else:
            steps.append(f"lead({VERSION}) {window} AS {names.number}")
            alike = f"{alike} AND {names.put} AND {names.number} = {VERSION}"
            was_put = "false"
        refusal = _refusal(
            self.way.key,
            "",
            "occurs more than once in a version of the source, or is inserted again before it was deleted",
        )
        last = f"CASE WHEN {alike} THEN CAST({refusal} AS BOOLEAN) ELSE {names.next} IS NULL END"
        return (
            self.changes.frame.selectExpr(*columns, VERSION, f"{_PUTS} AS {names.put}")
            .selectExpr(*columns, VERSION, names.put, *steps)
            .where(last)
            .selectExpr(*columns, names.put, f"{was_put} AS {names.was_put}")
        )

    @property
    def _alternates(self) -> bool:
        return self.changes.options.change_filter is ChangeFilter.INCLUDE_ALL

    def _statement(self, source: str, names: _Names, lacks: bool) -> str:
        """The refusal is a value, not a condition: Delta evaluates conditions of matched rows for all rows."""
        columns = [quoted(name) for name in self.columns]
        same = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in self.way.key)
        first = quoted(self.way.key[0])
        refusal = _refusal(
            self.way.key,
            "s.",
            "is inserted although the target has it: the source has it twice, or somebody else wrote to the target",
        )
        refused = f"CASE WHEN s.{names.was_put} THEN {refusal} ELSE s.{first} END"
        return (
            f"MERGE {'WITH SCHEMA EVOLUTION ' if lacks else ''}INTO delta.{quoted(self.target.path)} AS t "
            f"USING {source} AS s ON {same} "
            f"WHEN MATCHED AND s.{names.was_put} THEN UPDATE SET {first} = {refused} "
            f"WHEN MATCHED AND NOT s.{names.put} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in columns)} "
            f"WHEN NOT MATCHED AND s.{names.put} "
            f"THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(f's.{name}' for name in columns)})"
        )


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of our own columns, beside those of the table."""

    put: str
    next: str
    number: str
    was_put: str

    @staticmethod
    def beside(columns: Sequence[str]) -> _Names:
        prefix, taken = "_sidecar_", {folded(name) for name in columns}
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        return _Names(*(f"{prefix}{name}" for name in ("put", "next", "number", "was_put")))


def _refusal(key: Sequence[str], of: str, why: str) -> str:
    """An expression that ends the statement with an error of ours, which names the key."""
    columns = ", ".join(f"{of}{quoted(name)}" for name in key)
    begin, end = literal("delta_sidecar.errors.DuplicateKeyError: key "), literal(f" {why}\n")
    return f"raise_error(concat({begin}, to_json(struct({columns}), map('ignoreNullFields', 'false')), {end}))"


@contextmanager
def _failures(source: str, target: str) -> Iterator[None]:
    try:
        with feed_failures(f"applying the changes of {source} to {target} failed"):
            yield
    except DeltaSidecarError as error:
        if "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" not in str(error):
            raise
        raise DuplicateKeyError(
            f"several rows of {source} have the same key in one version; choose a key that is unique"
        ) from error
