"""Tables with an index, made without Spark: `python -m benchmarks.index_tables --files 1000000`.

The index is computed from the same numbers as the checkpoint (`benchmarks.synthetic`), a part at a time in several
processes, through the builder's own code from file rows on. So memory is that of a part, and time grows with the files
alone; a table need not have a checkpoint at all, and then only its index knows its files.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks import synthetic
from benchmarks.checkpoint import PROTOCOL_ACTION, layout_of, metadata_action, partition_map
from benchmarks.generate import commit_time, ensure, made_once, remove_lines, write_commit, write_commits
from benchmarks.specs import IndexedSpec, LogSpec, table_dir
from benchmarks.synthetic import Ints
from delta_sidecar.index.build.build_job import Build, Placement, part_slices
from delta_sidecar.index.build.publish import publish
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.index_names import SIDECARS, manifest_name, new_build_id
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.stats.index_rows import index_rows, sorted_rows
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.checkpoint_rows import STATS_PARSED
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.log.segment import Segment
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.values.types import parse_schema

MASK_LINES = 50_000
"""Removes that are written at a time."""


@dataclass(frozen=True, slots=True)
class IndexSizes:
    """What an index takes on disk, in bytes, and how many parts it has."""

    files: int
    parts: int
    core: int
    stats: int
    manifest: int

    @property
    def whole(self) -> int:
        """All of it."""
        return self.core + self.stats + self.manifest


@dataclass(frozen=True, slots=True)
class Share:
    """The files of one part; it travels to the process that writes it."""

    table: str
    spec: LogSpec
    placement: Placement
    first: int
    count: int

    def write(self) -> PartEntry:
        """Make the rows and write the part."""
        layout = index_layout(self.spec)
        rows = index_rows(file_rows(self.spec, np.arange(self.first, self.first + self.count)), layout)
        return self.placement.write(open_store(self.table), sorted_rows(rows, layout), layout)


def ensure_indexed(spec: IndexedSpec, workers: int | None = None) -> Path:
    """The table of a spec with its index: the cached one, or a new one."""
    write = _write_masked if spec.removed else _write_indexed
    return made_once(table_dir(spec), lambda draft: write(spec, draft, workers))


def write_index(spec: LogSpec, table: Path, part_rows: int = 80_000, workers: int | None = None) -> None:
    """Write the index of a generated log at the version of its checkpoint, whether that is there or not."""
    snapshot = _snapshot(spec, table)
    build = Build(snapshot, index_layout(spec), SIDECARS, new_build_id())
    slices = part_slices(spec.files, part_rows)
    shares = [Share(str(table), spec, build.placement, first, count) for first, count in slices]
    publish(snapshot, SIDECARS, build.manifest(list(_written(shares, workers or os.cpu_count() or 1))))


def file_rows(spec: LogSpec, files: Ints) -> pa.RecordBatch:
    """Files as the reader has them from a checkpoint with typed stats."""
    layout, count = layout_of(spec), len(files)
    known = {
        "path": synthetic.paths(layout, files),
        "size": pa.array(synthetic.sizes(files)),
        "modification_time": pa.array(synthetic.modification_times(layout, files)),
        "partition_values": partition_map(layout, files),
        STATS_PARSED: synthetic.stats_typed(layout, files),
    }
    absent = {field.name: pa.nulls(count, field.type) for field in FILE_SCHEMA if field.name not in known}
    return pa.RecordBatch.from_pydict(known | absent)


def index_layout(spec: LogSpec) -> IndexLayout:
    """The columns of the table's index, as its schema tells them."""
    metadata = _metadata(spec)
    return IndexLayout.of(parse_schema(metadata.schemaString or "", "none"), metadata.partitionColumns)


def index_sizes(spec: IndexedSpec) -> IndexSizes:
    """What the index of a table takes."""
    return manifest_sizes(table_dir(spec) / SIDECARS / manifest_name(spec.log.checkpoint_version))


def manifest_sizes(manifest: Path) -> IndexSizes:
    """What a manifest says its index takes."""
    parts = json.loads(manifest.read_bytes())["manifest"]["parts"]
    core, stats = sum(parts["core"]["size"]), sum(size for size in parts["stats"]["size"] if size > 0)
    return IndexSizes(sum(parts["rows"]), len(parts["rows"]), core, stats, manifest.stat().st_size)


def checkpoint_size(spec: IndexedSpec) -> int:
    """Bytes of the checkpoint."""
    name = f"{spec.log.checkpoint_version:020d}.checkpoint.parquet"
    return (table_dir(spec) / "_delta_log" / name).stat().st_size


def _write_indexed(spec: IndexedSpec, table: Path, workers: int | None) -> None:
    if spec.checkpoint:
        _link(ensure(spec.log), table)
    else:
        write_commits(spec.log, table)
    write_index(spec.log, table, workers=workers)


def _write_masked(spec: IndexedSpec, table: Path, workers: int | None) -> None:
    """The same table and one commit more, of removes alone."""
    _link(ensure_indexed(dataclasses.replace(spec, removed=0), workers), table)
    write_commit(table / "_delta_log", spec.head, *_mask_lines(spec))


def _mask_lines(spec: IndexedSpec) -> Iterator[bytes]:
    layout, mask = layout_of(spec.log), spec.mask
    for at in range(0, len(mask), MASK_LINES):
        files = np.array(mask[at : at + MASK_LINES], np.int64)
        yield remove_lines(layout, files, commit_time(spec.head))


def _link(source: Path, target: Path) -> None:
    """A table of its own: files are linked, for none is ever changed, and an index stays bound to its commit file."""
    shutil.copytree(source, target, copy_function=os.link)


def _written(shares: list[Share], workers: int) -> Iterator[PartEntry]:
    workers = min(workers, len(shares))
    if workers == 1:
        yield from map(Share.write, shares)
        return
    # Not forked: Arrow's threads would not come along.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(Share.write, shares)


def _snapshot(spec: LogSpec, table: Path) -> Snapshot:
    """The version as a builder would pin it; its files are never asked for, so it needs no base."""
    store, version = open_store(table), spec.checkpoint_version
    protocol = msgspec.convert(PROTOCOL_ACTION, Protocol)
    segment = Segment(version, None, (), None)
    return Snapshot(store, segment, protocol, _metadata(spec), list_log(store, version), CommitBytes(store))


def _metadata(spec: LogSpec) -> Metadata:
    return msgspec.convert(metadata_action(layout_of(spec)), Metadata)


def main() -> None:
    """Make one table and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_tables", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--stat-columns", type=int, default=20)
    parser.add_argument("--no-checkpoint", action="store_true", help="only the index knows the files")
    parser.add_argument("--removed", type=int, default=0, help="files that one more commit removes")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    spec = IndexedSpec(args.files, args.stat_columns, not args.no_checkpoint, args.removed)
    started = time.perf_counter()
    table = ensure_indexed(spec, args.workers)
    size = index_sizes(spec)
    each = f"{size.whole / size.files:.1f} bytes a file (core {size.core / size.files:.1f})"
    print(f"{table}  {size.parts} parts, {each}  {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
