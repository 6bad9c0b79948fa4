"""The arguments that several commands share, and the table that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from delta_sidecar.cli.help import F, argument, one_of, option

if TYPE_CHECKING:
    from delta_sidecar.table import DeltaTable

WHAT, VERSION, OUTPUT, READER, STORE, SPARK = "Selection", "Version", "Output", "Reader", "Store", "Spark"
CURSOR = "Cursor"
"""Sections of the help that several commands have."""


def complete_place(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem[str]]:
    """Local directories; a URI is left as it is."""
    return [] if "://" in begun else [CompletionItem(begun, type="dir")]


def complete_file(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem[str]]:
    return [CompletionItem(begun, type="file")]


def complete_reader_option(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    from delta_sidecar.settings import OPTION_NAMES

    return [f"{name}=" for name in OPTION_NAMES if name.startswith(begun)]


def together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options as one, in the order in which the help lists them."""

    def decorate(function: F) -> F:
        decorated: F = reduce(lambda inner, decorator: decorator(inner), reversed(decorators), function)
        return decorated

    return decorate


def names(context: click.Context, parameter: click.Parameter, columns: Sequence[str]) -> list[str] | None:
    """The column names of `--columns a,b --columns c`."""
    if not columns:
        return None
    column_names = [name.strip() for text in columns for name in text.split(",") if name.strip()]
    if not column_names:
        raise click.UsageError(f"{parameter.opts[0]} takes names, separated by commas")
    return column_names


def key_names(context: click.Context, parameter: click.Parameter, columns: Sequence[str]) -> tuple[str, ...]:
    """The column names of `--key a,b --key c`."""
    return tuple(name.strip() for text in columns for name in text.split(",") if name.strip())


def _pairs(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """The values of a repeatable `NAME=VALUE` option. Errors do not repeat the value, because it may be a secret."""
    values: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{parameter.opts[0]} takes NAME=VALUE")
        values[key.strip()] = value
    return values


def pair_option(*names: str, metavar: str = "NAME=VALUE", **attrs: Any) -> Callable[[F], F]:
    """A repeatable option that gives the command a dictionary."""
    return option(*names, multiple=True, metavar=metavar, callback=_pairs, **attrs)


def engine(section: str) -> Callable[[F], F]:
    """What builds: this process, or Spark."""
    complete = one_of("auto", "process", "spark")
    text = "Engine: auto (default), process or spark."
    return option("--engine", default="auto", metavar="NAME", section=section, shell_complete=complete, help=text)


def interval(section: str, seconds: float, what: str) -> Callable[[F], F]:
    """How long a command that keeps running waits."""
    text = f"Seconds between {what} ({seconds:g})."
    kind = click.FloatRange(min=0.1)
    return option("--interval", type=kind, default=seconds, metavar="SECONDS", section=section, help=text)


def progress_of_stream(section: str) -> Callable[[F], F]:
    """Batches that are added once, and streams."""
    return together(
        option("--app-id", metavar="ID", section=section, help="Writer's name; with --batch-id, add a batch once."),
        option("--batch-id", type=click.IntRange(min=0), metavar="N", section=section,
               help="Batch number; must be higher than the last."),
        option("--stream", is_flag=True, section=section, help="Add what is new since the last run."),
        option("--checkpoint-location", metavar="DIR", section=section, shell_complete=complete_place,
               help="Where a stream keeps its progress."),
        option("--every", metavar="TIME", section=section, help="Keep running, with a batch every '10 seconds'."),
    )  # fmt: skip


table = argument(
    "table",
    "TABLE",
    "A path, or an s3://, az://, abfss://, gs:// or file:// URI.",
    shell_complete=complete_place,
)
where = option("--where", metavar="SQL", section=WHAT, help='SQL condition, such as "ts >= now() - interval 1 hour".')
limit = option("--limit", type=click.IntRange(min=0), metavar="N", section=WHAT, help="Stop after N results.")
columns = option(
    "--columns", multiple=True, metavar="A,B", section=WHAT, callback=names, help="Show these columns, in this order."
)
version = option(
    "--version", type=click.IntRange(min=0), metavar="N", section=VERSION, help="Table version (default: newest)."
)
timestamp = option(
    "--timestamp", metavar="TIME", section=VERSION, help="The version at this time, such as 2026-02-10T22:00:00Z."
)
pinned = together(version, timestamp)
cursor = option("--cursor", metavar="NAME", section=CURSOR, help="Continue from this cursor, and move it.")
state = option(
    "--state", metavar="DIR", section=CURSOR, shell_complete=complete_place,
    help="Where cursors are (default: the table's directory).",
)  # fmt: skip
as_json = option("--json", "json", is_flag=True, section=OUTPUT, help="Print one JSON object per line.")
output = together(
    as_json,
    option("--output", metavar="FILE", section=OUTPUT, shell_complete=complete_file,
           help="Write a .parquet, .csv, .arrow or .json file."),
    option("--format", "file_format", metavar="NAME", section=OUTPUT,
           shell_complete=one_of("parquet", "csv", "arrow", "json"), help="Format: parquet, csv, arrow or json."),
)  # fmt: skip
verbose = option("--verbose", is_flag=True, section=OUTPUT, help="Log to stderr what is read and what it costs.")
storage_option = pair_option(
    "--storage-option", "stores", section=STORE, help="Option of the object store, as in deltalake."
)
reader_option = pair_option(
    "--option", "options", section=READER, shell_complete=complete_reader_option,
    help="Reader option, such as delta.sidecar.batch_size=1000.",
)  # fmt: skip
strategy = option(
    "--strategy", metavar="NAME", section=READER, shell_complete=one_of("auto", "reverse", "forward"),
    help="How to read commits: auto, reverse or forward.",
)  # fmt: skip
spark = together(
    option("--master", metavar="URL", section=SPARK, help="Spark master (default: this machine)."),
    pair_option("--conf", section=SPARK, help="A Spark setting; repeatable."),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The table of a command, from its arguments."""

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


_OF_SOURCE = ("table", "version", "timestamp", "stores", "options", "strategy")


def of_source(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one `Source` instead of the arguments that name the table and how to read it."""

    @wraps(command)
    def with_source(**given: Any) -> None:
        named = {name: given.pop(name) for name in _OF_SOURCE if name in given}
        command(source=_source(**named), **given)

    return with_source


def _source(
    table: str,
    version: int | None = None,
    timestamp: str | None = None,
    stores: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
    strategy: str | None = None,
) -> Source:
    if version is not None and timestamp is not None:
        raise click.UsageError("--version and --timestamp both name a version; give one of them")
    chosen = {} if strategy is None else {"delta.sidecar.strategy": strategy}
    return Source(table, version, timestamp, dict(stores), {**options, **chosen})
