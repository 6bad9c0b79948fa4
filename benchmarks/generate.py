"""Generates Delta logs of millions of files, without data files: `python -m benchmarks.generate --n 1000000`.

One classic checkpoint, a tail of commits, `_last_checkpoint` and, if asked for, `.crc` files; or a single huge commit.
Made a batch at a time, so memory does not grow with the table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import rows, synthetic
from benchmarks.checkpoint import PROTOCOL_ACTION, batches, layout_of, metadata_action, write_checkpoint
from benchmarks.specs import BUCKET, CommitSpec, IndexedSpec, LogSpec, RowsSpec, Spec, table_dir
from benchmarks.synthetic import START_MILLIS, Ints, Layout


def ensure(spec: Spec) -> Path:
    """The table of a spec: the cached one, or a new one."""
    return made_once(table_dir(spec), lambda draft: _write(spec, draft))


def made_once(target: Path, write: Callable[[Path], None]) -> Path:
    """What `write` makes, unless it is there already. A half-made table never has the final name."""
    if target.exists():
        return target
    draft = target.with_name(f"{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    write(draft)
    draft.rename(target)
    return target


def write_log(spec: LogSpec, table: Path) -> None:
    """Write the checkpointed log of a spec under a table's directory."""
    log = _log_dir(table)
    size = write_checkpoint(spec, log / f"{spec.checkpoint_version:020d}.checkpoint.parquet")
    _write_json(log / "_last_checkpoint", {"version": spec.checkpoint_version, "size": spec.files + 2})
    _write_commits(spec, log, size)


def write_commits(spec: LogSpec, table: Path) -> None:
    """Write the commits of a spec alone: a log whose older state only an index knows."""
    _write_commits(spec, _log_dir(table), 0)


def write_single_commit(spec: CommitSpec, table: Path, batch_rows: int = 100_000) -> None:
    """Write a table whose version 1 adds all files in one commit."""
    log = _log_dir(table)
    layout = Layout(spec.files_per_hour, spec.stat_columns)
    actions = [{"protocol": PROTOCOL_ACTION}, {"metaData": metadata_action(layout)}]
    write_commit(log, 0, "".join(json.dumps(action) + "\n" for action in actions).encode())
    with (log / f"{1:020d}.json").open("wb") as out:
        out.write(_commit_info(1))
        for files in batches(spec.adds, batch_rows):
            out.write(add_lines(layout, files))


def add_lines(layout: Layout, files: Ints) -> bytes:
    """`add` actions as JSON lines."""
    stats = pc.replace_substring(synthetic.stats_json(layout, files), '"', '\\"')
    pieces = ['{"add":{"path":"', synthetic.paths(layout, files), '","partitionValues":{', *_partition(layout, files)]
    pieces += ['},"size":', _text(synthetic.sizes(files)), ',"modificationTime":']
    pieces += [_text(synthetic.modification_times(layout, files)), ',"dataChange":true,"stats":"', stats, '"}}\n']
    return _concatenated(synthetic.join(pieces))


def remove_lines(layout: Layout, files: Ints, timestamp: int) -> bytes:
    """`remove` actions as JSON lines."""
    pieces = ['{"remove":{"path":"', synthetic.paths(layout, files), f'","deletionTimestamp":{timestamp},']
    pieces += ['"dataChange":true,"extendedFileMetadata":true,"partitionValues":{', *_partition(layout, files)]
    return _concatenated(synthetic.join([*pieces, '},"size":', _text(synthetic.sizes(files)), "}}\n"]))


def removed_files(spec: LogSpec, number: int) -> Ints:
    """What the n-th commit of the tail removes: files spread over the checkpoint, and one add of the commit before."""
    count, total = spec.removes_per_commit, spec.removes_per_commit * spec.tail_commits
    from_base = (np.arange(number * count, (number + 1) * count) * spec.files) // max(1, total)
    if number == 0 or spec.adds_per_commit == 0:
        return from_base
    return np.append(from_base, spec.files + (number - 1) * spec.adds_per_commit)


def added_files(spec: LogSpec, number: int) -> Ints:
    """What the n-th commit of the tail adds: new files, later in time."""
    return np.arange(spec.adds_per_commit) + spec.files + number * spec.adds_per_commit


