"""Deletion vectors: the protocol's examples, real files, and every way they can be broken."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from pyroaring import BitMap, BitMap64

from delta_sidecar.data.deletion_vectors import (
    NATIVE_MAGIC,
    PORTABLE_MAGIC,
    DeletedRows,
    Descriptor,
    read_deleted_rows,
)
from delta_sidecar.data.z85 import z85_decode
from delta_sidecar.errors import CorruptDataError, UnsupportedFeatureError
from delta_sidecar.storage import open_store

INLINE = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
HIGH = [3, 70_000, (1 << 32) + 5, (3 << 32) + 1]


def portable(positions: list[int]) -> bytes:
    return struct.pack("<i", PORTABLE_MAGIC) + BitMap64(positions).serialize()


def native(positions: list[int]) -> bytes:
    keys = range(max(positions, default=-1) // (1 << 32) + 1)
    bitmaps = [BitMap(p & 0xFFFFFFFF for p in positions if p >> 32 == key).serialize() for key in keys]
    parts = b"".join(struct.pack("<i", len(b)) + b for b in bitmaps)
    return struct.pack("<ii", NATIVE_MAGIC, len(bitmaps)) + parts


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def write(root: Path, *vectors: bytes, version: int = 1) -> list[int]:
    """A file of vectors; the offsets of each."""
    content, offsets = bytes([version]), []
    for data in vectors:
        offsets.append(len(content))
        content += framed(data)
    (root / NAME).write_bytes(content)
    return offsets


def described(size: int, cardinality: int, offset: int | None = 1) -> Descriptor:
    return Descriptor("u", "^-aqEH.-t@S}K{vb[*k^", offset, size, cardinality)


def read(root: Path, descriptor: Descriptor) -> list[int]:
    path = "" if descriptor.is_inline else descriptor.path
    return read_deleted_rows(descriptor, open_store(root), path).positions.tolist()


def test_z85_decodes_the_example_of_its_specification() -> None:
    assert z85_decode("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


@pytest.mark.parametrize("text", ["abcd", 'abc"e', "#####", "äbcd"])
def test_z85_refuses_what_it_is_not(text: str) -> None:
    with pytest.raises(ValueError, match="Z85"):
        z85_decode(text)


def test_the_protocols_examples_name_their_file() -> None:
    assert Descriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6).path == f"ab/{NAME}"
    assert Descriptor("u", "^-aqEH.-t@S}K{vb[*k^", 4, 40, 6).path == NAME
    assert Descriptor("p", "s3://b/x.bin", 4, 40, 6).path == "s3://b/x.bin"


def test_the_protocols_inline_example(tmp_path: Path) -> None:
    assert read(tmp_path, Descriptor("i", INLINE, None, 40, 6)) == [3, 4, 7, 11, 18, 29]


@pytest.mark.parametrize("encode", [portable, native])
@pytest.mark.parametrize("positions", [[], [0], HIGH, list(range(100_000)), list(range(0, 300_000, 3))])
def test_both_formats_from_a_file(tmp_path: Path, encode, positions: list[int]) -> None:
    data = encode(positions)
    (_, offset) = write(tmp_path, portable([9]), data)
    assert read(tmp_path, described(len(data), len(positions), offset)) == positions


def test_a_missing_offset_is_the_first_vector(tmp_path: Path) -> None:
    data = portable([1, 2])
    write(tmp_path, data)
    assert read(tmp_path, described(len(data), 2, None)) == [1, 2]


def test_storage_types_of_others_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'r'"):
        _ = Descriptor("r", "x", None, 1, 1).path


def test_what_is_broken_is_named(tmp_path: Path) -> None:
    data = portable([1, 2])
    write(tmp_path, data)
    content = (tmp_path / NAME).read_bytes()
    for broken, message in [
        (content[:10] + bytes([content[10] ^ 1]) + content[11:], "checksum"),
        (content[:-6], "shorter"),
        (content[:4] + b"\x01" + content[5:], "the log says"),
    ]:
        (tmp_path / NAME).write_bytes(broken)
        with pytest.raises(CorruptDataError, match=message) as caught:
            read(tmp_path, described(len(data), 2))
        assert NAME in str(caught.value)
        assert "\n" not in str(caught.value)


def test_other_failures(tmp_path: Path) -> None:
    data = portable([1, 2])
    with pytest.raises(CorruptDataError, match="missing"):
        read(tmp_path, described(len(data), 2))
    write(tmp_path, data, version=2)
    with pytest.raises(UnsupportedFeatureError, match="format version 2"):
        read(tmp_path, described(len(data), 2))
    write(tmp_path, data)
    with pytest.raises(CorruptDataError, match="holds 2 rows, the log says 3"):
        read(tmp_path, described(len(data), 3))
    write(tmp_path, b"\0\0\0\0" + data)
    with pytest.raises(CorruptDataError, match="magic number 0"):
        read(tmp_path, described(len(data) + 4, 2))
    with pytest.raises(CorruptDataError, match="id 'abc' is broken"):
        _ = Descriptor("u", "abc", 1, 1, 1).path
    with pytest.raises(CorruptDataError, match="40 bytes, the log says 44"):
        read(tmp_path, Descriptor("i", INLINE, None, 44, 6))


@pytest.mark.parametrize("encode", [portable, native])
def test_no_broken_bitmap_brings_the_process_down(tmp_path: Path, encode) -> None:
    chosen = random.Random(7)
    sound = encode([*range(0, 3000, 3), *range(70_000, 80_000), *HIGH])
    for _ in range(200):
        data = bytearray(sound[: chosen.randrange(4, len(sound))])
        for _ in range(3):
            data[chosen.randrange(min(len(data), 60))] = chosen.randrange(256)
        write(tmp_path, bytes(data))
        with pytest.raises(CorruptDataError):
            read(tmp_path, described(len(data), 123_456_789))


def test_the_rows_kept_of_a_range() -> None:
    deleted = DeletedRows(np.array([2, 5, 6, 100], np.uint64))
    assert deleted.kept(7, 100) is None
    kept = deleted.kept(4, 8)
    assert kept is not None
    assert kept.tolist() == [True, False, False, True]
