"""Where the column chunks of a Parquet file lie."""

from __future__ import annotations

from typing import Any

from delta_sidecar.storage.store import ByteRange


def chunk_range(chunk: Any) -> ByteRange:
    """The bytes of a column chunk, from its first page on. Some writers give a missing dictionary page the offset 0."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return ByteRange(start, chunk.total_compressed_size)
