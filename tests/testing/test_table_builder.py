"""The builder's logs are real ones: `deltalake` reads the kinds it knows, and the model agrees with it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.testing.actions import (
    DeletionVector,
    add,
    cdc,
    column,
    domain_metadata,
    remove,
    stats_json,
    txn,
    unknown_action,
)
from delta_sidecar.testing.checkpoint_files import CHECKPOINT_KINDS, STRING_KINDS, CheckpointKind, StringKind
from delta_sidecar.testing.data_files import collect_stats, write_data_file
from delta_sidecar.testing.model import canonical_path, live_paths, read_commits, replay
from delta_sidecar.testing.table_builder import LogBuilder, hint_checksum

COLUMNS = {"p": "string", "x": "long", "t": "timestamp", "d": "decimal(10,2)"}


def sample(root: Path, kind: CheckpointKind = "classic") -> LogBuilder:
    features = ["deletionVectors", "v2Checkpoint"] if kind.startswith("v2") else ["deletionVectors"]
    stamp = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
    rows = [{"x": 1, "t": stamp, "d": Decimal("1.25")}, {"x": None, "t": None, "d": Decimal("-3.50")}]
    stats = collect_stats(rows, ["x", "t", "d"])
    return (
        LogBuilder(root)
        .protocol(reader=3, features=features)
        .metadata(COLUMNS, partition_by=["p"])
        .commit(*[add(f"{i}.parquet", partition={"p": f"v{i}"}, stats=stats) for i in range(5)])
        .commit(remove("1.parquet"), txn(), domain_metadata(), cdc())
        .commit(remove("2.parquet"), add("2.parquet", partition={"p": None}, stats=stats, dv=DeletionVector()))
    )


def uris(root: Path) -> list[str]:
    return sorted(Path(uri).name for uri in deltalake.DeltaTable(str(root)).file_uris())


@pytest.mark.parametrize("kind", CHECKPOINT_KINDS)
def test_deltalake_reads_every_kind_of_checkpoint_as_the_model_does(tmp_path: Path, kind: CheckpointKind) -> None:
    builder = sample(tmp_path, kind).checkpoint(kind, stats_parsed=True, partition_parsed=True).cleanup(before=3)
    builder.commit(add("9.parquet", partition={"p": "v9"}))
    assert uris(tmp_path) == live_paths(builder.history) == [f"{i}.parquet" for i in (0, 2, 3, 4, 9)]


@pytest.mark.parametrize("strings", STRING_KINDS)
def test_strings_come_back_in_the_arrow_type_asked_for(tmp_path: Path, strings: StringKind) -> None:
    sample(tmp_path).checkpoint(strings=strings, row_group_size=2)
    file = pq.ParquetFile(tmp_path / "_delta_log" / f"{2:020}.checkpoint.parquet")
    assert file.num_row_groups > 2
    text = file.schema_arrow.field("add").type.field("path").type
    expected = pa.dictionary(pa.int32(), pa.string()) if strings == "dictionary" else getattr(pa, strings)()
    assert text == expected


def test_typed_columns_hold_what_the_json_says(tmp_path: Path) -> None:
    sample(tmp_path).checkpoint(stats=False, stats_parsed=True, partition_parsed=True)
    table = pq.read_table(tmp_path / "_delta_log" / f"{2:020}.checkpoint.parquet")
    adds = [row["add"] for row in table.to_pylist() if row["add"]]
    assert "stats" not in adds[0]
    parsed = adds[0]["stats_parsed"]
    assert (parsed["numRecords"], parsed["nullCount"]) == (2, {"x": 1, "t": 1, "d": 0})
    assert parsed["minValues"]["d"] == Decimal("-3.50")
    assert parsed["maxValues"]["t"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)
    assert {a["path"]: a["partitionValues_parsed"]["p"] for a in adds}["2.parquet"] is None


def test_tombstones_are_written_only_where_wanted(tmp_path: Path) -> None:
    name = f"_delta_log/{2:020}.checkpoint.parquet"
    sample(tmp_path / "a").checkpoint()
    sample(tmp_path / "b").checkpoint(tombstones=False)
    assert pq.read_table(tmp_path / "a" / name)["remove"].null_count < pq.read_table(tmp_path / "a" / name).num_rows
    assert pq.read_table(tmp_path / "b" / name)["remove"].null_count == pq.read_table(tmp_path / "b" / name).num_rows


def test_the_model_reads_the_log_from_disk_as_the_builder_remembers_it(tmp_path: Path) -> None:
    builder = sample(tmp_path)
    assert read_commits(tmp_path) == builder.history
    assert read_commits(tmp_path, 0) == builder.history[:1]
    builder.drop(1)
    with pytest.raises(FileNotFoundError):
        read_commits(tmp_path)


def test_a_compaction_says_what_its_commits_say_together(tmp_path: Path) -> None:
    builder = sample(tmp_path).compact(1, 2)
    text = (tmp_path / "_delta_log" / f"{1:020}.{2:020}.compacted.json").read_text()
    short = [builder.history[0], [json.loads(line) for line in text.splitlines()]]
    assert replay(short).files == builder.state().files
    assert "commitInfo" not in text


def test_one_commit_may_add_and_remove_one_key_and_the_add_wins(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path).commit(add("a")).commit(add("a", size=7), remove("a")).commit(remove("b"))
    assert [f["size"] for f in builder.state().files.values()] == [7]


def test_a_deletion_vector_makes_another_key_of_one_path(tmp_path: Path) -> None:
    vector = DeletionVector(offset=None)
    builder = LogBuilder(tmp_path).commit(add("a")).commit(remove("a"), add("a", dv=vector))
    assert [f["deletionVector"]["pathOrInlineDv"] for f in builder.state().files.values()] == [vector.path]
    assert builder.commit(remove("a")).state().files, "a remove without the vector is another key"
    assert not builder.commit(remove("a", dv=vector)).state().files


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a b", "a%20b"),
        ("/x/a", "file:/x/a"),
        ("file:/x/a", "file:///x/a"),
        ("s3a://b/x", "s3://b/x"),
        ("d/./a", "d/a"),
        ("d/e/../a", "d/a"),
        ("%C3%A9", "é"),
        ("a%2fb", "a%2Fb"),
    ],
)
def test_spellings_of_one_path(one: str, other: str) -> None:
    assert canonical_path(one) == canonical_path(other)


@pytest.mark.parametrize(("one", "other"), [("a%2Fb", "a/b"), ("a", "/a"), ("a%252Fb", "a%2Fb"), ("A", "a")])
def test_different_paths_stay_apart(one: str, other: str) -> None:
    assert canonical_path(one) != canonical_path(other)


def test_the_checksum_is_the_one_of_the_protocol_text() -> None:
    body = {
        "k0": "'v 0'",
        "checksum": "adsaskfljadfkjadfkj",
        "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
    }
    assert hint_checksum(body) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_damage_leaves_what_its_name_says(tmp_path: Path) -> None:
    builder = sample(tmp_path).checkpoint("v2-json", version=1).checkpoint("multi-part").litter()
    builder.break_checkpoint(0, "sidecar").break_checkpoint(1, "empty").incomplete_checkpoint(0)
    builder.hint(fault="checksum").crc(fault="no metadata").touch(1, 5_000)
    log = tmp_path / "_delta_log"
    assert len(list(log.glob("*.checkpoint.*.0000000003.parquet"))) == 2
    assert json.loads((log / "_last_checkpoint").read_text())["checksum"] == "0" * 32
    assert "metadata" not in json.loads((log / f"{2:020}.crc").read_text())
    assert (log / f"{1:020}.json").stat().st_mtime == 5
    assert not (log / builder.checkpoints[0][1].sidecars[0]).exists()
    builder.without_hint().drop_checkpoint(0)
    assert uris(tmp_path) == live_paths(builder.history)


def test_unknown_actions_and_column_metadata_survive(tmp_path: Path) -> None:
    mapped = column("x", metadata={"delta.columnMapping.physicalName": "c1"})
    builder = LogBuilder(tmp_path).metadata([mapped]).commit(unknown_action(a=1), in_commit_timestamp=5)
    assert {"fromTheFuture": {"a": 1}} in read_commits(tmp_path)[0]
    assert builder.history[0][0]["commitInfo"]["inCommitTimestamp"] == 5


def test_data_files_hold_their_rows(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, None], "s": ["a", "z" * 40, None]})
    spec = write_data_file(tmp_path, "p=a%20b/f.parquet", rows, partition={"p": "a b"})
    LogBuilder(tmp_path).metadata({"p": "string", "x": "long", "s": "string"}, partition_by=["p"]).commit(spec)
    read = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert read.select(["x", "s"]).to_pylist() == rows.to_pylist()
    assert isinstance(spec.stats, dict)
    assert spec.stats["maxValues"]["s"] > "z" * 40
    assert json.loads(stats_json(spec.stats))["nullCount"] == {"x": 1, "s": 1}
