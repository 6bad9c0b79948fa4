"""Which versions are read, and why not: found in the log, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import (
    CleanedUpError,
    DeltaSidecarError,
    FeedStartsLaterError,
    InputError,
    NoChangeFeedError,
    OptionError,
    OtherTableError,
    SchemaChangedError,
    UnsupportedTableError,
    VersionAfterLatestError,
    VersionRangeError,
)
from delta_sidecar.lake import CdfCursor, CdfCursorStore, CdfReadOptions
from delta_sidecar.lake.change_feed import FeedRange, check_names, feed_range
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.testing import LogBuilder
from delta_sidecar.testing.actions import column
from tests.data.changing import FEED, feed_table, removed, written

START = 1_770_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Versions 0 … 3, a minute apart; version 2 rewrites a file, version 3 changes nothing."""
    root = tmp_path / "table"
    first = written(root, "a", [1, 2])
    builder = feed_table(root).commit(first, mtime_ms=START).commit(written(root, "b", [3]), mtime_ms=START + 60_000)
    again = replace(written(root, "c", [1, 2]), data_change=False)
    builder.commit(removed(first, data_change=False), again, mtime_ms=START + 120_000)
    return builder.commit(mtime_ms=START + 180_000)


def found(log: LogBuilder, last: int | None = None, *, needs_feed: bool = True, **given: Any) -> FeedRange:
    cursor = None if last is None else CdfCursor(dataset_name="mine", last_version=last)
    return feed_range(load_snapshot(open_store(log.root)), CdfReadOptions(**given), cursor, needs_feed)


def versions(range_: FeedRange) -> tuple[int, int, bool]:
    return range_.start, range_.end, range_.is_snapshot


def test_the_first_version(log: LogBuilder) -> None:
    assert versions(found(log)) == (3, 3, True)
    assert versions(found(log, -1)) == (3, 3, True)
    assert versions(found(log, end_version=1)) == (1, 1, True)
    assert versions(found(log, 0)) == (1, 3, False)
    assert versions(found(log, 2, start_version=1)) == (1, 3, False)
    assert versions(found(log, 0, max_versions=2)) == (1, 2, False)
    assert versions(found(log, 0, end_version=1)) == (1, 1, False)
    assert versions(found(log, 0, end_version=99)) == (1, 3, False)


def test_nothing_new_is_an_empty_range(log: LogBuilder) -> None:
    for empty in (found(log, 3), found(log, start_version=4), found(log, 2, end_version=2)):
        assert empty.is_empty
        assert not empty.is_snapshot
        assert not empty.has_changed_files()


def test_times(log: LogBuilder) -> None:
    minute = datetime.fromtimestamp(START / 1000 + 60, UTC)
    assert versions(found(log, start_timestamp=minute)) == (1, 3, False)
    between = found(log, start_timestamp="2026-02-02T02:40:01Z", end_timestamp="2026-02-02T02:42:30Z")
    assert versions(between) == (1, 2, False)
    assert found(log, start_timestamp="2027-01-01").is_empty
    assert found(log, end_version=1).end_time_ms() == START + 60_000


def test_commits_that_only_rewrite_files_change_no_row(log: LogBuilder) -> None:
    assert found(log).has_changed_files()
    assert found(log, 0).has_changed_files()
    assert not found(log, 1).has_changed_files()


def refused(error: type[DeltaSidecarError], words: str, log: LogBuilder, last: int | None = None, **given: Any) -> None:
    with pytest.raises(error, match=words) as raised:
        found(log, last, **given)
    assert type(raised.value) is error


def test_each_reason_is_an_error_of_its_own(log: LogBuilder, tmp_path: Path) -> None:
    refused(InputError, "-1", log, start_version=-1)
    refused(VersionAfterLatestError, "no version 5", log, start_version=5)
    refused(VersionRangeError, "ends at version 1", log, start_version=2, end_version=1)
    refused(OtherTableError, "is at version 9, but the newest at .* is 3", log, 9)
    other = CdfCursor(dataset_name="mine", last_version=1, table_id="other")
    with pytest.raises(OtherTableError, match="belongs to table other"):
        feed_range(load_snapshot(open_store(log.root)), CdfReadOptions(), other)
    off = feed_table(tmp_path / "off", **{"delta.enableChangeDataFeed": "false"}).commit().commit()
    refused(NoChangeFeedError, "no change feed at version 1", off)
    refused(NoChangeFeedError, "no change feed at version 1", off, 0)
    assert versions(found(off, 0, needs_feed=False)) == (1, 1, True)
    off.metadata({"k": "long", "s": "string"}, (), FEED).commit()
    refused(FeedStartsLaterError, "begins at version 2", off, 0)
    assert versions(found(off)) == (2, 2, True)


def test_commits_that_are_gone(log: LogBuilder) -> None:
    log.checkpoint()
    for version in (0, 1):
        (log.log / f"{version:020}.json").unlink()
    refused(CleanedUpError, "start at 2", log, 0)
    assert versions(found(log, 1)) == (2, 3, False)


def mapped_column(name: str, kind: str, number: int) -> dict[str, Any]:
    physical = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"p{number}"}
    return column(name, kind, metadata=physical)


def test_columns_that_come_and_go(log: LogBuilder, tmp_path: Path) -> None:
    log.metadata({"k": "long", "s": "string", "later": "long"}, (), FEED).commit()
    assert found(log, 0).schema.names == ["k", "s", "later"]
    log.metadata({"k": "string", "s": "string", "later": "long"}, (), FEED).commit()
    refused(SchemaChangedError, "before version 5", log, 0)
    assert versions(found(log, 4)) == (5, 5, False)
    mapped = FEED | {"delta.columnMapping.mode": "name"}
    fields = [mapped_column("k", "long", 1), mapped_column("s", "string", 2)]
    by_name = LogBuilder(tmp_path / "mapped").protocol(2, 5).metadata(fields, (), mapped).commit().commit()
    fields[1] = mapped_column("renamed", "string", 2)
    by_name.metadata(fields, (), mapped).commit()
    assert found(by_name, 0).schema.names == ["k", "renamed"], "our own reader follows"
    with pytest.raises(SchemaChangedError, match="version 2 renames or drops column 's', and Spark gives no changes"):
        check_names(found(by_name, 0))
    check_names(found(by_name, 1))
    assert versions(found(by_name, 1)) == (2, 2, False)
    clash = feed_table(tmp_path / "clash", {"k": "long", "_Change_Type": "string"}).commit()
    refused(UnsupportedTableError, "_Change_Type", clash)


def test_options_that_contradict_each_other(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"start_version": 1, "start_timestamp": "2026-01-01"},
        {"end_version": 1, "end_timestamp": "2026-01-01"},
        {"dataset_name": "mine"},
        {"cursor_store": CdfCursorStore(tmp_path)},
        {"max_versions": 0},
    ]
    for given in wrong:
        with pytest.raises(OptionError):
            CdfReadOptions(**given)
