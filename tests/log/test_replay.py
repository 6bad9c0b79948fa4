"""The one replay, case by case, through the stream, each by every strategy and over every kind of base; and
its walk from a broken base to the next, against sets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.limits import MaskLimits
from delta_sidecar.log.commits import CommitBatch
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import DELETION_VECTOR
from delta_sidecar.log.replay import Replay
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import DeletionVector, add, cdc, domain_metadata, remove, txn, unknown_action
from delta_sidecar.testing.checkpoint_files import CheckpointKind
from delta_sidecar.testing.table_builder import LogBuilder

KINDS: tuple[CheckpointKind | None, ...] = (None, "classic", "multi-part", "v2-json", "v2-parquet", "v2-classic")


def listed(built: LogBuilder) -> list[tuple[str, int | None]]:
    """Path and size of the live files, the same by every strategy."""
    by_strategy = {
        strategy: sorted((f.path, f.size) for f in DeltaTable(str(built.root)).file_infos(strategy=strategy))
        for strategy in ("auto", "reverse", "forward")
    }
    assert by_strategy["auto"] == by_strategy["reverse"] == by_strategy["forward"]
    return by_strategy["auto"]


@pytest.fixture(params=KINDS, ids=str)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> LogBuilder:
    """Files a (size 1), b (size 2) and c (size 3, with a vector), in commits or in a checkpoint."""
    features = ["deletionVectors", "v2Checkpoint"]
    built = LogBuilder(tmp_path).protocol(reader=3, features=features)
    built.commit(add("a", size=1), add("b", size=2), add("c", size=3, dv=DeletionVector("one")))
    return built if request.param is None else built.checkpoint(request.param)


def test_nothing_after_the_base(base: LogBuilder) -> None:
    assert listed(base) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_remove_hides_the_file_in_the_base(base: LogBuilder) -> None:
    assert listed(base.commit(remove("a"), add("d", size=4))) == [("b", 2), ("c", 3), ("d", 4)]


def test_a_remove_without_the_vector_is_another_key(base: LogBuilder) -> None:
    assert listed(base.commit(remove("c"))) == [("a", 1), ("b", 2), ("c", 3)]
    assert listed(base.commit(remove("c", dv=DeletionVector("one")))) == [("a", 1), ("b", 2)]


def test_a_vector_update_in_one_commit(base: LogBuilder) -> None:
    base.commit(remove("a"), add("a", size=10, dv=DeletionVector("two")))
    assert listed(base) == [("a", 10), ("b", 2), ("c", 3)]
    base.commit(add("a", size=11, dv=DeletionVector("three")), remove("a", dv=DeletionVector("two")))
    assert listed(base) == [("a", 11), ("b", 2), ("c", 3)]


def test_a_vector_taken_away_again(base: LogBuilder) -> None:
    base.commit(remove("c", dv=DeletionVector("one")), add("c", size=30))
    assert listed(base) == [("a", 1), ("b", 2), ("c", 30)]


def test_a_file_added_again_without_a_remove_has_its_newest_word(base: LogBuilder) -> None:
    assert listed(base.commit(add("b", size=20)).commit(add("b", size=21))) == [("a", 1), ("b", 21), ("c", 3)]


def test_a_file_removed_and_added_again_later(base: LogBuilder) -> None:
    base.commit(remove("a")).commit(add("a", size=10)).commit(remove("a")).commit(add("a", size=11))
    assert listed(base) == [("a", 11), ("b", 2), ("c", 3)]


def test_spellings_of_one_path_are_one_file(base: LogBuilder) -> None:
    assert listed(base.commit(remove("%61")).commit(remove("x/../b"))) == [("c", 3)]


def test_the_text_of_the_log_is_what_comes_out(base: LogBuilder) -> None:
    assert listed(base.commit(add("p=%20/./d", size=4)))[-1] == ("p=%20/./d", 4)


def test_the_same_key_added_and_removed_in_one_commit_is_live(
    base: LogBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    base.commit(add("d", size=4), remove("d"), remove("a"))
    with caplog.at_level(logging.WARNING):
        assert listed(base) == [("b", 2), ("c", 3), ("d", 4)]
    assert "adds and removes the same file" in caplog.text


def test_other_actions_change_nothing(base: LogBuilder) -> None:
    assert len(listed(base.commit(txn(), domain_metadata(), cdc(), unknown_action(x=1)))) == 3


def test_a_compacted_range_is_one_commit_of_the_walk(base: LogBuilder) -> None:
    base.commit(add("d", size=4)).commit(remove("a"), remove("d")).commit(add("d", size=5)).commit(remove("b"))
    expected = listed(base)
    assert listed(base.compact(1, 3)) == expected == [("c", 3), ("d", 5)]
    shared_cache.clear()  # a process that has read the commits has no use for a range of them
    assert "compacted" in str(DeltaTable(str(base.root)).snapshot.segment.commits[-2])


def test_a_predicate_does_not_keep_a_remove_from_hiding(base: LogBuilder) -> None:
    stats = {"numRecords": 1, "minValues": {"x": 5}, "maxValues": {"x": 5}, "nullCount": {"x": 0}}
    base.commit(add("e", stats=stats)).checkpoint().commit(remove("e"), add("f", stats=stats | {"minValues": {"x": 1}}))
    for strategy in ("reverse", "forward"):
        found = {f.path for f in DeltaTable(str(base.root)).file_infos(predicate="x = 5", strategy=strategy)}
        assert "e" not in found
        assert "f" in found


Commit: TypeAlias = tuple[list[str], list[str]]
"""Paths that it adds, and that it removes."""
paths = st.integers(0, 15).map("part-{:05}.parquet".format)
commits = st.lists(st.tuples(*[st.lists(paths, max_size=5, unique=True)] * 2), max_size=5)
few = MaskLimits(recent_keys=3, array_keys=1, joined_arrays=2, search_keys=0, keys_per_row=1)


@given(
    newer=commits,
    older=commits,
    base=st.lists(paths, min_size=1, max_size=16, unique=True),
    out=st.integers(0, 16),
    limits=st.sampled_from([few, MaskLimits()]),
)
def test_a_walk_goes_on_where_a_base_broke(
    newer: list[Commit], older: list[Commit], base: list[str], out: int, limits: MaskLimits
) -> None:
    replay = Replay(KeyMaker("file:///t"), limits)
    seen: set[str] = set()
    walk(replay, newer, seen)
    rows = file_rows(base)
    within = (min(base).encode(), max(base).encode())
    flags = replay.range_filter().hidden(rows.column("path"), rows.column("deletion_vector"), within)
    assert (set() if flags is None else {base[row] for row in flags.nonzero()[0]}) == seen & set(base)

    given_out = [path for path in base if path not in seen][:out]
    replay.hide([file_rows(given_out)])
    seen |= set(given_out)
    walk(replay, older, seen)
    live = [path for batch in replay.base_filter().live([rows]) for path in batch.column("path").to_pylist()]
    assert live == [path for path in base if path not in seen]
    assert replay.mask_size >= len(seen)


def walk(replay: Replay, commits: list[Commit], seen: set[str]) -> None:
    """Walk commits, newest first, beside a model."""
    for adds, removes in commits:
        keys = [path.encode() for path in adds]
        batch = CommitBatch(adds, keys, pa.array([path.encode() for path in removes], pa.binary()))
        assert [path for live in replay.commit([batch]) for path in live] == [p for p in adds if p not in seen]
        seen |= {*adds, *removes}


def file_rows(paths: list[str]) -> pa.RecordBatch:
    columns = {"path": pa.array(paths, pa.string()), "deletion_vector": pa.nulls(len(paths), DELETION_VECTOR)}
    return pa.RecordBatch.from_pydict(columns)
