"""The parts in a manifest: a list of entries that is stored by columns.

An index of a billion files has some ten thousand parts. Stored by columns, their entries take half the bytes. A reader
finds the parts it needs in two or three columns, and makes objects only of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import sub
from typing import Annotated, Final, Self, TypeAlias, overload

import msgspec

from delta_sidecar.errors import CorruptIndexError

KeyValue = int | float | str | None
"""A bound of the sort key or of the time column: whole numbers, dates (days), timestamps (microseconds) and booleans as
integers; floats as numbers or `Infinity`, `-Infinity`; decimals and strings as text; binary as hexadecimal digits."""

PATH_BYTES: Final = 32
"""Bytes of a path that a part's entry keeps."""

_GREATEST: Final = (1 << 63) - 1
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_GREATEST)]
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=_GREATEST)]
_Crc32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-_GREATEST - 1, le=_GREATEST)]
_Beginning: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\Av[0-9]{1,19}(-[0-9a-f]{32})?\Z")]
"""Names of files are made of it: it must not lead elsewhere."""


class FileEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One Parquet file of a part."""

    size: int
    footer: int
    """Bytes of the footer, without the eight that end the file: it begins at `size - 8 - footer`."""
    crc32: int
    """Of the whole file."""
    footer_crc32: int
    """Of the footer and the eight bytes after it."""


class PartEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One part: some rows of the index, sorted by key, time and path, descending."""

    id: str
    rows: int
    bytes: int
    """Of the data files together."""
    core: FileEntry
    """`{id}.core.parquet`; `{id}.parquet` where core and stats are one file."""
    stats: FileEntry | None = None
    """`{id}.stats.parquet`; None where core and stats are one file. Named as in the manifest."""
    row_groups: int = 0
    """Of the core."""
    records: int | None = None
    """Rows in the data files together, deleted ones too; None if any count is unknown."""
    key: tuple[KeyValue, KeyValue] = (None, None)
    """The smallest and the greatest known key."""
    key_unknown: int = 0
    """Rows whose key is null or unknown; they are sorted last."""
    time: tuple[KeyValue, KeyValue] = (None, None)
    """The smallest minimum and the greatest maximum of the time column, as in the log."""
    time_unknown: int = 0
    """Rows of which a bound of the time column is unknown."""
    path: tuple[str, str] | None = None
    """The smallest and the greatest path in the order of their bytes, each cut to `PATH_BYTES`; None where a path may
    have two spellings."""
    vectors: int = 0
    """Rows with a deletion vector."""
    off_bucket: int = 0
    """Rows whose own time bounds contradict their time bucket (see `values.time_buckets`): no range of time may be
    derived from the bucket for this part."""

    @property
    def core_name(self) -> str:
        return f"{self.id}.parquet" if self.stats is None else f"{self.id}.core.parquet"

    @property
    def stats_name(self) -> str:
        """The file that holds the bounds."""
        return f"{self.id}.parquet" if self.stats is None else f"{self.id}.stats.parquet"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.core_name,) if self.stats is None else (self.core_name, self.stats_name)

    @property
    def size(self) -> int:
        """Of its files together."""
        return self.core.size + (self.stats.size if self.stats is not None else 0)


def cut_path(path: bytes) -> str:
    """The beginning of a path, in whole characters."""
    return path[:PATH_BYTES].decode("utf-8", "ignore")


class FileEntries(msgspec.Struct, frozen=True, gc=False):
    """Entries of files, by columns; -1 in `size` where a part has no such file."""

    size: list[_Size]
    footer: list[_Count]
    crc32: list[_Crc32]
    footer_crc32: list[_Crc32]

    @classmethod
    def of(cls, entries: Sequence[FileEntry | None]) -> Self:
        filled = [entry or _NO_FILE for entry in entries]
        return cls(
            [e.size for e in filled],
            [e.footer for e in filled],
            [e.crc32 for e in filled],
            [e.footer_crc32 for e in filled],
        )

    @property
    def has_long_footer(self) -> bool:
        """Whether a footer is longer than its file. Where there is no file it is so by one."""
        return max(map(sub, self.footer, self.size), default=0) > 1

    def at(self, index: int) -> FileEntry | None:
        size = self.size[index]
        return None if size < 0 else FileEntry(size, self.footer[index], self.crc32[index], self.footer_crc32[index])


_NO_FILE: Final = FileEntry(-1, 0, 0, 0)


