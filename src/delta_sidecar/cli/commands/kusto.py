"""The command that writes KQL for Kusto."""

from __future__ import annotations

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.help import command, one_of, option
from delta_sidecar.cli.work import working

_KUSTO = "Kusto"


@command(
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
    with working(verbose, secrets):
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
