"""Policies: what a team decides once about a table, and every job that writes it must obey.

Frozen and strict: a field that is not known is refused, and so are values that exclude each other. What a policy does
to Spark and Delta is in `policy_effects`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from delta_sidecar.errors import OptionError, did_you_mean
from delta_sidecar.pipeline.conflicts import RetryPolicy
from delta_sidecar.values.column_names import folded, named_twice

StatsPolicy: TypeAlias = Literal["off", "explicit", "auto"]
Drivers: TypeAlias = Literal["one", "many"]
SchemaMode: TypeAlias = Literal["merge", "overwrite"]
MappingMode: TypeAlias = Literal["id", "name"]
Feature: TypeAlias = Literal[
    "change_data_feed",
    "column_defaults",
    "deletion_vectors",
    "in_commit_timestamps",
    "row_tracking",
    "timestamp_ntz",
    "type_widening",
    "v2_checkpoints",
    "vacuum_protocol_check",
]
FEATURES: Final[tuple[Feature, ...]] = get_args(Feature)
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "stats_policy": get_args(StatsPolicy),
    "enable_features": FEATURES,
    "drivers": get_args(Drivers),
    "require_conditional_put": ("true", "false", '"declared"'),
    "schema_mode": get_args(SchemaMode),
    "column_mapping_mode": get_args(MappingMode),
}
_MOVED: Final = {
    "retry_policy": "write retry",
    "require_locking_provider": 'S3 has conditional put; write require_conditional_put, and drivers = "many" with '
    "log_store if several Spark drivers write",
    "locking_option_keys": "Spark takes a LogStore, not storage options; write log_store",
    "log_storage_options": "the log is in the table's own store; leave it out",
    "isolation_level": "open-source Delta has Serializable only; leave it out",
}
"""Fields of other designs, and what to write instead."""
_FIELD: Final = re.compile(r"unknown field `([^`]+)`")
_PATH: Final = re.compile(r"`\$\.?([^`]*)`")


def _check_choice(field: str, value: object) -> None:
    known = _CHOICES[field]
    if value not in known:
        raise OptionError(f"{field} {value!r} is not one of {', '.join(known)}{did_you_mean(str(value), known)}")


def _check_names(field: str, names: Sequence[str]) -> None:
    if isinstance(names, str) or not all(names):
        raise OptionError(f"{field} takes a list of names, none of them empty")
    if twice := named_twice(names):
        raise OptionError(f"{field} names {twice} twice")


def _check_apart(field: str, names: Sequence[str], partitions: Sequence[str], why: str) -> None:
    known = {folded(name) for name in partitions}
    if both := [name for name in names if folded(name) in known]:
        raise OptionError(f"{field} names {both[0]}, a column of partition_by: {why}")


class DeltaRetryPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How often a write that conflicts with another writer is attempted. Pauses are random, up to a limit that doubles.

    Raises:
        OptionError: `attempts` is below 1, or a delay is below 0.

    Example:
        >>> from delta_sidecar.lake import DeltaRetryPolicy
        >>> DeltaRetryPolicy(attempts=3).attempts
        3
    """

    attempts: int = 12
    """Number of attempts; 1 means no retry."""
    first_delay: float = 0.25
    """Longest first pause in seconds."""
    longest_delay: float = 20.0
    """Longest pause in seconds."""

    def __post_init__(self) -> None:
        self.to_pipeline()

    def to_pipeline(self) -> RetryPolicy:
        return RetryPolicy(self.attempts, self.first_delay, self.longest_delay)


class DeltaWritePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How files are laid out, which statistics they keep, and which features the table has.

    Raises:
        OptionError: A value is not known, or two of them contradict each other.

    Example:
        >>> from delta_sidecar.lake import DeltaWritePolicy
        >>> policy = DeltaWritePolicy(target_file_size="128MB", partition_by=("day",), zorder_by=("user",))
        >>> policy.target_bytes
        128000000
    """

    target_file_size: int | str | None = 96 * 1024 * 1024
    """Bytes, or text such as `128MB`. None leaves the sizes to Spark: writes are not shuffled for the sake of files."""
    partition_by: tuple[str, ...] = ()
    zorder_by: tuple[str, ...] = ()
    """What `optimize` orders by; a write does not."""
    stats_policy: StatsPolicy = "auto"
    """`auto`: columns of `zorder_by`, then times, then the others in their order, up to `stats_max_columns`."""
    stats_columns: tuple[str, ...] = ()
    """For `explicit`."""
    stats_max_columns: int = 32
    enable_features: tuple[Feature, ...] = ()

    def __post_init__(self) -> None:
        _check_choice("stats_policy", self.stats_policy)
        for name in ("partition_by", "zorder_by", "stats_columns", "enable_features"):
            _check_names(name, getattr(self, name))
        for feature in self.enable_features:
            _check_choice("enable_features", feature)
        _ = self.target_bytes
        _check_apart("zorder_by", self.zorder_by, self.partition_by, "Delta cannot order by a partition column")
        _check_apart("stats_columns", self.stats_columns, self.partition_by, "a partition column has no statistics")
        self._check_stats()

    @property
    def target_bytes(self) -> int | None:
        """The target file size in bytes."""
        size = self.target_file_size
        if size is None or (isinstance(size, int) and size > 0):
            return size
        from delta_sidecar.pipeline.ingest_job import bytes_of

        return bytes_of(size, "target_file_size")

    def _check_stats(self) -> None:
        if self.stats_max_columns < 1:
            raise OptionError('stats_max_columns must be at least 1; for no statistics write stats_policy = "off"')
        if self.stats_policy == "explicit" and not self.stats_columns:
            raise OptionError('stats_policy = "explicit" needs stats_columns')
        if self.stats_policy != "explicit" and self.stats_columns:
            raise OptionError(f'stats_columns apply only with stats_policy = "explicit", not {self.stats_policy!r}')
        if len(self.stats_columns) > self.stats_max_columns:
            raise OptionError(
                f"{len(self.stats_columns)} stats_columns are more than stats_max_columns = {self.stats_max_columns}"
            )
        known = {folded(name) for name in self.stats_columns}
        without = [name for name in self.zorder_by if folded(name) not in known]
        if self.stats_policy == "off" and self.zorder_by:
            raise OptionError(
                'zorder_by needs statistics, so stats_policy cannot be "off": Delta refuses to order without them'
            )
        if self.stats_policy == "explicit" and without:
            raise OptionError(f"zorder_by {without[0]} needs statistics: add it to stats_columns")
        if self.stats_policy == "auto" and len(self.zorder_by) > self.stats_max_columns:
            raise OptionError(f"zorder_by has more columns than stats_max_columns = {self.stats_max_columns}")


class DeltaMutationPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How safely the table must be changed.

    Raises:
        OptionError: A value is not known, or two of them contradict each other.

    Example:
        >>> from delta_sidecar.lake import DeltaMutationPolicy, DeltaRetryPolicy
        >>> DeltaMutationPolicy(append_only=True, retry=DeltaRetryPolicy(attempts=20)).drivers
        'one'
    """

    retry: DeltaRetryPolicy = DeltaRetryPolicy()
    append_only: bool = False
    """Refuse whatever removes or changes rows, and set `delta.appendOnly`, so that Delta refuses other writers, too."""
    require_conditional_put: bool | Literal["declared"] = False
    """True: try once for each store that an existing object is not overwritten. `declared`: do not test it."""
    drivers: Drivers = "one"
    """`many`: several Spark drivers write the table at once. On S3 that needs a LogStore that coordinates them."""
    log_store: str | None = None
    """The class of that LogStore. Spark reads it when it starts, so an operation checks it and does not set it."""

    def __post_init__(self) -> None:
        _check_choice("drivers", self.drivers)
        if self.require_conditional_put not in (True, False, "declared"):
            raise OptionError(
                f'require_conditional_put {self.require_conditional_put!r} is not true, false or "declared"'
            )
        if self.log_store is not None and self.drivers == "one":
            raise OptionError('log_store applies only with drivers = "many"; set that, or leave log_store out')


class DeltaSchemaPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the schema may change.

    Raises:
        OptionError: A value is not known.

    Example:
        >>> from delta_sidecar.lake import DeltaSchemaPolicy
        >>> DeltaSchemaPolicy(schema_mode="merge").column_mapping_mode is None
        True
    """

    schema_mode: SchemaMode | None = None
    """`merge`: a write may add columns. `overwrite`: an overwrite of the whole table may replace its columns."""
    column_mapping_mode: MappingMode | None = None
    """`name` for columns that may be renamed or dropped, or have odd names; `id` for tables made from Iceberg's."""

    def __post_init__(self) -> None:
        for name in ("schema_mode", "column_mapping_mode"):
            if getattr(self, name) is not None:
                _check_choice(name, getattr(self, name))


class LakePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All policies of a table: `write`, `mutation` and `schema`.

    Raises:
        OptionError: Two settings contradict each other.

    Example:
        >>> from delta_sidecar.lake import DeltaMutationPolicy, LakePolicy
        >>> policy = LakePolicy(mutation=DeltaMutationPolicy(append_only=True))
        >>> policy.write.stats_policy, policy.schema.schema_mode
        ('auto', None)
    """

    write: DeltaWritePolicy = DeltaWritePolicy()
    mutation: DeltaMutationPolicy = DeltaMutationPolicy()
    schema: DeltaSchemaPolicy = DeltaSchemaPolicy()

    def __post_init__(self) -> None:
        if self.mutation.append_only and self.schema.schema_mode == "overwrite":
            raise OptionError('append_only excludes schema_mode = "overwrite", which replaces the rows')


def load_policy(path: str | os.PathLike[str]) -> LakePolicy:
    """Read a policy from a TOML or JSON file with the tables `write`, `mutation` and `schema`.

    Args:
        path: A local file that ends in `.toml` or `.json`.

    Returns:
        The policy; fields that are not in the file have their defaults.

    Raises:
        OptionError: The file cannot be read, a field is not known, or a value is wrong. The message names it.

    Example:
        >>> from pathlib import Path
        >>> from delta_sidecar.lake import load_policy
        >>> _ = Path("events.toml").write_text('[write]\\npartition_by = ["day"]\\n')
        >>> load_policy("events.toml").write.partition_by
        ('day',)
    """
    file = Path(path)
    try:
        return msgspec.convert(_read(file), LakePolicy)
    except msgspec.ValidationError as error:
        raise OptionError(f"{file}: {_explained(str(error))}") from None
    except OptionError as error:
        raise OptionError(f"{file}: {error}") from None


def _read(file: Path) -> Any:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise OptionError(f"the policy cannot be read: {error.strerror}") from None
    kind = file.suffix.lower()
    try:
        if kind == ".toml":
            return tomllib.loads(content.decode())
        if kind == ".json":
            return msgspec.json.decode(content)
    except ValueError as error:
        raise OptionError(f"not valid {kind[1:].upper()}: {error}") from None
    raise OptionError("a policy is a .toml or a .json file")


def _explained(text: str) -> str:
    """What msgspec says, with what to write instead."""
    where = match[1] if (match := _PATH.search(text)) else ""
    if unknown := _FIELD.search(text):
        name = unknown[1]
        place = f" of {where}" if where else ""
        return f"there is no field {name}{place}; {_MOVED[name]}" if name in _MOVED else _no_field(name, where)
    field = re.sub(r"\[.*", "", where.rpartition(".")[2])
    said = text.partition(" - at ")[0]
    said = said[:1].lower() + said[1:]
    choices = f"; write one of {', '.join(_CHOICES[field])}" if field in _CHOICES else ""
    return f"{where}: {said}{choices}" if where else said


def _no_field(name: str, where: str) -> str:
    kinds: dict[str, type[msgspec.Struct]] = {
        "": LakePolicy,
        "write": DeltaWritePolicy,
        "mutation": DeltaMutationPolicy,
        "mutation.retry": DeltaRetryPolicy,
        "schema": DeltaSchemaPolicy,
    }
    fields = kinds[where].__struct_fields__ if where in kinds else ()
    place = f" of {where}" if where else ""
    return f"there is no field {name}{place}{did_you_mean(name, fields)}; the fields are {', '.join(fields)}"
