"""Queries of Kusto (Azure Data Explorer, Fabric Eventhouse) over exactly the files that may hold a matching row.

`queries` lists the files through the index and writes KQL: `inline_external_table` over their URLs, the predicate again
as `where` (pruned files hold other rows, too) and the columns as `project`. `external_table` writes the command that
creates a table of `kind=delta`. Both only write text: nothing here talks to Kusto.

Partition values are literals from the log, with one branch of a `union` for the files that share them. Kusto's
`partition by` lists directories below a location and takes values from their names, which does not work for a list of
files.

The text holds credentials only if they are given; otherwise `<SAS>` stands in place of a SAS token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa

from delta_sidecar.data.data_files import FILE_COLUMNS, DataFile, DataFileList
from delta_sidecar.engines import kql
from delta_sidecar.errors import InputError, OptionError, UnsupportedFeatureError, UnsupportedTypeError
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.expression import Constant, Expression, columns_of
from delta_sidecar.predicates.known_values import physical, simplified, with_values
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage import options as store_options
from delta_sidecar.storage.uri import Location, parse_location, resolve_log_path
from delta_sidecar.values.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

if TYPE_CHECKING:
    from delta_sidecar.predicates.predicate_tuples import Filters
    from delta_sidecar.table import DeltaTable

__all__ = ["KustoQuery", "external_table", "queries"]

MAX_QUERY_BYTES: Final = 1_000_000
MAX_BRANCHES: Final = 100
PLACEHOLDER: Final = "<SAS>"
"""Stands for a SAS token that was not given."""
ACCESS: Final = ("none", "impersonate", "managed-identity", "sas")
"""How Kusto reads the files."""

_IDENTITY: Final = re.compile(r"managed-identity=([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})")
_PREFIX: Final = re.compile(r"""(?:https|abfss)://[^\s?;#"'/]+(?:/[^\s?;#"']*)?""")
_TOKEN: Final = re.compile(r"[A-Za-z0-9%&=._~+/:,-]+")
_SAFE: Final = "/=:,@~"
"""Characters that stay as they are in the path of a URL. A semicolon would begin Kusto's credentials."""
_TRUE: Final = ("true", "1", "on", "yes", "y")


@dataclass(frozen=True, slots=True)
class KustoQuery:
    """One complete query over some of a table's files: an element of what `queries` returns.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> from delta_sidecar.engines import kusto
        >>> (query,) = kusto.queries(DeltaTable("events"), "id = 7", ["id"], uri_prefix="https://a.blob.core.windows.net/c/events")
        >>> print(query.text)
        inline_external_table (['id']:long) kind=storage dataformat=parquet
        (
        h@"https://a.blob.core.windows.net/c/events/_event_hour=2026021023/part-0.parquet"
        )
        | where ['id'] == long(7)
        | project ['id']
    """

    text: str = field(repr=False)
    files: int
    notes: tuple[str, ...] = ()
    """How Kusto's rows differ from the table's own."""


