"""Every case of `docs/spec/corpus/` by the native reader, as it prunes: file by file, by callback and as a stream."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_corpus import ALL, CASES, expected, in_order
from tests.native import library
from tests.native.library import CORRUPT, NO_INDEX, NO_TABLE, NO_VERSION, UNSUPPORTED, NativeError

pytestmark = library.needed()

ERRORS = {
    "gap": {CORRUPT, NO_VERSION},
    "no such version": {NO_VERSION},
    "no table": {NO_TABLE},
    "unsupported": {UNSUPPORTED},
}


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the corpus, with times of its own, as a checkout has them."""
    where = tmp_path_factory.mktemp("corpus")
    for name in ALL:
        shutil.copytree(library.ROOT / "docs/spec/corpus" / name, where / name, copy_function=shutil.copyfile)
    return where


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


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_case(copies: Path, tmp_path: Path, name: str, case: dict[str, Any]) -> None:
    root = copies / name
    if "set_modified" in case:
        root = shutil.copytree(root, tmp_path / name)
        for path, modified in case["set_modified"].items():
            os.utime(root / path, ns=(modified * 1_000_000, modified * 1_000_000))
    request = {key: case["request"][key] for key in ("version", "predicate")}
    if "error" in case:
        with pytest.raises(NativeError) as raised:
            library.files(root, **request, fallback="log")
        assert raised.value.code in ERRORS[case["error"]], raised.value
        return
    found = [listed(row) for row in library.files(root, **request, fallback="log")]
    for threads in (None, 3):
        batches = library.stream(root, **request, fallback="log", threads=threads).read_all()
        assert [listed(row) for row in batches.to_pylist()] == found
    must, may = expected(name, case["must"]), expected(name, case["may"])
    assert all(file in found for file in must)
    assert all(file in must + may for file in found)
    if name != "off-bucket":
        assert in_order(found) == in_order(must)


@pytest.mark.parametrize(("name", "case"), [case for case in CASES if case.values[1].get("index") == "must"])
def test_the_index_is_the_base(copies: Path, tmp_path: Path, name: str, case: dict[str, Any]) -> None:
    root = copies / name
    if "set_modified" in case:
        pytest.skip("the case is about times, and was read above")
    request = {key: case["request"][key] for key in ("version", "predicate")}
    found = [listed(row) for row in library.files(root, **request)]
    if name != "off-bucket":
        assert in_order(found) == in_order(expected(name, case["must"]))


@pytest.mark.parametrize(("name", "case"), [case for case in CASES if case.values[1].get("index") == "must not"])
def test_without_a_usable_index_the_answer_says_so(copies: Path, name: str, case: dict[str, Any]) -> None:
    """At once, or once a damaged file of the index is met; never with a list that ends early and looks whole."""
    request = {key: case["request"][key] for key in ("version", "predicate")}
    with pytest.raises(NativeError) as raised:
        library.files(copies / name, **request)
    assert raised.value.code in (NO_INDEX, CORRUPT), raised.value
