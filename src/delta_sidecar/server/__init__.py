"""A server near the data: lists of files, rows, stats and changes over Arrow Flight; metrics; a page; its client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.server.page.running_page import RunningPage, start_page
    from delta_sidecar.server.running import RunningServer, ServerOptions, start_server

_MODULES = {
    "RunningPage": "page.running_page",
    "RunningServer": "running",
    "ServerOptions": "running",
    "start_page": "page.running_page",
    "start_server": "running",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)

__all__ = ["RunningPage", "RunningServer", "ServerOptions", "start_page", "start_server"]
