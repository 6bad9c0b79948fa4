"""The log over time: commits, checkpoints and indexes of the newest versions, by the names of their files alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from delta_sidecar.errors import ObjectNotFoundError, VersionNotFoundError
from delta_sidecar.index.format.index_names import directory_for, manifest_version
from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.dialect import LOG_DIRECTORY
from delta_sidecar.log.log_names import commit_name, version_prefix
from delta_sidecar.log.segment import LogListing
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import commit_info
from delta_sidecar.storage.store import ObjectMeta

SPAN: Final = 200
"""Versions that the timeline shows."""
_PAGES: Final = 2
"""Requests for older names, at most."""
_BUILD: Final = re.compile(r"v(\d{1,19})(?:-|$)")
_TOLD: Final = ("numFiles", "numAddedFiles", "numRemovedFiles", "numOutputRows", "numTargetRowsInserted")
_LONGEST: Final = 200


def log_of(snapshot: Snapshot, listings: Sequence[LogListing] = ()) -> dict[str, Any]:
    """The newest versions, as far as listings of the log tell."""
    head, first = snapshot.version, first_shown(snapshot)
    known = [*listings, snapshot.listing]
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
        "is_whole": known[0].start <= first,
    }


def first_shown(snapshot: Snapshot) -> int:
    return max(0, snapshot.version - SPAN + 1)


def older_names(snapshot: Snapshot) -> list[LogListing]:
    """The versions before those that opening the table listed: one request, seldom two; none if all are known."""
    first, known = first_shown(snapshot), snapshot.listing.start
    if known <= first:
        return []
    prefix = f"{LOG_DIRECTORY}/"
    pages = snapshot.store.list_after(prefix, prefix + version_prefix(first), prefix + version_prefix(known))
    objects: list[ObjectMeta] = [
        meta for page in islice(pages, _PAGES) for meta in page if "/" not in meta.path[len(prefix) :]
    ]
    return [LogListing.of(objects, first)]


def indexes_of(snapshot: Snapshot, with_others: bool) -> list[dict[str, Any]]:
    """The index, the older builds whose parts it still has, and, if wanted, other indexes that are there: one request,
    which may not tell all of them."""
    base = snapshot.segment.base
    shown: dict[int, dict[str, Any]] = {}
    if with_others:
        directory = f"{directory_for(snapshot.protocol)}/"
        for meta in next(snapshot.store.list_after(directory), []):
            version = manifest_version(meta.path[len(directory) :])
            if version is not None:
                shown[version] = {"version": version, "state": "other", "built_at": meta.last_modified_ms}
    if isinstance(base, IndexBase):
        parts = base.manifest.parts
        written = Counter(parts.build)
        for place, name in enumerate(parts.builds):
            if (found := _BUILD.match(name)) is not None:
                entry = shown.setdefault(int(found[1]), {"version": int(found[1])})
                entry |= {"state": "parts", "parts": entry.get("parts", 0) + written[place]}
        current = shown.setdefault(base.version, {"version": base.version})
        current |= {"state": "current", "built_at": base.manifest.built_at or None}
    return [shown[version] for version in sorted(shown)]


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
