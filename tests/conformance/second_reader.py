"""A second reader, written from docs/spec alone: it lists the live files of a Delta table on a local disk.

It reads commits, checkpoints and indexes, makes the checks that the specification demands, and takes an index as its
base wherever that is right (but not `v{C}.parquet` without a manifest). Pruning is in second_pruning.py:
`pruner_of` makes a `PredicatePruner` of a table's protocol and metadata; without it, all live files are listed.
"""

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

import pyarrow as pa
import pyarrow.parquet as pq

Json = dict[str, Any]
UNUSABLE = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError, pa.ArrowException)
FEATURES = {f"{name}{end}" for name in ("typeWidening", "variantType", "variantShredding") for end in ("", "-preview")}
FEATURES |= {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}
CHECKPOINT = r"(?a)(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})\.parquet|\.parquet|\.[\da-fA-F-]{36}\.(?:json|parquet))"
ADD_FIELDS = ("path", "size", "modificationTime", "partitionValues", "deletionVector", "stats")
CORE_COLUMNS = {"path", "size", "modification_time", "partition_values", "partition", "num_records", "dv"}
ARRAYS = ["build", "number", "rows", "row_groups", "bytes", "records", "key_min", "key_max", "key_unknown"]
ARRAYS += ["time_min", "time_max", "time_unknown", "path_min", "path_max", "vectors", "off_bucket"]
FILE_ARRAYS = ("size", "footer", "crc32", "footer_crc32")


class TableError(Exception):
    """There is no such table or version, or it cannot be read."""


def canonical(path: str, scheme: str = "file", authority: str = "") -> str:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://([^/]*))?", path)
    if match:
        scheme, authority, path = match[1], match[2] or "", path[match.end() :]
    segments: list[bytes] = []
    for segment in map(unquote_to_bytes, path.split("/")):
        if segment == b".." and segments and segments[-1] != b"..":
            segments.pop()
        elif segment not in (b"", b"."):
            segments.append(segment)
    start = f"{SCHEMES.get(scheme.lower(), scheme.lower())}://{authority}/" if match or path.startswith("/") else ""
    return start + "/".join(quote_from_bytes(segment, "") for segment in segments)


def vector_id(vector: Json | None) -> str:
    offset = vector.get("offset") if vector else None
    return vector["storageType"] + vector["pathOrInlineDv"] + ("" if offset is None else f"@{offset}") if vector else ""


def key_of(action: Json) -> tuple[str, str]:
    return canonical(action["path"]), vector_id(action.get("deletionVector"))


def add_of(row: Json) -> Json:
    texts = {name: None if value is None else str(value) for name, value in (row.get("partition") or {}).items()}
    add = {"modificationTime": row["modification_time"], "deletionVector": row.get("dv")}
    return row | add | {"partitionValues": row.get("partition_values", texts), "numRecords": row.get("num_records")}


def file_of(add: Json) -> Json:
    try:
        records = add["numRecords"] if "numRecords" in add else json.loads(add.get("stats") or "{}").get("numRecords")
    except (ValueError, AttributeError):
        records = None
    vector = {name: value for name, value in (add.get("deletionVector") or {}).items() if value is not None} or None
    file = {name: add[name] for name in ADD_FIELDS[:3]} | {"partitionValues": dict(add.get("partitionValues") or {})}
    return file | {"deletionVector": vector, "numRecords": records if type(records) is int and records >= 0 else None}


def parse_manifest(data: bytes) -> Json:
    match = re.fullmatch(rb'\{"crc32":"([0-9a-f]{8})","manifest":(\{.*\})\}', data, re.DOTALL)
    if not match or zlib.crc32(match[2]) != int(match[1], 16):
        raise ValueError("the manifest is damaged")
    return json.loads(match[2])  # type: ignore[no-any-return]


def actions_of(path: Path) -> Iterator[tuple[str, Json]]:
    if path.suffix == ".json":
        for line in path.read_bytes().split(b"\n"):
            yield from json.loads(line).items() if line.strip() else ()
    else:
        columns = [*(f"add.{name}" for name in ADD_FIELDS), "protocol", "metaData", "sidecar.path"]
        for row in pq.ParquetFile(path).read(columns).to_pylist():
            yield from ((kind, body) for kind, body in row.items() if body is not None)


class Log:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.commits: dict[int, Path] = {}
        self.checkpoints: dict[int, list[Path]] = {}
        pieces: dict[tuple[int, int], dict[int, Path]] = {}
        for path in directory.iterdir() if directory.is_dir() else ():
            if re.fullmatch(r"[0-9]{20}\.json", path.name):
                self.commits[int(path.stem)] = path
            elif (match := re.fullmatch(CHECKPOINT, path.name)) and path.stat().st_size:
                version, number, total = int(match[1]), int(match[2] or 1), int(match[3] or 1)
                pieces.setdefault((version, total), {})[number] = path
                if set(pieces[version, total]) == set(range(1, total + 1)):
                    self.checkpoints[version] = list(pieces[version, total].values())

    def replay(self, after: int, upto: int) -> tuple[list[Json], set[tuple[str, str]], Json]:
        """The live adds, the keys, the newest protocol and metadata of commits; LookupError if one is missing."""
        live, seen, newest = list[Json](), set[tuple[str, str]](), dict[str, Any]()
        for version in range(upto, after, -1):
            actions = list(actions_of(self.commits[version]))
            adds = {key_of(body): body for kind, body in actions if kind == "add"}
            live += [add for key, add in adds.items() if key not in seen]
            seen |= {key_of(body) for kind, body in actions if kind in ("add", "remove")}
            newest = {kind: body for kind, body in actions if kind in ("protocol", "metaData")} | newest
        return live, seen, newest

    def checkpoint(self, version: int) -> list[tuple[str, Json]]:
        actions = [action for path in self.checkpoints.get(version, []) for action in actions_of(path)]
        sidecars = [self.directory / "_sidecars" / body["path"] for kind, body in actions if kind == "sidecar"]
        return actions + [action for path in sidecars for action in actions_of(path)]

    def table_id(self, version: int) -> Any:
        starts = [start for start in (-1, *self.checkpoints) if set(range(start + 1, version + 1)) <= set(self.commits)]
        start = max(start for start in starts if start <= version)  # ValueError if there is none
        for commit in range(version, start, -1):
            if found := [body for kind, body in actions_of(self.commits[commit]) if kind == "metaData"]:
                return found[-1]["id"]
        return dict(self.checkpoint(start))["metaData"]["id"]


