"""Listings out of names, for tests that need no store."""

from __future__ import annotations

from delta_sidecar.log.segment import LogListing
from delta_sidecar.storage.store import ObjectMeta

UUID_1 = "11111111-1111-4111-8111-111111111111"
UUID_2 = "22222222-2222-4222-8222-222222222222"


def listing(*names: str, start: int = 0, empty: tuple[str, ...] = ()) -> LogListing:
    """A listing of these names; `3.json` stands for the name with all its zeros."""
    metas = [ObjectMeta(f"_delta_log/{full(name)}", 0 if name in empty else 10, 0) for name in (*names, *empty)]
    return LogListing.of(metas, start)


def full(name: str) -> str:
    version, dot, rest = name.partition(".")
    end, _, tail = rest.partition(".")
    if tail == "compacted.json":
        rest = f"{int(end):020}.{tail}"
    return f"{int(version):020}{dot}{rest}" if version.isdigit() else name


def commits(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{version}.json" for version in range(first, last + 1))


def part(number: int, of: int) -> str:
    return f"checkpoint.{number:010}.{of:010}.parquet"
