"""Stores that wrap another store and count, wait or fail, to test what a reader costs and survives.

What they see depends on where they are in the stack. `CountingStore` outside a `RetryingStore` counts what a
reader asked for, inside it what went over the wire. `FaultyStore` belongs inside a `RetryingStore`, whose
retries are the ones that real stores get; around a bare reader it shows what happens when they are used up.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from delta_sidecar.errors import StoreUnavailableError
from delta_sidecar.storage.ranges import DEFAULT_GAP
from delta_sidecar.storage.requests import fetch_ranges
from delta_sidecar.storage.store import Buffer, ByteRange, ObjectMeta, Store


@dataclass(frozen=True, slots=True)
class Request:
    """One request and what came of it."""

    verb: str
    """get, stream, range, head, list, put or delete."""
    path: str
    start: int
    length: int | None
    """Bytes asked for, where the request says so."""
    bytes: int
    """Bytes that came, or were put."""
    t_start: float
    t_end: float
    failed: bool = False


@dataclass(slots=True)
class _Running:
    """A request under way."""

    bytes: int = 0
    unsent: bool = False
    """Turned out not to be a request."""


class _Around:
    """What every store around another has in common."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    @property
    def root_uri(self) -> str:
        return self._inner.root_uri

    @property
    def identity(self) -> Hashable:
        return self._inner.identity

    def local_path(self, path: str) -> str | None:
        """None: a reader that opened the file itself would pass by this store."""
        return None

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        raise NotImplementedError

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        """As an object store does it, whatever the inner store is: coalesced, side by side."""
        return fetch_ranges(self.get_range, path, ranges, DEFAULT_GAP)


