"""Plan which blocks of an object to fetch for which reads, without I/O. A `RangedFile` executes the plan."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from delta_sidecar.flow.read_ahead import READ_AHEAD_BYTES
from delta_sidecar.storage.ranges import DEFAULT_GAP, coalesce
from delta_sidecar.storage.store import ByteRange

DEFAULT_BLOCK = 1 << 20
_SMALLEST_BLOCK = 64 << 10
_DEEPEST = 4


class Block(Struct, frozen=True):
    """Part of an object that one request fetches."""

    start: int
    length: int
    segment: int
    """The segment it belongs to; -1 for bytes outside the plan, which are read exactly and not kept."""

    @property
    def end(self) -> int:
        return self.start + self.length


class BlockPlan(Struct, frozen=True):
    """Segments of an object, each read from its start to its end, in blocks."""

    segments: tuple[ByteRange, ...]
    """Sorted and disjoint."""
    block_size: int
    streams: int
    """The number of segments that are read in parallel."""
    planned: bool
    """Whether the segments were announced, so each will be read to its end."""
    depth: int = 1
    """How many blocks ahead of its reader a stream is fetched, once it has proved long."""

    def blocks(self, start: int, end: int) -> Iterator[Block]:
        """The blocks that hold the bytes from `start` to `end`, in order."""
        while start < end:
            block = self.block_at(start, end)
            yield block
            start = block.end

    def block_at(self, offset: int, end: int) -> Block:
        """The block that holds `offset`; outside the plan, the bytes up to `end` or the next segment."""
        index = bisect_right(self.segments, offset, key=_start) - 1
        if index >= 0 and offset < self.segments[index].end:
            segment = self.segments[index]
            first = offset - (offset - segment.start) % self.block_size
            return Block(first, min(self.block_size, segment.end - first), index)
        after = self.segments[index + 1].start if index + 1 < len(self.segments) else end
        return Block(offset, min(end, after) - offset, -1)

    def next_block(self, block: Block) -> Block | None:
        """What a sequential reader needs next: the segment's next block, or the first of the one that follows."""
        if block.end < self.segments[block.segment].end:
            return self.block_at(block.end, block.end)
        return self.first_block(block.segment + self.streams) if self.planned else None

    def read_ahead(self, block: Block) -> Iterator[Block]:
        """The blocks to fetch while `block` is used: one at a stream's beginning, more as it goes on, so that a
        reader that stops early has not paid for much."""
        done = (block.start - self.segments[block.segment].start) // self.block_size
        ahead: Block | None = block
        for _ in range(min(self.depth, done + 1)):
            ahead = self.next_block(ahead) if ahead is not None else None
            if ahead is not None:
                yield ahead

    def first_block(self, segment: int) -> Block | None:
        if segment >= len(self.segments):
            return None
        return self.block_at(self.segments[segment].start, self.segments[segment].end)

    def block_before(self, block: Block) -> Block | None:
        """The block before this one in the same segment."""
        if block.start == self.segments[block.segment].start:
            return None
        return self.block_at(block.start - 1, block.start)


def unplanned(size: int, block_size: int = DEFAULT_BLOCK) -> BlockPlan:
    """One segment: nothing is known about the reads to come."""
    return BlockPlan((ByteRange(0, size),) if size else (), block_size, 1, planned=False)


def planned(
    ranges: Sequence[ByteRange],
    streams: int | None = None,
    block_size: int = DEFAULT_BLOCK,
    budget: int = READ_AHEAD_BYTES,
    gap: int = DEFAULT_GAP,
) -> BlockPlan:
    """Each range is a stream; `streams` of them are read side by side, and two blocks of each fit the budget.

    Small neighbours share a block.
    """
    side_by_side = streams or max(1, len(ranges))
    block = max(_SMALLEST_BLOCK, min(block_size, budget // (2 * side_by_side)))
    segments = tuple(coalesce(ranges, gap, block))
    shared = max(1, round(side_by_side * len(segments) / max(1, len(ranges))))
    depth = max(1, min(_DEEPEST, budget // (block * side_by_side) - 1))
    return BlockPlan(_disjoint(segments), block, shared, planned=True, depth=depth)


def _disjoint(segments: Sequence[ByteRange]) -> tuple[ByteRange, ...]:
    """Overlapping ranges too long to share a block: the later one begins where the earlier one ends."""
    ranges: list[ByteRange] = []
    for segment in segments:
        start = max(segment.start, ranges[-1].end) if ranges else segment.start
        if start < segment.end:
            ranges.append(ByteRange(start, segment.end - start))
    return tuple(ranges)


def _start(segment: ByteRange) -> int:
    return segment.start
