"""Requests side by side, on one pool of threads for the process: threads do as well as asyncio here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from delta_sidecar.storage.ranges import DEFAULT_GAP, coalesce, cut
from delta_sidecar.storage.store import Buffer, ByteRange

_WORKERS = 32


@cache
def request_pool() -> ThreadPoolExecutor:
    """Threads that only wait for one request each; a task on it never waits for another task on it."""
    return ThreadPoolExecutor(_WORKERS, thread_name_prefix="sidecar-request")


def fetch_ranges(
    get_range: Callable[[str, int, int], Buffer], path: str, ranges: Sequence[ByteRange], gap: int = DEFAULT_GAP
) -> list[Buffer]:
    """The ranges in the order asked for: coalesced, each request on a thread of its own."""
    requests = coalesce(ranges, gap)
    if len(requests) == 1:
        return cut(ranges, requests, [get_range(path, requests[0].start, requests[0].length)])
    answers = list(request_pool().map(lambda r: get_range(path, r.start, r.length), requests))
    return cut(ranges, requests, answers)
