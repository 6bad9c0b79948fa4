"""Which buckets have several small files, and the condition that names them to Spark.

Found by our own reading of the log, so that buckets in good order cost nothing: no job, no commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.listing.live_files import live_rows
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.values.bucket_columns import literal, quoted
from delta_sidecar.values.types import StructField

_COLUMNS: Final = ("path", "size", "partition_values", "deletion_vector")
_BATCH_ROWS: Final = 20_000
Values: TypeAlias = tuple[str | None, ...]
"""Partition values as the log has them, in the order of the partition columns."""


@dataclass(slots=True)
class SmallFiles:
    """The small files of one partition."""

    values: Values
    files: int = 0
    bytes: int = 0


def crowded_partitions(snapshot: Snapshot, small: int) -> list[SmallFiles]:
    """Partitions with two or more files below `small` bytes, in the order of their values."""
    names = [field.physical_name for field in partition_fields(snapshot)]
    partitions: dict[Values, SmallFiles] = {}
    for values, size in _small_files(snapshot, small, names):
        bucket = partitions.setdefault(values, SmallFiles(values))
        bucket.files += 1
        bucket.bytes += size
    crowded = [bucket for bucket in partitions.values() if bucket.files > 1]
    return sorted(crowded, key=lambda bucket: [(value is not None, value or "") for value in bucket.values])


def partition_fields(snapshot: Snapshot) -> list[StructField]:
    return list(snapshot.schema.select(snapshot.partition_columns))


def _small_files(snapshot: Snapshot, small: int, names: Sequence[str]) -> Iterator[tuple[Values, int]]:
    limit = arrays.int64s([small])[0]
    for batch in live_rows(snapshot, _COLUMNS, _BATCH_ROWS):
        few = batch.filter(pc.less(batch.column("size"), limit))
        for pairs, size in zip(few.column("partition_values").to_pylist(), few.column("size").to_pylist()):
            values = dict(pairs or ())
            yield tuple(values.get(name) or None for name in names), size


def predicate(buckets: Sequence[SmallFiles], fields: Sequence[StructField]) -> str | None:
    """SQL that holds for these buckets alone; None where the table is not partitioned."""
    if not fields:
        return None
    return " OR ".join(f"({_matches(bucket.values, fields)})" for bucket in buckets)


def _matches(values: Values, fields: Sequence[StructField]) -> str:
    return " AND ".join(f"{quoted(f.name)} {_equals(value, f)}" for value, f in zip(values, fields, strict=True))


def _equals(value: str | None, field: StructField) -> str:
    if value is None:
        return "IS NULL"
    text = literal(value)
    return f"= {text}" if str(field.type) == "string" else f"= CAST({text} AS {field.type})"
