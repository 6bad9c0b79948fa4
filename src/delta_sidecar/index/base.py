"""An index as the base of a version, found in the very trips that find the log.

Trip 1: the hints `_last_index`, beside the log's own. Trip 2: the manifests they name, and that of the hinted
checkpoint, beside the listing. The listing decides: an index counts only if its commit file is there as the builder
saw it, or the table's id at that version is the manifest's. Where no hint leads to a base, the whole log is listed, and
the names of manifests that come with it lead to the index.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import msgspec

from delta_sidecar.errors import CorruptIndexError, ObjectNotFoundError, StorageError
from delta_sidecar.index.discovery import check_table, hinted_version, manifest_of
from delta_sidecar.index.keys import PartOrder
from delta_sidecar.index.layout import Layout
from delta_sidecar.index.manifest import Manifest, layout_of
from delta_sidecar.index.names import DIRECTORIES, HINT, manifest_name, manifest_version
from delta_sidecar.index.single import read_single
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.segment import Listing
from delta_sidecar.storage.pool import begin
from delta_sidecar.storage.store import Buffer, Store

_log = logging.getLogger(__name__)

_TRIES = 2
"""Manifests that are tried where only their names tell of them."""
_IN_MEMORY = 4
"""How many times its size in the manifest the list of parts takes in memory, about."""
FARTHEST_BEHIND = 1_000
"""Versions that a hinted index may be behind the hinted checkpoint: as many commits as one page of a listing has."""


@dataclass(frozen=True)
class IndexBase:
    """An index that may be read for this table."""

    manifest: Manifest
    directory: str
    tier: Literal["manifest", "footer"] = "manifest"
    """Whether its manifest was read, or what the single part of a small table says of itself."""

    @property
    def version(self) -> int:
        return self.manifest.version

    @cached_property
    def size(self) -> int:
        parts = self.manifest.parts
        return sum(parts.core.size) + sum(size for size in parts.stats.size if size > 0)

    @property
    def nbytes(self) -> int:
        return _IN_MEMORY * len(memoryview(self.manifest.parts_json)) + 4 * len(self.metadata.schemaString or "")

    @property
    def protocol(self) -> Protocol:
        return self.manifest.protocol

    @property
    def metadata(self) -> Metadata:
        return self.manifest.metadata

    @cached_property
    def layout(self) -> Layout:
        return layout_of(self.manifest)

    @cached_property
    def part_order(self) -> PartOrder:
        """The parts by their keys; `CorruptIndexError` where these are not of their type."""
        return PartOrder.of(self.manifest.parts, self.layout.sort)

    def __str__(self) -> str:
        parts = len(self.manifest.parts)
        return f"index {self.version}, {self.manifest.files:,} files in {parts} part{'' if parts == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    version: int
    directory: str
    is_hinted: bool
    answer: Future[Buffer]


class IndexFinder:
    """Finds the index of a table while its log is found (`log.discovery.Companion`)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hints: dict[str, Future[Buffer]] = {}
        self._candidates: list[_Candidate] = []
        self._has_index = False
        self._newer: set[int] = set()
        self._named: list[tuple[int, str]] = []
        self._names_are_all = True
        self.passed_over: list[str] = []
        """Why an index that is there was not used."""

    def first_trip(self) -> None:
        self._candidates, self.passed_over, self._named, self._newer = [], [], [], set()
        self._names_are_all = True
        self._hints = {
            directory: begin(self._store, self._store.get, f"{directory}/{HINT}") for directory in DIRECTORIES
        }

    def second_trip(self, checkpoint: int | None, version: int | None) -> int | None:
        hinted: list[int] = []
        for directory, answer in self._hints.items():
            hint = self._hint(directory, answer)
            self._newer |= {v for v in (hint,) if v is not None and version is not None and v > version}
            wanted = {v for v in (hint, checkpoint) if v is not None and (version is None or v <= version)}
            if hint in wanted and checkpoint is not None and checkpoint - hint > FARTHEST_BEHIND:
                self._pass_over(f"the index of version {hint} is too far behind the checkpoint {checkpoint}")
                wanted.discard(hint)
            self._ask(directory, wanted, hint)
            hinted += [v for v in wanted if v == hint]
        return max(hinted, default=None)

    def base(self, listing: Listing, version: int) -> IndexBase | None:
        for candidate in sorted(self._candidates, key=lambda c: c.version, reverse=True):
            found = self._tried(candidate, listing, version)
            if found is not None:
                return found
        found = self._of_checkpoint(listing, version) if self._has_index else None
        found = self._by_name(listing, version) if found is None else found
        if found is None:
            self._note_unused(version)
        return found

    def names(self, paths: Sequence[str], are_all: bool) -> None:
        named = [(manifest_version(path.rpartition("/")[2]), path.rpartition("/")[0]) for path in paths]
        self._named = [(v, directory) for v, directory in named if v is not None and directory in DIRECTORIES]
        self._names_are_all = are_all

    def _by_name(self, listing: Listing, version: int) -> IndexBase | None:
        """The newest of the manifests that the listing named."""
        tried = {(c.version, c.directory) for c in self._candidates}
        wanted = sorted((n for n in self._named if n not in tried and n[0] <= version), reverse=True)
        self._newer |= {named for named, _ in self._named if named > version}
        for named, directory in wanted[:_TRIES]:
            self._ask(directory, {named}, None)
            found = self._tried(self._candidates[-1], listing, version)
            if found is not None:
                _log.info("the index of version %d was found by its name; no hint names it", named)
                return found
        return None

    def _note_unused(self, version: int) -> None:
        """Say why an index that is there is not used."""
        self._newer |= {c.version for c in self._candidates if c.version > version and c.is_hinted}
        if self._newer:
            self.passed_over.append(f"the index of version {max(self._newer)} is newer than version {version}")
        if not self._names_are_all:
            self._pass_over("no hint names an index, and there are too many files beside it to look for one")

    def _of_checkpoint(self, listing: Listing, version: int) -> IndexBase | None:
        """For an older version: the index beside the newest checkpoint at or below it, which no hint names."""
        newest = next(iter(listing.bases(version)), None)
        if newest is None or any(c.version == newest.version for c in self._candidates):
            return None
        asked = len(self._candidates)
        for directory in DIRECTORIES:
            self._ask(directory, {newest.version}, None)
        found = (self._tried(candidate, listing, version) for candidate in self._candidates[asked:])
        return next((base for base in found if base is not None), None)

    def _hint(self, directory: str, answer: Future[Buffer]) -> int | None:
        try:
            hint = hinted_version(answer.result())
        except ObjectNotFoundError:
            return None
        except StorageError as error:
            self._pass_over(f"the hint of an index could not be read: {error}")
            return None
        self._has_index = True
        if hint is None:
            self._pass_over(f"{directory}/{HINT} cannot be parsed and was not used; build the index again")
        return hint

    def _ask(self, directory: str, versions: set[int], hint: int | None) -> None:
        for version in sorted(versions, reverse=True):
            answer = begin(self._store, self._store.get, f"{directory}/{manifest_name(version)}")
            self._candidates.append(_Candidate(version, directory, version == hint, answer))

    def _tried(self, candidate: _Candidate, listing: Listing, version: int) -> IndexBase | None:
        if candidate.version > version:
            return None
        try:
            return self._usable(self._manifest_or_single(candidate), listing)
        except (CorruptIndexError, StorageError) as error:
            self._pass_over(str(error))
        return None

    def _manifest_or_single(self, candidate: _Candidate) -> IndexBase | None:
        """The manifest; where it is broken, or missing although there is an index, the part that speaks for itself."""
        directory, version = candidate.directory, candidate.version
        try:
            return IndexBase(manifest_of(candidate.answer.result(), directory, version), directory)
        except ObjectNotFoundError:
            if not candidate.is_hinted:
                return None
            self._pass_over(f"{directory}/{manifest_name(version)} is missing, although the hint names it")
        except CorruptIndexError as error:
            self._pass_over(str(error))
        single = read_single(self._store, directory, version)
        return None if single is None else IndexBase(single, directory, "footer")

    def _usable(self, base: IndexBase | None, listing: Listing) -> IndexBase | None:
        if base is not None:
            check_table(base.manifest, self._store, listing)
            try:
                _ = base.layout
            except (msgspec.DecodeError, ValueError, TypeError, KeyError) as error:
                raise CorruptIndexError(f"{base}: its schema cannot be read ({error})") from None
        return base

    def _pass_over(self, reason: str) -> None:
        if reason not in self.passed_over:
            _log.warning("%s", reason)
            self.passed_over.append(reason)
