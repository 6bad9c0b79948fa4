"""Which row groups of a Parquet file are read, and in what portions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.data.file_columns import StoredColumns
from delta_sidecar.data.request import RowRequest
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.pruning.row_group_bounds import RowGroupBounds


@dataclass(frozen=True, slots=True)
class RowSpan:
    """Consecutive row groups that are read together."""

    groups: tuple[int, ...]
    start: int
    """The position of the first row in the file."""
    count: int
    bytes: int
    """Of the columns read, encoded but not compressed."""
    whole: bool
    """Whether they are small enough to be read at once."""


def promising_groups(request: RowRequest, stored: pa.Schema, metadata: pq.FileMetaData) -> list[bool]:
    """For each row group: may it hold a matching row?"""
    if request.row_predicate is None:
        return [True] * metadata.num_row_groups
    bounds = RowGroupBounds(metadata, stored, by_id=request.by_id)
    return may_match(request.row_predicate, bounds, metadata.num_row_groups).to_pylist()  # type: ignore[no-any-return]


def row_spans(
    request: RowRequest, stored: StoredColumns, metadata: pq.FileMetaData, wanted: Sequence[bool]
) -> Iterator[RowSpan]:
    """The wanted row groups in file order, small neighbours together.

    With a predicate each stands alone: whether the rest of its columns is read is decided for each. With
    a limit, too: the first may be enough.
    """
    alone = request.row_predicate is not None or request.limit is not None
    pending: RowSpan | None = None
    for group, start in zip(range(metadata.num_row_groups), _starts(metadata), strict=True):
        if not wanted[group]:
            continue
        span = _span(request, stored, metadata, group, start)
        merged = None if pending is None or alone else _merged(pending, span, request.group_bytes)
        if merged is None and pending is not None:
            yield pending
        pending = merged or span
    if pending is not None:
        yield pending


def _starts(metadata: pq.FileMetaData) -> list[int]:
    starts, start = [], 0
    for group in range(metadata.num_row_groups):
        starts.append(start)
        start += metadata.row_group(group).num_rows
    return starts


def _span(request: RowRequest, stored: StoredColumns, metadata: pq.FileMetaData, group: int, start: int) -> RowSpan:
    row_group = metadata.row_group(group)
    size = row_group.total_byte_size
    if size > request.group_bytes:
        size = sum(row_group.column(leaf).total_uncompressed_size for leaf in stored.leaves)
    few = request.limit is not None and request.row_predicate is None and row_group.num_rows > 4 * request.limit
    return RowSpan((group,), start, row_group.num_rows, size, size <= request.group_bytes and not few)


def _merged(left: RowSpan, right: RowSpan, most: int) -> RowSpan | None:
    """Both as one, if they touch and fit."""
    size = left.bytes + right.bytes
    if not (left.whole and right.whole) or left.start + left.count != right.start or size > most:
        return None
    return RowSpan(left.groups + right.groups, left.start, left.count + right.count, size, True)
