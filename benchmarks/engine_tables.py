"""Tables for engines: a log of any size with its index, and the data files of its last hour.

A file's size is in the log, and readers find a footer by it. So each file is as long as the log says: one of its texts
fills what the rows do not.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import synthetic
from benchmarks.checkpoint import layout_of
from benchmarks.generate import made_once
from benchmarks.index_tables import ensure_indexed
from benchmarks.specs import EngineSpec, table_dir
from benchmarks.synthetic import Layout


def ensure_engine_table(spec: EngineSpec, workers: int | None = None) -> Path:
    """The table of a spec: the cached one, or a new one."""
    return made_once(table_dir(spec), lambda draft: _write(spec, draft, workers))


def _write(spec: EngineSpec, table: Path, workers: int | None) -> None:
    shutil.copytree(ensure_indexed(spec.indexed, workers), table, copy_function=os.link)
    layout = layout_of(spec.indexed.log)
    numbers = np.arange(spec.hour.start, spec.hour.stop)
    paths = synthetic.paths(layout, numbers).to_pylist()
    for number, path, size in zip(numbers, paths, synthetic.sizes(numbers).tolist(), strict=True):
        target = table / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(file_bytes(file_rows(layout, int(number)), size))


def file_rows(layout: Layout, number: int) -> pa.Table:
    """The rows of a file: as many as the log says, between the bounds it gives."""
    stats = synthetic.stats_typed(layout, np.array([number]))[0]
    count = stats["numRecords"].as_py()
    low, high = stats["minValues"], stats["maxValues"]
    ends = {name: pa.array([low[name].as_py(), high[name].as_py()], low[name].type) for name in low}
    places = pa.array(np.arange(count) % 2)
    return pa.table({name: values.take(places) for name, values in ends.items()})


def file_bytes(rows: pa.Table, size: int) -> bytes:
    """A Parquet file of those rows and of exactly that size: the first text is as long as it takes."""
    names = rows.column_names
    place = next(i for i, field in enumerate(rows.schema) if pa.types.is_string(field.type))
    others = [name for name in names if name != names[place]]
    compression = dict.fromkeys(others, "snappy") | {names[place]: "none"}
    longer = 0
    for _ in range(4):
        text = rows.column(place)[0].as_py() + "x" * longer
        texts = pa.chunked_array([pa.array([text]), *rows.column(place)[1:].chunks])
        sink = pa.BufferOutputStream()
        padded = rows.set_column(place, names[place], texts)
        pq.write_table(padded, sink, compression=compression, use_dictionary=others, write_statistics=others)
        written: bytes = sink.getvalue().to_pybytes()
        if len(written) == size:
            return written
        longer += size - len(written)
    raise ValueError(f"no file of {size} bytes can be made of these rows")
