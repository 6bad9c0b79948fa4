"""The stream of live files: newest commits first, then the base. A limit, or closing the stream, stops the reading."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from delta_sidecar.errors import CorruptLogError, ObjectNotFoundError
from delta_sidecar.index.read.opening import forget
from delta_sidecar.listing.base import LiveRows
from delta_sidecar.listing.live_files import LiveFiles
from delta_sidecar.listing.request import FileRequest, checked_limit
from delta_sidecar.log.segment import OtherBase
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.pruning.listing_columns import output_schema, project
from delta_sidecar.scan.one_reading import ReadOnce
from delta_sidecar.scan.scan_metrics import ScanMetrics
from delta_sidecar.scan.scan_plan import ScanPlan, as_lines, make_plan
from delta_sidecar.scan.scan_position import ScanPosition, Track, check_position, on_base_of, position_of
from delta_sidecar.settings import Settings
from delta_sidecar.storage.metered import Cost, MeteredStore
from delta_sidecar.texts import counted, sized

if TYPE_CHECKING:
    from delta_sidecar.predicates.expression import Expression
    from delta_sidecar.scan.telemetry import ObservedScan

_log = logging.getLogger(__name__)

_TELEMETRY = frozenset(("opentelemetry.metrics", "opentelemetry.trace"))


class FileScan(ReadOnce):
    """One listing of the live files of a table, as a stream of Arrow batches.

    Iterate it, or pass it to anything that takes an Arrow stream. Use it as a context manager, or call `close`,
    to stop early. Several threads may read it, each batch goes to one of them, and any thread may close it.

    Raises:
        ConsumedStreamError: It was already read to its end, closed, or handed to another reader.
        CorruptTableError: The log is broken where the scan reads it.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> with DeltaTable("events").scan_files("_event_hour >= '2026021022'") as scan:
        ...     for batch in scan:
        ...         print(batch.num_rows, batch.schema.names[:2])
        2 ['path', 'size']
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        predicate: Expression | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: str | None = None,
        after: ScanPosition | None = None,
    ) -> None:
        began = time.perf_counter()
        request = FileRequest.of(snapshot, settings, predicate, columns, checked_limit(limit))
        if after is not None:
            check_position(after, snapshot, request, predicate)
            snapshot, request = on_base_of(after, snapshot), replace(request, resumed_order=after.order)
        self._after = after
        self._strategy = strategy
        self._track = Track()
        self._walked = 0
        """Files of the walk so far; some may not be returned yet."""
        self._request = request
        self._is_tracked = "path" in request.output
        super().__init__(output_schema(request.output), "listing of files")
        self._plan = make_plan(snapshot, request, predicate, strategy)
        self._live = self._plan.run()
        self._metrics = ScanMetrics(strategy=self._plan.strategy)
        self._store = snapshot.store
        self._cost_before = _cost(snapshot)
        self._observed = _observed(snapshot)
        self._batches: Any = self._run()
        self._turn = threading.RLock()
        """Held by the thread that reads a batch. That thread may come here again, from a signal handler."""
        self._planned_s = time.perf_counter() - began
        self._started = began

    @property
    def plan(self) -> ScanPlan:
        """What the scan will read, in which order, and why."""
        return self._plan

    @property
    def position(self) -> ScanPosition:
        """The position after the last batch returned; pass it to `scan_files(after=…)` at the same version."""
        if self._after is not None and self._track.files < self._after.files:
            return self._after
        return position_of(self._plan.snapshot, self._request, self._plan.condition, self._track)

    @property
    def metrics(self) -> ScanMetrics:
        """Counters of what the scan has done so far."""
        cost = _cost(self._plan.snapshot) - self._cost_before
        self._metrics.note(self._live.progress, cost)
        return self._metrics

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """What was read instead of the planned base, if that is damaged."""
        return tuple(self._live.progress.fallbacks)

    @property
    def row_groups_read(self) -> dict[str, tuple[int, ...]]:
        """Which row groups of the index were read so far, by the name of their part. Empty without an index."""
        return dict(self._live.progress.base.groups)

    def headline(self) -> str:
        """What the scan reads, in one line: `reads 1 of 125 parts, 4 of 1,020 row groups, 1.2 MB; 3 ms`.

        Before the scan has read anything these are bounds: `reads at most …`. If the base is damaged, the line begins
        with what was read instead: `fell back to checkpoint 90: 1 of 1 row group …`.
        """
        done = self.metrics
        if not done.elapsed_s:
            return self.plan.headline
        counts = [
            *([f"{done.parts_read:,} of {counted(done.parts_total, 'part')}"] if done.parts_total else []),
            *(
                [f"{done.row_groups_read:,} of {counted(done.row_groups_total, 'row group')}"]
                * bool(done.row_groups_total)
            ),
            *([counted(done.commits_scanned, "commit")] if done.commits_scanned else []),
            sized(done.bytes_read),
        ]
        begun = f"fell back to {self.fallbacks[-1]}:" if self.fallbacks else "reads"
        return f"{begun} {', '.join(counts)}; {_duration(done.elapsed_s)}"

    def explain(self) -> str:
        """A headline, the plan, and what the scan has done so far."""
        return f"{self.headline()}\n{as_lines(self.facts())}"

    def facts(self) -> list[tuple[str, str]]:
        """The lines of `explain` below the headline: names and values."""
        done = self.metrics
        counts = (
            f"{counted(done.files_emitted, 'file')} emitted, "
            f"{done.files_pruned:,} of {done.files_considered:,} pruned, "
            f"{done.commits_scanned:,} of {counted(done.commits_total, 'commit')}, "
            + (f"{done.parts_read:,} of {counted(done.parts_total, 'part')} and " if done.parts_total else "")
            + f"{done.row_groups_read:,} of {counted(done.row_groups_total, 'row group')} read"
        )
        cost = f"{counted(done.requests, 'request')}, {sized(done.bytes_read)}, {_duration(done.elapsed_s)}"
        return [
            *([("fallback", done.fallback_reason)] if done.fallback_reason else []),
            *self._planned(),
            ("tier", done.tier),
            ("done", counts),
            ("cost", cost),
        ]

    def _planned(self) -> Iterator[tuple[str, str]]:
        """The plan; after a fallback also the base that was read instead of the planned one."""
        for name, value in self.plan.facts():
            if self.fallbacks and name == "base":
                yield name, f"{', then '.join(self.fallbacks)}, read instead of the planned base"
            yield "planned" if self.fallbacks and name in ("base", "reads") else name, value

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._reading.begin()
        return _Batches(self._next, self.close)

    def _next(self) -> pa.RecordBatch:
        with self._turn:
            self._reading.check()
            try:
                batch = next(self._batches, None)
            except BaseException:
                self._reading.fail()
                raise
            if batch is None:
                self._reading.check()
                self._reading.finish()
                raise StopIteration
            if self._is_tracked:
                self._track.note(batch)
            return batch

    def close(self) -> None:
        """Stop reading; no request begins after this returns."""
        self._reading.close()
        with self._turn:
            if not self._batches.gi_running:
                self._batches.close()

    def _run(self) -> Generator[pa.RecordBatch]:
        emitted = 0
        error: BaseException | None = None
        # The caller's time between the plan and the first batch does not count.
        self._started = time.perf_counter() - self._planned_s
        if self._observed is not None:
            self._observed.begin()
        try:
            if self._request.limit == 0:
                self._metrics.complete = True
                return
            for live in self._live_or_restarted():
                if self._reading.has_ended:
                    return
                batch = self._limited_and_projected(live, self._not_passed(live), emitted)
                if not batch.num_rows:
                    continue
                emitted += batch.num_rows
                self._note_emission(emitted)
                yield from _slices(batch, self._request.settings.batch_size)
                if emitted == self._request.limit:
                    break
            if self._after is not None and self._walked < self._after.files:
                self._track.compare(self._after)
            self._metrics.complete = True
        except Exception as raised:
            error = raised
            raise
        finally:
            self._plan.snapshot.commits.cancel()
            self._metrics.elapsed_s = time.perf_counter() - self._started
            if self._live.progress.is_broken:
                forget(self._store)
            if self._observed is not None:
                self._observed.end(self.metrics, error)

    def _not_passed(self, live: LiveRows) -> pa.RecordBatch:
        """The rows that come after the position at which the listing began."""
        fallbacks = self._live.progress.fallbacks
        self._track.fallbacks += [(self._walked, base) for base in fallbacks[len(self._track.fallbacks) :]]
        begun = 0 if self._after is None else self._after.files
        to_pass, rows = begun - self._walked, live.rows
        self._walked += rows.num_rows
        if self._after is None or to_pass <= 0:
            return rows
        self._track.note(rows.slice(0, to_pass))
        if self._walked >= begun:
            self._track.compare(self._after)
        return rows.slice(to_pass)

    def _limited_and_projected(self, live: LiveRows, kept: pa.RecordBatch, emitted: int) -> pa.RecordBatch:
        """The rows up to the limit, with the columns of the listing."""
        self._metrics.files_considered += live.considered
        self._metrics.files_pruned += live.considered - live.rows.num_rows
        if self._request.limit is not None:
            kept = kept.slice(0, self._request.limit - emitted)
        is_projected = live.is_projected or kept.schema.equals(self._schema)
        return kept if is_projected else project(kept, self._request.output)

    def _note_emission(self, emitted: int) -> None:
        self._metrics.files_emitted = emitted
        self._metrics.elapsed_s = time.perf_counter() - self._started
        if self._metrics.time_to_first_file_s is None:
            self._metrics.time_to_first_file_s = self._metrics.elapsed_s

    def _live_or_restarted(self) -> Iterator[LiveRows]:
        """The live files. If a listed log file was deleted meanwhile, load the version once more, unless files were
        already returned."""
        for again in (False, True):
            yielded = False
            try:
                for live in self._live:
                    yielded = yielded or live.rows.num_rows > 0
                    yield live
                return
            except ObjectNotFoundError as error:
                if again or yielded:
                    raise CorruptLogError(
                        f"a file of the log was deleted while it was read ({error}); open the table again"
                    ) from None
                _log.info("the log changed while it was read (%s); starting again", error)
                self._live = self._planned_again(f"the log changed while it was read ({error}), and was read again")
                self._metrics.files_considered = self._metrics.files_pruned = 0

    def _planned_again(self, reason: str) -> LiveFiles:
        """The walk of the same version as its log is now; without an index, unless the listing resumes one on it."""
        forget(self._store)
        snapshot = load_snapshot(self._store, self._plan.version, self._request.settings.commit_limits)
        if self._after is not None:
            snapshot = on_base_of(self._after, snapshot)
        if isinstance(self._plan.snapshot.segment.base, OtherBase):
            snapshot = replace(snapshot, passed_over=reason)
        self._plan = make_plan(snapshot, self._request, self._plan.condition, self._strategy)
        self._track, self._walked = Track(), 0
        self._metrics.strategy = self._plan.strategy
        return self._plan.run()


class _Batches(Struct, frozen=True):
    """An iterator of a scan's batches. Not a generator: `close` also works before the first batch."""

    take: Callable[[], pa.RecordBatch]
    close: Callable[[], None]

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.take()


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def _slices(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of at most `most` rows."""
    if batch.num_rows <= most:
        yield batch
    else:
        yield from (batch.slice(at, most) for at in range(0, batch.num_rows, most))


def _observed(snapshot: Snapshot) -> ObservedScan | None:
    """For OpenTelemetry, in a program that uses it: loading it is not ours to do. An API without metrics is too old."""
    if not _TELEMETRY.intersection(sys.modules):
        return None
    try:
        from delta_sidecar.scan.telemetry import ObservedScan
    except ImportError:
        return None
    return ObservedScan(snapshot)


def _cost(snapshot: Snapshot) -> Cost:
    return snapshot.store.cost if isinstance(snapshot.store, MeteredStore) else Cost()
