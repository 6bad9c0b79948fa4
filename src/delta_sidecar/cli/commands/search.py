"""The command that finds rows by words."""

from __future__ import annotations

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.help import argument, command, option
from delta_sidecar.cli.work import working

_COUNTS = "Counts"


@command(
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
    stores: dict[str, str],
) -> None:
    if sum((count, histogram is not None, top_terms is not None)) > 1:
        raise click.UsageError("--count, --histogram and --top-terms are different questions; ask one")
    with working(verbose, stores):
        from delta_sidecar.cli import search as searching
        from delta_sidecar.cli.sinks import sink_of
        from delta_sidecar.search import open_search

        sink = sink_of(json, output, file_format)
        opened = open_search(table, version, stores, search=place)
        if count:
            searching.print_count(opened, query, where, json)
        elif histogram is not None:
            searching.print_histogram(opened, histogram, query, where, sink)
        elif top_terms is not None:
            searching.print_top_terms(opened, top_terms, query, where, limit, sink)
        else:
            wanted = searching.Wanted(query, where, limit, columns, best, highlight, after, verbose)
            searching.print_hits(opened, wanted, sink)