def _write(spec: Spec, table: Path) -> None:
    match spec:
        case LogSpec():
            write_log(spec, table)
        case CommitSpec():
            write_single_commit(spec, table)
        case RowsSpec():
            rows.write_table(spec, table)
        case IndexedSpec():
            raise TypeError("tables with an index are made by benchmarks.index_tables")


def _log_dir(table: Path) -> Path:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    return log


def _partition(layout: Layout, files: Ints) -> list[pa.Array | str]:
    return [f'"{BUCKET}":"', synthetic.hour_values(layout, files), '"'] if layout.partitioned else []


def _write_commits(spec: LogSpec, log: Path, size: int) -> None:
    newest = np.arange(max(0, spec.files - spec.adds_per_commit), spec.files)
    write_commit(log, spec.checkpoint_version, add_lines(layout_of(spec), newest))
    for number in range(spec.tail_commits):
        size += _write_tail_commit(spec, log, number)
        if spec.crc:
            _write_crc(spec, log, number, size)


def _write_tail_commit(spec: LogSpec, log: Path, number: int) -> int:
    version, layout = spec.checkpoint_version + 1 + number, layout_of(spec)
    removed, added = removed_files(spec, number), added_files(spec, number)
    lines = [remove_lines(layout, removed, commit_time(version))] if len(removed) else []
    write_commit(log, version, *lines, *([add_lines(layout, added)] if len(added) else []))
    return int(synthetic.sizes(added).sum() - synthetic.sizes(removed).sum())


def write_commit(log: Path, version: int, *actions: bytes) -> None:
    """Write one commit file."""
    with (log / f"{version:020d}.json").open("wb") as out:
        out.writelines([_commit_info(version), *actions])


def _write_crc(spec: LogSpec, log: Path, number: int, size: int) -> None:
    crc = {
        "tableSizeBytes": size,
        "numFiles": spec.live_after(number + 1),
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": metadata_action(layout_of(spec)),
        "protocol": PROTOCOL_ACTION,
    }
    _write_json(log / f"{spec.checkpoint_version + 1 + number:020d}.crc", crc)


def commit_time(version: int) -> int:
    """When a version was committed, in milliseconds since 1970."""
    return START_MILLIS + 3 * 365 * 86_400_000 + version * 1000


def _commit_info(version: int) -> bytes:
    info = {"timestamp": commit_time(version), "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    return json.dumps({"commitInfo": info}).encode() + b"\n"


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value))


def _text(values: Ints) -> pa.Array:
    return pa.array(values).cast(pa.string())


def _concatenated(lines: pa.Array) -> bytes:
    """All lines in one piece: they already lie behind each other in the array's data."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    return bytes(memoryview(lines.buffers()[2])[offsets[0] : offsets[len(lines)]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000, help="files in the checkpoint (or adds of the commit)")
    parser.add_argument("--single-commit", action="store_true", help="one commit of N adds, no checkpoint")
    parser.add_argument("--stat-columns", type=int, default=20)
    parser.add_argument("--row-group-rows", type=int, default=100_000)
    parser.add_argument("--tail", type=int, nargs=2, default=(10, 100), metavar=("COMMITS", "ADDS"))
    parser.add_argument("--stats", choices=("json", "parsed", "both"), default="json")
    parser.add_argument("--compression", choices=("zstd", "snappy"), default="zstd")
    parser.add_argument("--crc", action="store_true", help="a .crc beside each commit of the tail")
    parser.add_argument("--unpartitioned", action="store_true")
    parser.add_argument("--shuffled", action="store_true", help="checkpoint rows not in order of time")
    return parser


def _spec(args: argparse.Namespace) -> Spec:
    if args.single_commit:
        return CommitSpec(args.n, args.stat_columns)
    return LogSpec(
        files=args.n,
        stat_columns=args.stat_columns,
        row_group_rows=args.row_group_rows,
        tail_commits=args.tail[0],
        adds_per_commit=args.tail[1],
        crc=args.crc,
        stats=args.stats,
        partitioned=not args.unpartitioned,
        shuffled=args.shuffled,
        compression=args.compression,
    )


def main() -> None:
    """Make one table and say where it is."""
    started = time.perf_counter()
    table = ensure(_spec(_parser().parse_args()))
    log_bytes = sum(file.stat().st_size for file in (table / "_delta_log").iterdir())
    print(f"{table}  log {log_bytes / 1e6:.1f} MB  {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
