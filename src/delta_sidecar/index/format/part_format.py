"""A part of an index: two Parquet files with the same rows in the same order, written whole and checksummed.

The core has everything that a listing needs and the time column's bounds; the stats have all other bounds. Parts of
small tables are one file with both. Columns that are null in every row are left out, except those of every listing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from delta_sidecar.arrays import pc
from delta_sidecar.errors import CorruptIndexError, ObjectNotFoundError
from delta_sidecar.index.format.index_layout import Path
from delta_sidecar.index.format.part_entries import FileEntry
from delta_sidecar.index.format.seals import footer_crc32, footer_length
from delta_sidecar.storage.store import Buffer, Store

MANIFEST_KEY: Final = b"delta_sidecar.manifest"


PART_KEY: Final = b"delta_sidecar.part"
"""In the footer of a file of a part: without it those of two may be the same to the byte, checksum and all."""


ALWAYS: Final = ("path", "size", "modification_time", "partition_values")


PARTITION_VALUES: Final = "partition_values"


RENAMED: Final = {"deletion_vector": "dv"}


def read_checked(store: Store, path: str, entry: FileEntry) -> Buffer:
    """A whole file of a part; `CorruptIndexError` if it is not the one its entry describes."""
    try:
        data = store.get(path)
    except ObjectNotFoundError:
        raise CorruptIndexError(f"{path} is missing; build the index again") from None
    if len(data) != entry.size:
        raise CorruptIndexError(f"{path} has {len(data)} bytes instead of {entry.size}; build the index again")
    if zlib.crc32(data) != entry.crc32:
        raise CorruptIndexError(
            f"{path} is damaged: its checksum does not match; build the index again with `sidecar build --full`"
        )
    return data


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Whatever broken bytes make Parquet raise is one clear error."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise CorruptIndexError(
            f"{name} cannot be read ({first_line}); build the index again with `sidecar build --full`"
        ) from None


def nested(leaves: Mapping[Path, pa.Array]) -> pa.StructArray:
    """Leaves by path as one struct array."""
    tops: dict[str, dict[Path, pa.Array]] = {}
    for path, array in leaves.items():
        tops.setdefault(path[0], {})[path[1:]] = array
    children = {name: below[()] if () in below else nested(below) for name, below in tops.items()}
    fields = [pa.field(name, array.type) for name, array in children.items()]
    return pa.StructArray.from_arrays(list(children.values()), fields=fields)


def leaf_arrays(array: pa.StructArray, above: Path) -> list[tuple[Path, pa.Array]]:
    """The leaves of a struct by their paths, null where anything above them is."""
    leaves: list[tuple[Path, pa.Array]] = []
    for index, field in enumerate(array.type):
        child, path = pc.struct_field(array, [index]), (*above, field.name)
        leaves += leaf_arrays(child, path) if pa.types.is_struct(field.type) else [(path, child)]
    return leaves


# What the manifest says of a part.


def file_entry(data: Buffer | pa.Buffer) -> FileEntry:
    """Size and checksums of a file."""
    view = memoryview(data)
    footer = footer_length(data)
    return FileEntry(len(view), footer, zlib.crc32(view), footer_crc32(view, footer))
