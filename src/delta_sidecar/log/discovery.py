"""Finding the log's files: the hint, then one LIST that alone decides, with commits fetched beside it on a guess.

Two sequential round trips. What is fetched on a guess is only a cache of bytes: the listing says whether it counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from delta_sidecar.errors import ObjectNotFoundError, StorageError
from delta_sidecar.log.actions import LastCheckpoint
from delta_sidecar.log.commits import HELD_LIMIT, CommitBytes
from delta_sidecar.log.dialect import DELTA
from delta_sidecar.log.log_names import commit_name, version_prefix
from delta_sidecar.log.segment import Listing, OtherBase
from delta_sidecar.storage.requests import begin
from delta_sidecar.storage.store import Buffer, ObjectMeta, Store

SPECULATIVE_COMMITS = 8
_UNHINTED = 256 << 10
"""Bytes of a commit that is fetched on a guess where no hint names a base: the first commits may have any size."""
_last_checkpoint = msgspec.json.Decoder(LastCheckpoint)


class Companion(Protocol):
    """Looks for a base of another kind in the very trips that find the log."""

    @property
    def passed_over(self) -> Sequence[str]:
        """Why bases that are there cannot be used."""
        ...

    def first_trip(self) -> None:
        """Begin what needs nothing but the table's place. Called before the log's hint is asked for."""
        ...

    def second_trip(self, checkpoint: int | None, version: int | None) -> int | None:
        """Begin what needs the hints: the log's own, and the version that is wanted (None: the newest). The version at
        which a base may be, so that the listing begins there; None if there is none."""
        ...

    def names(self, paths: Sequence[str], are_all: bool) -> None:
        """Take the names of objects in subdirectories of the log, where a listing had any; `are_all` unless there are
        more of them. Called before `base`, where nothing else has told of a base."""
        ...

    def base(self, listing: Listing, version: int) -> OtherBase | None:
        """The best base at or below a version, once the log is listed."""
        ...


@dataclass(frozen=True, slots=True)
class Discovery:
    """The log as one LIST saw it, and the bytes fetched beside it."""

    listing: Listing
    commits: CommitBytes
    hint: int | None
    notes: tuple[str, ...] = ()
    other: OtherBase | None = None
    """A base of another kind, for the version that was asked for."""
    passed_over: str | None = None
    """Why one that is there is not used."""


def discover(store: Store, version: int | None, commits: CommitBytes, companion: Companion | None = None) -> Discovery:
    """Pin what there is to know about the log, for the newest version or an older one."""
    if companion is not None:
        companion.first_trip()
    hint, notes = read_hint(store)
    base = None if hint is None or (version is not None and hint > version) else hint
    beside = None if companion is None else companion.second_trip(base, version)
    hinted = [v for v in (base, beside) if v is not None]
    start = min(hinted, default=0)
    guesses = _fetch_ahead(store, max(hinted, default=-1) + 1, version, HELD_LIMIT if hinted else _UNHINTED)
    listing = list_log(store, start) if hinted else _list_all(store, companion)
    other = _other_base(companion, listing, version)
    if hinted and other is None and not listing.bases(listing.head if version is None else version):
        notes = (*notes, f"the hinted checkpoint {start} is not there, so the whole log was listed")
        listing = _list_all(store, companion)
        other = _other_base(companion, listing, version)
    _keep_listed(guesses, listing, commits)
    passed_over = "; ".join(companion.passed_over) if companion is not None else ""
    return Discovery(listing, commits, hint, (*notes, *filter(None, [passed_over])), other, passed_over or None)


def _other_base(companion: Companion | None, listing: Listing, version: int | None) -> OtherBase | None:
    if companion is None or listing.is_empty:
        return None
    wanted = listing.head if version is None else version
    return companion.base(listing, wanted) if wanted <= listing.head else None


def list_log(store: Store, start: int) -> Listing:
    """One LIST of the log directory, inclusive from version `start`."""
    return Listing.of(_log_objects(store, start), start)


def _list_all(store: Store, companion: Companion | None) -> Listing:
    """The whole log. A page that holds its end mostly holds the names in subdirectories, too, which tell the companion
    of a base that no hint names; one more request is made for these."""
    if companion is None:
        return list_log(store, 0)
    prefix, page_end = f"{DELTA.directory}/", f"{DELTA.directory}/:"
    objects: list[ObjectMeta] = []
    below: list[str] = []
    is_full = False
    for page in store.list_after(prefix, prefix + version_prefix(0)):
        is_full = len(page) >= FULL_PAGE
        objects += [meta for meta in page if meta.path < page_end and "/" not in meta.path[len(prefix) :]]
        below += [meta.path for meta in page if "/" in meta.path[len(prefix) :]]
        if page[-1].path >= page_end:
            break
    more = _next_names(store, prefix, below[-1]) if below and is_full else []
    companion.names([*below, *more], are_all=len(more) < FULL_PAGE)
    return Listing.of(objects, 0)


FULL_PAGE = 1000
"""Objects of a page of a listing, where there are more."""


def _next_names(store: Store, prefix: str, last: str) -> list[str]:
    """Names after the last, a page of them. Of files whose names have one beginning (`v5-…`), those that are left are
    passed over: what describes them (`v5.…`) comes after."""
    directory, _, name = last.rpartition("/")
    beginning, dash, _ = name.partition("-")
    after = f"{directory}/{beginning}-~" if dash else last
    return [meta.path for page in islice(store.list_after(prefix, after), 1) for meta in page]


def _log_objects(store: Store, start: int) -> Iterator[ObjectMeta]:
    """Objects directly in the log directory; subdirectories, which sort behind every version, are not looked into."""
    prefix = f"{DELTA.directory}/"
    for page in store.list_after(prefix, prefix + version_prefix(start), prefix + ":"):
        yield from (meta for meta in page if "/" not in meta.path[len(prefix) :])


def read_hint(store: Store) -> tuple[int | None, tuple[str, ...]]:
    """The version `_last_checkpoint` names, if it can be trusted that far, and why not if it cannot."""
    try:
        text = bytes(store.get(DELTA.hint))
    except ObjectNotFoundError:
        return None, ()
    try:
        hint = _last_checkpoint.decode(text)
        if hint.checksum is not None and hint.checksum != hint_checksum(msgspec.json.decode(text)):
            return None, ("_last_checkpoint fails its checksum and was not used",)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, ("_last_checkpoint cannot be parsed and was not used",)
    return (hint.version, ()) if hint.version >= 0 else (None, ("_last_checkpoint names a negative version",))


def hint_checksum(content: dict[str, Any]) -> str:
    """The MD5 of the hint's canonical form, as the protocol defines it."""
    pairs = sorted(_canonical_pairs({k: v for k, v in content.items() if k != "checksum"}, ""))
    text = ",".join(f"{key}={value}" for key, value in pairs)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _canonical_pairs(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Leaves of the JSON with the quoted keys that lead to them."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _canonical_pairs(child, _joined(prefix, f'"{_encoded(key)}"'))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from _canonical_pairs(child, _joined(prefix, str(position)))
    elif isinstance(value, str):
        yield prefix, f'"{_encoded(value)}"'
    else:
        yield prefix, msgspec.json.encode(value).decode()


def _joined(prefix: str, part: str) -> str:
    return f"{prefix}+{part}" if prefix else part


def _encoded(text: str) -> str:
    return quote(text, safe="")


def _fetch_ahead(store: Store, first: int, version: int | None, most: int) -> dict[int, Future[Buffer | None]]:
    """Begin fetching the commits that are most likely needed, unless they have more than `most` bytes."""
    last = first + SPECULATIVE_COMMITS - 1 if version is None else min(version, first + SPECULATIVE_COMMITS - 1)
    return {v: begin(store, _get_small, store, v, most) for v in range(first, last + 1)}


def _get_small(store: Store, version: int, most: int) -> Buffer | None:
    """A commit, if it is there and small: a guess must not cost much."""
    taken: list[Buffer] = []
    stream = store.get_stream(f"{DELTA.directory}/{commit_name(version)}", most + 1)
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


def _keep_listed(guesses: dict[int, Future[Buffer | None]], listing: Listing, commits: CommitBytes) -> None:
    """Hand over the guesses the listing confirms; the others are dropped unread."""
    for version, future in guesses.items():
        meta = listing.commits.get(version)
        if meta is None or meta.size > HELD_LIMIT:
            future.cancel()
        elif (data := future.result()) is not None:
            commits.hold(meta, data)
