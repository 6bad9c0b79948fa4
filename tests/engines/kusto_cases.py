"""Tables, and the calls on them whose KQL the tests read and Microsoft's parser checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delta_sidecar import DeltaTable
from delta_sidecar.engines import kusto
from delta_sidecar.storage.local import LocalStore
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.testing.actions import AddFile as add
from delta_sidecar.testing.actions import column
from delta_sidecar.testing.table_builder import LogBuilder

ROOT = "https://account.blob.core.windows.net/lake/events"
WIDE: Mapping[str, Any] = {
    "b": "byte", "h": "short", "i": "integer", "l": "long", "f": "float", "d": "double", "c": "decimal(34,4)",
    "s": "string", "flag": "boolean", "day": "date", "ts": "timestamp", "ntz": "timestamp_ntz",
    "inner": {"type": "struct", "fields": [column("a", "string")]},
    "list": {"type": "array", "elementType": "long", "containsNull": True},
    "bag": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    "two words": "long", "größe": "long", "where": "long",
}  # fmt: skip
PARTITIONS: Mapping[str, tuple[str, Sequence[str | None]]] = {
    "b": ("byte", ["-128", None]),
    "l": ("long", ["-9223372036854775808", "7", None]),
    "d": ("double", ["NaN", "-Infinity", "5e-324", "-0.0", None]),
    "c": ("decimal(10,2)", ["-1.50", "0", None]),
    "s": ("string", ["a'b\"c\\d\n;?#%/e", "😀", "__HIVE_DEFAULT_PARTITION__", "", None]),
    "flag": ("boolean", ["true", "false", None]),
    "day": ("date", ["0001-01-01", "9999-12-31", None]),
    "ts": ("timestamp", ["1969-12-31 23:59:59.999999", None]),
    "ntz": ("timestamp_ntz", ["2026-02-10 22:00:00", None]),
}


class AzureTable(LocalStore):
    """A local table that says it is at Azure."""

    def __init__(self, directory: Path, uri: str) -> None:
        super().__init__(parse_location(directory))
        self._uri = parse_location(uri).uri

    @property
    def root_uri(self) -> str:
        return self._uri


def at_azure(directory: Path, uri: str, **options: str) -> DeltaTable:
    return DeltaTable(uri, store=AzureTable(directory, uri), storage_options=options)


def wide(root: Path, files: int = 1) -> DeltaTable:
    """A column of every type; the log has no stats."""
    LogBuilder(root).protocol(3, 7, ["timestampNtz"]).metadata(WIDE).commit(
        *(add(f"part-{number}.parquet") for number in range(files))
    )
    return DeltaTable(root)


def partitioned(root: Path, name: str) -> DeltaTable:
    """A file for each value of one partition column; where it lies says another value."""
    kind, values = PARTITIONS[name]
    columns = {"x": "long", "text": "string", name: kind}
    files = [add(f"{name}=wrong/{n}.parquet", partition={name: value}) for n, value in enumerate(values)]
    LogBuilder(root).protocol(3, 7, ["timestampNtz"]).metadata(columns, [name]).commit(*files)
    return DeltaTable(root)


def mapped(root: Path, mode: str = "name") -> DeltaTable:
    """Columns with other names in the files."""

    def named(name: str, kind: Any, physical: str, number: int) -> dict[str, Any]:
        names = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number}
        return column(name, kind, metadata=names)

    inner = {"type": "struct", "fields": [named("a", "long", "col-9", 9)]}
    columns = [
        named("id.of", "long", "col-1f", 1),
        named("name", "string", "col-2f", 2),
        named("inner", inner, "col-3f", 3),
        named("p", "string", "col-4f", 4),
    ]
    LogBuilder(root).protocol(2, 5).metadata(columns, ["p"], {"delta.columnMapping.mode": mode}).commit(
        add("a.parquet", partition={"col-4f": "x"}), add("b.parquet", partition={"col-4f": "y"})
    )
    return DeltaTable(root)


def texts(root: Path) -> list[str]:
    """A query or command of every shape."""
    table = wide(root / "wide", 3)
    found = kusto.queries(table, None, None, uri_prefix=ROOT)
    where = "l IN (1, 2) AND day > '2026-01-01'"
    found += kusto.queries(table, where, ["two words", "where"], uri_prefix=ROOT, max_uris=1)
    found += kusto.queries(table, "l = 1 AND l = 2 AND false", ["l", "größe"], uri_prefix=ROOT)
    for access in ("impersonate", "managed-identity", "managed-identity=00000000-0000-0000-0000-0000000000ab", "sas"):
        found += kusto.queries(table, None, ["l"], access=access, uri_prefix=ROOT)
    found += kusto.queries(table, None, ["l"], access="sas", sas_token="sv=2024&sig=a%2Bb%3D", uri_prefix=ROOT)
    for name in PARTITIONS:
        each = partitioned(root / name, name)
        found += kusto.queries(each, f"x > 1 OR {name} IS NULL", None, uri_prefix=ROOT)
        found += kusto.queries(each, None, [name], uri_prefix=ROOT)
    found += kusto.queries(mapped(root / "mapped"), "p = 'x' OR `id.of` = 1", ["name", "id.of", "p"], uri_prefix=ROOT)
    commands = [
        kusto.external_table(table, "Events", uri_prefix=ROOT),
        kusto.external_table(table, "my events", ["l", "s"], access="impersonate", uri_prefix=ROOT),
        kusto.external_table(table, "where", ["l"], access="sas", uri_prefix=ROOT),
        kusto.external_table(mapped(root / "mapped2"), "T", ["name"], access="managed-identity", uri_prefix=ROOT),
    ]
    return [*(query.text for query in found), *commands]
