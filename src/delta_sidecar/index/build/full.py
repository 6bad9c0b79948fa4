"""Build the whole index of a table in one process: in memory if the rows fit, else with sorted runs in a file.

Threads share the work: one reads the log, the others convert rows, sort runs and write parts. Arrow does nearly all of
it without Python's lock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import TypeVar

import msgspec
import pyarrow as pa

from delta_sidecar.errors import CorruptLogError, ObjectExistsError
from delta_sidecar.index.build.build_job import Build, part_slices
from delta_sidecar.index.build.part_writer import write_part
from delta_sidecar.index.build.sorted_runs import Runs, SpillFile
from delta_sidecar.index.format.index_names import part_id, single_id
from delta_sidecar.index.format.manifest import text_of
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.part_format import MANIFEST_KEY
from delta_sidecar.index.stats.index_rows import SOURCE_COLUMNS, index_rows, joined, sorted_rows
from delta_sidecar.listing.live_files import live_rows
from delta_sidecar.texts import counted

_log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


def build_whole(build: Build, notes: list[str]) -> list[PartEntry]:
    """The parts of all live rows. A broken checkpoint means the next base, as for every reader."""
    while True:
        try:
            return _parts(build)
        except CorruptLogError as error:
            take_older_base(build, error, notes)


def take_older_base(build: Build, error: CorruptLogError, notes: list[str]) -> None:
    """Continue on the next base instead of a damaged checkpoint; raise the error if there is no base."""
    if build.snapshot.segment.base is None:
        raise error
    notes.append(f"{build.snapshot.segment.base} was not used: {error}")
    build.snapshot, _ = build.snapshot.on_older_base()


def _parts(build: Build) -> list[PartEntry]:
    limits = build.options.limits
    with ExitStack() as stack:
        # The file is closed after the threads that write to it have ended.
        file = stack.enter_context(SpillFile(build.options.temporary_directory))
        pool = stack.enter_context(_threads(limits.threads))
        batches = live_rows(build.snapshot, SOURCE_COLUMNS.names, limits.batch_rows)
        typed = map_ahead(pool, partial(index_rows, layout=build.layout), batches, ahead=limits.threads + 1)
        groups = grouped(_with_progress(build, typed), limits.run_bytes)
        first, second = next(groups, []), next(groups, None)
        if second is None:
            return write_sorted(build, first)
        runs = Runs(file, build.layout, limits.block_bytes)
        for _ in map_ahead(pool, runs.add, chain([first, second], groups), ahead=1):
            pass
        del first, second
        return _merged(build, runs, pool)


class _Threads(ThreadPoolExecutor):
    """Threads that start nothing more once an error has left the block."""

    def __exit__(self, *exception: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


def _threads(count: int) -> ThreadPoolExecutor:
    return _Threads(count, thread_name_prefix="delta-sidecar-build")


def map_ahead(pool: ThreadPoolExecutor, function: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[R]:
    """The results of a function in the order of its items; up to `ahead` items are worked on in advance."""
    pending: deque[Future[R]] = deque()
    for item in items:
        pending.append(pool.submit(function, item))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def grouped(tables: Iterable[pa.Table], most_bytes: int) -> Iterator[list[pa.Table]]:
    """The tables in groups; a group ends when it has `most_bytes` or more."""
    group: list[pa.Table] = []
    held = 0
    for table in tables:
        group.append(table)
        held += table.nbytes
        if held >= most_bytes:
            yield group
            group, held = [], 0
    if group:
        yield group


def _with_progress(build: Build, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same tables; reports the number of files read so far."""
    count = 0
    for table in tables:
        count += table.num_rows
        build.progress(f"{counted(count, 'file')} read")
        yield table


def _merged(build: Build, runs: Runs, pool: ThreadPoolExecutor) -> list[PartEntry]:
    """The runs as parts, in the order of the index."""
    limits, blocks = build.options.limits, runs.ordered()
    tables = map_ahead(pool, runs.read, blocks, ahead=2)
    rows = runs.merged(blocks, tables, limits.merge_bytes)
    if runs.rows <= limits.single_rows:
        return [_single(build, joined(list(rows)))]
    # Rows of a wide table are large: its parts have fewer.
    fitting = max(limits.row_group_rows, limits.part_bytes * runs.rows // max(1, runs.nbytes))
    slices = part_slices(runs.rows, min(build.options.rows_of_part, fitting))
    parts: list[PartEntry] = []
    written = 0
    for part in map_ahead(pool, build.write_in_order, cut(rows, [size for _, size in slices]), ahead=1):
        parts.append(part)
        written += part.rows
        build.progress(f"{written:,} of {runs.rows:,} files in {len(parts)} parts written")
    return parts


def cut(tables: Iterable[pa.Table], sizes: Sequence[int]) -> Iterator[pa.Table]:
    """The rows of tables, one after the other, in tables of these sizes."""
    waiting: deque[pa.Table] = deque()
    rest = iter(tables)
    for size in sizes:
        pieces: list[pa.Table] = []
        while size:
            table = waiting.popleft() if waiting else next(rest)
            pieces.append(table.slice(0, size))
            if table.num_rows > size:
                waiting.append(table.slice(size))
            size -= pieces[-1].num_rows
        yield joined(pieces)


def write_sorted(build: Build, tables: Sequence[pa.Table]) -> list[PartEntry]:
    """Rows as parts in the order of the index; few of them as one part in one file."""
    if not tables:
        return []
    rows = sorted_rows(joined(tables), build.layout)
    build.progress(f"{counted(rows.num_rows, 'file')} read")
    if not rows.num_rows:
        return []
    if rows.num_rows <= build.options.limits.single_rows:
        return [_single(build, rows)]
    slices = part_slices(rows.num_rows, build.options.rows_of_part)
    return [build.write_in_order(rows.slice(at, size)) for at, size in slices]


def _single(build: Build, rows: pa.Table) -> PartEntry:
    """One file with the manifest inside, so that it serves without its manifest, too."""
    described = text_of(msgspec.structs.replace(build.manifest([]), files=rows.num_rows))
    for name in (single_id(build.version), part_id(build.version, build.id)):
        try:
            return write_part(
                build.store,
                build.directory,
                name,
                rows,
                build.layout,
                build.options.limits.row_group_rows,
                single=True,
                metadata={MANIFEST_KEY: described},
            )
        except ObjectExistsError:
            _log.info("%s already exists, from an earlier build", name)
    raise AssertionError("a unique name already exists")
