"""Find the log's files: read the hint, then one LIST, and at the same time fetch commits that probably exist.

This takes two sequential round trips. The LIST alone decides: the fetched bytes are only a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any
from urllib.parse import quote

import msgspec

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.log.actions import LastCheckpoint
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.dialect import DELTA, Dialect
from delta_sidecar.log.log_names import commit_name, version_prefix
from delta_sidecar.log.segment import LogListing, OtherBase
from delta_sidecar.storage.requests import begin_small_gets
from delta_sidecar.storage.store import LIST_PAGE, Buffer, ObjectMeta, Store

_last_checkpoint = msgspec.json.Decoder(LastCheckpoint)


class Discovery(msgspec.Struct, frozen=True):
    """The log as one LIST saw it, and the bytes fetched beside it."""

    listing: LogListing
    commits: CommitBytes
    notes: tuple[str, ...] = ()
    other: OtherBase | None = None
    """A base outside the log, for the requested version."""
    passed_over: str | None = None
    """Why a base outside the log exists but is not used."""
    newest: int = -1
    """The newest version of a base outside the log that counts as a version without its commit; -1 if none does."""

    @property
    def head(self) -> int:
        """The newest version there is."""
        return max(self.listing.head, self.newest)


def discover(store: Store, version: int | None, commits: CommitBytes, dialect: Dialect = DELTA) -> Discovery:
    """List the log for the newest or a given version."""
    search = LogSearch(store, version, commits, dialect=dialect)
    search.read_hint()
    search.list_from_hint()
    if not search.has_checkpoint:
        search.list_all()
    return search.discovery()


class LogSearch:
    """The two round trips that find a log, exposed separately so that an index can be searched for in parallel."""

    def __init__(
        self,
        store: Store,
        version: int | None,
        commits: CommitBytes,
        with_names: bool = False,
        dialect: Dialect = DELTA,
    ) -> None:
        """For a version, or the newest (None); `commits` keeps the commits that are fetched. `with_names` also collects
        the names in subdirectories when the whole log is listed, which may take one more request."""
        self._store = store
        self._version = version
        self._commits = commits
        self._with_names = with_names
        self._dialect = dialect
        self._hint: int | None = None
        self._guesses: dict[int, Future[Buffer | None]] = {}
        self._notes: tuple[str, ...] = ()
        self._is_whole = False
        self.listing = LogListing(0, {}, ())
        self.names: tuple[str, ...] = ()
        """Names of objects in subdirectories of the log, if `with_names` and the whole log was listed."""
        self.are_all_names = True

    def read_hint(self) -> int | None:
        """The first trip: the version of the checkpoint that the log's own hint names."""
        self._hint, self._notes = read_hint(self._store, self._dialect)
        return self._checkpoint

    @property
    def _checkpoint(self) -> int | None:
        is_newer = self._hint is not None and self._version is not None and self._hint > self._version
        return None if is_newer else self._hint

    def list_from_hint(self, other: int | None = None) -> None:
        """The second trip: one LIST from the oldest hinted version on (of the checkpoint, or of an `other` base);
        without a hint, of the whole log. At the same time, the commits after the newest hinted version are
        fetched on a guess."""
        hinted = [v for v in (self._checkpoint, other) if v is not None]
        limits = self._commits.limits
        most = limits.whole_commit if hinted else limits.unhinted_guess
        self._guesses = self._fetch_ahead(max(hinted, default=-1) + 1, limits.guesses, most)
        if hinted:
            self.listing = list_log(self._store, min(hinted), self._dialect)
        else:
            self._list_whole()

    @property
    def wanted(self) -> int | None:
        """The requested version; None if the listing does not have it."""
        version = self.listing.head if self._version is None else self._version
        return None if self.listing.is_empty or version > self.listing.head else version

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint for that version is in the listing."""
        return bool(self.listing.bases(self.listing.head if self._version is None else self._version))

    def list_all(self) -> bool:
        """List the whole log, because the hints lead to no base; False if it is listed already."""
        if self._is_whole:
            return False
        note = f"nothing usable at the hinted version {self.listing.start}; listed the whole log"
        self._notes = (*self._notes, note)
        self._list_whole()
        return True

    def _list_whole(self) -> None:
        self._is_whole = True
        if self._with_names:
            self.listing, self.names, self.are_all_names = _list_with_names(self._store, self._dialect)
        else:
            self.listing = list_log(self._store, 0, self._dialect)

    def _fetch_ahead(self, first: int, count: int, most: int) -> dict[int, Future[Buffer | None]]:
        """Start fetching the commits that are most likely needed, unless they have more than `most` bytes."""
        last = first + count - 1 if self._version is None else min(self._version, first + count - 1)
        versions = range(first, last + 1)
        paths = [f"{self._dialect.directory}/{commit_name(version)}" for version in versions]
        return dict(zip(versions, begin_small_gets(self._store, paths, most), strict=True))

    def discovery(self, other: OtherBase | None = None, passed_over: Sequence[str] = ()) -> Discovery:
        """What was found. Commits that were fetched on a guess are kept if the listing has them."""
        _keep_listed(self._guesses, self.listing, self._commits)
        return Discovery(self.listing, self._commits, self._notes, other, "; ".join(passed_over) or None)


def list_log(store: Store, start: int, dialect: Dialect = DELTA) -> LogListing:
    """One LIST of the log directory, inclusive from version `start`."""
    return LogListing.of(_log_objects(store, start, dialect), start, dialect)


def _list_with_names(store: Store, dialect: Dialect) -> tuple[LogListing, tuple[str, ...], bool]:
    """The whole log, names in subdirectories, and whether these are all. The page that holds the end of the log usually
    holds some of the names, too; one more request is made for the others."""
    prefix, page_end = f"{dialect.directory}/", f"{dialect.directory}/:"
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
    return LogListing.of(objects, 0, dialect), (*below, *more), len(more) < LIST_PAGE


def _next_names(store: Store, prefix: str, last: str) -> list[str]:
    """One page of names after the last. Skips the remaining `v5-…` files, because `v5.manifest.json` sorts after
    them."""
    directory, _, name = last.rpartition("/")
    beginning, dash, _ = name.partition("-")
    after = f"{directory}/{beginning}-~" if dash else last
    return [meta.path for page in islice(store.list_after(prefix, after), 1) for meta in page]


def _log_objects(store: Store, start: int, dialect: Dialect) -> list[ObjectMeta]:
    """Objects directly in the log directory; subdirectories sort after every version and are not listed."""
    prefix = f"{dialect.directory}/"
    pages = list(store.list_after(prefix, prefix + version_prefix(start), prefix + ":"))
    return [meta for page in pages for meta in page if "/" not in meta.path[len(prefix) :]]


def read_hint(store: Store, dialect: Dialect = DELTA) -> tuple[int | None, tuple[str, ...]]:
    """The version that `_last_checkpoint` names, or None and the reason why it is not used."""
    try:
        text = bytes(store.get(dialect.hint))
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


def _keep_listed(guesses: dict[int, Future[Buffer | None]], listing: LogListing, commits: CommitBytes) -> None:
    """Keep the guessed commits that the listing has; drop the others unread."""
    for version, future in guesses.items():
        meta = listing.commits.get(version)
        if meta is None or meta.size > commits.limits.whole_commit:
            future.cancel()
        elif (data := future.result()) is not None:
            commits.hold(meta, data)
