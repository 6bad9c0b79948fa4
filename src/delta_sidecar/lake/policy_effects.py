"""What a policy does: writer options, session settings and table properties. The one place that knows Delta's names.

What Delta would refuse, or take and silently ignore, is refused here by name, before Spark is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from delta_sidecar.errors import InputError, OptionError, UnknownColumnError, did_you_mean
from delta_sidecar.lake.policies import Feature, LakePolicy
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.pipeline.bucketed_table import NEEDS_MAPPING
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.values.bucket_columns import quoted
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType, StructField, StructType

Mode: TypeAlias = Literal["append", "overwrite"]

APPEND_ONLY: Final = "delta.appendOnly"
MAPPING: Final = "delta.columnMapping.mode"
STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
STATS_COUNT: Final = "delta.dataSkippingNumIndexedCols"
TARGET_SIZE: Final = "sidecar.targetFileSize"
"""Ours: open-source Delta refuses `delta.targetFileSize`."""
USER_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
TXN_APP: Final = "spark.databricks.delta.write.txnAppId"
TXN_VERSION: Final = "spark.databricks.delta.write.txnVersion"
OF_ONE_COMMIT: Final = (USER_METADATA, TXN_APP, TXN_VERSION)
"""Settings of a session that belong to one commit: they must never reach another one's."""
AUTO_MERGE: Final = "spark.databricks.delta.schema.autoMerge.enabled"
LOG_STORES: Final = ("spark.delta.logStore.s3a.impl", "spark.delta.logStore.class")

