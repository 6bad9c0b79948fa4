"""Real rows in real files × random expressions of pyarrow: the rows are exactly those that pyarrow's own filter keeps,
and no file that holds one of them is left out."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.storage import open_store
from tests.index.models import small_parts
from tests.predicates.arrow_expressions import leaves, trees, truths
from tests.properties.settings import random_cases, shards
from tests.properties.test_pruning import (
    COLUMNS,
    LITERALS,
    MEMORY,
    SCHEMA,
    Row,
    _files,
    _indexes,
    numbered,
    write_with_builder,
    write_with_deltalake,
)

CASES = 60
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried."""
    yield
    print("\npruning by expressions:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))


@cache
def conditions() -> list[pc.Expression]:
    """Conditions that fit the columns; and comparisons with the values that rows have, which are those that prune."""
    empty = pa.RecordBatch.from_arrays([pa.nulls(1, kind) for kind in SCHEMA.types], schema=SCHEMA)
    names = [*COLUMNS, "p"]
    general = [leaf for leaf in leaves(map(pc.field, names)) if truths(leaf, empty) is not None]
    near = [
        compare(pc.field(name), pc.scalar(pa.scalar(value, SCHEMA.field(name).type)))
        for name in names
        for value in LITERALS[name]
        for compare in (pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal)
    ]
    sets = [pc.field(name).isin(pa.array(LITERALS[name][:2], SCHEMA.field(name).type)) for name in names]
    return [*general, *(near + sets) * (len(general) // len(near) + 1)]


_expressions = trees(st.deferred(lambda: st.sampled_from(conditions())), depth=2)


@pytest.mark.slow
@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(files=_files.map(numbered), expression=_expressions, by_builder=st.booleans(), index=_indexes)
def test_rows_and_files(
    shard: int, files: list[list[Row]], expression: pc.Expression, by_builder: bool, index: BuildOptions
) -> None:
    rows = pa.Table.from_pylist([row for file in files for row in file], schema=SCHEMA).combine_chunks()
    kept = truths(expression, rows.to_batches()[0])
    assume(kept is not None)
    assert kept is not None
    wanted = [k for k, is_kept in zip(rows["k"].to_pylist(), kept, strict=True) if is_kept]
    note(f"expression: {expression}")
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        if by_builder:
            write_with_builder(root, files, typed=False)
        else:
            write_with_deltalake(root, files)
        check(root, files, expression, wanted)
        build_index(open_store(str(root)), options=replace(index, limits=small_parts(single=0)))
        check(root, files, expression, wanted)
    finally:
        shutil.rmtree(root)


def check(root: Path, files: Sequence[Sequence[Row]], expression: pc.Expression, wanted: list[int]) -> None:
    table = DeltaTable(str(root))
    dataset = table.to_pyarrow_dataset()
    listed = [info.path for info in table.file_infos(expression)]
    held = {k for path in listed for k in pq.ParquetFile(root / unquote(path)).read(["k"])["k"].to_pylist()}
    assert set(wanted) <= held, "a file with a matching row was lost"
    tried["tables"] += 1
    tried["files left out"] += len(files) - len(listed)
    assert sorted(dataset.to_table(columns=["k"], filter=expression)["k"].to_pylist()) == wanted
    assert dataset.count_rows(expression) == len(wanted)
    fragments = dataset.get_fragments(expression)
    assert len(fragments) == len(listed)
    assert sum(fragment.count_rows(expression) for fragment in fragments) == len(wanted)
    found = [k for batch in table.to_batches(["k"], expression) for k in batch["k"].to_pylist()]
    assert sorted(found) == wanted
    assert sum(b.num_rows for b in table.to_batches(["k"], expression, limit=2)) == min(2, len(wanted))
