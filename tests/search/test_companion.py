"""A companion: in step with its table whatever happens to that, and its hits lead to the table's rows."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable as Writer
from deltalake import write_deltalake

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import (  # noqa: E402
    DeltaTable,
    InputError,
    OptionError,
    OtherTableError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_sidecar.search import (  # noqa: E402
    Companion,
    CompanionSearch,
    SplitCache,
    build_splits,
    follow,
    merge_splits,
    purge,
    rows_of_hits,
)
from delta_sidecar.search.splits.fields import PATH_FIELD, ROW_FIELD  # noqa: E402
from tests.search.lines import log_lines  # noqa: E402
from tests.search.made import FAR  # noqa: E402


def hits(companion: Companion, query: Any = None, cache: SplitCache | None = None) -> tuple[list[int], list[int]]:
    """Keys and rows of all documents, or of those that a query finds."""
    keys: list[int] = []
    rows: list[int] = []
    held = cache or SplitCache()
    for split in companion.search.splits():
        opened = held.open_split(companion.search.store, split)
        asked = tantivy.Query.all_query() if query is None else query(opened.index.schema)
        found = [address for _, address in opened.searcher.search(asked, limit=1_000_000).hits]
        keys += opened.searcher.fast_field_values(PATH_FIELD, found)
        rows += opened.searcher.fast_field_values(ROW_FIELD, found)
    return keys, rows


def found(companion: Companion, word: str | None = None) -> list[int]:
    """The ids of the live rows that are indexed, or of those with a word, sorted."""
    query = None if word is None else lambda schema: tantivy.Query.term_query(schema, "body", word)
    table, _ = rows_of_hits(companion, *hits(companion, query), ["id"])
    return sorted(table.column("id").to_pylist())


def scanned(table: Path, word: str | None = None) -> list[int]:
    rows = DeltaTable(table).to_pyarrow_table(columns=["id", "body"]).to_pylist()
    return sorted(row["id"] for row in rows if word is None or word in (row["body"] or "").split())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in range(3):
        write_deltalake(str(tmp_path / "events"), log_lines(100, first=100 * number), mode="append")
    return tmp_path / "events"


def test_hits_lead_to_rows(table: Path) -> None:
    report = follow(table, text=["body"], time_column="ts")
    assert (report.indexed_files, report.indexed_rows, report.added, report.version) == (3, 300, 1, 1)
    companion = Companion(table)
    assert companion.lag().is_in_step
    keys, rows = hits(companion, lambda schema: tantivy.Query.term_query(schema, "body", "n217"))
    got, is_live = rows_of_hits(companion, keys, rows)
    assert got.to_pylist() == log_lines(1, first=217).to_pylist()
    assert is_live.tolist() == [True]
    for word in ("timeout", "lost"):
        assert found(companion, word) == scanned(table, word)
    # In the order of the hits, also where a row comes twice.
    keys, rows = hits(companion)
    order = random.Random(1).choices(range(300), k=50)
    picked = companion.rows_of_hits([keys[n] for n in order], [rows[n] for n in order], ["id", "body"])
    all_rows = companion.rows_of_hits(keys, rows, ["id", "body"])
    assert picked.equals(all_rows.take(pa.array(order)))


def test_how_far_it_is_behind(table: Path) -> None:
    follow(table, text=["body"])
    write_deltalake(str(table), log_lines(50, first=300), mode="append")
    write_deltalake(str(table), log_lines(50, first=350), mode="append")
    lag = Companion(table).lag()
    assert (lag.version, lag.files, lag.rows, lag.is_in_step) == (4, 2, 100, False)
    assert found(Companion(table)) == list(range(300))
    report = follow(table)
    assert (report.table_version, report.indexed_files, report.removed) == (4, 2, 0)
    assert found(Companion(table)) == list(range(400))
    assert follow(table).version == report.version


def test_files_that_are_gone(table: Path) -> None:
    follow(table, text=["body"], rows_per_split=100)
    Writer(str(table)).delete("id < 100")
    assert found(Companion(table)) == list(range(100, 300))
    assert Companion(table).lag().gone == 1
    report = follow(table)
    assert (report.removed, report.added, report.gone_files) == (1, 0, 1)
    Writer(str(table)).optimize.compact()
    report = follow(table)
    assert (report.removed, report.added, report.indexed_files) == (2, 1, 1)
    assert found(Companion(table)) == list(range(100, 300))
    purge(table / "_search", now_ms=FAR)
    assert found(Companion(table)) == list(range(100, 300))


def test_a_split_of_which_much_is_gone_is_written_anew(table: Path) -> None:
    follow(table, text=["body"])
    Writer(str(table)).delete("id >= 200")
    (before,) = Companion(table).search.splits()
    report = follow(table)
    assert (report.indexed_files, report.added, report.removed) == (0, 1, 1)
    (after,) = Companion(table).search.splits()
    assert (before.numRecords, after.numRecords) == (300, 200)
    assert len(after.companionSourceFiles or ()) == 2
    assert found(Companion(table), "disk") == scanned(table, "disk")
    Writer(str(table)).restore(2)
    assert Companion(table).lag().files == 1
    follow(table)
    assert found(Companion(table)) == list(range(300))
    assert merge_splits(table / "_search").merged == 2
    assert found(Companion(table), "disk") == scanned(table, "disk")
    assert follow(table).indexed_files == 0


def test_two_followers_index_a_file_once(table: Path) -> None:
    follow(table, text=["body"])
    for number in range(4):
        write_deltalake(str(table), log_lines(20, first=300 + 20 * number), mode="append")
    gate = threading.Barrier(3)
    conflicts: list[int] = []

    def run() -> None:
        gate.wait()
        conflicts.append(follow(table).conflicts)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(conflicts) == 3
    keys, rows = hits(Companion(table))
    assert len(set(zip(keys, rows, strict=True))) == len(keys) == 380


def test_at_another_place_and_what_is_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no companion"):
        Companion(table)
    follow(table, tmp_path / "search", text=["body"], filters=["host"])
    assert found(Companion(table, tmp_path / "search")) == list(range(300))
    assert not (table / "_search").exists()
    with pytest.raises(UnsupportedFeatureError, match="other columns"):
        follow(table, tmp_path / "search", text=["host"])
    write_deltalake(str(tmp_path / "other"), log_lines(5))
    with pytest.raises(OtherTableError, match="another table"):
        Companion(tmp_path / "other", tmp_path / "search")
    build_splits(log_lines(5), tmp_path / "plain", text=["body"])
    with pytest.raises(OtherTableError, match="no companion"):
        Companion(table, tmp_path / "plain")
    with pytest.raises(OptionError, match="--text"):
        follow(table)
    companion = Companion(table, tmp_path / "search")
    with pytest.raises(InputError, match="no live row"):
        companion.rows_of_hits([1], [1])
    nothing, is_live = rows_of_hits(companion, [1], [1], ["id"])
    assert (nothing.num_rows, is_live.tolist()) == (0, [False])
    assert companion.live([], []).dtype == np.bool_


@pytest.mark.parametrize(
    ("known", "columns"),
    [
        ("n of the source is string, and was long", {"body": ["disk"], "n": ["01"]}),
        ("n of the source is double, and was long", {"body": ["disk"], "n": [1.5]}),
        ("the source has no column 'n'", {"body": ["disk"]}),
    ],
)
def test_a_table_that_changed_a_column(tmp_path: Path, known: str, columns: dict[str, Any]) -> None:
    table = str(tmp_path / "events")
    write_deltalake(table, pa.table({"body": ["disk"], "n": [1]}))
    follow(table, text=["body"], filters=["n"])
    assert CompanionSearch(table).notes == ()
    write_deltalake(table, pa.table(columns), mode="overwrite", schema_mode="overwrite")
    for choices in ({}, {"text": ["body"], "filters": ["n"]}):
        with pytest.raises(UnsupportedFeatureError, match=f"{known}.*; delete the companion at .*_search"):
            follow(table, **choices)
    (note,) = CompanionSearch(table).notes
    assert known in note
    assert "rows that came since are not found; delete the companion at" in note
