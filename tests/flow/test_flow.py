"""Reading ahead: order, errors, and that nothing goes on after a close."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from delta_sidecar.flow.lanes import Interleaved, Prefetched


def counted(items: list[int], taken: list[int], closed: list[bool]) -> Iterator[int]:
    try:
        for item in items:
            taken.append(item)
            yield item
    finally:
        closed.append(True)


def test_all_items_in_order() -> None:
    assert list(Prefetched(iter(range(100)))) == list(range(100))


def test_no_more_than_its_depth_waits() -> None:
    taken: list[int] = []
    ahead = Prefetched(counted(list(range(50)), taken, []), depth=2)
    assert next(ahead) == 0
    threading.Event().wait(0.2)
    assert len(taken) <= 1 + 2 + 1
    ahead.close()


def test_closing_ends_the_thread_and_closes_the_source() -> None:
    closed: list[bool] = []
    ahead = Prefetched(counted(list(range(50)), [], closed))
    next(ahead)
    ahead.close()
    assert closed == [True]
    assert list(ahead) == []


def test_an_error_comes_where_it_happened() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    ahead = Prefetched(broken())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_lanes_are_taken_in_turn_until_all_are_done() -> None:
    lanes = Interleaved([iter([1, 2, 3]), iter([10]), iter([20, 21])])
    assert list(lanes) == [1, 10, 20, 2, 21, 3]


def test_closing_lanes_closes_every_source() -> None:
    closed: list[bool] = []
    lanes = Interleaved([counted(list(range(50)), [], closed) for _ in range(3)])
    assert next(iter(lanes)) == 0
    lanes.close()
    assert closed == [True] * 3