class PartList(msgspec.Struct, frozen=True, gc=False):
    """Parts, by columns. `parts[i]` is the entry of one. Values out of range are refused while they are decoded."""

    builds: list[_Beginning]
    """The beginnings of ids, each once: `v{C}-{build}`, or the whole id where there is no number."""
    build: list[_Count]
    """Which of them."""
    number: list[_Size]
    """What comes after it in the id; -1 for nothing."""
    rows: list[_Count]
    row_groups: list[_Count]
    bytes: list[_Whole]
    """A log may say anything of its files, and so may their sum; it is only shown."""
    records: list[_Whole | None]
    core: FileEntries
    stats: FileEntries
    key_min: list[KeyValue]
    key_max: list[KeyValue]
    key_unknown: list[_Count]
    time_min: list[KeyValue]
    time_max: list[KeyValue]
    time_unknown: list[_Count]
    path_min: list[str | None]
    path_max: list[str | None]
    vectors: list[_Count]
    off_bucket: list[_Count]

    @classmethod
    def of(cls, entries: Iterable[PartEntry]) -> Self:
        parts = list(entries)
        split = [_split_id(part.id) for part in parts]
        builds = {name: place for place, name in enumerate(dict.fromkeys(name for name, _ in split))}
        paths = [part.path or (None, None) for part in parts]
        return cls(
            builds=list(builds),
            build=[builds[name] for name, _ in split],
            number=[number for _, number in split],
            rows=[p.rows for p in parts],
            row_groups=[p.row_groups for p in parts],
            bytes=[p.bytes for p in parts],
            records=[p.records for p in parts],
            core=FileEntries.of([p.core for p in parts]),
            stats=FileEntries.of([p.stats for p in parts]),
            key_min=[p.key[0] for p in parts],
            key_max=[p.key[1] for p in parts],
            key_unknown=[p.key_unknown for p in parts],
            time_min=[p.time[0] for p in parts],
            time_max=[p.time[1] for p in parts],
            time_unknown=[p.time_unknown for p in parts],
            path_min=[low for low, _ in paths],
            path_max=[high for _, high in paths],
            vectors=[p.vectors for p in parts],
            off_bucket=[p.off_bucket for p in parts],
        )

    def check(self, where: str) -> None:
        """`CorruptIndexError` if the columns do not fit each other, or a footer is longer than its file."""
        files = [c for part in (self.core, self.stats) for c in (part.size, part.footer, part.crc32, part.footer_crc32)]
        columns: list[Sequence[object]] = [getattr(self, name) for name in _PLAIN] + files
        builds = max(self.build, default=-1) < len(self.builds)
        if len({len(column) for column in columns}) > 1 or not builds:
            raise CorruptIndexError(f"{where} lists parts in columns of different lengths; build the index again")
        if min(self.core.size, default=0) < 0 or self.core.has_long_footer or self.stats.has_long_footer:
            raise CorruptIndexError(f"{where} lists parts with impossible sizes; build the index again")

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> PartEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[PartEntry]: ...
    def __getitem__(self, index: int | slice) -> PartEntry | list[PartEntry]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        core, low, high = self.core.at(index), self.path_min[index], self.path_max[index]
        return PartEntry(
            id=self._id(index),
            rows=self.rows[index],
            row_groups=self.row_groups[index],
            bytes=self.bytes[index],
            core=core or _NO_FILE,
            stats=self.stats.at(index),
            records=self.records[index],
            key=(self.key_min[index], self.key_max[index]),
            key_unknown=self.key_unknown[index],
            time=(self.time_min[index], self.time_max[index]),
            time_unknown=self.time_unknown[index],
            path=None if low is None or high is None else (low, high),
            vectors=self.vectors[index],
            off_bucket=self.off_bucket[index],
        )

    def __iter__(self) -> Iterator[PartEntry]:
        return (self[index] for index in range(len(self)))

    def _id(self, index: int) -> str:
        beginning, number = self.builds[self.build[index]], self.number[index]
        return beginning if number < 0 else f"{beginning}-{number}"


_PLAIN: Final = tuple(name for name in PartList.__struct_fields__ if name not in ("builds", "core", "stats"))


def _split_id(part: str) -> tuple[str, int]:
    """The id of a part as its beginning and its number; -1 where it has none that gives the id back."""
    beginning, _, number = part.rpartition("-")
    return (beginning, int(number)) if beginning and number.isascii() and _is_number(number) else (part, -1)


def _is_number(text: str) -> bool:
    """Whether a text is a whole number in its usual spelling."""
    return text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 19
