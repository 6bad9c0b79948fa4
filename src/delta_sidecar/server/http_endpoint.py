"""A port for operators: `/metrics` for Prometheus, `/healthz` (the process answers), `/readyz` (it takes requests)."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from delta_sidecar.errors import AccessDeniedError, InputError
from delta_sidecar.server.loopback import is_loopback, names_loopback
from delta_sidecar.server.tokens import TokenFile

_log = logging.getLogger(__name__)

_TEXT: Final = "text/plain; charset=utf-8"
_PATIENCE: Final = 10.0
"""Seconds in which a request must be sent."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is at a path."""

    content: Callable[[], tuple[int, bytes]]
    """Status and body."""
    content_type: str = _TEXT
    is_open: bool = False
    """Whether no token is asked for."""


class HttpEndpoint:
    """Pages on a port of their own, served by threads of their own."""

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Page],
        tokens: TokenFile | None,
        tls: tuple[str, str] | None = None,
    ) -> None:
        """`tokens` are asked for where there are any; `tls` are the files of a certificate and its key."""
        try:
            kind = _Server6 if ":" in host else _Server
            self._server = kind((host, port), _handler(pages, tokens, is_loopback(host)))
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}") from None
        if tls is not None:
            secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secured.load_cert_chain(*tls)
            # The handshake is made by the thread of the connection, not by the one that accepts.
            self._server.socket = secured.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, name="delta-sidecar-http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that break off are none of our business."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            _log.error("internal error", exc_info=error)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(pages: Mapping[str, Page], tokens: TokenFile | None, is_local: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE
        server_version = "delta-sidecar"
        sys_version = ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                self._send(404, b"not found\n")
                return
            if not page.is_open and not self._is_let_in():
                return
            status, body = page.content()
            self._send(status, body, page.content_type)

        def _is_let_in(self) -> bool:
            """Figures name tables of all roots: a token with some roots of its own may not see them."""
            if tokens is None:
                if is_local and not names_loopback(self.headers.get("host", "")):
                    self._send(403, b"these figures are for this machine alone: ask for them at 127.0.0.1\n")
                    return False
                return True
            try:
                caller = tokens.caller(self.headers.get("authorization"))
            except AccessDeniedError as error:
                self._send(401, f"{error}\n".encode(), headers={"WWW-Authenticate": "Bearer"})
                return False
            if caller.roots is not None:
                self._send(403, b"this needs a token for all roots (sidecar token new without --roots)\n")
            return caller.roots is None

        def _send(self, status: int, body: bytes, kind: str = _TEXT, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            fixed = {"Content-Type": kind, "Content-Length": str(len(body)), "X-Content-Type-Options": "nosniff"}
            for name, value in {**fixed, **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Scrapes are no events."""

    return Handler
