"""The facade: what a user of deltalake finds under the names it has there."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from delta_sidecar import DeltaTable
from delta_sidecar.errors import (
    DeltaSidecarError,
    InputError,
    OptionError,
    PredicateError,
    TableNotFoundError,
    UnknownColumnError,
    VersionNotFoundError,
)
from delta_sidecar.index.build.build import build_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": ["a", "b"] * 3})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two versions of six rows each, in two partitions."""
    table = tmp_path / "my table"
    write_deltalake(table, ROWS, partition_by=["p"])
    write_deltalake(table, ROWS, mode="append")
    return table


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def test_where_it_is(root: Path) -> None:
    for given in (str(root), root, f"file://{str(root).replace(' ', '%20')}", f"{root}/"):
        table = DeltaTable(given)
        assert table.table_uri == str(root)
        assert repr(table) == f"DeltaTable({str(root)!r}, version=1)"


def test_programs_for_deltalake_may_pass_its_arguments(root: Path) -> None:
    table = DeltaTable(str(root), 0, None, True, 7, True)
    assert (table.version(), table.settings.commit_parallelism) == (0, 7)


@pytest.mark.parametrize("version", ["1", 1.0, True, dt.datetime(2026, 1, 1)])
def test_a_version_is_a_whole_number(root: Path, version: Any) -> None:
    with pytest.raises(InputError, match="whole number"):
        DeltaTable(str(root), version=version)


def test_a_pinned_version_stays_until_it_is_moved(root: Path) -> None:
    table = DeltaTable(str(root))
    write_deltalake(root, ROWS, mode="append")
    assert (table.version(), table.count()) == (1, 12)
    table.update_incremental()
    assert (table.version(), table.count()) == (2, 18)
    table.load_as_version(0)
    assert (table.version(), table.count()) == (0, 6)


def test_a_failed_move_leaves_the_table_where_it_was(root: Path) -> None:
    table = DeltaTable(str(root), version=0)
    with pytest.raises(VersionNotFoundError):
        table.load_as_version(99)
    assert (table.version(), table.count()) == (0, 6)


def test_is_deltatable(root: Path) -> None:
    assert DeltaTable.is_deltatable(str(root))
    assert not DeltaTable.is_deltatable(str(root / "p=a"))
    assert not DeltaTable.is_deltatable(str(root / "nowhere"))


def test_a_log_without_its_first_commits_is_a_table(tmp_path: Path) -> None:
    LogBuilder(tmp_path).protocol().metadata({"x": "long"}).commit(add("a")).commit(add("b")).drop(0)
    with pytest.raises(VersionNotFoundError):
        DeltaTable(str(tmp_path))
    assert DeltaTable.is_deltatable(str(tmp_path))


def test_what_it_is(root: Path) -> None:
    table, theirs = DeltaTable(str(root)), deltalake.DeltaTable(root)
    assert table.schema().to_arrow().names == ["id", "p"]
    assert table.metadata().partition_columns == theirs.metadata().partition_columns
    assert table.metadata().created_time == theirs.metadata().created_time
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)


def test_files(root: Path) -> None:
    table, theirs = DeltaTable(str(root)), deltalake.DeltaTable(root)
    assert sorted(table.file_uris()) == sorted(map(unquote, theirs.file_uris())), "ours are paths, decoded"
    assert sorted(table.file_uris([("p", "=", "a")])) == sorted(
        unquote(uri) for uri in theirs.file_uris() if "p=a" in uri
    )
    assert len(table.file_uris(predicate="p = 'b'", limit=1)) == 1
    assert len(table.file_uris([("p", "=", "a")], file_pruning_predicate="id > 100")) == 0
    assert all(Path(table.file_uri(f.path)).is_file() for f in table.file_infos())


def test_partitions_of_files_that_order_their_values_otherwise(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).protocol().metadata({"a": "string", "b": "string"}, partition_by=["b", "a"])
    log.commit(add("1", partition={"a": "x", "b": "y"}), add("2", partition={"b": "y", "a": "x"}))
    assert [list(values.items()) for values in DeltaTable(str(tmp_path)).partitions()] == [[("b", "y"), ("a", "x")]]


def test_a_version_that_cannot_be_opened_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).protocol().metadata({"x": "long"}).commit(add("a"))
    table = DeltaTable(str(tmp_path))
    log.metadata({"x": "long"}, configuration={"delta.sidecar.batch_size": "many"}).commit(add("b"))
    before = table.settings
    with pytest.raises(OptionError, match="batch_size"):
        table.update_incremental()
    assert (table.version(), table.settings) == (0, before)


