"""A whole index built in one process by sorted runs: the same rows in the same order as one sorted in memory."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import InputError, OptionError, StorageError
from delta_sidecar.index.build.build import BuildOptions, BuildReport, build_index
from delta_sidecar.index.build.full import cut, grouped
from delta_sidecar.index.build.live import count_files
from delta_sidecar.index.build.sorted_runs import Runs, SpillFile
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.read.finder import discover_with_index
from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.index.stats.index_rows import SOURCE_COLUMNS, index_rows, joined, sorted_rows
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.listing.live_files import live_rows
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.testing import LogBuilder, add, remove
from delta_sidecar.testing.actions import Spec
from tests.index.models import assert_index_is, index_rows_at

TINY = BuildLimits(threads=2, batch_rows=7, run_bytes=2_000, block_bytes=300, merge_bytes=500)
"""Dozens of runs and blocks out of a hundred files."""
SORTS = [None, "modification_time", "n", "ts", "day"]


def random_table(root: Path, files: int = 120, seed: int = 5) -> LogBuilder:
    """Files in no order, with and without stats, some without a value of a key; a checkpoint and a tail."""
    chance = random.Random(seed)
    log = LogBuilder(root).metadata({"ts": "timestamp", "n": "integer", "day": "string"}, ["day"])
    names = [f"{chance.randrange(10**9)}.parquet" for _ in range(files)]
    for at in range(0, files, 30):
        log.commit(*(_file(chance, name) for name in names[at : at + 30]))
    log.checkpoint()
    log.commit(*(remove(name) for name in names[::9]))
    return log.commit(*(_file(chance, f"late-{n}.parquet") for n in range(9)))


def _file(chance: random.Random, name: str) -> Spec:
    moment = f"2026-01-0{chance.randrange(1, 5)}T00:00:00.000Z"
    number = chance.randrange(4)
    bounds = {"ts": moment, "n": number} if chance.random() < 0.7 else {"n": number}
    stats = {"numRecords": 3, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
    day = chance.choice(["1", "2", "3", None])
    known = chance.random() < 0.8
    return add(name, partition={"day": day}, modification_time=number, stats=stats if known else None)


@pytest.mark.slow
@pytest.mark.parametrize("sort_column", SORTS, ids=str)
def test_runs_give_the_rows_in_the_order_of_memory(tmp_path: Path, sort_column: str | None) -> None:
    log = random_table(tmp_path / "table")
    store = open_store(str(log.root))
    given = {"part_rows": 25, "full": True, "sort_column": sort_column}
    build_index(store, options=BuildOptions(**given, limits=BuildLimits(single_rows=0)))  # type: ignore[arg-type]
    in_memory = index_rows_at(store, log.version)
    build_index(store, options=BuildOptions(**given, limits=replace(TINY, single_rows=0)))  # type: ignore[arg-type]
    assert index_rows_at(store, log.version) == in_memory
    assert verify_index(store).ok
    assert_index_is(store, log.version, log.state().files.values())


@pytest.mark.slow
def test_blocks_are_merged_whatever_their_sizes(tmp_path: Path) -> None:
    snapshot = load_snapshot(open_store(str(random_table(tmp_path).root)))
    layout = IndexLayout.of(snapshot.schema, snapshot.partition_columns)
    tables = [index_rows(batch, layout) for batch in live_rows(snapshot, SOURCE_COLUMNS.names, 5)]
    expected = sorted_rows(joined(tables), layout)
    for run_bytes, block_bytes, merge_bytes in [(1, 1, 1), (3_000, 1, 1), (1, 9_999, 9_999), (5_000, 700, 1)]:
        with SpillFile(str(tmp_path)) as file:
            runs = Runs(file, layout, block_bytes)
            for group in grouped(tables, run_bytes):
                runs.add(group)
            blocks = runs.ordered()
            found = list(runs.merged(blocks, map(runs.read, blocks), merge_bytes))
        assert joined(found).select(expected.column_names).equals(expected)


def test_rows_are_cut_into_the_sizes_asked_for() -> None:
    tables = [pa.table({"n": range(low, high)}) for low, high in [(0, 2), (2, 9), (9, 9), (9, 10)]]
    assert [part.column("n").to_pylist() for part in cut(tables, [1, 6, 3])] == [[0], [1, 2, 3, 4, 5, 6], [7, 8, 9]]


def test_few_wide_rows_are_one_part_although_they_were_spilled(tmp_path: Path) -> None:
    log = random_table(tmp_path)
    store = open_store(str(tmp_path))
    done = build_index(store, options=BuildOptions(limits=TINY))
    assert (done.parts, done.engine) == (1, "process")
    assert (tmp_path / f"_delta_log/_sidecars/v{log.version}.parquet").exists()
    assert verify_index(store).ok


@pytest.mark.slow
def test_parts_of_wide_rows_have_fewer_of_them_but_a_row_group(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(*(add(f"{n}.parquet") for n in range(21_000)))
    store = open_store(str(tmp_path))
    limits = BuildLimits(run_bytes=1 << 20, block_bytes=1 << 18, part_bytes=1)
    assert build_index(store, options=BuildOptions(limits=limits)).parts == 3
    assert verify_index(store).ok


def test_the_engine_is_chosen_by_the_number_of_files(tmp_path: Path) -> None:
    log = random_table(tmp_path)
    store, files = open_store(str(tmp_path)), len(log.state().files)
    built: list[str] = []

    def done(limit: int, engine: str = "auto") -> BuildReport:
        options = BuildOptions(full=True, engine=engine, limits=BuildLimits(process_files=limit))  # type: ignore[arg-type]
        return build_index(store, options=options, whole=lambda build, notes: built.append(build.reason) or [])  # type: ignore[func-returns-value]

    assert done(129).reason == f"{files} files: built in one process; Spark is used above 129"
    assert done(128).engine == "spark"
    assert done(0, "process").reason == f"{files} files: built in one process; as requested"
    assert done(10**6, "spark").engine == "spark"
    assert built == [
        "built on Spark; 129 files to read, and one process builds up to 128",
        "built on Spark; as requested",
    ]
    with pytest.raises(OptionError, match="no engine 'Spark'; give one of auto, process, spark"):
        done(0, "Spark")


def test_without_spark_a_table_above_the_limit_says_what_to_do(tmp_path: Path) -> None:
    random_table(tmp_path)
    with pytest.raises(
        InputError,
        match=r"120 files to read, and one process builds up to 9; this function cannot use Spark: .* the engine",
    ):
        build_index(open_store(str(tmp_path)), options=BuildOptions(limits=BuildLimits(process_files=9)))


@pytest.mark.parametrize("statistics", [True, False])
def test_files_are_counted_not_guessed(tmp_path: Path, statistics: bool) -> None:
    """A long path, a large tail and a checkpoint full of tombstones made the bytes and rows of a log mislead."""
    log = LogBuilder(tmp_path)
    log.commit(*(add(f"{n}-{'x' * 300}.parquet") for n in range(40)))
    log.commit(*(remove(f"{n}-{'x' * 300}.parquet") for n in range(30)))
    log.checkpoint()
    [checkpoint] = log.log.glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(checkpoint), checkpoint, write_statistics=statistics)
    log.commit(*(add(f"late-{n}.parquet", stats={"numRecords": 1, "note": "x" * 500}) for n in range(20)))
    log.commit(*(add(f"late-{n}.parquet") for n in range(10)))
    snapshot = load_snapshot(open_store(str(tmp_path)))
    assert count_files(snapshot, limit=29) == 30
    assert count_files(snapshot, limit=30) == 30
    assert count_files(snapshot, limit=9) == 10


@pytest.mark.parametrize(("asked", "most", "rows"), [(25, 1_000, 25), (1_000, 25, 25), (25, 10, 10)])
@pytest.mark.parametrize("run_bytes", [1 << 20, 2_000])
def test_no_part_has_more_rows_than_asked_or_allowed(
    tmp_path: Path, asked: int, most: int, rows: int, run_bytes: int
) -> None:
    store = open_store(str(random_table(tmp_path).root))
    limits = replace(TINY, single_rows=0, part_rows=most, run_bytes=run_bytes)
    build_index(store, options=BuildOptions(full=True, part_rows=asked, limits=limits))
    base = load_snapshot(store, find=discover_with_index).segment.base
    assert isinstance(base, IndexBase)
    assert max(base.manifest.parts.rows) <= rows


def test_parts_without_rows_are_refused() -> None:
    with pytest.raises(OptionError, match="part_rows is 0"):
        BuildOptions(part_rows=0)


class Interrupted(LookupError):
    """Something went wrong in the middle."""


def test_nothing_is_left_of_the_runs(tmp_path: Path) -> None:
    log = random_table(tmp_path / "table")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    store = open_store(str(log.root))
    limits = replace(TINY, single_rows=0)
    options = BuildOptions(full=True, part_rows=25, limits=limits, temporary_directory=str(scratch))

    def interrupt(message: str) -> None:
        if "parts written" in message:
            raise Interrupted

    build_index(store, options=options)
    assert list(scratch.iterdir()) == []
    with pytest.raises(Interrupted):
        build_index(store, options=options, progress=interrupt)
    assert list(scratch.iterdir()) == []
    assert verify_index(store).ok


PROGRAM = """
import resource, sys, time
from delta_sidecar.errors import DeltaSidecarError
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.storage import open_store

