"""Every case of `docs/spec/corpus/` by our own reader; and the cases themselves by two plain models."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import (
    DeltaSidecarError,
    LogGapError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing import model
from tests.conformance import spec_model
from tests.conformance.make_corpus import CORPUS, TABLES, make
from tests.sweep import sweep

ALL: dict[str, dict[str, Any]] = {p.parent.name: json.loads(p.read_text("utf-8")) for p in CORPUS.glob("*/cases.json")}
EVERY = [(name, case) for name in sorted(ALL) for case in ALL[name]["cases"]]
CASES = [pytest.param(name, case, id=f"{name}: {case['name']}") for name, case in EVERY]
"""For the tests of other readers."""
COLUMNS = ("path", "size", "modification_time", "partition_values", "deletion_vector", "num_records")
LISTINGS = [(name, case) for name, case in EVERY if "error" not in case]
ERRORS: dict[str, tuple[type[DeltaSidecarError], ...]] = {
    "gap": (LogGapError, VersionNotFoundError),
    "no such version": (VersionNotFoundError,),
    "no table": (TableNotFoundError,),
    "unsupported": (UnsupportedFeatureError,),
}
DAMAGED = {
    "missing-part": "missing",
    "flipped-core": "damaged",
    "flipped-footer": "damaged",
    "flipped-manifest": "damaged",
    "missing-manifest": "missing",
    "unknown-format": "format 2",
    "wrong-version": "holds the manifest of version 0",
    "another-table": "another table",
    "another-history": "different commit file",
}
"""Tables whose index is not used for a whole listing, and a word of the reason."""


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the corpus, with times of its own, as a checkout has them."""
    where = tmp_path_factory.mktemp("corpus")
    for name in ALL:
        shutil.copytree(CORPUS / name, where / name, copy_function=shutil.copyfile)
    return where


def scan_of(root: Path, case: dict[str, Any], columns: Sequence[str] = COLUMNS) -> FileScan:
    """The listing that a case asks for."""
    request = case["request"]
    table = DeltaTable(root, version=request["version"])
    predicate = None
    if request["predicate"] is not None:
        state = spec_model.Table(
            {"minReaderVersion": 1}, {"schemaString": table.schema().to_json(), "partitionColumns": []}, []
        )
        predicate = spec_model.as_sql(request["predicate"], lambda names: spec_model.leaf_of(state, names).type)
    return table.scan_files(predicate, list(columns))


def listed(row: dict[str, Any]) -> dict[str, Any]:
    """A listed file as cases have it."""
    vector = row["deletion_vector"]
    return {
        "path": row["path"],
        "size": row["size"],
        "modificationTime": row["modification_time"],
        "partitionValues": dict(row["partition_values"]),
        "deletionVector": vector and {key: value for key, value in vector.items() if value is not None},
        "numRecords": row["num_records"],
    }


