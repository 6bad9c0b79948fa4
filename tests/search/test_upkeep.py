"""Dropped partitions, lost splits, splits fetched ahead, and what a checkup finds."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import OptionError, PredicateError
from delta_sidecar.search import (
    SearchTable,
    SplitCache,
    build_splits,
    checkpoint,
    clean_log,
    doctor,
    drop_partitions,
    merge_splits,
    prewarm,
    purge,
    repair,
)
from tests.search.lines import log_lines
from tests.search.made import FAR, version_path
from tests.search.test_building import CHOICES, ids


@pytest.fixture
def table(tmp_path: Path) -> Path:
    target = tmp_path / "logs"
    for number in range(2):
        rows = log_lines(50, first=50 * number)
        build_splits(rows, target, text=["body"], key=["id"], partition_columns=["host"])
    return target


def test_whole_partitions_are_dropped(table: Path) -> None:
    commit, planned = drop_partitions(table, "host = 'web-1'", dry_run=True)
    assert commit is None
    assert len(planned) == 2
    commit, dropped = drop_partitions(table, "host IN ('web-1', 'web-3') OR host IS NULL")
    assert commit is not None
    assert len(dropped) == 4
    assert ids(table) == [n for n in range(100) if n % 5 not in (1, 3)]
    assert drop_partitions(table, "host = 'web-1'") == (None, [])
    _, rest = drop_partitions(table, "NOT (host = 'web-0')")
    assert {split.partitionValues["host"] for split in rest} == {"web-2", "web-4"}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["id = 7", "host = 'web-1' AND id = 7"])
def test_rows_cannot_be_dropped(table: Path, where: str) -> None:
    with pytest.raises(PredicateError, match="id is no partition column"):
        drop_partitions(table, where)


def test_lost_splits_are_taken_out(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    for number in range(4):
        build_splits(log_lines(10, first=10 * number), table, **CHOICES)
    paths = [split.path for split in sorted(SearchTable(table).splits(), key=lambda s: s.timeRangeStart or "")]
    (table / paths[0]).unlink()
    (table / paths[1]).write_bytes((table / paths[1]).read_bytes()[:-7])
    data = bytearray((table / paths[2]).read_bytes())
    data[100] ^= 1
    (table / paths[2]).write_bytes(data)
    found = doctor(table)
    assert not found.is_healthy
    assert sum("splits repair" in problem for problem in found.problems) == 2
    planned = repair(table, dry_run=True)
    assert [lost.path for lost in planned.lost] == [paths[1], paths[0]]
    assert len(repair(table, dry_run=True, whole=True).lost) == 3
    done = repair(table, whole=True)
    assert (done.checked, len(done.lost), done.version) == (4, 3, 5)
    assert ids(table) == list(range(30, 40))
    assert repair(table).lost == ()
    assert doctor(table).is_healthy


def test_prewarm(table: Path, tmp_path: Path) -> None:
    cache = SplitCache(tmp_path / "cache")
    report = prewarm(table, where="host = 'web-1'", cache=cache)
    assert (report.splits, report.fetched) == (2, 2)
    assert (tmp_path / "cache") == Path(report.directory)
    assert prewarm(table, cache=cache).fetched == 8
    assert prewarm(table, cache=SplitCache(tmp_path / "cache")).fetched == 0
    with pytest.raises(OptionError, match="give it more"):
        prewarm(table, cache=SplitCache(tmp_path / "small", budget=10))


def test_a_checkup(table: Path) -> None:
    found = doctor(table)
    assert (found.is_healthy, found.splits, found.rows, found.advice) == (True, 10, 100, ())
    merge_splits(table)
    assert any("purge" in text for text in doctor(table).advice)
    checkpoint(table)
    broken = next(iter((table / "_transaction_log").glob("*.checkpoint.json")))
    broken.write_text("{")
    assert any("sidecar splits checkpoint" in problem for problem in doctor(table).problems)
    broken.unlink()
    checkpoint(table)
    (table / version_path(0)).unlink()
    assert any("version 0" in problem for problem in doctor(table).problems)


def test_a_split_of_a_newer_layout_is_kept(tmp_path: Path) -> None:
    table = tmp_path / "logs"
    build_splits(log_lines(10), table, **CHOICES)
    split = SearchTable(table).splits()[0]
    data = bytearray((table / split.path).read_bytes())
    data[(split.footerStartOffset or 0) + 4] = 2
    (table / split.path).write_bytes(data)
    done = repair(table, whole=True)
    assert (done.lost, done.version, [one.path for one in done.unknown]) == ((), None, [split.path])
    assert [one.path for one in SearchTable(table).splits()] == [split.path]
    assert any("use a newer version" in problem for problem in doctor(table).problems)


def test_what_a_merge_leaves(table: Path) -> None:
    merge_splits(table)
    (text,) = doctor(table).advice
    assert "10 splits" in text
    assert "of older versions, which the log keeps for 30 days" in text
    assert "purge --log" in text
    (table / "stray.split").write_bytes(b"x")
    assert "1 split" in doctor(table).advice[1]
    assert "in no version" in doctor(table).advice[1]
    assert purge(table, now_ms=FAR).deleted == ("stray.split",)
    checkpoint(table)
    clean_log(table, now_ms=FAR)
    assert len(purge(table, now_ms=FAR).deleted) == 10
    assert doctor(table).advice == ()
