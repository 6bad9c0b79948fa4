"""Calls that tests make of a page."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def call(
    url: str, path: str, asked: Any = None, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Answer:
    """GET, or POST of a question as JSON; of a body as it is."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    data = json.dumps(asked).encode() if asked is not None else body
    kind = {"Content-Type": "application/json"} if data is not None else {}
    try:
        connection.request("GET" if data is None else "POST", path, data, {**kind, **(headers or {})})
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()