_BIN_SIZE: Final = "spark.databricks.delta.optimizeWrite.binSize"
_LARGEST: Final = "spark.databricks.delta.optimize.maxFileSize"
_SMALLEST: Final = "spark.databricks.delta.optimize.minFileSize"
_OWN_STATS: Final = 32
"""The number of leaf columns that Delta keeps statistics of by default."""
_FEATURES: Final[dict[Feature, tuple[str, str, str]]] = {
    "change_data_feed": ("delta.enableChangeDataFeed", "true", "writer 7"),
    "column_defaults": ("delta.feature.allowColumnDefaults", "supported", "writer 7"),
    "deletion_vectors": ("delta.enableDeletionVectors", "true", "reader 3 and writer 7"),
    "in_commit_timestamps": ("delta.enableInCommitTimestamps", "true", "writer 7"),
    "row_tracking": ("delta.enableRowTracking", "true", "writer 7"),
    "timestamp_ntz": ("delta.feature.timestampNtz", "supported", "reader 3 and writer 7"),
    "type_widening": ("delta.enableTypeWidening", "true", "reader 3 and writer 7"),
    "v2_checkpoints": ("delta.checkpointPolicy", "v2", "reader 3 and writer 7"),
    "vacuum_protocol_check": ("delta.feature.vacuumProtocolCheck", "supported", "reader 3 and writer 7"),
}
_WITH_STATS: Final = frozenset(
    ("byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz")
)
_NOT_PARTITIONS: Final = ("array", "map", "struct", "variant")
_LONELY_LOG_STORES: Final = (
    "S3SingleDriverLogStore",
    "HDFSLogStore",
    "LocalLogStore",
    "AzureLogStore",
    "GCSLogStore",
    "DelegatingLogStore",
)
"""LogStores that do not coordinate drivers on S3."""
_SIMPLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class PolicyEffects:
    """What a policy does to Spark and Delta.

    Example:
        >>> from delta_sidecar.lake import DeltaMutationPolicy, LakePolicy, PolicyEffects
        >>> effects = PolicyEffects.of(LakePolicy(mutation=DeltaMutationPolicy(append_only=True)))
        >>> effects.table_properties["delta.appendOnly"], effects.writer_options
        ('true', {'optimizeWrite': 'true'})
    """

    writer_options: Mapping[str, str] = field(default_factory=dict)
    """Of every write with a DataFrame."""
    session_settings: Mapping[str, str] = field(default_factory=dict)
    """Of the session that runs the operation."""
    table_properties: Mapping[str, str] = field(default_factory=dict)
    """Of the table; set when it is created."""
    start_settings: Mapping[str, str] = field(default_factory=dict)
    """What Spark must have been started with."""
    partition_by: tuple[str, ...] = ()
    zorder_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What the user should know."""

    @classmethod
    def of(cls, policy: LakePolicy, schema: StructType | None = None) -> PolicyEffects:
        """The effects of a policy; with the schema of the table also those that depend on its columns.

        Raises:
            InputError: A column of the policy is not in the schema, or has a type that cannot be used there.
        """
        if schema is not None:
            _check_columns(policy, schema)
        return cls(
            _writer_options(policy),
            _session_settings(policy),
            _table_properties(policy, schema),
            {} if policy.mutation.log_store is None else {LOG_STORES[0]: policy.mutation.log_store},
            policy.write.partition_by,
            policy.write.zorder_by,
            tuple(_notes(policy)),
        )

    @property
    def delta_properties(self) -> dict[str, str]:
        """The properties that change what Delta does; our own only store a setting."""
        return {name: value for name, value in self.table_properties.items() if name.startswith("delta.")}


def _writer_options(policy: LakePolicy) -> dict[str, str]:
    options = {} if policy.write.target_bytes is None else {"optimizeWrite": "true"}
    mode = policy.schema.schema_mode
    return options | ({} if mode is None else {f"{mode}Schema": "true"})


def _session_settings(policy: LakePolicy) -> dict[str, str]:
    target = policy.write.target_bytes
    sizes = {} if target is None else {_BIN_SIZE: f"{target}b", _LARGEST: str(target), _SMALLEST: str(target // 2)}
    return sizes | ({AUTO_MERGE: "true"} if policy.schema.schema_mode == "merge" else {})


def _table_properties(policy: LakePolicy, schema: StructType | None) -> dict[str, str]:
    properties = {name: value for name, value, _ in (_FEATURES[feature] for feature in policy.write.enable_features)}
    if policy.mutation.append_only:
        properties[APPEND_ONLY] = "true"
    if policy.schema.column_mapping_mode is not None:
        properties[MAPPING] = policy.schema.column_mapping_mode
    if policy.write.target_bytes is not None:
        properties[TARGET_SIZE] = str(policy.write.target_bytes)
    return properties | _stats_properties(policy, schema)


def _stats_properties(policy: LakePolicy, schema: StructType | None) -> dict[str, str]:
    write = policy.write
    if write.stats_policy == "off":
        return {STATS_COUNT: "0"}
    if write.stats_policy == "explicit":
        return {STATS_COLUMNS: ",".join(map(_stats_name, write.stats_columns))}
    chosen = None if schema is None else _auto_columns(policy, schema)
    return {} if chosen is None else {STATS_COLUMNS: ",".join(chosen)}


def _stats_name(name: str) -> str:
    """A column as Delta reads it in a list: dots separate the parts of a nested one."""
    return ".".join(part if _SIMPLE.fullmatch(part) else quoted(part) for part in name.split("."))


def _auto_columns(policy: LakePolicy, schema: StructType) -> list[str] | None:
    """Ordered columns first, then times, then the others; None where that is what Delta does unasked."""
    write = policy.write
    partitions = {folded(name) for name in write.partition_by}
    leaves = [leaf for leaf in _leaves(schema) if folded(leaf[0][0]) not in partitions]
    if len(leaves) <= min(_OWN_STATS, write.stats_max_columns):
        return None
    ordered = {folded(name): number for number, name in enumerate(write.zorder_by)}

    def rank(leaf: tuple[tuple[str, ...], DataType]) -> tuple[int, int]:
        path, kind = leaf
        number = ordered.get(folded(".".join(path)))
        if number is not None:
            return 0, number
        return (1, 0) if str(kind) in ("timestamp", "timestamp_ntz", "date") else (2, 0)

    chosen = sorted((leaf for leaf in leaves if _has_stats(leaf[1])), key=rank)[: write.stats_max_columns]
    if without := ordered.keys() - {folded(".".join(path)) for path, _ in chosen}:
        raise InputError(f"zorder_by names {min(without)}, which has no statistics; Delta refuses to order by it")
    return [".".join(part if _SIMPLE.fullmatch(part) else quoted(part) for part in path) for path, _ in chosen]


def _leaves(schema: StructType, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], DataType]]:
    for column in schema.fields:
        if isinstance(column.type, StructType):
            yield from _leaves(column.type, (*above, column.name))
        else:
            yield (*above, column.name), column.type


def _has_stats(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind.name in _WITH_STATS)


def _is_simple(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind.name != "variant")


def _notes(policy: LakePolicy) -> Iterator[str]:
    for feature in policy.write.enable_features:
        needed = _FEATURES[feature][2]
        older = "readers and writers" if "reader" in needed else "writers"
        yield f"{feature} raises the table's protocol to {needed}, where it is lower: older {older} stop working"
    if policy.schema.column_mapping_mode is not None:
        yield "column mapping raises the table's protocol to reader 2 and writer 7: older ones stop working"
    if policy.write.stats_policy == "off":
        yield "without statistics no file can be skipped, by any reader"
    if policy.write.zorder_by:
        yield f"optimize orders by {', '.join(policy.write.zorder_by)}; a write does not"


# What is refused because of the columns of a schema.


def _check_columns(policy: LakePolicy, schema: StructType) -> None:
    write = policy.write
    for name in write.partition_by:
        column = _column(schema, "partition_by", name)
        if column.type.type in _NOT_PARTITIONS:
            raise InputError(f"partition_by names {name} of type {column.type}, which cannot be a partition column")
    if write.partition_by and len(write.partition_by) >= len(schema.fields):
        raise InputError("partition_by names every column; a table needs one that is not a partition column")
    for what, names in (("zorder_by", write.zorder_by), ("stats_columns", write.stats_columns)):
        for name in names:
            kind = _column(schema, what, name).type
            if not (_is_simple(kind) if what == "zorder_by" else _has_stats(kind) or isinstance(kind, StructType)):
                raise InputError(f"{what} names {name} of type {kind}, which cannot be used there")


def _column(schema: StructType, what: str, name: str) -> StructField:
    try:
        return schema.resolve([name] if schema.find(name) is not None else name.split("."))[-1]
    except UnknownColumnError:
        near = did_you_mean(name, schema.names)
        raise UnknownColumnError(f"{what} names {name}, which the table does not have{near}") from None


def check_plain_names(policy: LakePolicy, schema: StructType) -> None:
    """Refuse to make a table of columns with names that Parquet does not take, unless columns are mapped."""
    if policy.schema.column_mapping_mode is not None:
        return
    for path, _ in _leaves(schema):
        if odd := [part for part in path if NEEDS_MAPPING.search(part)]:
            raise InputError(f'column {odd[0]!r} needs column mapping; set column_mapping_mode = "name" in the policy')


# What is refused because of the operation.


def write_options(policy: LakePolicy, mode: str, replace_where: str | None) -> dict[str, str]:
    """The options of a write in that mode. Delta ignores half of the combinations that make no sense; we refuse them.

    Raises:
        OptionError: The mode is not known, or does not go with the policy or with `replace_where`.
    """
    if mode not in ("append", "overwrite"):
        raise OptionError(f"mode {mode!r} is not append or overwrite{did_you_mean(mode, ('append', 'overwrite'))}")
    if mode == "append" and replace_where is not None:
        raise OptionError("replace_where needs mode overwrite; Delta ignores it in an append")
    if mode == "overwrite":
        refuse_if_append_only(policy, "replace_where" if replace_where else "overwrite")
    if policy.schema.schema_mode == "overwrite":
        if mode == "append":
            raise OptionError('schema_mode = "overwrite" needs mode overwrite; Delta ignores it in an append')
        if replace_where is not None:
            raise OptionError('schema_mode = "overwrite" cannot be used with replace_where: Delta ignores it there')
    return _writer_options(policy) | ({} if replace_where is None else {"replaceWhere": replace_where})


def refuse_if_append_only(policy: LakePolicy, what: str) -> None:
    """
    Raises:
        OptionError: The table is append-only by policy.
    """
    if policy.mutation.append_only:
        raise OptionError(f"{what} is refused: the policy is append_only; rows may only be added")


# What is refused because of the table, the store or the session.


def check_table(policy: LakePolicy, snapshot: Snapshot, replaces_schema: bool = False) -> None:
    """Refuse a table that is not as the policy has it, where no write changes that.

    Raises:
        InputError: Partitioning, column mapping or a column of the policy differs from the table.
    """
    where, there = snapshot.store.root_uri, snapshot.partition_columns
    wanted = policy.write.partition_by
    if wanted and not replaces_schema and [*map(folded, wanted)] != [*map(folded, there)]:
        raise InputError(
            f"{where} is partitioned by {', '.join(there) or 'nothing'}, the policy by {', '.join(wanted)}; "
            'only an overwrite with schema_mode = "overwrite" changes that'
        )
    mapping = policy.schema.column_mapping_mode
    if mapping is not None and snapshot.mapping_mode not in (mapping, "none"):
        raise InputError(f"{where} maps columns by {snapshot.mapping_mode}; Delta cannot change that to {mapping}")
    if mapping == "id" and snapshot.mapping_mode == "none":
        raise InputError(f'{where} maps no columns; Delta can change that to "name", not to "id"')


def check_order(policy: LakePolicy, snapshot: Snapshot) -> None:
    """Refuse to order the files of a table as the policy says, where Delta would.

    Raises:
        InputError: The table is clustered, or a column of `zorder_by` is missing, a partition column or without
            statistics.
    """
    names = policy.write.zorder_by
    where = snapshot.store.root_uri
    if names and "clustering" in (snapshot.protocol.writerFeatures or ()):
        raise InputError(f"{where} is clustered: Delta orders it by its clustering columns; leave out zorder_by")
    partitions = {folded(name) for name in snapshot.partition_columns}
    known = _collected(snapshot) if names else set()
    for name in names:
        kind = _column(snapshot.schema, "zorder_by", name).type
        if folded(name) in partitions:
            raise InputError(f"zorder_by names {name}, a partition column of {where}; Delta cannot order by it")
        if not _is_simple(kind):
            raise InputError(f"zorder_by names {name} of type {kind}; Delta cannot order by it")
        if folded(name) not in known:
            raise InputError(
                f"zorder_by names {name}, but {where} has no statistics of it; Delta refuses to order by it"
            )


def _collected(snapshot: Snapshot) -> set[str]:
    """The columns that Delta keeps statistics of: those that are listed, or the first ones."""
    properties = snapshot.metadata.properties
    partitions = {folded(name) for name in snapshot.partition_columns}
    leaves = [".".join(path) for path, _ in _leaves(snapshot.schema) if folded(path[0]) not in partitions]
    if (listed := properties.get(STATS_COLUMNS)) is not None:
        parts = [folded(name.strip().replace("`", "")) for name in listed.split(",")]
        return {folded(leaf) for leaf in leaves if folded(leaf).startswith(tuple(f"{p}." for p in parts))} | {*parts}
    count = int(properties.get(STATS_COUNT, _OWN_STATS))
    return {folded(leaf) for leaf in (leaves if count < 0 else leaves[:count])}


def missing_properties(policy: LakePolicy, snapshot: Snapshot) -> dict[str, str]:
    """The properties of the policy that the table does not have; those that only remember something aside."""
    wanted = PolicyEffects.of(policy, snapshot.schema).delta_properties
    known = snapshot.metadata.properties
    features = {*(snapshot.protocol.writerFeatures or ()), *(snapshot.protocol.readerFeatures or ())}
    return {
        name: value
        for name, value in wanted.items()
        if known.get(name) != value and name.removeprefix("delta.feature.") not in features
    }


def check_drivers(policy: LakePolicy, uri: str, setting: Callable[[str], str | None]) -> None:
    """Refuse several drivers on S3 without a LogStore that coordinates them; `setting` looks up one of Spark's.

    Raises:
        OptionError: Commits of two drivers would overwrite each other.
    """
    if policy.mutation.drivers == "one" or parse_location(uri).scheme != "s3":
        return
    found = next((value for name in LOG_STORES if (value := setting(name))), None)
    if found is None or found.rpartition(".")[2] in _LONELY_LOG_STORES:
        now = "Spark's own LogStore for S3" if found is None else found
        raise OptionError(
            f'{uri}: drivers = "many" needs a LogStore that coordinates drivers, and {now} does not: two drivers can '
            f"overwrite each other's commits; start Spark with {LOG_STORES[0]}=io.delta.storage.S3DynamoDBLogStore"
        )
