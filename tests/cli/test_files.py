"""`sidecar files`: one line a live file, for machines and for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.cli.files import stats_json
from delta_sidecar.testing.actions import DeletionVector, add, remove
from delta_sidecar.testing.table_builder import LogBuilder
from tests.cli.running import invoke, sidecar

KEYS = ["path", "uri", "size", "modification_time", "partition_values", "num_records", "deletion_vector"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    builder = LogBuilder(tmp_path / "table").protocol(reader=3, features=["deletionVectors"])
    builder.metadata({"x": "long", "p": "string"}, partition_by=["p"])
    builder.commit(
        add("p=a%20b/one.parquet", size=10, partition={"p": "a b"}, stats={"numRecords": 3, "maxValues": {"x": 1}}),
        add("two.parquet", size=20, partition={"p": None}),
    )
    builder.checkpoint()
    vector = DeletionVector(cardinality=2)
    builder.commit(remove("two.parquet"), add("three.parquet", size=30, partition={"p": "c"}, dv=vector))
    return builder.root


def test_json_has_exactly_these_keys_and_values(table: Path) -> None:
    done = sidecar("files", table, "--json")
    three, one = done.objects
    assert [list(three), list(one)] == [KEYS, KEYS]
    assert one["path"] == "p=a%20b/one.parquet"
    assert one["uri"] == f"{table}/p=a b/one.parquet"
    assert one["size"] == 10
    assert one["partition_values"] == {"p": "a b"}
    assert one["num_records"] == 3
    assert one["deletion_vector"] is None
    assert three["deletion_vector"]["cardinality"] == 2
    assert three["uri"] == f"{table}/three.parquet"
    assert done.err == ""


def test_stats_are_an_object(table: Path) -> None:
    _, one = invoke("files", table, "--json", "--stats").objects
    assert [*KEYS, "stats"] == list(one)
    assert one["stats"] == {"numRecords": 3, "maxValues": {"x": 1}}


def test_uri_is_the_one_the_table_gives(table: Path) -> None:
    opened = DeltaTable(table)
    files = invoke("files", table, "--json").objects
    assert files
    assert [file["uri"] for file in files] == [opened.file_uri(file["path"]) for file in files]


@pytest.mark.parametrize(
    "path",
    ["a.parquet", "./a.parquet", "b/../a.parquet", "a//b", ".hidden/a", "s3://other/a%20b", "/abs/a", "t=12:00/a"],
)
def test_uri_of_odd_paths(tmp_path: Path, path: str) -> None:
    root = LogBuilder(tmp_path).commit(add(path)).root
    (file,) = invoke("files", root, "--json").objects
    assert file["path"] == path
    assert file["uri"] == DeltaTable(root).file_uri(path)


def test_columns_limit_version_where(table: Path) -> None:
    assert invoke("files", table, "--json", "--columns", "size,uri", "--limit", 1).objects == [
        {"size": 30, "uri": f"{table}/three.parquet"}
    ]
    assert {f["path"] for f in invoke("files", table, "--json", "--version", 0).objects} == {
        "p=a%20b/one.parquet",
        "two.parquet",
    }
    (kept,) = invoke("files", table, "--json", "--where", "p = 'c'").objects
    assert kept["path"] == "three.parquet"
    assert invoke("files", table, "--json", "--limit", 0).objects == []


@pytest.mark.parametrize("strategy", ["auto", "reverse", "forward"])
def test_strategies_give_the_same(table: Path, strategy: str) -> None:
    assert len(invoke("files", table, "--json", "--strategy", strategy).objects) == 2


def test_a_table_for_people(table: Path) -> None:
    done = invoke("files", table)
    heading, three, one = done.out.splitlines()
    assert heading.split(maxsplit=3) == ["size", "modified", "p", "deleted rows  path"]
    assert three.split() == ["30", "bytes", "2023-11-14", "22:13:20Z", "c", "2", "three.parquet"]
    assert one.endswith("p=a%20b/one.parquet")
    assert "\x1b" not in done.out


def test_columns_that_a_table_cannot_have_are_not_shown(tmp_path: Path) -> None:
    root = LogBuilder(tmp_path).commit(add("a.parquet", size=1_234_567)).root
    heading, line = invoke("files", root).out.splitlines()
    assert heading.split() == ["size", "modified", "path"]
    assert line.split()[:2] == ["1.2", "MB"]


def test_text_of_the_table_does_not_steer_the_terminal(tmp_path: Path) -> None:
    root = LogBuilder(tmp_path).commit(add("a\x1b[31m.parquet")).root
    assert "\x1b" not in invoke("files", root).out
    assert invoke("files", root, "--json").objects[0]["path"] == "a\x1b[31m.parquet"


@pytest.mark.parametrize("columns", ["uri", "path", "uri,size"])
def test_a_decoded_path_does_not_steer_the_terminal(tmp_path: Path, columns: str) -> None:
    root = LogBuilder(tmp_path).commit(add("a%1B[31m%0A.parquet")).root
    done = invoke("files", root, "--columns", columns)
    assert done.code == 0
    assert done.out.isascii()
    assert "\x1b" not in done.out
    assert len(done.out.splitlines()) == 2


def test_an_empty_table_is_no_lines(tmp_path: Path) -> None:
    root = LogBuilder(tmp_path).commit().root
    assert invoke("files", root, "--json").objects == []
    assert len(invoke("files", root).out.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "null"),
        ("", "null"),
        ('{"numRecords":1}', '{"numRecords":1}'),
        ('{\n "numRecords": 1}', '{"numRecords":1}'),
        ('{"numRecords":', '"{\\"numRecords\\":"'),
    ],
)
def test_stats_that_are_no_json_stay_text(text: str | None, expected: str) -> None:
    import msgspec

    line = msgspec.json.encode([stats_json(text)]).decode()
    assert line == f"[{expected}]"
    json.loads(line)
