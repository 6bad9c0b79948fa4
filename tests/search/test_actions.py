"""Actions keep every field of note 004 and of IndexTables, and those that are unknown, through any rewrite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.search import MergeSkip, RemovedSplit, SearchTable, Split, append, checkpoint, create_table, replace
from delta_sidecar.search.log.actions import from_wire, to_wire
from delta_sidecar.search.log.packing import unpack
from tests.properties.settings import random_cases
from tests.search.made import LOG, SCHEMA, HandMade, packed, paths, removed

FULL = {
    "path": "s3://bucket/table/part-00000-a1b2c3d4.split",
    "partitionValues": {"year": "2024", "month": "10"},
    "size": 1048576,
    "modificationTime": 1696000000000,
    "dataChange": True,
    "stats": '{"numRecords":1000}',
    "tags": {"source": "batch-job-123"},
    "numRecords": 1000,
    "minValues": {"id": "1", "timestamp": "2024-10-01T00:00:00Z"},
    "maxValues": {"id": "1000", "timestamp": "2024-10-01T23:59:59Z"},
    "footerStartOffset": 1040000,
    "footerEndOffset": 1048576,
    "hotcacheStartOffset": 0,
    "hotcacheLength": 8192,
    "hasFooterOffsets": True,
    "timeRangeStart": "2024-10-01T00:00:00Z",
    "timeRangeEnd": "2024-10-01T23:59:59Z",
    "splitTags": ["production", "batch-123"],
    "deleteOpstamp": 0,
    "numMergeOps": 0,
    "docMappingJson": '{"fields":[]}',
    "uncompressedSizeBytes": 2097152,
    "docMappingRef": "z7TwwZ-tDWGD-uX5",
    "companionSourceFiles": ["a.parquet"],
    "companionDeltaVersion": 0,
    "companionFastFieldMode": "HYBRID",
    "addedAtVersion": 0,
    "addedAtTimestamp": 1775007203199,
}
REMOVED = {
    "path": "old-file.split",
    "deletionTimestamp": 1696000001000,
    "dataChange": False,
    "partitionValues": {"year": "2024"},
    "size": 0,
    "tags": {"reason": "overwrite"},
}
SKIPPED = {
    "path": "corrupted-file.split",
    "skipTimestamp": 1696000000000,
    "reason": "corrupted split metadata",
    "operation": "merge",
    "partitionValues": {"year": "2024"},
    "size": 102400,
    "retryAfter": 1696086400000,
    "skipCount": 1,
}


@pytest.mark.parametrize(("kind", "wire"), [(Split, FULL), (RemovedSplit, REMOVED), (MergeSkip, SKIPPED)])
def test_every_field_comes_back(kind: type[Split], wire: dict[str, object]) -> None:
    action = from_wire(kind, wire, "here")
    assert action.extra == {}, "all of them are known"
    assert to_wire(action) == wire
    more = {**wire, "colour": {"deep": [1, None]}, "weight": 1.5}
    assert to_wire(from_wire(kind, more, "here")) == more


def test_all_fields_are_in_the_example() -> None:
    assert set(Split.__struct_fields__) - {"extra"} == set(FULL)


def test_nulls_and_loose_numbers_are_taken() -> None:
    wire = {"path": "a", "size": "7", "numRecords": 3.0, "hasFooterOffsets": None, "minValues": {"id": 1, "on": True}}
    split = from_wire(Split, wire, "here")
    assert (split.size, split.numRecords, split.hasFooterOffsets) == (7, 3, False)
    assert split.minValues == {"id": "1", "on": "true"}


def test_unknown_fields_live_through_checkpoints_and_unknown_actions_are_ignored(tmp_path: Path) -> None:
    add = {**FULL, "path": "a.split", "partitionValues": {}, "colour": "red", "numbers": [1, 2]}
    made = HandMade(tmp_path, configuration={"x": "y"}).put(
        1, {"add": add}, {"teleport": {"to": "mars"}}, {"mergeskip": {**SKIPPED, "path": "a.split", "mood": "bad"}}
    )
    text = (tmp_path / LOG / f"{0:020d}.json").read_text().replace('"createdTime"', '"owner": "ops", "createdTime"')
    made.file(f"{LOG}/{0:020d}.json", text.encode())
    checkpoint(made.uri)
    content = json.loads((tmp_path / LOG / f"{1:020d}.checkpoint.json").read_text())
    assert content["add"] == [add]
    assert (content["metaData"]["owner"], content["mergeskip"][0]["mood"]) == ("ops", "bad")
    made.drop(1)
    table = SearchTable(made.uri)
    assert to_wire(table.splits()[0]) == add
    assert table.skips()[0].extra == {"mood": "bad"}


def test_of_two_actions_on_a_split_in_one_version_the_last_counts(tmp_path: Path) -> None:
    add = {"add": {"path": "a.split", "size": 1}}
    made = HandMade(tmp_path).put(1, add, removed("a.split")).put(2, removed("a.split"), add)
    assert (paths(made.uri, 1), paths(made.uri, 2)) == (set(), {"a.split"})


def test_a_split_that_was_added_again_is_the_newer_one(tmp_path: Path) -> None:
    made = HandMade(tmp_path)
    for version, size in ((1, 1), (2, 2)):
        made.put(version, {"add": {"path": "a.split", "size": size}})
    assert [split.size for split in SearchTable(made.uri).splits()] == [2]


def test_absolute_paths_below_the_table_are_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create_table(uri, SCHEMA)
    append(uri, [Split(path=f"{uri}/a b%20c.split"), Split(path=f"file://{uri}/d.split")])
    table = SearchTable(uri)
    assert sorted(table.split_path(split) for split in table.splits()) == ["a b%20c.split", "d.split"]
    replace(uri, [f"{uri}/d.split"], [])
    assert len(table.splits()) == 2
    assert len(SearchTable(uri).splits()) == 1


def test_names_that_only_look_escaped_are_splits_of_their_own(tmp_path: Path) -> None:
    uri = str(tmp_path / "50% off")
    create_table(uri, SCHEMA)
    append(uri, [Split(path="a b.split"), Split(path="a%20b.split"), Split(path=f"{uri}/a%2520b.split")])
    table = SearchTable(uri)
    assert sorted(table.split_path(split) for split in table.splits()) == ["a b.split", "a%20b.split", "a%2520b.split"]
    replace(uri, ["a%20b.split", f"file://{uri}/a%2520b.split"], [])
    assert paths(uri) == {"a b.split"}


@random_cases(60)
@given(st.binary(max_size=300), st.integers(1, 40))
def test_packed_text_comes_back_however_it_arrives(text: bytes, size: int) -> None:
    for data in (packed(text), packed(text)[2:], packed(text) + packed(text)[2:]):
        cut = max(size, 4)
        chunks = [data[at : at + cut] for at in range(0, len(data), cut)]
        whole = b"".join(bytes(piece) for piece in unpack(chunks, "x"))
        assert whole in (text, text + text)
