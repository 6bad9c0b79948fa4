"""What is deleted, and above all what is not: four gates for version files, three for splits."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from delta_sidecar import StorageError, StoreUnavailableError
from delta_sidecar.search import (
    SearchTable,
    append,
    checkpoint,
    clean_log,
    create_table,
    overwrite,
    purge,
    replace,
)
from delta_sidecar.storage import Buffer, open_store
from delta_sidecar.testing.stores import CountingStore
from tests.search.made import FAR, LOG, SCHEMA, paths, splits, version_path

NEVER = {"checkpoint.interval": 10**6}
DAY = 24 * 3600


def age(root: Path, path: str, days: float) -> None:
    """Make a file so old."""
    meta = (root / path).stat()
    os.utime(root / path, (meta.st_atime, meta.st_mtime - days * DAY))


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"split")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Versions 0 to 8; checkpoints of 3, 6 and 8."""
    create_table(tmp_path, SCHEMA)
    for version in range(1, 9):
        write(tmp_path, f"{version}.split")
        append(tmp_path, splits(f"{version}.split"), options=NEVER)
        if version in (3, 6, 8):
            checkpoint(tmp_path)
    return tmp_path


def left(root: Path) -> list[str]:
    return sorted(path.name.lstrip("0") for path in (root / LOG).iterdir() if path.name != "_last_checkpoint")


