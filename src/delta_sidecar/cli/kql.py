"""`sidecar kql`: queries of Kusto over the files that may match, and the command that creates an external table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from delta_sidecar.cli.output import write_json, write_json_lines
from delta_sidecar.engines.kusto import KustoQuery, external_table, queries
from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.pipeline.ingest_job import bytes_of
from delta_sidecar.storage import options as store_options
from delta_sidecar.table import DeltaTable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """How Kusto reads the files, and whether the text may hold secrets."""

    kind: str = "none"
    with_secrets: bool = False
    sas_file: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.with_secrets and self.kind != "sas":
            raise click.UsageError("--with-secrets writes a SAS token into the text; it needs --access sas")
        if self.sas_file is not None and not self.with_secrets:
            raise click.UsageError("--sas-file has no effect without --with-secrets")

    def token(self) -> str | None:
        """The SAS token from a file, the storage options or the environment; None unless it is asked for."""
        if not self.with_secrets:
            return None
        if self.sas_file is not None:
            return _read(self.sas_file)
        known = store_options.read_options(store_options.AZURE, self.storage_options).config
        if "sas_key" not in known:
            raise OptionError("no SAS token: set AZURE_STORAGE_SAS_TOKEN, or name a file that holds it with --sas-file")
        return known["sas_key"]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"the file {path} cannot be read: {reason}") from None


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a query may be."""

    query_bytes: str
    uris: int | None
    branches: int


def print_queries(
    table: DeltaTable,
    where: str | None,
    columns: Sequence[str] | None,
    access: Access,
    token: str | None,
    uri_prefix: str | None,
    limits: Limits,
    as_json: bool,
) -> None:
    """Print the queries, with an empty line between them; with `as_json`, one object per line."""
    made = queries(
        table,
        where,
        columns,
        access=access.kind,
        sas_token=token,
        uri_prefix=uri_prefix,
        max_query_bytes=bytes_of(limits.query_bytes, "--max-query-bytes"),
        max_uris=limits.uris,
        max_branches=limits.branches,
    )
    for note in made[0].notes:
        _log.info("note: %s", note)
    if as_json:
        write_json_lines([[_as_json(query) for query in made]])
    else:
        sys.stdout.write("\n\n".join(query.text for query in made) + "\n")


def _as_json(query: KustoQuery) -> dict[str, object]:
    return {
        "query": query.text,
        "files": query.files,
        "bytes": len(query.text.encode()),
        "notes": list(query.notes),
    }


def print_command(
    table: DeltaTable,
    name: str,
    columns: Sequence[str] | None,
    access: Access,
    token: str | None,
    uri_prefix: str | None,
    as_json: bool,
) -> None:
    """Print the command that creates an external table."""
    text = external_table(table, name, columns, access=access.kind, sas_token=token, uri_prefix=uri_prefix)
    if as_json:
        write_json({"command": text})
    else:
        sys.stdout.write(text + "\n")
