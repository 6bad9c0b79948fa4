"""Logs as real writers left them: each of these stands for tables found in other projects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from delta_sidecar import CorruptLogError, DeltaTable
from delta_sidecar.testing.actions import add, remove
from delta_sidecar.testing.table_builder import LogBuilder


def listed(root: Path) -> list[str]:
    return sorted(f.path for f in DeltaTable(str(root)).file_infos())


def rewrite(root: Path, version: int, edit: dict[str, str]) -> None:
    commit = root / "_delta_log" / f"{version:020d}.json"
    text = commit.read_text()
    for old, new in edit.items():
        assert old in text
        text = text.replace(old, new)
    commit.write_text(text)


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_compacted_file_that_only_puts_commits_together_is_not_used(tmp_path: Path, newest_first: bool) -> None:
    built = LogBuilder(tmp_path).commit(add("a")).commit(add("b")).commit(remove("a")).commit(remove("b"), add("c"))
    log = built.root / "_delta_log"
    versions = [3, 2, 1] if newest_first else [1, 2, 3]
    together = "".join((log / f"{v:020d}.json").read_text().rstrip("\n") + "\n" for v in versions)
    (log / f"{1:020d}.{3:020d}.compacted.json").write_text(together)
    table = DeltaTable(str(built.root))
    assert [f.path for f in table.file_infos()] == ["c"]
    assert "compacted.json was not used" in str(table.scan_files().plan)


def test_a_broken_compacted_file_is_not_used(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path).commit(add("a")).commit(add("b")).commit(remove("a")).compact(1, 2)
    compacted = next((built.root / "_delta_log").glob("*.compacted.json"))
    compacted.write_bytes(compacted.read_bytes()[:-20])
    assert listed(built.root) == ["b"]


def test_lines_may_end_in_a_stray_x(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path).commit(add("a")).commit(add("b"))
    for version in (0, 1):
        commit = built.root / "_delta_log" / f"{version:020d}.json"
        commit.write_text("".join(line + "x\n" for line in commit.read_text().splitlines()))
    assert listed(built.root) == ["a", "b"]


@pytest.mark.parametrize("size", ["7.0", '"7"', "7"])
def test_whole_numbers_may_be_written_otherwise(tmp_path: Path, size: str) -> None:
    built = LogBuilder(tmp_path).commit(add("a", size=1234567))
    rewrite(built.root, 0, {"1234567": size})
    assert [f.size for f in DeltaTable(str(built.root)).file_infos()] == [7]


def test_partition_values_that_are_not_text_are_taken_as_their_text(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path).commit(add("a", partition={"p": "PLACE", "q": "OTHER"}))
    rewrite(built.root, 0, {'"PLACE"': "5", '"OTHER"': "true"})
    (found,) = DeltaTable(str(built.root)).file_infos()
    assert dict(found.partition_values) == {"p": "5", "q": "true"}


def test_a_number_out_of_range_is_one_clear_error(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path).commit(add("a", size=1234567))
    rewrite(built.root, 0, {"1234567": str(2**70)})
    with pytest.raises(CorruptLogError, match=r"0\.json"):
        listed(built.root)


def test_a_checksum_with_a_broken_schema_is_not_used(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path).commit(add("a")).crc()
    checksum = next((built.root / "_delta_log").glob("*.crc"))
    content = json.loads(checksum.read_text())
    content["metadata"]["schemaString"] = content["metadata"]["schemaString"][:-3]
    checksum.write_text(json.dumps(content))
    table = DeltaTable(str(built.root))
    assert [f.path for f in table.file_infos()] == ["a"]
    assert table.snapshot.state_source == "commits"


def test_column_mapping_listed_for_writers_alone_counts(tmp_path: Path) -> None:
    schema = {
        "type": "struct",
        "fields": [
            {
                "name": "id",
                "type": "long",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
            }
        ],
    }
    log = tmp_path / "_delta_log"
    log.mkdir()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["columnMapping"]}
    metadata = {
        "id": "t",
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": "name"},
    }
    lines = [json.dumps({"protocol": protocol}), json.dumps({"metaData": metadata})]
    (log / f"{0:020d}.json").write_text("\n".join(lines))
    assert DeltaTable(str(tmp_path)).schema().fields[0].physical_name == "col-1"


def test_a_broken_page_found_late_means_the_next_base(tmp_path: Path) -> None:
    """Nothing of the broken base is out yet, so the log before it can still take its place."""
    built = LogBuilder(tmp_path).commit(*(add(f"part-{i:05d}.parquet") for i in range(500))).checkpoint()
    built.commit(add("new.parquet"))
    checkpoint = next((built.root / "_delta_log").glob("*.checkpoint.parquet"))
    whole = listed(built.root)
    content = bytearray(checkpoint.read_bytes())
    content[200:2000] = bytes(1800)
    checkpoint.write_bytes(content)
    shutil.rmtree(built.root / "_last_checkpoint", ignore_errors=True)
    table = DeltaTable(str(built.root))
    with table.scan_files() as scan:
        assert sorted(scan.read_all().column("path").to_pylist()) == whole
