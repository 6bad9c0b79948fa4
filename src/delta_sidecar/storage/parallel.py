"""Requests side by side: threads do as well as asyncio here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from delta_sidecar.storage.pool import submit
from delta_sidecar.storage.ranges import DEFAULT_GAP, coalesce, cut
from delta_sidecar.storage.store import Buffer, ByteRange

T = TypeVar("T")


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


def fetch_ranges(
    get_range: Callable[[str, int, int], Buffer], path: str, ranges: Sequence[ByteRange], gap: int = DEFAULT_GAP
) -> list[Buffer]:
    """The ranges in the order asked for: coalesced, the requests side by side."""
    requests = coalesce(ranges, gap)
    answers = side_by_side([partial(get_range, path, r.start, r.length) for r in requests])
    return cut(ranges, requests, answers)
