"""Indexes of as many files as a test wants, written part by part: no log of these files, and no builder, is needed.

The log has one commit with protocol and metadata, to which the index is bound, and what a test adds after it. What
each file is, the benchmark's synthetic table says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import synthetic
from benchmarks.checkpoint import PROTOCOL_ACTION, batches, metadata_action
from benchmarks.generate import remove_lines
from benchmarks.specs import BUCKET
from benchmarks.synthetic import Ints
from benchmarks.synthetic import Layout as Table
from delta_sidecar.index.build.build_job import Build
from delta_sidecar.index.build.publish import publish
from delta_sidecar.index.format.index_columns import KINDS, NUM_RECORDS, PARTITION, column
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.index_names import directory_for, new_build_id
from delta_sidecar.index.format.partition_map import partition_map
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store


def made_index(root: Path, table: Table, files: int, part_rows: int = 80_000, noisy: bool = False) -> None:
    """A table with an index of `files` files at version 0. Where it is `noisy`, bounds of numbers do not compress, but
    for those of `id` and `m0`."""
    actions = [{"protocol": PROTOCOL_ACTION}, {"metaData": metadata_action(table)}]
    _write_commit(root, 0, "".join(json.dumps(action) + "\n" for action in actions).encode())
    store = open_store(str(root))
    snapshot = load_snapshot(store)
    layout = IndexLayout.of(snapshot.schema, snapshot.partition_columns)
    build = Build(snapshot, layout, directory_for(snapshot.protocol), new_build_id())
    parts = [build.placement.write(store, rows, layout) for rows in _rows(table, files, part_rows, noisy)]
    publish(snapshot, build.directory, build.manifest(parts))


def removed(root: Path, table: Table, files: Ints, version: int = 1) -> None:
    """A commit that removes some files."""
    _write_commit(root, version, remove_lines(table, files, timestamp=0))


def spread(files: int, count: int) -> Ints:
    """Numbers of `count` files, as far apart as can be."""
    return np.arange(count, dtype=np.int64) * files // count


def _write_commit(root: Path, version: int, lines: bytes) -> None:
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_bytes(lines)


def _rows(table: Table, files: int, part_rows: int, noisy: bool) -> Iterator[pa.Table]:
    for numbers in batches(files, part_rows):
        rows = _part_rows(table, numbers)
        yield _with_noise(rows, table, numbers) if noisy else rows


def _with_noise(rows: pa.Table, table: Table, files: Ints) -> pa.Table:
    columns = dict(zip(rows.column_names, rows.columns, strict=True))
    for measure in table.columns:
        if measure.number > 0 and measure.type != "string":
            values = synthetic.noise(files, measure.number) >> np.uint64(34)
            noise = pa.chunked_array([pa.array(values.astype(np.int64)).cast(measure.arrow_type)])
            columns |= {column(kind, (measure.name,)): noise for kind in ("min", "max")}
    return pa.table(columns)


def _part_rows(table: Table, files: Ints) -> pa.Table:
    """Index rows of some files, in the order of their numbers, which is that of the index."""
    hours = synthetic.hour_values(table, files)
    columns = {
        "path": synthetic.paths(table, files),
        "size": pa.array(synthetic.sizes(files)),
        "modification_time": pa.array(synthetic.modification_times(table, files)),
        "partition_values": partition_map({BUCKET: hours}, len(files)),
        "deletion_vector": pa.nulls(len(files), FILE_SCHEMA.field("deletion_vector").type),
        NUM_RECORDS: pa.array(synthetic.record_counts(files)),
        column(PARTITION, (BUCKET,)): hours,
    }
    stats = synthetic.stats_typed(table, files)
    for kind, key in KINDS.items():
        below = stats.field(key)
        columns |= {column(kind, (field.name,)): below.field(i) for i, field in enumerate(below.type)}
    return pa.table(columns)
