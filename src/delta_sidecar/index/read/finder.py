"""Find an index as the base of a version, in the same round trips that find the log.

Trip 1 fetches the hints `_last_index` together with the log's own. Trip 2 fetches the manifests that they name, and
that of the hinted checkpoint, together with the listing. The listing decides: an index is used only if its commit file
is as the build saw it, or if the table's id at that version is the manifest's. If no hint leads to a base, the whole
log is listed, and the manifests among the listed names lead to the index.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from delta_sidecar.errors import CorruptIndexError, ObjectNotFoundError, StorageError
from delta_sidecar.index.format.index_names import DIRECTORIES, HINT, manifest_name, manifest_version, single_id
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import Discovery, LogSearch
from delta_sidecar.log.segment import LogListing
from delta_sidecar.storage.requests import begin_gets
from delta_sidecar.storage.store import Buffer, Store

if TYPE_CHECKING:
    from delta_sidecar.index.format.manifest import Manifest
    from delta_sidecar.index.read.index_base import IndexBase

_log = logging.getLogger(__name__)


_TRIES = 2
"""Manifests that are tried if no hint names them, only the listing."""


FARTHEST_BEHIND = 1_000
"""Versions that a hinted index may be behind the hinted checkpoint: as many commits as one page of a listing has."""


class _Candidate(msgspec.Struct, frozen=True):
    version: int
    directory: str
    is_hinted: bool
    answer: Future[Buffer]


def discover_with_index(store: Store, version: int | None, commits: CommitBytes) -> Discovery:
    """Find the log of a table, and the index that is the best base of the version, in the same two trips."""
    finder, search = IndexFinder(store, version), LogSearch(store, version, commits, with_names=True)
    finder.ask_for_hints()
    search.list_from_hint(finder.ask_for_manifests(search.read_hint()))
    base = finder.base(search)
    if base is None and not search.has_checkpoint and search.list_all():
        base = finder.base(search)
    return search.discovery(base, finder.passed_over)


class IndexFinder:
    """Finds the index of a table while its log is found."""

    def __init__(self, store: Store, version: int | None = None) -> None:
        """For a version, or the newest (None)."""
        self._store = store
        self._version = version
        self._hints: dict[str, Future[Buffer]] = {}
        self._candidates: list[_Candidate] = []
        self._has_index = False
        self._newer: set[int] = set()
        self.passed_over: list[str] = []
        """Why an existing index was not used."""

    def ask_for_hints(self) -> None:
        """Start fetching both index hints."""
        answers = begin_gets(self._store, [f"{directory}/{HINT}" for directory in DIRECTORIES])
        self._hints = dict(zip(DIRECTORIES, answers, strict=True))

    def newest_hint(self) -> int | None:
        """The newest version that a hint names; None if there is none."""
        hints = [self._hint(directory, answer) for directory, answer in self._hints.items()]
        return max((hint for hint in hints if hint is not None), default=None)

    def ask_for_manifests(self, checkpoint: int | None) -> int | None:
        """Start fetching the manifests that the hints name. Returns the newest hinted version, or None."""
        hinted: list[int] = []
        places: list[tuple[str, int, bool]] = []
        for directory, answer in self._hints.items():
            hint = self._hint(directory, answer)
            if hint is not None and self._version is not None and hint > self._version:
                self._newer.add(hint)
            wanted = {v for v in (hint, checkpoint) if v is not None and (self._version is None or v <= self._version)}
            if hint in wanted and checkpoint is not None and checkpoint - hint > FARTHEST_BEHIND:
                self._pass_over(f"the index of version {hint} is too far behind the checkpoint {checkpoint}")
                wanted.discard(hint)
            places += [(directory, version, version == hint) for version in sorted(wanted, reverse=True)]
            hinted += [v for v in wanted if v == hint]
        self._ask(places)
        return max(hinted, default=None)

    def base(self, search: LogSearch) -> IndexBase | None:
        """The best index at or below the version, now that the log is listed; None if there is none.

        For readers: it uses what the trips of the log brought, and does not look whether the parts exist. A missing one
        is noticed when it is read. Builds take `manifests.newest_usable_manifest`.
        """
        version, listing = search.wanted, search.listing
        if version is None:
            return None
        for candidate in sorted(self._candidates, key=lambda c: c.version, reverse=True):
            base = self._tried(candidate, listing, version)
            if base is not None:
                return base
        base = self._of_checkpoint(listing, version) if self._has_index else None
        base = self._by_name(search.names, listing, version) if base is None else base
        if base is None:
            self._note_unused(version, search.are_all_names)
        return base

    def _by_name(self, names: Sequence[str], listing: LogListing, version: int) -> IndexBase | None:
        """The index of the newest manifest among the listed names."""
        tried = {(c.version, c.directory) for c in self._candidates}
        manifests = [(manifest_version(path.rpartition("/")[2]), path.rpartition("/")[0]) for path in names]
        known = {(v, directory) for v, directory in manifests if v is not None and directory in DIRECTORIES}
        newest_first = sorted((n for n in known - tried if n[0] <= version), reverse=True)
        self._newer |= {named for named, _ in known if named > version}
        for named, directory in newest_first[:_TRIES]:
            self._ask([(directory, named, False)])
            base = self._tried(self._candidates[-1], listing, version)
            if base is not None:
                _log.info("the index of version %d was found by its name; no hint names it", named)
                return base
        return None

    def _note_unused(self, version: int, are_all_names: bool) -> None:
        """Note why an existing index is not used."""
        self._newer |= {c.version for c in self._candidates if c.version > version and c.is_hinted}
        if self._newer:
            reason = f"the index of version {max(self._newer)} is newer than version {version}"
            self._pass_over(reason, logging.INFO)
        if not are_all_names:
            self._pass_over("no hint names an index, and its directory has too many files to search for one")

    def _of_checkpoint(self, listing: LogListing, version: int) -> IndexBase | None:
        """For an older version: the index beside the newest checkpoint at or below it, which no hint names."""
        newest = next(iter(listing.bases(version)), None)
        if newest is None or any(c.version == newest.version for c in self._candidates):
            return None
        first = len(self._candidates)
        self._ask([(directory, newest.version, False) for directory in DIRECTORIES])
        bases = (self._tried(candidate, listing, version) for candidate in self._candidates[first:])
        return next((base for base in bases if base is not None), None)

    def _hint(self, directory: str, answer: Future[Buffer]) -> int | None:
        try:
            found = answer.result()
        except ObjectNotFoundError:
            return None
        except StorageError as error:
            self._pass_over(f"the hint of an index could not be read: {error}")
            return None
        from delta_sidecar.index.read.manifests import hinted_version

        hint = hinted_version(found)
        self._has_index = True
        if hint is None:
            self._pass_over(f"{directory}/{HINT} cannot be parsed and was not used; build the index again")
        return hint

    def _ask(self, places: Sequence[tuple[str, int, bool]]) -> None:
        """Start fetching manifests, given the directory and version of each, and whether a hint names it."""
        answers = begin_gets(self._store, [f"{directory}/{manifest_name(version)}" for directory, version, _ in places])
        for (directory, version, is_hinted), answer in zip(places, answers, strict=True):
            self._candidates.append(_Candidate(version, directory, is_hinted, answer))

    def _tried(self, candidate: _Candidate, listing: LogListing, version: int) -> IndexBase | None:
        if candidate.version > version:
            return None
        try:
            return self._usable(self._manifest_or_single(candidate), listing)
        except (CorruptIndexError, StorageError) as error:
            self._pass_over(str(error))
        return None

    def _manifest_or_single(self, candidate: _Candidate) -> IndexBase | None:
        """The index of a candidate: from its manifest, or from a single-part file if the manifest is broken or
        missing."""
        directory, version = candidate.directory, candidate.version
        try:
            found = candidate.answer.result()
            from delta_sidecar.index.read.index_base import IndexBase
            from delta_sidecar.index.read.manifests import manifest_of

            return IndexBase(manifest_of(found, directory, version), directory)
        except ObjectNotFoundError:
            if not candidate.is_hinted:
                return None
            self._pass_over(f"{directory}/{manifest_name(version)} is missing, although the hint names it")
        except CorruptIndexError as error:
            self._pass_over(str(error))
        from delta_sidecar.index.read.index_base import IndexBase

        single = read_single(self._store, directory, version)
        return None if single is None else IndexBase(single, directory, "footer")

    def _usable(self, base: IndexBase | None, listing: LogListing) -> IndexBase | None:
        if base is not None:
            from delta_sidecar.index.read.manifests import check_table

            check_table(base.manifest, self._store, listing)
            base.check_layout()
        return base

    def _pass_over(self, reason: str, level: int = logging.WARNING) -> None:
        """Log, once, why an index is not used."""
        if reason not in self.passed_over:
            _log.log(level, "%s", reason)
            self.passed_over.append(reason)


def read_single(store: Store, directory: str, version: int) -> Manifest | None:
    """The manifest inside `v{C}.parquet`, with that file as its one part; None if there is no such file."""
    import pyarrow.parquet as pq

    from delta_sidecar.index.format.manifest import FORMAT, Manifest, with_parts
    from delta_sidecar.index.format.part_entries import PartEntry
    from delta_sidecar.index.format.part_format import MANIFEST_KEY, file_entry
    from delta_sidecar.index.format.seals import is_whole

    path = f"{directory}/{single_id(version)}.parquet"
    try:
        data = store.get(path)
    except ObjectNotFoundError:
        return None
    if not is_whole(data):
        raise CorruptIndexError(f"{path} is damaged: its checksums do not match; build the index again")
    try:
        footer = pq.read_metadata(pa.BufferReader(data))
        manifest = msgspec.json.decode((footer.metadata or {})[MANIFEST_KEY], type=Manifest)
    except (pa.ArrowException, OSError, KeyError, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise CorruptIndexError(f"{path} has no valid manifest inside ({error}); build the index again") from None
    if (manifest.format, manifest.version, manifest.files) != (FORMAT, version, footer.num_rows):
        raise CorruptIndexError(f"{path} is not the index of version {version}; build the index again")
    # Keys, times and buckets of its entry are left unknown: it has few rows.
    rows = footer.num_rows
    unknown = dict.fromkeys(("key_unknown", "time_unknown", "vectors", "off_bucket"), rows)
    entry = PartEntry(single_id(version), rows, 0, file_entry(data), row_groups=footer.num_row_groups, **unknown)
    return with_parts(manifest, [entry])
