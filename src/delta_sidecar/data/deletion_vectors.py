"""Deletion vectors: the rows of a data file that are deleted, by position.

A vector is a 64-bit roaring bitmap, found through its descriptor: inline in the log (Z85), or in a
file that holds one or more of them. The file, as the protocol lays it out:

| bytes                 | what                                           |
|-----------------------|------------------------------------------------|
| 0                     | format version, 1                              |
| offset … +4           | size of the data, big endian                   |
| … +size               | the data: magic (little endian) and the bitmap |
| … +4                  | CRC32 of the data, big endian                  |

and the data, little endian (the second form also occurs in big endian, as in the protocol's inline example):

| magic      | then                                                                                   |
|------------|----------------------------------------------------------------------------------------|
| 1681511377 | count (8 bytes); for each: key (4 bytes, the high half of the positions), roaring      |
| 1681511376 | count (4 bytes); for each: size (4 bytes), roaring; the key is the place in the list   |
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from delta_sidecar.data.file_bytes import Sources, is_cut_short
from delta_sidecar.data.z85 import z85_decode
from delta_sidecar.errors import (
    CorruptDataError,
    MissingDataError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from delta_sidecar.storage.store import Buffer, ByteRange, Store

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import BitMap

PORTABLE_MAGIC = 1681511377
NATIVE_MAGIC = 1681511376
_FORMAT_VERSION = 1
_UUID_LENGTH = 20
_FRAME = 8
"""The size before the data and the checksum after it."""


class Descriptor(Struct, frozen=True):
    """Where a deletion vector is, as the log says it."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Descriptor:
        """From a value of the `deletion_vector` column."""
        return cls(
            storage_type=row["storageType"],
            path_or_inline=row["pathOrInlineDv"],
            offset=row["offset"],
            size=row["sizeInBytes"],
            cardinality=row["cardinality"],
        )

    @property
    def is_inline(self) -> bool:
        return self.storage_type == "i"

    @property
    def path(self) -> str:
        """The file that holds the vector: decoded and relative to the table's root for `u`, else a URI."""
        match self.storage_type:
            case "u":
                return _uuid_path(self.path_or_inline)
            case "p":
                return self.path_or_inline
            case other:
                raise UnsupportedFeatureError(
                    f"deletion vector storage type {other!r} is not supported (known: u, i, p); use another reader"
                )


class _Positions(Struct, frozen=True):
    """Positions of rows in one data file, sorted."""

    positions: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.positions)

    def within(self, start: int, stop: int) -> NDArray[np.int64]:
        """The positions in `[start, stop)`, counted from `start`."""
        first, last = np.searchsorted(self.positions, np.array([start, stop], np.uint64))
        return self.positions[first:last].astype(np.int64) - start


