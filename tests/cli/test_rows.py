"""`sidecar read`: every type has a JSON form, and a reader of it gets the value back."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar.cli.rows import json_values
from tests.cli.running import invoke, sidecar

MOMENT = dt.datetime(2026, 2, 10, 22, 0, 0, 123456)
BIG = 2**62 + 1

CASES: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    (pa.int64(), [BIG, -1, None], [BIG, -1, None]),
    (pa.bool_(), [True, None], [True, None]),
    (pa.string(), ['a\n"é', None], ['a\n"é', None]),
    (pa.float64(), [1.5, math.nan, math.inf, -math.inf, None], [1.5, "NaN", "Infinity", "-Infinity", None]),
    (pa.decimal128(38, 10), [Decimal("-1.5"), Decimal("1E-10"), None], ["-1.5000000000", "0.0000000001", None]),
    (pa.date32(), [dt.date(2026, 2, 10), None], ["2026-02-10", None]),
    (pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=dt.UTC), None], ["2026-02-10T22:00:00.123456Z", None]),
    (
        pa.timestamp("us"),
        [MOMENT, MOMENT.replace(microsecond=0)],
        ["2026-02-10T22:00:00.123456", "2026-02-10T22:00:00"],
    ),
    (pa.binary(), [b"\xff\x00", None], [base64.b64encode(b"\xff\x00").decode(), None]),
    (pa.list_(pa.float64()), [[1.0, math.nan], [], None], [[1.0, "NaN"], [], None]),
    (
        pa.struct([("a", pa.date32())]),
        [{"a": dt.date(2026, 1, 1)}, {"a": None}, None],
        [{"a": "2026-01-01"}, {"a": None}, None],
    ),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], [], None], [{"k": 1, "l": None}, {}, None]),
    (pa.map_(pa.int64(), pa.bool_()), [[(1, True)], None], [[{"key": 1, "value": True}], None]),
    (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.binary()))])),
        [[{"m": [("k", b"x")]}, None]],
        [[{"m": {"k": "eA=="}}, None]],
    ),
    (pa.null(), [None], [None]),
    (pa.struct([]), [{}, None], [{}, None]),
]


@pytest.mark.parametrize(("kind", "values", "expected"), CASES, ids=[str(case[0]) for case in CASES])
def test_json_form_of_every_type(kind: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    array = pa.array(values, kind)
    assert json_values(array) == expected
    padded = pa.concat_arrays([pa.nulls(3, kind), array, pa.nulls(1, kind)])
    assert json_values(padded.slice(3, len(array))) == expected


def test_years_python_does_not_know() -> None:
    years = pa.array([-(10**17), 253402300800000000], pa.int64()).view(pa.timestamp("us", "UTC"))
    assert json_values(years) == ["-1199-02-15T14:13:20Z", "10000-01-01T00:00:00Z"]


@pytest.fixture
def table(tmp_path: Path) -> str:
    rows = pa.table(
        {"id": pa.array(range(5), pa.int64()), "name": pa.array([*"abcd", None]), "d": [1.0, math.nan, 2, 3, 4]}
    )
    deltalake.write_deltalake(str(tmp_path / "t"), rows)
    return str(tmp_path / "t")


def test_rows_as_json(table: str) -> None:
    done = sidecar("read", table, "--json")
    assert done.objects[1] == {"id": 1, "name": "b", "d": "NaN"}
    assert done.err == ""


def test_where_columns_limit(table: str) -> None:
    asked = ("read", table, "--json", "--where", "id >= 2", "--columns", "name,id")
    assert invoke(*asked).objects == [{"name": "c", "id": 2}, {"name": "d", "id": 3}, {"name": None, "id": 4}]
    assert [list(row) for row in invoke(*asked, "--limit", 1).objects] == [["name", "id"]]
    assert invoke(*asked, "--limit", 0).objects == []


def test_rows_for_people(table: str) -> None:
    heading, first, *_, last = invoke("read", table).out.splitlines()
    assert heading.split() == ["id", "name", "d"]
    assert first.split() == ["0", "a", "1.0"]
    assert last.split() == ["4", "null", "4.0"]


@pytest.mark.slow
def test_reading_does_not_import_pandas(table: str) -> None:
    import subprocess
    import sys

    program = (
        "import sys; sys.argv = ['sidecar', 'read', sys.argv[1], '--json']\n"
        "from delta_sidecar.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: print('pandas' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, table], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
    assert len(done.stdout.splitlines()) == 5


def test_a_column_name_does_not_steer_the_terminal(tmp_path: Path) -> None:
    """Neither as a heading nor in an error that names the columns, with or without a traceback."""
    name = "a\x1b[31m"
    deltalake.write_deltalake(tmp_path, pa.table({name: [1]}))
    plain = invoke("read", tmp_path)
    assert plain.out.splitlines()[0] == "a\\x1b[31m"
    assert list(invoke("read", tmp_path, "--json").objects[0]) == [name]
    for arguments in (["--columns", "zz"], ["--columns", "zz", "--verbose"], ["--columns", "z\x1b[2J"]):
        done = invoke("read", tmp_path, *arguments)
        assert done.code == 2
        assert "columns here: a\\x1b[31m" in done.err
        assert "\x1b" not in done.err