root, scratch, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
tiny = BuildLimits(single_rows=0, threads=2, batch_rows=7, run_bytes=2_000, block_bytes=300, merge_bytes=500)
options = BuildOptions(full=True, part_rows=25, limits=tiny, temporary_directory=scratch)


def pausing(message):
    if room < 0 and "parts written" in message:
        print("paused", flush=True)
        time.sleep(60)


store = open_store(root)
if room > 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
try:
    build_index(store, options=options, progress=pausing)
except DeltaSidecarError as error:
    print(type(error).__name__, error)
    sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_stopped_leaves_no_runs_and_the_next_one_completes(tmp_path: Path, number: int) -> None:
    log = random_table(tmp_path / "table")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", PROGRAM, str(log.root), str(scratch), "-1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    assert process.stdout.readline() == "paused\n"
    began = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=30)
    assert time.monotonic() - began < 20
    assert process.returncode != 0
    assert list(scratch.iterdir()) == []
    store = open_store(str(log.root))
    assert build_index(store).mode == "full"
    assert verify_index(store).ok


@pytest.mark.slow
def test_a_temporary_directory_without_room_is_one_clear_line(tmp_path: Path) -> None:
    log = random_table(tmp_path / "table")
    command = [sys.executable, "-c", PROGRAM, str(log.root), str(tmp_path), "4000"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=60, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith(f"StorageError cannot write the sorted runs of the build to {tmp_path}, after ")
    assert "(File too large); set TMPDIR to a directory with more space, or use --engine spark" in done.stdout
    with pytest.raises(StorageError, match="No such file or directory"):
        build_index(
            open_store(str(log.root)), options=BuildOptions(limits=TINY, temporary_directory=str(tmp_path / "none"))
        )
