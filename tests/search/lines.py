"""Rows for splits: log lines that are the same at every run."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ("disk", "full", "timeout", "error", "started", "request", "checksum", "mismatch", "node", "lost")

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.timestamp("us", tz="UTC"),
        "host": pa.string(),
        "body": pa.string(),
        "ratio": pa.float64(),
        "ok": pa.bool_(),
        "day": pa.date32(),
    }
)


def log_lines(count: int, first: int = 0) -> pa.Table:
    """Lines by number: each tenth has no body, each seventh no ratio."""
    rows = []
    for number in range(first, first + count):
        dice = random.Random(number)
        moment = BEGIN + timedelta(milliseconds=number * 37)
        body = " ".join(dice.choices(WORDS, k=6)) + f" n{number}"
        rows.append(
            {
                "id": number,
                "ts": moment,
                "host": f"web-{number % 5}",
                "body": None if number % 10 == 9 else body,
                "ratio": None if number % 7 == 6 else number / 4,
                "ok": number % 3 == 0,
                "day": moment.date(),
            }
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)