def queries(
    table: DeltaTable,
    predicate: str | Filters | None = None,
    columns: Sequence[str] | None = None,
    *,
    access: str = "none",
    sas_token: str | None = None,
    uri_prefix: str | None = None,
    max_query_bytes: int = MAX_QUERY_BYTES,
    max_uris: int | None = None,
    max_branches: int = MAX_BRANCHES,
) -> list[KustoQuery]:
    """The KQL queries that return the matching rows of a table, each over some of the files that may hold one.

    The rows of all queries together are the answer; no row is in two of them. If no file matches, there is one query,
    which returns no rows. In Kusto's results a null string is an empty string.

    Args:
        table: The table, at the version it is pinned to.
        predicate: A condition as SQL text, or tuples, as `DeltaTable.scan_files` takes it.
        columns: The columns to return, in this order; all if not given.
        access: How Kusto reads the files: `none` (public, or by another way), `impersonate`, `managed-identity` (the
            cluster's own), `managed-identity=OBJECT_ID`, or `sas`.
        sas_token: For `sas`: the token, which is then part of each text. Without it, `<SAS>` stands in its place.
        uri_prefix: The URL of the table's directory, for a table whose location Kusto cannot reach.
        max_query_bytes: The largest size of one query, in bytes.
        max_uris: The largest number of files in one query.
        max_branches: The largest number of branches in one `union`; files with other partition values need a branch of
            their own.

    Returns:
        The queries.

    Raises:
        PredicateError: The predicate is wrong, or has no KQL with exactly its meaning.
        UnknownColumnError: There is no such column.
        UnsupportedTypeError: A column has a type that Kusto cannot read, or one that was widened.
        UnsupportedFeatureError: A file has a deletion vector, or columns are mapped in a way that KQL cannot follow.
        InputError: The location, a name or a value cannot be written in KQL.
        OptionError: `access`, `sas_token`, `uri_prefix` or a limit is wrong.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> from delta_sidecar.engines import kusto
        >>> table = DeltaTable("events")
        >>> root = "https://account.blob.core.windows.net/lake/events"
        >>> for query in kusto.queries(table, "id < 4", ["id"], access="impersonate", uri_prefix=root):
        ...     print(query.files, query.text.splitlines()[-1])
        2 | project ['id']
    """
    limits = _Limits(max_query_bytes, max_uris, max_branches)
    addresses = _addresses(table, access, sas_token, uri_prefix)
    snapshot, schema = table.snapshot, table.schema()
    partitions = snapshot.partition_columns
    bound = bind_predicate(predicate, schema, partitions, table.settings.partition_timezone)
    outline = _outline(schema, partitions, _chosen(schema, columns), bound, snapshot.mapping_mode)
    with FileScan(snapshot, table.settings, bound, FILE_COLUMNS, None, None) as scan:
        files = DataFileList(iter(scan), outline.partition_fields, table.settings.partition_timezone)
        branches = _branches(outline, files, addresses)
    notes = tuple(_notes(outline.columns))
    packed = _packed(outline, branches, limits)
    return [KustoQuery(text, count, notes) for text, count in packed]


def external_table(
    table: DeltaTable,
    name: str,
    columns: Sequence[str] | None = None,
    *,
    access: str = "none",
    sas_token: str | None = None,
    uri_prefix: str | None = None,
) -> str:
    """The command that creates, or alters, an external table of `kind=delta` in Kusto.

    Kusto then reads the log itself, always at the newest version. Partition columns are not in the command's schema:
    Kusto adds them.

    Args:
        table: The table.
        name: The name of the table in Kusto.
        columns: The columns of the table in Kusto; all if not given.
        access: How Kusto reads the table; as in `queries`.
        sas_token: For `sas`: the token, which is then part of the text. Without it, `<SAS>` stands in its place.
        uri_prefix: The URL of the table's directory; as in `queries`.

    Returns:
        The command.

    Raises:
        UnknownColumnError: There is no such column.
        UnsupportedTypeError: A column has a type that Kusto does not have.
        InputError: The location or a name cannot be written in KQL.
        OptionError: `access`, `sas_token` or `uri_prefix` is wrong.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> from delta_sidecar.engines import kusto
        >>> root = "https://account.blob.core.windows.net/lake/events"
        >>> print(kusto.external_table(DeltaTable("events"), "Events", access="impersonate", uri_prefix=root))
        .create-or-alter external table ['Events'] (['ts']:datetime, ['id']:long, ['value']:real) kind=delta
        (
        h@"https://account.blob.core.windows.net/lake/events;impersonate"
        )
    """
    addresses = _addresses(table, access, sas_token, uri_prefix)
    schema = _chosen(table.schema(), columns)
    stored = [f for f in schema if f.name not in table.snapshot.partition_columns]
    if not stored:
        raise InputError("an external table needs a column that is not a partition column; name one in `columns`")
    declared = ", ".join(f"{kql.name(f.name)}:{kql.type_of(f)}" for f in stored)
    head = f".create-or-alter external table {kql.name(name)} ({declared}) kind=delta"
    return f"{head}\n(\n{addresses.root}\n)"


@dataclass(frozen=True, slots=True)
class _Limits:
    query_bytes: int
    uris: int | None
    branches: int

    def __post_init__(self) -> None:
        for what, most in (
            ("max_query_bytes", self.query_bytes),
            ("max_uris", self.uris),
            ("max_branches", self.branches),
        ):
            if most is not None and (type(most) is not int or most < 1):
                raise OptionError(f"{what} is {most!r}; it takes a whole number of 1 or more")


# Which columns


