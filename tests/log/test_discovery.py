"""The hint, the one LIST, and what is fetched on a guess beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptLogError, LogGapError, TableNotFoundError
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import discover, hint_checksum, list_log, read_hint
from delta_sidecar.storage import Buffer, open_store
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import HintFault, LogBuilder


@pytest.fixture
def built(tmp_path: Path) -> LogBuilder:
    """Commits 0 to 5, a checkpoint at 3."""
    log = LogBuilder(tmp_path)
    for version in range(4):
        log.commit(add(f"f{version}"))
    return log.checkpoint().commit(add("f4")).commit(add("f5"))


def paths(log: LogBuilder) -> list[str]:
    return sorted(f.path for f in DeltaTable(str(log.root)).file_infos())


ALL = [f"f{version}" for version in range(6)]


def test_the_hint_is_where_the_listing_begins(built: LogBuilder) -> None:
    store = open_store(str(built.root))
    found = discover(store, None, CommitBytes(store))
    assert (found.listing.start, sorted(found.listing.commits)) == (3, [3, 4, 5])


@pytest.mark.parametrize("fault", ["corrupt", "checksum", "future", "empty"])
def test_a_hint_that_is_off_is_ignored(built: LogBuilder, fault: HintFault) -> None:
    built.hint(fault=fault)
    assert paths(built) == ALL
    assert DeltaTable(str(built.root)).snapshot.segment.base_version == 3


def test_no_hint_lists_all(built: LogBuilder) -> None:
    built.without_hint()
    assert read_hint(open_store(str(built.root))) == (None, ())
    assert paths(built) == ALL


def test_a_stale_hint_finds_the_newer_checkpoint(built: LogBuilder) -> None:
    built.checkpoint(version=5, hint=False)
    assert DeltaTable(str(built.root)).snapshot.segment.base_version == 5
    assert paths(built) == ALL


def test_a_hinted_checkpoint_that_is_absent_lists_from_0(built: LogBuilder) -> None:
    built.drop_checkpoint()
    table = DeltaTable(str(built.root))
    assert table.snapshot.segment.base is None
    assert "note       nothing usable at the hinted version 3; listed the whole log" in table.scan_files().explain()
    assert paths(built) == ALL


def test_a_hint_is_no_bar_to_older_versions(built: LogBuilder) -> None:
    assert DeltaTable(str(built.root), version=1).file_uris() == [str(built.root / f) for f in ("f1", "f0")]


@pytest.mark.parametrize("text", ['{"version":-1,"size":1}', '{"version":"3"}', "[]", "{}", "3"])
def test_hints_that_name_no_version(built: LogBuilder, text: str) -> None:
    (built.log / "_last_checkpoint").write_text(text)
    hint, notes = read_hint(open_store(str(built.root)))
    assert hint is None
    assert len(notes) == 1
    assert paths(built) == ALL


def test_the_checksum_of_the_protocol_text() -> None:
    """The example of the protocol: keys sorted and quoted, nested keys joined by `+`, text percent-encoded."""
    nested = {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}
    content = {"k0": "'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1": nested}
    assert hint_checksum(content) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_a_wrong_checksum_is_noticed(built: LogBuilder) -> None:
    built.hint(fault="checksum")
    assert read_hint(open_store(str(built.root))) == (None, ("_last_checkpoint fails its checksum and was not used",))


def test_subdirectories_and_litter_hold_no_versions(built: LogBuilder) -> None:
    assert list_log(open_store(str(built.litter().root)), 0).head == 5
    assert paths(built) == ALL


def test_a_guess_beyond_the_listing_decides_nothing(built: LogBuilder) -> None:
    """A commit that appears after the LIST is not read, although a guess has fetched it."""
    late = built.log / f"{6:020}.json"

    class AfterTheList(CountingStore):
        def list_after(self, prefix: str, offset: str = "", before: str = ""):  # type: ignore[no-untyped-def]
            pages = list(super().list_after(prefix, offset, before))
            late.write_bytes((built.log / f"{5:020}.json").read_bytes())
            return iter(pages)

    table = DeltaTable(str(built.root), store=AfterTheList(open_store(str(built.root))))
    assert table.version() == 5
    assert len(list(table.file_infos())) == 6


def test_a_guess_that_missed_is_fetched_again(built: LogBuilder) -> None:
    """The guess finds nothing, the LIST does: the commit counts."""

    class MissesFirst(CountingStore):
        def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0):  # type: ignore[no-untyped-def]
            return super().get_stream(path + ".not-there-yet", chunk_size, start)

    table = DeltaTable(str(built.root), store=MissesFirst(open_store(str(built.root))))
    assert sorted(f.path for f in table.file_infos()) == ALL


def test_a_gap_is_listed_once_more_then_an_error(built: LogBuilder) -> None:
    built.drop(4)
    store = CountingStore(open_store(str(built.root)))
    with pytest.raises(LogGapError, match="commit 4 is missing"):
        DeltaTable(str(built.root), store=store)
    assert store.counts()["list"] == 2


def test_a_gap_that_heals_is_none(built: LogBuilder) -> None:
    text = (built.log / f"{4:020}.json").read_bytes()
    built.drop(4)

    class Heals(CountingStore):
        def list_after(self, prefix: str, offset: str = "", before: str = ""):  # type: ignore[no-untyped-def]
            pages = list(super().list_after(prefix, offset, before))
            (built.log / f"{4:020}.json").write_bytes(text)
            return iter(pages)

    assert DeltaTable(str(built.root), store=Heals(open_store(str(built.root)))).version() == 5


def test_a_listed_commit_that_is_gone_starts_again_once(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for version in range(12):
        log.commit(add(f"f{version}"))

    class Gone(CountingStore):
        def get(self, path: str) -> Buffer:
            return super().get(path + (".gone" if path.endswith(f"{10:020}.json") else ""))

    store = Gone(open_store(str(tmp_path)))
    with pytest.raises(CorruptLogError, match="listed but does not exist"):
        DeltaTable(str(tmp_path), store=store)
    assert store.counts()["list"] == 2


@pytest.mark.parametrize("make", ["nothing", "empty log", "litter"])
def test_no_table(tmp_path: Path, make: str) -> None:
    if make != "nothing":
        (tmp_path / "_delta_log").mkdir()
    if make == "litter":
        (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version":3,"size":1}')
    with pytest.raises(TableNotFoundError, match="no Delta table at"):
        DeltaTable(str(tmp_path))
    assert not DeltaTable.is_deltatable(str(tmp_path))
