"""Peak memory over imports, each measured in a fresh process: it does not grow with the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.generate import ensure
from benchmarks.measure import measure
from benchmarks.specs import CommitSpec, LogSpec, Spec

MILLION = LogSpec(files=1_000_000)
TENTH = LogSpec(files=100_000)


@pytest.fixture(scope="module", autouse=True)
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tables of their own, gone with the run."""
    patch = pytest.MonkeyPatch()
    patch.setenv("BENCH_DIR", str(tmp_path_factory.mktemp("memory")))
    yield
    patch.undo()


def peak_mb(question: str, spec: Spec) -> float:
    table: Path = ensure(spec)
    assert table.is_dir()
    found = measure(f"ours.{question}", spec, repetitions=1)
    assert found.error is None
    assert found.peak_mb is not None
    return found.peak_mb


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        pytest.param("first_file", marks=pytest.mark.slow),
        "all_arrow",
        "stats_predicate",
        pytest.param("all_objects", marks=pytest.mark.slow),
    ],
)
def test_a_scan_of_a_hundred_thousand_files(question: str) -> None:
    assert peak_mb(question, TENTH) < 100


@pytest.mark.slow
@pytest.mark.parametrize("question", ["first_file", "all_arrow", "stats_predicate"])
def test_a_scan_of_a_million_files(question: str) -> None:
    assert peak_mb(question, MILLION) < 100


@pytest.mark.slow
def test_a_commit_of_many_adds() -> None:
    """A million adds may take 300 MB, most of it the mask; a fifth of them, a fifth of that over the same ground."""
    assert peak_mb("huge_commit", CommitSpec(adds=200_000)) < 100 + 200 / 5
