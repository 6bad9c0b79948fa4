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
    help="The live files and rows of a Delta table, as a stream, and the index that finds them.",
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


@app.command(epilog="Example: sidecar sample ./events, then sidecar build ./events")
def sample(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty directory on a local disk.")],
    hours: Annotated[int, typer.Option("--hours", min=1, metavar="N", help="Hours of telemetry.")] = 72,
    files_per_hour: Annotated[
        int, typer.Option("--files-per-hour", min=1, metavar="N", help="Data files of each hour.")
    ] = 4,
    rows_per_file: Annotated[
        int, typer.Option("--rows-per-file", min=1, metavar="N", help="Rows of each data file.")
    ] = 250,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another seed gives other values.")] = 0,
    json: given.Json = False,
    verbose: given.Verbose = False,
) -> None:
    """Write a small Delta table to try the other commands on."""
    _log_to_stderr(verbose)
    with reported(verbose, {}):
        from delta_sidecar.cli.sample import write

        write(directory, hours, files_per_hour, rows_per_file, seed, json)


@app.command(epilog="Example: sidecar ingest ./landing ./events --time-column ts --bucket hour")
def ingest(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Files or a Delta table: a path or URI; or kafka://broker/topic.")
    ],
    table: given.Table,
    time_column: Annotated[
        str, typer.Option("--time-column", metavar="NAME", help="When an event happened; meta.ts for a nested one.")
    ],
    time_format: Annotated[
        str | None,
        typer.Option("--time-format", metavar="FORMAT", help="epoch-seconds, -millis, -micros, -nanos or a pattern."),
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="What the source must fit: DDL, or Spark's JSON.")
    ] = None,
    bucket: Annotated[str, typer.Option("--bucket", help="month, day, hour, minute or second, in UTC.")] = "hour",
    bucket_column: Annotated[
        str | None, typer.Option("--bucket-column", metavar="NAME", help="Default: _event_hour, by the bucket.")
    ] = None,
    target_file_size: Annotated[
        str, typer.Option("--target-file-size", metavar="SIZE", help="A bucket above it has several files.")
    ] = "128MB",
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="parquet, json, csv or delta; by the files' names without it."),
    ] = None,
    read_option: Annotated[
        list[str] | None,
        typer.Option("--read-option", metavar="NAME=VALUE", help="How it is read, e.g. sep=;."),
    ] = None,
    app_id: Annotated[str | None, typer.Option("--app-id", help="With --batch-id: add this batch only once.")] = None,
    batch_id: Annotated[int | None, typer.Option("--batch-id", min=0, help="Higher than the last one.")] = None,
    merge_schema: Annotated[bool, typer.Option("--merge-schema", help="Add new columns to the table.")] = False,
    rescue: Annotated[
        bool, typer.Option("--rescue", help="Keep what does not fit as JSON text in the column _rescued.")
    ] = False,
    bad_rows: Annotated[
        str | None,
        typer.Option("--bad-rows", metavar="TABLE", help="Put records that cannot be read aside, in a Delta table."),
    ] = None,
    table_property: Annotated[
        list[str] | None, typer.Option("--table-property", metavar="NAME=VALUE", help="Set when the table is created.")
    ] = None,
    index: Annotated[str, typer.Option("--index", help="After each checkpoint, always or never.")] = "checkpoint",
    stream: Annotated[bool, typer.Option("--stream", help="Take what came since the checkpoint, then end.")] = False,
    checkpoint_location: Annotated[
        str | None, typer.Option("--checkpoint-location", metavar="DIR", help="Where a stream writes how far it came.")
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="A stream goes on until stopped, e.g. '10 seconds'.")
    ] = None,
    value_format: Annotated[
        str | None, typer.Option("--value-format", metavar="NAME", help="Of messages: json (default), csv, text, avro.")
    ] = None,
    avro_schema: Annotated[
        list[str] | None, typer.Option("--avro-schema", metavar="FILE", help="Of messages; 17=FILE for a registry's.")
    ] = None,
    kafka_columns: Annotated[
        str | None,
        typer.Option(
            "--kafka-columns", metavar="A,B", help="key, key_bytes, topic, partition, offset, timestamp, headers."
        ),
    ] = None,
    starting_offsets: Annotated[
        str | None,
        typer.Option("--starting-offsets", metavar="WHERE", help="earliest (default), latest, a time, or JSON."),
    ] = None,
    ending_offsets: Annotated[
        str | None, typer.Option("--ending-offsets", metavar="WHERE", help="Of a batch: latest (default), or JSON.")
    ] = None,
    kafka_config: Annotated[
        str | None, typer.Option("--kafka-config", metavar="FILE", help="Kafka's consumer properties: logins, keys.")
    ] = None,
    master: given.Master = None,
    conf: given.Conf = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    verbose: given.Verbose = False,
) -> None:
    """Add events to a table of time buckets, with Spark; the table is made if it is not there."""
    stores = given.pairs("--storage-option", storage_option)
    reads, properties = given.pairs("--read-option", read_option), given.pairs("--table-property", table_property)
    settings = given.pairs("--conf", conf)
    _log_to_stderr(verbose)
    hidden = dict(stores)
    with reported(verbose, hidden):
        from delta_sidecar.cli.ingest import Messages, Order, index_when, run

        messages = Messages(
            value_format, kafka_columns, starting_offsets, ending_offsets, tuple(avro_schema or ()), kafka_config
        )
        order = Order(
            source, table, time_column, bucket, bucket_column, file_format, reads, target_file_size, schema,
            time_format, merge_schema, rescue, bad_rows, app_id, batch_id, properties, index_when(index), stream,
            checkpoint_location, every, stores, messages,
        )  # fmt: skip
        hidden |= {} if order.topics is None else order.topics.secrets
        run(order, master, settings, json, verbose)


