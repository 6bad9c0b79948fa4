"""Commands that serve tables: the page, the server, and its tokens."""

from __future__ import annotations

from typing import Any

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.failures import reported
from delta_sidecar.cli.help import argument, command, group, option
from delta_sidecar.cli.work import working

_LISTEN = "Address"
_LET_IN = "Access"
_ROOM = "Limits"
_WATCHED = "Page and metrics"


@command(
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
    with working(verbose, source.storage_options):
        from delta_sidecar.cli.ui import show

        show(source, port, open_it)


@command(
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
def serve(roots: tuple[str, ...], options: dict[str, str], verbose: bool, **how: Any) -> None:
    # The server has a log of its own, which ends when it has stopped.
    with reported(verbose, {}):
        from delta_sidecar.cli.serve import Order
        from delta_sidecar.cli.serve import serve as run_server

        code = run_server(Order(roots, **how, reader_options=options), verbose)
    raise click.exceptions.Exit(code)


@group(
    short_help="Make tokens for sidecar serve.",
    help="Make the tokens that sidecar serve accepts.",
    epilog="Example: sidecar token new reports --token-file tokens.json --roots lake",
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
    with working(False, {}):
        from delta_sidecar.cli.serve import make_token

        make_token(token_file, name, roots, expires, json)
