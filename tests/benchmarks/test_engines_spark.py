"""The files of the measured hour are what the log says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import synthetic
from benchmarks.engines_spark import write_file
from benchmarks.synthetic import Layout


def test_a_file_has_the_size_rows_and_bounds_of_its_entry(tmp_path: Path) -> None:
    layout, file = Layout(100, 8), np.array([1234])
    write_file(tmp_path, layout, file)
    path = tmp_path / synthetic.paths(layout, file)[0].as_py()
    stats = synthetic.stats_typed(layout, file)[0].as_py()
    rows = pq.ParquetFile(path).read()
    assert path.stat().st_size == synthetic.sizes(file)[0]
    assert rows.num_rows == stats["numRecords"]
    for column in layout.columns:
        found = pc.min_max(rows[column.name]).as_py()
        assert (found["min"], found["max"]) == (stats["minValues"][column.name], stats["maxValues"][column.name])
