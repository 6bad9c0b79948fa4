"""The log over time: commits, checkpoints and indexes of the newest versions, by the names of their files alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from delta_sidecar.errors import ObjectNotFoundError, VersionNotFoundError
from delta_sidecar.index.format.index_names import directory_for, manifest_version
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.dialect import LOG_DIRECTORY
from delta_sidecar.log.log_names import commit_name, version_prefix
from delta_sidecar.log.segment import LogListing
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import commit_info
from delta_sidecar.server.page.part_map import index_of
from delta_sidecar.storage.store import LIST_PAGE, ObjectMeta

SPAN: Final = 200
"""Versions that the timeline shows."""
_PAGES: Final = 2
"""Requests for names, at most."""
_BUILD: Final = re.compile(r"v(\d{1,19})(?:-|$)")
_TOLD: Final = ("numFiles", "numAddedFiles", "numRemovedFiles", "numOutputRows", "numTargetRowsInserted")
_LONGEST: Final = 200


class LogNames(Struct, frozen=True):
    """Names of the newest versions, as they are now; opening a table may have listed fewer, or earlier."""

    log: LogListing
    indexes: dict[int, ObjectMeta]
    """Manifests by their versions."""
    are_all: bool


def log_names(snapshot: Snapshot) -> LogNames:
    """One request, seldom two: subdirectories sort after all versions, so one listing tells of indexes, too."""
    first = max(0, snapshot.version - SPAN + 1)
    prefix, indexes = f"{LOG_DIRECTORY}/", f"{directory_for(snapshot.protocol)}/"
    objects: list[ObjectMeta] = []
    pages = snapshot.store.list_after(prefix, prefix + version_prefix(first))
    are_all = True
    for number, page in enumerate(islice(pages, _PAGES), 1):
        objects += page
        are_all = number < _PAGES or len(page) < LIST_PAGE
    log = [meta for meta in objects if "/" not in meta.path[len(prefix) :]]
    named = ((manifest_version(meta.path[len(indexes) :]), meta) for meta in objects if meta.path.startswith(indexes))
    return LogNames(
        LogListing.of(log, first), {version: meta for version, meta in named if version is not None}, are_all
    )


def timeline(snapshot: Snapshot, names: LogNames) -> dict[str, Any]:
    """The newest versions."""
    head, first = snapshot.version, names.log.start
    known = [names.log, snapshot.listing]
    commits = {version: meta for each in known for version, meta in each.commits.items() if first <= version <= head}
    checkpoints = {each.content: each for one in known for each in one.checkpoints if first <= each.version <= head}
    return {
        "first": first,
        "head": head,
        "base": snapshot.segment.base_version,
        "commits": [[version, meta.size, meta.last_modified_ms] for version, meta in sorted(commits.items())],
        "checkpoints": [
            [each.version, each.kind.value, each.size, len(each.files)]
            for each in sorted(checkpoints.values(), key=lambda each: each.version)
        ],
        "indexes": _indexes(snapshot, names.indexes),
        "is_whole": names.are_all,
    }


def _indexes(snapshot: Snapshot, named: Mapping[int, ObjectMeta]) -> list[dict[str, Any]]:
    """The index, older builds whose parts it still has, and other indexes that are there."""
    shown: dict[int, dict[str, Any]] = {version: {"version": version, "state": "other"} for version in named}
    base = index_of(snapshot)
    if base is not None:
        parts = base.manifest.parts
        written = Counter(parts.build)
        for place, name in enumerate(parts.builds):
            if (found := _BUILD.match(name)) is not None:
                entry = shown.setdefault(int(found[1]), {"version": int(found[1])})
                entry |= {"state": "parts", "parts": entry.get("parts", 0) + written[place]}
        shown[base.version] = {**shown.get(base.version, {}), "version": base.version, "state": "current"}
    newest = sorted(shown, reverse=True)[:SPAN]
    return [shown[version] for version in reversed(newest)]


def told_of_commit(snapshot: Snapshot, version: int) -> dict[str, Any]:
    """What a commit says of itself, as far as a page shows it."""
    path = f"{LOG_DIRECTORY}/{commit_name(version)}"
    try:
        meta = snapshot.store.head(path)
        info = commit_info(CommitBytes(snapshot.store), meta) or {}
    except ObjectNotFoundError:
        raise VersionNotFoundError(f"the commit of version {version} is gone; a checkpoint or index holds it") from None
    counts = info.get("operationMetrics")
    counts = counts if isinstance(counts, dict) else {}
    return {
        "version": version,
        "time": meta.last_modified_ms,
        "bytes": meta.size,
        "operation": _text(info.get("operation")),
        "engine": _text(info.get("engineInfo")),
        "counts": {name: _text(counts[name]) for name in _TOLD if name in counts},
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:_LONGEST]
