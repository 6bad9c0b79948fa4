"""Everything about a made-up file as a function of its number, computed for a whole batch of numbers at once.

A file keeps its path and stats wherever it appears (checkpoint, commit, remove), and no state is carried between
batches, so memory stays that of one batch. Values are drawn from small pools, as real telemetry is: a checkpoint row
of about 1 KB of stats compresses to about 40 bytes, nearly half of it the random part of the path.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.specs import BUCKET, M0_VALUES, START, hour_text

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

ROWS_PER_FILE = 10_000
MILLIS_PER_HOUR = 3_600_000
START_MILLIS = int(START.timestamp() * 1000)
TIMESTAMP = pa.timestamp("us", "UTC")
_LEVELS = 64
_SPREAD = 16


@dataclass(frozen=True, slots=True)
class Column:
    """A data column with stats; `number` counts the measures m0, m1, … and is -1 for `id` and `ts`."""

    name: str
    type: str
    number: int = -1

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the column."""
        types = {"long": pa.int64(), "timestamp": TIMESTAMP, "integer": pa.int32(), "double": pa.float64()}
        return types.get(self.type, pa.string())


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file's number means: its place in time, and the columns that have stats."""

    files_per_hour: int
    stat_columns: int
    partitioned: bool = True

    @property
    def columns(self) -> list[Column]:
        """`id`, `ts`, then measures of changing type."""
        types = ("integer", "double", "string")
        measures = [Column(f"m{k}", types[k % 3], k) for k in range(max(0, self.stat_columns - 2))]
        return [Column("id", "long"), Column("ts", "timestamp"), *measures][: self.stat_columns]

    def hours(self, files: Ints) -> Ints:
        """The hour of each file, counted from the start."""
        return files // self.files_per_hour

    def millis(self, files: Ints) -> Ints:
        """The first moment of each file, within its hour."""
        return (files % self.files_per_hour) * MILLIS_PER_HOUR // self.files_per_hour

    @property
    def span(self) -> int:
        """From a file's first to its last moment, in milliseconds."""
        return MILLIS_PER_HOUR // self.files_per_hour - 1


def noise(files: Ints, salt: int) -> npt.NDArray[np.uint64]:
    """A well-mixed 64-bit number for each file (splitmix64)."""
    z = files.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % (1 << 64))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def sizes(files: Ints) -> Ints:
    """File sizes in bytes."""
    return 1_000_000 + (noise(files, 11) % np.uint64(1 << 18)).astype(np.int64)


def modification_times(layout: Layout, files: Ints) -> Ints:
    """Milliseconds since 1970: a minute after the file's last row."""
    return START_MILLIS + layout.hours(files) * MILLIS_PER_HOUR + layout.millis(files) + layout.span + 60_000


def record_counts(files: Ints) -> Ints:
    """Rows of each file."""
    return ROWS_PER_FILE - (noise(files, 12) % np.uint64(100)).astype(np.int64)


def hour_values(layout: Layout, files: Ints) -> pa.Array:
    """The partition value of each file."""
    hours = layout.hours(files)
    return _hour_pool(_pool_size(hours)).take(pa.array(hours))


def paths(layout: Layout, files: Ints) -> pa.Array:
    """`_event_hour=2026021022/part-00000-<uuid>-c000.snappy.parquet`: of one width, so written as a matrix of bytes."""
    prefix = f"{BUCKET}=0000000000/" if layout.partitioned else ""
    name = f"{prefix}part-00000-xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx-c000.snappy.parquet"
    rows = np.tile(np.frombuffer(name.encode(), np.uint8), (len(files), 1))
    digits = [at for at, char in enumerate(name) if char == "x"]
    rows[:, digits] = _hex(files)[:, : len(digits)]
    if layout.partitioned:
        rows[:, len(BUCKET) + 1 : len(prefix) - 1] = _hour_bytes(layout.hours(files))
    rows[:, len(prefix) + 9] = ord("0") + files % 8
    return _strings(rows)


def stats_json(layout: Layout, files: Ints) -> pa.Array:
    """The `stats` text of each file."""
    pieces: list[pa.Array | str] = ['{"numRecords":', _digits(record_counts(files))]
    for section, last in (("minValues", False), ("maxValues", True)):
        pieces += [f',"{section}":{{', *_bounds_json(layout, files, last), "}"]
    return join([*pieces, ',"nullCount":{', *_null_counts_json(layout, files), "}}"])


def stats_typed(layout: Layout, files: Ints) -> pa.Array:
    """The `stats_parsed` struct of each file: the same values in native types."""
    columns = layout.columns
    names = [column.name for column in columns]
    low, high = ([_bound(layout, column, files, last) for column in columns] for last in (False, True))
    nulls = [pa.array(null_counts(column, files)) for column in columns]
    fields = [pa.StructArray.from_arrays(arrays, names) for arrays in (low, high, nulls)]
    counts = pa.array(record_counts(files))
    return pa.StructArray.from_arrays([counts, *fields], ["numRecords", "minValues", "maxValues", "nullCount"])


def null_counts(column: Column, files: Ints) -> Ints:
    """Nulls of one column in each file: none but in string columns."""
    if column.type != "string":
        return np.zeros(len(files), np.int64)
    return files // 500 % 7


