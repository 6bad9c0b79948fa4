"""Small data files of real rows, with the stats a writer would give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.testing.actions import AddFile, DeletionVector, Stats

STRING_PREFIX = 32
"""How many characters of a string bound are kept, as Spark does."""

_TIE_BREAKER = "\U0010ffff"


def write_data_file(
    root: Path,
    path: str,
    rows: pa.Table,
    *,
    partition: Mapping[str, str | None] | None = None,
    dv: DeletionVector | None = None,
) -> AddFile:
    """A Parquet file of those rows below the table's root, and the `add` for it. `path` is the log's text."""
    target = root / unquote(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    stats = {**collect_stats(rows.to_pylist(), rows.column_names), **({"tightBounds": False} if dv else {})}
    return AddFile(path, size=target.stat().st_size, partition=partition or {}, stats=stats, dv=dv)


def collect_stats(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], prefix: int = STRING_PREFIX) -> Stats:
    """The stats of rows: bounds without nulls and NaN, long strings cut (a cut maximum is raised)."""
    minimum: dict[str, Any] = {}
    maximum: dict[str, Any] = {}
    for name in columns:
        values = [row[name] for row in rows if _bounded(row[name])]
        if values:
            low, high = min(values), max(values)
            minimum[name] = low[:prefix] if isinstance(low, str) else low
            maximum[name] = _cut_maximum(high, prefix) if isinstance(high, str) else high
    nulls = {name: sum(row[name] is None for row in rows) for name in columns}
    return {"numRecords": len(rows), "minValues": minimum, "maxValues": maximum, "nullCount": nulls}


def _bounded(value: Any) -> bool:
    return value is not None and value == value and not isinstance(value, bool | bytes | list | dict)


def _cut_maximum(value: str, prefix: int) -> str:
    return value if len(value) <= prefix else value[:prefix] + _TIE_BREAKER
