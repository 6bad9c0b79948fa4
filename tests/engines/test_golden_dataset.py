"""The golden tables as datasets: the rows of `to_pyarrow_table`, with and without filters."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import DeltaSidecarError
from tests.golden import golden_names
from tests.predicates.arrow_expressions import leaves, truths

CONDITIONS = 20


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether the rows are the same in some order. Arrow compares a million in no time, but takes -0.0 for 0.0."""
    floats = any(kind in str(one.schema) for kind in ("float", "double"))
    if not floats and one.equals(other):
        return True
    return sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))


@pytest.mark.slow
@pytest.mark.golden
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if n % 3 else []) for n, name in enumerate(golden_names())]
)
def test_golden_tables(golden: Path, name: str) -> None:
    try:
        table = DeltaTable(golden / name / "delta")
        rows = table.to_pyarrow_table()
    except (DeltaSidecarError, pa.ArrowException) as error:
        pytest.skip(f"its rows are not read: {str(error)[:100]}")
    dataset = table.to_pyarrow_dataset()
    found = dataset.to_table()
    assert found.schema == rows.schema
    assert same_rows(found, rows)
    assert dataset.count_rows() == rows.num_rows
    assert sum(fragment.count_rows() for fragment in dataset.get_fragments()) == rows.num_rows
    if not rows.num_rows:
        return
    (batch,) = rows.combine_chunks().to_batches()
    chosen = random.Random(name)
    columns = chosen.sample(rows.column_names, min(3, rows.num_columns))
    for expression in chosen.sample(list(leaves(map(pc.field, columns))), CONDITIONS):
        kept = truths(expression, batch)
        if kept is not None:
            assert dataset.count_rows(expression) == kept.count(True), expression
