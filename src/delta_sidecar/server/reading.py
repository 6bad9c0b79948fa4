"""One request on one open table: a schema and an iterator of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec import structs

from delta_sidecar.errors import (
    CorruptLogError,
    DeltaSidecarError,
    InputError,
    NotOfferedError,
    OtherTableError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_sidecar.index.read.opening import remembered_version
from delta_sidecar.log import travel
from delta_sidecar.log.segment import OtherBase
from delta_sidecar.scan.scan_metrics import ScanMetrics
from delta_sidecar.scan.scan_plan import ScanPlan
from delta_sidecar.server.answers import Answers, answer_key
from delta_sidecar.server.figures import Outcome
from delta_sidecar.server.requests import ReadRequest
from delta_sidecar.server.roots import Place, no_table
from delta_sidecar.server.tokens import Caller
from delta_sidecar.storage.metered import Cost, MeteredStore
from delta_sidecar.storage.store import Store
from delta_sidecar.table import DeltaTable
from delta_sidecar.table_access import TableAccess


@dataclass(frozen=True, slots=True, eq=False)
class OpenTable:
    """A version of a table, opened for one request."""

    name: str
    table: DeltaTable
    access: TableAccess
    others: Sequence[MeteredStore] = ()
    """Stores of files that the table has elsewhere, as far as they were opened."""

    @property
    def version(self) -> int:
        return self.table.version()

    @property
    def table_id(self) -> str:
        return self.table.metadata().id

    @property
    def cost(self) -> Cost:
        """Requests to the stores and bytes, so far."""
        stores = [self.access.store, *self.others]
        return sum((each.cost for each in stores if isinstance(each, MeteredStore)), Cost())

    @property
    def index_age(self) -> int | None:
        """Versions since the index; None without one."""
        base = self.table.snapshot.segment.base
        return self.version - base.version if isinstance(base, OtherBase) else None


def load_readers() -> None:
    """Import what the first request of each kind would wait for."""
    import delta_sidecar.data.changes
    import delta_sidecar.data.row_scan
    import delta_sidecar.index.read.part_bounds
    import delta_sidecar.index.read.part_scan
    import delta_sidecar.log.checkpoint
    import delta_sidecar.predicates.binding
    import delta_sidecar.pruning.add_pruner
    import delta_sidecar.pruning.bucket_ranges
    import delta_sidecar.pruning.file_pruner
    import delta_sidecar.pruning.may_match
    import delta_sidecar.scan.file_stats  # noqa: F401


def open_table(place: Place, request: ReadRequest, options: Mapping[str, Any]) -> OpenTable:
    """The version that a request names, or the newest."""
    if request.batch_size is not None:
        sizes = ("delta.sidecar.batch_size", "delta.sidecar.row_batch_size")
        options = {**options, **dict.fromkeys(sizes, request.batch_size)}
    try:
        table = _opened(place, request.version, options)
        if request.timestamp is not None:
            table.load_as_version(request.timestamp)
    except TableNotFoundError:
        raise no_table(place.name) from None
    except VersionNotFoundError:
        if request.table_id is not None:
            _check_same(place, _opened(place, None, options), request.table_id)
        raise
    if request.table_id is not None:
        _check_same(place, table, request.table_id)
    others: list[MeteredStore] = []

    def open_other(uri: str) -> Store:
        others.append(store := MeteredStore(place.open_other(uri)))
        return store

    # In the table, too: engines read through it.
    table._open_store = open_other
    return OpenTable(place.name, table, table._access, others)


def _check_same(place: Place, table: DeltaTable, table_id: str) -> None:
    if table.metadata().id != table_id:
        raise OtherTableError(f"{place.name} was dropped and made again: another table is in its place; open it again")


def _opened(place: Place, version: int | None, options: Mapping[str, Any]) -> DeltaTable:
    """A version that is in memory as the newest is looked at as the newest: most tickets are used at once."""
    if version is not None and remembered_version(place.store) == version:
        with suppress(DeltaSidecarError):  # a newer version that cannot be read says nothing of this one
            newest = DeltaTable(place.location.text, store=place.store, options=options)
            if newest.version() == version:
                return newest
    return DeltaTable(place.location.text, version, store=place.store, options=options)


def pinned(opened: OpenTable, request: ReadRequest) -> ReadRequest:
    """The request with versions instead of times, and with the version that is open."""
    start, end = request.start, request.end
    if request.what == "changes":
        snapshot = opened.table.snapshot
        if isinstance(start, str):
            start = travel.version_from(snapshot.store, snapshot, travel.milliseconds_of(start))
        if isinstance(end, str):
            end = travel.version_until(snapshot.store, snapshot, travel.milliseconds_of(end))
    return structs.replace(request, version=opened.version, timestamp=None, start=start, end=end)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a request reads, before and while it is read. Close it."""

    opened: OpenTable
    request: ReadRequest
    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    """Begins the reading."""
    close: Callable[[], None]
    """Stops it; no request to the store begins after that."""
    plan: ScanPlan | None = None
    """How files are listed; None for changes."""
    metrics: Callable[[], ScanMetrics] | None = None
    """What the listing of files did so far; None for changes."""

    def outcome(self) -> Outcome:
        return Outcome(self.request.table, self.request.what)

    def note(self, outcome: Outcome) -> None:
        """Tell what was counted."""
        cost = self.opened.cost
        outcome.store_requests, outcome.store_bytes = cost.requests, cost.bytes_read
        outcome.index_age = self.opened.index_age
        if self.metrics is not None:
            done = self.metrics()
            outcome.tier, outcome.fallback_reason = done.tier, done.fallback_reason
            outcome.files_emitted, outcome.files_pruned = done.files_emitted, done.files_pruned
            outcome.commits_scanned, outcome.remove_set_size = done.commits_scanned, done.mask_size
            outcome.time_to_first_file_s = done.time_to_first_file_s


