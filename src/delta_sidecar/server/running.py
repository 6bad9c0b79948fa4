"""A server put together, started and stopped."""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from delta_sidecar.errors import InputError
from delta_sidecar.server.answers import Answers
from delta_sidecar.server.budget import Budget
from delta_sidecar.server.calls import Callers
from delta_sidecar.server.figures import Figures, NoFigures, Prometheus
from delta_sidecar.server.flight_service import Core, FlightService
from delta_sidecar.server.http_endpoint import HttpEndpoint, Page
from delta_sidecar.server.json_logs import say
from delta_sidecar.server.loopback import is_loopback
from delta_sidecar.server.page.running_page import RunningPage, check_installed
from delta_sidecar.server.reading import load_readers
from delta_sidecar.server.requests import RequestLimits
from delta_sidecar.server.roots import Root, Roots
from delta_sidecar.server.streams import Stalls
from delta_sidecar.server.tickets import TicketSigner
from delta_sidecar.server.tokens import TokenFile
from delta_sidecar.settings import settings_of
from delta_sidecar.storage.uri import parse_location

_BATCH_FILES = 8_192
"""Files of a batch, where neither client nor operator say."""
_LEAST_KEY = 16
_OPENINGS = 16
"""Tables opened at once by calls that answer at once."""
_ANSWERS = 8
"""Small lists are kept for the next one to ask: an eighth of what all streams may hold, beside that."""
_GRACE = 1.0
"""Seconds for streams that were told to end, and for Flight to notice."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server listens, whom it lets in, and how much it holds.

    Example:
        >>> from delta_sidecar.server import ServerOptions
        >>> ServerOptions(port=0, streams=4).stream_bytes
        8388608
    """

    host: str = "127.0.0.1"
    port: int = 50051
    """0 for one that is free."""
    tls_cert: str | None = None
    """The file of a certificate chain, PEM."""
    tls_key: str | None = None
    token_file: str | None = None
    insecure: bool = False
    """Listen beyond loopback without TLS or without tokens."""
    metrics_host: str | None = None
    """As `host` if not given."""
    metrics_port: int | None = None
    """None for no metrics."""
    page_host: str | None = None
    """As `host` if not given."""
    page_port: int | None = None
    """None for no page."""
    streams: int = 16
    """Streams at once."""
    held_bytes: int = 128 << 20
    """Bytes that all streams may hold together."""
    stream_bytes: int = 8 << 20
    """Bytes that one stream reserves: its reader holds at most about as many."""
    patience: float = 30.0
    """Seconds that a call waits for its turn, before it is told to try again."""
    stop_seconds: float = 30.0
    """Seconds that running streams have to finish when the server stops."""
    stall_seconds: float = 300.0
    """Seconds after which a client that takes nothing loses its place."""
    ticket_seconds: float = 300.0
    ticket_key: bytes | None = field(default=None, repr=False)
    """Signs tickets; servers with the same key take each other's. Random if not given."""
    listed_tables: int = 1_000
    """Tables that ListFlights names, at most."""
    sql: bool = True
    """Offer Flight SQL, where DuckDB is installed."""
    sql_bytes: int = 64 << 20
    """Bytes that one SQL statement reserves, and DuckDB may take for it."""
    sql_seconds: float = 60.0
    """Seconds that DuckDB may work on one statement."""
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    reader_options: Mapping[str, Any] = field(default_factory=dict)
    """Reader options (`delta.sidecar.…`) of all tables."""

    def __post_init__(self) -> None:
        for name in ("streams", "held_bytes", "stream_bytes", "listed_tables", "sql_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give 1 or more")
        if self.stream_bytes > self.held_bytes:
            raise InputError(
                "one stream would hold more than all may together; raise held_bytes (--memory), or lower stream_bytes "
                "(--stream-memory)"
            )
        if self.stall_seconds <= 0:
            raise InputError(f"stall_seconds is {self.stall_seconds:g}; give more than 0")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("TLS needs both a certificate and its key")
        if self.ticket_key is not None and len(self.ticket_key) < _LEAST_KEY:
            raise InputError(f"the ticket key has {len(self.ticket_key)} bytes; give at least {_LEAST_KEY}")
        hosts = [
            self.host,
            *([] if self.metrics_port is None else [self.metrics_host or self.host]),
            *([] if self.page_port is None else [self.page_host or self.host]),
        ]
        for host in hosts:
            self._check_safe(host)
        settings_of(self.reader_options)

    def _check_safe(self, host: str) -> None:
        if not host:
            raise InputError("the host is empty; give 127.0.0.1, or 0.0.0.0 for all addresses of this machine")
        lacking = [
            *(["no certificate (TLS)"] if self.tls_cert is None else []),
            *(["no token file"] if self.token_file is None else []),
        ]
        if lacking and not self.insecure and not is_loopback(host):
            raise InputError(
                f"{host} is reached from other machines, and there is "
                f"{' and '.join(lacking)}: give both, "
                "listen on 127.0.0.1, or give --insecure"
            )


