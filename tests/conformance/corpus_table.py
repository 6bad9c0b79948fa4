"""A table of the conformance corpus while it is made: its log, its indexes, its cases, and damage done to them."""

from __future__ import annotations

import io
import json
import random
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from msgspec.structs import replace

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.read.manifests import listed_manifests
from delta_sidecar.limits import BuildLimits
from delta_sidecar.storage.local import LocalStore
from delta_sidecar.storage.store import ObjectMeta
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.testing import LogBuilder, add
from delta_sidecar.testing.actions import Spec
from tests.conformance import spec_model
from tests.conformance.spec_model import Bucket, Node

NOW = 1_770_768_000.0
"""When everything is built: 2026-02-11."""
MINUTE = 60_000
COLUMNS = ("path", "size", "modificationTime", "partitionValues", "deletionVector", "numRecords")
"""What a listing has unless a request names more."""
MANY = 10_000


class StoreWithoutEtags(LocalStore):
    """A local directory that tells no etags: those of a disk are of no use to whoever has a copy."""

    def head(self, path: str) -> ObjectMeta:
        return replace(super().head(path), etag=None)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        for page in super().list_after(prefix, offset, before):
            yield [replace(meta, etag=None) for meta in page]


@dataclass(slots=True)
class Making:
    """A table of the corpus while it is made."""

    root: Path
    about: str = ""
    log: LogBuilder = field(init=False)
    buckets: list[Bucket] = field(default_factory=list)
    requires: list[str] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = LogBuilder(self.root)

    def commit(self, *specs: Spec) -> Making:
        self.log.commit(*specs, mtime_ms=int(NOW * 1000) - 1000 * MINUTE + (self.log.version + 1) * MINUTE)
        return self

    def index(
        self,
        part_rows: int = 2,
        group_rows: int = MANY,
        version: int | None = None,
        full: bool = True,
        single: bool = False,
        **options: Any,
    ) -> Making:
        """An index of a version: of parts with so many rows, or of one part in one file."""
        limits = BuildLimits(
            row_group_rows=group_rows, single_rows=MANY if single else 0, small_rows=0, part_rows=part_rows
        )
        store = StoreWithoutEtags(parse_location(str(self.root)))
        with _fixed(f"{self.root.name} {version} {len(self.cases)} {self.log.version}"):
            build_index(store, version, BuildOptions(full=full, part_rows=part_rows, limits=limits, **options))
        for directory in self.directories:
            (directory / "_garbage").unlink(missing_ok=True)
        return self

    @property
    def directories(self) -> list[Path]:
        found = [self.log.log / name for name in ("_sidecars", "_sidecar_index")]
        return [directory for directory in found if directory.is_dir()]

    @property
    def indexed(self) -> int:
        """The version of the newest index."""
        return listed_manifests(LocalStore(parse_location(str(self.root))))[0][0]

    def file(self, name: str) -> Path:
        """The one file of the index whose name matches."""
        found = [path for directory in self.directories for path in sorted(directory.glob(name))]
        return found[0]

    def case(
        self,
        name: str,
        where: Node | None = None,
        version: int | None = None,
        index: str = "must",
        base: int | None = None,
        error: str | None = None,
        stats: bool = False,
        **more: Any,
    ) -> Making:
        """A request and, by the model, what it must find."""
        request: dict[str, Any] = {"version": version, "predicate": where}
        if stats:
            request["columns"] = [*COLUMNS, "stats"]
        case: dict[str, Any] = {"name": name, "request": request, **more}
        if error is not None:
            self.cases.append(case | {"error": error})
            return self
        history = self.log.history if version is None else self.log.history[: version + 1]
        table = spec_model.replay(history)
        must = self._numbers(spec_model.kept(table, where, self.buckets))
        without = self._numbers(spec_model.kept(table, where))
        others = sorted(set(self._numbers(table.files)) - set(must))
        case |= {"index": index} | ({"index_version": base} if base is not None else {})
        case |= {"must": must, "may": others}
        if without != must:
            case["without_buckets"] = without
        self.cases.append(case)
        return self

    def _numbers(self, adds: Sequence[Mapping[str, Any]]) -> list[int]:
        return sorted(self._number(described(body)) for body in adds)

    def _number(self, entry: dict[str, Any]) -> int:
        if entry not in self.files:
            self.files.append(entry)
        return self.files.index(entry)

    def _hinted(self) -> set[int]:
        """The versions that the hints name, as far as they can be read."""
        found = set()
        for path in (directory / "_last_index" for directory in self.directories):
            if path.exists() and path.read_text().endswith("}"):
                found.add(json.loads(path.read_text())["version"])
        return found

    def write(self) -> None:
        for case in self.cases:
            # A reader need not find an index that no hint names.
            if case.get("index") == "must" and case["index_version"] not in self._hinted():
                case["index"] = "may"
            if case.get("index") == "may":
                case.pop("index_version", None)
        content = {
            "table": self.root.name,
            "about": " ".join(self.about.split()),
            "requires": self.requires,
            "buckets": bool(self.buckets),
            "files": self.files,
            "cases": self.cases,
        }
        lines = []
        for key, value in content.items():
            if isinstance(value, list) and value and key != "requires":
                entries = ",\n  ".join(json.dumps(entry, ensure_ascii=False) for entry in value)
                lines.append(f"{json.dumps(key)}: [\n  {entries}\n ]")
            else:
                lines.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
        (self.root / "cases.json").write_text("{" + ",\n ".join(lines) + "}\n", encoding="utf-8")