def reading_of(opened: OpenTable, request: ReadRequest, caller: Caller, answers: Answers) -> Reading:
    """What a request reads; nothing is read here, but columns, predicate and range are checked."""
    match request.what:
        case "files":
            return _files(opened, request, caller, answers)
        case "stats":
            return _stats(opened, request, caller, answers)
        case "rows":
            return _rows(opened, request)
        case "changes":
            return _changes(opened, request)


def _files(opened: OpenTable, request: ReadRequest, caller: Caller, answers: Answers) -> Reading:
    access = opened.access
    bound = access.bind(request.bindable)
    scan = access.listing(bound, request.columns, request.limit, request.strategy)
    known = answers.listing(answer_key(opened.table, caller, request, bound), scan)
    return Reading(opened, request, scan.schema, known.batches, scan.close, scan.plan, known.metrics)


def _stats(opened: OpenTable, request: ReadRequest, caller: Caller, answers: Answers) -> Reading:
    from delta_sidecar.scan.file_stats import stats_columns, stats_schema, typed_stats

    access, wanted = opened.access, stats_columns(opened.table.schema(), request.columns)
    bound = access.bind(request.bindable)
    scan = access.listing(bound, ["path", "stats"], request.limit, request.strategy)
    known = answers.listing(
        answer_key(opened.table, caller, request, bound), scan, lambda batch: typed_stats(batch, wanted)
    )
    return Reading(opened, request, stats_schema(wanted), known.batches, scan.close, scan.plan, known.metrics)


def _rows(opened: OpenTable, request: ReadRequest) -> Reading:
    access = opened.access
    if not opened.table.schema().fields:
        raise CorruptLogError(f"{opened.name} has no schema: you can list its files, but not read rows")
    bound = access.bind(request.bindable)
    scan = access.listing(bound, access.file_columns(request.columns, bound), strategy=request.strategy)
    rows = access.rows(iter(scan), request.columns, bound, request.limit)
    return Reading(opened, request, rows.schema, rows.__iter__, rows.close, scan.plan, lambda: scan.metrics)


def _changes(opened: OpenTable, request: ReadRequest) -> Reading:
    start, end = request.start, request.end
    if not isinstance(start, int) or isinstance(end, str):
        raise InputError("changes need a start: a version, or a time")
    rows = opened.access.changes(start, end, request.columns, request.bindable)
    return Reading(opened, request, rows.schema, rows.__iter__, rows.close)


def explained(opened: OpenTable, request: ReadRequest, caller: Caller, answers: Answers) -> dict[str, Any]:
    """What a listing would read, and why; nothing is listed."""
    if request.what == "changes":
        raise NotOfferedError("explain shows what a listing of files reads; it does not cover changes")
    reading = reading_of(opened, request, caller, answers)
    try:
        plan = reading.plan
        assert plan is not None
        return {"headline": plan.headline, "text": str(plan), "plan": plan.as_dict()}
    finally:
        reading.close()


def described(opened: OpenTable) -> dict[str, Any]:
    """What a client needs to know of a version of a table."""
    table = opened.table
    return {
        "table": opened.name,
        "version": opened.version,
        "location": table.table_uri,
        "schema": table.snapshot.metadata.schemaString,
        "column_mapping_mode": table.snapshot.mapping_mode,
        "metadata": table.metadata()._asdict(),
        "protocol": table.protocol()._asdict(),
        "index_age": opened.index_age,
    }