class DeletedRows(_Positions, frozen=True):
    """The rows of one data file that are deleted."""

    def count(self, total: int) -> int:
        """The number of live rows in a file of `total` rows."""
        return total - len(self)

    def kept(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        """Which rows of `[start, stop)` live; None when all of them do."""
        deleted = self.within(start, stop)
        if not len(deleted):
            return None
        keep = np.ones(stop - start, dtype=np.bool_)
        keep[deleted] = False
        return keep


class ChosenRows(_Positions, frozen=True):
    """The only rows of one data file that count."""

    def count(self, total: int) -> int:
        """How many they are."""
        return len(self)

    def kept(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        """Which rows of `[start, stop)` count; None when all of them do."""
        chosen = self.within(start, stop)
        if len(chosen) == stop - start:
            return None
        keep = np.zeros(stop - start, dtype=np.bool_)
        keep[chosen] = True
        return keep


def chosen_rows_of(only: Descriptor, hidden: Descriptor | None, sources: Sources) -> ChosenRows:
    """The rows that are in one vector and not in another."""
    chosen, others = deleted_rows_of(only, sources), deleted_rows_of(hidden, sources)
    assert chosen is not None
    if others is None:
        return ChosenRows(chosen.positions)
    return ChosenRows(np.setdiff1d(chosen.positions, others.positions, assume_unique=True))


def deleted_rows_of(descriptor: Descriptor | None, sources: Sources) -> DeletedRows | None:
    """The deleted rows of a file with that descriptor, wherever the vector lies; None without one."""
    if descriptor is None:
        return None
    if descriptor.storage_type == "p":
        return read_deleted_rows(descriptor, *sources.locate(descriptor.path))
    return read_deleted_rows(descriptor, sources.table, "" if descriptor.is_inline else descriptor.path)


def read_deleted_rows(descriptor: Descriptor, store: Store, path: str) -> DeletedRows:
    """The deleted rows a descriptor stands for; `path` is its file within `store` (unused inline)."""
    if descriptor.is_inline:
        return decode_deleted_rows(_inline_data(descriptor), descriptor, "the inline deletion vector")
    where = f"deletion vector file {path!r}"
    return decode_deleted_rows(_file_data(descriptor, store, path, where), descriptor, where)


def decode_deleted_rows(data: Buffer, descriptor: Descriptor, where: str) -> DeletedRows:
    """The positions in the data of a vector, checked against the descriptor's cardinality."""
    try:
        positions = _positions(bytes(data))
    except (ValueError, struct.error, MemoryError) as error:
        raise CorruptDataError(f"{where} cannot be decoded ({error}); restore it or repair the table") from None
    if len(positions) != descriptor.cardinality:
        raise CorruptDataError(
            f"{where} holds {len(positions)} rows, the log says {descriptor.cardinality}; repair the table"
        )
    return DeletedRows(positions)


def _uuid_path(encoded: str) -> str:
    try:
        name = uuid.UUID(bytes=z85_decode(encoded[-_UUID_LENGTH:]))
    except ValueError as error:
        raise CorruptDataError(f"deletion vector id {encoded!r} is broken ({error}); repair the table") from None
    prefix = encoded[:-_UUID_LENGTH]
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


def _inline_data(descriptor: Descriptor) -> bytes:
    try:
        data = z85_decode(descriptor.path_or_inline)
    except ValueError as error:
        raise CorruptDataError(f"an inline deletion vector is broken ({error}); repair the table") from None
    if len(data) < descriptor.size:
        raise CorruptDataError(
            f"an inline deletion vector has {len(data)} bytes, the log says {descriptor.size}; repair the table"
        )
    return data[: descriptor.size]


def _file_data(descriptor: Descriptor, store: Store, path: str, where: str) -> Buffer:
    """The vector's data from its file. The frame around it is checked."""
    frame = ByteRange(descriptor.offset or 1, descriptor.size + _FRAME)
    version, framed = _ranges(store, path, frame, where)
    if version[0] != _FORMAT_VERSION:
        raise UnsupportedFeatureError(
            f"{where} has format version {version[0]}, and this reader knows {_FORMAT_VERSION}; use a newer one"
        )
    (size,) = struct.unpack_from(">i", framed, 0)
    if size != descriptor.size:
        raise CorruptDataError(
            f"{where} holds a vector of {size} bytes, the log says {descriptor.size}; repair the table"
        )
    data = memoryview(framed)[4:-4]
    (checksum,) = struct.unpack_from(">I", framed, len(framed) - 4)
    if zlib.crc32(data) != checksum:
        raise CorruptDataError(f"{where} fails its checksum; restore it or repair the table")
    return data


def _ranges(store: Store, path: str, frame: ByteRange, where: str) -> list[Buffer]:
    """The version byte and the frame, in one trip."""
    try:
        return store.get_ranges(path, [ByteRange(0, 1), frame])
    except ObjectNotFoundError:
        raise MissingDataError(f"{where} is missing; restore it or repair the table") from None
    except StorageError as error:
        if not is_cut_short(store, path, frame.end, error):
            raise
        raise CorruptDataError(f"{where} is shorter than the log says; restore it or repair the table") from None


def _positions(data: bytes) -> NDArray[np.uint64]:
    (magic,) = struct.unpack_from("<i", data, 0)
    if magic == PORTABLE_MAGIC:
        from pyroaring import BitMap64

        return np.frombuffer(BitMap64.deserialize(data[4:]).to_array(), dtype=np.uint64)
    for order in "<>":
        if data[:4] == struct.pack(f"{order}i", NATIVE_MAGIC):
            parts = [_shifted(bitmap, key) for key, bitmap in enumerate(_native_bitmaps(data, f"{order}i"))]
            return np.concatenate(parts) if parts else np.empty(0, np.uint64)
    raise ValueError(f"unknown magic number {magic}")


def _native_bitmaps(data: bytes, number: str) -> Iterator[BitMap]:
    from pyroaring import BitMap

    (count,) = struct.unpack_from(number, data, 4)
    at = 8
    for _ in range(count):
        (size,) = struct.unpack_from(number, data, at)
        at += 4
        if size < 0 or at + size > len(data):
            raise ValueError("a bitmap reaches beyond the end")
        yield BitMap.deserialize(data[at : at + size])
        at += size


def _shifted(bitmap: BitMap, key: int) -> NDArray[np.uint64]:
    low = np.frombuffer(bitmap.to_array(), dtype=np.uint32)
    return low.astype(np.uint64) + np.uint64(key << 32)
