"""Merge the rows of parts whose key ranges overlap, in the order of their keys. Such parts hold files that were written
late, or without a key. A part is opened when its greatest key is reached."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from delta_sidecar.arrays import pc
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.read.part_choice import PartChoice
from delta_sidecar.index.read.part_fetch import MatchingPart
from delta_sidecar.index.read.part_file import fetch_stats
from delta_sidecar.index.read.part_rows import is_sort_key_in_stats, sort_key_path, sort_keys_of
from delta_sidecar.index.read.row_chunks import SORT_KEY, RowChunk
from delta_sidecar.index.stats.index_rows import order_of
from delta_sidecar.listing.base import LiveRows
from delta_sidecar.pruning.listing_columns import output_schema, project
from delta_sidecar.storage.store import Store

ChunksOfPart: TypeAlias = tuple[MatchingPart, Iterator[RowChunk]]


class PartMerge:
    """An iterator over lists of chunks with their sort keys. No row of a later list has a greater key than a row of an
    earlier one."""

    def __init__(self, choice: PartChoice, store: Store, parts: Iterator[ChunksOfPart]) -> None:
        self._index = choice.index
        self._limits = choice.request.settings.limits.parts
        self._store = store
        self._waiting = deque(choice.positions)
        self._parts = parts
        self._opened: list[_Run] = []

    def __iter__(self) -> Iterator[list[tuple[RowChunk, pa.Array]]]:
        while True:
            self._open_next()
            if not self._opened:
                return
            floor = self._floor()
            yield [piece for run in self._opened for piece in run.down_to(floor)]
            self._opened = [run for run in self._opened if run.chunk is not None]

    def _open_next(self) -> None:
        """Open the parts that may hold a greater key than those that are open."""
        opened, waiting, highs = self._opened, self._waiting, self._index.part_order.highs
        while waiting and (not opened or _below(max(opened, key=_top).top, highs[waiting[0]])):
            following = next(self._parts, None)
            if following is None:
                waiting.clear()
                return
            matching, chunks = following
            while self._index.manifest.parts[waiting.popleft()].id != matching.part.id:
                pass  # by its stats, that one holds no match
            run = _Run(chunks, self._keys_of(matching.part))
            if run.chunk is not None:
                opened.append(run)

    def _floor(self) -> Any:
        """The least key down to which all rows are in chunks that are decoded; None for all rows."""
        floors = [run.bottom for run in self._opened if run.has_more]
        floors += [self._index.part_order.highs[part] for part in self._waiting][:1]
        known = [floor for floor in floors if floor is not None]
        return max(known) if known else None

    def _keys_of(self, part: PartEntry) -> Callable[[RowChunk], pa.Array]:
        """The function that gives the sort keys of a part's chunks."""
        layout = self._index.layout
        if not is_sort_key_in_stats(part, layout):
            return lambda chunk: chunk.rows.sort_keys(chunk.span.group).slice(chunk.span.start, chunk.span.count)
        path, whole = sort_key_path(layout), self._limits.whole_stats
        stats = fetch_stats(self._store, self._index.directory, part, [path], whole)
        # The row groups of a stats file are not those of the core, so its keys are decoded together.
        keys = sort_keys_of(stats, range(len(stats.group_rows)), layout)
        return lambda chunk: keys.slice(chunk.start, chunk.span.count)


def in_key_order(batches: Sequence[LiveRows], output: Sequence[str]) -> LiveRows:
    """Rows of several parts as one batch in the order of their keys, with the columns of the listing."""
    keys = pa.concat_arrays([batch.rows.column(SORT_KEY) for batch in batches])
    rows = pa.Table.from_batches([project(batch.rows, output) for batch in batches])
    ordered = rows.take(order_of([keys])).combine_chunks().to_batches()
    nothing = pa.RecordBatch.from_pylist([], output_schema(output))
    return LiveRows(ordered[0] if ordered else nothing, sum(batch.considered for batch in batches), is_projected=True)


class _Run:
    """The rest of a part that is being merged with others."""

    def __init__(self, chunks: Iterator[RowChunk], keys_of: Callable[[RowChunk], pa.Array]) -> None:
        self._chunks = chunks
        self._keys_of = keys_of
        self._next = next(chunks, None)
        self._keys: pa.Array = None
        self.chunk: RowChunk | None = None
        """The rest of the present chunk, decoded; None at the end."""
        self._advance()

    @property
    def has_more(self) -> bool:
        return self._next is not None

    @property
    def top(self) -> Any:
        """The greatest key that is left; None if no key is known."""
        return self._keys[0].as_py()

    @property
    def bottom(self) -> Any:
        """The least key of the chunk."""
        return self._keys[len(self._keys) - 1].as_py()

    def down_to(self, floor: Any) -> list[tuple[RowChunk, pa.Array]]:
        """Take the rows of the chunk whose keys are not below the floor, and their keys."""
        assert self.chunk is not None
        count = len(self._keys)
        if floor is not None:
            count = pc.greater_equal(self._keys, pa.scalar(floor, self._keys.type)).true_count
        if not count:
            return []
        taken = self.chunk.cut(0, count), self._keys.slice(0, count)
        if count < len(self._keys):
            self.chunk, self._keys = self.chunk.cut(count, len(self._keys) - count), self._keys.slice(count)
        else:
            self._advance()
        return [taken]

    def _advance(self) -> None:
        following, self._next = self._next, next(self._chunks, None)
        self.chunk = None if following is None else following.decoded()
        self._keys = None if self.chunk is None else self._keys_of(self.chunk)


def _below(one: Any, other: Any) -> bool:
    """Whether a key is below another; null is below all."""
    return other is not None and (one is None or bool(one < other))


def _top(run: _Run) -> tuple[bool, Any]:
    return run.top is not None, run.top
