"""Finding the log's files: the hint, then one LIST that alone decides, with commits fetched beside it on a guess.

Two sequential round trips. What is fetched on a guess is only a cache of bytes: the listing says whether it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

import msgspec

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.log.actions import LastCheckpoint
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.dialect import DELTA
from delta_sidecar.log.log_names import commit_name, version_prefix
from delta_sidecar.log.segment import Listing, OtherBase
from delta_sidecar.storage.requests import begin_small_gets
from delta_sidecar.storage.store import LIST_PAGE, Buffer, ObjectMeta, Store

_last_checkpoint = msgspec.json.Decoder(LastCheckpoint)


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


def discover(store: Store, version: int | None, commits: CommitBytes) -> Discovery:
    """Pin what there is to know about the log, for the newest version or an older one."""
    search = LogSearch(store, version, commits)
    search.read_hint()
    search.list_from_hint()
    if not search.has_checkpoint:
        search.list_all()
    return search.discovery()


class LogSearch:
    """The two trips that find a log, one by one: who looks for a base of another kind does so beside them."""

    def __init__(self, store: Store, version: int | None, commits: CommitBytes, with_names: bool = False) -> None:
        """For a version, or the newest (None); `commits` takes what is fetched on the way. `with_names` asks for the
        names beside the log where it is listed whole, which may take a request more."""
        self._store = store
        self._version = version
        self._commits = commits
        self._with_names = with_names
        self._hint: int | None = None
        self._guesses: dict[int, Future[Buffer | None]] = {}
        self._notes: tuple[str, ...] = ()
        self._is_whole = False
        self.listing = Listing(0, {}, ())
        self.names: tuple[str, ...] = ()
        """Names of objects in subdirectories of the log, where these were asked for."""
        self.are_all_names = True

    def read_hint(self) -> int | None:
        """The first trip: the version of the checkpoint that the log's own hint names."""
        self._hint, self._notes = read_hint(self._store)
        return self._checkpoint

    @property
    def _checkpoint(self) -> int | None:
        is_newer = self._hint is not None and self._version is not None and self._hint > self._version
        return None if is_newer else self._hint

    def list_from_hint(self, other: int | None = None) -> None:
        """The second trip: one LIST from the oldest of the hinted versions on, that of the checkpoint and that of an
        `other` base; without any, the whole log. Commits after the newest are fetched beside it on a guess."""
        hinted = [v for v in (self._checkpoint, other) if v is not None]
        limits = self._commits.limits
        most = limits.whole_commit if hinted else limits.unhinted_guess
        self._guesses = self._fetch_ahead(max(hinted, default=-1) + 1, limits.guesses, most)
        if hinted:
            self.listing = list_log(self._store, min(hinted))
        else:
            self._list_whole()

    @property
    def wanted(self) -> int | None:
        """The version that is asked for; None where the listing has none such."""
        version = self.listing.head if self._version is None else self._version
        return None if self.listing.is_empty or version > self.listing.head else version

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint for that version is in the listing."""
        return bool(self.listing.bases(self.listing.head if self._version is None else self._version))

    def list_all(self) -> bool:
        """List the whole log, because what a hint named is not there; False if it is listed already."""
        if self._is_whole:
            return False
        note = f"the hinted checkpoint {self.listing.start} is not there, so the whole log was listed"
        self._notes = (*self._notes, note)
        self._list_whole()
        return True

    def _list_whole(self) -> None:
        self._is_whole = True
        if self._with_names:
            self.listing, self.names, self.are_all_names = _list_with_names(self._store)
        else:
            self.listing = list_log(self._store, 0)

    def _fetch_ahead(self, first: int, count: int, most: int) -> dict[int, Future[Buffer | None]]:
        """Begin fetching the commits that are most likely needed, unless they have more than `most` bytes."""
        last = first + count - 1 if self._version is None else min(self._version, first + count - 1)
        versions = range(first, last + 1)
        paths = [f"{DELTA.directory}/{commit_name(version)}" for version in versions]
        return dict(zip(versions, begin_small_gets(self._store, paths, most), strict=True))

    def discovery(self, other: OtherBase | None = None, passed_over: Sequence[str] = ()) -> Discovery:
        """What was found; commits that came on a guess are held, if the listing has them."""
        _keep_listed(self._guesses, self.listing, self._commits)
        reason = "; ".join(passed_over)
        notes = (*self._notes, *filter(None, [reason]))
        return Discovery(self.listing, self._commits, self._hint, notes, other, reason or None)


def list_log(store: Store, start: int) -> Listing:
    """One LIST of the log directory, inclusive from version `start`."""
    return Listing.of(_log_objects(store, start), start)


def _list_with_names(store: Store) -> tuple[Listing, tuple[str, ...], bool]:
    """The whole log, names in subdirectories, and whether these are all: a page that holds the end of the log mostly
    holds names, too, and one more request is made for them."""
    prefix, page_end = f"{DELTA.directory}/", f"{DELTA.directory}/:"
    objects: list[ObjectMeta] = []
    below: list[str] = []
    is_full = False
    for page in store.list_after(prefix, prefix + version_prefix(0)):
        is_full = len(page) >= LIST_PAGE
        objects += [meta for meta in page if meta.path < page_end and "/" not in meta.path[len(prefix) :]]
        below += [meta.path for meta in page if "/" in meta.path[len(prefix) :]]
        if page[-1].path >= page_end:
            break
    more = _next_names(store, prefix, below[-1]) if below and is_full else []
    return Listing.of(objects, 0), (*below, *more), len(more) < LIST_PAGE


def _next_names(store: Store, prefix: str, last: str) -> list[str]:
    """Names after the last, a page of them. Of files whose names have one beginning (`v5-…`), those that are left are
    passed over: what describes them (`v5.…`) comes after."""
    directory, _, name = last.rpartition("/")
    beginning, dash, _ = name.partition("-")
    after = f"{directory}/{beginning}-~" if dash else last
    return [meta.path for page in islice(store.list_after(prefix, after), 1) for meta in page]


def _log_objects(store: Store, start: int) -> list[ObjectMeta]:
    """Objects directly in the log directory; subdirectories, which sort behind every version, are not looked into."""
    prefix = f"{DELTA.directory}/"
    pages = list(store.list_after(prefix, prefix + version_prefix(start), prefix + ":"))
    return [meta for page in pages for meta in page if "/" not in meta.path[len(prefix) :]]


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
    import hashlib

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


def _keep_listed(guesses: dict[int, Future[Buffer | None]], listing: Listing, commits: CommitBytes) -> None:
    """Hand over the guesses the listing confirms; the others are dropped unread."""
    for version, future in guesses.items():
        meta = listing.commits.get(version)
        if meta is None or meta.size > commits.limits.whole_commit:
            future.cancel()
        elif (data := future.result()) is not None:
            commits.hold(meta, data)
