"""The tables that a page shows: found by their names, opened within a budget."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from delta_sidecar.errors import TableNotFoundError
from delta_sidecar.index.read.opening import forget
from delta_sidecar.limits import CommitLimits, ReaderLimits
from delta_sidecar.server.budget import Budget
from delta_sidecar.server.reading import OpenTable
from delta_sidecar.server.requests import ReadRequest, RequestLimits
from delta_sidecar.server.roots import Roots, no_table
from delta_sidecar.server.table_search import tables_below
from delta_sidecar.server.tokens import Caller
from delta_sidecar.storage.metered import MeteredStore
from delta_sidecar.storage.store import Store
from delta_sidecar.table import DeltaTable

_FRUGAL: Final = ReaderLimits(commits=CommitLimits(guesses=0))
"""The first look at a table asks for no commit on a guess: requests count for more than a round trip."""


class _FreshStore(MeteredStore):
    """A store of which no cache holds anything."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._own_identity = object()

    @property
    def identity(self) -> Hashable:
        return self._own_identity


@dataclass(frozen=True, slots=True)
class ShownTables:
    """Tables below some roots, and how much looking at them may take."""

    roots: Roots
    streams: Budget = field(default_factory=lambda: Budget(4, 128 << 20))
    """Shared by everything that lists files."""
    openings: Budget = field(default_factory=lambda: Budget(16, 1))
    """For calls that open a table and answer at once."""
    reader_options: Mapping[str, Any] = field(default_factory=dict)
    stream_bytes: int = 8 << 20
    patience: float = 30.0
    """Seconds that a call waits for its turn."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    most_names: int = 1_000
    only: str | None = None
    """The one table there is, where the page is of one."""

    def names(self, caller: Caller) -> tuple[list[str], bool]:
        """The names of tables, and whether these are all."""
        if self.only is not None:
            return [self.only], True
        found: list[str] = []
        with self._turn(self.openings, 0):
            for root in self.roots.of(caller):
                for name in tables_below(root):
                    if len(found) == self.most_names:
                        return found, False
                    found.append(name)
        return found, True

    @contextmanager
    def looked_at(self, name: str, caller: Caller, version: int | None = None) -> Iterator[OpenTable]:
        """A table for a call that answers at once."""
        with self._turn(self.openings, 0):
            yield self._opened(name, caller, version, self.reader_options, _FRUGAL)

    @contextmanager
    def listed(self, request: ReadRequest, caller: Caller, with_index: bool) -> Iterator[OpenTable]:
        """A table for a listing of its files, opened as by a process that never saw it: what listings with and without
        an index cost can be compared only so."""
        options = self.reader_options if with_index else {**self.reader_options, "delta.sidecar.enabled": False}
        with self._turn(self.streams, self.stream_bytes):
            opened = self._opened(request.table, caller, request.version, options, ReaderLimits(), is_fresh=True)
            try:
                yield opened
            finally:
                forget(opened.access.store)

    def _opened(
        self,
        name: str,
        caller: Caller,
        version: int | None,
        options: Mapping[str, Any],
        limits: ReaderLimits,
        is_fresh: bool = False,
    ) -> OpenTable:
        place = self.roots.place(name, caller)
        store = _FreshStore(place.store) if is_fresh else place.store
        try:
            table = DeltaTable(place.location.text, version, store=store, options=options, limits=limits)
        except TableNotFoundError:
            raise no_table(name) from None
        return OpenTable(name, table, replace(table._access, open_store=place.open_other))

    @contextmanager
    def _turn(self, budget: Budget, size: int) -> Iterator[None]:
        admission = budget.admit(size, self.patience)
        try:
            yield
        finally:
            admission.give_back()
