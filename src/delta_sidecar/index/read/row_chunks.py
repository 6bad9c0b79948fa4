"""Rows of a part that are decoded together, and which these are."""

from __future__ import annotations

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.read.part_fetch import MatchingPart
from delta_sidecar.index.read.part_rows import PartRows

SORT_KEY = "sort key\0"
"""The column of the sort keys of rows that are being merged."""


class PartSpan(Struct, frozen=True):
    """Some rows of a row group of a part."""

    part: PartEntry
    group: int
    start: int
    count: int


class RowChunk(Struct, frozen=True):
    """Neighbouring rows of a row group that are decoded together."""

    rows: PartRows
    span: PartSpan
    matching: MatchingPart
    core: pa.RecordBatch | None = None
    """The decoded rows; None for a whole row group that is not decoded yet."""
    stats_rows: pa.Table | None = None
    """All stats of its rows, if they were requested."""

    @property
    def start(self) -> int:
        """The position of its first row in the part."""
        group_start: int = self.rows.span(self.span.group).start
        return group_start + self.span.start

    def decoded(self) -> RowChunk:
        return self if self.core is not None else replace(self, core=self.rows.core(self.span.group))

    def cut(self, start: int, count: int) -> RowChunk:
        """Some of its rows."""
        assert self.core is not None
        stats_rows = None if self.stats_rows is None else self.stats_rows.slice(start, count)
        span = replace(self.span, start=self.span.start + start, count=count)
        return replace(self, span=span, core=self.core.slice(start, count), stats_rows=stats_rows)
