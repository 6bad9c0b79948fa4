"""The budget of bytes on their way: what is needed is granted, what is ahead only while there is room."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from delta_sidecar.flow.read_ahead import ReadAhead


def test_ahead_only_while_there_is_room() -> None:
    budget = ReadAhead(100)
    assert budget.take(60, needed=False)
    assert budget.take(40, needed=False)
    assert not budget.take(1, needed=False)
    assert budget.taken == 100
    budget.give_back(60)
    assert budget.take(1, needed=False)
    assert budget.taken == 41


def test_what_is_needed_is_always_granted() -> None:
    budget = ReadAhead(100)
    assert budget.take(500, needed=True)
    assert budget.taken == 500
    assert not budget.take(1, needed=False), "what is needed counts"
    assert budget.take(1, needed=True)
    budget.give_back(501)
    assert budget.take(100, needed=False)


def test_a_refusal_takes_nothing() -> None:
    budget = ReadAhead(10)
    assert not budget.take(11, needed=False)
    assert budget.taken == 0


def test_many_threads() -> None:
    budget = ReadAhead(1_000)

    def used(seed: int) -> int:
        draw, granted = random.Random(seed), 0
        for _ in range(3_000):
            size = draw.randrange(1, 400)
            if budget.take(size, needed=False):
                granted += 1
                assert 0 < budget.taken <= 1_000
                budget.give_back(size)
        return granted

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(used, range(8)))
    assert budget.taken == 0
