"""A server near the data: lists of files, rows, stats and changes over Arrow Flight; metrics; its client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.server.running import RunningServer, ServerOptions, start_server

_MODULES = {"RunningServer": "running", "ServerOptions": "running", "start_server": "running"}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)

__all__ = ["RunningServer", "ServerOptions", "start_server"]
