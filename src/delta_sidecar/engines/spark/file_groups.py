"""Files of a listing in groups, one for each task, as bytes that travel to the workers.

Groups are filled by bytes as Spark fills its own: up to `spark.sql.files.maxPartitionBytes`, with a price for opening
each file, and fewer bytes where the cores would otherwise have nothing to do. A file is never divided.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from delta_sidecar.errors import OptionError

_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmgtp]?)b?\s*", re.IGNORECASE)
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


@dataclass(frozen=True, slots=True)
class Splitting:
    """How many bytes a task reads."""

    max_bytes: int = 128 << 20
    """The most, but for a larger file, which is a group of its own."""
    open_cost: int = 4 << 20
    """Bytes that could be read in the time it takes to open a file."""
    cores: int | None = None
    """Tasks that run at the same time; None where it is not known."""

    def group_bytes(self, file_bytes: int, files: int) -> int:
        """The bytes of a group, prices for opening included."""
        if self.cores is None:
            return self.max_bytes
        each = (file_bytes + files * self.open_cost) // self.cores
        return min(self.max_bytes, max(self.open_cost, each))


def parse_bytes(text: str) -> int:
    """The number of bytes that a setting of Spark means: `134217728b`, `128m`, `1g`."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise OptionError(f"{text!r} is not a number of bytes; write it like 128m")
    return int(match[1]) << _UNITS[match[2].lower()]


def grouped(batches: Sequence[pa.RecordBatch], splitting: Splitting) -> Iterator[list[pa.RecordBatch]]:
    """The files in groups, in the order of the listing."""
    sizes = [[size or 0 for size in batch.column("size").to_pylist()] for batch in batches]
    most = splitting.group_bytes(sum(map(sum, sizes)), sum(map(len, sizes)))
    group: list[pa.RecordBatch] = []
    filled = 0
    for batch, of_batch in zip(batches, sizes, strict=True):
        first = 0
        for row, size in enumerate(of_batch):
            cost = size + splitting.open_cost
            if filled and filled + cost > most:
                yield [*group, *_slice(batch, first, row)]
                group, filled, first = [], 0, row
            filled += cost
        group += _slice(batch, first, len(of_batch))
    if group:
        yield group


def _slice(batch: pa.RecordBatch, first: int, end: int) -> list[pa.RecordBatch]:
    return [batch.slice(first, end - first)] if end > first else []


def packed(group: Sequence[pa.RecordBatch]) -> bytes:
    """The files of a group as bytes: Arrow's stream format, compressed, without the deletion vectors if there are
    none."""
    table = pa.Table.from_batches(group)
    if table.column("deletion_vector").null_count == table.num_rows:
        table = table.drop_columns("deletion_vector")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> list[pa.RecordBatch]:
    """The files of a group back from its bytes."""
    with pa.ipc.open_stream(data) as stream:
        return list(stream)
