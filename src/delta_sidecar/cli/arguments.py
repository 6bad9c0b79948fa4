"""The arguments that several commands share, and the table they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from delta_sidecar.table import DeltaTable

Table: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="Where the table is: a path, or an s3, az, abfss, gs or file URI.")
]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only what matches, e.g. \"ts >= '2026-02-10' AND id = 7\"."),
]
Limit: TypeAlias = Annotated[int | None, typer.Option("--limit", min=0, metavar="N", help="At most N; reading stops.")]
Version: TypeAlias = Annotated[
    int | None, typer.Option("--version", min=0, metavar="N", help="This version; the newest without it.")
]
Timestamp: TypeAlias = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="The version of that time, e.g. 2026-02-10T22:00:00Z."),
]
Columns: TypeAlias = Annotated[
    list[str] | None, typer.Option("--columns", metavar="A,B", help="Only these columns, in this order.")
]
Strategy: TypeAlias = Annotated[
    str | None, typer.Option("--strategy", metavar="NAME", help="auto, reverse or forward: how the log is read.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="JSON lines, for machines.")]
StorageOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--storage-option", metavar="NAME=VALUE", help="For the store, as deltalake names them; repeatable."),
]
ReaderOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="For the reader, e.g. delta.sidecar.batch_size=10000."),
]
Master: TypeAlias = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master; this machine without it.")
]
Conf: TypeAlias = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable.")
]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="What is going on, on stderr.")]


@dataclass(frozen=True, slots=True)
class Source:
    """The table a command is about, as its arguments say it."""

    table: str
    version: int | None = None
    timestamp: str | None = None
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    options: dict[str, str] = field(default_factory=dict)

    def open(self) -> DeltaTable:
        from delta_sidecar.table import DeltaTable

        opened = DeltaTable(self.table, self.version, self.storage_options, options=self.options)
        if self.timestamp is not None:
            opened.load_as_version(self.timestamp)
        return opened


def source(
    table: str,
    version: int | None = None,
    timestamp: str | None = None,
    storage_option: Sequence[str] | None = None,
    option: Sequence[str] | None = None,
    strategy: str | None = None,
) -> Source:
    if version is not None and timestamp is not None:
        raise typer.BadParameter("--version and --timestamp both name a version; give one of them")
    options = pairs("--option", option)
    if strategy is not None:
        options["delta.sidecar.strategy"] = strategy
    return Source(table, version, timestamp, pairs("--storage-option", storage_option), options)


def pairs(name: str, given: Sequence[str] | None) -> dict[str, str]:
    """`NAME=VALUE`, several times. What was given is not repeated in the message: it may be a secret."""
    values: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{name} takes NAME=VALUE")
        values[key.strip()] = value
    return values


def names(columns: Sequence[str] | None) -> list[str] | None:
    """Column names out of `--columns a,b --columns c`."""
    if not columns:
        return None
    column_names = [name.strip() for text in columns for name in text.split(",") if name.strip()]
    if not column_names:
        raise typer.BadParameter("--columns takes names, separated by commas")
    return column_names
