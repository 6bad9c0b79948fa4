"""The one replay: which files are live, newest commit first.

Walk commits newest to oldest: an add whose key is unseen is live; after a commit's adds are judged, all its keys,
adds and removes, are seen. Rows of the base are live if unseen. Every strategy and every kind of base goes
through here; a predicate never does, because a remove hides its row whether or not it matches.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags
from delta_sidecar.limits import MaskLimits
from delta_sidecar.log.commits import CommitBatch
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.mask import HashedMask, MaskBuilder, OrderedMask, either

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

T = TypeVar("T")

_FEW = 64
"""Dropped rows are few if they are at most one in this many."""


class Replay:
    """The state of one walk. Give it the commits newest first, then ask for the filter of their base.

    If the base is damaged, give it the older commits and ask for the filter of the next base.
    """

    def __init__(self, maker: KeyMaker, limits: MaskLimits = MaskLimits()) -> None:
        self._maker = maker
        self._limits = limits
        self._seen = MaskBuilder(limits)

    @property
    def mask_size(self) -> int:
        """How many keys the commits have marked so far."""
        return len(self._seen)

    def commit(self, batches: Iterable[CommitBatch[T]]) -> Iterator[T]:
        """The live adds of one commit (or of a compacted range, which is one commit of the walk).

        Its keys are marked when the iterator is exhausted: a caller that stops before asks nothing older.
        """
        added, removed = MaskBuilder(self._limits), MaskBuilder(self._limits)
        for batch in batches:
            live = _kept(batch.adds, self._judge(batch, added))
            added.add(batch.add_keys)
            removed.collect(batch.remove_keys)
            if len(live):
                yield live
        self._seen.absorb(added)
        self._seen.absorb(removed)

    def _judge(self, batch: CommitBatch[Any], added: MaskBuilder) -> Flags | None:
        """The adds of a batch that a newer commit, or another add of this one, replaces; None if there are none."""
        keys = batch.add_keys
        if not keys:
            return None
        dropped = either(self._seen.seen_list(keys), added.seen_list(keys))
        if not set(keys).isdisjoint(batch.remove_keys.to_pylist()):
            _log.warning("a commit adds and removes the same file, which is not legal; the add is used")
        repeated = _repeated(keys)
        if repeated is not None:
            _log.warning("a commit adds the same file more than once; the last add is used")
            dropped = either(dropped, repeated)
        return dropped

    def copied(self) -> Replay:
        """Another walk that has seen the same commits. The two share their keys, not what either sees later."""
        other = Replay(self._maker, self._limits)
        other._seen = self._seen.copied()
        return other

    def continue_from(self, other: Replay) -> None:
        """Replace the keys seen so far by those of another walk of the same table."""
        self._seen = other._seen.copied()

    def hide(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Hide files that were already returned, so that another base can start from its beginning."""
        for batch in rows:
            self._seen.add(self._maker.keys(batch.column("path"), batch.column("deletion_vector")).to_pylist())

    def base_filter(self) -> BaseFilter:
        """The filter of the base below the commits so far."""
        return BaseFilter(self._seen.hashed_mask(), self._maker)

    def range_filter(self) -> RangeFilter:
        """As `base_filter`, for a base that knows the range of paths of each row group."""
        return RangeFilter(self._seen.ordered_mask(), self._maker)


class BaseFilter(Struct, frozen=True):
    """Which rows of a base are live. Thread-safe."""

    mask: HashedMask
    maker: KeyMaker

    def live(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The live rows of the base. They need `path` and `deletion_vector` while anything is masked."""
        for batch in rows:
            live = without(batch, self.hidden(batch))
            if live.num_rows:
                yield live

    def hidden(self, rows: pa.RecordBatch) -> Flags | None:
        """Which rows of the base are not live; None when all are."""
        if not len(self.mask):
            return None
        return self.mask.hidden(rows.column("path"), rows.column("deletion_vector"), self.maker)


class RangeFilter(Struct, frozen=True):
    """Which files of a base are hidden, when the path range of each row group is known. Thread-safe."""

    mask: OrderedMask
    maker: KeyMaker

    def hidden(
        self, paths: pa.StringArray, vectors: pa.StructArray, within: tuple[bytes, bytes] | None
    ) -> Flags | None:
        """Which files are not live; None if all are. `within` gives their smallest and greatest path, if known; then
        no path is spelled in more than one way."""
        return self.mask.hidden(paths, vectors, self.maker, within)


def _repeated(keys: list[bytes]) -> Flags | None:
    """All but the last of equal keys; None when all differ."""
    if len(set(keys)) == len(keys):
        return None
    last = {key: row for row, key in enumerate(keys)}
    return np.fromiter((last[key] != row for row, key in enumerate(keys)), np.bool_, len(keys))


def _kept(adds: Any, dropped: Flags | None) -> Any:
    """The adds that are not dropped, objects or rows."""
    if dropped is None:
        return adds
    if isinstance(adds, pa.RecordBatch):
        return without(adds, dropped)
    return [add for add, gone in zip(adds, dropped.tolist(), strict=True) if not gone]


def without(batch: pa.RecordBatch, dropped: Flags | None) -> pa.RecordBatch:
    """The rows that are not dropped."""
    if dropped is None:
        return batch
    rows = np.flatnonzero(dropped)
    if len(rows) * _FEW > batch.num_rows:
        return arrays.filtered(batch, ~dropped)
    return _without_few(batch, rows)


def _without_few(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """The batch without a few rows. The spans between them are copied whole, several times faster than row by row."""
    edges = [-1, *rows.tolist(), batch.num_rows]
    spans = [(left + 1, right - left - 1) for left, right in pairwise(edges) if right - left > 1]
    columns = [_values_of_spans(column, spans) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _values_of_spans(column: pa.Array, spans: list[tuple[int, int]]) -> pa.Array:
    """The values of some spans, each a start and a length, one after the other."""
    if column.null_count == len(column):
        return arrays.nulls(sum(length for _, length in spans), column.type)
    parts = [column.slice(start, length) for start, length in spans]
    return pa.concat_arrays(parts, memory_pool=arrays.streaming_pool())
