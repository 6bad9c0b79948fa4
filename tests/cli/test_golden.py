"""Every golden table through the command: good ones listed, bad ones refused in one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from tests.cli.running import assert_refused, invoke
from tests.conformance.test_golden import GOOD, REFUSED, WITH_ROWS


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_bad_table_is_refused(golden: Path, name: str) -> None:
    for command in (["files"], ["files", "--json"], ["read"], ["explain"], ["info"]):
        assert_refused(invoke(*command, golden / name / "delta"), REFUSED[name])


LARGE = ("parquet-decimal-dictionaries/delta", "parquet-decimal-dictionaries-v2/delta")
"""A million rows each."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "table",
    [pytest.param(t, marks=[pytest.mark.long] if t in LARGE else []) for t in WITH_ROWS],
)
def test_as_many_rows_as_expected(golden: Path, table: str) -> None:
    folder = (golden / table).parent / "expected"
    expected = sum(pq.ParquetFile(file).metadata.num_rows for file in folder.rglob("*.parquet"))
    done = invoke("read", golden / table, "--json")
    assert done.code == 0, done.err
    # Some tables have a million rows: `objects` would take as long as the command.
    assert len(msgspec.json.Decoder().decode_lines(done.out)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("table", GOOD)
def test_what_a_good_table_is(golden: Path, table: str) -> None:
    listed = invoke("files", golden / table, "--json").objects
    assert sorted(f["path"] for f in listed) == sorted(f.path for f in DeltaTable(golden / table).file_infos())
    (facts,) = invoke("info", golden / table, "--json", "--files").objects
    (report,) = invoke("explain", golden / table, "--json").objects
    assert facts["files"] == report["metrics"]["files_emitted"]
    for command in ("info", "explain", "history", "files"):
        assert invoke(command, golden / table).code == 0
