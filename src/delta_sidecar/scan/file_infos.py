"""Files as Python objects, made batch by batch. Files of one partition share their partition values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, pairwise, repeat
from typing import Any, NoReturn

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar.arrays import pc
from delta_sidecar.log.actions import DeletionVector


class PartitionValues(dict[str, str | None]):
    """Partition values of files, by physical name. Files share them, so they cannot be changed."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("partition values are shared between files and cannot be changed; make a dict of them")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[PartitionValues], tuple[dict[str, str | None]]]:
        return PartitionValues, (dict(self),)


_NO_VALUES = PartitionValues()


class FileInfo(msgspec.Struct, gc=False, frozen=True):
    """One live file. A field is None if its column was not requested, or if the log has no value.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> file = next(DeltaTable("events").file_infos("id > 5"))
        >>> file.path, file.partition_values["_event_hour"], file.deletion_vector
        ('_event_hour=2026021023/part-0.parquet', '2026021023', None)
    """

    path: str
    """Exactly as in the log."""
    size: int | None = None
    modification_time: int | None = None
    """Milliseconds since the epoch."""
    partition_values: Mapping[str, str | None] = _NO_VALUES
    """By physical name, as in the log. Files of one partition share it, so it cannot be changed."""
    deletion_vector: DeletionVector | None = None
    num_records: int | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None


_MOST_KNOWN = 100_000
"""Partitions whose mapping is shared before the memory is cleared."""


def file_infos(batches: Iterable[pa.RecordBatch]) -> Iterator[FileInfo]:
    """The rows of a listing as objects; it has the column `path`."""
    known: dict[tuple[str | None, ...], Mapping[str, str | None]] = {}
    for batch in batches:
        columns = [batch.column("path").to_pylist()]
        columns += [
            _values(batch, name, known) if name in batch.schema.names else repeat(default)
            for name, default in zip(FileInfo.__struct_fields__[1:], FileInfo.__struct_defaults__, strict=True)
        ]
        # Trailing columns that are all default need not be passed at all.
        while isinstance(columns[-1], repeat):
            columns.pop()
        yield from map(FileInfo, *columns)


def _values(batch: pa.RecordBatch, name: str, known: dict[Any, Any]) -> Iterable[Any]:
    array = batch.column(name)
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(array, known)
    return array.to_pylist() if array.null_count < len(array) else repeat(None)


def _partition_values(array: pa.MapArray, known: dict[Any, Any]) -> Iterable[Mapping[str, str | None]]:
    """One mapping for each distinct partition, shared by its files."""
    width, keys, values = _regular(array)
    if width == 0:
        return repeat(_NO_VALUES, len(array))
    if width is None:
        return [PartitionValues(entries or ()) for entries in array.to_pylist()]
    if width == 1:
        return _by_runs(known, keys, values)
    flat = values.to_pylist()
    rows = zip(*(flat[i::width] for i in range(width)), strict=True)
    return [_shared(known, keys, row) for row in rows]


def _by_runs(
    known: dict[Any, Any], keys: tuple[str, ...], values: pa.StringArray
) -> Iterable[Mapping[str, str | None]]:
    """Neighbours mostly share their partition: one look-up for each run of equal values."""
    runs = pc.run_end_encode(values)
    ends = [0, *runs.run_ends.to_pylist()]
    mappings = [_shared(known, keys, (value,)) for value in runs.values.to_pylist()]
    return chain.from_iterable(
        repeat(m, stop - start) for m, (start, stop) in zip(mappings, pairwise(ends), strict=True)
    )


def _shared(known: dict[Any, Any], keys: tuple[str, ...], row: tuple[str | None, ...]) -> Mapping[str, str | None]:
    mapping: Mapping[str, str | None] | None = known.get(row)
    if mapping is None or tuple(mapping) != keys:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        mapping = known[row] = PartitionValues(zip(keys, row, strict=True))
    return mapping


def _regular(array: pa.MapArray) -> tuple[int | None, tuple[str, ...], pa.StringArray]:
    """The number of entries of every row, if all have the same keys, with the keys and all values; None if not."""
    offsets = np.frombuffer(array.offsets.buffers()[1], np.int32)[array.offsets.offset :][: len(array) + 1]
    lengths = np.diff(offsets)
    if array.null_count or not len(lengths) or (lengths != lengths[0]).any():
        return None, (), array.items
    width = int(lengths[0])
    start, stop = int(offsets[0]), int(offsets[-1])
    keys = array.keys[start:stop]
    first = tuple(keys[:width].to_pylist())
    same = len(pc.run_end_encode(keys).values) == 1 if width == 1 else keys.to_pylist() == list(first) * len(lengths)
    return (width if same or not width else None), first, array.items[start:stop]


def _deletion_vectors(array: pa.StructArray, _: dict[Any, Any]) -> Iterable[DeletionVector | None]:
    if array.null_count == len(array):
        return repeat(None)
    return [None if fields is None else DeletionVector(**fields) for fields in array.to_pylist()]


def _maps(array: pa.MapArray, _: dict[Any, Any]) -> Iterable[dict[str, str | None] | None]:
    if array.null_count == len(array):
        return repeat(None)
    return [None if entries is None else dict(entries) for entries in array.to_pylist()]


_MAKERS: dict[str, Callable[[Any, dict[Any, Any]], Iterable[Any]]] = {
    "partition_values": _partition_values,
    "deletion_vector": _deletion_vectors,
    "tags": _maps,
}