@dataclass(frozen=True, slots=True)
class _Outline:
    """What all queries of a table have in common."""

    columns: StructType
    """The columns to return, by logical name."""
    stored: tuple[StructField, ...]
    """The columns to read from files."""
    partition_fields: tuple[StructField, ...]
    """The partition columns that are returned or in the predicate."""
    predicate: Expression | None
    partition_columns: frozenset[str]

    @property
    def head(self) -> str:
        declared = ", ".join(f"{kql.name(f.physical_name)}:{kql.type_of(f)}" for f in self.stored)
        return f"inline_external_table ({declared}) kind=storage dataformat=parquet"

    @property
    def order(self) -> str:
        """The columns of a union, in their order."""
        return f"| project {', '.join(kql.name(f.name) for f in self.columns)}"

    @property
    def nothing(self) -> str:
        """A query without rows, with the columns of the others."""
        declared = ", ".join(f"{kql.name(f.name)}:{kql.type_of(f)}" for f in self.columns)
        return f"datatable ({declared}) []"

    def projection(self, values: Mapping[str, Any]) -> str:
        """The columns to return, where partition columns have these values, in their physical form."""
        return f"| project {', '.join(self._projected(f, values) for f in self.columns)}"

    def _projected(self, column: StructField, values: Mapping[str, Any]) -> str:
        wanted = kql.name(column.name)
        if column.name in self.partition_columns:
            return f"{wanted} = {kql.literal(values[column.name], column.type, f'partition column {column.name}')}"
        stored = kql.name(column.physical_name)
        return wanted if stored == wanted else f"{wanted} = {stored}"


def _chosen(schema: StructType, columns: Sequence[str] | None) -> StructType:
    if columns is None:
        return schema
    chosen = schema.select(columns)
    twice = next((name for name in chosen.names if chosen.names.count(name) > 1), None)
    if twice is not None or not columns:
        raise InputError(f"column {twice!r} is named twice in `columns`" if twice else "`columns` names no column")
    return chosen


def _outline(
    schema: StructType,
    partition_columns: Sequence[str],
    chosen: StructType,
    predicate: Expression | None,
    mapping_mode: str,
) -> _Outline:
    mentioned = [] if predicate is None else [column.fields[0] for column in columns_of(predicate)]
    used = {f.name: f for f in (*chosen, *mentioned)}
    partitions = frozenset(partition_columns)
    stored = [f for f in used.values() if f.name not in partitions] or _any_stored(schema, partitions)
    if mapping_mode == "id":
        raise UnsupportedFeatureError(
            "the table maps its columns by id, and Kusto finds columns of a file by name; use an external table of "
            "kind=delta, or another engine"
        )
    for column in stored:
        _check_stored(column, mapping_mode)
    for column in chosen:
        kql.type_of(column)
    kept = tuple(f for f in used.values() if f.name in partitions)
    return _Outline(chosen, tuple(stored), kept, predicate, partitions)


def _any_stored(schema: StructType, partitions: frozenset[str]) -> list[StructField]:
    """A column to read where none is wanted: Kusto needs one to count rows."""
    for column in schema:
        if column.name not in partitions and isinstance(column.type, PrimitiveType):
            try:
                kql.type_of(column)
                _check_stored(column, "none")
            except (InputError, UnsupportedTypeError):
                continue
            return [column]
    raise UnsupportedTypeError("no column of the table's files can be read by Kusto")


def _check_stored(column: StructField, mapping_mode: str) -> None:
    kql.type_of(column)
    if mapping_mode != "none" and isinstance(column.type, StructType | ArrayType | MapType) and _has_names(column.type):
        raise UnsupportedFeatureError(
            f"column {column.name} is a {column.type.type} whose fields have other names in the files (column "
            "mapping), which Kusto cannot follow; leave it out of `columns`"
        )
    if _changed(column):
        raise UnsupportedTypeError(
            f"the type of column {column.name} was widened (delta.typeChanges): Kusto may misread older files; "
            "leave it out of `columns` and of the predicate"
        )
    if "." in column.physical_name:
        raise InputError(
            f"column {column.name!r} has a dot in its name, which Kusto reads as a path within a file; leave it out "
            "of `columns` and of the predicate"
        )
    kql.name(column.physical_name)


def _has_names(data_type: DataType) -> bool:
    match data_type:
        case ArrayType(element):
            return _has_names(element)
        case MapType(key, value):
            return _has_names(key) or _has_names(value)
    return isinstance(data_type, StructType)


def _changed(column: StructField) -> bool:
    def within(data_type: DataType) -> bool:
        match data_type:
            case StructType(fields):
                return any(map(_changed, fields))
            case ArrayType(element):
                return within(element)
            case MapType(key, value):
                return within(key) or within(value)
        return False

    return "delta.typeChanges" in column.metadata or within(column.type)


