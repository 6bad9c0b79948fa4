"""Delta logs in any state, built one step at a time.

    LogBuilder(tmp).protocol(reader=3, features=["deletionVectors"]).commit(add("a.parquet")).checkpoint("v2-json")

No data files are written: a listing needs none (`testing.data_files` makes small ones). The builder remembers every
commit, so `state(version)` still answers by the dumb model after the log itself was cleaned up or broken.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote

from delta_sidecar.testing import actions
from delta_sidecar.testing.actions import Spec, Stats, wire
from delta_sidecar.testing.checkpoint_files import (
    CheckpointFiles,
    CheckpointKind,
    CheckpointLayout,
    StringKind,
    checkpoint_files,
)
from delta_sidecar.testing.model import Action, TableState, replay

HintFault: TypeAlias = Literal["corrupt", "checksum", "future", "empty"]
CrcFault: TypeAlias = Literal["corrupt", "no metadata", "no protocol", "empty"]


class LogBuilder:
    """A Delta log that grows, and then is damaged, by method calls that can be chained."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.log = self.root / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)
        self.history: list[list[Action]] = []
        """Every commit ever made, version 0 first, whatever became of its file."""
        self.checkpoints: list[tuple[int, CheckpointFiles]] = []
        """Every complete checkpoint ever written, oldest first."""
        self._pending: list[Action] = []

    @property
    def version(self) -> int:
        """The version of the newest commit; -1 before the first."""
        return len(self.history) - 1

    def state(self, version: int | None = None) -> TableState:
        """What the log says at a version (default: the newest), by the dumb model."""
        return replay(self.history if version is None else self.history[: version + 1])

    def protocol(
        self,
        reader: int = 1,
        writer: int | None = None,
        features: Sequence[str] | None = None,
        writer_features: Sequence[str] | None = None,
    ) -> Self:
        """A protocol action in the next commit."""
        self._pending.append(actions.protocol(reader, writer, features, writer_features))
        return self

    def metadata(
        self,
        columns: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Self:
        """A metadata action in the next commit."""
        self._pending.append(actions.metadata(columns, partition_by, configuration, **more))
        return self

    def commit(
        self,
        *specs: Spec,
        info: Mapping[str, Any] | bool = True,
        in_commit_timestamp: int | None = None,
        mtime_ms: int | None = None,
    ) -> Self:
        """The next version. The first commit gets a protocol and metadata unless they were given."""
        body = [*self._pending, *map(wire, specs)]
        if not self.history:
            body = self._defaults(body) + body
        if info is not False:
            body.insert(0, _commit_info(info, in_commit_timestamp))
        self._pending = []
        self.history.append(body)
        self._write(commit_name(self.version), json_lines(body))
        return self if mtime_ms is None else self.touch(self.version, mtime_ms)

    def checkpoint(
        self,
        kind: CheckpointKind = "classic",
        version: int | None = None,
        *,
        parts: int = 2,
        stats: bool = True,
        stats_parsed: bool = False,
        partition_parsed: bool = False,
        tombstones: bool = True,
        row_group_size: int | None = None,
        strings: StringKind = "string",
        hint: bool = True,
    ) -> Self:
        """A checkpoint of a version (default: the newest), and a `_last_checkpoint` that names it."""
        layout = CheckpointLayout(
            kind, parts, stats, stats_parsed, partition_parsed, tombstones, row_group_size, strings
        )
        at = self.version if version is None else version
        made = checkpoint_files(self.state(at), at, layout, seed=str(len(self.checkpoints)))
        for name, data in made.files.items():
            self._write(name, data)
        self.checkpoints.append((at, made))
        return self.hint(made.hint) if hint else self

    def incomplete_checkpoint(self, version: int | None = None, parts: int = 3) -> Self:
        """A multi-part checkpoint whose last part never came."""
        at = self.version if version is None else version
        made = checkpoint_files(self.state(at), at, CheckpointLayout("multi-part", parts))
        for name in sorted(made.files)[:-1]:
            self._write(name, made.files[name])
        return self

    def hint(self, body: Mapping[str, Any] | int | None = None, fault: HintFault | None = None) -> Self:
        """`_last_checkpoint`: a body, a version, or (nothing) the newest checkpoint; right or with a fault."""
        if body is None:
            body = self.checkpoints[-1][1].hint if self.checkpoints else {"version": self.version, "size": 1}
        plain = {"version": body, "size": 1} if isinstance(body, int) else dict(body)
        if fault == "future":
            plain["version"] = self.version + 7
        signed = plain | {"checksum": "0" * 32 if fault == "checksum" else hint_checksum(plain)}
        text = {"corrupt": '{"version":', "empty": ""}.get(fault or "", json.dumps(signed, separators=(",", ":")))
        self._write("_last_checkpoint", text.encode())
        return self

    def without_hint(self) -> Self:
        (self.log / "_last_checkpoint").unlink(missing_ok=True)
        return self

    def compact(self, first: int, last: int) -> Self:
        """A log compaction file of the commits `first` … `last`."""
        self._write(f"{first:020}.{last:020}.compacted.json", json_lines(compacted(self.history[first : last + 1])))
        return self

    def crc(self, version: int | None = None, fault: CrcFault | None = None) -> Self:
        """The checksum file of a version: with protocol and metadata, or with a fault."""
        at = self.version if version is None else version
        state = self.state(at)
        body: dict[str, Any] = {
            "tableSizeBytes": sum(f["size"] for f in state.files.values()),
            "numFiles": len(state.files),
            "numMetadata": 1,
            "numProtocol": 1,
        }
        body |= {} if fault == "no metadata" else {"metadata": state.metadata}
        body |= {} if fault == "no protocol" else {"protocol": state.protocol}
        text = {"corrupt": '{"tableSizeBytes":1,"meta', "empty": ""}.get(fault or "", json.dumps(body))
        self._write(f"{at:020}.crc", text.encode())
        return self

    def touch(self, version: int, mtime_ms: int) -> Self:
        """The modification time of a commit file."""
        os.utime(self.log / commit_name(version), ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))
        return self

    def cleanup(self, before: int) -> Self:
        """Log cleanup: every commit, checksum and compaction that begins before a version is gone."""
        for path in self.log.iterdir():
            versioned = path.is_file() and path.name[:20].isdigit() and ".checkpoint." not in path.name
            if versioned and int(path.name[:20]) < before:
                path.unlink()
        return self

    def drop(self, version: int) -> Self:
        """One commit file is gone: a gap, unless a checkpoint covers it."""
        (self.log / commit_name(version)).unlink()
        return self

    def drop_checkpoint(self, index: int = -1) -> Self:
        """A checkpoint is gone with all its files."""
        for name in self.checkpoints[index][1].files:
            (self.log / name).unlink(missing_ok=True)
        return self

    def break_checkpoint(self, index: int = -1, how: Literal["garbage", "empty", "sidecar"] = "garbage") -> Self:
        """A checkpoint's files hold garbage, or nothing, or (V2) its first sidecar is gone."""
        made = self.checkpoints[index][1]
        if how == "sidecar":
            (self.log / made.sidecars[0]).unlink()
            return self
        for name in made.files:
            self._write(name, b"" if how == "empty" else b"PAR1 this is no checkpoint PAR1")
        return self

    def litter(self) -> Self:
        """What other software leaves in `_delta_log`, and no reader may stumble over."""
        newest = self.version + 3
        for name, data in {
            "_sidecars/left-over.parquet": b"?",
            f"_sidecars/{newest:020}.checkpoint.parquet": b"?",
            f"_staged_commits/{newest:020}.0d0a.json": b"{}\n",
            f"_staged_commits/{newest:020}.json": b"{}\n",
            f".{newest:020}.json.tmp": b"{",
            f"{newest:020}.json.tmp": b"{",
            f"_commit_{newest}.json.tmp": b"{",
            f"{newest:020}.checkpoint.parquet.tmp": b"PAR1",
            f"{newest:020}.checkpoint.parquet": b"",
            f".{newest:020}.crc.crc": b"crc",
            "readme.txt": b"hello",
            f"archive/{newest:020}.json": b"{}\n",
        }.items():
            self._write(name, data)
        return self

    def _defaults(self, body: Sequence[Action]) -> list[Action]:
        kinds = {kind for action in body for kind in action}
        defaults = [] if "protocol" in kinds else [actions.protocol()]
        return defaults + ([] if "metaData" in kinds else [actions.metadata()])

    def _write(self, name: str, data: bytes) -> None:
        path = self.log / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


