"""The one retry policy: backoff with jitter, capped in number and time, and broken transfers resumed.

It wraps any store that raises `StoreUnavailableError` when a retry may help, so the same code retries a
faulty store in a test and a real one.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from delta_sidecar.errors import ObjectChangedError, ObjectExistsError, ObjectNotFoundError, StoreUnavailableError
from delta_sidecar.flow.backoff import backoff
from delta_sidecar.storage.options import StoreSettings
from delta_sidecar.storage.requests import fetch_ranges
from delta_sidecar.storage.store import Buffer, ByteRange, HasPlace, ObjectMeta, Store, TakesFiles, mapped

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Attempts:
    """The failures of one request so far; `failed` waits, or gives up."""

    settings: StoreSettings
    sleep: Callable[[float], None]
    failures: int = 0
    _first: float = field(default=0.0)

    def failed(self, error: StoreUnavailableError) -> None:
        retry = self.settings.retry
        now = time.monotonic()
        self._first = self._first if self.failures else now
        if self.failures >= retry.max_retries or now - self._first > retry.retry_timeout:
            raise _given_up(error, self.failures) from error
        pause = self._pause()
        self.failures += 1
        attempt = self.failures + 1
        _log.info(
            "%s; attempt %d of %d in %.1f s", error, attempt, retry.max_retries + 1, pause, extra={"attempt": attempt}
        )
        self.sleep(pause)

    def progressed(self) -> None:
        """Bytes came: a long transfer may fail more often than a short one."""
        self.failures = 0

    def _pause(self) -> float:
        retry = self.settings.retry
        longest = backoff(retry.init_backoff, self.failures, retry.max_backoff, retry.base)
        return random.uniform(longest / 2, longest)


class RetryingStore:
    """A store that tries again."""

    def __init__(
        self, inner: Store, settings: StoreSettings | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._inner = inner
        self._settings = settings or StoreSettings()
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"RetryingStore({self._inner!r})"

    @property
    def root_uri(self) -> str:
        return self._inner.root_uri

    @property
    def identity(self) -> Hashable:
        return self._inner.identity

    @property
    def place(self) -> str | None:
        return self._inner.place if isinstance(self._inner, HasPlace) else None

    def local_path(self, path: str) -> str | None:
        return self._inner.local_path(path)

    def get(self, path: str) -> Buffer:
        return self._retried(lambda: self._inner.get(path))

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        attempts = self._attempts()
        while True:
            try:
                for chunk in self._inner.get_stream(path, chunk_size, start):
                    start += len(chunk)
                    attempts.progressed()
                    yield chunk
                return
            except StoreUnavailableError as error:
                attempts.failed(error)

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        return self._retried(lambda: self._exact_range(path, start, length))

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        return fetch_ranges(self.get_range, path, ranges, self._settings.gap)

    def head(self, path: str) -> ObjectMeta:
        return self._retried(lambda: self._inner.head(path))

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        attempts = self._attempts()
        while True:
            try:
                for page in self._inner.list_after(prefix, offset, before):
                    offset = page[-1].path
                    attempts.progressed()
                    yield page
                return
            except StoreUnavailableError as error:
                attempts.failed(error)

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        """An attempt whose answer was lost may have succeeded: then the object holds our bytes."""
        attempts = self._attempts()
        while True:
            try:
                return self._inner.put_if_absent(path, data)
            except StoreUnavailableError as error:
                attempts.failed(error)
            except ObjectExistsError:
                if attempts.failures and bytes(self.get(path)) == bytes(data):
                    return self.head(path)
                raise

    def put_file(self, path: str, file: Path) -> None:
        inner = self._inner
        if isinstance(inner, TakesFiles):
            self._retried(lambda: inner.put_file(path, file))
            return
        with mapped(file) as data:
            self.put_if_absent(path, data)

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        """An attempt whose answer was lost may have succeeded: then the object holds our bytes."""
        attempts = self._attempts()
        while True:
            try:
                return self._inner.replace(path, data, expected)
            except StoreUnavailableError as error:
                attempts.failed(error)
            except ObjectChangedError:
                if attempts.failures and self._holds(path, data):
                    return self.head(path)
                raise

    def _holds(self, path: str, data: Buffer) -> bool:
        try:
            return bytes(self.get(path)) == bytes(data)
        except ObjectNotFoundError:
            return False

    def delete(self, path: str) -> None:
        self._retried(lambda: self._inner.delete(path))

    def _exact_range(self, path: str, start: int, length: int) -> Buffer:
        data = self._inner.get_range(path, start, length)
        if len(data) != length:
            raise StoreUnavailableError(f"{self.root_uri}/{path}: {len(data)} bytes came instead of {length}")
        return data

    def _attempts(self) -> Attempts:
        return Attempts(self._settings, self._sleep)

    def _retried(self, request: Callable[[], T]) -> T:
        attempts = self._attempts()
        while True:
            try:
                return request()
            except StoreUnavailableError as error:
                attempts.failed(error)


def _given_up(error: StoreUnavailableError, failures: int) -> StoreUnavailableError:
    return StoreUnavailableError(f"{error} (after {failures + 1} attempts)") if failures else error
