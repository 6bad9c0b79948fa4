"""The file of a split: the files of one index of the engine, one after the other, then a list of them.

The layout is that of IndexTables' splits: after the files a list (magic, version, JSON), the length of the list, a
cache for their reader, the length of the cache. Ours has no cache, and its list also has a checksum for each file, and
one of the list itself. The list is found from the end of the file, or by the offsets that the log has.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import structs

from delta_sidecar.errors import CorruptDataError, MissingDataError, ObjectNotFoundError, UnsupportedFeatureError
from delta_sidecar.search.log.actions import Split
from delta_sidecar.storage.store import Buffer, ByteRange, Store

SUFFIX: Final = ".split"
META: Final = "meta.json"
"""The file of an index that names its segments."""
_MAGIC: Final = bytes.fromhex("aebe1218")
_VERSION: Final = 1
_HEAD: Final = len(_MAGIC) + 4
_TAIL: Final = 64 << 10
"""Bytes read from the end of a split of which the log does not say where its footer begins."""
_PIECE: Final = 8 << 20
_HELD: Final = 32 << 20
"""Bytes of a remote split that are held in memory while it is unpacked."""
_CHUNK: Final = 1 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PARTS: Final = frozenset({"fast", "fieldnorm", "idx", "pos", "store", "term"})
"""Every segment has a file of each. The engine opens an index without some of them, and then finds less."""


@dataclass(frozen=True, slots=True)
class SplitFooter:
    """Where the list of files is in a split."""

    start: int
    end: int
    """The size of the split."""


@dataclass(frozen=True, slots=True)
class SplitList:
    """The files in a split."""

    path: str
    files: Mapping[str, ByteRange]
    checksums: Mapping[str, int]
    """CRC-32 by name; none in splits of IndexTables."""

    @property
    def size(self) -> int:
        """Bytes of the files together."""
        return sum(place.length for place in self.files.values())


class _Place(msgspec.Struct):
    start: int
    end: int


class _FileList(msgspec.Struct, omit_defaults=True):
    files: dict[str, _Place]
    checksums: dict[str, int] = {}
    listChecksum: int | None = None
    """CRC-32 of the list without this; older splits have none."""

    def sealed(self) -> _FileList:
        return structs.replace(self, listChecksum=self.checksum())

    def checksum(self) -> int:
        return zlib.crc32(msgspec.json.encode(structs.replace(self, listChecksum=None)))


# Writing.


def index_files(folder: Path) -> list[Path]:
    """The files of an index that a split needs: its `meta.json`, and those of the segments that it names."""
    meta = folder / META
    segments = {entry["segment_id"].replace("-", "") for entry in msgspec.json.decode(meta.read_bytes())["segments"]}
    found = [path for path in sorted(folder.iterdir()) if path.name.split(".")[0] in segments]
    return [*found, meta]


def write_split_file(folder: Path, target: Path) -> SplitFooter:
    """Write the files of an index into one.

    Args:
        folder: Where the index is, committed and no longer written to.
        target: The file to write.
    """
    places: dict[str, _Place] = {}
    checksums: dict[str, int] = {}
    with target.open("wb") as sink:
        for file in index_files(folder):
            start = sink.tell()
            with file.open("rb") as source:
                checksums[file.name] = _copied(_chunks(source), sink)
            places[file.name] = _Place(start, sink.tell())
        footer_start = sink.tell()
        listed = _MAGIC + _number(_VERSION) + msgspec.json.encode(_FileList(places, checksums).sealed())
        sink.write(listed + _number(len(listed)) + _number(0))
        end = sink.tell()
    return SplitFooter(footer_start, end)


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk


def _copied(chunks: Iterable[Buffer], sink: BinaryIO) -> int:
    """Write chunks; their checksum."""
    checksum = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
        sink.write(chunk)
    return checksum


# Reading.


def read_split_list(store: Store, path: str, split: Split | None = None) -> SplitList:
    """The list of files in a split: one range where the log has the offset of the footer.

    Args:
        store: The store of the table.
        path: The split, relative to the table.
        split: What the log says of it, if known.

    Raises:
        MissingDataError: The split is not there.
        CorruptDataError: It is no split, or its list is broken.
        UnsupportedFeatureError: Its layout has another version.
        StorageError: The store cannot be reached.
    """
    try:
        size = split.size if split is not None and split.size else store.head(path).size
        start = split.footerStartOffset if split is not None else None
        start = start if start is not None and 0 <= start < size else max(0, size - _TAIL)
        tail = bytes(store.get_range(path, start, size - start))
        wanted = _footer_length(tail, path)
        if wanted > len(tail):
            tail = bytes(store.get_range(path, max(0, size - wanted), min(size, wanted)))
    except ObjectNotFoundError:
        raise MissingDataError(f"the split {path} is missing; perhaps it was purged") from None
    return _listed(tail, size, path)


def _read_number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _footer_length(tail: bytes, path: str) -> int:
    """Bytes from the beginning of the list to the end of the file; more than the tail has if the list is not in it."""
    if len(tail) < 2 * 4 + _HEAD:
        raise CorruptDataError(f"{path} is too short to be a split")
    list_end = len(tail) - 4 - _read_number(tail, len(tail) - 4)
    if list_end < 4:
        return len(tail) - list_end + _TAIL
    return len(tail) - list_end + 4 + _read_number(tail, list_end - 4)


def _listed(tail: bytes, size: int, path: str) -> SplitList:
    list_end = len(tail) - 4 - _read_number(tail, len(tail) - 4)
    begin = list_end - 4 - _read_number(tail, list_end - 4) if list_end >= 4 else -1
    head = tail[begin : begin + _HEAD] if begin >= 0 else b""
    if head[:4] != _MAGIC:
        raise CorruptDataError(f"{path} is not a split: its footer is not where it should be")
    if _read_number(head, 4) != _VERSION:
        raise UnsupportedFeatureError(f"{path} is a bundle of version {_read_number(head, 4)}; known is {_VERSION}")
    try:
        listed = msgspec.json.decode(tail[begin + _HEAD : list_end - 4], type=_FileList)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptDataError(f"{path} has a broken list of files ({error})") from None
    for name, place in listed.files.items():
        is_name = _NAME.fullmatch(name) and name not in (".", "..")
        if not is_name or not 0 <= place.start <= place.end <= size:
            raise CorruptDataError(f"{path} lists a file {name!r} that cannot be in it")
    _check_list(listed, path)
    places = {name: ByteRange(place.start, place.end - place.start) for name, place in listed.files.items()}
    return SplitList(path, places, listed.checksums)


def _check_list(listed: _FileList, path: str) -> None:
    """A name or an offset that changed: no checksum of a file shows it. Lists of IndexTables have no checksums."""
    if listed.listChecksum is not None and listed.listChecksum != listed.checksum():
        raise CorruptDataError(f"{path} is damaged: its list of files is not as it was written")
    if not listed.checksums:
        return
    parts: dict[str, set[str]] = {}
    for name in listed.files.keys() - {META}:
        segment, _, part = name.partition(".")
        parts.setdefault(segment, set()).add(part)
    is_whole = META in listed.files and all(part >= _PARTS for part in parts.values())
    if not is_whole or listed.checksums.keys() != listed.files.keys():
        raise CorruptDataError(f"{path} is damaged: its list of files is not complete")


def unpack_split(store: Store, listed: SplitList, folder: Path) -> None:
    """Write the files of a split into a directory, and compare their checksums: the engine reads nothing but files.

    Args:
        store: The store of the table.
        listed: The files of the split.
        folder: An empty directory.

    Raises:
        MissingDataError: The split is not there.
        CorruptDataError: A file is not as it was written.
        StorageError: The store cannot be reached.
    """
    local = store.local_path(listed.path)
    pieces = _local(local, listed.files) if local is not None else _remote(store, listed)
    checksums = dict.fromkeys(listed.files, 0)
    sizes = dict.fromkeys(listed.files, 0)
    try:
        for name in listed.files:
            (folder / name).touch()
        for name, file_pieces in groupby(pieces, itemgetter(0)):
            with (folder / name).open("ab") as sink:
                for _, piece in file_pieces:
                    checksums[name] = zlib.crc32(piece, checksums[name])
                    sizes[name] += sink.write(piece)
    except (ObjectNotFoundError, FileNotFoundError):
        raise MissingDataError(f"the split {listed.path} is missing; perhaps it was purged") from None
    for name, place in listed.files.items():
        if sizes[name] != place.length or listed.checksums.get(name, checksums[name]) != checksums[name]:
            raise CorruptDataError(f"{listed.path} is damaged: {name} in it is not as it was written")


def _local(path: str, files: Mapping[str, ByteRange]) -> Iterator[tuple[str, Buffer]]:
    with open(path, "rb", buffering=0) as source:
        for name, place in files.items():
            source.seek(place.start)
            left = place.length
            while left and (chunk := source.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield name, chunk


def _remote(store: Store, listed: SplitList) -> Iterator[tuple[str, Buffer]]:
    """The files in pieces, some fetched side by side; small neighbours come in one request."""
    waiting: list[tuple[str, ByteRange]] = []
    held = 0
    for name, place in listed.files.items():
        for at in range(place.start, place.end, _PIECE):
            piece = ByteRange(at, min(_PIECE, place.end - at))
            if held + piece.length > _HELD:
                yield from _fetched(store, listed.path, waiting)
                waiting, held = [], 0
            waiting.append((name, piece))
            held += piece.length
    yield from _fetched(store, listed.path, waiting)


def _fetched(store: Store, path: str, pieces: Sequence[tuple[str, ByteRange]]) -> Iterator[tuple[str, Buffer]]:
    if pieces:
        names, ranges = zip(*pieces, strict=True)
        yield from zip(names, store.get_ranges(path, ranges), strict=True)
