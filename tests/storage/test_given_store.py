"""Tables on a store of obstore that the caller brings."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, MemoryStore, S3Store

from delta_sidecar import DeltaTable, InputError, build_index, verify_index
from delta_sidecar.storage.opening import store_at
from tests.events_table import write_events


@pytest.fixture
def events(tmp_path: Path) -> Path:
    write_events(tmp_path / "events")
    return tmp_path / "events"


def in_memory(events: Path, below: str) -> MemoryStore:
    """The table in a store of memory, below a path."""
    memory = MemoryStore()
    for file in events.rglob("*"):
        if file.is_file():
            obstore.put(memory, f"{below}{file.relative_to(events)}", file.read_bytes())
    return memory


@pytest.mark.parametrize(("uri", "below"), [("memory://lake/a/events", "a/events/"), ("memory://lake", "")])
def test_a_table_in_memory(events: Path, uri: str, below: str) -> None:
    memory = in_memory(events, below)
    table = DeltaTable(uri, store=memory)
    assert table.table_uri == uri
    assert table.to_pyarrow_table(columns=["id"]) == DeltaTable(events).to_pyarrow_table(columns=["id"])
    assert build_index(uri, store=memory).files == 4
    assert verify_index(uri, store=memory).ok
    with DeltaTable(uri, store=memory).scan_files() as scan:
        assert scan.read_all().num_rows == 4
        assert scan.metrics.tier == "index"


def test_tables_of_one_store_share_what_the_process_remembers(events: Path) -> None:
    memory, other = in_memory(events, ""), in_memory(events, "")
    cold, warm, elsewhere = (DeltaTable("memory://lake", store=store).opening_cost for store in (memory, memory, other))
    # How many requests are made ahead for what is not there is not the same each time.
    assert warm.bytes_read == 0
    assert warm.requests < cold.requests
    assert elsewhere.bytes_read == cold.bytes_read > 0, "another store is another place"


def test_tables_of_other_stores_are_others(events: Path) -> None:
    memory, other = in_memory(events, ""), in_memory(events, "")
    table = DeltaTable("memory://lake", store=memory)
    assert table == DeltaTable("memory://lake", store=memory) == copy.copy(table)
    assert table != DeltaTable("memory://lake", store=other)
    assert DeltaTable(events) == DeltaTable(events, store=LocalStore(events)), "one directory"


@pytest.mark.parametrize("prefix", ["", "events"])
def test_a_local_store(events: Path, prefix: str) -> None:
    """By its own directory, or by one above it. The files are read without obstore."""
    store = LocalStore(events.parent / prefix)
    table = DeltaTable(events, store=store)
    assert table.file_uris() == DeltaTable(events).file_uris()
    assert store_at(events, store).local_path("x") == str(events / "x")
    assert pickle.loads(pickle.dumps(table)).file_uris() == table.file_uris()


def test_a_store_with_a_prefix_holds_what_is_below_it() -> None:
    for store, uri in [
        (S3Store("lake", region="x"), "s3://lake/events"),
        (S3Store("lake", prefix="events", region="x"), "s3a://lake/events"),
        (S3Store("lake", prefix="a/b", region="x"), "s3://lake/a/b/events"),
        (GCSStore("lake", skip_signature=True), "gs://lake/events"),
        (AzureStore("lake", account_name="a", account_key="a2V5"), "abfss://lake@a.dfs.core.windows.net/events"),
    ]:
        assert store_at(uri, store).root_uri.endswith("/events")


class MyStore(S3Store):
    """One of a user."""


@pytest.mark.parametrize(
    ("store", "uri", "says"),
    [
        (S3Store("lake", region="x"), "s3://sea/events", "is not in the given S3Store, which holds 'lake'"),
        (MyStore("lake", region="x"), "s3://sea/events", "is not in the given S3Store, which holds 'lake'"),
        (S3Store("lake", prefix="a", region="x"), "s3://lake/ab", "which holds only what is below 'a'"),
        (S3Store("lake", region="x"), "az://lake/events", "is not in a S3Store"),
        (S3Store("lake", region="x"), "/data/events", "is not in a S3Store"),
        (MemoryStore(), "s3://lake/events", "is not in a MemoryStore"),
        (LocalStore("/usr"), "/var/events", "which holds only what is below 'usr'"),
        (LocalStore("/usr"), "s3://lake/events", "is not in a LocalStore"),
        (HTTPStore("https://example.com/events"), "s3://lake/events", "is not in a HTTPStore"),
        ({"bucket": "lake"}, "s3://lake/events", "store is a dict; it takes an obstore store"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_store_that_does_not_hold_the_table_is_refused(store: object, uri: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        DeltaTable(uri, store=store)  # type: ignore[arg-type]


def test_a_store_of_memory_cannot_be_pickled(events: Path) -> None:
    table = DeltaTable("memory://lake", store=in_memory(events, ""))
    with pytest.raises(InputError, match="was made with store=…, and a MemoryStore cannot be pickled"):
        pickle.dumps(table)


def test_no_secret_is_shown() -> None:
    store = S3Store("lake", region="x", access_key_id="AKIA", secret_access_key="wJalrXUtnFEMI")
    assert "wJalrXUtnFEMI" not in repr(store_at("s3://lake/events", store))


def test_rows_and_schema_as_arrow_capsules(events: Path) -> None:
    table = DeltaTable(events)
    assert pa.table(table).select(["ts", "id"]) == table.to_pyarrow_table(columns=["ts", "id"])
    assert pa.table(table).num_rows == 8, "each time it is asked for, the rows are read anew"
    assert pa.schema(table.schema()) == table.schema().to_arrow()
