"""Tables, files, plans, metrics and reports pickle and deepcopy; streams refuse to."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

import delta_sidecar
from delta_sidecar import DeltaTable, FileInfo, InputError, TableNotFoundError, VersionNotFoundError, errors, pipeline
from delta_sidecar.storage import open_store
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.events_table import write_events

SECRET = "wJalrXUtnFEMI"
COPIES: list[Callable[[Any], Any]] = [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy]
WAYS = ["pickle", "deepcopy", "copy"]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    write_events(tmp_path / "events")
    return tmp_path / "events"


@pytest.mark.parametrize("copied", COPIES, ids=WAYS)
def test_a_table_pins_the_same_version(events: Path, copied: Callable[[Any], Any]) -> None:
    old = DeltaTable(events, version=1, options={"delta.sidecar.batch_size": 1})
    again = copied(old)
    assert again is not old
    assert (again.version(), again.table_uri, again.file_uris()) == (1, old.table_uri, old.file_uris())
    assert again.settings == old.settings
    again.update_incremental()
    assert (old.version(), again.version()) == (1, 3)


def test_a_table_of_a_relative_path_is_loaded_anywhere(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(events.parent)
    pickled = pickle.dumps(DeltaTable("events", version=2))
    program = "import pickle, sys; t = pickle.load(sys.stdin.buffer); print(t.version(), len(t.file_uris()))"
    done = subprocess.run([sys.executable, "-c", program], input=pickled, cwd="/", capture_output=True, check=True)
    assert done.stdout.split() == [b"2", b"3"]


def test_a_table_goes_to_another_process(events: Path) -> None:
    """By spawn, as on macOS and Windows: nothing is inherited."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(methodcaller("count"), DeltaTable(events)).result() == 8


def test_a_pickle_carries_the_storage_options(events: Path) -> None:
    """Documented: whoever has the pickle has the credentials. What is printed never shows them."""
    given = {"aws_secret_access_key": SECRET}
    table = DeltaTable(events, storage_options=given, profile={"aws_session_token": SECRET})
    assert SECRET.encode() in pickle.dumps(table)
    again = pickle.loads(pickle.dumps(table))
    assert again._storage_options == given
    for shown in (table, again, table.scan_files().plan, table.settings):
        assert SECRET not in repr(shown) + str(shown)


def test_another_table_at_the_same_place_is_not_taken_for_it(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "a").metadata({"id": "long"}, table_id="first").commit()
    pickled = pickle.dumps(DeltaTable(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        pickle.loads(pickled)
    LogBuilder(tmp_path / "a").metadata({"id": "long"}, table_id="second").commit()
    with pytest.raises(TableNotFoundError, match="is not the table that was pickled"):
        pickle.loads(pickled)


def test_a_version_that_is_gone_says_so(events: Path) -> None:
    pickled = pickle.dumps(DeltaTable(events))
    max((events / "_delta_log").glob("*.json")).unlink()
    with pytest.raises(VersionNotFoundError):
        pickle.loads(pickled)


def test_a_store_of_ours_goes_along(events: Path) -> None:
    table = DeltaTable("anything", store=open_store(events))
    assert pickle.loads(pickle.dumps(table)).file_uris() == table.file_uris()


def test_a_store_that_cannot_be_pickled_is_named(events: Path) -> None:
    table = DeltaTable(events, store=CountingStore(open_store(events)))
    with pytest.raises(InputError, match="was made with store=…, and a CountingStore cannot be pickled"):
        pickle.dumps(table)
    assert copy.deepcopy(table).version() == 3


@pytest.mark.parametrize("copied", COPIES, ids=WAYS)
@pytest.mark.parametrize("stream", ["scan_files", "to_batches"])
def test_streams_refuse(events: Path, stream: str, copied: Callable[[Any], Any]) -> None:
    with getattr(DeltaTable(events), stream)() as reading:
        with pytest.raises(InputError, match=f"a {type(reading).__name__} is a stream and cannot be pickled"):
            copied(reading)
        assert sum(batch.num_rows for batch in reading) > 0


def values(events: Path) -> dict[str, Any]:
    """A value of every public type that is not a table or a stream, and of what their methods return."""
    table = DeltaTable(events)
    scan = table.scan_files("id >= 2", columns=["path", "stats", "tags", "deletion_vector"])
    rows = table.to_batches(predicate="id >= 2")
    assert scan.read_all().num_rows == len(list(rows)) == 3
    step = pipeline.StepReport("index", "done", "1 file", 0.5, {"files": 1})
    return {
        "FileInfo": next(table.file_infos()),
        "ScanPlan": scan.plan,
        "ScanMetrics": scan.metrics,
        "ScanPosition": scan.position,
        "ReadMetrics": rows.metrics,
        "TableMetadata": table.metadata(),
        "ProtocolVersions": table.protocol(),
        "EnginePlan": table.engine_plan("duckdb"),
        "schema": table.schema(),
        "settings": table.settings,
        "cost": table.opening_cost,
        "BuildOptions": delta_sidecar.BuildOptions(full=True),
        "BuildReport": delta_sidecar.build_index(events),
        "VerifyReport": delta_sidecar.verify_index(events),
        "IngestSummary": pipeline.IngestSummary("events", 1, 0, 1, 1, 1, 1, False, False, 0.5),
        "StepReport": step,
        "MaintenanceReport": pipeline.MaintenanceReport("events", False, 1, (step,)),
        "WatchReport": pipeline.WatchReport(1, 1, 0, 1),
        "KafkaSource": pipeline.kafka_source("kafka://localhost/clicks"),
        "RetryPolicy": pipeline.RetryPolicy(attempts=2),
        "RetryClass": pipeline.RetryClass.RETRYABLE,
    }


def test_values_come_back_equal(events: Path) -> None:
    for name, value in values(events).items():
        for way, copied in zip(WAYS, COPIES):
            again = copied(value)
            assert type(again) is type(value), (name, way)
            assert again == value, (name, way)
            assert repr(again) == repr(value), (name, way)


def test_every_public_type_is_among_them(events: Path) -> None:
    public = {name for package in (delta_sidecar, pipeline) for name in package.__all__}
    types = {name for name in public if name[0].isupper() and not name.endswith("Error")}
    streams = {"FileScan", "RowStream", "RemoteStream"}
    connected = {"Connection", "RemoteTable"}
    assert types - streams - connected - {"DeltaTable", "QueryBuilder"} <= set(values(events))


def test_errors_pickle() -> None:
    """Pools send them from process to process."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, Exception):
            again = pickle.loads(pickle.dumps(kind("what, where, what to do")))
            assert (type(again), str(again)) == (kind, "what, where, what to do")


def test_files_of_a_partition_still_share_their_values(events: Path) -> None:
    one = next(DeltaTable(events).file_infos())
    first, second = pickle.loads(pickle.dumps([one, FileInfo("b", partition_values=one.partition_values)]))
    assert first.partition_values is second.partition_values
    assert json.loads(json.dumps(first.partition_values)) == {"_event_hour": "2026021023"}
    with pytest.raises(TypeError, match="cannot be changed"):
        first.partition_values["_event_hour"] = "x"


def test_a_plan_that_was_pickled_says_what_it_said_and_cannot_be_run(events: Path) -> None:
    delta_sidecar.build_index(events, version=2)
    plan = DeltaTable(events).scan_files("id >= 2", limit=5).plan
    again = pickle.loads(pickle.dumps(plan))
    assert (str(again), again.as_dict()) == (str(plan), plan.as_dict())
    assert again.parts == plan.parts != ()
    with pytest.raises(InputError, match="a pickled plan cannot be run"):
        again.run()
