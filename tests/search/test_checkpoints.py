"""Checkpoints: JSON for all, Parquet by a named feature; skips and recent removes are kept in both."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from delta_sidecar import CorruptTableError, UnsupportedFeatureError
from delta_sidecar.search import (
    SearchTable,
    Split,
    append,
    checkpoint,
    create_table,
    replace,
    skip,
    upgrade_protocol,
)
from delta_sidecar.search.log.actions import to_wire
from tests.search.made import LOG, PROTOCOL, SCHEMA, HandMade, added, lines, metadata, packed, paths, splits


def filled(uri: Path, features: tuple[str, ...] = ()) -> None:
    create_table(uri, SCHEMA, features=features)
    append(uri, splits("a.split", "b.split", "c.split", numRecords=0, minValues={"id": "1"}, tags={"k": None}))
    skip(uri, "a.split", "broken", cooldown=timedelta(days=1))
    skip(uri, "b.split", "broken", cooldown=timedelta(0))
    skip(uri, "c.split", "broken", cooldown=timedelta(days=1))
    replace(uri, ["c.split"], [Split(path="d.split", extra={"new": 1})])


@pytest.mark.parametrize("features", [(), ("parquetCheckpoint",)])
def test_all_of_the_state_comes_back(tmp_path: Path, features: tuple[str, ...]) -> None:
    filled(tmp_path, features)
    before = SearchTable(tmp_path).state
    assert checkpoint(tmp_path, large=1) == 5
    (written,) = (tmp_path / LOG).glob("*.checkpoint.*")
    assert written.suffix == (".parquet" if features else ".json"), "Parquet only by the feature"
    for version in range(1, 5):
        (tmp_path / LOG / f"{version:020d}.json").unlink()
    after = SearchTable(tmp_path).state
    assert after.snapshot.segment.commits == ()
    assert sorted(map(str, map(to_wire, after.splits))) == sorted(map(str, map(to_wire, before.splits)))
    assert (after.skips, after.removed) == (before.skips, before.removed)
    assert (after.protocol, after.metadata) == (before.protocol, before.metadata)
    assert {path.path for path in SearchTable(tmp_path).merge_candidates()} == {"b.split", "d.split"}


def test_counts_go_on_after_a_checkpoint(tmp_path: Path) -> None:
    filled(tmp_path)
    checkpoint(tmp_path)
    skip(tmp_path, "b.split", "still broken")
    counts = {found.path: found.skipCount for found in SearchTable(tmp_path).skips()}
    assert counts == {"a.split": 1, "b.split": 2}, "the expired one is counted on; that of a removed split is gone"


def test_parquet_only_from_many_splits_on(tmp_path: Path) -> None:
    filled(tmp_path, ("parquetCheckpoint",))
    checkpoint(tmp_path, large=4)
    assert next((tmp_path / LOG).glob("*.checkpoint.*")).suffix == ".json"


def test_parquet_can_be_read_by_others(tmp_path: Path) -> None:
    filled(tmp_path, ("parquetCheckpoint",))
    checkpoint(tmp_path, large=1)
    table = pq.read_table(tmp_path / LOG / f"{5:020d}.checkpoint.parquet")
    assert sorted(table.column("path").to_pylist()) == ["a.split", "b.split", "d.split"]
    assert table.column("size").to_pylist().count(10) == 2


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"PAR1" + b"\0" * 50 + b"PAR1"])
def test_damaged_parquet(tmp_path: Path, damage: bytes) -> None:
    filled(tmp_path, ("parquetCheckpoint",))
    checkpoint(tmp_path, large=1)
    (tmp_path / LOG / f"{5:020d}.checkpoint.parquet").write_bytes(damage)
    assert paths(str(tmp_path)) == {"a.split", "b.split", "d.split"}
    (tmp_path / LOG / f"{2:020d}.json").unlink()
    with pytest.raises(CorruptTableError):
        SearchTable(tmp_path).splits()


def test_forms_of_others(tmp_path: Path) -> None:
    """One object as in note 004, action lines, and both packed."""
    forms = [
        json.dumps({"protocol": PROTOCOL, "metaData": metadata(), "add": [added("a.split")["add"]]}).encode(),
        json.dumps({"protocol": PROTOCOL, "metaData": metadata(), "add": [added("a.split")["add"]]}, indent=2).encode(),
        lines({"protocol": PROTOCOL}, {"metaData": metadata()}, added("a.split")),
    ]
    for number, data in enumerate([*forms, *map(packed, forms)]):
        made = HandMade(tmp_path / str(number)).put(2, added("b.split")).checkpoint(1, data)
        assert paths(made.uri) == {"a.split", "b.split"}
        assert SearchTable(made.uri).metadata.id == metadata()["id"]


def test_a_second_one_of_a_version_changes_nothing(tmp_path: Path) -> None:
    filled(tmp_path)
    checkpoint(tmp_path)
    path = tmp_path / LOG / f"{5:020d}.checkpoint.json"
    before = path.read_bytes()
    checkpoint(tmp_path)
    assert path.read_bytes() == before


def test_the_hint_never_goes_back(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / LOG / "_last_checkpoint").write_text('{"version":9}')
    checkpoint(tmp_path)
    assert json.loads((tmp_path / LOG / "_last_checkpoint").read_text()) == {"version": 9}


class TestUpgrade:
    def test_is_in_the_next_version_and_only_goes_up(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        assert upgrade_protocol(tmp_path, 2, 2).version == 1
        assert upgrade_protocol(tmp_path, 1, 1).id is None, "nothing to do"
        upgrade_protocol(tmp_path, features=["parquetCheckpoint"])
        upgrade_protocol(tmp_path, 3, 3, features=["footerOffsets"])
        found = [SearchTable(tmp_path, version).protocol for version in range(4)]
        assert [(p.minReaderVersion, p.minWriterVersion) for p in found] == [(1, 2), (2, 2), (3, 3), (3, 3)]
        assert found[3].readerFeatures == found[3].writerFeatures == ["parquetCheckpoint", "footerOffsets"]

    @pytest.mark.parametrize(
        "arguments", [{"features": ["warp"]}, {"min_reader_version": 9}, {"min_writer_version": 4}]
    )
    def test_to_what_is_unknown_is_refused(self, tmp_path: Path, arguments: dict[str, object]) -> None:
        create_table(tmp_path, SCHEMA)
        with pytest.raises(UnsupportedFeatureError):
            upgrade_protocol(tmp_path, **arguments)  # type: ignore[arg-type]
        assert SearchTable(tmp_path).version == 0

    def test_the_newest_metadata_counts(self, tmp_path: Path) -> None:
        made = HandMade(tmp_path).put(1, {"metaData": metadata(name="new")}).put(2, added("a.split"))
        assert [SearchTable(made.uri, v).metadata.name for v in (0, 1, 2)] == [None, "new", "new"]
