"""The eight workflows of note 004, each with its outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delta_sidecar.search import SearchTable, append, checkpoint, clean_log, create_table, overwrite, replace
from tests.search.made import FAR, LOG, SCHEMA, V0, paths, splits


@pytest.fixture
def table(tmp_path: Path) -> str:
    """After the first seven workflows: versions 0 to 6."""
    uri = str(tmp_path / "t")
    create_table(uri, SCHEMA)
    append(uri, splits("file-1.split", "file-2.split", numRecords=1000))
    append(uri, splits("file-3.split", numRecords=1000))
    overwrite(uri, splits("file-4.split", numRecords=3000))
    append(uri, splits("file-5.split", numRecords=500))
    append(uri, splits("file-6.split", numRecords=500))
    replace(uri, ["file-5.split", "file-6.split"], splits("file-7-merged.split", numRecords=1000))
    return uri


def lines_of(table: str, version: int) -> list[dict[str, object]]:
    return [json.loads(line) for line in (Path(table) / LOG / f"{version:020d}.json").read_text().splitlines()]


def test_create_defines_an_empty_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    commit = create_table(uri, SCHEMA, name="logs", description="of web servers")
    opened = SearchTable(uri)
    assert (commit.version, opened.version, opened.splits()) == (0, 0, [])
    assert opened.schema().names == ["id", "content"]
    assert [list(line) for line in lines_of(uri, 0)] == [["protocol"], ["metaData"]], "exactly these two"
    assert (opened.protocol.minReaderVersion, opened.protocol.minWriterVersion) == (1, 2)
    assert (opened.metadata.name, opened.metadata.format.provider) == ("logs", "indextables")  # type: ignore[union-attr]
    assert opened.metadata.id == commit.id


def test_every_version_has_the_files_of_its_workflow(table: str) -> None:
    assert [paths(table, version) for version in range(7)] == [
        set(),
        {"file-1.split", "file-2.split"},
        {"file-1.split", "file-2.split", "file-3.split"},
        {"file-4.split"},
        {"file-4.split", "file-5.split"},
        {"file-4.split", "file-5.split", "file-6.split"},
        {"file-4.split", "file-7-merged.split"},
    ]


def test_an_overwrite_removes_and_adds_in_one_version(table: str) -> None:
    names = [next(iter(line)) for line in lines_of(table, 3)]
    assert names == ["commitInfo", *["remove"] * 3, "add"]


def test_a_merge_changes_no_data(table: str) -> None:
    actions = [action for line in lines_of(table, 6) for name, action in line.items() if name in ("add", "remove")]
    assert [action["dataChange"] for action in actions] == [False] * 3  # type: ignore[index]


def test_a_checkpoint_changes_nothing_but_the_reading(table: str) -> None:
    before = SearchTable(table)
    assert checkpoint(table) == 6
    after = SearchTable(table)
    assert (str(after.snapshot.segment.base), len(after.snapshot.segment.commits)) == ("JSON checkpoint 6", 0)
    assert paths(after) == paths(before)
    assert json.loads((Path(table) / LOG / "_last_checkpoint").read_text())["version"] == 6
    assert [paths(table, version) for version in (2, 3)] == [
        {"file-1.split", "file-2.split", "file-3.split"},
        {"file-4.split"},
    ]


def test_cleaning_after_a_checkpoint_keeps_the_table_and_version_0(table: str) -> None:
    checkpoint(table)
    first = (Path(table) / V0).read_bytes()
    report = clean_log(table, now_ms=FAR)
    assert [path[-25:] for path in report.deleted] == [f"{version:020d}.json" for version in range(1, 6)]
    assert (report.oldest, SearchTable(table).versions()) == (6, [0, 6])
    assert paths(table) == {"file-4.split", "file-7-merged.split"}
    assert (Path(table) / V0).read_bytes() == first


def test_the_tenth_version_writes_a_checkpoint_by_itself(tmp_path: Path) -> None:
    """Note 004 counts ten transactions where it wrote six: ours are counted by the version."""
    uri = str(tmp_path / "t")
    create_table(uri, SCHEMA)
    commits = [append(uri, splits(f"{number}.split")) for number in range(1, 13)]
    assert [commit.checkpoint for commit in commits] == [None] * 9 + [10, None, None]
    opened = SearchTable(uri)
    assert (opened.version, str(opened.snapshot.segment.base)) == (12, "JSON checkpoint 10")
    assert len(opened.splits()) == 12
