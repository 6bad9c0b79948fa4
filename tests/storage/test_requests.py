"""Requests side by side."""

from __future__ import annotations

import os
import threading

import pytest

from delta_sidecar.flow.pool import request_pool, side_by_side


def test_tasks_run_at_the_same_time() -> None:
    together = threading.Barrier(4)
    assert side_by_side([lambda: together.wait(10) >= 0] * 4) == [True] * 4


def test_results_come_in_order() -> None:
    assert side_by_side([lambda i=i: i for i in range(100)]) == list(range(100))  # type: ignore[misc]
    assert side_by_side([]) == []


def test_callers_on_the_pool_do_not_wait_for_each_other() -> None:
    nested = [lambda: sum(side_by_side([lambda: 1] * 8))] * 100
    assert side_by_side(nested) == [8] * 100


def test_a_failure_is_the_callers() -> None:
    def fail() -> None:
        raise KeyError("broken")

    with pytest.raises(KeyError):
        side_by_side([lambda: None, fail, lambda: None])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    request_pool().submit(lambda: None).result()
    child = os.fork()
    if child == 0:
        os._exit(0 if request_pool().submit(lambda: 7).result(20) == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0
