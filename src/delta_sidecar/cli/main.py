"""The `sidecar` command. Everything that is slow to import is imported by the command that needs it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.failures import reported, say_interrupted
from delta_sidecar.cli.help import WIDEST, Group, argument, one_of, option
from delta_sidecar.cli.interrupts import interrupts
from delta_sidecar.cli.logs import log_to_stderr

if TYPE_CHECKING:
    from delta_sidecar.table import DeltaTable

_log = logging.getLogger(__name__)


def run() -> None:
    """The entry point of the command."""
    interrupts.listen()
    try:
        app(prog_name="sidecar")
    except KeyboardInterrupt as error:
        raise SystemExit(say_interrupted(error)) from None


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from delta_sidecar import __version__

        click.echo(f"sidecar {__version__}")
        context.exit()


@click.group(
    "sidecar",
    cls=Group,
    invoke_without_command=True,
    help="List the files of a Delta table, read its rows, and build the index that makes both fast.",
    epilog="Exit codes: 0 ok, 1 unexpected, 2 fixable error, 130 Ctrl-C, 143 SIGTERM.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def app(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@contextmanager
def _opened(source: arguments.Source, verbose: bool) -> Iterator[DeltaTable]:
    """The table, with failures reported and logs on stderr when they are wanted."""
    with _working(verbose, source.storage_options):
        from delta_sidecar.cli.reports import log_opening, log_total

        table = source.open()
        log_opening(table)
        yield table
        log_total(table)


@contextmanager
def _working(verbose: bool, secrets: Mapping[str, str]) -> Iterator[None]:
    """Logs on stderr when they are wanted, failures as one line."""
    log_to_stderr(verbose, secrets)
    begun = time.monotonic()
    with reported(verbose, secrets):
        yield
        _log.info("done in %.3f s", time.monotonic() - begun)


@app.command(
    short_help="List the live files, newest first.",
    help="List the live files, newest first. With --where, skip files that cannot hold a matching row.",
    epilog='Example: sidecar files ./events --where "ts >= now() - interval 1 hour"',
)
@arguments.table
@arguments.where
@arguments.limit
@arguments.columns
@option("--stats", is_flag=True, section=arguments.WHAT, help="Include the statistics of each file.")
@arguments.pinned
@arguments.output
@arguments.verbose
@arguments.strategy
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def files(
    source: arguments.Source,
    where: str | None,
    limit: int | None,
    columns: list[str] | None,
    stats: bool,
    json: bool,
    output: str | None,
    file_format: str | None,
    verbose: bool,
) -> None:
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.files import list_files
        from delta_sidecar.cli.sinks import sink_of

        list_files(opened, where, limit, columns, stats, sink_of(json, output, file_format))


@app.command(
    short_help="Print the rows.",
    help="Print the rows while they are read. With --where, print only the rows that match.",
    epilog='Example: sidecar read ./events --where "id = 7" --columns ts,id --limit 100',
)
@arguments.table
@arguments.where
@arguments.limit
@arguments.columns
@arguments.pinned
@arguments.output
@arguments.verbose
@arguments.strategy
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def read(
    source: arguments.Source,
    where: str | None,
    limit: int | None,
    columns: list[str] | None,
    json: bool,
    output: str | None,
    file_format: str | None,
    verbose: bool,
) -> None:
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.rows import print_rows
        from delta_sidecar.cli.sinks import sink_of

        print_rows(opened, where, limit, columns, sink_of(json, output, file_format))


_COUNTS = "Counts"


@app.command(
    short_help="Find rows by words.",
    help="Find rows by words, newest first, in a search table or in a Delta table with a companion.",
    epilog="Example: sidecar search ./logs 'error AND \"disk full\" host:web-7' --highlight",
)
@arguments.table
@argument("query", "QUERY", 'Words, "phrases", AND OR NOT, field:word, ranges, wild*cards.')
@arguments.where
@option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    metavar="N",
    section=arguments.WHAT,
    help="Hits of a page (default: 20).",
)
@arguments.columns
@option(
    "--search",
    "place",
    metavar="DIR",
    section=arguments.WHAT,
    shell_complete=arguments.complete_place,
    help="Where the companion is, if not below the table.",
)
@option("--best", is_flag=True, section=arguments.WHAT, help="Best first, by score, instead of newest first.")
@option("--after", metavar="PAGE", section=arguments.WHAT, help="Go on behind the page before, which names it.")
@option("--count", is_flag=True, section=_COUNTS, help="Only say how many rows match.")
@option("--histogram", metavar="SPAN", section=_COUNTS, help="Count rows by time, in spans such as 15m, 1h or 1d.")
@option("--top-terms", metavar="COLUMN", section=_COUNTS, help="Count the most frequent values of a column.")
@arguments.version
@option("--highlight", is_flag=True, section=arguments.OUTPUT, help="Show texts with what was found in bold.")
@arguments.output
@arguments.verbose
@arguments.storage_option
def search(
    table: str,
    query: str,
    where: str | None,
    limit: int,
    columns: list[str] | None,
    place: str | None,
    best: bool,
    after: str | None,
    count: bool,
    histogram: str | None,
    top_terms: str | None,
    version: int | None,
    highlight: bool,
    json: bool,
    output: str | None,
    file_format: str | None,
    verbose: bool,
    storage_option: Sequence[str],
) -> None:
    if sum((count, histogram is not None, top_terms is not None)) > 1:
        raise click.UsageError("--count, --histogram and --top-terms are different questions; ask one")
    secrets = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, secrets):
        from delta_sidecar.cli import search as searching
        from delta_sidecar.cli.sinks import sink_of
        from delta_sidecar.search import open_search

        sink = sink_of(json, output, file_format)
        opened = open_search(table, version, secrets, search=place)
        if count:
            searching.print_count(opened, query, where, json)
        elif histogram is not None:
            searching.print_histogram(opened, histogram, query, where, sink)
        elif top_terms is not None:
            searching.print_top_terms(opened, top_terms, query, where, limit, sink)
        else:
            wanted = searching.Wanted(query, where, limit, columns, best, highlight, after, verbose)
            searching.print_hits(opened, wanted, sink)


_RANGE, _CURSOR = "Range", arguments.CURSOR


@app.command(
    short_help="Print the rows that versions changed.",
    help="Print the rows that versions changed, oldest first, with what happened to each. The table needs a change "
    "feed (delta.enableChangeDataFeed).\n\n"
    "With --cursor, print what is new since the last run. The first run prints all rows as inserts, unless --from or "
    "--since names the first version.",
    epilog="Example: sidecar changes ./events --from 5 --json",
)
@arguments.table
@option("--from", "start", type=click.IntRange(min=0), metavar="N", section=_RANGE, help="The first version.")
@option("--since", metavar="TIME", section=_RANGE, help="The first version at or after this time.")
@option(
    "--to", "end", type=click.IntRange(min=0), metavar="N", section=_RANGE, help="The last version (default: newest)."
)
@arguments.cursor
@arguments.state
@option("--peek", is_flag=True, section=_CURSOR, help="Do not move the cursor.")
@arguments.where
@arguments.columns
@arguments.output
@arguments.verbose
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def changes(
    source: arguments.Source,
    start: int | None,
    since: str | None,
    end: int | None,
    cursor: str | None,
    state: str | None,
    peek: bool,
    where: str | None,
    columns: list[str] | None,
    json: bool,
    output: str | None,
    file_format: str | None,
    verbose: bool,
) -> None:
    first = since if start is None else start
    if start is not None and since is not None:
        raise click.UsageError("--from and --since both name the first version; give one of them")
    if first is None and cursor is None:
        raise click.UsageError("give the first version with --from, its time with --since, or a --cursor")
    if cursor is None and (state is not None or peek):
        raise click.UsageError("--state and --peek need a --cursor")
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.rows import print_changes
        from delta_sidecar.cli.sinks import sink_of

        sink = sink_of(json, output, file_format)
        if cursor is None:
            assert first is not None
            print_changes(opened, first, end, where, columns, sink)
            return
        from delta_sidecar.cli.cursors import cursors_at, print_by_cursor
        from delta_sidecar.lake.change_feed import CdfReadOptions

        cursors = cursors_at(source.table, state, source.storage_options)
        wanted = CdfReadOptions(start_version=start, start_timestamp=since, end_version=end)
        print_by_cursor(opened, cursors, cursor, peek, wanted, where, columns, sink)


@app.command(
    short_help="List or reset the cursors of consumers.",
    help="List the cursors of `sidecar changes` and `sidecar sync`, or reset one: its consumer then starts over.",
    epilog="Example: sidecar cursors reset ./events --cursor reports",
)
@argument("action", "list|reset", "What to do.", type=click.Choice(["list", "reset"]))
@argument(
    "table",
    "[TABLE]",
    "The table that holds the cursors; not needed with --state.",
    required=False,
    shell_complete=arguments.complete_place,
)
@option("--cursor", metavar="NAME", section=_CURSOR, help="The cursor to reset.")
@arguments.state
@option(
    "--to",
    "version",
    type=click.IntRange(min=0),
    metavar="N",
    section=_CURSOR,
    help="Set it to version N (default: delete it).",
)
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def cursors(
    action: str,
    table: str | None,
    cursor: str | None,
    state: str | None,
    version: int | None,
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    if action == "reset" and cursor is None:
        raise click.UsageError("name the cursor with --cursor")
    if action == "list" and (cursor is not None or version is not None):
        raise click.UsageError("--cursor and --to are for reset")
    with _working(verbose, stores):
        from delta_sidecar.cli.cursors import cursors_at, list_cursors, reset_cursor

        place = cursors_at(table, state, stores)
        if cursor is None:
            list_cursors(place, json)
        else:
            reset_cursor(place, cursor, version)


@app.command(
    short_help="Show what a listing reads, and why.",
    help="Run a listing without printing the files, and show what it read, why, and what it cost.",
    epilog="Example: sidecar explain ./events --where \"date(ts) = '2026-02-10'\"",
)
@arguments.table
@arguments.where
@arguments.limit
@arguments.columns
@option("--stats", is_flag=True, section=arguments.WHAT, help="Include the statistics of each file.")
@arguments.pinned
@arguments.as_json
@arguments.verbose
@arguments.strategy
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def explain(
    source: arguments.Source,
    where: str | None,
    limit: int | None,
    columns: list[str] | None,
    stats: bool,
    json: bool,
    verbose: bool,
) -> None:
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.reports import explain as report

        is_pinned = source.version is not None or source.timestamp is not None
        report(opened, where, limit, columns, stats, json, is_pinned)


@app.command(
    short_help="Show version, protocol, schema and properties.",
    help="Show version, protocol, schema, partitions, properties, base (index or checkpoint) and tail (later commits).",
    epilog="Example: sidecar info ./events --files",
)
@arguments.table
@option("--files", is_flag=True, section=arguments.WHAT, help="Count files and bytes; this lists every file.")
@arguments.pinned
@arguments.as_json
@arguments.verbose
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def info(
    source: arguments.Source,
    files: bool,
    json: bool,
    verbose: bool,
) -> None:
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.reports import info as report

        report(opened, files, json)


@app.command(
    short_help="Show the commits, newest first.",
    help="Show what each commit did, newest first.",
    epilog="Example: sidecar history ./events --limit 20",
)
@arguments.table
@arguments.limit
@arguments.pinned
@arguments.as_json
@arguments.verbose
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def history(
    source: arguments.Source,
    limit: int | None,
    json: bool,
    verbose: bool,
) -> None:
    with _opened(source, verbose) as opened:
        from delta_sidecar.cli.reports import history as report

        report(opened, limit, json)


_KUSTO = "Kusto"


@app.command(
    short_help="Write KQL for Kusto over the files that may match.",
    help="Write KQL queries for Kusto (Azure Data Explorer, Fabric) over exactly the files that may hold a matching "
    "row, or the command that creates an external table.",
    epilog='Example: sidecar kql az://lake/events --where "id = 7" --access impersonate',
)
@arguments.table
@arguments.where
@arguments.columns
@arguments.pinned
@option("--ddl", metavar="NAME", section=_KUSTO, help="Write the command that creates this external table.")
@option(
    "--access",
    default="none",
    metavar="HOW",
    section=_KUSTO,
    shell_complete=one_of("none", "impersonate", "managed-identity", "sas"),
    help="none, impersonate, managed-identity[=ID] or sas.",
)
@option("--with-secrets", is_flag=True, section=_KUSTO, help="Write the SAS token into the text.")
@option(
    "--sas-file",
    metavar="FILE",
    section=_KUSTO,
    shell_complete=arguments.complete_file,
    help="File with the token (or AZURE_STORAGE_SAS_TOKEN).",
)
@option("--uri-prefix", metavar="URL", section=_KUSTO, help="The table's directory, as Kusto reaches it.")
@option("--max-query-bytes", default="1MB", metavar="SIZE", section=_KUSTO, help="Split longer queries (1MB).")
@option("--max-uris", type=click.IntRange(min=1), metavar="N", section=_KUSTO, help="Maximum files per query.")
@option(
    "--max-branches",
    type=click.IntRange(min=1),
    default=100,
    metavar="N",
    section=_KUSTO,
    help="Maximum partition values per query (100).",
)
@arguments.as_json
@arguments.verbose
@arguments.strategy
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def kql(
    source: arguments.Source,
    where: str | None,
    columns: list[str] | None,
    ddl: str | None,
    access: str,
    with_secrets: bool,
    sas_file: str | None,
    uri_prefix: str | None,
    max_query_bytes: str,
    max_uris: int | None,
    max_branches: int,
    json: bool,
    verbose: bool,
) -> None:
    if ddl is not None and (where is not None or source.version is not None or source.timestamp is not None):
        raise click.UsageError("--ddl reads all rows of the newest version; leave out --where and versions")
    secrets = dict(source.storage_options)
    with _working(verbose, secrets):
        from delta_sidecar.cli.kql import Access, Limits, print_command, print_queries
        from delta_sidecar.cli.reports import log_opening, log_total

        how = Access(access, with_secrets, sas_file, source.storage_options)
        token = how.token()
        secrets |= {} if token is None else {"sas_token": token}
        opened = source.open()
        log_opening(opened)
        if ddl is not None:
            print_command(opened, ddl, columns, how, token, uri_prefix, json)
        else:
            limits = Limits(max_query_bytes, max_uris, max_branches)
            print_queries(opened, where, columns, how, token, uri_prefix, limits, json)
        log_total(opened)


@app.command(
    short_help="Show a table on a page in the browser.",
    help="Show a table on a page: its log over time, its index as a map, what a predicate reads, and what is amiss. "
    "Prints the address, which only this machine reaches, and serves until Ctrl-C. sidecar serve --page-port shows "
    "the page to others.",
    epilog="Example: sidecar ui ./events --open",
)
@arguments.table
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    section="Address",
    help="Port (default: a free one).",
)
@option("--open", "open_it", is_flag=True, section="Address", help="Open the browser, too.")
@arguments.verbose
@arguments.reader_option
@arguments.storage_option
@arguments.of_source
def ui(source: arguments.Source, port: int, open_it: bool, verbose: bool) -> None:
    with _working(verbose, source.storage_options):
        from delta_sidecar.cli.ui import show

        show(source, port, open_it)


_LISTEN, _LET_IN, _ROOM, _WATCHED = "Address", "Access", "Limits", "Page and metrics"


@app.command(
    short_help="Serve tables to other machines and languages.",
    help="Serve the tables below some roots over Arrow Flight: files, rows, stats and changes. A table is named "
    "NAME/path/below/the/root. Stops with SIGTERM or Ctrl-C.",
    epilog="Example: sidecar serve lake=/data/lake --token-file tokens.json",
)
@argument(
    "roots", "NAME=ROOT...", "Names and locations: lake=/data/lake, web=s3://bucket/web.", nargs=-1, required=True
)
@option("--host", default="127.0.0.1", metavar="HOST", section=_LISTEN, help="Address to listen on (127.0.0.1).")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=50051,
    metavar="N",
    section=_LISTEN,
    help="Port (50051); 0 takes a free one.",
)
@option("--tls-cert", metavar="FILE", section=_LISTEN, shell_complete=arguments.complete_file, help="Certificate, PEM.")
@option(
    "--tls-key", metavar="FILE", section=_LISTEN, shell_complete=arguments.complete_file, help="Its private key, PEM."
)
@option(
    "--token-file",
    metavar="FILE",
    section=_LET_IN,
    shell_complete=arguments.complete_file,
    help="Accept only these tokens; see sidecar token.",
)
@option("--insecure", is_flag=True, section=_LET_IN, help="Allow other machines without TLS or tokens.")
@option(
    "--ticket-key",
    metavar="FILE",
    section=_LET_IN,
    shell_complete=arguments.complete_file,
    help="File with a key that servers share.",
)
@option(
    "--ticket-seconds",
    type=click.FloatRange(min=1),
    default=300.0,
    metavar="N",
    section=_LET_IN,
    help="How long a ticket is valid (300).",
)
@option(
    "--streams",
    type=click.IntRange(min=1),
    default=16,
    metavar="N",
    section=_ROOM,
    help="Maximum streams at once (16).",
)
@option("--memory", default="128MB", metavar="SIZE", section=_ROOM, help="Memory of all streams (128MB).")
@option("--stream-memory", default="8MB", metavar="SIZE", section=_ROOM, help="Memory of each stream (8MB).")
@option("--no-sql", is_flag=True, section=_ROOM, help="Do not offer Flight SQL.")
@option("--sql-memory", default="64MB", metavar="SIZE", section=_ROOM, help="Memory of each SQL statement (64MB).")
@option(
    "--sql-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    metavar="N",
    section=_ROOM,
    help="How long a SQL statement may work (60).",
)
@option(
    "--wait",
    type=click.FloatRange(min=0),
    default=30.0,
    metavar="SECONDS",
    section=_ROOM,
    help="How long a request waits for its turn (30).",
)
@option(
    "--stop-seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    metavar="N",
    section=_ROOM,
    help="Seconds to let streams finish on stop (30).",
)
@option(
    "--stall-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    metavar="N",
    section=_ROOM,
    help="How long a client may take nothing (300).",
)
@option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="N",
    section=_WATCHED,
    help="Serve /metrics, /healthz and /readyz here.",
)
@option("--metrics-host", metavar="HOST", section=_WATCHED, help="Address for these (default: --host).")
@option("--page-port", type=click.IntRange(0, 65535), metavar="N", section=_WATCHED, help="Serve the page here.")
@option("--page-host", metavar="HOST", section=_WATCHED, help="Address for the page (default: --host).")
@option(
    "--storage-options",
    metavar="FILE",
    section=arguments.STORE,
    shell_complete=arguments.complete_file,
    help="TOML file with a section for each root.",
)
@arguments.reader_option
@option("--verbose", is_flag=True, section=arguments.OUTPUT, help="Also log what the reader does.")
def serve(roots: tuple[str, ...], option: tuple[str, ...], verbose: bool, **how: Any) -> None:
    with _working(verbose, {}):
        from delta_sidecar.cli.serve import Order
        from delta_sidecar.cli.serve import serve as run_server

        code = run_server(Order(roots, **how, reader_options=arguments.pairs("--option", option)), verbose)
    raise click.exceptions.Exit(code)


@app.group(
    short_help="Make tokens for sidecar serve.",
    help="Make the tokens that sidecar serve accepts.",
    epilog="Example: sidecar token new reports --token-file tokens.json --roots lake",
    cls=Group,
)
def token() -> None:
    pass


@token.command(
    "new",
    short_help="Make a token and print it, once.",
    help="Make a token, add its hash to a file, and print the token. It cannot be shown again. A running server reads "
    "the file when it changes. To revoke a token, delete its entry.",
    epilog="Example: sidecar token new reports --token-file tokens.json --expires 90d",
)
@argument("name", "NAME", "Who will use it; the server's log shows it.")
@option(
    "--token-file",
    required=True,
    metavar="FILE",
    shell_complete=arguments.complete_file,
    help="File of tokens; created if missing.",
)
@option("--roots", multiple=True, metavar="A,B", callback=arguments.names, help="Only these roots (default: all).")
@option("--expires", metavar="TIME", help="30d, 12h, or a time (default: never).")
@arguments.as_json
def new_token(name: str, token_file: str, roots: list[str] | None, expires: str | None, json: bool) -> None:
    with _working(False, {}):
        from delta_sidecar.cli.serve import make_token

        make_token(token_file, name, roots, expires, json)


@app.command(
    short_help="Write a small Delta table to try the commands on.",
    help="Write a small Delta table to try the other commands on.",
    epilog="Example: sidecar sample ./events, then sidecar build ./events",
)
@argument("directory", "DIR", "A new or empty directory on a local disk.", shell_complete=arguments.complete_place)
@option("--hours", type=click.IntRange(min=1), default=72, metavar="N", help="Hours of telemetry (72).")
@option("--files-per-hour", type=click.IntRange(min=1), default=4, metavar="N", help="Data files per hour (4).")
@option("--rows-per-file", type=click.IntRange(min=1), default=250, metavar="N", help="Rows per data file (250).")
@option("--seed", type=int, default=0, metavar="N", help="Seed of the random values (0).")
@arguments.as_json
@arguments.verbose
def sample(
    directory: str, hours: int, files_per_hour: int, rows_per_file: int, seed: int, json: bool, verbose: bool
) -> None:
    with _working(verbose, {}):
        from delta_sidecar.cli.sample import write

        write(directory, hours, files_per_hour, rows_per_file, seed, json)


_SOURCE, _TIME, _TABLE, _SCHEMA = "Source", "Time and buckets", "Table", "Schema and bad records"
_STREAM, _KAFKA = "Batches and streams", "Kafka"


@app.command(
    short_help="Add events to a table of time buckets, with Spark.",
    help="Add events to a table that is partitioned by a time bucket, with Spark. Create the table if needed.",
    epilog="Example: sidecar ingest ./landing ./events --time-column ts --bucket hour",
)
@argument(
    "source",
    "SOURCE",
    "Files or a Delta table (a path or URI), or kafka://broker/topic.",
    shell_complete=arguments.complete_place,
)
@arguments.table
@option(
    "--format",
    "file_format",
    metavar="NAME",
    section=_SOURCE,
    shell_complete=one_of("parquet", "json", "csv", "delta"),
    help="parquet, json, csv or delta; default: by name.",
)
@option(
    "--read-option", multiple=True, metavar="NAME=VALUE", section=_SOURCE, help="Option for reading, such as sep=;."
)
@option("--time-column", required=True, metavar="NAME", section=_TIME, help="Event time; meta.ts if nested.")
@option("--time-format", metavar="FORMAT", section=_TIME, help="epoch-seconds, -millis, -micros, -nanos, or a pattern.")
@option(
    "--bucket",
    default="hour",
    metavar="NAME",
    section=_TIME,
    shell_complete=one_of("month", "day", "hour", "minute", "second"),
    help="month, day, hour (default), minute or second, in UTC.",
)
@option("--bucket-column", metavar="NAME", section=_TIME, help="Default: _event_hour, _event_day and so on.")
@option(
    "--schema",
    metavar="FILE",
    section=_SCHEMA,
    shell_complete=arguments.complete_file,
    help="The schema of the source: DDL, or Spark's JSON.",
)
@option("--merge-schema", is_flag=True, section=_SCHEMA, help="Add new columns to the table.")
@option("--rescue", is_flag=True, section=_SCHEMA, help="Keep fields that do not fit as JSON in _rescued.")
@option(
    "--bad-rows",
    metavar="TABLE",
    section=_SCHEMA,
    shell_complete=arguments.complete_place,
    help="Write unreadable records to this Delta table.",
)
@option(
    "--target-file-size",
    default="128MB",
    metavar="SIZE",
    section=_TABLE,
    help="Split buckets above this file size (128MB).",
)
@option(
    "--table-property",
    multiple=True,
    metavar="NAME=VALUE",
    section=_TABLE,
    help="Property of a new table; repeatable.",
)
@option(
    "--index",
    default="checkpoint",
    metavar="WHEN",
    section=_TABLE,
    shell_complete=one_of("checkpoint", "always", "never"),
    help="Index at checkpoint (default), always or never.",
)
@option("--app-id", metavar="ID", section=_STREAM, help="With --batch-id: add this batch only once.")
@option(
    "--batch-id",
    type=click.IntRange(min=0),
    metavar="N",
    section=_STREAM,
    help="Batch number; must be higher than the last.",
)
@option("--stream", is_flag=True, section=_STREAM, help="Ingest what is new since the last run.")
@option(
    "--checkpoint-location",
    metavar="DIR",
    section=_STREAM,
    shell_complete=arguments.complete_place,
    help="Where a stream keeps its progress.",
)
@option("--every", metavar="TIME", section=_STREAM, help="Keep running, with a batch every '10 seconds'.")
@option(
    "--value-format",
    metavar="NAME",
    section=_KAFKA,
    shell_complete=one_of("json", "csv", "text", "avro"),
    help="json (default), csv, text or avro.",
)
@option(
    "--avro-schema",
    multiple=True,
    metavar="FILE",
    section=_KAFKA,
    shell_complete=arguments.complete_file,
    help="Schema FILE, or 17=FILE for id 17 of a registry.",
)
@option(
    "--kafka-columns",
    metavar="A,B",
    section=_KAFKA,
    help="Add columns: key, key_bytes, topic, partition, offset, timestamp, headers.",
)
@option("--starting-offsets", metavar="WHERE", section=_KAFKA, help="earliest (default), latest, a time, or JSON.")
@option("--ending-offsets", metavar="WHERE", section=_KAFKA, help="latest (default), or JSON; batches only.")
@option(
    "--kafka-config",
    metavar="FILE",
    section=_KAFKA,
    shell_complete=arguments.complete_file,
    help="File of consumer properties, including secrets.",
)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def ingest(
    source: str,
    table: str,
    file_format: str | None,
    read_option: tuple[str, ...],
    time_column: str,
    time_format: str | None,
    bucket: str,
    bucket_column: str | None,
    schema: str | None,
    merge_schema: bool,
    rescue: bool,
    bad_rows: str | None,
    target_file_size: str,
    table_property: tuple[str, ...],
    index: str,
    app_id: str | None,
    batch_id: int | None,
    stream: bool,
    checkpoint_location: str | None,
    every: str | None,
    value_format: str | None,
    avro_schema: tuple[str, ...],
    kafka_columns: str | None,
    starting_offsets: str | None,
    ending_offsets: str | None,
    kafka_config: str | None,
    master: str | None,
    conf: tuple[str, ...],
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    reads, properties = (
        arguments.pairs("--read-option", read_option),
        arguments.pairs("--table-property", table_property),
    )
    settings = arguments.pairs("--conf", conf)
    interrupts.clean_up_first()
    secrets = settings | stores
    with _working(verbose, secrets):
        from delta_sidecar.cli.ingest import Messages, Order, index_when, run

        messages = Messages(value_format, kafka_columns, starting_offsets, ending_offsets, avro_schema, kafka_config)
        order = Order(
            source,
            table,
            time_column,
            bucket=bucket,
            bucket_column=bucket_column,
            file_format=file_format,
            read_options=reads,
            target_file_size=target_file_size,
            schema_file=schema,
            time_format=time_format,
            merge_schema=merge_schema,
            rescue=rescue,
            bad_rows=bad_rows,
            app_id=app_id,
            batch_id=batch_id,
            table_properties=properties,
            index=index_when(index),
            stream=stream,
            checkpoint_location=checkpoint_location,
            every=every,
            storage_options=stores,
            messages=messages,
        )
        secrets |= {} if order.topics is None else order.topics.secrets
        run(order, master, settings, json, verbose)


_BUILD, _OWN, _WATCH = "Index", "Your own metadata", "Watching"
_SYNC = "Changes"


@app.command(
    short_help="Make a table follow another, with Spark.",
    help="Bring a target table up to the newest version of a source. The first run copies all rows; later runs "
    "apply what has changed since, each change exactly once.",
    epilog="Example: sidecar sync ./events ./copy --key id",
)
@argument("source", "SOURCE", "A Delta table with a change feed.", shell_complete=arguments.complete_place)
@argument("target", "TARGET", "The Delta table that follows it.", shell_complete=arguments.complete_place)
@option(
    "--key",
    multiple=True,
    metavar="A,B",
    section=_SYNC,
    callback=arguments.key_names,
    help="Columns that identify a row.",
)
@option(
    "--strategy",
    default="upsert",
    metavar="NAME",
    section=_SYNC,
    shell_complete=one_of("upsert", "append", "replace"),
    help="upsert (default), append or replace.",
)
@option(
    "--filter",
    "change_filter",
    default="include_all",
    metavar="NAME",
    section=_SYNC,
    shell_complete=one_of("include_all", "inserts_and_updates_only", "inserts_only"),
    help="include_all, inserts_and_updates_only or inserts_only.",
)
@option("--max-versions", type=click.IntRange(min=1), metavar="N", section=_SYNC, help="Maximum versions per step.")
@option("--full", is_flag=True, section=_SYNC, help="Start over: overwrite the target with all rows.")
@option("--dry-run", is_flag=True, section=_SYNC, help="Show the next step; write nothing.")
@option("--name", metavar="NAME", section=arguments.CURSOR, help="Name of the cursor (default: the source's name).")
@option(
    "--state",
    metavar="DIR",
    section=arguments.CURSOR,
    shell_complete=arguments.complete_place,
    help="Where the cursor is (default: the target's directory).",
)
@option("--watch", is_flag=True, section=_WATCH, help="Keep running and apply each new version.")
@option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=30.0,
    metavar="SECONDS",
    section=_WATCH,
    help="Seconds between checks of the source (30).",
)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def sync(
    source: str,
    target: str,
    key: tuple[str, ...],
    strategy: str,
    change_filter: str,
    max_versions: int | None,
    full: bool,
    dry_run: bool,
    name: str | None,
    state: str | None,
    watch: bool,
    interval: float,
    master: str | None,
    conf: tuple[str, ...],
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    if watch and dry_run:
        raise click.UsageError("--dry-run checks once; leave out --watch")
    stores, settings = arguments.pairs("--storage-option", storage_option), arguments.pairs("--conf", conf)
    interrupts.clean_up_first()
    with _working(verbose, settings | stores):
        from delta_sidecar.cli.sync import Order, run
        from delta_sidecar.lake.sync_job import job_of

        job = job_of(source, target, key, strategy, state, name, change_filter, max_versions, stores)
        run(job, Order(full, dry_run, watch, interval, json, verbose), master, settings)


@app.command(
    short_help="Build or update the index.",
    help="Build or update the index beside the log. Only the first index of a huge table needs Spark.",
    epilog="Example: sidecar build s3://lake/events --storage-option region=eu-central-1",
)
@arguments.table
@arguments.version
@option("--full", is_flag=True, section=_BUILD, help="Rebuild from scratch; ignore the old index.")
@option("--sort-column", metavar="NAME", section=_BUILD, help="Column to sort the index by; default: auto.")
@option("--time-column", metavar="NAME", section=_BUILD, help="Time column for fast pruning; default: auto.")
@option(
    "--engine",
    default="auto",
    metavar="NAME",
    section=_BUILD,
    shell_complete=one_of("auto", "process", "spark"),
    help="Engine: auto (default), process or spark.",
)
@option(
    "--manifest-metadata",
    multiple=True,
    metavar="NAME=VALUE",
    section=_OWN,
    help="Store it in the manifest; NAME= removes it.",
)
@option("--watch", is_flag=True, section=_WATCH, help="Keep running and index each new checkpoint.")
@option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=30.0,
    metavar="SECONDS",
    section=_WATCH,
    help="Seconds between checks of the log (30).",
)
@option(
    "--tail-commits",
    type=click.IntRange(min=1),
    metavar="N",
    section=_WATCH,
    help="Also index when N commits are not indexed yet.",
)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def build(
    table: str,
    version: int | None,
    full: bool,
    sort_column: str | None,
    time_column: str | None,
    engine: Any,
    manifest_metadata: tuple[str, ...],
    watch: bool,
    interval: float,
    tail_commits: int | None,
    master: str | None,
    conf: tuple[str, ...],
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    stores, settings = arguments.pairs("--storage-option", storage_option), arguments.pairs("--conf", conf)
    if watch and version is not None:
        raise click.UsageError("--watch follows the newest version; leave out --version")
    interrupts.clean_up_first()
    with _working(verbose, settings | stores):
        from delta_sidecar.cli import index
        from delta_sidecar.index.build.build import BuildOptions

        own = arguments.pairs("--manifest-metadata", manifest_metadata)
        kept = {name: value or None for name, value in own.items()}
        options = BuildOptions(sort_column, time_column, full, engine=engine, manifest_metadata=kept)
        if watch:
            index.follow(table, options, stores, master, settings, interval, tail_commits, json)
        else:
            index.build(table, version, options, stores, master, settings, json)


@app.command(
    short_help="Check the index against the log.",
    help="Check every byte of the index, and compare every file and bound in it with the log.",
    epilog="Exit codes: 0 it matches the log, 1 it does not, 2 it could not be checked.",
)
@arguments.table
@arguments.version
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def verify(table: str, version: int | None, json: bool, verbose: bool, storage_option: tuple[str, ...]) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli import index

        index.verify(table, version, stores, json)


_STEPS, _FILES = "Steps", "Files"
_STEP_NAMES = one_of("optimize", "vacuum", "index", "garbage", "checkpoint")


@app.command(
    short_help="Compact, vacuum and index tables, with Spark.",
    help="Compact small files, delete old files, update the index and delete old indexes.\n\n"
    "The steps are optimize, vacuum, index and garbage. A fifth step, checkpoint, runs only with --only checkpoint, "
    "because it aborts all running writes.",
    epilog="Example: sidecar maintain ./events --dry-run",
)
@argument(
    "tables",
    "TABLE...",
    "Paths or URIs of tables, handled one after the other.",
    nargs=-1,
    required=True,
    shell_complete=arguments.complete_place,
)
@option("--dry-run", is_flag=True, section=_STEPS, help="Show what each step would do; write nothing.")
@option(
    "--only",
    multiple=True,
    metavar="STEP",
    section=_STEPS,
    shell_complete=_STEP_NAMES,
    help="Run this step only; repeatable.",
)
@option(
    "--skip",
    multiple=True,
    metavar="STEP",
    section=_STEPS,
    shell_complete=_STEP_NAMES,
    help="Run all steps except this one; repeatable.",
)
@option(
    "--retain-hours",
    type=click.FloatRange(min=0),
    metavar="N",
    section=_FILES,
    help="Hours to keep old files; default: the table's.",
)
@option(
    "--target-file-size",
    default="128MB",
    metavar="SIZE",
    section=_FILES,
    help="Compact files smaller than half of this (128MB).",
)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def maintain(
    tables: tuple[str, ...],
    dry_run: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    retain_hours: float | None,
    target_file_size: str,
    master: str | None,
    conf: tuple[str, ...],
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    stores, settings = arguments.pairs("--storage-option", storage_option), arguments.pairs("--conf", conf)
    interrupts.clean_up_first()
    with _working(verbose, settings | stores):
        from delta_sidecar.cli.maintain import Order, run

        order = Order(tables, dry_run, only, skip, retain_hours, target_file_size, stores)
        run(order, master, settings, json)


_COLUMNS, _SPLITS = "Columns", "Splits"


@app.group(
    short_help="Build and look after the splits of a search table.",
    help="Build full-text splits of rows, and look after the search table that they make up.",
    epilog="Example: sidecar splits build ./events ./events-search --text body --key id --time ts",
    cls=Group,
)
def splits() -> None:
    pass


_search_table = argument(
    "table",
    "TABLE",
    "The search table: a path, or an s3://, az:// or gs:// URI.",
    shell_complete=arguments.complete_place,
)
_dry_run = option("--dry-run", is_flag=True, section=_SPLITS, help="Only say what would be done.")
_choices = arguments.together(
    option("--text", multiple=True, metavar="A,B", section=_COLUMNS, callback=arguments.key_names,
           help="Columns of texts to search in."),
    option("--key", multiple=True, metavar="A,B", section=_COLUMNS, callback=arguments.key_names,
           help="Columns that identify a row."),
    option("--time", metavar="A", section=_COLUMNS, help="The column that says when a row happened."),
    option("--filter", "filters", multiple=True, metavar="A,B", section=_COLUMNS, callback=arguments.key_names,
           help="More columns to filter and group by."),
    option("--stored", multiple=True, metavar="A,B", section=_COLUMNS, callback=arguments.key_names,
           help="Columns whose values come back with a hit."),
    option("--analyzer", multiple=True, metavar="A=NAME", section=_COLUMNS,
           help="How a text is divided: default, raw, whitespace, en, …"),
)  # fmt: skip


@splits.command(
    "build",
    short_help="Index rows into splits, and add them to a search table.",
    help="Index the rows of a Delta table or of files into splits, and add these to a search table in one commit. The "
    "table is created if needed; its columns are chosen then.",
    epilog="Example: sidecar splits build ./events ./events-search --text body --key id --time ts",
)
@argument("source", "SOURCE", "A Delta table, or Parquet files.", shell_complete=arguments.complete_place)
@_search_table
@_choices
@option(
    "--partition-by",
    multiple=True,
    metavar="A,B",
    section=_COLUMNS,
    callback=arguments.key_names,
    help="Columns with one value for each split.",
)
@option(
    "--mode",
    default="append",
    metavar="NAME",
    section=_SPLITS,
    shell_complete=one_of("append", "overwrite"),
    help="append or overwrite (append).",
)
@option(
    "--rows-per-split",
    type=click.IntRange(min=1),
    default=1_000_000,
    metavar="N",
    section=_SPLITS,
    help="Rows of a split, at most (1000000).",
)
@option(
    "--engine",
    default="auto",
    metavar="NAME",
    section=_SPLITS,
    shell_complete=one_of("auto", "process", "spark"),
    help="auto, process or spark (auto).",
)
@option(
    "--format",
    "source_format",
    metavar="NAME",
    section=_SPLITS,
    shell_complete=one_of("delta", "parquet", "json", "csv"),
    help="Format of the source, if its names do not tell.",
)
@option("--read-option", multiple=True, metavar="NAME=VALUE", section=_SPLITS, help="Option of Spark's reader.")
@option("--app-id", metavar="NAME", section=_STREAM, help="With --batch-id: add each batch once.")
@option("--batch-id", type=click.IntRange(min=0), metavar="N", section=_STREAM, help="The number of the batch.")
@option("--stream", is_flag=True, section=_STREAM, help="Add what is new since the last run.")
@option(
    "--checkpoint-location",
    metavar="DIR",
    section=_STREAM,
    shell_complete=arguments.complete_place,
    help="Where a stream keeps its progress.",
)
@option("--every", metavar="TIME", section=_STREAM, help="Keep running, with a batch every '10 seconds'.")
@option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    section=_SPLITS,
    help="Table property, if it is created.",
)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def build_splits_command(
    source: str,
    table: str,
    analyzer: tuple[str, ...],
    partition_by: tuple[str, ...],
    read_option: tuple[str, ...],
    properties: tuple[str, ...],
    conf: tuple[str, ...],
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
    **how: Any,
) -> None:
    stores, settings = arguments.pairs("--storage-option", storage_option), arguments.pairs("--conf", conf)
    interrupts.clean_up_first()
    with _working(verbose, settings | stores):
        from delta_sidecar.cli.splits import BuildOrder, Place, build

        order = BuildOrder(
            source,
            Place(table, stores, json),
            analyzers=arguments.pairs("--analyzer", analyzer),
            partition_columns=partition_by,
            read_options=arguments.pairs("--read-option", read_option),
            properties=arguments.pairs("--property", properties),
            conf=settings,
            verbose=verbose,
            **how,
        )
        build(order)


@splits.command(
    "follow",
    short_help="Keep a search table over a Delta table in step.",
    help="Make a search table over a Delta table, its companion, and keep it in step with the table: new files are "
    "indexed, files that are gone are dropped. It runs until it is stopped.",
    epilog="Example: sidecar splits follow ./events --text body --once",
)
@arguments.table
@_choices
@option(
    "--search",
    metavar="PLACE",
    section=_SPLITS,
    shell_complete=arguments.complete_place,
    help="Where the companion is (default: TABLE/_search).",
)
@option("--once", is_flag=True, section=_SPLITS, help="Stop when it is in step.")
@option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=10.0,
    metavar="SECONDS",
    section=_SPLITS,
    help="Seconds between two looks at the table (10).",
)
@option(
    "--rows-per-split",
    type=click.IntRange(min=1),
    default=1_000_000,
    metavar="N",
    section=_SPLITS,
    help="Rows of a split, about (1000000).",
)
@option(
    "--engine",
    default="auto",
    metavar="NAME",
    section=_SPLITS,
    shell_complete=one_of("auto", "process", "spark"),
    help="auto, process or spark (auto).",
)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def follow_command(
    table: str,
    analyzer: tuple[str, ...],
    conf: tuple[str, ...],
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
    **how: Any,
) -> None:
    stores, settings = arguments.pairs("--storage-option", storage_option), arguments.pairs("--conf", conf)
    interrupts.clean_up_first()
    with _working(verbose, settings | stores):
        from delta_sidecar.cli.splits import FollowOrder, Place, follow_table

        analyzers = arguments.pairs("--analyzer", analyzer)
        follow_table(FollowOrder(Place(table, stores, json), analyzers=analyzers, conf=settings, **how))


@splits.command(
    "merge",
    short_help="Merge small splits into larger ones.",
    help="Merge small splits into larger ones, without indexing a text again. A damaged split is left out, and left "
    "alone for a day.",
    epilog="Example: sidecar splits merge ./events-search --target-size 1GB",
)
@_search_table
@option("--target-size", default="1GB", metavar="SIZE", section=_SPLITS, help="Size of a split (1GB).")
@option(
    "--most-inputs",
    type=click.IntRange(min=2),
    default=1000,
    metavar="N",
    section=_SPLITS,
    help="So many splits become one, at most (1000).",
)
@option("--most-results", type=click.IntRange(min=1), metavar="N", section=_SPLITS, help="Make at most N new splits.")
@option(
    "--most-segments",
    type=click.IntRange(min=1),
    default=100,
    metavar="N",
    section=_SPLITS,
    help="Join the parts of a split with more (100).",
)
@arguments.where
@_dry_run
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def merge_command(table: str, json: bool, verbose: bool, storage_option: tuple[str, ...], **how: Any) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    interrupts.clean_up_first()
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, merge

        merge(Place(table, stores, json), **how)


@splits.command(
    "purge",
    short_help="Delete splits that no version has.",
    help="Delete the files of splits that no version has any more, or that were never committed. Live and young ones "
    "are never deleted.",
    epilog="Example: sidecar splits purge ./events-search --older-than 7d --dry-run",
)
@_search_table
@option("--older-than", default="7d", metavar="AGE", section=_SPLITS, help="Only what is older, such as 12h (7d).")
@option("--log", is_flag=True, section=_SPLITS, help="First delete old version files, as the table's settings say.")
@_dry_run
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def purge_command(
    table: str, older_than: str, log: bool, dry_run: bool, json: bool, verbose: bool, storage_option: tuple[str, ...]
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, purge_splits

        purge_splits(Place(table, stores, json), older_than, log, dry_run)


@splits.command(
    "checkpoint",
    short_help="Write a checkpoint of the log.",
    help="Write a checkpoint of the newest version, from which readers start.",
    epilog="Example: sidecar splits checkpoint ./events-search",
)
@_search_table
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def checkpoint_command(table: str, json: bool, verbose: bool, storage_option: tuple[str, ...]) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, write_checkpoint

        write_checkpoint(Place(table, stores, json))


@splits.command(
    "describe",
    short_help="Show what a search table holds.",
    help="Show version, columns, rows and size of a search table, or its splits.",
    epilog="Example: sidecar splits describe ./events-search --splits",
)
@_search_table
@option("--splits", "with_splits", is_flag=True, section=arguments.WHAT, help="List the splits.")
@arguments.where
@arguments.version
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def describe_command(
    table: str,
    with_splits: bool,
    where: str | None,
    version: int | None,
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, describe

        describe(Place(table, stores, json), version, where, with_splits)


@splits.command(
    "drop-partition",
    short_help="Remove whole partitions from a search table.",
    help="Remove the splits of whole partitions from a search table. Their files stay until they are purged.",
    epilog="Example: sidecar splits drop-partition ./events-search --where \"day < '2026-01-01'\"",
)
@_search_table
@option("--where", required=True, metavar="SQL", section=arguments.WHAT, help="A condition on partition columns.")
@_dry_run
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def drop_partition_command(
    table: str, where: str, dry_run: bool, json: bool, verbose: bool, storage_option: tuple[str, ...]
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, drop

        drop(Place(table, stores, json), where, dry_run)


@splits.command(
    "repair",
    short_help="Take lost splits out of a search table.",
    help="Take splits out of a search table whose files are missing or damaged. Their rows must be indexed again.",
    epilog="Example: sidecar splits repair ./events-search --dry-run",
)
@_search_table
@option("--whole", is_flag=True, section=_SPLITS, help="Read every split and compare its checksums.")
@_dry_run
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def repair_command(
    table: str, whole: bool, dry_run: bool, json: bool, verbose: bool, storage_option: tuple[str, ...]
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, repair_table

        repair_table(Place(table, stores, json), whole, dry_run)


@splits.command(
    "prewarm",
    short_help="Fetch splits to this machine.",
    help="Fetch splits to a directory on this machine, so that the first search is as fast as the next. Searches use "
    "the directory that DELTA_SIDECAR_SPLIT_CACHE names.",
    epilog="Example: sidecar splits prewarm s3://bucket/logs --cache /var/cache/splits",
)
@_search_table
@arguments.where
@option(
    "--cache",
    metavar="DIR",
    section=_SPLITS,
    shell_complete=arguments.complete_place,
    help="The directory (default: DELTA_SIDECAR_SPLIT_CACHE).",
)
@option("--budget", metavar="SIZE", section=_SPLITS, help="How large it may become (10GiB).")
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def prewarm_command(
    table: str,
    where: str | None,
    cache: str | None,
    budget: str | None,
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, fetch

        fetch(Place(table, stores, json), where, cache, budget)


@splits.command(
    "doctor",
    short_help="Look for what is wrong with a search table.",
    help="Look for what is wrong with a search table: its log, its checkpoints, lost and forgotten splits.",
    epilog="Exit codes: 0 no problem, 1 a problem was found, 2 it could not be looked at.",
)
@_search_table
@option("--whole", is_flag=True, section=_SPLITS, help="Read every split and compare its checksums.")
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def doctor_command(table: str, whole: bool, json: bool, verbose: bool, storage_option: tuple[str, ...]) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, check

        check(Place(table, stores, json), whole)


@splits.command(
    "upgrade",
    short_help="Raise the protocol of a search table.",
    help="Raise the protocol of a search table. Nothing is ever lowered or taken away.",
    epilog="Example: sidecar splits upgrade ./events-search --feature parquetCheckpoint",
)
@_search_table
@option("--reader", type=click.IntRange(min=1), default=1, metavar="N", section=_SPLITS, help="At least this (1).")
@option("--writer", type=click.IntRange(min=1), default=2, metavar="N", section=_SPLITS, help="At least this (2).")
@option(
    "--feature",
    multiple=True,
    metavar="NAME",
    section=_SPLITS,
    shell_complete=one_of("parquetCheckpoint"),
    help="A feature by name; repeatable.",
)
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def upgrade_command(
    table: str,
    reader: int,
    writer: int,
    feature: tuple[str, ...],
    json: bool,
    verbose: bool,
    storage_option: tuple[str, ...],
) -> None:
    stores = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, stores):
        from delta_sidecar.cli.splits import Place, upgrade

        upgrade(Place(table, stores, json), reader, writer, feature)


@app.command(
    short_help="Check a policy for writing, and show what it does.",
    help="Check a policy file, and show the options, settings and properties that it turns into.",
    epilog="Example: sidecar policy check events.toml --table ./events",
)
@argument("action", "check", "The only action.", type=click.Choice(["check"]))
@argument("file", "FILE", "A .toml or .json file.", shell_complete=arguments.complete_file)
@option("--table", metavar="TABLE", section=arguments.WHAT, help="Also check that the policy fits this table.")
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def policy(action: str, file: str, table: str | None, json: bool, verbose: bool, storage_option: Sequence[str]) -> None:
    options = arguments.pairs("--storage-option", storage_option)
    with _working(verbose, options):
        from delta_sidecar.cli.policy import check_policy

        check_policy(file, table, options, json)


@app.command(
    short_help="Print the completion script of a shell.",
    help="Print the script that completes commands, options and values in bash, zsh or fish.\n\n"
    '\b\nbash  eval "$(sidecar completion bash)" in ~/.bashrc\n'
    'zsh   eval "$(sidecar completion zsh)" in ~/.zshrc, after compinit\n'
    "fish  sidecar completion fish > ~/.config/fish/completions/sidecar.fish",
)
@argument("shell", "SHELL", "bash, zsh or fish.", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    template = script(app, {}, "sidecar", "_SIDECAR_COMPLETE")
    with reported(False, {}):
        click.echo(template.source_template % template.source_vars())


if __name__ == "__main__":
    run()
