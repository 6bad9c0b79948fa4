"""A loopback HTTP proxy in front of a real server that fails on demand: throttled answers, broken connections."""

from __future__ import annotations

import http.client
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.integration.servers import ObjectServer

THROTTLED = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True, slots=True)
class Throttle:
    """Answer 503."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection after so many bytes of the body; 0: before any answer."""

    after: int


@dataclass(slots=True)
class Proxy:
    """The faults still to come, one a request, and the requests that came."""

    endpoint: str
    faults: deque[Throttle | Cut] = field(default_factory=deque)
    forever: Throttle | Cut | None = None
    """What happens to every request once `faults` is empty."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    sent: int = 0
    """Bytes of bodies that went out."""

    def next_fault(self) -> Throttle | Cut | None:
        return self.faults.popleft() if self.faults else self.forever


@contextmanager
def proxied(server: ObjectServer) -> Iterator[tuple[ObjectServer, Proxy]]:
    """`server` behind a proxy: the same server with the proxy's endpoint, and the proxy."""
    upstream = urlsplit(server.endpoint)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    own = f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.daemon_threads = True
    httpd.proxy = Proxy(own + upstream.path)  # type: ignore[attr-defined]
    httpd.upstream = upstream.netloc  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    options = {k: v.replace(server.endpoint, own + upstream.path) for k, v in server.storage_options.items()}
    try:
        yield ObjectServer(server.base_uri, own + upstream.path, options), httpd.proxy  # type: ignore[attr-defined]
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def _relay(self) -> None:
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        proxy.requests.append((self.command, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = proxy.next_fault()
        if isinstance(fault, Throttle):
            self._answer(503, [("Content-Type", "application/xml")], THROTTLED)
        elif fault == Cut(0):
            self._hang_up()
        else:
            status, headers, data = self._forwarded(body)
            self._answer(status, headers, data, fault.after if fault else None)

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=30)  # type: ignore[attr-defined]
        try:
            connection.request(self.command, self.path, body, {**self.headers, "Connection": "close"})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, cut: int | None = None) -> None:
        length = next((v for k, v in headers if k.lower() == "content-length"), str(len(data)))
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        if self.command != "HEAD":
            self._send(proxy, data[:cut])
        if cut is not None:
            self._hang_up()

    def _send(self, proxy: Proxy, data: bytes) -> None:
        try:
            for start in range(0, len(data), 1 << 16):
                self.wfile.write(data[start : start + (1 << 16)])
                proxy.sent += len(data[start : start + (1 << 16)])
        except ConnectionError:
            self.close_connection = True

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _relay
