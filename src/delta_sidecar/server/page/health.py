"""The health of a table at a glance: what makes listings slow, and the command that mends it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.log.segment import LogListing
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.server.page.part_map import index_of
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.texts import counted, sized

State = Literal["good", "fair", "poor", "unknown"]

_BEHIND: Final = (20, 200)
"""Versions that an index may be behind: fair beyond the first, poor beyond the second."""
_TAIL: Final = (50, 500)
"""Commits of a tail."""
_TAIL_BYTES: Final = (8 << 20, 64 << 20)
_CHECKPOINT: Final = (100, 1_000)
"""Versions since the newest checkpoint."""
_SMALL: Final = (32 << 20, 4 << 20)
"""Mean bytes of a data file: fair below the first, poor below the second."""
_FEW_FILES: Final = 1_000
"""So few files are listed quickly, however small they are."""


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    state: State
    text: str
    command: str | None = None
    """What mends it; None if nothing must be."""


def findings(snapshot: Snapshot, newest: LogListing) -> list[Finding]:
    """What can be told of an open table and a listing of its newest versions, without reading any of them."""
    index = index_of(snapshot)
    table = shlex.quote(parse_location(snapshot.store.root_uri).text)
    return [
        _index(snapshot, index, table),
        *_behind(snapshot, index, table),
        _tail(snapshot, index, table),
        _checkpoint(snapshot, newest, table),
        _files(index, table),
    ]


def _index(snapshot: Snapshot, index: IndexBase | None, table: str) -> Finding:
    if index is not None:
        parts = counted(index.part_count, "part")
        return Finding("Index", "good", f"Version {index.version:,}, {parts}, {sized(index.size)}.")
    if isinstance(snapshot.segment.base, IndexBase):
        text = "There is one, but its list of parts is damaged."
        return Finding("Index", "poor", text, f"sidecar build --full {table}")
    if snapshot.passed_over:
        text = f"There is one, but it is not used: {snapshot.passed_over}."
        return Finding("Index", "poor", text, f"sidecar build --full {table}")
    read = "the log from version 0" if snapshot.segment.base is None else "the whole checkpoint"
    return Finding("Index", "poor", f"None: every listing reads {read}.", f"sidecar build {table}")


def _behind(snapshot: Snapshot, index: IndexBase | None, table: str) -> Iterator[Finding]:
    if index is None:
        return
    behind = snapshot.version - index.version
    state = _state(behind, *_BEHIND)
    text = "Up to date." if not behind else f"{counted(behind, 'version')} behind the table."
    more = " Build it after each checkpoint: add --watch." if state != "good" else ""
    yield Finding("Index age", state, text + more, None if state == "good" else f"sidecar build {table}")


def _tail(snapshot: Snapshot, index: IndexBase | None, table: str) -> Finding:
    segment = snapshot.segment
    state = max(_state(len(segment.commits), *_TAIL), _state(segment.tail_bytes, *_TAIL_BYTES), key=_WORSE.index)
    after = "the index" if index is not None else "the checkpoint" if segment.base is not None else "the beginning"
    size = f"{counted(len(segment.commits), 'commit')}, {sized(segment.tail_bytes)} since {after}"
    text = f"{size}." if state == "good" else f"{size}: each listing reads them all."
    return Finding("Tail", state, text, None if state == "good" else f"sidecar build {table}")


def _checkpoint(snapshot: Snapshot, listing: LogListing, table: str) -> Finding:
    found = [*listing.bases(snapshot.version), *snapshot.listing.bases(snapshot.version)]
    newest = max(found, key=lambda each: each.version, default=None)
    behind = snapshot.version + 1 if newest is None else snapshot.version - newest.version
    state = _state(behind, *_CHECKPOINT)
    if newest is not None:
        text = f"Version {newest.version:,}, {counted(behind, 'version')} ago, {sized(newest.size)}."
    else:
        text = "None yet." if state == "good" else _NONE
    if state == "good":
        return Finding("Checkpoint", state, text)
    return Finding("Checkpoint", state, f"{text} {_ABORTS}", f"sidecar maintain {table} --only checkpoint")


_NONE: Final = "None was found: readers without the index replay the log."
_ABORTS: Final = "Making one aborts writes that are running."


def _files(index: IndexBase | None, table: str) -> Finding:
    if index is None:
        return Finding("File sizes", "unknown", "Not known without reading them all; an index tells.")
    files, size = index.manifest.files, index.manifest.bytes
    if not files:
        return Finding("File sizes", "good", "No files.")
    mean = size // files
    text = f"{sized(mean)} on average, {counted(files, 'file')}, {sized(size)}."
    if files < _FEW_FILES or mean >= _SMALL[0]:
        return Finding("File sizes", "good", text)
    return Finding(
        "File sizes",
        "poor" if mean < _SMALL[1] else "fair",
        f"Small: {text}",
        f"sidecar maintain {table} --only optimize",
    )


_WORSE: Final[list[State]] = ["good", "fair", "poor"]


def _state(value: int, fair: int, poor: int) -> State:
    return "good" if value <= fair else "fair" if value <= poor else "poor"