class RunningServer:
    """A server that answers. Leaving it as a context manager, or `stop`, ends it.

    Example:
        >>> from delta_sidecar.server import ServerOptions, start_server
        >>> with start_server({"lake": "."}, ServerOptions(port=0)) as server:
        ...     print(server.url.rpartition(":")[0])
        grpc://127.0.0.1
    """

    def __init__(self, roots: Roots, options: ServerOptions, clean: Callable[[str], str] = str) -> None:
        self._options = options
        if options.page_port is not None:
            check_installed()
        load_readers()
        tokens = None if options.token_file is None else TokenFile(options.token_file)
        budget = Budget(options.streams, options.held_bytes)
        figures: Figures = NoFigures() if options.metrics_port is None else Prometheus(budget)
        self._core = core = Core(
            roots=roots,
            signer=TicketSigner(options.ticket_key or secrets.token_bytes(32), options.ticket_seconds),
            streams=budget,
            openings=Budget(_OPENINGS, 1),
            answers=Answers(options.held_bytes // _ANSWERS),
            figures=figures,
            limits=options.request_limits,
            reader_options=_reader_options(options),
            stream_bytes=options.stream_bytes,
            patience=options.patience,
            listed_tables=options.listed_tables,
            sql_bytes=min(options.sql_bytes, options.held_bytes) if options.sql and _has_duckdb() else 0,
            sql_seconds=options.sql_seconds,
            stalls=Stalls(options.stall_seconds),
        )
        self._service = _listening(core, Callers(tokens, figures, clean), options)
        self._http: HttpEndpoint | None = None
        self._stopped = threading.Lock()
        self._is_stopped = False
        self._page: RunningPage | None = None
        try:
            if isinstance(figures, Prometheus):
                self._http = _http(core, figures, tokens, options)
            if options.page_port is not None:
                self._page = _page(core, tokens, options, clean)
        except BaseException:
            self._service.shutdown()
            if self._http is not None:
                self._http.close()
            raise

    @property
    def port(self) -> int:
        return int(self._service.port)

    @property
    def metrics_port(self) -> int | None:
        return None if self._http is None else self._http.port

    @property
    def page_url(self) -> str | None:
        """What to open in a browser; None without a page."""
        return None if self._page is None else self._page.url

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"{_scheme(self._options)}://{_bracketed(self._options.host)}:{self.port}"

    def health(self) -> dict[str, Any]:
        """Whether it takes requests, and how busy it is."""
        return self._core.health()

    def stop(self, seconds: float | None = None) -> bool:
        """Take no more requests, wait for running streams, then end those that are left. Whether all had finished."""
        with self._stopped:
            if self._is_stopped:
                return True
            self._is_stopped = True
            core, limit = self._core, self._options.stop_seconds if seconds is None else seconds
            say("stopping", streams=core.streams.streams, limit_s=limit)
            core.is_stopping.set()
            finished = core.streams.wait_until_free(limit)
            core.is_cut_off.set()
            core.stalls.close()
            core.streams.wait_until_free(_GRACE)
            # Flight waits for every client; one that takes nothing is not waited for.
            closing = threading.Thread(target=self._service.shutdown, name="delta-sidecar-stop", daemon=True)
            closing.start()
            closing.join(_GRACE if not core.streams.streams else 0.1)
            if self._page is not None:
                self._page.stop()
            if self._http is not None:
                self._http.close()
            say("stopped", streams_cut_off=core.streams.streams)
            return finished and not closing.is_alive()

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_server(
    roots: Mapping[str, str | os.PathLike[str]],
    options: ServerOptions | None = None,
    storage_options: Mapping[str, Mapping[str, str]] | None = None,
) -> RunningServer:
    """Serve the tables below some roots, from this process. `sidecar serve` does the same as a process of its own.

    Args:
        roots: The places, by the names that clients use: `{"lake": "s3://bucket/lake"}`.
        options: Where to listen, whom to let in, how much to hold.
        storage_options: Credentials and settings of each root's store, by the root's name.

    Raises:
        InputError: A root is not there, the port is taken, or the server would be open to other machines.
        OptionError: An option is wrong.

    Example:
        >>> from delta_sidecar import connect
        >>> from delta_sidecar.server import ServerOptions, start_server
        >>> with start_server({"lake": "."}, ServerOptions(port=0)) as server, connect(server.url) as lake:
        ...     print(lake.tables(), lake.table("lake/events").version())
        ['lake/events'] 3
    """
    of_roots = storage_options or {}
    made = [Root(name, parse_location(place), of_roots.get(name, {})) for name, place in roots.items()]
    return RunningServer(Roots(made), options or ServerOptions())


def _has_duckdb() -> bool:
    return importlib.util.find_spec("duckdb") is not None


def _reader_options(options: ServerOptions) -> dict[str, Any]:
    """Options of every table; what a table's properties say must not change what the server holds."""
    return {
        "delta.sidecar.batch_size": _BATCH_FILES,
        "delta.sidecar.row_batch_size": 65_536,
        # Beside the rows that wait, each thread that reads holds about as much again.
        "delta.sidecar.memory_budget": max(1, options.stream_bytes // 2),
        "delta.sidecar.read_threads": 4,
        "delta.sidecar.cache_size": 32 << 20,
        **options.reader_options,
    }


def _listening(core: Core, callers: Callers, options: ServerOptions) -> FlightService:
    location = f"{_scheme(options)}://{_bracketed(options.host)}:{options.port}"
    certificates = [] if options.tls_cert is None else [_certificate(options.tls_cert, options.tls_key or "")]
    _check_free(options.host, options.port)
    try:
        return FlightService(location, core, callers, certificates)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot listen on {location}: {str(error).splitlines()[0]}") from None


def _check_free(host: str, port: int) -> None:
    """gRPC would share a port with whoever has it, and each would get some of the calls."""
    if not port:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}") from None


def _http(core: Core, figures: Prometheus, tokens: TokenFile | None, options: ServerOptions) -> HttpEndpoint:
    host = options.metrics_host or options.host
    ready: Callable[[], tuple[int, bytes]] = partial(_readiness, core)
    pages = {
        "/metrics": Page(lambda: (200, figures.text()), figures.content_type),
        "/healthz": Page(lambda: (200, b"ok\n"), is_open=True),
        "/readyz": Page(ready, is_open=True),
    }
    return HttpEndpoint(host, options.metrics_port or 0, pages, tokens, _tls(host, options))


def _page(core: Core, tokens: TokenFile | None, options: ServerOptions, clean: Callable[[str], str]) -> RunningPage:
    """The page, over the same roots, tokens and budgets."""
    from delta_sidecar.server.page.access import Door
    from delta_sidecar.server.page.application import PageService
    from delta_sidecar.server.page.shown_tables import ShownTables

    host = options.page_host or options.host
    tables = ShownTables(
        core.roots,
        core.streams,
        core.openings,
        core.reader_options,
        core.stream_bytes,
        core.patience,
        core.limits,
        core.listed_tables,
    )
    door = Door(is_loopback(host), tokens)
    service = PageService(tables, door, core.figures, clean, core.is_stopping.is_set)
    return RunningPage(host, options.page_port or 0, service, _tls(host, options))


def _tls(host: str, options: ServerOptions) -> tuple[str, str] | None:
    """Certificate and key of a port for people and operators; on loopback none is needed."""
    if is_loopback(host) or options.tls_cert is None or options.tls_key is None:
        return None
    return options.tls_cert, options.tls_key


def _readiness(core: Core) -> tuple[int, bytes]:
    return (503, b"stopping\n") if core.is_stopping.is_set() else (200, b"ready\n")


def _scheme(options: ServerOptions) -> str:
    return "grpc" if options.tls_cert is None else "grpc+tls"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _certificate(cert: str, key: str) -> tuple[bytes, bytes]:
    """Chain and key; gRPC would only say that the handshake failed, and only to clients."""
    chain, secret = _bytes(cert), _bytes(key)
    if b"-----BEGIN CERTIFICATE" not in chain:
        raise InputError(f"{cert} holds no certificate (PEM); --tls-cert is the chain, --tls-key its private key")
    if b"PRIVATE KEY-----" not in secret:
        raise InputError(f"{key} holds no private key (PEM); --tls-cert is the chain, --tls-key its private key")
    return chain, secret


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"the file {path} cannot be read: {error.strerror}") from None
