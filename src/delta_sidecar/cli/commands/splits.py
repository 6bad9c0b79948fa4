"""Commands for the splits of a search table."""

from __future__ import annotations

from typing import Any

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.help import argument, group, one_of, option
from delta_sidecar.cli.interrupts import interrupts
from delta_sidecar.cli.work import working

_STREAM = "Batches and streams"
_COLUMNS = "Columns"
_SPLITS = "Splits"


@group(
    short_help="Build and look after the splits of a search table.",
    help="Build full-text splits of rows, and look after the search table that they make up.",
    epilog="Example: sidecar splits build ./events ./events-search --text body --key id --time ts",
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
    arguments.pair_option("--analyzer", "analyzers", metavar="A=NAME", section=_COLUMNS,
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
@arguments.engine(_SPLITS)
@option(
    "--format",
    "source_format",
    metavar="NAME",
    section=_SPLITS,
    shell_complete=one_of("delta", "parquet", "json", "csv"),
    help="Format of the source, if its names do not tell.",
)
@arguments.pair_option("--read-option", "read_options", section=_SPLITS, help="Option of Spark's reader.")
@arguments.progress_of_stream(_STREAM)
@arguments.pair_option("--property", "properties", section=_SPLITS, help="Table property, if it is created.")
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def build_splits_command(
    source: str,
    table: str,
    partition_by: tuple[str, ...],
    conf: dict[str, str],
    json: bool,
    verbose: bool,
    stores: dict[str, str],
    **how: Any,
) -> None:
    interrupts.clean_up_first()
    with working(verbose, conf | stores):
        from delta_sidecar.cli.splits import BuildOrder, Place, build

        order = BuildOrder(
            source,
            Place(table, stores, json),
            partition_columns=partition_by,
            conf=conf,
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
@arguments.interval(_SPLITS, 10, "checks of the table")
@option(
    "--rows-per-split",
    type=click.IntRange(min=1),
    default=1_000_000,
    metavar="N",
    section=_SPLITS,
    help="Rows of a split, about (1000000).",
)
@arguments.engine(_SPLITS)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def follow_command(
    table: str,
    conf: dict[str, str],
    json: bool,
    verbose: bool,
    stores: dict[str, str],
    **how: Any,
) -> None:
    interrupts.clean_up_first()
    with working(verbose, conf | stores):
        from delta_sidecar.cli.splits import FollowOrder, Place, follow_table

        follow_table(FollowOrder(Place(table, stores, json), conf=conf, **how))


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
def merge_command(table: str, json: bool, verbose: bool, stores: dict[str, str], **how: Any) -> None:
    interrupts.clean_up_first()
    with working(verbose, stores):
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
    table: str, older_than: str, log: bool, dry_run: bool, json: bool, verbose: bool, stores: dict[str, str]
) -> None:
    with working(verbose, stores):
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
def checkpoint_command(table: str, json: bool, verbose: bool, stores: dict[str, str]) -> None:
    with working(verbose, stores):
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
    stores: dict[str, str],
) -> None:
    with working(verbose, stores):
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
    table: str, where: str, dry_run: bool, json: bool, verbose: bool, stores: dict[str, str]
) -> None:
    with working(verbose, stores):
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
def repair_command(table: str, whole: bool, dry_run: bool, json: bool, verbose: bool, stores: dict[str, str]) -> None:
    with working(verbose, stores):
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
    stores: dict[str, str],
) -> None:
    with working(verbose, stores):
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
def doctor_command(table: str, whole: bool, json: bool, verbose: bool, stores: dict[str, str]) -> None:
    with working(verbose, stores):
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
    stores: dict[str, str],
) -> None:
    with working(verbose, stores):
        from delta_sidecar.cli.splits import Place, upgrade

        upgrade(Place(table, stores, json), reader, writer, feature)
