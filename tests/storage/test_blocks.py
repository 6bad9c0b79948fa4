"""Which blocks serve which reads."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.storage.blocks import Block, planned, unplanned
from delta_sidecar.storage.store import ByteRange

K = 1 << 10
M = 1 << 20


def test_blocks_begin_at_their_segment_and_end_with_it() -> None:
    plan = planned([ByteRange(100, 3 * M), ByteRange(8 * M, M)], block_size=M, budget=8 * M)
    assert list(plan.blocks(100, 100 + 3 * M)) == [Block(100 + i * M, M, 0) for i in range(3)]
    assert plan.next_block(Block(100 + M, M, 0)) == Block(100 + 2 * M, M, 0)
    assert plan.next_block(Block(100 + 2 * M, M, 0)) is None


def test_a_streams_successor_follows_its_row_group() -> None:
    chunks = [ByteRange(i * 4 * M, M) for i in range(4)]
    plan = planned(chunks, streams=2, block_size=M)
    assert plan.next_block(Block(0, M, 0)) == Block(8 * M, M, 2)


def test_reads_outside_the_plan_are_exact() -> None:
    plan = planned([ByteRange(1000, 1000)])
    assert list(plan.blocks(900, 2100)) == [Block(900, 100, -1), Block(1000, 1000, 0), Block(2000, 100, -1)]


def test_small_neighbours_share_a_block() -> None:
    plan = planned([ByteRange(0, 100), ByteRange(100, 200), ByteRange(M, 100)])
    assert plan.segments == (ByteRange(0, 300), ByteRange(M, 100))


def test_two_blocks_of_each_stream_fit_the_budget() -> None:
    plan = planned([ByteRange(i * 4 * M, 2 * M) for i in range(16)], block_size=M, budget=8 * M)
    assert plan.block_size == 256 * K


def test_read_ahead_grows_with_the_stream() -> None:
    plan = planned([ByteRange(0, 20 * M)], block_size=M, budget=12 * M)
    ahead = [[b.start // M for b in plan.read_ahead(Block(i * M, M, 0))] for i in (0, 1, 5, 19)]
    assert ahead == [[1], [2, 3], [6, 7, 8, 9], []]


@given(
    st.lists(st.builds(ByteRange, st.integers(0, 3 * M), st.integers(0, M)), max_size=8),
    st.integers(0, 4 * M),
    st.integers(0, M),
    st.sampled_from([64 * K, 256 * K, M]),
)
def test_blocks_cover_every_read(ranges: list[ByteRange], start: int, length: int, block: int) -> None:
    for plan in (planned(ranges, block_size=block), unplanned(5 * M, block)):
        found = list(plan.blocks(start, start + length))
        assert all(a.end == b.start for a, b in pairwise(found))
        assert not length or (found[0].start <= start and found[-1].end >= start + length)
        assert all(0 < b.length <= plan.block_size or b.segment < 0 for b in found)
