"""What the newest files cost: which parts and row groups a limit reads, also where parts overlap."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.read.part_file import PartFile
from delta_sidecar.index.read.part_rows import PartRows
from delta_sidecar.limits import PartLimits, ReaderLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import AddFile, add, remove
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.counted import counted, opened
from tests.costs.hourly import BUCKET, FILES, bucket, columns_by_hour, file, hourly, parts_asked, parts_of
from tests.index.models import small_parts

HOURS = 10


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


def test_row_groups_of_one_part(tmp_path: Path) -> None:
    """Row groups of one hour in one part: the newest hour is the first of them."""
    root = hourly(tmp_path, head=HOURS - 1)
    limits = small_parts(single=0, rows=99, row_group_rows=FILES)
    build_index(open_store(str(root)), options=BuildOptions(part_rows=99, limits=limits))
    by_ranges = ReaderLimits(parts=PartLimits(whole_core=0))
    with DeltaTable(str(root), limits=by_ranges).scan_files(limit=3, columns=["path"]) as scan:
        found = scan.read_all().column("path").to_pylist()
    assert found == [file(HOURS - 1, number).path for number in (3, 2, 1)], "the latest times first"
    core = parts_of(root, HOURS - 1)[0].core
    assert scan.metrics.bytes_read < core.footer * 9 // 8 + 12 + (core.size - core.footer) // 8, "one row group of ten"


@pytest.fixture
def late(tmp_path: Path) -> Path:
    """Ten hours in ten parts; then files of older hours, of the newest, and of none came into a part of their own."""
    log = LogBuilder(tmp_path).protocol(writer=4).metadata(columns_by_hour(), partition_by=[BUCKET])
    for hour in range(HOURS):
        log.commit(*(file(hour, number) for number in range(FILES)))
    build_index(open_store(str(tmp_path)), options=BuildOptions(part_rows=FILES, limits=small_parts(single=1)))
    log.commit(*late_files())
    build_index(open_store(str(tmp_path)), options=BuildOptions(limits=small_parts(single=1, small=0, rows=99)))
    assert len(parts_of(tmp_path, HOURS)) == HOURS + 1
    return tmp_path


def late_files() -> list[AddFile]:
    nowhere = add("nowhere", partition={BUCKET: None}, stats={"numRecords": 1})
    return [file(3, 5), nowhere, file(9, 5), file(6, 5)]


@pytest.mark.parametrize(("limit", "hours"), [(1, 1), (5, 1), (6, 2), (14, 4), (15, 4), (100, 10)])
@pytest.mark.parametrize("columns", [None, ["path", "stats", "partition_values"]], ids=["plain", "with stats"])
def test_parts_that_overlap(late: Path, limit: int, hours: int, columns: list[str] | None) -> None:
    """The newest hours in order, whatever part they are in; of other parts none but the next is read."""
    store = counted(late)
    found = [f.partition_values[BUCKET] for f in opened(store).file_infos(limit=limit, columns=columns)]
    counts = {hour: FILES + (hour in (3, 6, 9)) for hour in range(HOURS)}
    expected = [bucket(hour) for hour in reversed(range(HOURS)) for _ in range(counts[hour])]
    assert found == [*expected, None][:limit]
    cores = [name for name in parts_asked(store) if name.endswith(".core.parquet")]
    assert hours <= len(cores) <= hours + 2, "the parts of those hours, the late one, and one on its way"


@pytest.mark.parametrize("limit", [None, 100], ids=["in turn", "merged"])
@pytest.mark.parametrize("broken", [1, 4, 11])
def test_rows_that_cannot_be_decoded_are_read_elsewhere(
    late: Path, limit: int | None, broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was fetched together with a row group that breaks is not out yet: the log must give all of it."""
    calls = Counter[str]()

    def listed(rows: PartRows, *args: Any, plain: Callable[..., Any] = PartRows.listed) -> Any:
        calls["listed"] += 1
        if calls["listed"] == broken:
            raise CorruptIndexError("a row group is damaged")
        return plain(rows, *args)

    monkeypatch.setattr(PartRows, "listed", listed)
    scan = DeltaTable(str(late)).scan_files(columns=["path"], limit=limit)
    found = scan.read_all().column("path").to_pylist()
    expected = [file(hour, number).path for hour in range(HOURS) for number in range(FILES)]
    assert sorted(found) == sorted([*expected, *(add.path for add in late_files())])
    assert (scan.metrics.tier, scan.metrics.fallback_reason) == ("log", "a row group is damaged")


def test_what_is_hidden_is_not_counted(late: Path) -> None:
    """Removed files of the newest hour: older ones come up."""
    gone = [remove(file(9, number).path).wire() for number in (0, 1, 2, 3, 5)]
    commit = "".join(f"{json.dumps(action)}\n" for action in gone)
    (late / "_delta_log" / f"{HOURS + 1:020}.json").write_text(commit)
    found = [f.path for f in opened(counted(late)).file_infos(limit=3)]
    assert found == [file(8, number).path for number in (3, 2, 1)]


def test_the_sort_keys_in_a_stats_file_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many row groups of the part are merged with those of another."""
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    options = BuildOptions("x", part_rows=40, limits=small_parts(single=1, small=0, rows=40, row_group_rows=4))
    for numbers in (range(0, 80, 2), (7, 31, 63)):
        log.commit(*(add(f"f{n}", stats={"numRecords": 1, "minValues": {"x": n}, "nullCount": {}}) for n in numbers))
        build_index(open_store(str(tmp_path)), options=options)
    parts, decoded = parts_of(tmp_path, 1), Counter[str]()
    assert sorted(part.row_groups for part in parts) == [1, 10]

    def read(file: PartFile, *args: Any, plain: Callable[..., pa.Table] = PartFile.read) -> pa.Table:
        decoded[file.name.rpartition("/")[2]] += 1
        return plain(file, *args)

    monkeypatch.setattr(PartFile, "read", read)
    found = [int(f.path[1:]) for f in DeltaTable(str(tmp_path)).file_infos(limit=100)]
    assert found == sorted([*range(0, 80, 2), 7, 31, 63], reverse=True)
    assert {part.stats_name: decoded[part.stats_name] for part in parts} == {part.stats_name: 1 for part in parts}
