"""Peak memory of listings through an index, over imports, each in a fresh process: it does not grow with the table.

The bounds are loose versions of the goals: a million files in 13 parts, six stat columns.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.specs import BUCKET, hour_text
from benchmarks.synthetic import Layout as Table
from tests.costs.made_index import made_index, removed, spread
from tests.costs.peak import peak_of

FILES = 1_000_000
HOURLY = 1_000
LAST = hour_text(FILES // HOURLY - 1)
TABLE = Table(HOURLY, stat_columns=6)
WIDE = Table(HOURLY, stat_columns=1_000)
WIDE_FILES = 5_000


pytestmark = pytest.mark.xdist_group("index-memory")
"""A table of a million files is made once."""


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("million")
    made_index(root, TABLE, FILES)
    return root


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("masked")
    made_index(root, TABLE, FILES)
    removed(root, TABLE, spread(FILES, 100_000))
    return root


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 leaves of stats a file, in three parts."""
    root = tmp_path_factory.mktemp("wide")
    made_index(root, WIDE, WIDE_FILES, part_rows=2_000, noisy=True)
    return root


@pytest.mark.slow
def test_the_last_hour(million: Path) -> None:
    found = peak_of(million, predicate=f"{BUCKET} >= '{LAST}'")
    assert (found.tier, found.files) == ("index", HOURLY)
    assert found.mb < 30


@pytest.mark.slow
def test_the_last_hour_by_the_time_column(million: Path) -> None:
    found = peak_of(million, predicate=f"ts >= '{LAST[:4]}-{LAST[4:6]}-{LAST[6:8]}T{LAST[8:]}:00:00Z'")
    assert found.tier == "index"
    assert HOURLY <= found.files <= HOURLY + 1, "bounds of times are widened by a millisecond"
    assert found.mb < 30


@pytest.mark.slow
def test_all_files(million: Path) -> None:
    found = peak_of(million)
    assert (found.tier, found.files) == ("index", FILES)
    assert found.mb < 45


@pytest.mark.slow
def test_a_stats_predicate(million: Path) -> None:
    found = peak_of(million, predicate="m0 = 7")
    assert found.tier == "index"
    assert FILES / 150 < found.files < FILES / 50
    assert found.mb < 50


@pytest.mark.slow
def test_a_stats_predicate_that_leaves_half(million: Path) -> None:
    found = peak_of(million, predicate="m0 >= 50")
    assert found.tier == "index"
    assert FILES / 3 < found.files < FILES / 1.5
    assert found.mb < 50


@pytest.mark.slow
def test_a_hundred_thousand_removed_files(masked: Path) -> None:
    found = peak_of(masked)
    assert (found.tier, found.files, found.mask_size) == ("index", FILES - 100_000, 100_000)
    assert found.mb < 70


@pytest.mark.slow
def test_a_predicate_on_one_column_of_a_thousand(wide: Path) -> None:
    found = peak_of(wide, predicate="m0 = 7")
    index = sum(file.stat().st_size for file in wide.rglob("*.stats.parquet"))
    assert found.tier == "index"
    assert 0 < found.files < WIDE_FILES / 50
    assert found.mb < 60
    assert found.bytes_read < index / 8
