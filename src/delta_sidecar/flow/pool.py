"""The threads that wait for object stores: one pool for the process, shared by all tables.

Only calls that do I/O and nothing else belong here. A task that waits for another task of the
pool could wait forever, unless it runs the tasks that no thread has begun itself (`side_by_side`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_THREADS = 32


@cache
def request_pool() -> ThreadPoolExecutor:
    """Threads that wait for one request each."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="delta-sidecar-io")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=request_pool.cache_clear)  # the child has none of the threads


def submit(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Run an I/O call on the pool."""
    return request_pool().submit(function, *args, **kwargs)


def side_by_side(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """The results of tasks that run at the same time, the first on the caller's thread.

    A task no thread has begun is done here: so callers that are on the pool themselves cannot wait for each other.
    """
    pending = [submit(task) for task in tasks[1:]]
    try:
        first = [task() for task in tasks[:1]]
        rest = [task() if one.cancel() else one.result() for one, task in zip(pending, tasks[1:], strict=True)]
        return first + rest
    finally:
        for one in pending:
            one.cancel()
