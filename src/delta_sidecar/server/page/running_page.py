"""A page on a port of its own, served from a thread of its own."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from delta_sidecar.errors import InputError, ServerError, needs_extra

if TYPE_CHECKING:
    from delta_sidecar.server.page.application import PageService

_START_S: Final = 10.0
_STOP_S: Final = 2
_REQUEST_S: Final = 10.0
_CONNECTIONS: Final = 128
_BACKLOG: Final = 64


class RunningPage:
    """A page that answers. Leaving it as a context manager, or `stop`, ends it.

    Example:
        >>> from delta_sidecar.server import start_page
        >>> with start_page("events") as page:
        ...     print(page.url.rpartition(":")[0])
        http://127.0.0.1
    """

    def __init__(
        self,
        host: str,
        port: int,
        service: PageService,
        tls: tuple[str, str] | None = None,
        request_seconds: float = _REQUEST_S,
    ) -> None:
        """`request_seconds`: how long a connection may take to send its request."""
        import uvicorn

        from delta_sidecar.server.page.patience import patient_protocol

        self._socket = _listening(host, port)
        config = uvicorn.Config(
            service.application(),
            http=patient_protocol(request_seconds, _CONNECTIONS),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=_STOP_S,
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else tls[1],
        )
        self._host, self._scheme = host, "http" if tls is None else "https"
        self._server = uvicorn.Server(config)
        run = partial(self._server.run, sockets=[self._socket])
        self._thread = threading.Thread(target=run, name="delta-sidecar-page", daemon=True)
        self._thread.start()
        self._await_start()

    def _await_start(self) -> None:
        until = time.monotonic() + _START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                self._server.should_exit = True
                self._socket.close()
                raise ServerError("the page could not be started; the log says why")
            time.sleep(0.005)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        """What to open in a browser."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{self._scheme}://{host}:{self.port}"

    def stop(self) -> None:
        """Take no more requests; those at work have two seconds."""
        self._server.should_exit = True
        self._thread.join(_STOP_S + 3)
        self._socket.close()

    def __enter__(self) -> RunningPage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_page(
    table: str | os.PathLike[str],
    port: int = 0,
    storage_options: Mapping[str, str] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    clean: Callable[[str], str] = str,
) -> RunningPage:
    """Show a table on a page, for this machine alone. `sidecar ui` does the same as a process of its own.

    Args:
        table: The location of the table: a local path or a URI such as `s3://bucket/events`.
        port: The port on 127.0.0.1; 0 for one that is free.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        options: Reader options (`delta.sidecar.…`).
        clean: Takes secrets out of a text, before anyone sees it.

    Returns:
        A `RunningPage`: its `url` is what to open in a browser.

    Raises:
        TableNotFoundError: There is no Delta table at that location.
        InputError: The port is taken, or starlette and uvicorn are not installed.
        StorageError: The store cannot be reached.

    Example:
        >>> import urllib.request
        >>> from delta_sidecar.server import start_page
        >>> with start_page("events") as page, urllib.request.urlopen(page.url) as answer:
        ...     print(answer.status, answer.headers["content-type"])
        200 text/html; charset=utf-8
    """
    check_installed()
    from delta_sidecar.server.page.access import Door
    from delta_sidecar.server.page.application import PageService
    from delta_sidecar.server.page.shown_tables import ShownTables
    from delta_sidecar.server.reading import load_readers
    from delta_sidecar.server.roots import Root, Roots
    from delta_sidecar.storage.uri import parse_location
    from delta_sidecar.table import DeltaTable

    load_readers()
    location = parse_location(table)
    DeltaTable(location.text, storage_options=dict(storage_options or {}), options=options)
    root = Root(_name(location.path or location.bucket), location, storage_options or {})
    shown = ShownTables(Roots([root]), reader_options=options or {}, only=root.name)
    return RunningPage("127.0.0.1", port, PageService(shown, Door(True, None), clean=clean, is_logged=False))


def check_installed() -> None:
    """`InputError` with the command that installs what a page needs."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise needs_extra("the page", "starlette and uvicorn", "server")


def _name(path: str) -> str:
    """A name that a root may have, after the last part of a path."""
    last = path.rstrip("/").rpartition("/")[2]
    allowed = "".join(each if each.isascii() and (each.isalnum() or each in "_.-") else "-" for each in last)
    return allowed.lstrip("_.-")[:64] or "table"


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        made.close()
        raise InputError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}") from None
    return made