def expected(name: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    return [{key: value for key, value in ALL[name]["files"][n].items() if key != "stats"} for n in numbers]


def in_order(files: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(files, key=lambda file: (file["path"], str(file["deletionVector"])))


@sweep("name, case", EVERY)
def test_our_reader(copies: Path, tmp_path_factory: pytest.TempPathFactory, name: str, case: dict[str, Any]) -> None:
    root = copies / name
    if "set_modified" in case:
        root = shutil.copytree(root, tmp_path_factory.mktemp("modified") / name)
        for path, modified in case["set_modified"].items():
            os.utime(root / path, ns=(modified * 1_000_000, modified * 1_000_000))
    if "error" in case:
        with pytest.raises(ERRORS[case["error"]]), scan_of(root, case) as scan:
            scan.read_all()
        return
    with_stats = "columns" in case["request"]
    with scan_of(root, case, (*COLUMNS, "stats") if with_stats else COLUMNS) as scan:
        rows = scan.read_all().to_pylist()
    found = [listed(row) for row in rows]
    if with_stats:
        texts = {ALL[name]["files"][n]["path"]: ALL[name]["files"][n]["stats"] for n in case["must"]}
        assert all(meaning(row["stats"]) == meaning(texts[row["path"]]) for row in rows)
    must, may = expected(name, case["must"]), expected(name, case["may"])
    if name == "off-bucket":
        # A bucket that lies inside the range keeps its files, whatever their own times say.
        assert all(file in found for file in must)
        assert all(file in must or file in may for file in found)
        assert len(found) == len({file["path"] for file in found})
    else:
        # Every file that may match and, as far as the rules tell, no other.
        assert in_order(found) == in_order(must)
    tier, reason = scan.metrics.tier, scan.metrics.fallback_reason
    if case["index"] == "must":
        assert (tier, reason) == ("index", None)
        assert scan.plan.base is None or f"index {case['index_version']}," in str(scan.plan.base)
    elif case["index"] == "must not":
        assert tier not in ("index", "footer")
    if name in DAMAGED and case["request"]["predicate"] is None:
        assert DAMAGED[name] in str(reason)


@pytest.mark.parametrize("name", sorted(ALL))
def test_statistics_come_back(copies: Path, name: str) -> None:
    for case in ALL[name]["cases"]:
        if "error" in case or case["request"]["predicate"] is not None or "set_modified" in case:
            continue
        with scan_of(copies / name, case, ["path", "stats"]) as scan:
            found = {row["path"]: row["stats"] for row in scan.read_all().to_pylist()}
        texts = {file["path"]: file["stats"] for file in (ALL[name]["files"][n] for n in case["must"])}
        assert {path: meaning(text) for path, text in found.items()} == {p: meaning(t) for p, t in texts.items()}


def meaning(text: str | None) -> Any:
    """Stats as a JSON value, without what says nothing; what is no object is itself."""
    try:
        value = json.loads(text or "{}", parse_float=float)
    except ValueError:
        return text
    return _said(value) if isinstance(value, dict) else text


def _said(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _said(member) for key, member in value.items()}
    return {key: member for key, member in inner.items() if member is not None and member != {}}


@pytest.mark.slow
@sweep("name, case", LISTINGS)
def test_both_models_agree(name: str, case: dict[str, Any]) -> None:
    """On every log that is whole: the files of a case are those of a plain replay from version 0."""
    if name in ("bound-by-time", "cleaned-up", "broken-below"):
        return
    version = case["request"]["version"]
    commits = model.read_commits(CORPUS / name, version if name == "gap" else None)
    commits = commits if version is None else commits[: version + 1]
    live = [ALL[name]["files"][n] for n in (*case["must"], *case["may"])]
    bodies = list(model.replay(commits).files.values())
    assert sorted(file["path"] for file in live) == sorted(body["path"] for body in bodies)
    assert sorted(file["size"] for file in live) == sorted(body["size"] for body in bodies)
    again = spec_model.replay(spec_model.read_commits(CORPUS / name, len(commits) - 1))
    without = spec_model.kept(again, case["request"]["predicate"])
    wanted = case.get("without_buckets", case["must"])
    assert sorted(body["path"] for body in without) == sorted(ALL[name]["files"][n]["path"] for n in wanted)


@pytest.mark.slow
def test_the_cases_are_those_that_are_made(tmp_path: Path) -> None:
    """Answers do not depend on the bytes of an index: made anew, the cases are the same."""
    for name in TABLES:
        make(name, tmp_path / name)
        assert (tmp_path / name / "cases.json").read_text("utf-8") == (CORPUS / name / "cases.json").read_text("utf-8")


def test_the_corpus_is_whole_and_small() -> None:
    assert set(ALL) == set(TABLES)
    assert all(f"`{name}`" in (CORPUS / "README.md").read_text("utf-8") for name in ALL)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 1_500_000


@pytest.mark.parametrize(
    ("name", "asked", "parts", "groups"),
    [
        ("hours", "newest", 3, 9),
        ("hours", "a quarter", 1, 1),
        ("hours", "no such time", 0, 0),
        ("row-groups", "newest", 3, 12),
        ("row-groups", "an hour", 2, 2),
    ],
)
def test_parts_and_row_groups_are_passed_over(copies: Path, name: str, asked: str, parts: int, groups: int) -> None:
    (case,) = [case for case in ALL[name]["cases"] if case["name"] == asked]
    with scan_of(copies / name, case) as scan:
        scan.read_all()
    assert (scan.metrics.parts_read, scan.metrics.row_groups_read) == (parts, groups)


def test_pruning_matters() -> None:
    """The corpus tells readers that prune from those that do not, and buckets from bounds."""
    assert sum(bool(case["may"]) for _, case in LISTINGS) > 100
    assert sum("without_buckets" in case for _, case in LISTINGS) > 10
