"""Requests to a store: begun without waiting, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar

from delta_sidecar.flow.pool import side_by_side, submit
from delta_sidecar.storage.ranges import DEFAULT_GAP, coalesce, cut
from delta_sidecar.storage.store import Buffer, ByteRange, Store, is_local

P = ParamSpec("P")
R = TypeVar("R")


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


def fetch_ranges(
    get_range: Callable[[str, int, int], Buffer], path: str, ranges: Sequence[ByteRange], gap: int = DEFAULT_GAP
) -> list[Buffer]:
    """The ranges in the order asked for: coalesced, the requests side by side."""
    requests = coalesce(ranges, gap)
    answers = side_by_side([partial(get_range, path, r.start, r.length) for r in requests])
    return cut(ranges, requests, answers)
