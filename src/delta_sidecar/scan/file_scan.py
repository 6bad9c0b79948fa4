"""The stream of live files: newest commits first, then the base; a limit or a closed stream stops the reading."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, islice
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from delta_sidecar.errors import (
    CorruptIndexError,
    CorruptLogError,
    LogGapError,
    ObjectNotFoundError,
    OptionError,
    VersionNotFoundError,
)
from delta_sidecar.flow.lanes import Interleaved
from delta_sidecar.index.read.finder import IndexBase
from delta_sidecar.index.read.opening import forget
from delta_sidecar.index.read.part_scan import Listed, PartScan
from delta_sidecar.log.checkpoint import Checkpoint
from delta_sidecar.log.commits import Adds, file_actions, rows_of
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.protocol import supports_generated_columns
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import Snapshot, load_snapshot, newest_first
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.pruning.add_pruner import AddPruner
from delta_sidecar.pruning.bucket_ranges import BucketRanges, bucket_ranges
from delta_sidecar.pruning.file_pruner import FilePruner
from delta_sidecar.pruning.listing_columns import output_columns, output_schema, project, source_columns
from delta_sidecar.scan.one_reading import OneReading, rest_of
from delta_sidecar.scan.scan_metrics import ScanMetrics
from delta_sidecar.scan.scan_plan import ScanPlan, choose_strategy, counted, make_plan
from delta_sidecar.settings import STRATEGIES, Settings
from delta_sidecar.storage.metered import Cost, MeteredStore
from delta_sidecar.storage.store import is_local

_log = logging.getLogger(__name__)

_LANES = min(2, os.cpu_count() or 1)
"""Threads that decode a base: more cost memory in proportion and soon wait for each other."""
_STATS_BATCH = 2_048
"""Rows read at a time when each carries a kilobyte of JSON stats."""
_MERGED_ROWS = 10_000
"""Rows of small commits that are put together."""


class FileScan:
    """One listing of a snapshot's live files, as a stream of Arrow batches.

    Iterate it, or hand it to anything that takes an Arrow stream. Use it as a context manager, or call `close`,
    to stop early. It can be read once: at its end, after `close`, and once it is handed on it raises
    `ConsumedStreamError`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        predicate: Expression | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: str | None = None,
    ) -> None:
        limit = checked_limit(limit)
        self._snapshot = self._pinned = snapshot
        self._settings = settings
        self._limit = limit
        self._output = output_columns(columns)
        pruning = _pruning(snapshot, predicate)
        self._pruner = FilePruner(pruning, settings.partition_timezone)
        self._adds = AddPruner(self._pruner)
        self._source = source_columns(self._output, self._pruner)
        self._settled_source = source_columns(self._output, self._pruner, stats_are_settled=True)
        chosen = choose_strategy(_check_strategy(strategy or settings.strategy), snapshot, limit)
        self._predicate, self._pruning, self._chosen = predicate, pruning, chosen
        self._metrics = ScanMetrics(
            strategy=chosen[0], commits_total=len(snapshot.segment.commits), fallback_reason=snapshot.passed_over
        )
        self._maker = KeyMaker(snapshot.store.root_uri)
        self._started = time.perf_counter()
        self._cost_before = _cost(snapshot)
        self._batches = self._run()
        self._reading = OneReading("listing of files")

    @cached_property
    def plan(self) -> ScanPlan:
        """What the scan will read, in which order, and why. Made when it is asked for: the first file does without."""
        stats = self._pruner.stats_columns
        whole = None if self._pruning is None else self._pruning.whole
        return make_plan(self._pinned, self._chosen, self._predicate, whole, stats, self._output, self._limit)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the listing."""
        return output_schema(self._output)

    @property
    def metrics(self) -> ScanMetrics:
        """What the scan has done so far."""
        cost = _cost(self._snapshot) - self._cost_before
        self._metrics.requests, self._metrics.bytes_read = cost.requests, cost.bytes_read
        return self._metrics

    def explain(self) -> str:
        """The plan, and what the scan has done so far."""
        done = self.metrics
        counts = (
            f"{counted(done.files_emitted, 'file')} emitted, "
            f"{done.files_pruned:,} of {done.files_considered:,} pruned, "
            f"{done.commits_scanned:,} of {counted(done.commits_total, 'commit')}, "
            + (f"{done.parts_read:,} of {counted(done.parts_total, 'part')} and " if done.parts_total else "")
            + f"{done.row_groups_read:,} of {counted(done.row_groups_total, 'row group')} read"
        )
        cost = f"{counted(done.requests, 'request')}, {counted(done.bytes_read, 'byte')}, {done.elapsed_s:.3f} s"
        fallback = f"\nfallback   {done.fallback_reason}" if done.fallback_reason else ""
        return f"{self.plan}\ntier       {done.tier}{fallback}\ndone       {counts}\ncost       {cost}"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._reading.begin()
        return _Batches(self._next, self.close)

    def _next(self) -> pa.RecordBatch:
        self._reading.check()
        try:
            return next(self._batches)
        except StopIteration:
            self._reading.finish()
            raise
        except BaseException:
            self._reading.fail()
            raise

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream as a `RecordBatchReader`."""
        self._reading.hand_on()
        return pa.RecordBatchReader.from_batches(self.schema, rest_of(self._next))

    def read_all(self) -> pa.Table:
        """All files at once, in memory."""
        return pa.Table.from_batches(list(self), self.schema)

    def __enter__(self) -> FileScan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop: nothing is requested after this returns."""
        self._reading.close()
        self._batches.close()

    def _run(self) -> Generator[pa.RecordBatch]:
        emitted = 0
        try:
            if self._limit == 0:
                return
            for listed in self._live_rows_or_restart():
                batch = self._emit(listed, emitted)
                if not batch.num_rows:
                    continue
                emitted += batch.num_rows
                self._note_emission(emitted)
                yield from _slices(batch, self._settings.batch_size)
                if emitted == self._limit:
                    break
            self._metrics.complete = True
        finally:
            self._snapshot.commits.cancel()
            self._metrics.elapsed_s = time.perf_counter() - self._started

    def _emit(self, listed: Listed, emitted: int) -> pa.RecordBatch:
        """Project and cut to the limit."""
        kept = listed.rows
        self._metrics.files_considered += listed.considered
        self._metrics.files_pruned += listed.considered - kept.num_rows
        if self._limit is not None:
            kept = kept.slice(0, self._limit - emitted)
        return kept if listed.is_projected else project(kept, self._output)

    def _note_emission(self, emitted: int) -> None:
        self._metrics.files_emitted = emitted
        self._metrics.elapsed_s = time.perf_counter() - self._started
        if self._metrics.time_to_first_file_s is None:
            self._metrics.time_to_first_file_s = self._metrics.elapsed_s

    def _live_rows_or_restart(self) -> Iterator[Listed]:
        """A listed file that is gone (a cleaner at work): the version is looked for once more, if nothing is out."""
        for again in (False, True):
            yielded = False
            try:
                for listed in self._live_rows():
                    yielded = True
                    yield listed
                return
            except ObjectNotFoundError as error:
                if again or yielded:
                    raise CorruptLogError(
                        f"a file of the log was deleted while it was read ({error}); open the table again"
                    ) from None
                _log.info("the log changed while it was read (%s); starting again", error)
                self._snapshot = load_snapshot(
                    self._snapshot.store, self._snapshot.version, self._settings.commit_parallelism
                )
                self._metrics.commits_scanned, self._metrics.commits_total = 0, len(self._snapshot.segment.commits)

    def _live_rows(self) -> Iterator[Listed]:
        """The one replay over the tail, then over the base; a broken base means the next, with a longer tail."""
        replay = Replay(self._maker)
        snapshot = self._snapshot
        parts = self._begin_parts(snapshot, replay)
        try:
            yield from self._tail(replay, snapshot.segment.commits)
            if parts is not None:
                broken = yield from self._parts(replay, parts)
                if broken is None:
                    return
                snapshot, older = self._fall_back(snapshot, broken)
                yield from self._tail(replay, older)
        finally:
            if parts is not None:
                parts.close()
        while snapshot.segment.base is not None:
            begun = False
            try:
                for rows in self._base(replay, snapshot):
                    begun = True
                    yield rows
                return
            except CorruptLogError as error:
                if begun:
                    raise
                snapshot, older = self._fall_back(snapshot, error)
            yield from self._tail(replay, older)

    def _begin_parts(self, snapshot: Snapshot, replay: Replay) -> PartScan | None:
        """The index as the base; its first parts are sent for beside the tail, unless few files are wanted."""
        base = snapshot.segment.base
        if not isinstance(base, IndexBase):
            return None
        parts = PartScan(
            base=base,
            store=snapshot.store,
            columns=self._source,
            settled_columns=self._settled_source,
            pruning=self._pruning,
            pruner=self._pruner,
            timezone=self._settings.partition_timezone,
            replay=replay,
            output=self._output,
            limit=self._limit,
            depth=self._settings.row_groups_per_batch,
        )
        if self._limit is None and not is_local(snapshot.store):
            with suppress(CorruptIndexError):  # found again, and answered for, when the index's turn comes
                parts.begin()
        return parts

    def _parts(self, replay: Replay, parts: PartScan) -> Generator[Listed, None, CorruptIndexError | None]:
        """The live files of the index. Where it turns out broken: why, and the replay hides what is out already."""
        self._metrics.tier = "index" if parts.base.tier == "manifest" else "footer"
        replay.put_in_order()
        try:
            yield from parts.listed()
            return None
        except CorruptIndexError as error:
            forget(parts.store)
            replay.hide(parts.keys_handed_out(), self._maker)
            return error
        finally:
            self._note_parts(parts)

    def _note_parts(self, parts: PartScan) -> None:
        counts = parts.counts
        self._metrics.parts_total, self._metrics.parts_read = counts.parts_total, counts.parts_read
        self._metrics.row_groups_total = counts.row_groups_total
        self._metrics.row_groups_read = counts.row_groups_read

    def _tail(self, replay: Replay, commits: Sequence[CommitRange]) -> Iterator[Listed]:
        """The live adds of commits, newest first. Forward reads all of them before the first is emitted."""
        adds = self._walk(replay, commits)
        if self._metrics.strategy == "forward":
            return iter([self._pruned_adds(some) for some in self._merged(adds, 0)])
        if self._limit is not None:
            return map(self._pruned_adds, ([some] for some in adds))
        return map(self._pruned_adds, self._merged(adds, 1))

    def _merged(self, adds: Iterator[tuple[str, Adds]], at_once: int) -> Iterator[list[tuple[str, Adds]]]:
        """Adds of neighbours together, after the first few: a batch costs as much as a thousand rows."""
        yield from ([some] for some in islice(adds, at_once))
        most = _STATS_BATCH if "stats" in self._source.names else _MERGED_ROWS
        held: list[tuple[str, Adds]] = []
        count = 0
        for some in adds:
            if held and count + len(some[1]) > most:
                yield held
                held, count = [], 0
            held.append(some)
            count += len(some[1])
        if held:
            yield held

    def _pruned_adds(self, held: list[tuple[str, Adds]]) -> Listed:
        """Adds of some commits that may match, as rows."""
        adds = [add for _, some in held for add in some]
        keep = iter(self._adds.passing(adds).tolist())
        kept: list[tuple[str, Any]] = [(path, list(compress(some, keep))) for path, some in held]
        return Listed(rows_of(kept, self._settled_source.names), len(adds))

    def _pruned(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Listed]:
        for rows in batches:
            yield Listed(self._pruner.prune(rows), rows.num_rows)

    def _walk(self, replay: Replay, commits: Sequence[CommitRange]) -> Iterator[tuple[str, Adds]]:
        """The live adds of each commit, with its path."""
        held = self._snapshot.commits
        matter = self._adds.stats_matter if self._stats_may_not_matter else None
        ahead = 2 if self._limit is not None else self._settings.commit_parallelism
        for commit in newest_first(commits, held, ahead):
            path = commit.file.path
            batches = file_actions(held.blocks(commit.file), path, self._source.names, self._maker, matter)
            yield from ((path, adds) for adds in replay.commit(batches))
            self._metrics.commits_scanned += 1
        self._metrics.mask_size = len(replay.mask)

    @property
    def _stats_may_not_matter(self) -> bool:
        """Whether stats serve nothing but pruning, and partition values may do without them."""
        for_pruning = "stats" in self._source.names and "stats" not in self._settled_source.names
        return for_pruning and self._adds.may_do_without_stats

    def _base(self, replay: Replay, snapshot: Snapshot) -> Iterator[Listed]:
        base = snapshot.open_base()
        assert base is not None
        self._metrics.tier = "checkpoint"
        replay.seal()
        rows = Interleaved([replay.base(lane) for lane in self._lanes(base)])
        try:
            yield from self._pruned(rows)
        finally:
            rows.close()
            self._note_base(base)
            base.close()

    def _lanes(self, base: Checkpoint) -> list[Iterator[pa.RecordBatch]]:
        """Decoding goes on several threads, unless parsing the stats takes the time, or few files are wanted."""
        if "stats" in self._source.names:
            return base.lanes(self._source, min(self._settings.batch_size, _STATS_BATCH), 1)
        return base.lanes(self._source, self._settings.batch_size, _LANES if self._limit is None else 1)

    def _note_base(self, base: Checkpoint) -> None:
        cost = base.cost
        self._metrics.row_groups_total = cost.row_groups_total
        self._metrics.row_groups_read = cost.row_groups_read
        if isinstance(self._snapshot.store, MeteredStore):
            self._snapshot.store.charge(cost.requests, cost.bytes_read)

    def _fall_back(
        self, snapshot: Snapshot, error: CorruptLogError | CorruptIndexError
    ) -> tuple[Snapshot, tuple[CommitRange, ...]]:
        """The next base, and the commits between it and the broken one."""
        assert snapshot.segment.base is not None
        self._metrics.tier, self._metrics.fallback_reason = "log", str(error)
        _log.warning("%s was not used: %s", snapshot.segment.base, error)
        try:
            older = snapshot.on_older_base()
        except (LogGapError, VersionNotFoundError):
            raise error from None
        self._metrics.commits_total += len(older[1])
        return older


@dataclass(frozen=True, slots=True)
class _Batches:
    """An iterator of a scan's batches."""

    take: Callable[[], pa.RecordBatch]
    close: Callable[[], None]

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.take()


def _slices(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of so many rows at most."""
    if batch.num_rows <= most:
        yield batch
    else:
        yield from (batch.slice(at, most) for at in range(0, batch.num_rows, most))


def _pruning(snapshot: Snapshot, predicate: Expression | None) -> BucketRanges | None:
    """The predicate and what it implies for generated time buckets."""
    if predicate is None:
        return None
    generated = supports_generated_columns(snapshot.protocol)
    return bucket_ranges(predicate, snapshot.schema, snapshot.partition_columns, generated)


def checked_limit(limit: Any) -> int | None:
    """The limit, no greater than any count can be; `OptionError` for what is none."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 0:
        raise OptionError(f"limit is {limit!r}; it takes a whole number, 0 or more, or None for no limit")
    return min(int(limit), sys.maxsize)


def _check_strategy(strategy: str) -> str:
    if strategy not in STRATEGIES:
        raise OptionError(f"strategy is {strategy!r}; it takes one of {', '.join(STRATEGIES)}")
    return strategy


def _cost(snapshot: Snapshot) -> Cost:
    return snapshot.store.cost if isinstance(snapshot.store, MeteredStore) else Cost()
