"""The page and its answers over HTTP: one HTML file, and JSON that its script asks for."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from delta_sidecar.errors import (
    AccessDeniedError,
    DeltaSidecarError,
    InputError,
    PredicateError,
    ServerBusyError,
    ServerError,
    TableNotFoundError,
    UnknownColumnError,
)
from delta_sidecar.server.figures import Figures, NoFigures
from delta_sidecar.server.json_logs import on_behalf_of
from delta_sidecar.server.page.access import Door, ForeignRequestError
from delta_sidecar.server.page.lighting import full_load, lit
from delta_sidecar.server.page.overview import overview
from delta_sidecar.server.page.page_call import PageCall, Told
from delta_sidecar.server.page.part_map import index_of, map_of
from delta_sidecar.server.page.shown_tables import ShownTables
from delta_sidecar.server.page.timeline import told_of_commit
from delta_sidecar.server.requests import ReadRequest, request_of
from delta_sidecar.server.tokens import Caller
from delta_sidecar.server.wire_errors import one_line

_JSON: Final = "application/json"
_ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_CLOSED: Final = "default-src 'none'; frame-ancestors 'none'"
_STATUS: Final[list[tuple[type[DeltaSidecarError], int]]] = [
    (TableNotFoundError, 404),
    (ServerBusyError, 503),
    (AccessDeniedError, 403),
    (ServerError, 500),
    (DeltaSidecarError, 400),
]


@dataclass(frozen=True, slots=True)
class PageFiles:
    """What a browser loads: the page, and the policy that lets nothing but its own script and style run."""

    html: bytes
    policy: str
    icon: bytes

    @classmethod
    def load(cls) -> PageFiles:
        place = files("delta_sidecar.server.page")
        text = place.joinpath("page.html").read_text(encoding="utf-8")
        rules = [
            "default-src 'none'",
            f"script-src {_hashes(text, 'script')}",
            f"style-src {_hashes(text, 'style')}",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
        return cls(text.encode(), "; ".join(rules), place.joinpath("favicon.svg").read_bytes())


def _hashes(text: str, tag: str) -> str:
    inner = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inner)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


@dataclass(frozen=True, slots=True)
class PageService:
    """The answers of a page."""

    tables: ShownTables
    door: Door
    figures: Figures = field(default_factory=NoFigures)
    clean: Callable[[str], str] = str
    """Takes secrets out of a text."""
    is_stopping: Callable[[], bool] = lambda: False
    is_logged: bool = True
    """Whether each call is a line in the log."""

    def application(self) -> Starlette:
        page = PageFiles.load()
        html = partial(self._file, page.html, "text/html; charset=utf-8", page.policy)
        icon = partial(self._file, page.icon, "image/svg+xml", _CLOSED)
        return Starlette(
            routes=[
                Route("/", html, methods=["GET"]),
                Route("/favicon.svg", icon, methods=["GET"]),
                Route("/api/tables", partial(self._answer, "tables", _tables), methods=["GET"]),
                Route("/api/overview", partial(self._answer, "overview", _overview), methods=["POST"]),
                Route("/api/map", partial(self._answer, "map", _map), methods=["POST"]),
                Route("/api/commit", partial(self._answer, "commit", _commit), methods=["POST"]),
                Route("/api/scan", partial(self._answer, "scan", _scan), methods=["POST"]),
                Route("/api/full-load", partial(self._answer, "full-load", _full_load), methods=["POST"]),
            ],
            exception_handlers={404: _not_found, 405: _not_found},
        )

    async def _file(self, body: bytes, kind: str, policy: str, request: Request) -> Response:
        try:
            self.door.check(request.headers)
        except ForeignRequestError as error:
            return _text(403, str(error))
        headers = {**_ALWAYS, "Content-Security-Policy": policy, "Cache-Control": "no-cache"}
        return Response(body, media_type=kind, headers=headers)

    async def _answer(self, name: str, work: Callable[[Any], object], request: Request) -> Response:
        """Who asks, what is asked, the answer in a thread of its own, and a line in the log."""
        call = PageCall(name, self.figures, self.clean, self.is_logged)
        try:
            self.door.check(request.headers)
            call.caller = self.door.caller(request.headers)
        except (ForeignRequestError, AccessDeniedError) as error:
            return _failure(401 if isinstance(error, AccessDeniedError) else 403, call.refused(error))
        try:
            if self.is_stopping():
                raise ServerBusyError("the server stops; try again in a moment")
            body = await _body(request, self.tables.limits.request_bytes) if request.method == "POST" else b""
            with on_behalf_of(call.request_id):
                answer = await run_in_threadpool(work, _Asked(self.tables, call.caller, body, call.told))
            content = self.clean(msgspec.json.encode(answer).decode())
        except ClientDisconnect:
            call.ended("gone")
            return Response(status_code=400)
        except Exception as error:
            ours = call.ours(error)
            return _failure(next(code for kind, code in _STATUS if isinstance(ours, kind)), call.failed(ours))
        call.ended("ok")
        return _json(200, content)


class MapRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some parts of an index, by their positions."""

    table: str
    version: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question of the page."""

    tables: ShownTables
    caller: Caller
    body: bytes
    told: dict[str, Any]
    """What the log says of it."""

    def request(self) -> ReadRequest:
        """As a client of Flight writes it, and checked as it is there."""
        request = request_of(self.body, self.tables.limits)
        self.told["table"] = request.table[:200]
        return request

    def map_request(self) -> MapRequest:
        try:
            request = msgspec.json.decode(self.body, type=MapRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"the request is not what the page asks: {one_line(str(error))}") from None
        self.told["table"] = request.table[:200]
        return request


def _tables(asked: _Asked) -> object:
    names, is_whole = asked.tables.names(asked.caller)
    return {"tables": names, "is_whole": is_whole, "is_one": asked.tables.only is not None}


def _overview(asked: _Asked) -> object:
    request = asked.request()
    with asked.tables.looked_at(request.table, asked.caller) as opened:
        return overview(opened)


def _map(asked: _Asked) -> object:
    request = asked.map_request()
    with asked.tables.looked_at(request.table, asked.caller, request.version) as opened:
        base = index_of(opened.table.snapshot)
        if base is None:
            raise InputError(f"{request.table} has no index at version {opened.version}")
        return map_of(base, request.first, request.last)


def _commit(asked: _Asked) -> object:
    request = asked.request()
    if request.version is None:
        raise InputError("a commit is named by its version")
    with asked.tables.looked_at(request.table, asked.caller) as opened:
        return told_of_commit(opened.table.snapshot, request.version)


def _scan(asked: _Asked) -> object:
    """A predicate that is wrong is an answer, not a failure: the browser would report it to its console."""
    request = asked.request()
    try:
        return lit(asked.tables, request, asked.caller)
    except (PredicateError, UnknownColumnError) as error:
        asked.told["error"] = type(error).__name__
        return {"wrong": one_line(str(error))}


def _full_load(asked: _Asked) -> object:
    return full_load(asked.tables, asked.request(), asked.caller)


async def _body(request: Request, most: int) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
        raise InputError(f"the page is asked with {_JSON}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise InputError(f"the request has more than {most:,} bytes")
    return bytes(body)


def _json(status: int, content: str | bytes) -> Response:
    headers = {**_ALWAYS, "Content-Security-Policy": _CLOSED, "Cache-Control": "no-store"}
    return Response(content, status, headers, _JSON)


def _failure(status: int, told: Told) -> Response:
    return _json(status, msgspec.json.encode(told))


def _text(status: int, message: str) -> Response:
    headers = {**_ALWAYS, "Content-Security-Policy": _CLOSED, "Cache-Control": "no-store"}
    return Response(f"{message}\n", status, headers, "text/plain")


async def _not_found(request: Request, error: Exception) -> Response:
    status: int = getattr(error, "status_code", 404)
    return _text(status, "not found" if status == 404 else "not allowed")
