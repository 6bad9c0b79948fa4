"""A simple model of the reader: a forward replay of every commit.

The reader, with its windows, masks and streams, must give the same result as this model with its dictionaries. It
imports nothing of `log`, so it does not share its mistakes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

Action: TypeAlias = Mapping[str, Any]
"""One action as the log writes it: `{"add": {...}}`."""

FileKey: TypeAlias = tuple[bytes, str]
"""What makes a file of the log the same file: canonical path and deletion vector id."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?(/.*)", re.DOTALL)
_ENCODED_SLASH = re.compile("%2f", re.IGNORECASE)
_COMMIT = re.compile(r"\d{20}\.json")


@dataclass(slots=True)
class TableState:
    """Everything the log says at one version."""

    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    files: dict[FileKey, dict[str, Any]] = field(default_factory=dict)
    """The live files: the body of the newest `add` of each."""
    tombstones: dict[FileKey, dict[str, Any]] = field(default_factory=dict)
    transactions: dict[str, dict[str, Any]] = field(default_factory=dict)
    domains: dict[str, dict[str, Any]] = field(default_factory=dict)

    def apply(self, commit: Iterable[Action]) -> None:
        """One commit. Removes first: a file both removed and added in one commit is live."""
        actions = [(kind, body) for action in commit for kind, body in action.items()]
        for kind, body in actions:
            if kind == "remove":
                self.files.pop(file_key(body), None)
                self.tombstones[file_key(body)] = dict(body)
        for kind, body in actions:
            if kind == "add":
                self.tombstones.pop(file_key(body), None)
                self.files[file_key(body)] = dict(body)
            elif kind == "protocol":
                self.protocol = dict(body)
            elif kind == "metaData":
                self.metadata = dict(body)
            elif kind == "txn":
                self.transactions[body["appId"]] = dict(body)
            elif kind == "domainMetadata":
                self.domains[body["domain"]] = dict(body)


def replay(commits: Iterable[Iterable[Action]]) -> TableState:
    """The state after those commits, oldest first; the first one is version 0."""
    state = TableState()
    for commit in commits:
        state.apply(commit)
    return state


def read_commits(table: Path, version: int | None = None) -> list[list[Action]]:
    """The commits 0 … `version` (default: all) of a table on disk; every one of them must be there."""
    names = sorted(p.name for p in (table / "_delta_log").iterdir() if _COMMIT.fullmatch(p.name))
    wanted = names if version is None else names[: version + 1]
    if [int(name[:20]) for name in wanted] != list(range(len(names) if version is None else version + 1)):
        raise FileNotFoundError(f"not all commits up to version {version} are in {table}; the model needs every one")
    return [parse_commit((table / "_delta_log" / name).read_text()) for name in wanted]


def parse_commit(text: str) -> list[Action]:
    """The actions of a commit file."""
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def file_key(body: Mapping[str, Any]) -> FileKey:
    """The key of an `add` or `remove`."""
    return canonical_path(body["path"]), deletion_vector_id(body.get("deletionVector"))


def deletion_vector_id(vector: Mapping[str, Any] | None) -> str:
    """The protocol's unique id of a deletion vector; empty where there is none."""
    if vector is None:
        return ""
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}" + ("" if offset is None else f"@{offset}")


def canonical_path(path: str) -> bytes:
    """One form for all spellings of a path, for a table on a local disk: `/x`, `file:/x`, `file:///x` are one,
    and so are a character and its percent escape; an escaped slash stays apart from a slash."""
    scheme, authority, rest = "", "", path
    if match := _URI.fullmatch(path):
        scheme, authority, rest = match[1].lower(), match[2] or "", match[3]
    elif path.startswith("/"):
        scheme = "file"
    scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
    plain = b"\0".join(unquote_to_bytes(piece) for piece in _ENCODED_SLASH.split(_without_dots(rest)))
    return f"{scheme}\0{authority}\0".encode() + plain


def _without_dots(path: str) -> str:
    kept: list[str] = []
    for segment in re.sub("/+", "/", path).split("/"):
        if segment == ".." and kept and kept[-1] not in ("", ".."):
            kept.pop()
        elif segment != ".":
            kept.append(segment)
    return "/".join(kept)


def live_paths(commits: Sequence[Iterable[Action]]) -> list[str]:
    """The paths of the live files, in the log's own text, sorted."""
    return sorted(body["path"] for body in replay(commits).files.values())
