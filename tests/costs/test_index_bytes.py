"""Bytes of an index that are read: whole cores, and of the stats only what the question needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.specs import BUCKET, hour_text
from benchmarks.synthetic import Layout as Table
from delta_sidecar import DeltaTable
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.seals import end_length
from delta_sidecar.limits import PartLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.ranges import DEFAULT_GAP
from delta_sidecar.testing.stores import CountingStore, Request
from tests.costs.counted import counted, opened
from tests.costs.made_index import made_index
from tests.index.models import manifest_at

FILES = 3_000
PART_ROWS = 1_000
WIDE = Table(files_per_hour=500, stat_columns=600)
NARROW = Table(files_per_hour=500, stat_columns=5)
LAST = f"{BUCKET} = '{hour_text(FILES // 500 - 1)}'"


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    """Nothing is remembered from before."""
    shared_cache.clear()
    yield
    shared_cache.clear()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three parts, each with stats files of several megabytes."""
    root = tmp_path_factory.mktemp("wide")
    made_index(root, WIDE, FILES, PART_ROWS, noisy=True)
    assert all(part.stats is not None and part.stats.size > 2 * PartLimits().whole_stats for part in parts(root))
    return root


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three parts with small stats files."""
    root = tmp_path_factory.mktemp("narrow")
    made_index(root, NARROW, FILES, PART_ROWS)
    assert all(part.stats is not None and part.stats.size < PartLimits().whole_stats for part in parts(root))
    return root


def parts(root: Path) -> list[PartEntry]:
    return list(manifest_at(open_store(str(root)), 0)[0].parts)


def listed(store: CountingStore, **arguments: object) -> int:
    with opened(store).scan_files(**arguments) as scan:  # type: ignore[arg-type]
        found = scan.read_all().num_rows
    assert scan.metrics.tier == "index"
    return found


def asked(store: CountingStore, ending: str) -> list[Request]:
    return [request for request in store.requests if request.path.endswith(ending)]


def chunk_bytes(root: Path, part: PartEntry, *leaves: str) -> int:
    """Bytes of some columns of a stats file."""
    metadata = pq.ParquetFile(root / "_delta_log" / "_sidecars" / part.stats_name).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in leaves)


@pytest.mark.slow
def test_a_listing_reads_whole_cores_and_no_stats(wide: Path) -> None:
    store = counted(wide)
    assert listed(store) == FILES
    assert [(r.verb, r.bytes) for r in asked(store, ".core.parquet")] == [
        ("get", part.core.size) for part in parts(wide)
    ]
    assert asked(store, ".stats.parquet") == []


def test_the_last_hour_costs_its_core_and_the_manifest(narrow: Path) -> None:
    store = counted(narrow)
    assert listed(store, predicate=LAST) == 500
    (core,) = asked(store, ".core.parquet")
    (manifest,) = asked(store, ".manifest.json")
    commits = sum(r.bytes for r in asked(store, "0.json"))
    hint = sum(r.bytes for r in asked(store, "_last_index"))
    assert store.bytes_read == core.bytes + manifest.bytes + commits + hint


def test_a_small_stats_file_comes_whole(narrow: Path) -> None:
    store = counted(narrow)
    assert 0 < listed(store, predicate="m0 = 7") < FILES / 50
    assert sorted((r.verb, r.bytes) for r in asked(store, ".stats.parquet")) == sorted(
        ("get", part.stats.size) for part in parts(narrow) if part.stats is not None
    )


def test_of_a_large_stats_file_come_the_footer_and_the_chunks(wide: Path) -> None:
    store = counted(wide)
    assert 0 < listed(store, predicate="m0 = 7") < FILES / 50
    for part in parts(wide):
        assert part.stats is not None
        found = asked(store, part.stats_name)
        footer, *chunks = found
        assert {r.verb for r in found} == {"range"}
        end = end_length(part.stats.footer)
        assert (footer.start, footer.bytes) == (part.stats.size - end, end)
        assert end < 1.2 * part.stats.footer, "the checksums of the chunks cost little beside the footer"
        needed = chunk_bytes(wide, part, "min.m0", "max.m0", "null_count.m0")
        assert needed > 0
        assert needed <= sum(r.bytes for r in chunks) <= needed + DEFAULT_GAP * len(chunks)
        assert len(chunks) <= 3, "smallest values, greatest, null counts"


def test_two_trips_to_what_a_large_stats_file_tells(wide: Path) -> None:
    store = counted(wide, in_step=True)
    assert listed(store, predicate=f"{LAST} and m1 < 0") == 0
    assert store.round_trips() == 4, "the hints; the listing and the manifest; the footer; the chunks"
    assert asked(store, ".core.parquet") == []


def test_footers_and_chunks_of_several_parts_are_fetched_side_by_side(wide: Path) -> None:
    store = counted(wide, in_step=True)
    assert listed(store, predicate="m1 < 0") == 0
    assert len(asked(store, ".stats.parquet")) >= 2 * len(parts(wide))
    assert store.round_trips() == 4


def test_two_columns_cost_the_chunks_of_both(wide: Path) -> None:
    store = counted(wide)
    listed(store, predicate=f"{LAST} and m0 = 7 and m400 >= 0")
    (part,) = parts(wide)[-1:]
    leaves = [f"{kind}.{name}" for kind in ("min", "max", "null_count") for name in ("m0", "m400")]
    needed = chunk_bytes(wide, part, *leaves)
    _, *chunks = asked(store, ".stats.parquet")
    assert needed <= sum(r.bytes for r in chunks) <= needed + DEFAULT_GAP * len(chunks)


def test_a_predicate_reads_a_small_share_of_a_wide_index(wide: Path) -> None:
    store = counted(wide)
    listed(store, predicate="m0 = 7")
    whole = sum(part.size for part in parts(wide))
    assert store.bytes_read < whole / 5


def test_local_files_are_charged_too(wide: Path) -> None:
    with DeltaTable(str(wide)).scan_files(predicate="m0 = 7") as scan:
        scan.read_all()
    footers = sum(part.stats.footer for part in parts(wide) if part.stats is not None)
    assert footers < scan.metrics.bytes_read < sum(part.size for part in parts(wide)) / 5
