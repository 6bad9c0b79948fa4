"""Real rows in real files × random predicates: no file with a matching row is lost, and exactly the matching rows come.

The rows hold what bounds get wrong: NaN, nulls, negative zero, wide decimals, instants before 1970 and between
milliseconds, strings longer than writers keep of them. The oracle evaluates the predicate row by row in Python.
"""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts
from tests.properties.predicates import Predicate, predicates
from tests.properties.settings import random_cases, shards

CASES = 60
MEMORY = Path("/dev/shm")
tried: Counter[str] = Counter()


def _single(value: float) -> float:
    return float(np.float32(value))


def _time(*parts: int, zone: dt.tzinfo | None = dt.UTC) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=zone)  # type: ignore[arg-type,misc]


INSTANTS = [
    (1969, 12, 31, 23, 59, 59, 999_999),
    (1970, 1, 1),
    (2026, 2, 10, 22, 0, 0, 1),
    (2026, 2, 10, 22, 0, 0, 999_999),
    (1900, 1, 1, 0, 0, 0, 500_001),
    (1, 1, 1),
    (9999, 12, 31, 23, 59, 59, 999_999),
]
STRINGS = ["", "a", "ab", "é", "z" * 31, "z" * 40, "z" * 40 + "y", "\U0001f600" * 33, "\uffff" * 40]

COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "x": ("long", pa.int64(), [-5, 0, 3, 2**53 + 1, 2**53, -(2**63), 2**63 - 1]),
    "i": ("integer", pa.int32(), [-(2**31), -1, 0, 2**31 - 1]),
    "s": ("string", pa.string(), STRINGS),
    "f": ("double", pa.float64(), [0.0, -0.0, 1.5, -2.5, 0.1, 1e300, float("nan"), float("inf"), float("-inf")]),
    "g": ("float", pa.float32(), [0.0, -0.0, _single(0.1), _single(16777217.5), float("nan"), -1.5]),
    "d": ("decimal(10,2)", pa.decimal128(10, 2), [Decimal(v) for v in ("0.00", "-1.25", "99999999.99", "0.10")]),
    "w": ("decimal(20,2)", pa.decimal128(20, 2), [Decimal(v) for v in ("90071992547409.93", "90071992547409.92",
          "-900719925474099.31", "0.01", "999999999999999999.99")]),
    "t": ("timestamp", pa.timestamp("us", tz="UTC"), [_time(*parts) for parts in INSTANTS]),
    "n": ("timestamp_ntz", pa.timestamp("us"), [_time(*parts, zone=None) for parts in INSTANTS]),
    "e": ("date", pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 2, 10), dt.date(1, 1, 1)]),
    "b": ("boolean", pa.bool_(), [True, False]),
}  # fmt: skip

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), *[(name, kind) for name, (_, kind, _) in COLUMNS.items()]])
PARTITIONS = ["a", "b", None]
LITERALS = {
    "p": ["a", "b", "c"],
    **{
        name: [v for v in pool if v not in (float("inf"), float("-inf")) and v == v]
        for name, (_, _, pool) in COLUMNS.items()
    },
}

Row = dict[str, Any]

_row = st.fixed_dictionaries({name: st.none() | st.sampled_from(pool) for name, (_, _, pool) in COLUMNS.items()})
_files = st.lists(
    st.tuples(st.sampled_from(PARTITIONS), st.lists(_row, min_size=1, max_size=4)), min_size=1, max_size=3
)
_indexes = st.builds(
    BuildOptions,
    sort_column=st.sampled_from([None, "modification_time", "p", *(name for name in COLUMNS if name != "b")]),
    time_column=st.sampled_from([None, "t", "n", "e"]),
    part_rows=st.integers(1, 2),
)


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried."""
    yield
    print("\npruning:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))


def numbered(files: Sequence[tuple[str | None, Sequence[Row]]]) -> list[list[Row]]:
    """The rows of each file with their partition and a number that tells every row from every other."""
    return [[{"k": f * 100 + r, "p": p, **row} for r, row in enumerate(rows)] for f, (p, rows) in enumerate(files)]


def write_with_builder(root: Path, files: Sequence[Sequence[Row]], typed: bool) -> None:
    kinds = {"k": "long", "p": "string", **{name: kind for name, (kind, _, _) in COLUMNS.items()}}
    builder = LogBuilder(root).protocol(reader=3, features=["timestampNtz"]).metadata(kinds, partition_by=["p"])
    for number, rows in enumerate(files):
        table = pa.Table.from_pylist(list(rows), schema=SCHEMA).drop_columns(["p"])
        builder.commit(write_data_file(root, f"f{number}.parquet", table, partition={"p": rows[0]["p"]}))
    if typed:
        builder.checkpoint(stats=False, stats_parsed=True)


def write_with_deltalake(root: Path, files: Sequence[Sequence[Row]]) -> None:
    for rows in files:
        write_deltalake(str(root), pa.Table.from_pylist(list(rows), schema=SCHEMA), mode="append", partition_by=["p"])


@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(files=_files.map(numbered), predicate=predicates(LITERALS), typed=st.booleans(), index=_indexes)
def test_builder_tables(
    shard: int, files: list[list[Row]], predicate: Predicate, typed: bool, index: BuildOptions
) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        write_with_builder(root, files, typed)
        check(root, files, predicate)
        check_with_index(root, files, predicate, index)
    finally:
        shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(files=_files.map(numbered), predicate=predicates(LITERALS), index=_indexes)
def test_deltalake_tables(shard: int, files: list[list[Row]], predicate: Predicate, index: BuildOptions) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        write_with_deltalake(root, files)
        check(root, files, predicate)
        check_with_index(root, files, predicate, index)
    finally:
        shutil.rmtree(root)


def check_with_index(root: Path, files: Sequence[Sequence[Row]], predicate: Predicate, options: BuildOptions) -> None:
    """The same through an index, sorted by any column, its bounds in the core and in the stats."""
    build_index(open_store(str(root)), options=replace(options, limits=small_parts(single=0)))
    note(f"index: {options}")
    with DeltaTable(str(root)).scan_files(str(predicate)) as scan:
        list(scan)
    assert scan.metrics.tier == "index"
    tried["indexed"] += 1
    tried["parts passed over"] += scan.metrics.parts_total - scan.metrics.parts_read
    check(root, files, predicate)


def check(root: Path, files: Sequence[Sequence[Row]], predicate: Predicate) -> None:
    note(f"predicate: {predicate}")
    tried["tables"] += 1
    wanted = {row["k"] for rows in files for row in rows if predicate(row) is True}
    table = DeltaTable(str(root))
    kept = [info.path for info in table.file_infos(predicate=str(predicate))]
    held = {k for path in kept for k in pq.ParquetFile(root / unquote(path)).read(["k"])["k"].to_pylist()}
    assert wanted <= held, "a file with a matching row was lost"
    assert len(kept) == len(set(kept))
    found = [
        row["k"] for batch in table.to_batches(columns=["k"], predicate=str(predicate)) for row in batch.to_pylist()
    ]
    assert sorted(found) == sorted(wanted)
