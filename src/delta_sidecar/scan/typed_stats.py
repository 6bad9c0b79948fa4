"""Typed stats back into the log's JSON, for checkpoints that hold no JSON text."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from delta_sidecar import arrays

_encode = msgspec.json.Encoder(decimal_format="number").encode


def stats_text(stats: pa.StringArray, parsed: pa.StructArray) -> pa.StringArray:
    """The JSON text where there is one, otherwise made from the typed stats."""
    if stats.null_count == 0 or parsed.null_count == len(parsed):
        return stats
    texts = stats.to_pylist()
    for row, text in enumerate(texts):
        if text is None and parsed[row].is_valid:
            texts[row] = _text(parsed[row].as_py())
    return arrays.strings(texts)


def _text(fields: dict[str, Any]) -> str | None:
    content = _without_nulls(fields)
    return _encode(content).decode() if content else None


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Nested dicts of values that JSON can hold; what is null says nothing and is left out."""
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            value = _without_nulls(value) or None
        if value is not None:
            kept[name] = _json_value(value)
    return kept


def _json_value(value: Any) -> Any:
    match value:
        case datetime():
            text = value.isoformat(timespec="milliseconds")
            return text.replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case bytes():
            return value.decode("utf-8", "replace")
        case Decimal() | _:
            return value
