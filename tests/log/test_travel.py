"""Which version was current at an instant: in-commit timestamps where they count, file times put in order elsewhere."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import InputError, VersionNotFoundError
from delta_sidecar.testing.actions import add, metadata
from delta_sidecar.testing.table_builder import LogBuilder

T0 = 1_700_000_000_000
ENABLED = {"delta.enableInCommitTimestamps": "true"}


def at(root: Path, instant_ms: int) -> int:
    table = DeltaTable(str(root))
    table.load_as_version(dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=instant_ms))
    return table.version()


def by_file(root: Path, *times: int) -> LogBuilder:
    built = LogBuilder(root)
    for number, time in enumerate(times):
        built.commit(add(f"f{number}"), mtime_ms=T0 + time)
    return built


def test_the_newest_version_at_or_before_the_instant(tmp_path: Path) -> None:
    by_file(tmp_path, 0, 1000, 2000)
    assert [at(tmp_path, T0 + t) for t in (0, 999, 1000, 1999, 2000)] == [0, 0, 1, 1, 2]


def test_file_times_are_made_strictly_increasing(tmp_path: Path) -> None:
    by_file(tmp_path, 0, 5000, 3000, 4000, 9000)
    assert [at(tmp_path, T0 + t) for t in (3000, 5000, 5001, 5002, 8999, 9000)] == [0, 1, 2, 3, 3, 4]


@pytest.mark.parametrize("outside", [-1, 2001])
def test_outside_the_bounds_is_an_error_that_names_them(tmp_path: Path, outside: int) -> None:
    by_file(tmp_path, 0, 2000)
    with pytest.raises(VersionNotFoundError, match=r"2023-11-14T22:13:20\.000.* 2023-11-14T22:13:22\.000"):
        at(tmp_path, T0 + outside)


def test_before_the_first_version_that_can_be_rebuilt(tmp_path: Path) -> None:
    by_file(tmp_path, 0, 1000, 2000, 3000).checkpoint(version=2).cleanup(before=1)
    assert at(tmp_path, T0 + 2500) == 2
    with pytest.raises(VersionNotFoundError, match="version 2"):
        at(tmp_path, T0 + 1500)


def test_in_commit_timestamps_throughout(tmp_path: Path) -> None:
    """No enablement properties: in-commit times for all, whatever the files say."""
    built = LogBuilder(tmp_path).metadata(configuration=ENABLED)
    for number in range(4):
        built.commit(add(f"f{number}"), in_commit_timestamp=T0 + 1000 * number, mtime_ms=T0 - 99_000 * number)
    assert [at(tmp_path, T0 + t) for t in (0, 999, 1000, 3000)] == [0, 0, 1, 3]
    with pytest.raises(VersionNotFoundError):
        at(tmp_path, T0 - 1)
    with pytest.raises(VersionNotFoundError):
        at(tmp_path, T0 + 3001)


def enabled_at_2(root: Path) -> LogBuilder:
    built = by_file(root, 0, 1000)
    since = {
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": str(T0 + 5000),
    }
    built.commit(metadata(configuration=ENABLED | since), in_commit_timestamp=T0 + 5000, mtime_ms=T0 - 1)
    return built.commit(add("f3"), in_commit_timestamp=T0 + 6000, mtime_ms=T0 - 1)


def test_enabled_later_file_times_before_and_in_commit_times_after(tmp_path: Path) -> None:
    enabled_at_2(tmp_path)
    assert [at(tmp_path, T0 + t) for t in (0, 1000, 4999, 5000, 5999, 6000)] == [0, 1, 1, 2, 2, 3]


def test_in_commit_timestamps_count_only_if_enabled_at_the_head(tmp_path: Path) -> None:
    built = enabled_at_2(tmp_path).commit(metadata(configuration={}), mtime_ms=T0 + 9000)
    for version, time in ((2, 2000), (3, 3000)):
        built.touch(version, T0 + time)
    assert [at(tmp_path, T0 + t) for t in (1000, 2000, 5000, 9000)] == [1, 2, 3, 4]


def test_travel_looks_at_the_head_not_at_the_pinned_version(tmp_path: Path) -> None:
    by_file(tmp_path, 0, 1000, 2000)
    table = DeltaTable(str(tmp_path), version=0)
    table.load_as_version("2023-11-14T22:13:21.500Z")
    assert table.version() == 1
    table.load_as_version(2)
    assert table.version() == 2


@pytest.mark.parametrize("text", ["2023-11-14 22:13:21", "2023-11-14T23:13:21+01:00", "2023-11-14T22:13:21.000999"])
def test_forms_of_a_time(tmp_path: Path, text: str) -> None:
    by_file(tmp_path, 0, 1000, 2000)
    table = DeltaTable(str(tmp_path))
    table.load_as_version(text)
    assert table.version() == 1


@pytest.mark.parametrize("text", ["yesterday", "", "1"])
def test_a_text_that_is_no_time(tmp_path: Path, text: str) -> None:
    by_file(tmp_path, 0)
    with pytest.raises(InputError, match="is not a time"):
        DeltaTable(str(tmp_path)).load_as_version(text)


def test_history_is_newest_first_and_stops_at_the_version(tmp_path: Path) -> None:
    by_file(tmp_path, 0, 1000, 2000)
    found = DeltaTable(str(tmp_path), version=1).history()
    assert [entry["version"] for entry in found] == [1, 0]
    assert [entry["operation"] for entry in found] == ["WRITE", "WRITE"]
    assert [entry["version"] for entry in DeltaTable(str(tmp_path)).history(limit=2)] == [2, 1]


def test_history_gives_the_version_of_the_commit_whatever_the_commit_says(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit(add("a"), info={"version": 7, "operation": "WRITE"})
    assert [entry["version"] for entry in DeltaTable(log.root).history()] == [0]


def test_history_goes_as_far_back_as_the_log(tmp_path: Path) -> None:
    by_file(tmp_path, 0, 1000, 2000, 3000).checkpoint(version=2).cleanup(before=1)
    assert [entry["version"] for entry in DeltaTable(str(tmp_path)).history()] == [3, 2, 1]
