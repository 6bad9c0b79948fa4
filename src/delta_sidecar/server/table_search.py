"""The tables below a root, found as they are asked for, with bounds on how much is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from delta_sidecar.server.roots import Root
from delta_sidecar.storage.store import Store

_LOG: Final = "_delta_log"
_DIRECTORIES: Final = 10_000
"""Local directories looked into, at most."""
_REQUESTS: Final = 200
"""Requests to an object store, at most."""
_DEEPEST: Final = 8
_HIDDEN: Final = (".", "_")
"""Directories that begin so are not looked into."""


def tables_below(root: Root, directories: int = _DIRECTORIES, requests: int = _REQUESTS) -> Iterator[str]:
    """The names of tables below a root, in path order. Tables inside of tables are not looked for."""
    if root.real_path is not None:
        yield from _local(root.name, root.real_path, directories)
    else:
        yield from _remote(root.name, root.open(root.location), requests)


def _local(name: str, path: str, directories: int) -> Iterator[str]:
    """Symlinks are not followed: they may lead out of the root, or in circles."""
    open_directories = [(name, path, 0)]
    while open_directories and directories:
        directories -= 1
        name, path, depth = open_directories.pop()
        if os.path.isdir(f"{path}/{_LOG}"):
            yield name
        elif depth < _DEEPEST:
            open_directories += [(f"{name}/{each}", f"{path}/{each}", depth + 1) for each in _inner(path)]


def _inner(path: str) -> list[str]:
    """Directories that may hold tables, last first."""
    try:
        with os.scandir(path) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted((name for name in names if not name.startswith(_HIDDEN) and "\\" not in name), reverse=True)


def _remote(name: str, store: Store, requests: int) -> Iterator[str]:
    """One page at a time. Every directory on the way to an object is asked once whether it has a log; the listing goes
    on after a table's last possible name."""
    if requests and _has_log(store, ""):
        yield name
        return
    looked: dict[str, bool] = {}
    offset = ""
    while requests > 0:
        requests -= 1
        page = next(store.list_after("", offset), None)
        if not page:
            return
        for each in page:
            offset = each.path
            found, asked = _table_of(store, each.path, looked)
            requests -= asked
            if found is not None:
                yield f"{name}/{found}"
                offset = f"{found}0"  # the character after "/"
                break
            if requests <= 0:
                return


def _table_of(store: Store, path: str, looked: dict[str, bool]) -> tuple[str | None, int]:
    """The table that an object is part of, and how often the store was asked."""
    parts, asked = path.split("/")[:-1], 0
    for depth in range(1, min(len(parts), _DEEPEST) + 1):
        if parts[depth - 1].startswith(_HIDDEN) or "\\" in parts[depth - 1]:
            break
        directory = "/".join(parts[:depth])
        if directory not in looked:
            looked[directory] = _has_log(store, directory)
            asked += 1
        if looked[directory]:
            return directory, asked
    return None, asked


def _has_log(store: Store, directory: str) -> bool:
    prefix = f"{directory}/{_LOG}/" if directory else f"{_LOG}/"
    return bool(next(store.list_after(prefix), None))
