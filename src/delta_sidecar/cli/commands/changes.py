"""Commands for the change feed: print changes, keep cursors, and sync a second table."""

from __future__ import annotations

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.help import argument, command, one_of, option
from delta_sidecar.cli.interrupts import interrupts
from delta_sidecar.cli.work import opened_table, working

_RANGE = "Range"
_CURSOR = arguments.CURSOR
_WATCH = "Watching"
_SYNC = "Changes"


@command(
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
    with opened_table(source, verbose) as opened:
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


@command(
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
    stores: dict[str, str],
) -> None:
    if action == "reset" and cursor is None:
        raise click.UsageError("name the cursor with --cursor")
    if action == "list" and (cursor is not None or version is not None):
        raise click.UsageError("--cursor and --to are for reset")
    with working(verbose, stores):
        from delta_sidecar.cli.cursors import cursors_at, list_cursors, reset_cursor

        place = cursors_at(table, state, stores)
        if cursor is None:
            list_cursors(place, json)
        else:
            reset_cursor(place, cursor, version)


@command(
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
@arguments.interval(_WATCH, 30, "checks of the source")
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
    conf: dict[str, str],
    json: bool,
    verbose: bool,
    stores: dict[str, str],
) -> None:
    if watch and dry_run:
        raise click.UsageError("--dry-run checks once; leave out --watch")
    interrupts.clean_up_first()
    with working(verbose, conf | stores):
        from delta_sidecar.cli.sync import Order, run
        from delta_sidecar.lake.sync_job import job_of

        job = job_of(source, target, key, strategy, state, name, change_filter, max_versions, stores)
        run(job, Order(full, dry_run, watch, interval, json, verbose), master, conf)