def join(pieces: list[pa.Array | str]) -> pa.Array:
    """Concatenate texts row by row; plain strings are the same in every row, and neighbours of them are merged."""
    merged: list[pa.Array | str] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    values = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in merged]
    return pc.binary_join_element_wise(*values, "")


def _bounds_json(layout: Layout, files: Ints, last: bool) -> list[pa.Array | str]:
    pieces: list[pa.Array | str] = []
    for column in layout.columns:
        pieces += [f'{"," if pieces else ""}"{column.name}":', *_bound_json(layout, column, files, last)]
    return pieces


def _bound_json(layout: Layout, column: Column, files: Ints, last: bool) -> list[pa.Array | str]:
    if column.name == "id":
        return [_digits(_ids(files, last))]
    if column.name == "ts":
        return ['"', *_time_text(layout, files, last), 'Z"']
    return [_text_pool(column).take(pa.array(_levels(column, files, last)))]


def _bound(layout: Layout, column: Column, files: Ints, last: bool) -> pa.Array:
    if column.name == "id":
        return pa.array(_ids(files, last))
    if column.name == "ts":
        return pa.array(_moments(layout, files, last) * 1000).cast(TIMESTAMP)
    return _pool(column).take(pa.array(_levels(column, files, last)))


def _null_counts_json(layout: Layout, files: Ints) -> list[pa.Array | str]:
    pieces: list[pa.Array | str] = []
    for column in layout.columns:
        value = _digits(null_counts(column, files)) if column.type == "string" else "0"
        pieces += [f'{"," if pieces else ""}"{column.name}":', value]
    return pieces


def _ids(files: Ints, last: bool) -> Ints:
    return files * ROWS_PER_FILE + (ROWS_PER_FILE - 1 if last else 0)


def _moments(layout: Layout, files: Ints, last: bool) -> Ints:
    within = layout.millis(files) + (layout.span if last else 0)
    return START_MILLIS + layout.hours(files) * MILLIS_PER_HOUR + within


def _levels(column: Column, files: Ints, last: bool) -> Ints:
    """Where in the column's pool each file's bound is: `m0` jumps about, the others drift at their own pace."""
    if column.number == 0:
        return (noise(files, 13) % np.uint64(M0_VALUES)).astype(np.int64)
    drift = files // (97 * column.number) * 5 % _LEVELS
    return drift + (_SPREAD - 1 if last else 0)


@cache
def _pool(column: Column) -> pa.Array:
    """All values a measure's bounds may have, in its own type."""
    if column.number == 0:
        return pa.array(range(M0_VALUES), column.arrow_type)
    makers: dict[str, Any] = {
        "integer": lambda v: column.number * 1000 + v,
        "double": lambda v: column.number * 10 + v / 4,
        "string": lambda v: f"m{column.number}-device-{v:05d}",
    }
    return pa.array([makers[column.type](v) for v in range(_LEVELS + _SPREAD)], column.arrow_type)


@cache
def _text_pool(column: Column) -> pa.Array:
    return pa.array([json.dumps(value) for value in _pool(column).to_pylist()])


def _time_text(layout: Layout, files: Ints, last: bool) -> list[pa.Array]:
    hours = layout.hours(files)
    millis = layout.millis(files) + (layout.span if last else 0)
    return [
        _iso_hour_pool(_pool_size(hours)).take(pa.array(hours)),
        _second_pool().take(pa.array(millis // 1000)),
        _milli_pool().take(pa.array(millis % 1000)),
    ]


def _pool_size(hours: Ints) -> int:
    """Doubled whenever it is too small, so that successive batches share a pool."""
    return max(1024, 1 << int(hours.max()).bit_length())


# Only the largest pool of hours is in use; the ones before may go.
@lru_cache(maxsize=1)
def _hour_pool(size: int) -> pa.Array:
    return pa.array([hour_text(hour) for hour in range(size)])


@lru_cache(maxsize=1)
def _iso_hour_pool(size: int) -> pa.Array:
    texts = (hour_text(hour) for hour in range(size))
    return pa.array([f"{t[:4]}-{t[4:6]}-{t[6:8]}T{t[8:]}" for t in texts])


@cache
def _second_pool() -> pa.Array:
    return pa.array([f":{second // 60:02d}:{second % 60:02d}" for second in range(3600)])


@cache
def _milli_pool() -> pa.Array:
    return pa.array([f".{milli:03d}" for milli in range(1000)])


@cache
def _hex_pairs() -> Bytes:
    return np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)


def _hex(files: Ints) -> Bytes:
    """32 random hexadecimal digits a file."""
    words = np.stack([noise(files, 1), noise(files, 2)], axis=1)
    return _hex_pairs()[words.view(np.uint8).reshape(len(files), 16)].reshape(len(files), 32)


def _hour_bytes(hours: Ints) -> Bytes:
    pool = _hour_pool(_pool_size(hours))
    return np.frombuffer(pool.buffers()[2], np.uint8)[: len(pool) * 10].reshape(-1, 10)[hours]


def _digits(values: Ints) -> pa.Array:
    return pa.array(values).cast(pa.string())


def _strings(rows: Bytes) -> pa.Array:
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows)))