def test_indexes_are_turned_on_and_off_by_the_version(tmp_path: Path) -> None:
    """By a property of the version that is opened, whatever that of the version before says."""
    log = LogBuilder(tmp_path).protocol()
    for version, enabled in enumerate(["false", "true", "false"]):
        log.metadata({"x": "long"}, configuration={"delta.sidecar.enabled": enabled}).commit(add(str(version)))
        build_index(open_store(str(tmp_path)))
    table = DeltaTable(str(tmp_path), version=0)
    for version, tier in enumerate(["log", "index", "log"]):
        table.load_as_version(version)
        scan = table.scan_files()
        assert scan.read_all().num_rows == version + 1
        assert scan.metrics.tier == tier
        assert ("no index was looked for" in str(scan.plan.notes)) == (tier == "log")


def test_partitions(root: Path) -> None:
    assert sorted(p["p"] or "" for p in DeltaTable(str(root)).partitions()) == ["a", "b"]
    assert DeltaTable(str(root)).partitions([("p", "=", "a")]) == [{"p": "a"}]


def test_add_actions_and_stats(root: Path) -> None:
    table = DeltaTable(str(root))
    actions = table.get_add_actions()
    assert actions.num_rows == 4
    assert sum(actions["num_records"].to_pylist()) == 12
    assert actions["size_bytes"].to_pylist() == table.scan_files(columns=["size"]).read_all()["size"].to_pylist()
    first = actions["path"][0].as_py()
    found = table.get_stats_for_files([first, "not-there"], ["id"]).to_pydict()
    assert found["path"] == [first]
    assert found["num_records"] == [3]
    assert found["min.id"][0] in (0, 1)
    assert found["null_count.id"] == [0]


def test_stats_of_a_column_with_a_dot_in_its_name(tmp_path: Path) -> None:
    rows = {"a.b": pa.array([7], pa.int64()), "a": pa.array([{"c": 1}])}
    write_deltalake(tmp_path, pa.table(rows))
    table = DeltaTable(tmp_path)
    found = table.get_stats_for_files(table.file_uris(), ["a.b", "a.c"])
    assert [(found[f"min.{name}"].to_pylist()) for name in ("a.b", "a.c")] == [[7], [1]]


def test_stats_of_files_by_their_places(root: Path) -> None:
    """Whatever way a file is written: as in the log, as a local path, as a URI, decoded or encoded."""
    write_deltalake(root, pa.table({"id": pa.array([7], pa.int64()), "p": ["a b%c"]}), mode="append")
    table = DeltaTable(str(root))
    paths = [f.path for f in table.file_infos()]
    assert any("%" in path for path in paths)
    uris = table.file_uris()
    encoded = [Path(uri).as_uri() for uri in uris]
    decoded = [f"file://{uri}" for uri in uris]
    below = [str(Path(uri).relative_to(root)) for uri in uris]
    for given in (paths, uris, encoded, decoded, below, [*paths, *uris], table.file_uris(limit=2)):
        found = table.get_stats_for_files(given, ["id"])
        expected = {Path(table.file_uri(path)) for path in paths} if len(given) > 2 else set(map(Path, given))
        assert {Path(table.file_uri(path)) for path in found.column("path").to_pylist()} == expected
        assert found.num_rows == len(expected)
    for unknown in ([], ["nothing"], ["/elsewhere/x.parquet"], ["s3://bucket/x.parquet"], ["ts=12:00/x"]):
        assert table.get_stats_for_files(unknown, ["id"]).num_rows == 0
    for wrong in (None, 7, uris[0], [Path(uris[0])], [None]):
        with pytest.raises(InputError, match="file_uris"):
            table.get_stats_for_files(wrong)  # type: ignore[arg-type]


def test_stats_of_files_of_a_store(tmp_path: Path) -> None:
    store = open_store("memory://stats-by-place/a table")
    stats = {"numRecords": 5, "minValues": {"x": 1}, "maxValues": {"x": 2}, "nullCount": {"x": 0}}
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    log.commit(add("a%20b.parquet", stats=stats), add("memory://stats-by-place/other/c.parquet", stats=stats))
    for file in (tmp_path / "_delta_log").iterdir():
        store.put_if_absent(f"_delta_log/{file.name}", file.read_bytes())
    table = DeltaTable("memory://stats-by-place/a table", store=store)
    assert table.get_stats_for_files(table.file_uris()).num_rows == 2
    assert table.get_stats_for_files([quote(uri, safe=":/") for uri in table.file_uris()]).num_rows == 2


