"""Protocol and metadata: the newest at or below the version, known before the first file; what is refused, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptLogError, LogGapError, UnsupportedFeatureError, VersionNotFoundError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import Discovery, list_log
from delta_sidecar.log.protocol import check_protocol, mapping_mode, supports_generated_columns
from delta_sidecar.log.snapshot import snapshot_of
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import add, column, metadata, protocol
from delta_sidecar.testing.table_builder import LogBuilder

ACCEPTED = (
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "timestampWithoutTimezone",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "typeWidening",
    "typeWidening-preview",
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
)
REFUSED = (
    "catalogManaged",
    "catalogOwned-preview",
    "redirectReaderWriter-preview",
    "adaptiveMetadata",
    "adaptiveMetadata-preview",
    "geospatial",
    "geospatial-dev",
    "timestampNanos",
    "somethingNew",
)


@pytest.mark.parametrize("feature", ACCEPTED)
def test_features_that_can_be_listed(tmp_path: Path, feature: str) -> None:
    LogBuilder(tmp_path).protocol(reader=3, features=[feature]).commit(add("a"))
    assert len(list(DeltaTable(str(tmp_path)).file_infos())) == 1


@pytest.mark.parametrize("feature", REFUSED)
def test_features_that_are_refused_by_name(tmp_path: Path, feature: str) -> None:
    LogBuilder(tmp_path).protocol(reader=3, features=["columnMapping", feature]).commit(add("a"))
    with pytest.raises(UnsupportedFeatureError, match=feature) as raised:
        DeltaTable(str(tmp_path))
    assert "columnMapping" not in str(raised.value)
    assert DeltaTable.is_deltatable(str(tmp_path)), "a table, although not for this reader"


def test_a_late_listing_without_a_checkpoint_means_one_of_the_whole_log(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for version in range(30):
        log.commit(add(f"f{version}"))
        if version in (5, 28):
            log.checkpoint()
    log.cleanup(before=5)
    store = open_store(str(tmp_path))
    listing = list_log(store, 10)
    snapshot = snapshot_of(store, Discovery(listing, CommitBytes(store)), 20)
    assert snapshot.segment.base_version == 5
    assert len(snapshot.segment.commits) == 15


def test_a_gap_after_an_index_is_named(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for version in range(12):
        log.commit(add(f"f{version}"))
    build_index(open_store(str(tmp_path)), 5)
    log.cleanup(before=5).drop(8)
    with pytest.raises(LogGapError, match="commit 8 is missing"):
        DeltaTable(tmp_path)


def test_properties_of_the_table_set_how_its_commits_are_read(tmp_path: Path) -> None:
    given = {"delta.commit.parallelism": "3", "delta.sidecar.memory_budget": "20000"}
    log = LogBuilder(tmp_path).metadata(configuration=given)
    table = DeltaTable(log.commit(add("a")).root)
    assert table.settings.commit_parallelism == 3
    assert table.snapshot.commits.limits == table.settings.commit_limits
    assert table.snapshot.commits.limits.held_bytes == 10_000
    assert [file.path for file in table.file_infos()] == ["a"]


@pytest.mark.parametrize(("reader", "writer"), [(1, 1), (1, 7), (2, 5), (2, 7), (3, 7)])
def test_legal_versions(reader: int, writer: int) -> None:
    check_protocol(Protocol(reader, writer, readerFeatures=[] if reader == 3 else None, writerFeatures=["anything"]))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Protocol(4, 7, []), "reader version 4"),
        (Protocol(0, 2), "reader version 0"),
        (Protocol(3, 7, None), "without a list of reader features"),
    ],
)
def test_illegal_versions(found: Protocol, message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=message):
        check_protocol(found)


def test_features_of_writers_do_not_matter(tmp_path: Path) -> None:
    LogBuilder(tmp_path).protocol(reader=1, writer=7, writer_features=["catalogManaged", "new"]).commit(add("a"))
    assert DeltaTable(str(tmp_path)).version() == 0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Protocol(1, 2), "none"),
        (Protocol(2, 5), "name"),
        (Protocol(3, 7, []), "none"),
        (Protocol(3, 7, ["columnMapping"]), "name"),
    ],
)
def test_the_mapping_mode_counts_only_with_the_protocol(found: Protocol, expected: str) -> None:
    assert mapping_mode(found, Metadata("id", configuration={"delta.columnMapping.mode": "name"})) == expected


def test_without_the_feature_names_are_physical_even_if_annotated(tmp_path: Path) -> None:
    annotated = column("x", metadata={"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1})
    stats = {"numRecords": 1, "minValues": {"x": 1}, "maxValues": {"x": 1}, "nullCount": {"x": 0}}
    LogBuilder(tmp_path).metadata([annotated], configuration={"delta.columnMapping.mode": "name"}).commit(
        add("a", stats=stats)
    )
    assert list(DeltaTable(str(tmp_path)).file_infos(predicate="x = 2")) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Protocol(1, 3), False),
        (Protocol(1, 4), True),
        (Protocol(1, 7), False),
        (Protocol(1, 7, None, ["generatedColumns"]), True),
    ],
)
def test_generated_columns(found: Protocol, expected: bool) -> None:
    assert supports_generated_columns(found) is expected


def newest(root: Path, version: int | None = None) -> tuple[list[str], str]:
    table = DeltaTable(str(root), version=version)
    return table.schema().to_arrow().names, table.snapshot.state_source


@pytest.fixture
def changing(tmp_path: Path) -> LogBuilder:
    """Columns a at version 0, b at 2; a checkpoint at 1."""
    built = LogBuilder(tmp_path).metadata({"a": "long"}).commit(add("f0")).commit(add("f1")).checkpoint()
    return built.commit(metadata({"b": "long"}), add("f2")).commit(add("f3"))


def test_metadata_is_the_newest_at_or_below_the_version(changing: LogBuilder) -> None:
    assert [newest(changing.root, v)[0] for v in range(4)] == [["a"], ["a"], ["b"], ["b"]]


def test_protocol_and_metadata_may_come_from_different_places(changing: LogBuilder) -> None:
    assert newest(changing.root) == (["b"], "checkpoint"), "metadata from commit 2, protocol from the checkpoint"


def test_the_checksum_is_asked_first(changing: LogBuilder) -> None:
    assert newest(changing.crc().root) == (["b"], "checksum")


def test_a_checksum_of_another_version_is_not_used(changing: LogBuilder) -> None:
    assert newest(changing.crc(version=1).root) == (["b"], "checkpoint")
    assert newest(changing.root, 1)[0] == ["a"]


@pytest.mark.parametrize("fault", ["corrupt", "empty", "no metadata", "no protocol"])
def test_a_checksum_with_a_fault_is_none(changing: LogBuilder, fault: Any) -> None:
    assert newest(changing.crc(fault=fault).root) == (["b"], "checkpoint")


def test_a_protocol_in_the_newest_commit_is_checked(changing: LogBuilder) -> None:
    changing.commit(protocol(3, features=["somethingNew"]))
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        DeltaTable(str(changing.root))
    assert DeltaTable(str(changing.root), version=3).version() == 3


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_state_without_protocol_or_metadata_is_corrupt(tmp_path: Path, missing: str) -> None:
    built = LogBuilder(tmp_path).commit(add("a"))
    path = built.log / f"{0:020}.json"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(f'{{"{missing}"')))
    with pytest.raises(CorruptLogError, match=f"has no {missing.lower()} action"):
        DeltaTable(str(tmp_path))


def test_an_unknown_type_does_not_make_a_table_unlistable(tmp_path: Path) -> None:
    LogBuilder(tmp_path).metadata({"x": "fromTheFuture", "y": "long"}).commit(add("a", stats={"numRecords": 1}))
    table = DeltaTable(str(tmp_path))
    assert len(list(table.file_infos())) == 1
    assert len(list(table.file_infos(predicate="y = 1"))) == 1


@pytest.mark.parametrize("version", [-1, 4, 100])
def test_versions_that_are_not_there(changing: LogBuilder, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match="the newest is 3"):
        DeltaTable(str(changing.root), version=version)


def test_a_version_cleaned_away_cannot_be_rebuilt(changing: LogBuilder) -> None:
    changing.cleanup(before=2)
    with pytest.raises(VersionNotFoundError):
        DeltaTable(str(changing.root), version=0)
    assert DeltaTable(str(changing.root), version=1).version() == 1
