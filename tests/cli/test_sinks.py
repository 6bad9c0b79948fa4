"""`--output` and `--format`: the same result in a file of any format, complete or not there at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from delta_sidecar.cli.sinks import Sink, write_result
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.table_builder import LogBuilder
from tests.cli.running import assert_refused, invoke

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "text": ["a,b", 'say "hi"', ""],
        "at": pa.array([0, None, 1_770_760_800_500_000], pa.timestamp("us", "UTC")),
        "list": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    types: dict[str, Any] = {"id": "long", "text": "string", "at": "timestamp"}
    types["list"] = {"type": "array", "elementType": "long", "containsNull": True}
    root = tmp_path / "table"
    return LogBuilder(root).metadata(types).commit(write_data_file(root, "a.parquet", ROWS)).root


def read_back(path: Path) -> list[dict[str, Any]]:
    match path.suffix:
        case ".parquet":
            return pq.read_table(path).to_pylist()
        case ".arrow":
            with pa.memory_map(str(path)) as file:
                return pa.ipc.open_file(file).read_all().to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".json"])
def test_rows_in_a_file(table: Path, tmp_path: Path, ending: str) -> None:
    place = tmp_path / f"out{ending}"
    done = invoke("read", table, "--output", place)
    assert done.out.startswith(f"written  {place}: 3 rows, ")
    expected = invoke("read", table, "--json").objects if ending == ".json" else ROWS.to_pylist()
    assert read_back(place) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == [place.name, "table"]


def test_rows_as_csv(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "out.txt"
    assert invoke("read", table, "--output", place, "--format", "csv").code == 0
    assert place.read_text() == invoke("read", table, "--format", "csv").out
    assert place.read_text().splitlines() == [
        '"id","text","at","list"',
        '1,"a,b","1970-01-01T00:00:00Z","[1,2]"',
        '2,"say ""hi""",,"[]"',
        ',"","2026-02-10T22:00:00.500000Z",',
    ]


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".json"])
def test_files_in_a_file(table: Path, tmp_path: Path, ending: str) -> None:
    place = tmp_path / f"files{ending}"
    assert invoke("files", table, "--output", place, "--columns", "uri,size,partition_values").code == 0
    (line,) = read_back(place)
    (expected,) = invoke("files", table, "--json", "--columns", "uri,size,partition_values").objects
    assert line | {"partition_values": dict(line["partition_values"])} == expected


def test_files_as_csv(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "files.csv"
    assert invoke("files", table, "--output", place).code == 0
    (line,) = pcsv.read_csv(place).to_pylist()
    assert (line["path"], line["partition_values"], line["deletion_vector"]) == ("a.parquet", "{}", None)


def test_a_file_that_was_there_is_replaced_only_by_a_complete_one(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "out.json"
    place.write_text("older")
    (table / "a.parquet").unlink()
    assert invoke("read", table, "--output", place).code == 2
    assert place.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "table"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "json"])
def test_batches_are_written_as_they_come(tmp_path: Path, ending: Any) -> None:
    """What is held does not grow with the result."""
    place, schema = tmp_path / f"out.{ending}", pa.schema([("x", pa.binary(1 << 16))])
    temporary: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(8):
            temporary.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
            data = pa.py_buffer(os.urandom(160 << 16))
            yield pa.RecordBatch.from_arrays(
                [pa.Array.from_buffers(schema.field("x").type, 160, [None, data])], schema=schema
            )

    def objects() -> Iterator[list[Any]]:
        for batch in batches():
            yield [{"x": "y" * batch.nbytes}]

    write_result(Sink(ending, str(place)), "row", schema, batches(), objects())
    assert len(set(temporary)) > 1, "nothing was written before the end"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--output", "{tmp}/out.xls"], [".parquet", "--format"]),
        (["--output", "{tmp}/out.csv", "--json"], ["--json"]),
        (["--output", "{tmp}/nowhere/out.csv"], ["nowhere/out.csv", "No such file"]),
        (["--output", "{tmp}", "--format", "csv"], ["is a directory"]),
        (["--output", "{tmp}/out/", "--format", "csv"], ["is a directory"]),
        (["--output", ".", "--format", "csv"], ["is a directory"]),
        (["--output", "{tmp}/" + "n" * 256 + ".csv"], ["File name too long"]),
        (["--output", "-", "--format", "csv"], ["--output -", "standard output"]),
        (["--format", "parquet"], ["--output"]),
        (["--format", "xml"], ["xml", "parquet, csv, arrow, json"]),
    ],
)
def test_places_and_formats_that_do_not_fit_are_refused(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    root = LogBuilder(tmp_path / "table").commit(add("a")).root
    assert_refused(invoke("files", root, *(word.replace("{tmp}", str(tmp_path)) for word in arguments)), *words)


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    root = LogBuilder(tmp_path / "table").commit(add("a")).root
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert_refused(invoke("files", root, "--output", str(pipe)), "pipe.csv", "a device or a pipe")
    assert pipe.is_fifo()


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    root = LogBuilder(tmp_path / "table").commit(add("a")).root
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    assert invoke("files", root, "--output", str(link)).code == 0
    assert link.is_symlink()
    assert "a" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_script_that_cannot_be_written_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "delta_sidecar.cli.main", "completion", "bash"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "No space left" in ended.stderr
