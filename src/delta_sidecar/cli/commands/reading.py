"""Commands that read a table: its files, its rows, what a listing costs, and what the log says."""

from __future__ import annotations

from delta_sidecar.cli import arguments
from delta_sidecar.cli.help import command, option
from delta_sidecar.cli.work import opened_table


@command(
    short_help="List the live files.",
    help="List the live files, those of new commits first. With --where, skip files that cannot hold a matching row. "
    "With --limit and an index, the files that are not of new commits come by sort key, the greatest first.",
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
    with opened_table(source, verbose) as opened:
        from delta_sidecar.cli.files import list_files
        from delta_sidecar.cli.sinks import sink_of

        list_files(opened, where, limit, columns, stats, sink_of(json, output, file_format))


@command(
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
    with opened_table(source, verbose) as opened:
        from delta_sidecar.cli.rows import print_rows
        from delta_sidecar.cli.sinks import sink_of

        print_rows(opened, where, limit, columns, sink_of(json, output, file_format))


@command(
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
    with opened_table(source, verbose) as opened:
        from delta_sidecar.cli.reports import explain as report

        is_pinned = source.version is not None or source.timestamp is not None
        report(opened, where, limit, columns, stats, json, is_pinned)


@command(
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
    with opened_table(source, verbose) as opened:
        from delta_sidecar.cli.reports import info as report

        report(opened, files, json)


@command(
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
    with opened_table(source, verbose) as opened:
        from delta_sidecar.cli.reports import history as report

        report(opened, limit, json)
