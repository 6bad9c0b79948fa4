"""Checkpoints of every kind say the same, and a broken one means the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptLogError
from delta_sidecar.log.checkpoint_rows import FileColumns
from delta_sidecar.testing.actions import DeletionVector, add, remove, txn
from delta_sidecar.testing.checkpoint_files import CHECKPOINT_KINDS, STRING_KINDS, CheckpointKind, StringKind
from delta_sidecar.testing.table_builder import LogBuilder


def log(root: Path) -> LogBuilder:
    built = LogBuilder(root).protocol(reader=3, features=["v2Checkpoint", "deletionVectors"])
    built.metadata({"x": "long", "p": "string"}, partition_by=["p"], configuration={"k": "v"}, name="named")
    built.commit(txn("app", 3), *(add(f"p={n}/f{n}", size=n, partition={"p": str(n)}) for n in range(10)))
    return built.commit(remove("p=3/f3"), add("v", dv=DeletionVector("one", cardinality=2), partition={"p": None}))


def paths(built: LogBuilder) -> list[str]:
    return sorted(f.path for f in DeltaTable(str(built.root)).file_infos())


def expected(built: LogBuilder) -> list[str]:
    return sorted(body["path"] for body in built.state().files.values())


@pytest.mark.parametrize("strings", STRING_KINDS)
@pytest.mark.parametrize("kind", CHECKPOINT_KINDS)
def test_every_kind_says_the_same(tmp_path: Path, kind: CheckpointKind, strings: StringKind) -> None:
    built = log(tmp_path).checkpoint(kind, strings=strings).cleanup(before=2)
    table = DeltaTable(str(tmp_path))
    assert (table.version(), table.metadata().name, table.metadata().configuration) == (1, "named", {"k": "v"})
    assert table.metadata().partition_columns == ["p"]
    assert table.protocol().reader_features == ["v2Checkpoint", "deletionVectors"]
    assert table.snapshot.state_source == "checkpoint"
    assert table.transaction_version("app") == 3
    rows = {f.path: f for f in table.file_infos()}
    assert sorted(rows) == expected(built)
    assert (rows["p=7/f7"].size, rows["p=7/f7"].partition_values) == (7, {"p": "7"})
    assert rows["v"].partition_values == {"p": None}
    assert rows["v"].deletion_vector is not None
    assert rows["v"].deletion_vector.cardinality == 2


@pytest.mark.parametrize("kind", CHECKPOINT_KINDS)
def test_stats_may_be_left_out(tmp_path: Path, kind: CheckpointKind) -> None:
    built = log(tmp_path).checkpoint(kind, stats=False, tombstones=False, row_group_size=2)
    assert paths(built) == expected(built)


@pytest.mark.parametrize("how", ["garbage", "empty"])
def test_a_broken_checkpoint_means_the_next_at_its_version(tmp_path: Path, how: str) -> None:
    built = log(tmp_path).checkpoint("classic").checkpoint("multi-part")
    built.break_checkpoint(-1, how).cleanup(before=2)  # type: ignore[arg-type]
    assert paths(built) == expected(built)


@pytest.mark.parametrize("how", ["garbage", "empty"])
@pytest.mark.parametrize("crc", [False, True], ids=["no crc", "crc"])
def test_then_an_older_version(tmp_path: Path, how: str, crc: bool) -> None:
    built = log(tmp_path).checkpoint().commit(add("new", partition={"p": "1"}), remove("p=1/f1")).checkpoint()
    built.break_checkpoint(-1, how).cleanup(before=1)  # type: ignore[arg-type]
    if crc:
        built.crc()
    assert paths(built) == expected(built)


def test_then_the_commits(tmp_path: Path) -> None:
    built = log(tmp_path).checkpoint().break_checkpoint()
    assert paths(built) == expected(built)


def test_then_an_error(tmp_path: Path) -> None:
    log(tmp_path).checkpoint().break_checkpoint().cleanup(before=2)
    with pytest.raises(CorruptLogError, match=r"checkpoint\.parquet cannot be read as Parquet"):
        DeltaTable(str(tmp_path))


@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet", "v2-classic"])
def test_a_missing_sidecar_makes_a_checkpoint_unusable_never_partial(tmp_path: Path, kind: CheckpointKind) -> None:
    built = log(tmp_path).checkpoint(kind).break_checkpoint(how="sidecar")
    assert paths(built) == expected(built)
    built.cleanup(before=2)
    with pytest.raises(CorruptLogError):
        list(DeltaTable(str(tmp_path)).file_infos())


def test_the_fallback_is_told(tmp_path: Path) -> None:
    log(tmp_path).checkpoint().break_checkpoint().crc()
    with DeltaTable(str(tmp_path)).scan_files() as scan:
        assert scan.read_all().num_rows == 10
    assert "cannot be read as Parquet" in (scan.metrics.fallback_reason or "")


@pytest.mark.parametrize("sidecar", ["name", "path", "encoded"])
def test_where_a_sidecar_is(tmp_path: Path, sidecar: str) -> None:
    """A bare name, or a path of which the last segment counts; URI-encoded."""
    built = log(tmp_path).checkpoint("v2-json").cleanup(before=2)
    (top,) = built.log.glob("*.checkpoint.*.json")
    text = top.read_text()
    for file in (built.log / "_sidecars").iterdir():
        if sidecar == "path":
            text = text.replace(f'"{file.name}"', f'"{built.log}/_sidecars/{file.name}"')
        if sidecar == "encoded":
            file.rename(file.with_name(f"a b%{file.name}"))
            text = text.replace(f'"{file.name}"', f'"a%20b%25{file.name}"')
    top.write_text(text)
    assert paths(built) == expected(built)


def test_only_the_asked_leaves_are_read(tmp_path: Path) -> None:
    available = ["txn.appId", "add.path", "add.size", "add.stats", "add.partitionValues.key_value.key", "remove.path"]
    assert FileColumns(("path", "size")).leaves(available) == ["add.path", "add.size"]
    assert FileColumns(("partition_values",)).leaves(available) == ["add.partitionValues.key_value.key"]
