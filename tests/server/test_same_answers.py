"""What a client gets is what `DeltaTable` gives: files, rows, stats, changes, of tables of every kind."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import Connection, DeltaTable, RemoteTable, build_index, connect
from delta_sidecar.errors import ConsumedStreamError, DeltaSidecarError, InputError
from tests.data.changing import feed_table, keyed, recorded, removed, vector, written
from tests.engines.tables import TABLES, UNLIKE
from tests.engines.test_property import VALUES
from tests.engines.test_property import table as random_table  # noqa: F401
from tests.events_table import write_events
from tests.properties.predicates import Predicate, predicates
from tests.server.serving import serving

PREDICATES: list[Any] = [
    None,
    "id > 15",
    "s = 'a' OR p IS NULL",
    "ts >= '2026-02-10T22:00:00Z' AND NOT flag",
    [("id", "in", [3, 14, 29])],
    [[("id", "<", 4)], [("s", "=", "zzz")]],
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    for name, make in TABLES.items():
        make(root / name)
    build_index(root / "plain")
    write_events(root / "events")
    write_feed(root / "feed")
    return root


def write_feed(root: Path) -> None:
    first = written(root, "a", range(40))
    marked = replace(first, dv=vector(0, 1, 2))
    table = feed_table(root).commit(first).commit(removed(first), marked)
    table.commit(recorded(root, "c", keyed(5, 5), ["update_preimage", "update_postimage"]))
    table.commit(written(root, "b", [100, 101]))


@pytest.fixture(scope="module")
def connection(lake: Path) -> Iterator[Connection]:
    with serving({"lake": lake}) as server, connect(server.url) as opened:
        yield opened


def values(table: pa.Table) -> tuple[Any, str]:
    """Schema and values; NaN is like itself."""
    return table.schema, repr(table.to_pylist())


def both(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """What two readings give: values, or the class and text of an error."""
    return outcome(ours), outcome(theirs)


def outcome(read: Any) -> Any:
    try:
        return values(read().read_all())
    except DeltaSidecarError as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("plain", *UNLIKE, "events") else [pytest.mark.slow])
        for name in (*TABLES, "events")
    ],
)
def test_files_rows_and_stats(name: str, lake: Path, connection: Connection) -> None:
    local, remote = DeltaTable(lake / name), connection.table(f"lake/{name}")
    assert remote.version() == local.version()
    assert remote.schema() == local.schema()
    assert remote.metadata() == local.metadata()
    assert remote.protocol() == local.protocol()
    assert list(remote.file_infos()) == list(local.file_infos())
    predicates = PREDICATES if name != "events" else [None, "id = 7"]
    for predicate in predicates:
        there, here = both(lambda p=predicate: remote.scan_files(p), lambda p=predicate: local.scan_files(p))
        assert there == here
        there, here = both(
            lambda p=predicate: remote.to_batches(predicate=p), lambda p=predicate: local.to_batches(predicate=p)
        )
        assert there == here
    stats = remote.file_stats().read_all()
    paths = [file.path for file in local.file_infos()]
    expected = pa.Table.from_batches([local.get_stats_for_files(paths)])
    assert stats.schema == expected.schema
    assert repr(stats.sort_by("path").to_pylist()) == repr(expected.sort_by("path").to_pylist())


def test_columns_limits_batches_and_versions(lake: Path, connection: Connection) -> None:
    local, remote = DeltaTable(lake / "plain"), connection.table("lake/plain")
    wanted = ["path", "num_records", "stats"]
    assert remote.scan_files(columns=wanted, limit=2).read_all() == local.scan_files(columns=wanted, limit=2).read_all()
    rows = remote.to_batches(["s", "id"], "id < 20", limit=7, batch_size=3)
    batches = list(rows)
    assert max(batch.num_rows for batch in batches) == 3
    assert pa.Table.from_batches(batches) == local.to_batches(["s", "id"], "id < 20", limit=7).read_all()
    assert remote.file_stats(columns=["id"], predicate="p = '1'").read_all().column_names[2:] == [
        "min.id", "max.id", "null_count.id",
    ]  # fmt: skip
    older = connection.table("lake/plain", version=0)
    assert older.version() == 0
    assert older.scan_files().read_all() == DeltaTable(lake / "plain", 0).scan_files().read_all()
    older.update_incremental()
    assert older.version() == 2
    older.load_as_version(1)
    assert older.version() == 1


@pytest.mark.parametrize(
    ("start", "end", "asked"),
    [
        (0, None, {}),
        (1, 2, {}),
        (1, None, {"columns": ["k", "_change_type"], "predicate": "k > 1"}),
        (3, None, {"predicate": "_change_type = 'insert'"}),
        ("2000-01-01T00:00:00Z", None, {}),
        (9, None, {}),
        (2, 1, {}),
        (0, None, {"columns": ["nope"]}),
    ],
)
def test_changes(lake: Path, connection: Connection, start: Any, end: Any, asked: dict[str, Any]) -> None:
    local, remote = DeltaTable(lake / "feed"), connection.table("lake/feed")
    there, here = both(lambda: remote.changes(start, end, **asked), lambda: local.changes(start, end, **asked))
    assert there == here


def test_what_belongs_to_a_connection_is_not_pickled(connection: Connection) -> None:
    table = connection.table("lake/events")
    for each in (connection, table, table.scan_files()):
        with pytest.raises(InputError, match="cannot be pickled"):
            pickle.dumps(each)


def test_streams_are_read_once(connection: Connection) -> None:
    stream = connection.table("lake/events").to_batches()
    assert pa.table(stream).num_rows == 8
    with pytest.raises(ConsumedStreamError):
        list(stream)
    with connection.table("lake/events").scan_files() as stream:
        assert next(stream).num_rows == 4
    with pytest.raises(ConsumedStreamError):
        next(stream)
    assert pa.table(connection.table("lake/events")).num_rows == 8
    assert len(connection.table("lake/events").to_pandas()) == 8


def test_explain_is_the_plan(lake: Path, connection: Connection) -> None:
    plan = DeltaTable(lake / "plain").scan_files("id = 7", limit=3).plan
    assert connection.table("lake/plain").explain("id = 7", limit=3) == str(plan)


TREES = {
    '{"p": "1"}': "p = '1'",
    '{"p": ["0", "2"], "flag": true}': "p IN ('0', '2') AND flag = true",
    '{"s": null}': "s IS NULL",
    '{"column": "id", "op": ">=", "value": 20}': "id >= 20",
    '{"column": ["st", "a"], "op": "<", "value": 9}': "st.a < 9",
    '{"and": [{"column": "id", "op": "between", "value": [3, 30]}, {"not": {"p": "1"}}]}':
        "(id BETWEEN 3 AND 30) AND (NOT p = '1')",
    '{"or": [{"s": "it\'s"}, {"column": "s", "op": "like", "value": "a%"}]}': "s = 'it''s' OR s LIKE 'a%'",
    '{"column": "f", "op": "!=", "value": -1.5e0}': "f != -1.5",
    '{"column": "id", "op": "not in", "value": [1, 2]}': "id NOT IN (1, 2)",
    '{"column": "s", "op": "is not null"}': "s IS NOT NULL",
}  # fmt: skip


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_means_what_its_sql_does(tree: str, lake: Path, connection: Connection) -> None:
    import json

    remote = connection.table("lake/plain")
    expected = DeltaTable(lake / "plain").to_batches(predicate=TREES[tree]).read_all()
    assert values(remote.to_pyarrow_table(predicate=json.loads(tree))) == values(expected)


@pytest.fixture(scope="module")
def remote_random(random_table: DeltaTable) -> Iterator[RemoteTable]:  # noqa: F811
    root = Path(random_table.table_uri)
    with serving({"made": root.parent}) as server, connect(server.url) as opened:
        yield opened.table(f"made/{root.name}")


@pytest.mark.slow
@given(predicate=predicates(VALUES), limit=st.none() | st.integers(0, 50))
def test_random_predicates(
    random_table: DeltaTable,  # noqa: F811
    remote_random: RemoteTable,
    predicate: Predicate,
    limit: int | None,
) -> None:
    there, here = both(
        lambda: remote_random.to_batches(predicate=str(predicate), limit=limit),
        lambda: random_table.to_batches(predicate=str(predicate), limit=limit),
    )
    assert there == here
