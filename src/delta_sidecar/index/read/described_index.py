"""An index as its manifest describes it: its version, its size, its columns, and the order of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import msgspec

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.manifest import Manifest, layout_of
from delta_sidecar.index.format.sort_keys import PartOrder

_IN_MEMORY = 4
"""The list of parts takes about this many times its JSON bytes in memory."""


@dataclass(frozen=True)
class DescribedIndex:
    """What a manifest says of an index. `IndexBase` adds the plan of a listing: one class for both would import
    `part_scan`, which needs this one."""

    manifest: Manifest
    directory: str

    @property
    def version(self) -> int:
        return self.manifest.version

    @cached_property
    def size(self) -> int:
        """Bytes of all parts."""
        parts = self.manifest.parts
        return sum(parts.core.size) + sum(size for size in parts.stats.size if size > 0)

    @property
    def nbytes(self) -> int:
        """About the bytes that it takes in memory, beside the metadata, which the snapshot has as well."""
        return _IN_MEMORY * len(memoryview(self.manifest.parts_json))

    @cached_property
    def layout(self) -> IndexLayout:
        return layout_of(self.manifest)

    def check_layout(self) -> None:
        """Raise `CorruptIndexError` if the manifest's schema cannot be read."""
        try:
            _ = self.layout
        except (msgspec.DecodeError, ValueError, TypeError, KeyError) as error:
            raise CorruptIndexError(f"{self}: its schema cannot be read ({error})") from None

    @cached_property
    def part_order(self) -> PartOrder:
        """The parts by their keys; `CorruptIndexError` if a key is not of its type."""
        return PartOrder.of(self.manifest.parts, self.layout.sort)

    def __str__(self) -> str:
        parts = len(self.manifest.parts)
        return f"index {self.version}, {self.manifest.files:,} files in {parts} part{'' if parts == 1 else 's'}"
