"""Version files and checkpoints as IndexTables packs them: a byte 01, a byte for the codec, then the packed text.

Only gzip (01) is known. Plain text and bare gzip are read, too: each file says itself what it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from delta_sidecar.errors import CorruptLogError, UnsupportedFeatureError
from delta_sidecar.storage.store import Buffer

_GZIP: Final = b"\x1f\x8b"
_MARK: Final = 1
_GZIP_CODEC: Final = 1
_GZIP_WINDOW: Final = zlib.MAX_WBITS | 16
_PIECE: Final = 4 << 20
"""Bytes unpacked at a time: a small file may hold a very long text."""


def unpack(chunks: Iterable[Buffer], path: str) -> Iterator[Buffer]:
    """The text of a file of the log, a piece at a time."""
    remaining = iter(chunks)
    first = bytes(next(remaining, b""))
    if first[:1] == bytes([_MARK]):
        if len(first) < 4 or first[1] != _GZIP_CODEC or first[2:4] != _GZIP:
            codec = f"{first[1]:#04x}" if len(first) > 1 else "that is missing"
            raise UnsupportedFeatureError(f"{path} is packed with codec {codec}; known is 0x01, gzip")
        return _unzipped(chain([first[2:]], remaining), path)
    if first[:2] == _GZIP:
        return _unzipped(chain([first], remaining), path)
    return chain([first], remaining)


def _unzipped(chunks: Iterable[Buffer], path: str) -> Iterator[Buffer]:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        for chunk in chunks:
            rest = bytes(chunk)
            while rest:
                if stream.eof:
                    stream = zlib.decompressobj(_GZIP_WINDOW)
                if piece := stream.decompress(rest, _PIECE):
                    yield piece
                rest = stream.unused_data if stream.eof else stream.unconsumed_tail
        if not stream.eof:
            raise CorruptLogError(f"{path} breaks off; restore the file")
    except zlib.error as error:
        raise CorruptLogError(f"{path} cannot be unpacked ({error}); restore the file") from None