def described(body: Mapping[str, Any]) -> dict[str, Any]:
    """A live file as cases have it."""
    records = spec_model.spec.stats_of(body.get("stats")).get("numRecords")
    return {
        "path": body["path"],
        "size": body["size"],
        "modificationTime": body["modificationTime"],
        "partitionValues": body["partitionValues"],
        "deletionVector": body.get("deletionVector"),
        "numRecords": records if type(records) is int and records >= 0 else None,
        "stats": body.get("stats"),
    }


@contextmanager
def _fixed(seed: str) -> Iterator[None]:
    """Names and times that are the same whenever the corpus is made."""
    source = random.Random(seed)
    made = lambda: uuid.UUID(int=source.getrandbits(128), version=4)  # noqa: E731
    with patch("uuid.uuid4", made), patch("time.time", lambda: NOW):
        yield


# Predicates.


def both(*terms: Node) -> Node:
    return {"op": "and", "terms": list(terms)}


def either(*terms: Node) -> Node:
    return {"op": "or", "terms": list(terms)}


def no(term: Node) -> Node:
    return {"op": "not", "term": term}


def is_(name: str, op: str, value: Any) -> Node:
    return {"op": op, "column": name.split("/"), "value": value}


def among(name: str, *values: Any) -> Node:
    return {"op": "in", "column": name.split("/"), "values": list(values)}


def null(name: str) -> Node:
    return {"op": "is null", "column": name.split("/")}


def stats(
    low: Mapping[str, Any], high: Mapping[str, Any] | None = None, rows: int = 10, **nulls: int
) -> dict[str, Any]:
    return {"numRecords": rows, "minValues": low, "maxValues": low if high is None else high, "nullCount": nulls}


def numbered(n: int, **more: Any) -> Any:
    """A file in which `x` is n."""
    return add(f"f{n}.parquet", size=100 + n, modification_time=int(NOW * 1000) + n, stats=stats({"x": n}, x=0), **more)


# Damage.


def flip(path: Path, *columns: str) -> None:
    """Change a bit so that a careless reader sees other values in the columns, and no error."""
    data = path.read_bytes()
    right = pq.read_table(io.BytesIO(data), use_threads=False)
    footer = int.from_bytes(data[-8:-4], "little")
    for at in range(4, len(data) - footer - 8):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        try:
            found = pq.read_table(io.BytesIO(changed), use_threads=False)
            same = all(found.column(name).equals(right.column(name)) for name in columns)
            found.to_pylist()
        except Exception:
            continue
        if not same:
            path.write_bytes(changed)
            return
    raise AssertionError(f"no bit of {path} goes unseen")


def reseal(path: Path, change: Callable[[str], str]) -> None:
    """Change the inner object of a manifest, with a right checksum."""
    text = path.read_text("utf-8")
    inner = change(text[31:-1])
    assert inner != text[31:-1]
    path.write_text(f'{{"crc32":"{zlib.crc32(inner.encode()):08x}","manifest":{inner}}}', "utf-8")