class TestLog:
    def test_nothing_young_is_deleted(self, table: Path) -> None:
        assert clean_log(table).deleted == ()

    def test_up_to_the_newest_checkpoint_whose_files_are_old(self, table: Path) -> None:
        for version in range(8):
            age(table, version_path(version), 31 if version < 8 and version != 7 else 0)
        report = clean_log(table)
        assert left(table) == [
            ".json",
            "3.checkpoint.json",
            "6.checkpoint.json",
            "7.json",
            "8.checkpoint.json",
            "8.json",
        ]
        assert (report.oldest, SearchTable(table).versions()) == (3, [0, 3, 6, 7, 8])
        assert [len(paths(str(table), v)) for v in (3, 6, 7, 8)] == [3, 6, 7, 8]

    def test_checkpoints_that_newer_ones_replace(self, table: Path) -> None:
        for version in (3, 6, 8):
            age(table, f"{LOG}/{version:020d}.checkpoint.json", 1)
        report = clean_log(table)
        assert [Path(path).name.lstrip("0") for path in report.deleted] == ["6.checkpoint.json", "3.checkpoint.json"]
        assert SearchTable(table).versions() == list(range(9)), "all version files are there"

    def test_a_checkpoint_that_older_versions_need_is_kept(self, table: Path) -> None:
        for version in (1, 2, 3):
            (table / version_path(version)).unlink()
        for version in (3, 6, 8):
            age(table, f"{LOG}/{version:020d}.checkpoint.json", 1)
        assert [Path(path).name.lstrip("0") for path in clean_log(table).deleted] == ["6.checkpoint.json"]
        assert SearchTable(table).versions() == [0, 3, 4, 5, 6, 7, 8]

    def test_version_files_of_the_last_hour_stay_whatever_the_retention(self, table: Path) -> None:
        """A writer that listed the log a moment ago may be about to create a version that others have created since."""
        report = clean_log(table, options={"logRetention.duration": 0, "checkpointRetention.duration": 0})
        assert [path for path in report.deleted if "checkpoint" not in path] == []

    def test_version_0_and_the_newest_are_never_deleted(self, table: Path) -> None:
        clean_log(table, now_ms=FAR)
        assert left(table) == [".json", "8.checkpoint.json", "8.json"]
        assert clean_log(table, now_ms=FAR).deleted == ()
        assert len(paths(str(table))) == 8

    def test_without_a_checkpoint_nothing_goes(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        for version in range(1, 5):
            append(tmp_path, splits(f"{version}.split"), options=NEVER)
        assert clean_log(tmp_path, now_ms=FAR).deleted == ()

    def test_a_checkpoint_that_cannot_be_read_stands_for_nothing(self, table: Path) -> None:
        (table / LOG / f"{8:020d}.checkpoint.json").write_text("{")
        report = clean_log(table, now_ms=FAR)
        assert "JSON checkpoint 8 does not stand for its version files" in report.notes[0]
        assert len(paths(str(table))) == 8
        assert report.oldest == 6

    def test_nor_one_that_differs_from_a_replay(self, table: Path) -> None:
        path = table / LOG / f"{8:020d}.checkpoint.json"
        content = json.loads(path.read_text())
        content["add"].pop()
        content["numFiles"] -= 1
        path.write_text(json.dumps(content))
        report = clean_log(table, now_ms=FAR)
        assert "JSON checkpoint 8 differs from a replay" in report.notes[0]
        assert report.oldest == 6

    def test_a_dry_run_deletes_nothing_and_says_the_same(self, table: Path) -> None:
        before = left(table)
        told = clean_log(table, dry_run=True, now_ms=FAR)
        assert left(table) == before
        by_option = clean_log(table, options={"spark.indextables.cleanup.dryRun": "true"}, now_ms=FAR)
        assert by_option.dry_run
        done = clean_log(table, now_ms=FAR)
        assert told.deleted == by_option.deleted == done.deleted
        assert (told.bytes, told.oldest) == (done.bytes, done.oldest)

    def test_the_failure_policy(self, table: Path) -> None:
        class Sticky(CountingStore):
            def delete(self, path: str) -> None:
                if path.endswith("2.json"):
                    raise StoreUnavailableError("throttled")
                super().delete(path)

        store = Sticky(open_store(table))
        with pytest.raises(StorageError, match="throttled"):
            clean_log(store, options={"cleanup.failurePolicy": "fail"}, now_ms=FAR)
        report = clean_log(store, now_ms=FAR)
        assert "was not deleted: throttled" in report.notes[-1]
        assert left(table) == [".json", "2.json", "8.checkpoint.json", "8.json"]
        assert len(paths(str(table))) == 8
        assert SearchTable(table).versions() == [0, 8]


class TestPurge:
    def test_live_splits_are_never_deleted(self, table: Path) -> None:
        assert purge(table, retention=timedelta(0), now_ms=FAR).deleted == ()

    def test_what_an_older_version_has_stays_until_that_is_cleaned(self, table: Path) -> None:
        write(table, "merged.split")
        replace(table, ["1.split", "2.split"], splits("merged.split"), options=NEVER)
        assert purge(table, now_ms=FAR).deleted == ()
        checkpoint(table)
        clean_log(table, now_ms=FAR)
        assert purge(table, now_ms=FAR).deleted == ("1.split", "2.split")
        assert {path.name for path in table.glob("*.split")} == paths(str(table))

    def test_what_was_removed_of_late_stays_even_if_its_version_is_cleaned(self, table: Path) -> None:
        for number in range(1, 9):
            age(table, f"{number}.split", 100)
        write(table, "new.split")
        overwrite(table, splits("new.split"), options=NEVER)
        checkpoint(table)
        clean_log(table, options={"logRetention.duration": 0, "checkpointRetention.duration": 0}, now_ms=FAR)
        assert SearchTable(table).versions() == [0, 9]
        assert purge(table).deleted == (), "removed a moment ago, though written long ago"
        assert len(purge(table, now_ms=FAR).deleted) == 8

    def test_what_was_never_committed_goes_when_it_is_old(self, table: Path) -> None:
        write(table, "crashed.split", "year=2024/also.split", "notes.txt", f"{LOG}/odd.split")
        age(table, "crashed.split", 8)
        assert purge(table).deleted == ("crashed.split",)
        assert purge(table, now_ms=FAR).deleted == ("year=2024/also.split",)
        assert (table / "notes.txt").exists()
        assert (table / LOG / "odd.split").exists()

    def test_a_dry_run(self, table: Path) -> None:
        write(table, "crashed.split")
        report = purge(table, dry_run=True, now_ms=FAR)
        assert (report.deleted, report.bytes, report.dry_run) == (("crashed.split",), 5, True)
        assert (table / "crashed.split").exists()

    def test_a_commit_that_comes_while_it_looks_is_seen(self, table: Path) -> None:
        """The split was written long ago, and is committed after the log was read."""
        write(table, "late.split")

        class Late(CountingStore):
            def list_after(self, prefix: str, offset: str = "", before: str = "") -> object:  # type: ignore[override]
                if offset.endswith(f"{9:020d}"):
                    append(str(table), splits("late.split"), options=NEVER)
                return super().list_after(prefix, offset, before)

        assert purge(Late(open_store(table)), now_ms=FAR).deleted == ()
        assert "late.split" in paths(str(table))

    def test_escaped_names_are_as_they_are(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        write(tmp_path, "at=12%3A00/a b.split", "at=12%3A00/c.split")
        append(tmp_path, splits("at=12%3A00/a b.split", f"{tmp_path}/at=12%3A00/c.split"))
        assert purge(tmp_path, now_ms=FAR).deleted == ()


class TestReadersMeanwhile:
    """A cleaner deletes what a reader has listed: the reader looks again."""

    @pytest.mark.parametrize("checkpointed", [False, True])
    def test_a_version_that_is_left_is_read_another_way(self, table: Path, checkpointed: bool) -> None:
        if not checkpointed:
            for version in (3, 6, 8):
                (table / LOG / f"{version:020d}.checkpoint.json").unlink()
            (table / LOG / "_last_checkpoint").unlink()
        append(table, splits("9.split"), options=NEVER)
        opened = SearchTable(table)
        checkpoint(table)
        clean_log(table, options={"checkpointRetention.duration": 0}, now_ms=FAR)
        opened.snapshot.commits.compact(0)
        fresh = SearchTable(table, 9)
        assert len(opened.splits()) == len(fresh.splits()) == 9

    def test_a_writer_plans_on_what_is_left(self, table: Path) -> None:
        class Cleaned(CountingStore):
            cleaned = False

            def get(self, path: str) -> Buffer:
                if ".checkpoint." in path and not self.cleaned:
                    self.cleaned = True
                    append(str(table), splits("other.split"), options=NEVER)
                    checkpoint(str(table))
                    clean_log(str(table), options={"checkpointRetention.duration": 0}, now_ms=FAR)
                return super().get(path)

        commit = overwrite(Cleaned(open_store(table)), splits("new.split"), options=NEVER)
        assert (commit.version, commit.removed, paths(str(table))) == (10, 9, {"new.split"})
