"""What a process imports before its first file: what the listing needs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from delta_sidecar import build_index
from delta_sidecar.testing.sample_table import write_sample
from tests.events_table import write_events
from tests.test_house import loaded_after

NEVER = {
    "click",
    "duckdb",
    "numpy.ma",
    "numpy.testing",
    "obstore",
    "pandas",
    "pyarrow.dataset",
    "pyspark",
    "rich",
    "typer",
}
"""Modules that no listing of a local table needs."""
SLOW = "pyarrow.compute"
"""As slow to import as all else of pyarrow."""
WITH_A_PREDICATE = ("delta_sidecar.predicates.", "delta_sidecar.pruning.file_pruner", "delta_sidecar.pruning.may_match")
OF_OTHERS = ("delta_sidecar.data.", "delta_sidecar.index.build.", "delta_sidecar.index.stats.", "delta_sidecar.cli.")
"""Own modules that are for rows, builds and the command."""


def first_file(place: Path, arguments: str = "limit=1") -> str:
    return f"from delta_sidecar import DeltaTable; next(iter(DeltaTable({str(place)!r}).scan_files({arguments})))"


def own(loaded: set[str], rooms: tuple[str, ...]) -> set[str]:
    return {name for name in loaded if name.startswith(rooms)}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    write_events(tmp_path / "events")
    return tmp_path / "events"


def test_the_package_alone_brings_no_library() -> None:
    assert loaded_after("import delta_sidecar").isdisjoint({*NEVER, "pyarrow", "numpy", "msgspec"})


def test_the_table_class() -> None:
    loaded = loaded_after("from delta_sidecar import DeltaTable")
    assert loaded.isdisjoint({*NEVER, SLOW, "pyarrow.parquet", "hashlib", "delta_sidecar.scan.file_scan"})
    assert own(loaded, (*WITH_A_PREDICATE, *OF_OTHERS, "delta_sidecar.index.read.part_scan")) == set()


def test_the_first_file_of_a_log(events: Path) -> None:
    loaded = loaded_after(first_file(events))
    assert loaded.isdisjoint({*NEVER, SLOW, "pyarrow.parquet", "hashlib", "delta_sidecar.log.checkpoint"})
    assert own(loaded, (*WITH_A_PREDICATE, *OF_OTHERS, "delta_sidecar.index.read.part_scan")) == set()


def test_the_first_file_of_an_index(events: Path) -> None:
    build_index(events)
    loaded = loaded_after(first_file(events))
    assert loaded.isdisjoint({*NEVER, SLOW})
    assert own(loaded, (*WITH_A_PREDICATE, *OF_OTHERS)) == set()
    assert "delta_sidecar.index.read.part_scan" in loaded


def test_the_first_file_of_a_checkpoint(events: Path) -> None:
    deltalake.DeltaTable(events).create_checkpoint()
    loaded = loaded_after(first_file(events))
    assert loaded.isdisjoint(NEVER)
    assert own(loaded, (*WITH_A_PREDICATE, *OF_OTHERS)) == set()
    assert "delta_sidecar.log.checkpoint" in loaded


def test_a_predicate_brings_what_it_needs(events: Path) -> None:
    loaded = loaded_after(first_file(events, "'id >= 0'"))
    assert own(loaded, ("delta_sidecar.predicates.arrow_",)) == set(), "those are for expressions of pyarrow"
    assert loaded.isdisjoint(NEVER)
    assert own(loaded, OF_OTHERS) == set()


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_time_that_no_file_is_in(tmp_path: Path, is_indexed: bool) -> None:
    """The buckets of files that are left out are compared with the bounds of their times."""
    write_sample(tmp_path)
    if is_indexed:
        build_index(tmp_path, 1)
    listing = f"DeltaTable({str(tmp_path)!r}).scan_files(\"ts >= '2030-01-01T00:00:00Z'\")"
    assert loaded_after(f"from delta_sidecar import DeltaTable; list({listing})").isdisjoint(NEVER)
