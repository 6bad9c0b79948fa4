"""The threads that wait for object stores: one pool for the process, shared by all tables.

Only calls that do I/O and nothing else belong here; a task that waits for another task of the
pool could wait forever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_THREADS = 32
_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None


def submit(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Run an I/O call on the pool."""
    global _executor
    with _lock:
        if _executor is None:
            _executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="delta-sidecar-io")
        executor = _executor
    return executor.submit(function, *args, **kwargs)
