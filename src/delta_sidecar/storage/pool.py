"""The threads that wait for object stores: one pool for the process, shared by all tables.

Only calls that do I/O and nothing else belong here; a task that waits for another task of the
pool could wait forever, unless it does what no thread has begun itself (`parallel.side_by_side`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from delta_sidecar.storage.store import Store, is_local

P = ParamSpec("P")
R = TypeVar("R")

_THREADS = 32


@cache
def request_pool() -> ThreadPoolExecutor:
    """Threads that wait for one request each."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="delta-sidecar-io")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=request_pool.cache_clear)  # the child has none of the threads


def begin(store: Store, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Begin an I/O call on a store: on the pool, but where it is a local directory at once, right here. A file is read
    before a thread has begun, and every thread costs memory."""
    if not is_local(store):
        return submit(function, *args, **kwargs)
    done: Future[R] = Future()
    try:
        done.set_result(function(*args, **kwargs))
    except Exception as error:
        done.set_exception(error)
    return done


def submit(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Run an I/O call on the pool."""
    return request_pool().submit(function, *args, **kwargs)
