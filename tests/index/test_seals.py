"""Checksums of column chunks: of every byte of them, at a place that a reader finds with one request."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.index.format.seals import CHUNKS, chunk_checksums, chunk_ranges, end_length, footer_length
from delta_sidecar.index.format.seals import with_chunk_checksums as checked


def parquet(table: pa.Table, row_group: int = 100) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=row_group, store_schema=False, write_statistics=False)
    return sink.getvalue()


TABLE = pa.table({"a": list(range(250)), "b": [f"text {n % 7}" for n in range(250)]})


def test_parquet_passes_over_them() -> None:
    assert pq.read_table(pa.BufferReader(checked(parquet(TABLE)))).equals(TABLE)


def test_each_chunk_has_its_own() -> None:
    data = bytes(checked(parquet(TABLE)))
    metadata = pq.read_metadata(pa.BufferReader(data))
    ranges = chunk_ranges(metadata)
    assert len(ranges) == 6
    assert [zlib.crc32(data[r.start : r.start + r.length]) for r in ranges] == chunk_checksums(data, metadata)
    at = len(data) - 8 - footer_length(data)
    assert data[at - 4 : at] == CHUNKS
    assert struct.unpack("<6I", data[at - 28 : at - 4]) == tuple(chunk_checksums(data, metadata))
    assert sum(r.length for r in ranges) == at - 28 - 4, "every byte between the magic and the checksums is in a chunk"


@pytest.mark.parametrize("columns", [1, 2, 1_000])
def test_the_end_of_a_file_holds_them_all(columns: int) -> None:
    names = [chr(0x4E00 + n) if columns > 26 else chr(ord("a") + n) for n in range(columns)]
    data = bytes(checked(parquet(pa.table({name: pa.array([], pa.int32()) for name in names}))))
    end = data[-min(len(data), end_length(footer_length(data))) :]
    metadata = pq.read_metadata(pa.BufferReader(end))
    assert chunk_checksums(end, metadata) == chunk_checksums(data, metadata)


def test_a_file_may_have_none() -> None:
    data = bytes(parquet(TABLE))
    metadata = pq.read_metadata(pa.BufferReader(data))
    assert chunk_checksums(data, metadata) is None
    assert chunk_checksums(data[-8 - footer_length(data) :], metadata) is None
