"""An index as its manifest describes it: its version, its size, its columns, and the order of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.manifest import Manifest, layout_of
from delta_sidecar.index.format.part_entries import PartList
from delta_sidecar.index.format.sort_keys import PartOrder
from delta_sidecar.texts import counted

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
    def listed_parts(self) -> PartList | None:
        """The parts, for who tells of the index; None if the list of them is damaged. Who reads it takes
        `manifest.parts`, whose error leads to another base."""
        try:
            return self.manifest.parts
        except CorruptIndexError:
            return None

    @property
    def part_count(self) -> int:
        """0 if the list of parts is damaged."""
        return 0 if self.listed_parts is None else len(self.listed_parts)

    @cached_property
    def size(self) -> int:
        """Bytes of all parts; 0 if the list of parts is damaged."""
        parts = self.listed_parts
        return 0 if parts is None else sum(parts.core.size) + sum(size for size in parts.stats.size if size > 0)

    @property
    def nbytes(self) -> int:
        """About the bytes that it takes in memory, beside the metadata, which the snapshot has as well."""
        return _IN_MEMORY * len(memoryview(self.manifest.parts_json))

    @cached_property
    def layout(self) -> IndexLayout:
        return layout_of(self.manifest)

    def check_layout(self) -> None:
        """Raise `CorruptIndexError` if the manifest's schema cannot be read."""
        _ = self.layout

    @cached_property
    def part_order(self) -> PartOrder:
        """The parts by their keys; `CorruptIndexError` if a key is not of its type."""
        return PartOrder.of(self.manifest.parts, self.layout.sort)

    def __str__(self) -> str:
        parts = "damaged parts" if self.listed_parts is None else counted(self.part_count, "part")
        return f"index {self.version}, {counted(self.manifest.files, 'file')} in {parts}"
