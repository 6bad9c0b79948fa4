"""Times of INT96 have nanoseconds, which Spark cuts to microseconds in silence: find the files where that loses digits.

Files that Spark wrote have none to lose. Of the others the tasks read those columns, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from delta_sidecar.arrays import pc
from delta_sidecar.pipeline.shipping import ship
from delta_sidecar.storage import RangedFile, open_location, parse_location

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

_BY_SPARK = b"org.apache.spark.version"


class Int96File(Struct, frozen=True):
    """A file with columns of INT96."""

    path: str
    size: int
    columns: tuple[str, ...]
    """Their paths in Parquet."""


def int96_columns(footer: pq.FileMetaData) -> tuple[str, ...]:
    """The columns of a file whose times may have digits beyond microseconds."""
    if _BY_SPARK in (footer.metadata or {}):
        return ()
    leaves = (footer.schema.column(at) for at in range(len(footer.schema)))
    return tuple(leaf.path for leaf in leaves if leaf.physical_type == "INT96")


def first_cut(
    spark: SparkSession, files: Sequence[Int96File], storage_options: Mapping[str, str] | None
) -> tuple[str, str] | None:
    """The first file with such digits, and the column that has them; None if there is none."""
    if not files:
        return None
    ship(spark)

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [(at, column) for at in batch.column(0).to_pylist() for column in _cut(files[at], storage_options)]
            yield pa.record_batch(
                [pa.array([at for at, _ in found], pa.int64()), pa.array([name for _, name in found], pa.string())],
                names=["at", "name"],
            )

    numbers = spark.range(0, len(files), 1, min(len(files), _MOST_TASKS))
    rows = sorted(zip(*(c.to_pylist() for c in numbers.mapInArrow(look, "at bigint, name string").toArrow().columns)))
    return (files[rows[0][0]].path, rows[0][1]) if rows else None


_MOST_TASKS = 1_000


def _cut(file: Int96File, storage_options: Mapping[str, str] | None) -> Iterator[str]:
    location = parse_location(file.path)
    store = open_location(location.container_root, storage_options)
    for column in file.columns:
        place = location.path.lstrip("/")
        with RangedFile(store, place, file.size) as fine, RangedFile(store, place, file.size) as coarse:
            pairs = zip(_batches(fine, column, "ns"), _batches(coarse, column, "us"), strict=True)
            if any(map(_differ, pairs)):
                yield column


def _batches(file: Any, column: str, unit: str) -> Iterator[pa.RecordBatch]:
    reader = pq.ParquetFile(file, coerce_int96_timestamp_unit=unit)
    yield from reader.iter_batches(columns=[column])


def _differ(pair: tuple[pa.RecordBatch, pa.RecordBatch]) -> bool:
    """Whether nanoseconds and microseconds are not the same times. Both wrap alike where a year has no nanoseconds."""
    fine, coarse = ([number for column in batch.columns for number in _times(column)] for batch in pair)
    with np.errstate(over="ignore"):
        return any(bool((ns != us * 1_000).any()) for ns, us in zip(fine, coarse, strict=True))


def _times(array: pa.Array) -> Iterator[NDArray[np.int64]]:
    """The times of an array, at any depth."""
    if pa.types.is_timestamp(array.type):
        yield pc.cast(array.drop_null(), pa.int64()).to_numpy()
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _times(part)
    elif pa.types.is_list(array.type):
        yield from _times(array.flatten())
