"""The roots: named places below which tables are served. `lake/events` is the table `events` below the root `lake`."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from delta_sidecar.errors import InputError, TableNotFoundError
from delta_sidecar.server.rooted_store import OtherRoots, RootedStore, is_below
from delta_sidecar.server.tokens import Caller
from delta_sidecar.storage.opening import open_location
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import Location, parse_location

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LONGEST: Final = 1024
_FORM: Final = "a table is named ROOT/path/below/the/root"


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """A place whose tables are served under its name."""

    name: str
    location: Location
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    opened: Callable[[Location], Store] | None = field(default=None, repr=False)
    """Opens a store at a place below, for tests; else the storage options do."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"the root name {self.name!r} is not made of letters, digits, _, . and -")
        if self.location.scheme == "file" and not os.path.isdir(self.location.path):
            raise InputError(f"the root {self.name} is {self.location.path}, which is not a directory")

    @property
    def real_path(self) -> str | None:
        """The directory, once symlinks are followed; None for an object store."""
        return os.path.realpath(self.location.path) if self.location.scheme == "file" else None

    def open(self, location: Location) -> Store:
        """The store at a place below."""
        if self.opened is not None:
            return self.opened(location)
        return open_location(location, self.storage_options or None)


def root_of(text: str, storage_options: Mapping[str, str] | None = None) -> Root:
    """The root that `NAME=ROOT` means."""
    name, equals, place = text.partition("=")
    if not equals or not place:
        raise InputError(f"{text.partition('?')[0]!r} is not a root; write NAME=ROOT, such as lake=/data/lake")
    return Root(name, parse_location(place), storage_options or {})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is, for one caller."""

    name: str
    location: Location
    store: Store = field(repr=False)
    open_other: Callable[[str], Store] = field(repr=False)
    """Opens the container of files that the table has elsewhere, as far as the caller's roots go."""


class Roots:
    """All roots of a server."""

    def __init__(self, roots: Iterable[Root]) -> None:
        self._roots: dict[str, Root] = {}
        for root in roots:
            if root.name in self._roots:
                raise InputError(f"two roots are named {root.name}; give each a name of its own")
            self._roots[root.name] = root
        if not self._roots:
            raise InputError("there is no root to serve; give NAME=ROOT, such as lake=/data/lake")

    def of(self, caller: Caller) -> list[Root]:
        """The roots that are a caller's."""
        return [root for root in self._roots.values() if caller.may_read(root.name)]

    def place(self, table: str, caller: Caller) -> Place:
        """Where a table is. A root that is not the caller's is as absent as one that is not there."""
        name, *below = segments(table)
        root = self._roots.get(name)
        if root is None or not caller.may_read(name):
            raise no_table(table)
        location = root.location.join("/".join(below)) if below else root.location
        readable = self.of(caller)
        store_of = partial(_store_of, readable)
        open_other = partial(_container, store_of=store_of)
        if root.real_path is None:
            return Place(table, location, root.open(location), open_other)
        real = os.path.realpath(location.path)
        if not is_below(real, [root.real_path]):
            _log.warning("the table %r leads out of its root, by a symlink", table)
            raise no_table(table)
        location = Location("file", "", real)
        return Place(table, location, _guarded(root, location, readable), open_other)


def segments(table: str) -> list[str]:
    """The parts of a table's name; `InputError` for one that could mean anything else."""
    parts = table.split("/")
    if len(table) > _LONGEST or not table.isprintable() or "\\" in table or any(p in ("", ".", "..") for p in parts):
        shown = table if len(table) <= 80 else f"{table[:80]}…"
        raise InputError(f"{shown!r} is not the name of a table: {_FORM}, without . or .. or empty parts")
    return parts


def no_table(name: str) -> TableNotFoundError:
    """The error for a table that is not there, or not for this caller."""
    return TableNotFoundError(f"there is no Delta table {name!r} on this server, or it is not for you")


def _guarded(root: Root, location: Location, readable: Sequence[Root]) -> Store:
    allowed = [path for each in readable if (path := each.real_path) is not None]
    return RootedStore(root.open(location), location.path, allowed)


def _container(uri: str, store_of: Callable[[Location], tuple[Store, str] | None]) -> Store:
    return OtherRoots(parse_location(uri), store_of)


def _store_of(readable: Sequence[Root], place: Location) -> tuple[Store, str] | None:
    """The store of the root that a place is below, and the path in it."""
    for root in readable:
        below = root.location.relative(place)
        if below is not None:
            store = root.open(root.location) if root.real_path is None else _guarded(root, root.location, readable)
            return store, below
    return None
