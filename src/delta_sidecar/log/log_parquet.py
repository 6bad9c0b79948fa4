"""Parquet files of the log, read by ranges: footers, and column chunks of chosen row groups as a stream of batches.

A column chunk may be hundreds of megabytes (the JSON stats of a million files), so it is never read whole:
pyarrow streams its pages through a small buffer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptLogError
from delta_sidecar.flow.read_ahead import READ_AHEAD_BYTES
from delta_sidecar.storage.parquet_ranges import chunk_range
from delta_sidecar.storage.ranged_file import RangedFile
from delta_sidecar.storage.store import ByteRange, ObjectMeta, Store

P = ParamSpec("P")
T = TypeVar("T")

_cost_lock = threading.Lock()
_STREAM_BUFFER = 64 << 10


class LogParquet:
    """One Parquet file of the log, opened by its footer."""

    def __init__(
        self,
        store: Store,
        meta: ObjectMeta,
        metadata: pq.FileMetaData | None = None,
        budget: int = READ_AHEAD_BYTES,
    ) -> None:
        """`budget` bounds the bytes of a remote file in memory and on their way."""
        self.path = meta.path
        self.meta = meta
        self._store = store
        local = store.local_path(meta.path)
        self._ranged = None if local is not None else RangedFile(store, meta.path, meta.size, budget=budget)
        self._source, self._file = self.guarded(self._open, local, metadata)
        self.metadata = self._file.metadata
        self.leaves: list[str] = self.guarded(self._leaf_paths)
        """The dotted path of every leaf column, by position."""
        self.row_groups_read = 0
        self.requests = 0
        """Reads of a local file, which no store counts."""
        self.bytes_read = 0
        if metadata is None:
            self._charge(1, min(meta.size, self.metadata.serialized_size + 8))

    def _open(self, local: str | None, metadata: pq.FileMetaData | None) -> tuple[Any, pq.ParquetFile]:
        source = self._ranged or pa.OSFile(local)
        return source, _open_parquet(source, metadata)

    def guarded(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that reads this file; whatever broken bytes make it raise is one clear error."""
        try:
            return function(*args, **kwargs)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise self._broken(error) from None

    def reopened(self, budget: int = READ_AHEAD_BYTES) -> LogParquet:
        """The same file for another reader: its footer is not read again."""
        return LogParquet(self._store, self.meta, self.metadata, budget)

    def absorb(self, other: LogParquet) -> None:
        """Take over what another reader of this file has cost."""
        with _cost_lock:
            self.requests += other.requests
            self.bytes_read += other.bytes_read
            self.row_groups_read += other.row_groups_read

    def _charge(self, requests: int, size: int) -> None:
        if self._ranged is None:
            self.requests += requests
            self.bytes_read += size

    def _leaf_paths(self) -> list[str]:
        # `metadata.schema` holds a reference cycle that keeps the footer alive until a collection.
        if self.metadata.num_row_groups == 0:
            return [self.metadata.schema.column(i).path for i in range(self.metadata.num_columns)]
        group = self.metadata.row_group(0)
        return [group.column(i).path_in_schema for i in range(group.num_columns)]

    def select(self, *prefixes: str) -> list[str]:
        """The leaves at or below the given dotted paths."""
        return [leaf for leaf in self.leaves if any(leaf == p or leaf.startswith(p + ".") for p in prefixes)]

    def groups_with(self, leaf: str) -> list[int]:
        """Row groups in which a leaf is not all null, as far as the statistics tell."""
        if leaf not in self.leaves:
            return []
        position = self.leaves.index(leaf)
        return [i for i in range(self.metadata.num_row_groups) if self._may_hold(i, position)]

    def _may_hold(self, group: int, position: int) -> bool:
        nulls = self._nulls(group, position)
        return nulls is None or nulls < self.metadata.row_group(group).num_rows

    def values(self, group: int, leaf: str) -> int | None:
        """In how many rows a leaf is not null; None if the statistics do not tell."""
        nulls = self._nulls(group, self.leaves.index(leaf))
        return None if nulls is None else int(self.metadata.row_group(group).num_rows) - nulls

    def as_full_as(self, group: int, leaf: str, other: str) -> bool:
        """Do the statistics say that a leaf is null in as few rows as another?"""
        if leaf not in self.leaves or other not in self.leaves:
            return False
        nulls = self._nulls(group, self.leaves.index(leaf))
        return nulls is not None and nulls == self._nulls(group, self.leaves.index(other))

    def _nulls(self, group: int, position: int) -> int | None:
        """The number of nulls in a column chunk; None if its statistics do not tell."""
        chunk = self.metadata.row_group(group).column(position)
        if chunk.physical_type != self._physical_types[position]:
            # Asking for its statistics would end the process: the error leaves C++ where nothing catches it.
            raise self._broken(ValueError(f"column {chunk.path_in_schema} has two types"))
        statistics = chunk.statistics
        return int(statistics.null_count) if statistics is not None and statistics.has_null_count else None

    @cached_property
    def _physical_types(self) -> list[str]:
        schema = self.metadata.schema
        return [schema.column(i).physical_type for i in range(len(self.leaves))]

    def batches(self, groups: Sequence[int], leaves: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """The chosen leaves of the chosen row groups, in file order."""
        if not leaves:
            return
        wanted = set(leaves)
        positions = [i for i, leaf in enumerate(self.leaves) if leaf in wanted]
        if self._ranged is not None:
            planned = [r for group in groups for r in self._chunks(group, positions)]
            self._ranged.prepare(planned, streams=len(positions))
        for group in groups:
            chunks = self._chunks(group, positions)
            self._charge(len(chunks), sum(r.length for r in chunks))
            self.row_groups_read += 1
            yield from self._group(group, leaves, batch_size)

    def _group(self, group: int, leaves: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """A row group in batches of even size: a small last one costs as much as a large one."""
        rows = self.metadata.row_group(group).num_rows
        even = -(-rows // -(-rows // batch_size)) if rows else batch_size
        batches = self._file.iter_batches(even, row_groups=[group], columns=list(leaves), use_threads=False)
        while True:
            batch = self.guarded(next, batches, None)
            if batch is None:
                return
            yield batch

    def _chunks(self, group: int, positions: Sequence[int]) -> list[ByteRange]:
        row_group = self.metadata.row_group(group)
        return [chunk_range(row_group.column(i)) for i in positions]

    def close(self) -> None:
        self._file.close(force=True)
        self._source.close()

    def _broken(self, error: Exception) -> CorruptLogError:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        return CorruptLogError(f"{self.path} cannot be read as Parquet ({first_line})")


def _open_parquet(source: Any, metadata: pq.FileMetaData | None) -> pq.ParquetFile:
    """The file, decoding into the streaming pool where there is one."""
    settings = {"pre_buffer": False, "buffer_size": _STREAM_BUFFER, "coerce_int96_timestamp_unit": "us"}
    file = pq.ParquetFile(source, metadata=metadata, **settings)
    pool = arrays.streaming_pool()
    if pool is not None:
        reader = type(file.reader)(pool)
        reader.open(source, use_memory_map=False, metadata=file.metadata, **settings)
        file.reader = reader
    return file
