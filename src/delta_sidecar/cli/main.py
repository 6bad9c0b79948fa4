"""The `sidecar` command. Everything that is slow to import is imported by the command that needs it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from delta_sidecar.cli import arguments as given
from delta_sidecar.cli.failures import INTERRUPTED, MENDABLE, reported, say_usage

if TYPE_CHECKING:
    from delta_sidecar.table import DeltaTable

_USAGE_ERROR = cast(type[Exception], typer.BadParameter.__base__)


class _OneLineGroup(TyperGroup):
    """Bad arguments are one line on stderr and exit code 2, like all that the user can mend."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _USAGE_ERROR as error:
            context = getattr(error, "ctx", None)
            say_usage(cast(Any, error).format_message(), context.command_path if context else "sidecar")
            sys.exit(MENDABLE)
        except typer.Abort:
            sys.exit(INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="sidecar",
    cls=_OneLineGroup,
    help="The live files and rows of a Delta table, as a stream. Nothing is written to the table.",
    epilog="Exit codes: 0 done, 2 something to mend (one line on stderr), 1 unexpected, 130 interrupted.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    """The entry point of the command."""
    app(prog_name="sidecar")


def _print_version(wanted: bool) -> None:
    if wanted:
        from delta_sidecar import __version__

        typer.echo(f"sidecar {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _sidecar(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="The version of this command.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@contextmanager
def _opened(source: given.Source, verbose: bool) -> Iterator[DeltaTable]:
    """The table, with failures reported and logs on stderr when they are wanted."""
    _log_to_stderr(verbose)
    with reported(verbose, source.storage_options):
        yield source.open()


def _log_to_stderr(verbose: bool) -> None:
    ours = logging.getLogger("delta_sidecar")
    handler = logging.StreamHandler() if verbose else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    ours.handlers, ours.propagate = [handler], False
    ours.setLevel(logging.DEBUG if verbose else logging.WARNING)


@app.command(
    epilog="Example: sidecar files s3://lake/events --where \"ts >= '2026-02-10T22:00:00Z'\" --limit 10 --json"
)
def files(
    table: given.Table,
    where: given.Where = None,
    limit: given.Limit = None,
    columns: given.Columns = None,
    stats: Annotated[bool, typer.Option("--stats", help="The statistics of each file, too.")] = False,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    strategy: given.Strategy = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    option: given.ReaderOption = None,
    verbose: given.Verbose = False,
) -> None:
    """List the live files, newest first; those that cannot hold a matching row are left out."""
    wanted = given.names(columns)
    source = given.source(table, version, timestamp, storage_option, option, strategy)
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.files import list_files

        list_files(opened, where, limit, wanted, stats, json)


@app.command(epilog='Example: sidecar read ./events --where "id = 7" --columns ts,id --limit 100 --json')
def read(
    table: given.Table,
    where: given.Where = None,
    limit: given.Limit = None,
    columns: given.Columns = None,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    strategy: given.Strategy = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    option: given.ReaderOption = None,
    verbose: given.Verbose = False,
) -> None:
    """Print the rows that match, while the files are still being found."""
    wanted = given.names(columns)
    source = given.source(table, version, timestamp, storage_option, option, strategy)
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.rows import print_rows

        print_rows(opened, where, limit, wanted, json)


@app.command(epilog="Example: sidecar explain az://lake/events --where \"ts >= '2026-02-10T22:00:00Z'\"")
def explain(
    table: given.Table,
    where: given.Where = None,
    limit: given.Limit = None,
    columns: given.Columns = None,
    stats: Annotated[bool, typer.Option("--stats", help="As if statistics were asked for.")] = False,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    strategy: given.Strategy = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    option: given.ReaderOption = None,
    verbose: given.Verbose = False,
) -> None:
    """List the files without printing them; say what was read and why, what was left out, what it cost."""
    wanted = given.names(columns)
    source = given.source(table, version, timestamp, storage_option, option, strategy)
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.reports import explain as report

        report(opened, where, limit, wanted, stats, json)


@app.command(epilog="Example: sidecar info ./events --files")
def info(
    table: given.Table,
    files: Annotated[bool, typer.Option("--files", help="Count files and bytes, too: this lists them all.")] = False,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    option: given.ReaderOption = None,
    verbose: given.Verbose = False,
) -> None:
    """Show version, protocol, schema, partitioning, properties, and what the version is made of."""
    with _opened(given.source(table, version, timestamp, storage_option, option), verbose) as opened:
        from delta_sidecar.cli.reports import info as report

        report(opened, files, json)


@app.command(epilog="Example: sidecar history ./events --limit 20")
def history(
    table: given.Table,
    limit: given.Limit = None,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    option: given.ReaderOption = None,
    verbose: given.Verbose = False,
) -> None:
    """Show what each commit says of itself, newest first."""
    with _opened(given.source(table, version, timestamp, storage_option, option), verbose) as opened:
        from delta_sidecar.cli.reports import history as report

        report(opened, limit, json)


if __name__ == "__main__":
    run()
