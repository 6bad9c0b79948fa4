"""`sidecar serve` and `sidecar token`: a server for the tables below some roots, and who may use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa

from delta_sidecar.arrays import streaming_pool
from delta_sidecar.cli.failures import without_secrets
from delta_sidecar.cli.output import write_json
from delta_sidecar.cli.stop_signals import stopped_by_signals
from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.ingest_job import bytes_of
from delta_sidecar.server.json_logs import log_json, say
from delta_sidecar.server.root_options import root_options
from delta_sidecar.server.roots import Root, Roots, root_of
from delta_sidecar.server.running import RunningServer, ServerOptions
from delta_sidecar.server.tokens import new_token

_STORES = ("AWS_", "AZURE_", "GOOGLE_")
"""Variables of the environment that may hold credentials of stores."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the command was asked to serve, and how."""

    roots: Sequence[str]
    host: str
    port: int
    tls_cert: str | None
    tls_key: str | None
    token_file: str | None
    insecure: bool
    metrics_host: str | None
    metrics_port: int | None
    page_host: str | None
    page_port: int | None
    storage_options: str | None
    """A file."""
    ticket_key: str | None
    """A file."""
    ticket_seconds: float
    streams: int
    memory: str
    stream_memory: str
    wait: float
    stop_seconds: float
    stall_seconds: float
    no_sql: bool
    sql_memory: str
    sql_seconds: float
    reader_options: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> ServerOptions:
        return ServerOptions(
            host=self.host,
            port=self.port,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            token_file=self.token_file,
            insecure=self.insecure,
            metrics_host=self.metrics_host,
            metrics_port=self.metrics_port,
            page_host=self.page_host,
            page_port=self.page_port,
            streams=self.streams,
            held_bytes=bytes_of(self.memory, "--memory"),
            stream_bytes=bytes_of(self.stream_memory, "--stream-memory"),
            patience=self.wait,
            stop_seconds=self.stop_seconds,
            stall_seconds=self.stall_seconds,
            sql=not self.no_sql,
            sql_bytes=bytes_of(self.sql_memory, "--sql-memory"),
            sql_seconds=self.sql_seconds,
            ticket_seconds=self.ticket_seconds,
            ticket_key=None if self.ticket_key is None else _key(self.ticket_key),
            reader_options=self.reader_options,
        )


def serve(order: Order, verbose: bool) -> int:
    """Serve until SIGTERM or Ctrl-C; the exit code."""
    bare = [root_of(text) for text in order.roots]
    options = root_options([root.name for root in bare], order.storage_options)
    roots = Roots(Root(root.name, root.location, options[root.name]) for root in bare)
    clean = partial(without_secrets, secrets=_secrets(options))
    log_json(clean, verbose)
    use_frugal_pool()
    with stopped_by_signals(again_ends=True) as stop:
        server = RunningServer(roots, order.options(), clean)
        say(
            "listening",
            url=server.url,
            metrics_port=server.metrics_port,
            page=server.page_url,
            roots=[root.name for root in bare],
            tokens=order.token_file is not None,
            pid=os.getpid(),
        )
        stop.wait()
        finished = server.stop()
    if not finished:
        # A client that takes nothing keeps a thread inside Flight, which would be waited for.
        sys.stderr.flush()
        os._exit(0)
    return 0


def use_frugal_pool() -> None:
    """Batches of Flight are made on one thread and released on another. This process is the command's own, so the pool
    for that may be that of all its batches: with a hundred clients it holds 240 MB where Arrow's usual one has up to
    320."""
    pool = streaming_pool()
    if pool is not None:
        pa.set_memory_pool(pool)


def _secrets(options: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What must not appear in logs and messages, by names that are different for each root."""
    of_roots = {f"{root}.{name}": value for root, given in options.items() for name, value in given.items()}
    return of_roots | {name: value for name, value in os.environ.items() if name.startswith(_STORES)}


def _key(path: str) -> bytes:
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        raise InputError(f"the file {path} cannot be read: {error.strerror}") from None


def make_token(path: str, name: str, roots: Sequence[str] | None, expires: str | None, as_json: bool) -> None:
    """Add a token to a file and print it, once."""
    until = None if expires is None else _instant(expires)
    if until is not None and until <= datetime.now(UTC):
        raise InputError(f"--expires {expires} is in the past; give a time to come, or 30d")
    token = new_token(path, name, roots, until)
    if as_json:
        write_json({"name": name, "token": token, "roots": roots, "expires": until and until.isoformat()})
    else:
        sys.stdout.write(f"{token}\n")


def _instant(text: str) -> datetime:
    """`30d`, `12h` from now, or a time."""
    units = {"d": "days", "h": "hours", "m": "minutes"}
    if text[:-1].isdigit() and text[-1:] in units:
        try:
            return datetime.now(UTC) + timedelta(**{units[text[-1]]: int(text[:-1])})
        except OverflowError:
            raise InputError(
                f"--expires {text} is too far in the future; leave it out for a token that does not expire"
            ) from None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--expires takes 30d, 12h or a time such as 2027-01-01T00:00:00Z, not {text!r}") from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
