"""Coalescing: every range served, gaps respected."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.storage.parquet_ranges import chunk_range
from delta_sidecar.storage.ranges import coalesce, cut
from delta_sidecar.storage.store import ByteRange

RANGES = st.lists(st.builds(ByteRange, st.integers(0, 500), st.integers(0, 80)), max_size=12)


def test_near_ranges_are_one_request() -> None:
    assert coalesce([ByteRange(10, 5), ByteRange(0, 5)], gap=5) == [ByteRange(0, 15)]
    assert coalesce([ByteRange(10, 5), ByteRange(0, 5)], gap=4) == [ByteRange(0, 5), ByteRange(10, 5)]


def test_merging_stops_at_the_longest() -> None:
    parts = [ByteRange(0, 10), ByteRange(10, 10), ByteRange(20, 10)]
    assert coalesce(parts, gap=0, longest=20) == [ByteRange(0, 20), ByteRange(20, 10)]
    assert coalesce([ByteRange(0, 100), ByteRange(20, 10)], gap=0, longest=20) == [ByteRange(0, 100)]


@given(RANGES, st.integers(0, 50), st.integers(1, 300))
def test_all_ranges_are_served(ranges: list[ByteRange], gap: int, longest: int) -> None:
    data = bytes(i % 251 for i in range(600))
    requests = coalesce(ranges, gap, longest)
    answers = [data[r.start : r.end] for r in requests]
    assert [bytes(piece) for piece in cut(ranges, requests, answers)] == [data[r.start : r.end] for r in ranges]
    assert all(r.length <= max([longest, *(asked.length for asked in ranges)]) for r in requests)


@given(RANGES, st.integers(0, 50))
def test_no_more_is_read_than_the_gaps_allow(ranges: list[ByteRange], gap: int) -> None:
    asked = sum(r.length for r in ranges)
    assert sum(r.length for r in coalesce(ranges, gap)) <= asked + gap * max(0, len(ranges) - 1)


@pytest.mark.parametrize(
    ("has_dictionary", "dictionary", "start"), [(True, 40, 40), (True, 0, 100), (True, None, 100), (False, 40, 100)]
)
def test_the_bytes_of_a_column_chunk(has_dictionary: bool, dictionary: int | None, start: int) -> None:
    """An offset of 0 is none: there the magic number is."""
    chunk = SimpleNamespace(
        data_page_offset=100,
        has_dictionary_page=has_dictionary,
        dictionary_page_offset=dictionary,
        total_compressed_size=70,
    )
    assert chunk_range(chunk) == ByteRange(start, 70)
