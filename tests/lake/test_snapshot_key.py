"""One key for one version, however its location was written."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from delta_sidecar import DeltaTable, InputError
from delta_sidecar.lake import SnapshotKey
from tests.events_table import write_events


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://lake/events", "s3a://lake/events/"),
        ("s3://lake/events", "s3n://lake//events"),
        ("az://lake/events", "azure://LAKE/events"),
        ("abfss://lake@account.dfs.core.windows.net/e", "https://Account.blob.core.windows.net/lake/e?sig=secret"),
        ("/data/events", "file:///data/events"),
        ("/data/events", "/data/x/../events/"),
    ],
)
def test_spellings_of_one_place_are_one_key(one: str, other: str) -> None:
    assert SnapshotKey(one, 3) == SnapshotKey(other, 3)
    assert len({SnapshotKey(one, 3), SnapshotKey(other, 3), SnapshotKey(one, 4)}) == 2


def test_capitals_count_where_buckets_may_have_some() -> None:
    assert SnapshotKey("s3://Lake/events", 0) != SnapshotKey("s3://lake/events", 0)
    assert SnapshotKey("s3://lake/Events", 0) != SnapshotKey("s3://lake/events", 0)


def test_the_key_of_an_open_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_events(tmp_path / "events")
    monkeypatch.chdir(tmp_path)
    table = DeltaTable("events", 2)
    key = SnapshotKey.of(table)
    assert key == SnapshotKey("events", 2) == SnapshotKey(f"file://{tmp_path}/events", 2)
    assert str(key) == f"file://{tmp_path}/events@2"
    assert pickle.loads(pickle.dumps(key)) == key
    table.update_incremental()
    assert SnapshotKey.of(table).version == 3


@pytest.mark.parametrize("version", [-1, True, "3", 2.0, None])
def test_what_is_no_version_is_refused(version: object) -> None:
    with pytest.raises(InputError, match="it takes a whole number of 0 or more"):
        SnapshotKey("events", version)  # type: ignore[arg-type]


def test_what_is_no_place_is_refused() -> None:
    with pytest.raises(InputError, match="unknown form"):
        SnapshotKey("ftp://host/events", 0)


def test_a_key_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SnapshotKey("events", 0).version = 1  # type: ignore[misc]
