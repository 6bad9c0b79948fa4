"""Tables in a session of DataFusion: by name, at one version, with a record of what was registered."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from delta_sidecar.data.file_column import is_name, with_file_column
from delta_sidecar.engines.datafusion import to_datafusion
from delta_sidecar.errors import InputError, OptionError, did_you_mean
from delta_sidecar.lake.snapshot_key import SnapshotKey
from delta_sidecar.log.segment import CheckpointFiles
from delta_sidecar.storage.uri import canonical_uri
from delta_sidecar.table import DeltaTable

if TYPE_CHECKING:
    import datafusion

Tables: TypeAlias = Mapping[str, "str | os.PathLike[str] | DeltaTable"]

_NO_SWITCHES: Final = {
    "enable_parquet_pushdown": "filters and projections are always pushed down",
    "wrap_partition_values": "partition columns have their own types, and pruning by them does not depend on it",
    "schema_force_view_types": "rows have the types of DeltaTable.schema().to_arrow(), never views",
}
"""Settings of other providers that would change nothing here."""


@dataclass(frozen=True, slots=True, init=False)
class ScanConfig:
    """How registered tables are scanned.

    Args:
        file_column_name: The name of an extra column with the file that each row is from, as `file_uris`
            names it; usually `__source_file`. None for no such column.
        **others: Nothing else can be set. Settings of other providers (`enable_parquet_pushdown`,
            `wrap_partition_values`, `schema_force_view_types`) are refused, with the reason.

    Raises:
        OptionError: There is no such setting, or the name has characters other than letters, digits and `_`.

    Example:
        >>> from delta_sidecar.lake import ScanConfig
        >>> ScanConfig(file_column_name="__source_file")
        ScanConfig(file_column_name='__source_file')
    """

    file_column_name: str | None

    def __init__(self, file_column_name: str | None = None, **others: object) -> None:
        for name in others:
            if name in _NO_SWITCHES:
                raise OptionError(f"{name} cannot be set: {_NO_SWITCHES[name]}; leave it out")
            near = did_you_mean(name, ["file_column_name"])
            raise OptionError(f"a ScanConfig has no setting {name!r}{near}; it has file_column_name")
        if file_column_name is not None and not is_name(file_column_name):
            raise OptionError(
                f"file_column_name is {file_column_name!r}; it takes letters, digits and _, at least one of them"
            )
        object.__setattr__(self, "file_column_name", file_column_name)


@dataclass(frozen=True, slots=True)
class ProviderCapabilities:
    """What a registered table does with a query.

    Example:
        >>> from datafusion import SessionContext
        >>> from delta_sidecar.lake import register_tables
        >>> (events,) = register_tables(SessionContext(), {"events": "events"})
        >>> events.capabilities.partition_pruning, events.capabilities.limit_pushdown
        (True, False)
    """

    predicate_pushdown: bool
    """Filters on columns are applied exactly, while rows are read."""
    projection_pushdown: bool
    """Only the columns of a query are read."""
    partition_pruning: bool
    """Files are skipped by partition values, if there are partition columns."""
    stats_pruning: bool
    """Files and row groups are skipped by their statistics."""
    limit_pushdown: bool
    """A LIMIT is passed to the table. DataFusion does not do that; it stops reading."""
    file_index: bool
    """The files are found through an index of this version or an older one."""


@dataclass(frozen=True, slots=True)
class CompatibilityFacts:
    """What a table requires of its readers and writers.

    Example:
        >>> from datafusion import SessionContext
        >>> from delta_sidecar.lake import register_tables
        >>> (events,) = register_tables(SessionContext(), {"events": "events"})
        >>> events.compatibility.min_reader_version, events.compatibility.partition_columns
        (1, ('_event_hour',))
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...]
    """Sorted; empty below version 3."""
    writer_features: tuple[str, ...]
    """Sorted; empty below version 7."""
    column_mapping_mode: str
    """`none`, `name` or `id`."""
    partition_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableRegistration:
    """A table as it was registered. Equal registrations give equal rows to equal queries.

    Example:
        >>> from datafusion import SessionContext
        >>> from delta_sidecar.lake import register_tables
        >>> (events,) = register_tables(SessionContext(), {"events": "events"})
        >>> events.name, events.key.version, len(events.schema_hash), len(events.provider_identity)
        ('events', 3, 64, 64)
    """

    name: str
    key: SnapshotKey
    """Where the table is, and the version: it stays the same, whatever is committed later."""
    schema_hash: str
    """Of the names, types and nullability of the table's columns, in order: 64 hexadecimal digits."""
    provider_identity: str
    """Of name, location, version and scan configuration: 64 hexadecimal digits. No credentials are in it."""
    capabilities: ProviderCapabilities
    compatibility: CompatibilityFacts


