"""Rows and files of two readers, in forms that can be compared."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pyarrow as pa


def sorted_rows(rows: pa.Table) -> list[str]:
    """Rows as text, in an order of their own. Text, because NaN does not equal itself and -0.0 is not 0.0."""
    return sorted(repr([(name, _plain(value)) for name, value in row.items()]) for row in rows.to_pylist())


def local_paths(uris: Iterable[str]) -> list[str]:
    """Local paths out of what Spark's `inputFiles` gives: paths with a scheme before them, not encoded."""
    return sorted("/" + uri.removeprefix("file:").lstrip("/") for uri in uris)


def _plain(value: Any) -> Any:
    """A value without what only its Arrow type adds: the name of a zone, bytes as a memory view, pairs of a map."""
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case dict():
            return {k: _plain(v) for k, v in value.items()}
        case list():
            return [_plain(v) for v in value]
        case tuple():
            return tuple(_plain(v) for v in value)
    return value