@app.command(epilog="Example: sidecar build s3://lake/events --storage-option region=eu-central-1")
def build(
    table: given.Table,
    version: given.Version = None,
    full: Annotated[bool, typer.Option("--full", help="Anew, even where an index could be built on.")] = False,
    sort_column: Annotated[
        str | None,
        typer.Option("--sort-column", metavar="NAME", help="What the index is sorted by; told by the schema."),
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time-column", metavar="NAME", help="Whose bounds every listing has at hand.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", metavar="NAME", help="process, spark, or auto: what builds an index that is built anew."
        ),
    ] = "auto",
    manifest_metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--manifest-metadata", metavar="NAME=VALUE", help="Your own metadata, kept; NAME= removes it; repeatable."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Index each new checkpoint, until stopped.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="With --watch: between two looks.")
    ] = 30.0,
    tail_commits: Annotated[
        int | None,
        typer.Option(
            "--tail-commits", min=1, metavar="N", help="With --watch: index N commits without a checkpoint, too."
        ),
    ] = None,
    master: given.Master = None,
    conf: given.Conf = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    verbose: given.Verbose = False,
) -> None:
    """Build the index beside the log, on top of the last one where there is one; Spark only where it is huge."""
    stores, settings = given.pairs("--storage-option", storage_option), given.pairs("--conf", conf)
    if watch and version is not None:
        raise typer.BadParameter("--watch follows the newest version; leave --version out")
    _log_to_stderr(verbose)
    with reported(verbose, stores):
        from delta_sidecar.cli import index
        from delta_sidecar.index.build.build import BuildOptions

        own = given.pairs("--manifest-metadata", manifest_metadata)
        kept = {name: value or None for name, value in own.items()}
        options = BuildOptions(sort_column, time_column, full, engine=engine, manifest_metadata=kept)  # type: ignore[arg-type]
        if watch:
            index.follow(table, options, stores, master, settings, interval, tail_commits, json)
        else:
            index.build(table, version, options, stores, master, settings, json)


@app.command(epilog="Exit codes: 0 the index is as the log says, 1 it is not, 2 it could not be checked.")
def verify(
    table: given.Table,
    version: given.Version = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    verbose: given.Verbose = False,
) -> None:
    """Check every byte of the index, and each file and bound in it against a replay of the log."""
    stores = given.pairs("--storage-option", storage_option)
    _log_to_stderr(verbose)
    with reported(verbose, stores):
        from delta_sidecar.cli import index

        index.verify(table, version, stores, json)


@app.command(epilog="Example: sidecar maintain ./events --dry-run, then the same without it")
def maintain(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Where the tables are: paths or URIs, one after the other.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what each step would do; write nothing.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="STEP", help="optimize, vacuum, index, garbage, checkpoint; repeatable."),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="STEP", help="All steps but this one; repeatable.")
    ] = None,
    retain_hours: Annotated[
        float | None,
        typer.Option("--retain-hours", min=0, metavar="N", help="For VACUUM; the table's own retention without it."),
    ] = None,
    target_file_size: Annotated[
        str, typer.Option("--target-file-size", metavar="SIZE", help="Files below half of it are put together.")
    ] = "128MB",
    master: given.Master = None,
    conf: given.Conf = None,
    json: given.Json = False,
    storage_option: given.StorageOption = None,
    verbose: given.Verbose = False,
) -> None:
    """Put small files together, delete old ones, bring the index up to date, drop what old indexes left behind.

    The checkpoint step runs only with --only checkpoint: it aborts writers that are at work.
    """
    stores, settings = given.pairs("--storage-option", storage_option), given.pairs("--conf", conf)
    _log_to_stderr(verbose)
    with reported(verbose, stores):
        from delta_sidecar.cli.maintain import Order, run

        order = Order(tables, dry_run, only or (), skip or (), retain_hours, target_file_size, stores)
        run(order, master, settings, json)


if __name__ == "__main__":
    run()
