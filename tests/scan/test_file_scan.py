"""The stream of files: its order, its columns, its limit, its plan and what it reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import ConsumedStreamError, DeltaSidecarError, InputError, OptionError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.listing.base import LiveRows
from delta_sidecar.log.file_schema import DEFAULT_COLUMNS, FILE_SCHEMA
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import DeletionVector, add, remove
from delta_sidecar.testing.table_builder import LogBuilder

READINGS: list[Callable[[Any], list[str]]] = [
    lambda scan: [path for batch in scan for path in batch.column("path").to_pylist()],
    lambda scan: scan.read_all()["path"].to_pylist(),
    lambda scan: scan.to_reader().read_all()["path"].to_pylist(),
    lambda scan: pa.table(scan)["path"].to_pylist(),
    lambda scan: pa.RecordBatchReader.from_stream(scan).read_all()["path"].to_pylist(),
]


def stats(low: int, high: int, rows: int = 2) -> dict[str, Any]:
    return {"numRecords": rows, "minValues": {"x": low}, "maxValues": {"x": high}, "nullCount": {"x": 0}}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Version 3: a checkpoint at 1 with a and b, then c, then d for a."""
    built = LogBuilder(tmp_path).metadata({"x": "long", "p": "string"}, partition_by=["p"])
    built.commit(add("a", stats=stats(0, 9), partition={"p": "1"}))
    built.commit(add("b", stats=stats(10, 19), partition={"p": "2"}))
    built.checkpoint()
    built.commit(add("c", stats=stats(20, 29), partition={"p": None}, dv=DeletionVector(cardinality=1)))
    built.commit(remove("a"), add("d", stats=stats(30, 39), partition={"p": "2"}))
    return DeltaTable(str(tmp_path))


@pytest.mark.parametrize("strategy", ["auto", "reverse", "forward"])
def test_newest_commits_first_then_the_base(table: DeltaTable, strategy: str) -> None:
    assert [f.path for f in table.file_infos(strategy=strategy)] == ["d", "c", "b"]


def test_the_schema_is_the_same_whatever_the_source(table: DeltaTable) -> None:
    scan = table.scan_files(columns=FILE_SCHEMA.names)
    assert scan.schema == FILE_SCHEMA
    batches = list(scan)
    assert sum(batch.num_rows for batch in batches) == 3
    assert all(batch.schema == FILE_SCHEMA for batch in batches)
    assert table.scan_files().schema.names == list(DEFAULT_COLUMNS)


def test_columns_come_in_the_order_asked_for(table: DeltaTable) -> None:
    with table.scan_files(columns=["num_records", "path"]) as scan:
        rows = scan.read_all()
    assert rows.to_pydict() == {"num_records": [2, 2, 2], "path": ["d", "c", "b"]}


def test_a_listing_has_columns(table: DeltaTable) -> None:
    with pytest.raises(OptionError, match="no columns"):
        table.scan_files(columns=[])


@pytest.mark.parametrize("columns", [[], ["tags"], ["size"], ["partition_values", "path"]])
def test_file_infos_always_have_their_path(table: DeltaTable, columns: list[str]) -> None:
    assert [f.path for f in table.file_infos(columns=columns)] == ["d", "c", "b"]


def test_time_counts_from_the_first_batch_on(table: DeltaTable) -> None:
    with table.scan_files() as scan:
        time.sleep(0.5)
        scan.read_all()
    assert 0 < (scan.metrics.time_to_first_file_s or 0) <= scan.metrics.elapsed_s < 0.5


def test_a_listing_that_has_returned_nothing_starts_again(tmp_path: Path) -> None:
    """The tail is read and holds no match; then the checkpoint turns out to be gone."""
    built = LogBuilder(tmp_path).metadata({"x": "long"})
    built.commit(*(add(f"old-{number}", stats=stats(number, number)) for number in range(50)))
    built.checkpoint().commit(add("new", stats=stats(1000, 1000)))
    with DeltaTable(str(tmp_path)).scan_files("x = 7", strategy="reverse") as scan:
        for file in (tmp_path / "_delta_log").glob("*checkpoint*"):
            file.unlink()
        shared_cache.clear()
        assert scan.read_all()["path"].to_pylist() == ["old-7"]
    assert (scan.metrics.files_considered, scan.metrics.files_pruned) == (51, 50)


def test_a_listing_on_an_index_starts_again_without_it(tmp_path: Path) -> None:
    """A cleaner takes the commits after the index, which a checkpoint holds by then."""
    log = LogBuilder(tmp_path).metadata({"x": "long"}).commit(add("0"))
    build_index(open_store(str(tmp_path)))
    for version in range(1, 30):
        log.commit(add(str(version)))
    log.commit().crc()
    table = DeltaTable(str(tmp_path))
    log.checkpoint().cleanup(31)
    scan = table.scan_files()
    assert "index 0" in scan.plan.base
    assert sorted(map(int, scan.read_all()["path"].to_pylist())) == list(range(30))
    assert (scan.metrics.tier, scan.metrics.complete) == ("checkpoint", True)
    assert "was read again" in (scan.metrics.fallback_reason or "")
    assert "classic checkpoint 30" in scan.plan.base
    assert (scan.plan.strategy, scan.plan.reason) == ("forward", "there is no tail")
    assert scan.metrics.strategy == "forward"


