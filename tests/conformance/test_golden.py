"""Every golden table: live files as the dumb model and `deltalake` say, rows as expected, bad tables refused.

The oddities of the data are handled one by one, by name, and nothing is skipped.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import DeltaSidecarError
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.model import deletion_vector_id, read_commits, replay
from tests.golden import WHY_ABSENT, golden_names, golden_root

STRATEGIES = ("reverse", "forward", "auto")

REFUSED = {
    "deltalog-invalid-protocol-version": "reader version 99",
    "deltalog-state-reconstruction-from-checkpoint-missing-metadata": "metadata",
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": "protocol",
    "deltalog-state-reconstruction-without-metadata": "metadata",
    "deltalog-state-reconstruction-without-protocol": "protocol",
    "no-delta-log-folder": "no Delta table",
    "versions-not-contiguous": "version",
    # Its log has no metadata action either.
    "data-reader-absolute-paths-escaped-chars": "metadata",
}
"""Tables without a state, and a word their refusal must say."""

DELTALAKE_REFUSES = {"deltalog-commit-info", "update-deleted-directory"}
"""Metadata without a schema: legal to list, but `deltalake` wants one."""

DELTALAKE_IS_WRONG = {
    "canonicalized-paths-normal-a",
    "canonicalized-paths-normal-b",
    "canonicalized-paths-special-a",
    "canonicalized-paths-special-b",
}
"""`/x` and `file:/x` are one path; to `deltalake` they are two, and it lists a removed file."""

OPTIONS = {"data-reader-partition-values": {"delta.sidecar.partition_timezone": "America/Los_Angeles"}}
"""Its partition timestamps are in the zone of the session that wrote them, which the log does not name."""

LARGE = 50_000
"""From here rows are compared column by column, in Arrow: the order is that of the file."""


def tables() -> list[str]:
    """Every table, by its path below the golden directory; some names hold several."""
    root = golden_root()
    if root is None:
        return []
    logs = [
        log.parent.relative_to(root) for name in golden_names() for log in (root / name / "delta").rglob("_delta_log")
    ]
    return sorted(str(table) for table in logs)


GOOD = [table for table in tables() if table.split("/")[0] not in REFUSED]
WITH_ROWS = [table for table in GOOD if (Path(golden_root() or ".") / table).parent.joinpath("expected").is_dir()]


def test_the_golden_tables_are_there(golden: Path) -> None:
    assert len(GOOD) > 80, WHY_ABSENT
    assert len(WITH_ROWS) > 65
    assert set(REFUSED) <= {entry.name for entry in golden.iterdir()}


@pytest.mark.parametrize("table", GOOD)
def test_live_files_equal_the_model(golden: Path, table: str) -> None:
    live = replay(read_commits(golden / table)).files.values()
    for strategy in STRATEGIES:
        shared_cache.clear()
        found = DeltaTable(str(golden / table)).file_infos(strategy=strategy)
        assert Counter(map(listed, found)) == Counter(map(logged, live)), strategy


@pytest.mark.parametrize("table", GOOD)
def test_every_version_equals_the_model(golden: Path, table: str) -> None:
    commits = read_commits(golden / table)
    for version in range(len(commits)):
        state = replay(commits[: version + 1])
        if state.protocol is None or state.metadata is None:
            continue
        found = DeltaTable(str(golden / table), version=version).file_infos()
        assert Counter(map(listed, found)) == Counter(map(logged, state.files.values())), f"version {version}"


@pytest.mark.parametrize("table", GOOD)
def test_live_files_equal_those_of_deltalake(golden: Path, table: str) -> None:
    name = table.split("/")[0]
    if name in DELTALAKE_REFUSES:
        with pytest.raises(deltalake.exceptions.DeltaError):
            deltalake.DeltaTable(str(golden / table))
        return
    theirs = set(deltalake.DeltaTable(str(golden / table)).file_uris())
    ours = {absolute(golden / table, info.path) for info in DeltaTable(str(golden / table)).file_infos()}
    assert ours == (set() if name in DELTALAKE_IS_WRONG else theirs)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_bad_table_is_refused_in_one_clear_line(golden: Path, name: str) -> None:
    with pytest.raises(DeltaSidecarError) as raised:
        list(DeltaTable(str(golden / name / "delta")).file_infos())
    assert "\n" not in str(raised.value)
    assert REFUSED[name].lower() in str(raised.value).lower()


@pytest.mark.parametrize("table", WITH_ROWS)
def test_rows_equal_the_expected_ones(golden: Path, table: str) -> None:
    expected = expected_rows((golden / table).parent / "expected")
    found = DeltaTable(str(golden / table), options=OPTIONS.get(table.split("/")[0])).to_pyarrow_table()
    assert found.column_names == expected.column_names
    assert found.num_rows == expected.num_rows
    if expected.num_rows < LARGE:
        assert sorted_rows(found) == sorted_rows(expected)
    else:
        assert_same_columns(found, expected)


def expected_rows(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(file).read() for file in sorted(folder.rglob("*.parquet"))])


def assert_same_columns(found: pa.Table, expected: pa.Table) -> None:
    """Large tables: all columns sorted by all columns, compared as Arrow."""
    order = [(name, "ascending") for name in expected.column_names]
    kinds = pa.schema([pa.field(f.name, f.type) for f in expected.schema])
    left, right = (t.cast(kinds).sort_by(order) for t in (found, expected))
    for name in expected.column_names:
        assert left.column(name).combine_chunks().equals(right.column(name).combine_chunks()), name


def sorted_rows(rows: pa.Table) -> list[str]:
    """Rows as text in an order of their own. Text, because NaN does not equal itself, and -0.0 is not 0.0."""
    return sorted(repr([(name, plain(value)) for name, value in row.items()]) for row in rows.to_pylist())


def plain(value: Any) -> Any:
    """A value without what only its Arrow type adds: the name of a zone, the order of a struct's fields."""
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case dict():
            return {k: plain(v) for k, v in value.items()}
        case list():
            return [plain(v) for v in value]
        case tuple():
            return tuple(plain(v) for v in value)
    return value


def absolute(root: Path, path: str) -> str:
    local = unquote(path)
    return local.removeprefix("file:") if local.startswith(("/", "file:")) else str(root / local)


def listed(info: Any) -> tuple[Any, ...]:
    vector = info.deletion_vector
    fields = {n: getattr(vector, n) for n in ("storageType", "pathOrInlineDv", "offset")} if vector else None
    return key(info.path, info.size, info.modification_time, info.partition_values, fields)


def logged(body: Mapping[str, Any]) -> tuple[Any, ...]:
    vector = body.get("deletionVector")
    return key(body["path"], body["size"], body["modificationTime"], body["partitionValues"], vector)


def key(
    path: str, size: int, modified: int, partition: Mapping[str, Any] | Iterable[tuple[str, Any]], vector: Any
) -> tuple[Any, ...]:
    return path, size, modified, tuple(sorted(dict(partition).items())), deletion_vector_id(vector)
