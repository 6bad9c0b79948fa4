"""Every error scenario of note 004, and what a writer must not do: one clear line each."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import (
    ConflictError,
    CorruptLogError,
    CorruptTableError,
    InputError,
    LogGapError,
    StoreUnavailableError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTableError,
    VersionNotFoundError,
)
from delta_sidecar.search import SearchTable, Split, append, checkpoint, create_table, overwrite, replace, skip
from delta_sidecar.storage import Buffer, ObjectMeta, Store, open_store
from delta_sidecar.testing.stores import CountingStore, Faults, FaultyStore
from tests.search.made import (
    LOG,
    PROTOCOL,
    SCHEMA,
    V0,
    HandMade,
    added,
    lines,
    metadata,
    paths,
    removed,
    schema,
    splits,
    version_path,
)


def three(root: Path) -> HandMade:
    made = HandMade(root)
    for version in range(1, 4):
        made.put(version, added(f"{version}.split"))
    return made


class TestVersion0:
    def test_no_table(self, tmp_path: Path) -> None:
        with pytest.raises(TableNotFoundError, match=r"no search table at .*: its _transaction_log holds no commit"):
            SearchTable(tmp_path)

    def test_missing_without_a_checkpoint(self, tmp_path: Path) -> None:
        made = three(tmp_path).drop(0)
        with pytest.raises(CorruptLogError, match=r"version 0 of .* is gone, and no checkpoint holds what it said"):
            SearchTable(made.uri)

    def test_missing_with_a_checkpoint(self, tmp_path: Path) -> None:
        made = three(tmp_path)
        checkpoint(made.uri)
        made.put(4, added("4.split")).drop(0, 1, 2)
        assert paths(made.uri) == {"1.split", "2.split", "3.split", "4.split"}
        assert SearchTable(made.uri).versions() == [3, 4]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"{]", "line 1: not an action of the log"),
            (b"", "has no protocol action"),
            (lines({"protocol": PROTOCOL}), "has no metadata action"),
            (lines({"metaData": metadata()}), "has no protocol action"),
            (lines({"protocol": PROTOCOL}, {"protocol": PROTOCOL}, {"metaData": metadata()}), "holds 2; restore"),
            (lines({"protocol": PROTOCOL}, {"metaData": metadata()}, {"metaData": metadata()}), "one metaData action"),
            (b"\x01\x01\x1f\x8bnot gzip", "cannot be unpacked"),
            (b"\x01\x01\x1f\x8b\x08\x00", "breaks off"),
        ],
    )
    def test_corrupt(self, tmp_path: Path, text: bytes, message: str) -> None:
        made = HandMade(tmp_path).file(V0, text)
        with pytest.raises(CorruptTableError, match=message):
            SearchTable(made.uri).splits()

    def test_cannot_be_written_twice(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        before = (tmp_path / V0).read_bytes()
        with pytest.raises(InputError, match=r"there is a search table at .* already, with the id"):
            create_table(tmp_path, SCHEMA)
        assert (tmp_path / V0).read_bytes() == before

    def test_use_what_is_there_if_it_is_the_same(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        append(tmp_path, splits("a.split"))
        assert create_table(tmp_path, SCHEMA, if_exists="use").version == 1
        with pytest.raises(UnsupportedFeatureError, match="schema evolution is not supported"):
            create_table(tmp_path, schema(id="string"), if_exists="use")
        with pytest.raises(InputError, match="give error or use"):
            create_table(tmp_path, SCHEMA, if_exists="replace")

    def test_use_of_a_broken_table_is_an_error(self, tmp_path: Path) -> None:
        HandMade(tmp_path).file(V0, b"nonsense\n")
        with pytest.raises(CorruptTableError):
            create_table(tmp_path, SCHEMA, if_exists="use")


class TestGap:
    def test_is_an_error_and_hides_nothing(self, tmp_path: Path) -> None:
        made = three(tmp_path).drop(2)
        with pytest.raises(LogGapError, match="commit 2 is missing from the log, so version 3 cannot be rebuilt"):
            SearchTable(made.uri)
        assert paths(made.uri, 1) == {"1.split"}

    def test_stops_writers(self, tmp_path: Path) -> None:
        made = three(tmp_path).drop(2)
        with pytest.raises(LogGapError):
            append(made.uri, splits("x.split"))
        assert not (tmp_path / version_path(4)).exists()

    def test_before_a_checkpoint_does_not_matter(self, tmp_path: Path) -> None:
        made = three(tmp_path)
        checkpoint(made.uri)
        made.drop(2)
        assert len(paths(made.uri)) == 3
        with pytest.raises(LogGapError, match="commit 2 is missing"):
            SearchTable(made.uri, 2)

    def test_no_such_version(self, tmp_path: Path) -> None:
        made = three(tmp_path)
        for version in (4, -1):
            with pytest.raises(VersionNotFoundError, match=f"no version {version} at .*; the newest is 3"):
                SearchTable(made.uri, version)


class TestCheckpoint:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b'{"protocol":{},"metaData":{},"add":[]}',
            {"metaData": metadata(), "add": []},
            {"protocol": PROTOCOL, "metaData": metadata(), "add": [{"size": 1}]},
            {"protocol": PROTOCOL, "metaData": metadata(), "add": ["1.split"]},
            {"protocol": PROTOCOL, "metaData": metadata(), "add": [], "numFiles": 3},
            {"protocol": PROTOCOL, "metaData": {"name": "no id"}, "add": []},
        ],
    )
    @pytest.mark.parametrize("tail", [False, True])
    def test_a_broken_one_is_passed_over_if_all_versions_are_there(
        self, tmp_path: Path, content: Any, tail: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        made = three(tmp_path).checkpoint(3, content)
        expected = {"1.split", "2.split", "3.split"}
        if tail:
            made.put(4, {"protocol": PROTOCOL}, {"metaData": metadata()}, added("4.split"))
            expected.add("4.split")
        opened = SearchTable(made.uri)
        assert paths(opened) == expected
        if content != b"":
            assert "JSON checkpoint 3 was not used" in " ".join(opened.notes)
        made.drop(1)
        with pytest.raises(CorruptTableError):
            SearchTable(made.uri).splits()

    def test_an_older_one_serves(self, tmp_path: Path) -> None:
        made = three(tmp_path)
        checkpoint(made.uri)
        made.put(4, removed("1.split")).put(5, added("5.split"))
        made.checkpoint(5, b"broken").drop(0, 1, 2, 3)
        assert paths(made.uri) == {"2.split", "3.split", "5.split"}

    def test_a_hint_that_leads_nowhere_is_only_a_hint(self, tmp_path: Path) -> None:
        made = three(tmp_path)
        for hint in (b'{"version":77}', b"nonsense", b'{"version":-1}', b"{}"):
            made.file(f"{LOG}/_last_checkpoint", hint)
            assert len(paths(made.uri)) == 3

    def test_one_that_cannot_be_written_fails_no_commit(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        class NoCheckpoints(CountingStore):
            def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
                if ".checkpoint." in path:
                    raise StoreUnavailableError("the store is full")
                return super().put_if_absent(path, data)

        store = NoCheckpoints(open_store(tmp_path))
        create_table(store, SCHEMA, configuration={"checkpoint.interval": "1"})
        with caplog.at_level(logging.WARNING):
            commit = append(store, splits("a.split"))
        assert (commit.version, commit.checkpoint, paths(store)) == (1, None, {"a.split"})
        assert "has no checkpoint: the store is full" in caplog.text


class _Overtaken(CountingStore):
    """Lets another writer commit just before ours does, so many times."""

    def __init__(self, inner: Store, times: int, by: Any) -> None:
        super().__init__(inner)
        self.left, self.by = times, by

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        if self.left and "checkpoint" not in path:
            self.left -= 1
            self.by(self._inner, self.left)
        return super().put_if_absent(path, data)


class TestConflicts:
    def test_an_append_goes_to_the_next_version(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        store = _Overtaken(open_store(tmp_path), 3, lambda s, left: append(s, splits(f"other-{left}.split")))
        commit = append(store, splits("ours.split"))
        assert (commit.version, commit.conflicts) == (4, 3)
        assert paths(store) == {"ours.split", "other-0.split", "other-1.split", "other-2.split"}
        assert SearchTable(store).versions() == [0, 1, 2, 3, 4]

    def test_an_overwrite_also_removes_what_came_meanwhile(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        append(tmp_path, splits("old.split"))
        store = _Overtaken(open_store(tmp_path), 1, lambda s, left: append(s, splits("meanwhile.split")))
        commit = overwrite(store, splits("new.split"))
        assert (commit.version, commit.removed, paths(store)) == (3, 2, {"new.split"})

    def test_a_merge_of_what_another_merge_took_is_given_up(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        append(tmp_path, splits("a.split", "b.split", "c.split"))
        store = _Overtaken(
            open_store(tmp_path), 1, lambda s, left: replace(s, ["b.split", "c.split"], splits("theirs.split"))
        )
        with pytest.raises(ConflictError, match=r"the split b.split is not live at version 2 of .*; plan the change"):
            replace(store, ["a.split", "b.split"], splits("ours.split"))
        assert paths(store) == {"a.split", "theirs.split"}

    def test_a_merge_beside_an_append_is_committed(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        append(tmp_path, splits("a.split", "b.split"))
        store = _Overtaken(open_store(tmp_path), 1, lambda s, left: append(s, splits("c.split")))
        assert replace(store, ["a.split", "b.split"], splits("ab.split")).version == 3
        assert paths(store) == {"ab.split", "c.split"}

    def test_a_skip_counts_the_one_that_came_meanwhile(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        append(tmp_path, splits("a.split"))
        store = _Overtaken(open_store(tmp_path), 1, lambda s, left: skip(s, "a.split", "theirs"))
        skip(store, "a.split", "ours")
        (found,) = SearchTable(store).skips()
        assert (found.skipCount, found.reason) == (2, "ours")

    def test_nothing_but_live_splits_is_skipped(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        with pytest.raises(ConflictError, match="is not live"):
            skip(tmp_path, "a.split", "broken")

    def test_a_new_protocol_stops_a_writer_that_does_not_know_it(self, tmp_path: Path) -> None:
        made = HandMade(tmp_path)
        theirs = {"minReaderVersion": 1, "minWriterVersion": 9}
        store = _Overtaken(open_store(tmp_path), 1, lambda s, left: made.put(1, {"protocol": theirs}))
        with pytest.raises(UnsupportedFeatureError, match="needs writer version 9, this writer knows up to 3"):
            append(store, splits("a.split"))

    def test_a_plan_on_an_old_listing_is_made_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It took ten minutes: others may have committed, and a cleaner may have been at work."""
        create_table(tmp_path, SCHEMA)
        times = iter([0.0, 601.0, 700.0, 701.0, 702.0])
        monkeypatch.setattr("delta_sidecar.search.writing.transactions.time.monotonic", lambda: next(times))
        assert append(tmp_path, splits("a.split")).conflicts == 1

    def test_a_commit_that_took_too_long_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        create_table(tmp_path, SCHEMA)
        times = iter([0.0, 1.0, 1801.0])
        monkeypatch.setattr("delta_sidecar.search.writing.transactions.time.monotonic", lambda: next(times))
        with pytest.raises(StoreUnavailableError, match="took so long to write"):
            append(tmp_path, splits("a.split"))

    @pytest.mark.slow
    def test_only_so_often(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        create_table(tmp_path, SCHEMA)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        store = _Overtaken(open_store(tmp_path), 10**6, lambda s, left: append(s, splits(f"{left}.split")))
        with pytest.raises(ConflictError, match="other writers were faster 200 times; run it again"):
            append(store, splits("a.split"))


class TestAmbiguousPuts:
    """A put that is not answered may have taken place."""

    def test_settled_by_what_is_there(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        store = FaultyStore(open_store(tmp_path), 1, Faults(reset=1.0, most_in_a_row=1))
        for number in range(5):
            try:
                append(store, splits(f"{number}.split"))
            except StoreUnavailableError:
                continue
        versions = SearchTable(str(tmp_path)).versions()
        assert versions == list(range(len(versions)))
        assert len(paths(str(tmp_path))) == versions[-1]

    def test_a_lost_answer_is_no_conflict(self, tmp_path: Path) -> None:
        class LostAnswer(CountingStore):
            lost = 0

            def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
                meta = super().put_if_absent(path, data)
                if self.lost < 2:
                    self.lost += 1
                    raise StoreUnavailableError("timed out")
                return meta

        store = LostAnswer(open_store(tmp_path))
        assert create_table(store, SCHEMA).version == 0
        commit = append(store, splits("a.split"))
        assert (commit.version, commit.conflicts, SearchTable(store).versions()) == (1, 0, [0, 1])

    def test_never_written_is_an_error_that_says_so(self, tmp_path: Path) -> None:
        class Down(CountingStore):
            def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
                raise StoreUnavailableError("timed out")

        create_table(tmp_path, SCHEMA)
        with pytest.raises(StoreUnavailableError, match=r"version 1 of .* is not there: timed out"):
            append(Down(open_store(tmp_path)), splits("a.split"))

    def test_unknown_is_an_error_that_names_the_file(self, tmp_path: Path) -> None:
        class Deaf(CountingStore):
            deaf = False

            def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
                self.deaf = True
                raise StoreUnavailableError("timed out")

            def get(self, path: str) -> Buffer:
                if self.deaf:
                    raise StoreUnavailableError("timed out")
                return super().get(path)

        create_table(tmp_path, SCHEMA)
        with pytest.raises(StoreUnavailableError, match=r"is not known .*look at _transaction_log/0+1\.json before"):
            append(Deaf(open_store(tmp_path)), splits("a.split"))


class TestProtocol:
    @pytest.mark.parametrize(
        ("protocol", "message"),
        [
            ({"minReaderVersion": 5, "minWriterVersion": 5}, "needs reader version 5, this reader knows 1 to 4"),
            ({"minReaderVersion": 3, "minWriterVersion": 3}, "without a list of reader features"),
            (
                {"minReaderVersion": 3, "minWriterVersion": 3, "readerFeatures": ["footerOffsets", "teleport"]},
                r"not supported \(teleport: unknown to this reader\)",
            ),
            ({"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": ["warp"]}, "warp: unknown"),
        ],
    )
    def test_unknown_to_readers(self, tmp_path: Path, protocol: dict[str, Any], message: str) -> None:
        with pytest.raises(UnsupportedFeatureError, match=message):
            SearchTable(HandMade(tmp_path, protocol).uri)

    @pytest.mark.parametrize(
        "protocol",
        [
            {"minReaderVersion": 2, "minWriterVersion": 2, "readerFeatures": None},
            {"minReaderVersion": 3, "minWriterVersion": 3, "readerFeatures": ["footerOffsets", "tantivy4java"]},
            {"minReaderVersion": 4, "minWriterVersion": 4, "readerFeatures": None, "writerFeatures": None},
        ],
    )
    def test_known_to_readers(self, tmp_path: Path, protocol: dict[str, Any]) -> None:
        assert paths(HandMade(tmp_path, protocol).put(1, added("a.split")).uri) == {"a.split"}

    @pytest.mark.parametrize(
        ("protocol", "message"),
        [
            ({"minReaderVersion": 4, "minWriterVersion": 4}, "protocol 4 are only read"),
            ({"minReaderVersion": 1, "minWriterVersion": 4}, "this writer knows up to 3"),
            (
                {"minReaderVersion": 1, "minWriterVersion": 3, "writerFeatures": ["checkpoints", "warp"]},
                r"writer features that are unknown \(warp\)",
            ),
        ],
    )
    def test_unknown_to_writers(self, tmp_path: Path, protocol: dict[str, Any], message: str) -> None:
        made = HandMade(tmp_path, protocol)
        for write in (append, overwrite):
            with pytest.raises(UnsupportedFeatureError, match=message):
                write(made.uri, splits("a.split"))
        with pytest.raises(UnsupportedFeatureError, match=message):
            checkpoint(made.uri)
        assert len(list((tmp_path / LOG).iterdir())) == 1

    def test_another_format_is_refused_by_name(self, tmp_path: Path) -> None:
        made = HandMade(tmp_path, format={"provider": "parquet"})
        with pytest.raises(UnsupportedTableError, match="has the format 'parquet'; search tables have 'indextables'"):
            SearchTable(made.uri)


class TestBadSplits:
    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (splits("a.split", "./a.split"), "is named twice"),
            (splits(""), "a split has no path"),
            (splits("s3://elsewhere/a.split"), "is not below its table"),
            (splits("/etc/a.split"), "is not below its table"),
            (splits("a.split", partitionValues={"year": "2024"}), "the table is partitioned by"),
            ([Split(path="a.split", size=-1)], "negative size"),
        ],
    )
    def test_are_refused(self, tmp_path: Path, bad: list[Split], message: str) -> None:
        create_table(tmp_path, SCHEMA)
        for write in (append, overwrite):
            with pytest.raises(InputError, match=message):
                write(tmp_path, bad)
        assert SearchTable(tmp_path).version == 0

    def test_partition_columns_must_be_columns(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownColumnError, match="the partition column 'year' is not in the schema"):
            create_table(tmp_path, SCHEMA, ["year"])

    def test_an_action_without_a_path_names_its_file(self, tmp_path: Path) -> None:
        made = HandMade(tmp_path).put(1, {"add": {"size": 1}})
        with pytest.raises(CorruptLogError, match=r"0+1\.json: an action of the log is broken"):
            SearchTable(made.uri).splits()


def test_messages_are_one_line(tmp_path: Path) -> None:
    made = three(tmp_path).file(V0, json.dumps({"protocol": {"minReaderVersion": "x"}}).encode())
    with pytest.raises(CorruptTableError) as raised:
        SearchTable(made.uri)
    assert "\n" not in str(raised.value)
