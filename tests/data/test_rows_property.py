"""Random files, deletions and predicates against the same read in plain Python."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.listing import Listing
from tests.data.made import column, made_table, struct
from tests.data.test_reader import inline_vector

Row = dict[str, Any]
SCHEMA = struct(column("p", "integer"), column("k", "long"), column("x", "double"), column("s", "string"))
STORED = pa.schema([("s", pa.string()), ("x", pa.float32()), ("k", pa.int32())])

PREDICATES: dict[str, Callable[[Row], bool]] = {
    "k > 3": lambda r: r["k"] is not None and r["k"] > 3,
    "k IS NULL": lambda r: r["k"] is None,
    "NOT (k <= 3)": lambda r: r["k"] is not None and r["k"] > 3,
    "x < 0.5 OR s = 'b'": lambda r: (r["x"] is not None and r["x"] < 0.5) or r["s"] == "b",
    "p = 1 AND k IN (1, 2, 9)": lambda r: r["p"] == 1 and r["k"] in (1, 2, 9),
    "p IS NULL OR s LIKE 'a%'": lambda r: r["p"] is None or (r["s"] or "").startswith("a"),
    "p = 1": lambda r: r["p"] == 1,
}

rows = st.fixed_dictionaries(
    {
        "s": st.none() | st.sampled_from(["a", "b", "ab", ""]),
        "x": st.none() | st.sampled_from([0.0, 0.25, 0.5, float("inf"), -1.0]),
        "k": st.none() | st.integers(0, 9),
    }
)
files = st.lists(
    st.tuples(st.lists(rows, max_size=30), st.sets(st.integers(0, 29)), st.sampled_from([None, 1, 2])), max_size=4
)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    files=files,
    where=st.none() | st.sampled_from(sorted(PREDICATES)),
    columns=st.none() | st.lists(st.sampled_from(SCHEMA.names), unique=True),
    limit=st.none() | st.integers(0, 40),
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 40), st.integers(1, 3)),
    whole=st.booleans(),
)
def test_the_rows_are_those_of_a_plain_read(
    files: list[tuple[list[Row], set[int], int | None]],
    where: str | None,
    columns: list[str] | None,
    limit: int | None,
    sizes: tuple[int, int, int],
    whole: bool,
) -> None:
    """`whole` row groups, or all of them too large to be read at once."""
    group_size, batch_size, threads = sizes
    least = mock.patch("delta_sidecar.data.row_scan._SMALLEST_GROUP_BYTES", 1 << 20 if whole else 1)
    most = mock.patch("delta_sidecar.data.row_scan._GROUP_BYTES", 1 << 20 if whole else 1)
    with tempfile.TemporaryDirectory() as root, least, most:
        listing = _listing(Path(root), files, group_size)
        found = listing.table(where, columns=columns, limit=limit, batch_size=batch_size, threads=threads)
    expected = _expected(files, where)[:limit]
    assert found.num_rows == len(expected)
    names = SCHEMA.names if columns is None else columns
    assert found.to_pylist() == [{name: row[name] for name in names} for row in expected] or not names


def _listing(root: Path, files: list[tuple[list[Row], set[int], int | None]], group_size: int) -> Listing:
    values = [{"p": None if p is None else str(p)} for _, _, p in files]
    tables = [pa.Table.from_pylist(rows, STORED) for rows, _, _ in files]
    listing = made_table(
        root, SCHEMA, tables, partition_columns=["p"], partition_values=values, row_group_size=group_size
    )
    for row, (rows, deleted, _) in zip(listing.rows, files, strict=True):
        inside = sorted(d for d in deleted if d < len(rows))
        row["deletion_vector"] = inline_vector(*inside) if inside else None
    return listing


def _expected(files: list[tuple[list[Row], set[int], int | None]], where: str | None) -> list[Row]:
    live = [{"p": p, **row} for rows, deleted, p in files for i, row in enumerate(rows) if i not in deleted]
    return live if where is None else [row for row in live if PREDICATES[where](row)]