class CountingStore(_Around):
    """Records every request; a listing counts its pages.

    Round trips are derived from the times, so count around an `InStepStore`, which makes parallel requests overlap.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._under_way = 0
        self._since = 0.0

    @property
    def requests(self) -> list[Request]:
        """The finished requests, in the order in which they began."""
        with self._lock:
            return sorted(self._requests, key=lambda r: r.t_start)

    @property
    def under_way(self) -> int:
        """Requests that have begun and not ended."""
        return self._under_way

    @property
    def bytes_read(self) -> int:
        return sum(r.bytes for r in self.requests if r.verb in ("get", "stream", "range"))

    def counts(self) -> Counter[str]:
        """Requests per verb."""
        return Counter(r.verb for r in self.requests)

    def paths(self, verb: str | None = None) -> list[str]:
        return [r.path for r in self.requests if verb in (None, r.verb)]

    def reset(self) -> None:
        """Forget all requests, those under way included."""
        with self._lock:
            self._since = time.perf_counter()
            self._requests.clear()

    def round_trips(self) -> int:
        """The longest chain of requests each of which began after the one before it had ended."""
        trips, free = 0, float("-inf")
        for request in sorted(self.requests, key=lambda r: r.t_end):
            if request.t_start >= free:
                trips, free = trips + 1, request.t_end
        return trips

    def get(self, path: str) -> Buffer:
        with self._recorded("get", path) as running:
            data = self._inner.get(path)
            running.bytes = len(data)
            return data

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        with self._recorded("stream", path, start) as running:
            for chunk in self._inner.get_stream(path, chunk_size, start):
                running.bytes += len(chunk)
                yield chunk

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        with self._recorded("range", path, start, length) as running:
            data = self._inner.get_range(path, start, length)
            running.bytes = len(data)
            return data

    def head(self, path: str) -> ObjectMeta:
        with self._recorded("head", path):
            return self._inner.head(path)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        pages = self._inner.list_after(prefix, offset, before)
        first = True
        while True:
            with self._recorded("list", prefix) as running:
                page = next(pages, None)
                running.unsent = page is None and not first
            if page is None:
                return
            first = False
            yield page

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        with self._recorded("put", path) as running:
            running.bytes = len(data)
            return self._inner.put_if_absent(path, data)

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        with self._recorded("put", path) as running:
            running.bytes = len(data)
            return self._inner.replace(path, data, expected)

    def delete(self, path: str) -> None:
        with self._recorded("delete", path):
            self._inner.delete(path)

    @contextmanager
    def _recorded(self, verb: str, path: str, start: int = 0, length: int | None = None) -> Iterator[_Running]:
        running = _Running()
        with self._lock:
            self._under_way += 1
        began = time.perf_counter()
        failed = True
        try:
            yield running
            failed = False
        except GeneratorExit:
            failed = False
            raise
        finally:
            done = Request(verb, path, start, length, running.bytes, began, time.perf_counter(), failed)
            with self._lock:
                self._under_way -= 1
                if not running.unsent and began >= self._since:
                    self._requests.append(done)


class SlowStore(_Around):
    """Every request (and every page of a listing) takes `latency_s` longer."""

    def __init__(self, inner: Store, latency_s: float) -> None:
        super().__init__(inner)
        self._latency = latency_s

    def _wait(self) -> None:
        time.sleep(self._latency)

    def get(self, path: str) -> Buffer:
        self._wait()
        return self._inner.get(path)

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        self._wait()
        yield from self._inner.get_stream(path, chunk_size, start)

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        self._wait()
        return self._inner.get_range(path, start, length)

    def head(self, path: str) -> ObjectMeta:
        self._wait()
        return self._inner.head(path)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        self._wait()
        for index, page in enumerate(self._inner.list_after(prefix, offset, before)):
            if index:
                self._wait()
            yield page

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        self._wait()
        return self._inner.put_if_absent(path, data)

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        self._wait()
        return self._inner.replace(path, data, expected)

    def delete(self, path: str) -> None:
        self._wait()
        self._inner.delete(path)


class InStepStore(SlowStore):
    """Answers requests in turns: all that wait, once the process has been idle for a moment.

    What a reader asks for side by side then ends side by side, on a busy machine too, where a fixed latency would
    take a thread that started late for one that waited for an answer.
    """

    _LONGEST_S = 5.0

    def __init__(self, inner: Store, idle_s: float = 0.03) -> None:
        super().__init__(inner, idle_s)
        self._lock = threading.Lock()
        self._begun = 0
        self._turn: threading.Event | None = None

    def _wait(self) -> None:
        with self._lock:
            self._begun += 1
            turn, leads = self._turn or threading.Event(), self._turn is None
            self._turn = turn
        if not leads:
            turn.wait()
            return
        self._wait_until_idle()
        with self._lock:
            self._turn = None
        turn.set()

    def _wait_until_idle(self) -> None:
        """Or until a thread that never rests has been waited for long enough."""
        idle_since = began = time.monotonic()
        begun = self._begun
        while time.monotonic() - idle_since < self._latency and time.monotonic() - began < self._LONGEST_S:
            time.sleep(self._latency / 10)
            if begun != self._begun or _others_at_work():
                idle_since, begun = time.monotonic(), self._begun


def _others_at_work() -> bool:
    """Whether another thread of this process runs, or would if it had a processor."""
    own = threading.get_native_id()
    for thread in Path("/proc/self/task").glob("[0-9]*"):  # Empty where the system has none: time alone decides.
        with suppress(OSError):
            if int(thread.name) != own and (thread / "stat").read_text().rpartition(")")[2].split()[0] in "RD":
                return True
    return False


@dataclass(slots=True)
class Faults:
    """How often what goes wrong, each between 0 and 1."""

    unavailable: float = 0.0
    """503 before anything happened."""
    reset: float = 0.0
    """The connection is gone: before a read, midway in a stream or listing, after a put has taken place."""
    truncated: float = 0.0
    """Fewer bytes than asked for."""
    most_in_a_row: int | None = None
    """So many failures of one request are followed by a success."""


@dataclass(slots=True)
class _Tally:
    """How often one request was made, and failed in a row."""

    attempts: int = 0
    failures: int = 0


class FaultyStore(_Around):
    """Fails at random: the n-th attempt at one request always fares alike, whatever threads run."""

    def __init__(self, inner: Store, seed: int, faults: Faults | None = None) -> None:
        super().__init__(inner)
        self._seed = seed
        self._faults = faults or Faults()
        self._tallies: dict[tuple[str, str, str], _Tally] = {}
        self._lock = threading.Lock()
        self.failures: Counter[str] = Counter()
        """Failures so far, per kind."""

    def get(self, path: str) -> Buffer:
        fault = self._before("get", path)
        data = self._inner.get(path)
        if fault == "truncated":
            raise _broke_off(path, len(data) // 2)
        return data

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        fault = self._before("stream", path, str(start), midway=True)
        for chunk in self._inner.get_stream(path, chunk_size, start):
            if fault is not None and len(chunk) > 1:
                yield memoryview(chunk)[: len(chunk) // 2]
            if fault is not None:
                raise _broke_off(path, start + len(chunk) // 2)
            yield chunk

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        fault = self._before("range", path, f"{start}+{length}")
        data = self._inner.get_range(path, start, length)
        return memoryview(data)[: length // 2] if fault == "truncated" else data

    def head(self, path: str) -> ObjectMeta:
        self._before("head", path)
        return self._inner.head(path)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        fault = self._before("list", prefix, offset, midway=True)
        for page in self._inner.list_after(prefix, offset, before):
            if fault is None:
                yield page
                continue
            if len(page) > 1:
                yield page[: len(page) // 2]
            raise _broke_off(prefix, len(page) // 2)

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        fault = self._before("put", path, midway=True)
        meta = self._inner.put_if_absent(path, data)
        if fault is not None:
            raise _broke_off(path, 0)
        return meta

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        fault = self._before("put", path, midway=True)
        meta = self._inner.replace(path, data, expected)
        if fault is not None:
            raise _broke_off(path, 0)
        return meta

    def delete(self, path: str) -> None:
        self._before("delete", path)
        self._inner.delete(path)

    def _before(self, verb: str, path: str, rest: str = "", midway: bool = False) -> str | None:
        """The fault this attempt meets; the ones that come before the request are raised here."""
        fault = self._drawn(verb, path, rest)
        if fault == "unavailable":
            raise StoreUnavailableError(f"{self.root_uri}/{path}: no answer from the store (503 SlowDown); try again")
        if fault == "reset" and not midway:
            raise StoreUnavailableError(f"{self.root_uri}/{path}: connection reset by peer; try again")
        return fault

    def _drawn(self, verb: str, path: str, rest: str) -> str | None:
        with self._lock:
            tally = self._tallies.setdefault((verb, path, rest), _Tally())
            tally.attempts += 1
            fault = self._fault(f"{self._seed}|{verb}|{path}|{rest}|{tally.attempts}")
            if fault is None or tally.failures == self._faults.most_in_a_row:
                tally.failures = 0
                return None
            tally.failures += 1
            self.failures[fault] += 1
            return fault

    def _fault(self, attempt: str) -> str | None:
        drawn = random.Random(attempt).random()
        for kind in ("unavailable", "reset", "truncated"):
            drawn -= getattr(self._faults, kind)
            if drawn < 0:
                return kind
        return None


def _broke_off(path: str, after: int) -> StoreUnavailableError:
    return StoreUnavailableError(f"{path}: the answer broke off after {after} bytes; try again")