def _notes(columns: StructType) -> Iterator[str]:
    strings = [f.name for f in columns if f.type == PrimitiveType("string") and f.nullable]
    clocks = [f.name for f in columns if f.type == PrimitiveType("timestamp_ntz")]
    if strings:
        yield f"Kusto has no null strings: a null of {', '.join(strings)} is an empty string in the result"
    if clocks:
        yield f"Kusto's datetimes are UTC: the clock times of {', '.join(clocks)} have no zone in the table"


# Which files


@dataclass(frozen=True, slots=True)
class _Branch:
    """Files whose rows are filtered and returned in the same way."""

    tail: str
    """What comes after the list of files."""
    uris: list[str]


def _branches(outline: _Outline, files: DataFileList, addresses: _Addresses) -> list[_Branch]:
    """The files by what follows from their partition values; those that cannot match are left out."""
    tails: dict[tuple[str, ...], str | None] = {}
    branches: dict[str, _Branch] = {}
    for file in files:
        if file.deletion_vector is not None:
            raise UnsupportedFeatureError(
                f"file {file.path!r} has a deletion vector, which Kusto cannot apply to a list of files; run "
                "REORG TABLE … APPLY (PURGE), narrow the predicate, or use another engine"
            )
        constants = file.constants()
        values = {name: physical(constant) for name, constant in constants.items()}
        key = tuple(map(repr, values.values()))
        if key not in tails:
            tails[key] = _tail(outline, constants, values)
        tail = tails[key]
        if tail is not None:
            branches.setdefault(tail, _Branch(tail, [])).uris.append(addresses.file(file))
    return list(branches.values())


def _tail(outline: _Outline, constants: Mapping[str, pa.Scalar], values: Mapping[str, Any]) -> str | None:
    """Filter and projection of the files with these partition values; None if no row of theirs can match."""
    projection = outline.projection(values)
    if outline.predicate is None:
        return projection
    row = pa.record_batch([pa.array([c], c.type) for c in constants.values()], list(constants))
    rest = simplified(with_values(outline.predicate, row)) if constants else outline.predicate
    where = kql.FALSE if rest == Constant(None) else kql.condition(rest)
    if where == kql.FALSE:
        return None
    return projection if where == kql.TRUE else f"| where {where}\n{projection}"


# Where they are


@dataclass(frozen=True, slots=True)
class _Addresses:
    """The table's files as Kusto's connection strings, each a literal."""

    table: Location
    prefix: str | None
    """The URL of the table's directory, where it was given."""
    credential: str = field(repr=False)
    options: Mapping[str, str] = field(repr=False)
    """Those of Azure's that say where an account is."""

    def __post_init__(self) -> None:
        if self.prefix is None:
            self._url(self.table)  # refused even if no file matches

    @property
    def root(self) -> str:
        return self._literal(self.prefix or self._url(self.table))

    def file(self, file: DataFile) -> str:
        place = resolve_log_path(self.table, file.path)
        below = self.table.relative(place)
        if self.prefix is not None and below is not None:
            return self._literal(f"{self.prefix}/{quote(below, safe=_SAFE)}")
        return self._literal(self._url(place))

    def _literal(self, url: str) -> str:
        return f'h@"{url}{self.credential}"'

    def _url(self, place: Location) -> str:
        if place.scheme not in ("az", "abfss"):
            raise InputError(
                f"Kusto cannot reach {place.text}; if the table can also be read at a URL, give that of its directory "
                "(uri_prefix, --uri-prefix https://…)"
            )
        path = f"/{quote(place.path, safe=_SAFE)}" if place.path else ""
        return f"https://{self._host(place)}/{place.bucket}{path}"

    def _host(self, place: Location) -> str:
        elsewhere = self.options.get("endpoint") or self.options.get("use_emulator", "").lower() in _TRUE
        host = place.authority.partition("@")[2] or self.options.get("account_name", "")
        if elsewhere or not host:
            why = "is at a custom endpoint" if elsewhere else "does not name its storage account"
            raise InputError(
                f"{place.text} {why}; set the storage option account_name, or give the URL of the table's directory "
                "(uri_prefix, --uri-prefix https://…)"
            )
        if "." not in host:
            fabric = self.options.get("use_fabric_endpoint", "").lower() in _TRUE
            host += ".blob.fabric.microsoft.com" if fabric else ".blob.core.windows.net"
        return host.replace(".dfs.", ".blob.", 1)