def commit_name(version: int) -> str:
    return f"{version:020}.json"


def json_lines(body: Sequence[Action]) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in body).encode()


def compacted(commits: Sequence[Sequence[Action]]) -> list[Action]:
    """The actions that several commits amount to: the last word on every key."""
    state = replay(commits)
    whole: list[Action] = [{"protocol": state.protocol}] if state.protocol else []
    whole += [{"metaData": state.metadata}] if state.metadata else []
    whole += [{"txn": body} for body in state.transactions.values()]
    whole += [{"domainMetadata": body} for body in state.domains.values()]
    whole += [{"add": body} for body in state.files.values()]
    return whole + [{"remove": body} for body in state.tombstones.values()]


def hint_checksum(body: Mapping[str, Any]) -> str:
    """The md5 of a `_last_checkpoint`, over the canonical form the protocol gives."""
    pairs = ",".join(f"{'+'.join(path)}={value}" for path, value in sorted(_canonical(body, ())))
    return hashlib.md5(pairs.encode(), usedforsecurity=False).hexdigest()


def _canonical(value: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
    if isinstance(value, Mapping):
        return [p for k, v in value.items() if path or k != "checksum" for p in _canonical(v, (*path, _quoted(k)))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in _canonical(v, (*path, str(i)))]
    return [(path, _quoted(value) if isinstance(value, str) else json.dumps(value))]


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-_.~")}"'


def _commit_info(info: Stats | bool, in_commit_timestamp: int | None) -> Action:
    body = dict(actions.commit_info()["commitInfo"]) | (dict(info) if isinstance(info, Mapping) else {})
    return {"commitInfo": body if in_commit_timestamp is None else {"inCommitTimestamp": in_commit_timestamp} | body}
