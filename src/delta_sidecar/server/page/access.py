"""Who may look at a page. Where there are tokens, one is asked for; without, on loopback, anyone of this machine may.

A web page of anyone can make a browser call 127.0.0.1, also under a name of its own (DNS rebinding). So a page on
loopback answers only to names of loopback, never to another site's script, and what a proxy passes on counts as coming
from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from delta_sidecar.server.loopback import names_loopback
from delta_sidecar.server.tokens import ANYONE, Caller, TokenFile

_OF_PROXIES: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_OWN: Final = ("same-origin", "none")


class ForeignRequestError(Exception):
    """A request that no page of ours makes; its text says why."""


class Door(Struct, frozen=True):
    """Lets callers in."""

    is_on_loopback: bool
    tokens: TokenFile | None

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuse requests that are not meant for this page, whoever makes them."""
        if headers.get("sec-fetch-site", "none") not in _OWN and headers.get("sec-fetch-mode") != "navigate":
            raise ForeignRequestError("scripts of other sites may not ask here")
        if self.is_on_loopback and self.tokens is None and not self._is_local(headers):
            raise ForeignRequestError(
                "this page is for this machine alone: open it as http://127.0.0.1 or http://localhost; for others, "
                "serve it with tokens (sidecar serve --token-file)"
            )

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Who makes a request; `AccessDeniedError` without a token where one is needed."""
        if self.tokens is None:
            return ANYONE
        return self.tokens.caller(headers.get("authorization"))

    def _is_local(self, headers: Mapping[str, str]) -> bool:
        is_passed_on = any(name in headers for name in _OF_PROXIES)
        return self.is_on_loopback and not is_passed_on and names_loopback(headers.get("host", ""))
