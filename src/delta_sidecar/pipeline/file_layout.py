"""Which row goes to which file: one bucket per file, a bucket in one file unless it is larger than the target.

The rows of each bucket are counted first, from the time column alone. From the counts and the bytes a row takes follows
how many files each bucket needs; rows of a large bucket are dealt to its files by a hash of the row, so a task that is
run again deals them the same. Each file is written by one task, and buckets that follow each other by different ones.
Where the rows of each bucket are together already, they stay where they are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.values.bucket_columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_FILE_SIZE: Final = 128_000_000
"""Bytes of a file to aim for: `128MB`."""
_TOLERANCE = 0.15
"""A file may be this much of the target larger than it, before it is split: sizes are estimates."""
SAMPLE_ROWS = 20_000
"""Rows that tell what a row takes in Parquet."""
_WIDEST_ROW = 16 << 10
"""Rows are taken to be no wider than this in Parquet: buckets of few rows need no estimate."""
_SLACK = 16
"""How many numbers of tasks beyond the least are tried for an even load."""

_UNHASHABLE = re.compile(r'"type":"map"|"variant"')

Counts = Mapping[int | None, int]
"""Rows by number of bucket; None is the null bucket."""


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """How a batch is dealt to tasks and files."""

    tasks: int
    split: Mapping[int | None, int] = field(default_factory=dict)
    """Buckets of several files, and how many; all others have one."""

    def partition_sql(self, number: str, columns: Sequence[str]) -> str:
        """SQL: the task of a row. Files of one bucket go to tasks one apart, so that no two of them meet."""
        place = f"coalesce({number}, 0)"
        if self.split:
            place = f"{place} + {self._file_sql(number, columns)}"
        return f"CAST(pmod({place}, {self.tasks}) AS INT)"

    def _file_sql(self, number: str, columns: Sequence[str]) -> str:
        """SQL: which of its bucket's files a row goes to; the row is hashed only where there is a choice."""
        row = f"xxhash64({', '.join(quoted(name) for name in columns)})"
        cases = [f"WHEN {_is_one_of(number, keys)} THEN pmod({row}, {files})" for files, keys in self._by_files()]
        return f"CASE {' '.join(cases)} ELSE 0 END"

    def _by_files(self) -> list[tuple[int, list[int | None]]]:
        sizes = sorted(set(self.split.values()))
        return [(files, [key for key, many in self.split.items() if many == files]) for files in sizes]


def _is_one_of(number: str, keys: Iterable[int | None]) -> str:
    known = sorted(key for key in keys if key is not None)
    membership = f"{number} IN ({', '.join(map(str, known))})" if known else ""
    null = f"{number} IS NULL" if None in set(keys) else ""
    return " OR ".join(filter(None, (membership, null)))


def plan_layout(counts: Counts, bytes_per_row: float, target: int, parallelism: int) -> BatchLayout:
    """Files for each bucket by its size, and as many tasks as there are files, up to what can run at once."""
    files = {key: files_of(rows * bytes_per_row, target) for key, rows in counts.items()}
    split = {key: many for key, many in files.items() if many > 1}
    least = max([*split.values(), min(sum(files.values()), parallelism), 1])
    return BatchLayout(_most_even(counts, files, least), split)


def files_of(size: float, target: int) -> int:
    return max(1, math.ceil(size / target - _TOLERANCE))


def _most_even(counts: Counts, files: Mapping[int | None, int], least: int) -> int:
    """The number of tasks, from `least` on, whose fullest task holds the least."""
    if least == 1 or len(counts) > 10_000:
        return least
    return min(range(least, least + _SLACK), key=lambda tasks: (_fullest(counts, files, tasks), tasks))


def _fullest(counts: Counts, files: Mapping[int | None, int], tasks: int) -> float:
    load: Counter[int] = Counter()
    for key, rows in counts.items():
        for file in range(files[key]):
            load[((key or 0) + file) % tasks] += rows // files[key]
    return max(load.values(), default=0)


def needs_estimate(counts: Counts, target: int) -> bool:
    """Whether any bucket may be larger than a file."""
    return max(counts.values(), default=0) * _WIDEST_ROW > target


@dataclass(frozen=True, slots=True)
class Counted:
    """The buckets of a batch."""

    rows: Counts
    gathered: bool
    """The rows of each bucket are in one partition already, as those of a source in the order of time are."""


def count_buckets(frame: DataFrame, number: str) -> Counted:
    """Rows per bucket. Only the time column is needed for it, and a columnar source reads no other."""
    from pyspark.sql import functions as f

    placed = frame.select(f.expr(number).alias("bucket"), f.spark_partition_id().alias("place"))
    counts = placed.groupBy("bucket").agg(f.count(f.lit(1)), f.min("place"), f.max("place")).toArrow()
    buckets, rows, first, last = (column.to_pylist() for column in counts.columns)
    return Counted(dict(zip(buckets, rows)), first == last)


def sampled_bytes_per_row(first: DataFrame) -> float:
    """Bytes a row takes in Parquet, by the first rows."""
    sample = first.toArrow()
    sink = pa.BufferOutputStream()
    pq.write_table(sample, sink, compression="snappy")
    size: int = sink.tell()
    return size / max(1, int(sample.num_rows))


def hashable_columns(frame: DataFrame) -> list[str]:
    """Columns that may be hashed: Spark has no hash of maps and variants."""
    return [f.name for f in frame.schema.fields if not _UNHASHABLE.search(f.dataType.json())]