def test_rows(root: Path) -> None:
    table = DeltaTable(str(root))
    assert ids(table.to_pyarrow_table()) == sorted([*range(6)] * 2)
    assert ids(table.to_pyarrow_table(partitions=[("p", "=", "a")])) == [0, 0, 2, 2, 4, 4]
    assert ids(table.to_pyarrow_table([("p", "=", "a")], ["id"], None, "id > 2")) == [4, 4]
    assert table.to_pyarrow_table(columns=["p", "id"]).column_names == ["p", "id"]
    assert list(table.to_pandas(columns=["id"])["id"].sort_values()) == sorted([*range(6)] * 2)
    assert sum(b.num_rows for b in table.to_batches(limit=5)) == 5
    assert table.scan(predicate="id = 1").read_all().num_rows == 2
    assert table.to_pyarrow_dataset().to_table().num_rows == 12


def test_without_pandas_one_line_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"^to_pandas needs pandas; run: pip install 'delta-sidecar\[pandas\]'$"):
        DeltaTable(root).to_pandas()


def test_example_of_the_notes(root: Path) -> None:
    """The call that programs for deltalake make, with the import changed."""
    found = DeltaTable(str(root)).to_pyarrow_dataset(partitions=[("p", "in", ["a"])]).to_table(columns=["id"])
    assert ids(found) == [0, 0, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda t: t.file_uris(predicate="nope = 1"), DeltaSidecarError),
        (lambda t: t.file_uris(predicate="id ="), PredicateError),
        (lambda t: t.to_pyarrow_table(columns=["nope"]), UnknownColumnError),
        (lambda t: t.to_pyarrow_table(filesystem=object()), InputError),
        (lambda t: t.history(-1), InputError),
    ],
)
def test_bad_input_is_one_line(root: Path, call: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        call(DeltaTable(str(root)))
    assert isinstance(raised.value, DeltaSidecarError)
    assert "\n" not in str(raised.value)


def test_no_table_there(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match=str(tmp_path)):
        DeltaTable(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists(), "reading creates nothing"


def test_options_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"delta\.sidecar\.nonsense"):
        DeltaTable(str(tmp_path), options={"delta.sidecar.nonsense": 1})


def test_options_come_from_the_table_too(tmp_path: Path) -> None:
    LogBuilder(tmp_path).metadata(configuration={"delta.sidecar.strategy": "forward"}).commit(add("a"))
    assert DeltaTable(str(tmp_path)).scan_files().plan.strategy == "forward"
    assert (
        DeltaTable(str(tmp_path), options={"delta.sidecar.strategy": "reverse"}).scan_files().plan.strategy == "reverse"
    )


def test_a_table_without_a_schema_lists_and_does_not_read(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path).commit(add("a"))
    path = built.log / f"{0:020}.json"
    path.write_text(path.read_text().replace('"schemaString"', '"noSchema"'))
    assert len(list(DeltaTable(str(tmp_path)).file_infos())) == 1
    with pytest.raises(DeltaSidecarError, match="no schema"):
        DeltaTable(str(tmp_path)).to_pyarrow_table()


def test_partition_columns_are_read_from_the_log_alone(root: Path) -> None:
    """The data files are gone: nobody opens them."""
    for file in root.rglob("*.parquet"):
        file.unlink()
    table = DeltaTable(root)
    with table.to_batches(columns=["p"]) as rows:
        assert sorted(value for batch in rows for value in batch.column("p").to_pylist()) == ["a"] * 6 + ["b"] * 6
        assert rows.metrics.files_read == 0
    assert table.to_pyarrow_table(columns=["P"], filters="p = 'a'").column("p").to_pylist() == ["a"] * 6
    assert table.to_pyarrow_table(columns=["p"], filters=pc.field("p") == "b").num_rows == 6
    dataset = table.to_pyarrow_dataset()
    assert dataset.to_table(columns=["p"], filter=pc.field("p") == "b").num_rows == 6
    assert table.count() == dataset.count_rows() == 12
    with pytest.raises(DeltaSidecarError, match="is missing"):
        table.to_pyarrow_table(columns=["p"], filters="id > 1")