def _addresses(table: DeltaTable, access: str, sas_token: str | None, uri_prefix: str | None) -> _Addresses:
    if uri_prefix is not None and not _PREFIX.fullmatch(uri_prefix):
        raise OptionError(
            "uri_prefix is the https:// or abfss:// URL of the table's directory, without ?, ;, # and quotes; "
            "give credentials with access"
        )
    root = parse_location(table.snapshot.store.root_uri)
    opened = table._access
    options = store_options.read_options(store_options.AZURE, opened.storage_options, opened.profile).config
    prefix = None if uri_prefix is None else uri_prefix.rstrip("/")
    return _Addresses(root, prefix, _credential(access, sas_token), options)


def _credential(access: str, sas_token: str | None) -> str:
    """What follows a URL in a connection string."""
    if sas_token is not None and access != "sas":
        raise OptionError(f"a SAS token is given, but access is {access!r}; set access='sas', or leave the token out")
    match access:
        case "none":
            return ""
        case "impersonate":
            return ";impersonate"
        case "managed-identity":
            return ";managed_identity=system"
        case "sas":
            return f"?{PLACEHOLDER if sas_token is None else _checked_token(sas_token)}"
    if identity := _IDENTITY.fullmatch(access):
        return f";managed_identity={identity[1]}"
    raise OptionError(f"access is {access!r}; it takes {', '.join(ACCESS)} or managed-identity=OBJECT_ID")


def _checked_token(sas_token: str) -> str:
    token = sas_token.strip().lstrip("?")
    if not _TOKEN.fullmatch(token):
        raise OptionError("this is not a SAS token; one looks like sv=…&sig=…, encoded as in a URL")
    return token


# How many to a query


def _packed(outline: _Outline, branches: Sequence[_Branch], limits: _Limits) -> Iterator[tuple[str, int]]:
    """The texts of the queries, and the files of each."""
    if not branches:
        yield outline.nothing, 0
        return
    query = _Draft(outline, limits)
    for branch in branches:
        for uri in branch.uris:
            if not query.takes(branch.tail, uri):
                yield query.text, query.files
                query = _Draft(outline, limits)
                if not query.takes(branch.tail, uri):
                    raise OptionError(
                        f"a query of one file needs more than max_query_bytes={limits.query_bytes}; allow "
                        f"{query.size_with(branch.tail, uri)} or more"
                    )
            query.add(branch.tail, uri)
    yield query.text, query.files


_SEPARATOR: Final = ",\n"
_UNION: Final = "union\n(\n", "\n),\n(\n", "\n)\n"
"""Before, between and after the branches of a query that has more than one."""


class _Draft:
    """A query to which files are added."""

    def __init__(self, outline: _Outline, limits: _Limits) -> None:
        self._head = f"{outline.head}\n(\n"
        self._order = outline.order
        self._limits = limits
        self._branches: dict[str, list[str]] = {}
        self._bytes = 0
        self.files = 0

    def takes(self, tail: str, uri: str) -> bool:
        """Whether the file fits."""
        uris, branches = self._limits.uris, len(self._branches) + (tail not in self._branches)
        within = (uris is None or self.files < uris) and branches <= self._limits.branches
        return within and self.size_with(tail, uri) <= self._limits.query_bytes

    def size_with(self, tail: str, uri: str) -> int:
        """The bytes of the query with one more file, and a little more: the words of a union are always counted."""
        union = sum(map(len, _UNION)) + len(self._order.encode())
        return union + self._bytes + self._cost(tail, uri)

    def _cost(self, tail: str, uri: str) -> int:
        more = len(uri.encode()) + len(_SEPARATOR)
        if tail not in self._branches:
            more += len(f"{self._head}\n)\n{tail}".encode()) + len(_UNION[1])
        return more

    def add(self, tail: str, uri: str) -> None:
        self._bytes += self._cost(tail, uri)
        self._branches.setdefault(tail, []).append(uri)
        self.files += 1

    @property
    def text(self) -> str:
        legs = [f"{self._head}{_SEPARATOR.join(uris)}\n)\n{tail}" for tail, uris in self._branches.items()]
        if len(legs) == 1:
            return legs[0]
        before, between, after = _UNION
        return f"{before}{between.join(legs)}{after}{self._order}"
