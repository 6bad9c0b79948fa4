"""The rows of a table, from the stream of its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

import pyarrow as pa

from delta_sidecar.data.data_files import DataFileList
from delta_sidecar.data.file_bytes import Sources, StoreOpener
from delta_sidecar.data.reader import RowReader
from delta_sidecar.data.request import plan_request
from delta_sidecar.data.row_stream import RowStream, RowWork
from delta_sidecar.errors import OptionError
from delta_sidecar.limits import ReaderLimits
from delta_sidecar.listing.request import checked_limit
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.settings import Settings
from delta_sidecar.storage.store import Store, is_local
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.values.types import StructType

if TYPE_CHECKING:
    from delta_sidecar.data.arrow_step import ArrowStep

_REMOTE_THREADS = 16
"""Remote reads wait more than they compute."""
_LOCAL_THREADS = 4
"""At least: while one waits for the interpreter, others decode."""
_GROUP_BYTES = 16 << 20
_SMALLEST_GROUP_BYTES = 1 << 20


def read_rows(
    files: Iterator[pa.RecordBatch],
    store: Store,
    schema: StructType,
    partition_columns: Sequence[str],
    *,
    mapping_mode: str = "none",
    columns: Sequence[str] | None = None,
    predicate: Expression | None = None,
    limit: int | None = None,
    threads: int | None = None,
    memory_budget: int = 64 << 20,
    batch_size: int = 1 << 16,
    partition_timezone: str = "UTC",
    open_other: StoreOpener | None = None,
    limits: ReaderLimits | None = None,
    step: ArrowStep | None = None,
) -> RowStream:
    """The rows of `files` (batches of a listing) that live and match, in the order of the files.

    `columns` are logical names at the top level, in the order wanted; none at all still counts rows.
    `threads` is the number of files read at once (by default the processors, four at least, or 16 for a
    remote store). `memory_budget` bounds the bytes of rows that are ready and not yet taken; beside them each thread
    holds one row group, or one batch of a large one. `open_other` opens stores for files outside of the table.
    `step` is done with every batch of rows; `columns` are those it needs, `limit` counts the rows it leaves.
    """
    limit = checked_limit(limit)
    _check(threads=threads, memory_budget=memory_budget, batch_size=batch_size)
    workers = threads or default_threads(store)
    request = plan_request(
        schema,
        partition_columns,
        mapping_mode=mapping_mode,
        columns=columns,
        predicate=predicate,
        limit=limit if step is None or step.filter is None else None,
        batch_size=batch_size,
        group_bytes=group_bytes(memory_budget, workers),
    )
    reader = RowReader(request, Sources(store, open_other, (limits or ReaderLimits()).small_file), step)
    data_files = DataFileList(files, request.partition_fields, partition_timezone, parse_location(store.root_uri))
    work = RowWork(data_files, reader, threads=workers, memory_budget=memory_budget, enough=limit)
    return RowStream(work, reader.schema, limit)


class ReadingOptions(TypedDict):
    """The arguments of `read_rows` that settings decide."""

    threads: int | None
    memory_budget: int
    batch_size: int
    partition_timezone: str
    limits: ReaderLimits


def reading_options(settings: Settings, batch_size: int | None = None) -> ReadingOptions:
    """The arguments that settings mean; a smaller batch may be asked for."""
    return {
        "threads": settings.read_threads or None,
        "memory_budget": settings.memory_budget,
        "batch_size": min(settings.row_batch_size, batch_size or settings.row_batch_size),
        "partition_timezone": settings.partition_timezone,
        "limits": settings.limits,
    }


def default_threads(store: Store) -> int:
    """The number of files read at once."""
    if not is_local(store):
        return _REMOTE_THREADS
    return max(os.cpu_count() or 1, _LOCAL_THREADS)


def group_bytes(memory_budget: int, threads: int) -> int:
    """The size up to which a row group is read whole."""
    return max(_SMALLEST_GROUP_BYTES, min(_GROUP_BYTES, memory_budget // (2 * threads)))


def _check(*, threads: int | None, memory_budget: int, batch_size: int) -> None:
    for name, value in (("threads", threads), ("memory_budget", memory_budget), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise OptionError(f"{name} is {value}; give 1 or more")
