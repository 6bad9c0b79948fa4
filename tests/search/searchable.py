"""A search table of log lines, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from delta_sidecar.search import Split, SplitFields, SplitWriter, append, create_table
from delta_sidecar.search.splits.fields import FIELDS
from delta_sidecar.storage import open_store
from delta_sidecar.values.arrow_types import table_schema
from tests.search.lines import SCHEMA, log_lines

COUNT, PER_SPLIT = 500, 100
ROWS = log_lines(COUNT)
COLUMNS = pa.schema([*SCHEMA, pa.field("region", pa.string())])
CHOICE: dict[str, Any] = {
    "text": ["body"],
    "key": ["id"],
    "time": "ts",
    "filters": ["host", "ratio", "ok", "day"],
    "stored": ["body"],
    "partition_columns": ["region"],
}


def region_of(number: int) -> str:
    return "eu" if number // PER_SPLIT % 2 else "us"


def make_table(root: Path, **changes: Any) -> SplitFields:
    """Five splits of a hundred lines, each later than the one before, in two regions."""
    fields = SplitFields.choose(COLUMNS, **{**CHOICE, **changes})
    create_table(root, table_schema(COLUMNS).to_json(), ["region"], configuration={FIELDS: fields.to_json()})
    for first in range(0, COUNT, PER_SPLIT):
        append(root, [write(root, fields, ROWS.slice(first, PER_SPLIT), region_of(first))])
    return fields


def write(root: Path, fields: SplitFields, rows: pa.Table, region: str) -> Split:
    with SplitWriter(fields, heap=15_000_000) as writer:
        writer.add(rows)
        return writer.finish(open_store(root), {"region": region})


def lines(word: str) -> list[dict[str, Any]]:
    """The lines with a word, newest first."""
    found = [row for row in ROWS.to_pylist() if row["body"] is not None and word in row["body"].split()]
    return sorted(found, key=lambda row: -row["id"])


def ids(hits: Any) -> list[int]:
    return list(hits.to_table()["id"].to_pylist())
