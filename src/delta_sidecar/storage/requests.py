"""Requests to a store: begun without waiting, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar

from delta_sidecar.errors import StorageError
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


def begin_gets(store: Store, paths: Iterable[str]) -> list[Future[Buffer]]:
    """Start fetching whole objects."""
    return [begin(store, store.get, path) for path in paths]


def begin_small_gets(store: Store, paths: Iterable[str], most: int) -> list[Future[Buffer | None]]:
    """Start fetching objects that may be missing; one of more than `most` bytes is not fetched."""
    return [begin(store, get_small, store, path, most) for path in paths]


def get_small(store: Store, path: str, most: int) -> Buffer | None:
    """An object if it exists and has at most `most` bytes; otherwise None, because a guess must not cost much."""
    taken: list[Buffer] = []
    stream = store.get_stream(path, most + 1)
    try:
        for chunk in stream:
            taken.append(chunk)
            if sum(map(len, taken)) > most:
                return None
    except StorageError:
        return None
    finally:
        getattr(stream, "close", lambda: None)()
    return taken[0] if len(taken) == 1 else b"".join(taken)


def fetch_ranges(
    get_range: Callable[[str, int, int], Buffer], path: str, ranges: Sequence[ByteRange], gap: int = DEFAULT_GAP
) -> list[Buffer]:
    """The ranges in the order asked for: coalesced, the requests side by side."""
    requests = coalesce(ranges, gap)
    answers = side_by_side([partial(get_range, path, r.start, r.length) for r in requests])
    return cut(ranges, requests, answers)
