"""A small Delta table of telemetry on a local disk, to try things on: no Spark, no `deltalake`, no cloud account.

It looks like a table that `sidecar ingest` has filled for a few days: hourly buckets in the same generated column, one
commit an hour, a compaction, a checkpoint, some commits after it, and an hour that retention has deleted. The same
arguments always give the same rows, paths and versions.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import InputError, OptionError, StorageError
from delta_sidecar.testing.actions import AddFile, RemoveFile, Spec, column, metadata
from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression, bucket_of, quoted

TIME_COLUMN, BUCKET = "ts", "_event_hour"
END = dt.datetime(2026, 2, 11, tzinfo=dt.UTC)
"""The end of the last hour, however many hours there are: the newest bucket is always 2026021023."""
DEVICES = 50
MOST_HOURS = 100_000
"""About eleven years; with more, the first hours would leave the years that a timestamp can have."""
TAIL_HOURS = 5
"""Hours that are added after the checkpoint, at most."""

_MILLIS_PER_HOUR = 3_600_000
_END_MILLIS = int(END.timestamp()) * 1000
_SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("device", pa.string()), ("temperature", pa.float64())]
)


@dataclass(frozen=True, slots=True)
class SampleShape:
    """The size of a sample table, and the seed of its random values. A size below 1 is an `OptionError`."""

    hours: int = 72
    files_per_hour: int = 4
    rows_per_file: int = 250
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("hours", "files_per_hour", "rows_per_file"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}; a sample needs at least 1")
        if self.hours > MOST_HOURS:
            raise OptionError(f"hours is {self.hours:,}; a sample has at most {MOST_HOURS:,}")

    @property
    def rows_per_hour(self) -> int:
        """Rows of each bucket."""
        return self.files_per_hour * self.rows_per_file


@dataclass(frozen=True, slots=True)
class SampleReport:
    """The sample table that was written."""

    table: str
    version: int
    files: int
    """Live files at that version."""
    rows: int
    """Rows of the live files."""
    first_hour: str
    last_hour: str
    """The oldest and the newest bucket, as `_event_hour` has them."""


def write_sample(directory: Path | str, shape: SampleShape | None = None) -> SampleReport:
    """Write a sample table into a new or empty local directory, and return a report of its contents.

    Raises `InputError` if the directory is not empty or not local, `StorageError` if it cannot be written.
    """
    if "://" in str(directory):
        raise InputError(f"{directory}: a sample is written to a local disk; give a directory")
    root, sample = Path(directory), _Sample(Path(directory), shape or SampleShape())
    try:
        root.mkdir(parents=True, exist_ok=True)
        if next(root.iterdir(), None) is not None:
            raise InputError(f"{root} is not empty; give a new directory, or delete what is in it")
        return sample.write()
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{root} is not a directory, or lies below a file; give a new directory") from None
    except OSError as error:
        raise StorageError(f"{root} could not be written: {error.strerror or error}") from error


class _Sample:
    """One table while it is written. Hour 0 is the first hour that is kept; hour -1 is deleted again."""

    def __init__(self, root: Path, shape: SampleShape) -> None:
        self.root, self.shape = root, shape
        self.random = random.Random(shape.seed)
        self.files: dict[int, list[AddFile]] = {}
        """The live files of each hour."""
        self.newest = 0
        """When the newest commit was made, in milliseconds since 1970."""

    def write(self) -> SampleReport:
        builder, hours = LogBuilder(self.root), self.shape.hours
        self._create(builder)
        tail = min(TAIL_HOURS, hours - 1)
        for hour in range(-1, hours - tail):
            self._append(builder, hour)
        self._compact(builder, 0)
        builder.checkpoint()
        for hour in range(hours - tail, hours):
            self._append(builder, hour)
        self._delete(builder, -1)
        rows, live = hours * self.shape.rows_per_hour, sum(map(len, self.files.values()))
        return SampleReport(str(self.root), builder.version, live, rows, self._bucket(0), self._bucket(hours - 1))

    def _create(self, builder: LogBuilder) -> None:
        expression = bucket_expression(quoted(TIME_COLUMN), "hour")
        kinds = {"ts": "timestamp", "id": "long", "device": "string", "temperature": "double"}
        columns = [column(name, kind) for name, kind in kinds.items()]
        columns.append(column(BUCKET, "string", metadata={GENERATION_EXPRESSION: expression}))
        builder.protocol(1, 7, writer_features=["appendOnly", "generatedColumns", "invariants"])
        body = metadata(columns, partition_by=[BUCKET], table_id=self._unique("table"))["metaData"]
        self._commit(builder, self._begin(-1), "CREATE TABLE", {"metaData": {**body, "createdTime": self._begin(-1)}})

    def _append(self, builder: LogBuilder, hour: int) -> None:
        self.files[hour] = [self._written(hour, number, rows) for number, rows in enumerate(self._events(hour))]
        self._commit(builder, self._begin(hour + 1), "WRITE", *self.files[hour], mode="Append")

    def _compact(self, builder: LogBuilder, hour: int) -> None:
        """Put the files of an hour into one, as OPTIMIZE does: no row changes."""
        whole = pa.concat_tables(pq.read_table(self.root / each.path, partitioning=None) for each in self.files[hour])
        add = replace(self._written(hour, self.shape.files_per_hour, whole), data_change=False)
        removes = [replace(each, data_change=False) for each in self._removes(hour)]
        self.files[hour] = [add]
        self._commit(builder, self.newest, "OPTIMIZE", *removes, add)

    def _delete(self, builder: LogBuilder, hour: int) -> None:
        """Delete a whole hour, as retention does."""
        predicate = f"[\"({BUCKET} = '{self._bucket(hour)}')\"]"
        removes = self._removes(hour)
        self.files[hour] = []
        self._commit(builder, self.newest, "DELETE", *removes, predicate=predicate)

    def _removes(self, hour: int) -> list[RemoveFile]:
        return [
            RemoveFile(each.path, None, self.newest, extended=True, partition=each.partition, size=each.size)
            for each in self.files[hour]
        ]

    def _commit(self, builder: LogBuilder, millis: int, operation: str, *actions: Spec, **parameters: str) -> None:
        """A commit a minute after `millis`, and after every earlier one."""
        self.newest = max(self.newest, millis) + 60_000
        info: dict[str, Any] = {"timestamp": self.newest, "operation": operation, "operationParameters": parameters}
        builder.commit(*actions, info=info, mtime_ms=self.newest)

    def _written(self, hour: int, number: int, rows: pa.Table) -> AddFile:
        bucket = self._bucket(hour)
        path = f"{BUCKET}={bucket}/part-{number:05}-{self._unique(bucket, number)}-c000.snappy.parquet"
        add = write_data_file(self.root, path, rows, partition={BUCKET: bucket})
        return replace(add, modification_time=self._begin(hour + 1))

    def _events(self, hour: int) -> Iterator[pa.Table]:
        """The rows of an hour, a file at a time, in the order of time. Times are whole milliseconds, as stats are."""
        begin, many, in_hour = self._begin(hour), self.shape.rows_per_file, self.shape.rows_per_hour
        for number in range(self.shape.files_per_hour):
            places = range(number * many, (number + 1) * many)
            times = [begin + place * _MILLIS_PER_HOUR // in_hour for place in places]
            rows = {
                "ts": [time * 1000 for time in times],
                "id": [(hour + 1) * in_hour + place for place in places],
                "device": [f"device-{self.random.randrange(DEVICES):02}" for _ in places],
                "temperature": [self._temperature(time) for time in times],
            }
            yield pa.table(rows, _SCHEMA)

    def _temperature(self, millis: int) -> float:
        """Warmest in the afternoon, with some noise."""
        day = (millis / _MILLIS_PER_HOUR - 9) / 24
        return round(20 + 5 * math.sin(2 * math.pi * day) + self.random.random(), 2)

    def _begin(self, hour: int) -> int:
        """The first moment of an hour, in milliseconds since 1970."""
        return _END_MILLIS - (self.shape.hours - hour) * _MILLIS_PER_HOUR

    def _bucket(self, hour: int) -> str:
        return str(bucket_of(self._begin(hour) * 1000, "hour"))

    def _unique(self, *parts: object) -> str:
        """A name that follows from the shape, so that two samples of one shape are the same."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.shape}/{'/'.join(map(str, parts))}"))
