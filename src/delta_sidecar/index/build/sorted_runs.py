"""Sorted runs: sort more rows than fit in memory into the order of the index.

    rows ──► runs, each sorted in memory ──► blocks in a temporary file ──► blocks by their first rows ──► sorted rows

A row can be written once it sorts before the first row of every block that is not read yet. So the merge holds at most
one block of each run, and compares many rows at a time by the one order of the index (`index_rows`).
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import StorageError
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.stats.index_rows import joined, order_columns, order_key, order_of, sorted_rows

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring rows of a run: their position in the file, and the first of them."""

    start: int
    length: int
    rows: int
    nbytes: int
    """In memory."""
    first: pa.Table
    """Its order key alone."""


class SpillFile:
    """A temporary file, made when it is first written. It has no name, so nothing is left of it however the process
    ends. Threads may share it."""

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory or tempfile.gettempdir()
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._end = 0

    def __enter__(self) -> SpillFile:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, data: pa.Buffer) -> tuple[int, int]:
        """Append bytes. Returns their position and length."""
        with self._lock:
            try:
                return self._append(memoryview(data)), len(data)
            except OSError as error:
                raise StorageError(
                    f"cannot write the sorted runs of the build to {self._directory}, after {self._end >> 20} MB "
                    f"({error.strerror or error}); set TMPDIR to a directory with more space, or use --engine spark"
                ) from None

    def _append(self, data: memoryview) -> int:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115 (closed on exit)
        start = self._file.seek(self._end)
        while data:
            data = data[self._file.write(data) :]
        self._end = self._file.tell()
        return start

    def read(self, start: int, length: int) -> bytes:
        """Bytes written so far."""
        assert self._file is not None
        with self._lock:
            self._file.seek(start)
            data = self._file.read(length)
        if len(data) != length:
            raise StorageError(f"the temporary file in {self._directory} was truncated; build again")
        return data


class Runs:
    """Rows in sorted runs, in a file. Runs may be added by several threads; then they are merged by one."""

    def __init__(self, file: SpillFile, layout: IndexLayout, block_bytes: int) -> None:
        """A block has about `block_bytes` of memory: a merge holds one of each run, at most."""
        self._file = file
        self._layout = layout
        self._block_bytes = block_bytes
        self._blocks: list[Block] = []

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self._blocks)

    @property
    def nbytes(self) -> int:
        """In memory, if all were read."""
        return sum(block.nbytes for block in self._blocks)

    def add(self, tables: Sequence[pa.Table]) -> None:
        """Sort rows and write them as a run."""
        rows = sorted_rows(joined(tables), self._layout)
        if not rows.num_rows:
            return
        size = max(1, self._block_bytes * rows.num_rows // max(1, rows.nbytes))
        self._blocks += [self._written(rows.slice(at, size)) for at in range(0, rows.num_rows, size)]

    def _written(self, rows: pa.Table) -> Block:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
            writer.write_table(rows)
        start, length = self._file.append(sink.getvalue())
        # A copy: a slice would keep the whole run.
        first = order_key(rows, self._layout).take(arrays.indices(np.zeros(1, np.int64)))
        return Block(start, length, rows.num_rows, rows.nbytes, first)

    def ordered(self) -> list[Block]:
        """The blocks in the order of their first rows."""
        if not self._blocks:
            return []
        firsts = joined([block.first for block in self._blocks])
        return [self._blocks[at] for at in order_of(order_columns(firsts, self._layout)).to_pylist()]

    def read(self, block: Block) -> pa.Table:
        return pa.ipc.open_stream(self._file.read(block.start, block.length)).read_all()

    def merged(self, blocks: Sequence[Block], tables: Iterator[pa.Table], merge_bytes: int) -> Iterator[pa.Table]:
        """All rows in order. `tables` are the rows of `blocks`, which are in the order of their first rows; rows are
        sorted whenever there are `merge_bytes` more of them, and as many as wait already."""
        waiting: list[pa.Table] = []
        held = fresh = 0
        for number, table in enumerate(tables, 1):
            waiting.append(table)
            fresh += table.nbytes
            if number < len(blocks) and fresh < max(merge_bytes, held):
                continue
            rows, following = joined(waiting), blocks[number : number + 1]
            waiting.clear()
            ready, rest = (
                self._split(rows, following[0].first) if following else (sorted_rows(rows, self._layout), None)
            )
            del rows
            if ready.num_rows:
                yield ready
            del ready
            waiting, held, fresh = ([], 0, 0) if rest is None else ([rest], rest.nbytes, 0)

    def _split(self, rows: pa.Table, following: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows that come before another one, in order, and those that do not."""
        keys = joined([order_key(rows, self._layout), following])
        order = order_of(order_columns(keys, self._layout))
        places = np.frombuffer(order.buffers()[1], np.uint64, len(order), 8 * order.offset).astype(np.int64)
        at = int(np.flatnonzero(places == rows.num_rows)[0])
        return rows.take(arrays.indices(places[:at])), rows.take(arrays.indices(places[at + 1 :]))
