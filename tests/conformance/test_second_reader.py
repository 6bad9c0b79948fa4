"""The specification against a reader that was written from it alone: the corpus and the vectors."""

import json
import os
import shutil
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conformance import second_reader
from tests.conformance.second_pruning import Column, PredicatePruner, attempt, history, parse, parse_key, widen
from tests.conformance.second_reader import TableError, canonical, list_files, parse_manifest, vector_id
from tests.sweep import sweep

SPEC = Path(__file__).resolve().parents[2] / "docs" / "spec"
TABLES = {path.parent.name: json.loads(path.read_text("utf-8")) for path in SPEC.glob("corpus/*/cases.json")}
PRUNED = [name for name, table in sorted(TABLES.items()) if any(c["request"]["predicate"] for c in table["cases"])]


def vectors(name: str, key: str = "cases") -> list[dict[str, Any]]:
    return json.loads((SPEC / "vectors" / f"{name}.json").read_text("utf-8"))[key]


def identity(file: dict[str, Any]) -> str:
    vector = {name: value for name, value in (file["deletionVector"] or {}).items() if value is not None}
    same = ("path", "size", "modificationTime", "partitionValues", "numRecords")
    return json.dumps([{name: file[name] for name in same}, vector], sort_keys=True)


def run(name: str, case: dict[str, Any], tmp_path: Path, prune: bool) -> tuple[list[str], int | None] | None:
    """The listing of a case, or None if it failed as it must."""
    root = SPEC / "corpus" / name
    if "set_modified" in case:
        root = Path(shutil.copytree(root, tmp_path / name))
        for path, modified in case["set_modified"].items():
            os.utime(root / path, ns=(modified * 1_000_000, modified * 1_000_000))
    predicate = case["request"]["predicate"]
    pruner_of = partial(PredicatePruner, predicate) if prune and predicate else None
    if "error" in case:
        with pytest.raises(TableError):
            list_files(root, case["request"]["version"], pruner_of)
        return None
    files, index_version = list_files(root, case["request"]["version"], pruner_of)
    listed = [identity(file) for file in files]
    assert len(set(listed)) == len(listed)
    return listed, index_version


@pytest.mark.parametrize("name", sorted(TABLES))
def test_lists(name: str, tmp_path: Path) -> None:
    assert TABLES[name]["cases"]
    for number, case in enumerate(TABLES[name]["cases"]):
        if result := run(name, case, tmp_path / str(number), prune=False):
            must, may = ({identity(TABLES[name]["files"][at]) for at in case[key]} for key in ("must", "may"))
            assert must <= set(result[0]) <= must | may, case["name"]
            if case["index"] == "must":
                assert result[1] == case["index_version"], case["name"]
            if case["index"] == "must not":
                assert result[1] is None, case["name"]


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("name", PRUNED)
def test_prunes(name: str, with_index: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_index:
        monkeypatch.setattr(second_reader.Index, "bound", lambda *_: False)
    for number, case in enumerate(TABLES[name]["cases"]):
        if case["request"]["predicate"] and (result := run(name, case, tmp_path / str(number), prune=True)):
            exact = {identity(TABLES[name]["files"][at]) for at in case.get("without_buckets", case["must"])}
            assert set(result[0]) == exact, case["name"]
            assert not with_index or case["index"] != "must" or result[1] == case["index_version"]


@sweep("case", vectors("canonical_paths"))
def test_canonical_paths(case: dict[str, Any]) -> None:
    table = urlsplit(case["table"])
    assert canonical(case["path"], table.scheme, table.netloc) == case["canonical"]


@sweep("case", vectors("canonical_paths", "pairs"))
def test_pairs_of_paths(case: dict[str, Any]) -> None:
    table = urlsplit(case["table"])
    a, b = (canonical(case[name], table.scheme, table.netloc) for name in "ab")
    assert (a == b) == case["equal"]


@sweep("case", vectors("deletion_vector_ids"))
def test_deletion_vector_ids(case: dict[str, Any]) -> None:
    assert vector_id(case["deletionVector"]) == case["id"]


@sweep("case", vectors("manifest_checksums"))
def test_manifest_checksums(case: dict[str, Any]) -> None:
    if case["ok"]:
        assert parse_manifest(case["file"].encode())["format"] == 1
    else:
        with pytest.raises(ValueError, match="damaged"):
            parse_manifest(case["file"].encode())


@sweep("case", vectors("bounds"))
def test_bounds(case: dict[str, Any]) -> None:
    was_float, _ = history(case.get("metadata", {}))
    stats = json.loads(f'{{"x":{case["json"]}}}', parse_float=Decimal)
    value = attempt(parse, case["type"], stats["x"], case["side"])
    assert value == parse_key(case["type"], case["value"])
    widened = widen(Column(("x",), case["type"], was_float=was_float), value, case["side"])
    assert widened == parse_key(case["type"], case["widened"])


@sweep("case", vectors("partition_values"))
def test_partition_values(case: dict[str, Any]) -> None:
    value = attempt(parse, case["type"], case["text"]) if case["text"] else None
    assert ("value" if value is not None else "unreadable" if case["text"] else "null") == case["state"]
    assert value != value if case["value"] == "NaN" else value == parse_key(case["type"], case["value"])


@sweep("case", vectors("key_values"))
def test_key_values(case: dict[str, Any]) -> None:
    assert parse_key(case["type"], case["key_value"]) == parse(case["type"], case["text"])