@pytest.mark.parametrize("columns", [["nonsense"], ["path", "Size"]])
def test_an_unknown_column_is_named(table: DeltaTable, columns: list[str]) -> None:
    with pytest.raises(DeltaSidecarError, match=columns[-1]):
        table.scan_files(columns=columns)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_the_limit_cuts(table: DeltaTable, limit: int, strategy: str) -> None:
    scan = table.scan_files(limit=limit, strategy=strategy)
    assert scan.read_all()["path"].to_pylist() == ["d", "c", "b"][:limit]
    assert scan.metrics.complete


def test_the_limit_counts_files_behind_the_predicate(table: DeltaTable) -> None:
    assert [f.path for f in table.file_infos(predicate="x < 25", limit=1)] == ["c"]
    assert [f.path for f in table.file_infos(predicate="p = '2'", limit=5)] == ["d", "b"]


def test_a_limit_gives_the_newest_of_compacted_commits(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit()
    for number in range(1, 5):
        log.commit(add(f"f{number}"))
    log.compact(1, 4)
    table = DeltaTable(tmp_path)
    assert READINGS[0](table.scan_files()) == ["f1", "f2", "f3", "f4"]
    scan = table.scan_files(limit=2)
    singles = [f"_delta_log/{version:020}.json" for version in range(4, -1, -1)]
    assert (scan.plan.commits, scan.plan.tail, list(scan.plan.commit_files)) == (5, "5 commits (0 to 4)", singles)
    assert scan.plan.tail_bytes == sum((tmp_path / path).stat().st_size for path in singles)
    assert READINGS[0](scan) == ["f4", "f3"]
    assert (scan.metrics.commits_scanned, scan.metrics.commits_total) == (1, 5)


@pytest.mark.parametrize("limit", [2**31, 2**63 - 1, 2**63, 2**70, np.int64(9)])
def test_a_limit_beyond_all_counts(table: DeltaTable, limit: int) -> None:
    assert [f.path for f in table.file_infos(limit=limit)] == ["d", "c", "b"]
    assert len(table.history(limit)) == 4
    assert "limit" in table.scan_files(limit=limit).explain()


@pytest.mark.parametrize("limit", [-1, -(2**70), 1.5, True, "3", float("nan"), np.int64(-1)])
def test_a_limit_that_is_no_number(table: DeltaTable, limit: Any) -> None:
    for call in (table.scan_files, table.to_batches, table.file_uris, table.history):
        with pytest.raises(InputError, match="limit"):
            call(limit=limit)


def test_a_strategy_that_is_none(table: DeltaTable) -> None:
    with pytest.raises(OptionError, match="sideways"):
        table.scan_files(strategy="sideways")


def test_it_is_an_arrow_stream(table: DeltaTable) -> None:
    assert pa.RecordBatchReader.from_stream(table.scan_files()).read_all()["path"].to_pylist() == ["d", "c", "b"]
    assert pa.table(table.scan_files(columns=["path"])).num_rows == 3


def test_a_scan_is_consumed_once_and_closing_is_for_good(table: DeltaTable) -> None:
    """An empty answer would look like an empty table."""
    for first, again in product(READINGS, READINGS):
        scan = table.scan_files(columns=["path"])
        assert first(scan) == ["d", "c", "b"]
        with pytest.raises(ConsumedStreamError, match="listing of files"):
            again(scan)
        closed = table.scan_files()
        closed.close()
        with pytest.raises(ConsumedStreamError, match="closed"):
            again(closed)
        closed.close()


def test_a_scan_may_be_read_on_where_its_reader_stopped(table: DeltaTable) -> None:
    scan = table.scan_files(strategy="reverse", limit=3)
    assert next(iter(scan)).column("path").to_pylist() == ["d"]
    assert [path for batch in scan for path in batch.column("path").to_pylist()] == ["c", "b"]


def test_a_scan_closed_under_its_reader_does_not_look_complete(table: DeltaTable) -> None:
    for reader in (lambda scan: iter(scan), lambda scan: scan.to_reader(), pa.RecordBatchReader.from_stream):
        scan = table.scan_files(strategy="reverse", limit=3)
        batches = reader(scan)
        next(batches)
        scan.close()
        with pytest.raises((ConsumedStreamError, pa.ArrowException), match="closed"):
            list(batches)


def in_threads(*works: Callable[[], Any]) -> list[Any]:
    """What functions return or raise that run at the same time."""
    with ThreadPoolExecutor(len(works)) as pool:
        answers = [pool.submit(work) for work in works]
        return [answer.exception(20) or answer.result() for answer in answers]


@pytest.mark.parametrize("is_indexed", [False, True])
def test_threads_share_a_scan(tmp_path: Path, is_indexed: bool) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    for first in range(0, 400, 100):
        log.commit(*(add(f"f{number}") for number in range(first, first + 100)))
    if is_indexed:
        build_index(open_store(str(tmp_path)))
    scan = DeltaTable(tmp_path, options={"delta.sidecar.batch_size": 3}).scan_files()
    batches = iter(scan)
    begun = threading.Barrier(4)

    def read() -> list[str]:
        begun.wait()
        return [path for batch in batches for path in batch["path"].to_pylist()]

    found = [path for paths in in_threads(*[read] * 4) for path in paths]
    assert sorted(found) == sorted(f"f{number}" for number in range(400))
    assert scan.position.files == 400


def test_a_scan_that_another_thread_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The close waits for the batch that is being read; the reader is told that the scan was closed."""
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    for number in range(3):
        log.commit(add(f"f{number}"))
    scan = DeltaTable(tmp_path).scan_files()
    came, go_on, rows = threading.Event(), threading.Event(), scan._live_or_restarted()

    def slowly() -> Iterator[LiveRows]:
        for live in rows:
            came.set()
            assert go_on.wait(10)
            yield live

    monkeypatch.setattr(scan, "_live_or_restarted", slowly)

    def close() -> bool:
        assert came.wait(10)
        threading.Timer(0.05, go_on.set).start()
        scan.close()
        return go_on.is_set()

    error, waited = in_threads(lambda: scan.read_all(), close)
    assert isinstance(error, ConsumedStreamError)
    assert "was closed" in str(error)
    assert waited
    assert not scan.metrics.complete


def test_a_scan_that_failed_is_not_read_on(table: DeltaTable, tmp_path: Path) -> None:
    scan = table.scan_files(strategy="reverse")
    (tmp_path / "_delta_log" / f"{3:020}.json").write_text("{")
    (tmp_path / "_delta_log" / f"{2:020}.json").write_text("{")
    table.snapshot.commits._held.clear()
    with pytest.raises(DeltaSidecarError):
        list(scan)
    with pytest.raises(ConsumedStreamError, match="broke off"):
        list(scan)


def test_two_scans_of_one_table_do_not_disturb_each_other(table: DeltaTable) -> None:
    first, second = table.file_infos(strategy="reverse"), table.file_infos(strategy="reverse")
    assert next(first).path == "d"
    assert [f.path for f in second] == ["d", "c", "b"]
    assert [f.path for f in first] == ["c", "b"]


def test_a_table_without_files(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit()
    with DeltaTable(str(tmp_path)).scan_files() as scan:
        assert scan.read_all().schema == scan.schema
    assert scan.metrics.complete


def test_one_is_not_plural(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a"))
    with DeltaTable(str(tmp_path)).scan_files(limit=1) as scan:
        scan.read_all()
    assert "1 files" not in scan.explain()
    assert "1 commits" not in scan.explain()
    assert "1 file emitted" in scan.explain()


def test_metrics_add_up(table: DeltaTable) -> None:
    with table.scan_files(predicate="x >= 25") as scan:
        scan.read_all()
    done = scan.metrics
    assert (done.files_considered, done.files_pruned, done.files_emitted) == (3, 1, 2)
    assert (done.commits_scanned, done.commits_total, done.mask_size) == (2, 2, 3)
    assert (done.tier, done.complete, done.row_groups_read) == ("checkpoint", True, 1)
    assert done.time_to_first_file_s is not None
    assert done.time_to_first_file_s <= done.elapsed_s


def test_the_plan_says_what_and_why(table: DeltaTable) -> None:
    scan = table.scan_files(predicate="x > 5", limit=2)
    assert (scan.plan.version, scan.plan.strategy, scan.plan.limit) == (3, "reverse", 2)
    assert scan.plan.stats_columns == ("x",)
    text = scan.explain()
    for part in ("classic checkpoint 1", "2 commits (2 to 3)", "reverse:", "x > 5", "limit      2"):
        assert part in text, part
    assert "forward: as requested" in table.scan_files(strategy="forward").explain()


def test_a_partition_predicate_asks_for_no_stats(table: DeltaTable) -> None:
    assert table.scan_files(predicate="p = '2'").plan.stats_columns == ()


def test_stats_as_text_come_from_every_source(table: DeltaTable) -> None:
    with table.scan_files(columns=["path", "stats"]) as scan:
        found = dict(zip(*scan.read_all().to_pydict().values(), strict=True))
    assert set(found) == {"b", "c", "d"}
    assert all('"numRecords":2' in text for text in found.values())


def test_files_are_kept_when_stats_say_nothing(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path)
    built.commit(
        add("none"), add("broken", stats="{"), add("other", stats={"numRecords": 1}), add("no", stats=stats(0, 1))
    )
    assert sorted(f.path for f in DeltaTable(str(tmp_path)).file_infos(predicate="x = 5")) == [
        "broken",
        "none",
        "other",
    ]
