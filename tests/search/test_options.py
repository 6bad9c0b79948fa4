"""The nine keys of note 004, by their names; and the one cache, which only knows which version is the newest."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from delta_sidecar import OptionError
from delta_sidecar.search import SearchOptions, SearchTable, append, checkpoint, clean_log, create_table
from delta_sidecar.search.table import present_ms
from delta_sidecar.storage import open_store
from delta_sidecar.testing.stores import CountingStore
from tests.search.made import SCHEMA, HandMade, added, splits

KEYS: list[tuple[str, str, str, Any]] = [
    ("logRetention.duration", "1000", "log_retention", timedelta(seconds=1)),
    ("checkpointRetention.duration", "1000", "checkpoint_retention", timedelta(seconds=1)),
    ("cleanup.failurePolicy", "fail", "failure_policy", "fail"),
    ("cleanup.dryRun", "true", "dry_run", True),
    ("transaction.cache.expirationSeconds", "60", "cache_expiration", timedelta(minutes=1)),
    ("transaction.cache.enabled", "true", "cache_enabled", True),
    ("checkpoint.parallelism", "3", "parallelism", 3),
    ("checkpoint.read.timeoutSeconds", "5", "read_timeout", timedelta(seconds=5)),
    ("checkpoint.interval", "50", "checkpoint_interval", 50),
]


@pytest.mark.parametrize(("key", "text", "field", "value"), KEYS)
def test_each_key_is_taken(key: str, text: str, field: str, value: Any) -> None:
    for name in (key, f"spark.indextables.{key}", key.upper()):
        assert getattr(SearchOptions.of({name: text}), field) == value
        assert getattr(SearchOptions.of(None, {name: text, "other": "x"}), field) == value
    default = getattr(SearchOptions(), field)
    assert default != value
    assert getattr(SearchOptions.of({}, {}), field) == default


def test_given_before_the_table_before_the_default() -> None:
    assert SearchOptions.of({"checkpoint.interval": 2}, {"checkpoint.interval": "3"}).checkpoint_interval == 2
    assert SearchOptions.of(SearchOptions(checkpoint_interval=4)).checkpoint_interval == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"checkpoint.intervall": "1"},
            r"unknown option 'checkpoint.intervall' \(did you mean checkpoint.interval\?\)",
        ),
        ({"checkpoint.interval": "0"}, "option checkpoint.interval is '0'; give a number, 1 or more"),
        ({"logRetention.duration": "-1"}, "give milliseconds, 0 or more"),
        ({"cleanup.dryRun": "maybe"}, "give true or false"),
        ({"cleanup.failurePolicy": "explode"}, "give continue or fail"),
    ],
)
def test_bad_ones_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SearchOptions.of(options)
    create_table(tmp_path, SCHEMA)
    with pytest.raises(OptionError, match=message):
        SearchTable(tmp_path, options=options)


def test_a_bad_table_property_is_refused_when_the_table_is_created(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"table property checkpoint.interval is 'x'"):
        create_table(tmp_path, SCHEMA, configuration={"checkpoint.interval": "x"})


def test_the_interval_of_the_table_counts(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA, configuration={"spark.indextables.checkpoint.interval": "2"})
    assert [append(tmp_path, splits(f"{n}.split")).checkpoint for n in range(3)] == [None, 2, None]
    assert append(tmp_path, splits("x.split"), options={"checkpoint.interval": 3}).checkpoint is None


class TestCache:
    on: ClassVar = {"transaction.cache.enabled": True}

    def test_the_newest_version_is_asked_for_at_every_opening_by_default(self, tmp_path: Path) -> None:
        made = HandMade(tmp_path)
        assert SearchTable(made.uri).version == 0
        made.put(1, added("a.split"))
        assert SearchTable(made.uri).version == 1

    def test_within_its_time_no_request_is_made(self, tmp_path: Path) -> None:
        made = HandMade(tmp_path)
        store = CountingStore(open_store(made.uri))
        SearchTable(store, options=self.on)
        made.put(1, added("a.split"))
        store.reset()
        assert SearchTable(store, options=self.on).version == 0
        assert store.requests == []
        assert SearchTable(store, options={**self.on, "transaction.cache.expirationSeconds": 0}).version == 1
        assert SearchTable(store).version == 1, "where it is off, the store is asked"

    def test_our_own_commit_is_seen_at_once(self, tmp_path: Path) -> None:
        create_table(tmp_path, SCHEMA)
        assert SearchTable(tmp_path, options=self.on).version == 0
        append(tmp_path, splits("a.split"))
        assert SearchTable(tmp_path, options=self.on).version == 1

    def test_old_versions_are_never_mixed_up(self, tmp_path: Path) -> None:
        made = HandMade(tmp_path).put(1, added("a.split"))
        assert SearchTable(made.uri, options=self.on).version == 1
        assert SearchTable(made.uri, 0, options=self.on).splits() == []


def test_the_timeout_goes_to_the_store() -> None:
    """A local directory has none; an object store takes it as an option."""
    import delta_sidecar.search.table as module

    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "open_store", lambda uri, options: seen.append(options))
        settings = SearchOptions.of({"checkpoint.read.timeoutSeconds": 5})
        module.store_of("s3://b/t", {"region": "x"}, settings)
        module.store_of("s3://b/t", None, SearchOptions())
    assert seen == [{"timeout": "5s", "region": "x"}, None]


def test_ready_settings_leave_the_others_to_the_table() -> None:
    table = {"logRetention.duration": "7776000000", "checkpoint.parallelism": "4"}
    found = SearchOptions.of(SearchOptions(parallelism=16), table)
    assert (found.parallelism, found.log_retention) == (16, timedelta(days=90))
    default = SearchOptions(timedelta(days=30))
    for ready in (
        default,
        pickle.loads(pickle.dumps(default)),
        SearchOptions.of({"logRetention.duration": 2592000000}),
    ):
        assert SearchOptions.of(ready, table).log_retention == timedelta(days=30)
        assert SearchOptions.of(ready, table).parallelism == 4
    assert SearchOptions.of(SearchOptions()) == SearchOptions()


def test_a_table_is_cleaned_by_its_own_retention(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA, configuration={"logRetention.duration": str(90 * 86_400_000)})
    append(tmp_path, splits("a.split"))
    append(tmp_path, splits("b.split"))
    checkpoint(tmp_path)
    later = present_ms() + 60 * 86_400_000
    assert clean_log(tmp_path, options=SearchOptions(parallelism=16), now_ms=later).deleted == ()
    assert clean_log(tmp_path, options=SearchOptions(log_retention=timedelta(days=30)), now_ms=later).deleted
