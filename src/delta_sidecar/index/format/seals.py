"""Checksums inside a Parquet file, in bytes before its footer that the footer does not name, so readers skip them.

A part that must be usable without its manifest is *sealed* as a whole. A file of which only some columns may be read
has a checksum for each column chunk: Parquet's page checksums leave out the page headers.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.storage.parquet_ranges import chunk_range
from delta_sidecar.storage.store import Buffer, ByteRange

SEAL: Final = b"DSC1"
"""Begins the twelve bytes of a seal: then the checksums of what comes before them and of what comes after."""
CHUNKS: Final = b"DSC2"
"""Ends the checksums of the chunks: those of the columns of the first row group, then of the next."""
_TAIL: Final = 8
"""Bytes after the footer: its length and the magic."""


def footer_length(data: Buffer | pa.Buffer) -> int:
    """What the end of a file says its footer takes."""
    return int.from_bytes(memoryview(data)[-_TAIL:-4], "little") if len(memoryview(data)) >= _TAIL else 0


def footer_crc32(data: Buffer | pa.Buffer, footer: int) -> int:
    """The checksum of a footer of that length and of what comes after it."""
    return zlib.crc32(memoryview(data)[-footer - _TAIL :])


def sealed(data: pa.Buffer) -> pa.Buffer:
    """A Parquet file with its own checksums."""
    at = data.size - footer_length(data) - _TAIL
    checksums = struct.pack("<II", zlib.crc32(data.slice(0, at)), zlib.crc32(data.slice(at)))
    return _inserted(data, at, SEAL + checksums)


def is_whole(data: Buffer) -> bool:
    """Whether a sealed file is as it was written."""
    view = memoryview(data)
    at = len(view) - footer_length(data) - _TAIL - len(SEAL) - 8
    if at < 0 or bytes(view[at : at + len(SEAL)]) != SEAL:
        return False
    before, after = struct.unpack_from("<II", view, at + len(SEAL))
    return bool(zlib.crc32(view[:at]) == before and zlib.crc32(view[at + len(SEAL) + 8 :]) == after)


def with_chunk_checksums(data: pa.Buffer) -> pa.Buffer:
    """A Parquet file with the checksums of its column chunks."""
    at = data.size - footer_length(data) - _TAIL
    checksums = computed_checksums(data, pq.read_metadata(pa.BufferReader(data)))
    return _inserted(data, at, struct.pack(f"<{len(checksums)}I", *checksums) + CHUNKS)


def computed_checksums(data: Buffer | pa.Buffer, metadata: pq.FileMetaData) -> list[int]:
    """What the checksums of the chunks of a whole file must be."""
    view = memoryview(data)
    return [zlib.crc32(view[r.start : r.start + r.length]) for r in chunk_ranges(metadata)]


def end_length(footer: int) -> int:
    """Bytes at the end of a file that hold its footer and, before it, the checksums of its chunks.

    A column has at least 40 bytes in the footer and four among the checksums.
    """
    return footer + _TAIL + footer // 8 + len(CHUNKS)


def chunk_checksums(end: Buffer, metadata: pq.FileMetaData) -> list[int] | None:
    """The checksums of all chunks, out of the end of a file; None where it has none and is only good as a whole."""
    view = memoryview(end)
    count = metadata.num_row_groups * metadata.num_columns
    stop = len(view) - footer_length(end) - _TAIL - len(CHUNKS)
    start = stop - 4 * count
    if start < 0 or bytes(view[stop : stop + len(CHUNKS)]) != CHUNKS:
        return None
    return list(struct.unpack_from(f"<{count}I", view, start))


def chunk_ranges(metadata: pq.FileMetaData) -> list[ByteRange]:
    """Where the chunks lie, in the order of their checksums."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    return [chunk_range(group.column(at)) for group in groups for at in range(metadata.num_columns)]


def _inserted(data: pa.Buffer, at: int, checksums: bytes) -> pa.Buffer:
    return pa.py_buffer(b"".join([data.slice(0, at), checksums, data.slice(at)]))
