"""Commands that look after a table: build and verify its index, and maintain it."""

from __future__ import annotations

from typing import Any

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.help import argument, command, one_of, option
from delta_sidecar.cli.interrupts import interrupts
from delta_sidecar.cli.work import working

_BUILD = "Index"
_OWN = "Your own metadata"
_WATCH = "Watching"
_STEPS = "Steps"
_FILES = "Files"
_STEP_NAMES = one_of("optimize", "vacuum", "index", "garbage", "checkpoint")


@command(
    short_help="Build or update the index.",
    help="Build or update the index beside the log. Only building a huge index from scratch needs Spark.",
    epilog="Example: sidecar build s3://lake/events --storage-option region=eu-central-1",
)
@arguments.table
@arguments.version
@option("--full", is_flag=True, section=_BUILD, help="Rebuild from scratch; ignore the old index.")
@option("--sort-column", metavar="NAME", section=_BUILD, help="Column to sort the index by; default: auto.")
@option("--time-column", metavar="NAME", section=_BUILD, help="Time column for fast pruning; default: auto.")
@arguments.engine(_BUILD)
@arguments.pair_option("--manifest-metadata", section=_OWN, help="Store it in the manifest; NAME= removes it.")
@option("--watch", is_flag=True, section=_WATCH, help="Keep running and index each new checkpoint.")
@arguments.interval(_WATCH, 30, "checks of the log")
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
    manifest_metadata: dict[str, str],
    watch: bool,
    interval: float,
    tail_commits: int | None,
    master: str | None,
    conf: dict[str, str],
    json: bool,
    verbose: bool,
    stores: dict[str, str],
) -> None:
    if watch and version is not None:
        raise click.UsageError("--watch follows the newest version; leave out --version")
    interrupts.clean_up_first()
    with working(verbose, conf | stores):
        from delta_sidecar.cli import index
        from delta_sidecar.index.build.build import BuildOptions

        kept = {name: value or None for name, value in manifest_metadata.items()}
        options = BuildOptions(sort_column, time_column, full, engine=engine, manifest_metadata=kept)
        if watch:
            index.follow(table, options, stores, master, conf, interval, tail_commits, json)
        else:
            index.build(table, version, options, stores, master, conf, json)


@command(
    short_help="Check the index against the log.",
    help="Check every byte of the index, and compare every file and bound in it with the log.",
    epilog="Exit codes: 0 it matches the log, 1 it does not, 2 it could not be checked.",
)
@arguments.table
@arguments.version
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def verify(table: str, version: int | None, json: bool, verbose: bool, stores: dict[str, str]) -> None:
    with working(verbose, stores):
        from delta_sidecar.cli import index

        index.verify(table, version, stores, json)


@command(
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
    help="Skip this step; repeatable.",
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
    conf: dict[str, str],
    json: bool,
    verbose: bool,
    stores: dict[str, str],
) -> None:
    interrupts.clean_up_first()
    with working(verbose, conf | stores):
        from delta_sidecar.cli.maintain import Order, run

        order = Order(tables, dry_run, only, skip, retain_hours, target_file_size, stores)
        run(order, master, conf, json)