class Index:
    """An index that has passed the checks before use."""

    def __init__(self, log: Log, path: Path, version: int) -> None:
        self.directory, self.manifest = path.parent, parse_manifest(path.read_bytes())
        self.newest = [("protocol", self.manifest["protocol"]), ("metaData", self.manifest["metadata"])]
        self.parts = parts = self.manifest["parts"]
        lists = [parts[name] for name in ARRAYS]
        lists += [parts[file][name] for file in ("core", "stats") for name in FILE_ARRAYS]
        right = self.manifest["format"] == 1 and self.manifest["version"] == version and len(set(map(len, lists))) == 1
        right = right and all(0 <= build < len(parts["builds"]) for build in parts["build"])
        if not right or not self.bound(log, version):
            raise ValueError("another format or version, or not bound to this table")

    def bound(self, log: Log, version: int) -> bool:
        commit, path = self.manifest.get("commit"), log.commits.get(version)
        if path:
            if commit is None or commit["size"] != path.stat().st_size:
                return False
            if commit["modified"] == path.stat().st_mtime_ns // 1_000_000:
                return True
            if commit.get("crc32") not in (None, zlib.crc32(path.read_bytes())):
                return False
        return bool(log.table_id(version) == self.manifest["table_id"])

    def open(self, at: int, which: str) -> pq.ParquetFile:
        number, single = self.parts["number"][at], self.parts["stats"]["size"][at] == -1
        name = self.parts["builds"][self.parts["build"][at]] + ("" if number == -1 else f"-{number}")
        entry = self.parts["core" if single else which]
        data = (self.directory / f"{name}{'' if single else '.' + which}.parquet").read_bytes()
        file = pq.ParquetFile(pa.BufferReader(data)) if zlib.crc32(data) == entry["crc32"][at] else None
        if not file or len(data) != entry["size"][at] or file.metadata.num_rows != self.parts["rows"][at]:
            raise ValueError(f"the part {name} is damaged")
        return file

    def adds(self, pruner: Any) -> Iterator[Json]:
        for at in range(len(self.parts["rows"])):
            if pruner is None or pruner.part(self.manifest, at):
                core = self.open(at, "core")
                names = CORE_COLUMNS & set(core.schema_arrow.names)
                table = core.read(sorted(names - {"partition"} if "partition_values" in names else names))
                adds = [add_of(row) for row in table.to_pylist()]
                yield from pruner.rows(self.manifest, core, self.open(at, "stats"), adds) if pruner else adds


def list_files(root: Path, version: int | None = None, pruner_of: Any = None) -> tuple[list[Json], int | None]:
    """The live files of a version (None: the newest), and the version of the index that was the base, if any."""
    log, reason = Log(root / "_delta_log"), None
    head = max([*log.commits, *log.checkpoints], default=-1)
    upto = head if version is None else version
    if not 0 <= upto <= head:
        raise TableError("no such table, or no such version")
    bases: list[tuple[int, Path | None]] = [(start, None) for start in {-1, *log.checkpoints}]
    for path in [path for name in ("_sidecars", "_sidecar_index") for path in (log.directory / name).glob("v*")]:
        match = re.fullmatch(r"v(0|[1-9][0-9]*)\.manifest\.json", path.name)
        bases += [(int(match[1]), path)] if match else []
    for start, manifest in sorted((b for b in bases if b[0] <= upto), key=lambda b: (b[0], bool(b[1])), reverse=True):
        try:
            index = Index(log, manifest, start) if manifest else None
            live, seen, newest = log.replay(start, upto)
            old = index.newest if index else log.checkpoint(start)
            newest = dict(old) | newest
            reader, features = (newest["protocol"].get(name) for name in ("minReaderVersion", "readerFeatures"))
            if reader not in (1, 2, 3) or (reader == 3 and (features is None or set(features) - FEATURES)):
                raise TableError(f"unsupported protocol: reader version {reader}, features {features}")
            pruner = pruner_of(newest["protocol"], newest["metaData"]) if pruner_of else None
            adds = live + [body for kind, body in old if kind == "add" and key_of(body) not in seen]
            files = [add for add in adds if pruner is None or pruner.file(add)]
            files += [add for add in index.adds(pruner) if key_of(add) not in seen] if index else []
            return [file_of(add) for add in files], start if index else None
        except UNUSABLE as error:
            reason = error
    raise TableError(f"version {upto} cannot be rebuilt") from reason