def register_tables(
    context: datafusion.SessionContext,
    tables: Tables,
    config: ScanConfig | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> list[TableRegistration]:
    """Register tables in a DataFusion session, sorted by name; tables of these names are replaced.

    All are opened and checked before the first is registered. A location that is given twice is opened once, so both
    names have the same version. A query prunes files through the index, and its rows are read by this library's reader.

    Args:
        context: The session.
        tables: Names in SQL, each with a location, or with an open `DeltaTable`, which then stays at its version.
        config: How the tables are scanned; `ScanConfig()` if not given.
        storage_options: Credentials and settings of the stores of tables that are given by their location.

    Raises:
        InputError: `context` is not a `SessionContext`, a name is empty, or the file column has the name of another
            column.
        TableNotFoundError: There is no table at a location.
        UnsupportedTableError: The rows of a table cannot be read.

    Example:
        >>> from datafusion import SessionContext
        >>> from delta_sidecar.lake import ScanConfig, register_tables
        >>> ctx = SessionContext()
        >>> registered = register_tables(ctx, {"events": "events"}, ScanConfig("__source_file"))
        >>> ctx.sql("SELECT count(DISTINCT __source_file) AS files FROM events").to_pylist()
        [{'files': 4}]
    """
    config = ScanConfig() if config is None else config
    if not isinstance(config, ScanConfig):
        raise InputError(f"config is a {type(config).__name__}; it takes a ScanConfig")
    opened = _opened(tables, storage_options)
    made = {name: _registration(name, table, config) for name, table in sorted(opened.items())}
    for name, table in sorted(opened.items()):
        to_datafusion(table, context, name, file_column=config.file_column_name)
    return list(made.values())


_QUALIFIED: Final = re.compile(r"[.\"`]")


def _opened(tables: Tables, storage_options: Mapping[str, str] | None) -> dict[str, DeltaTable]:
    if not isinstance(tables, Mapping):
        raise InputError(f"tables is a {type(tables).__name__}; it takes a mapping of names to locations or tables")
    by_place: dict[str, DeltaTable] = {}
    opened: dict[str, DeltaTable] = {}
    names: dict[str, str] = {}
    for name, given in tables.items():
        if type(name) is not str or not name.strip():
            raise InputError(f"a table cannot be called {name!r}; a name has at least one character")
        if _QUALIFIED.search(name):
            raise InputError(f"a table cannot be called {name!r}: DataFusion reads dots and quotes as a schema's name")
        other = names.setdefault(name.lower(), name)
        if other != name:
            raise InputError(f"{other!r} and {name!r} are the same name to DataFusion, which ignores case; rename one")
        if isinstance(given, DeltaTable):
            opened[name] = given._at_this_version()
        else:
            place = canonical_uri(given)
            if place not in by_place:
                by_place[place] = DeltaTable(given, storage_options=storage_options)
            opened[name] = by_place[place]
    return opened


def _registration(name: str, table: DeltaTable, config: ScanConfig) -> TableRegistration:
    with_file_column(table.schema(), config.file_column_name)
    key = SnapshotKey.of(table)
    return TableRegistration(
        name=name,
        key=key,
        schema_hash=_hash(_shape(msgspec.json.decode(table.schema().to_json()))),
        provider_identity=_hash([name, key.canonical_uri, key.version, {"file_column_name": config.file_column_name}]),
        capabilities=_capabilities(table),
        compatibility=_compatibility(table),
    )


def _capabilities(table: DeltaTable) -> ProviderCapabilities:
    return ProviderCapabilities(
        predicate_pushdown=True,
        projection_pushdown=True,
        partition_pruning=bool(table.snapshot.partition_columns),
        stats_pruning=True,
        limit_pushdown=False,
        file_index=not isinstance(table.snapshot.segment.base, CheckpointFiles | None),
    )


def _compatibility(table: DeltaTable) -> CompatibilityFacts:
    protocol = table.protocol()
    return CompatibilityFacts(
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        reader_features=tuple(sorted(protocol.reader_features or ())),
        writer_features=tuple(sorted(protocol.writer_features or ())),
        column_mapping_mode=table.snapshot.mapping_mode,
        partition_columns=tuple(table.snapshot.partition_columns),
    )


def _shape(wire: Any) -> Any:
    """A schema without what does not change rows: comments, ids, expressions."""
    if isinstance(wire, dict):
        return {key: _shape(value) for key, value in wire.items() if key != "metadata"}
    return [_shape(item) for item in wire] if isinstance(wire, list) else wire


def _hash(value: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=32).hexdigest()
