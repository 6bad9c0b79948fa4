"""Sources as datasets: which options go together, and streams that are scanned once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as pds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest

from delta_sidecar import (
    ConsumedStreamError,
    DeltaTable,
    InputError,
    OptionError,
    TableNotFoundError,
    UnknownColumnError,
)
from delta_sidecar.lake import DatasetSourceOptions, OneShotDataset, open_dataset
from tests.events_table import write_events


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_events(tmp_path / "events")
    return tmp_path / "events"


def keys(dataset: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset_format": "deltalake"}, r"no dataset format 'deltalake' \(did you mean delta\?\)"),
        ({"delta_version": 1, "delta_timestamp": "2026-02-10"}, "both given"),
        ({"files": ["a"]}, "files is not for the format delta: the table's log says"),
        ({"partitioning": pds.partitioning(flavor="hive")}, "partitioning is not for the format delta"),
        ({"dataset_format": "parquet", "delta_version": 1}, "delta_version is not for the format parquet"),
        ({"dataset_format": "csv", "delta_timestamp": "2026-02-10"}, "delta_timestamp is not for the format csv"),
        ({"dataset_format": "csv", "storage_options": {"key": "geheim"}}, "storage_options is not for the format csv"),
    ],
)
def test_options_that_exclude_each_other(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DatasetSourceOptions(**options)


def test_secrets_are_not_shown() -> None:
    assert "geheim" not in repr(DatasetSourceOptions(storage_options={"key": "geheim"}))


# Sources


def test_a_delta_table(root: Path) -> None:
    for version in (3, 2, 1, 0):
        at = time.time() - 3600 * (4 - version)
        os.utime(root / "_delta_log" / f"{version:020}.json", (at, at))
    assert (
        keys(open_dataset(root)) == keys(open_dataset(str(root))) == keys(open_dataset(DeltaTable(root))) == [*range(8)]
    )
    assert keys(open_dataset(root, DatasetSourceOptions(delta_version=1))) == [0, 1, 2, 3]
    hour = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600 * 1.5))
    assert keys(open_dataset(root, DatasetSourceOptions(delta_timestamp=hour))) == [0, 1, 2, 3, 4, 5]
    files = pa_fs.SubTreeFileSystem(str(root), pa_fs.LocalFileSystem())
    assert keys(open_dataset(root, DatasetSourceOptions(filesystem=files))) == [*range(8)]
    with pytest.raises(TableNotFoundError):
        open_dataset(root / "nothing")


def test_files_of_other_formats(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2]})
    for hour in (1, 2):
        (tmp_path / f"hour={hour}").mkdir()
        pq.write_table(rows, tmp_path / f"hour={hour}" / "f.parquet")
    pa_csv.write_csv(rows, tmp_path / "rows.csv")
    parquet = DatasetSourceOptions("parquet")
    assert open_dataset(tmp_path / "hour=1", parquet).count_rows() == 2
    one = DatasetSourceOptions("parquet", files=[str(tmp_path / "hour=2" / "f.parquet")])
    assert open_dataset(tmp_path, one).to_table()["hour"].to_pylist() == [2, 2]
    assert keys(open_dataset(tmp_path / "rows.csv", DatasetSourceOptions("csv"))) == [1, 2]
    with pytest.raises(InputError, match=r"'.*nothing' cannot be opened as parquet: .*nothing"):
        open_dataset(tmp_path / "nothing", parquet)


def test_what_is_open_already(root: Path) -> None:
    table = pa.table({"id": [1, 2]})
    assert keys(open_dataset(table)) == keys(open_dataset(table.to_batches()[0])) == [1, 2]
    dataset = pds.InMemoryDataset(table)
    assert open_dataset(dataset) is dataset
    stream = open_dataset(table.to_reader())
    assert isinstance(stream, OneShotDataset)
    assert open_dataset(stream) is stream
    with pytest.raises(OptionError, match="a DeltaTable is already open"):
        open_dataset(DeltaTable(root), DatasetSourceOptions(delta_version=1))
    with pytest.raises(InputError, match="a int is neither an Arrow stream nor a dataset"):
        open_dataset(7)


# One scan


class Exported:
    """Nothing but an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table({"id": [1, 2, 3]}).__arrow_c_stream__(requested_schema)


def streams(root: Path) -> dict[str, Any]:
    table = DeltaTable(root)
    return {
        "rows": lambda: table.to_batches(["id", "value"]),
        "reader": lambda: table.to_batches(["id", "value"]).to_reader(),
        "dataset": table.to_pyarrow_dataset,
        "changes": lambda: table.changes(0),
        "stream": Exported,
    }


@pytest.mark.parametrize("kind", ["rows", "reader", "dataset", "changes", "stream"])
def test_a_second_scan_is_an_error(kind: str, root: Path) -> None:
    make = streams(root)[kind]
    first = OneShotDataset(make())
    assert not first.is_scanned
    whole = keys(first)
    assert first.is_scanned
    for scan in (first.to_table, first.to_batches, first.to_reader, first.count_rows):
        with pytest.raises(ConsumedStreamError, match="this dataset was scanned; it can be scanned only once"):
            scan()
    assert OneShotDataset(make()).count_rows() == len(whole)
    assert OneShotDataset(make()).count_rows(pc.field("id") > 1) == len([key for key in whole if key > 1])
    assert pa.table(OneShotDataset(make())).num_rows == len(whole)
    chosen = OneShotDataset(make()).to_table({"twice": pc.field("id") * 2}, pc.field("id") == 2)
    assert chosen.to_pydict() == {"twice": [4]}


def test_closing_stops_the_reading(root: Path) -> None:
    rows = DeltaTable(root).to_batches()
    with OneShotDataset(rows) as dataset:
        pass
    with pytest.raises(ConsumedStreamError, match="was closed"):
        dataset.to_table()
    with pytest.raises(ConsumedStreamError, match="was closed"):
        next(rows)


def test_a_scan_that_is_let_go_closes_the_source(root: Path) -> None:
    rows = DeltaTable(root).to_batches()
    batches = OneShotDataset(rows).to_batches()
    next(batches)
    del batches
    with pytest.raises(ConsumedStreamError, match="was closed"):
        next(rows)


def test_an_unknown_column_is_refused_before_the_scan(root: Path) -> None:
    dataset = OneShotDataset(DeltaTable(root).to_batches())
    for scan in (dataset.to_table, dataset.to_batches):
        with pytest.raises(UnknownColumnError, match=r"no column 'ids' here .*did you mean id"):
            scan(["ids"])
    with pytest.raises(UnknownColumnError, match="nope"):
        dataset.to_batches(None, pc.field("nope") == 1)
    assert dataset.to_table(["id"]).num_rows == 8
