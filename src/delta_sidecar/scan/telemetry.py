"""What listings did, for OpenTelemetry: metrics and a span for each, under the names that docs/guide/serving.md lists.

Loaded only in a program that has loaded OpenTelemetry's API itself: without it nobody could have said where figures go.
"""

from __future__ import annotations

from functools import cache

from opentelemetry import context, metrics, trace

from delta_sidecar.log.segment import OtherBase
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.scan.scan_metrics import ScanMetrics
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.texts import general

_NAME = "delta_sidecar"


class _Instruments:
    """The figures of all listings of this process."""

    def __init__(self) -> None:
        meter = metrics.get_meter(_NAME)

        def counter(name: str, text: str, unit: str = "1") -> metrics.Counter:
            return meter.create_counter(f"delta.lazy.{name}", unit, text)

        self.files_emitted = counter("files_emitted", "Files returned")
        self.files_pruned = counter("files_pruned", "Files that a predicate ruled out")
        self.commits_scanned = counter("commits_scanned", "Commits read after the base")
        self.store_requests = counter("store_requests", "Requests to the store")
        self.store_bytes = counter("store_bytes", "Bytes read from the store", "By")
        self.listings = counter("listings", "Listings, by where the list came from")
        self.fallbacks = counter("fallback_triggered", "Listings that read a worse base than there should be")
        self.first = meter.create_histogram("delta.lazy.time_to_first_file_ms", "ms", "Until the first file was found")
        # Older versions of the API have no gauges that are set.
        gauge = getattr(meter, "create_gauge", lambda *_: None)
        self.mask = gauge("delta.lazy.remove_set_size", "1", "File keys in commits after the base")
        self.age = gauge("delta.lazy.index_age_versions", "1", "Versions since the index")

    def note(self, done: ScanMetrics, table: str, index_age: int | None) -> None:
        self.files_emitted.add(done.files_emitted)
        self.files_pruned.add(done.files_pruned)
        self.commits_scanned.add(done.commits_scanned)
        self.store_requests.add(done.requests)
        self.store_bytes.add(done.bytes_read)
        self.listings.add(1, {"tier": done.tier})
        if self.mask is not None:
            self.mask.set(done.mask_size)
        if done.fallback_reason is not None:
            self.fallbacks.add(1, {"reason": general(done.fallback_reason)})
        if done.time_to_first_file_s is not None:
            self.first.record(done.time_to_first_file_s * 1000)
        if index_age is not None and self.age is not None:
            self.age.set(index_age, {"table": table})


@cache
def _instruments() -> _Instruments:
    return _Instruments()


class ObservedScan:
    """One listing: its span belongs to what was going on where the listing was made, whichever thread reads it."""

    def __init__(self, snapshot: Snapshot) -> None:
        base = snapshot.segment.base
        self._table = parse_location(snapshot.store.root_uri).text
        self._version = snapshot.version
        self._index_age = snapshot.version - base.version if isinstance(base, OtherBase) else None
        self._context = context.get_current()
        self._span: trace.Span | None = None

    def begin(self) -> None:
        attributes: dict[str, str | int] = {"delta.table": self._table, "delta.version": self._version}
        self._span = trace.get_tracer(_NAME).start_span("delta.lazy.scan", self._context, attributes=attributes)

    def end(self, done: ScanMetrics, error: BaseException | None) -> None:
        _instruments().note(done, self._table, self._index_age)
        span = self._span
        if span is None:
            return
        known: dict[str, str | int] = {
            "tier": done.tier,
            "strategy": done.strategy,
            "files_emitted": done.files_emitted,
            "files_pruned": done.files_pruned,
            "commits_scanned": done.commits_scanned,
            "store_requests": done.requests,
            "store_bytes": done.bytes_read,
            "complete": done.complete,
        }
        span.set_attributes({f"delta.lazy.{name}": value for name, value in known.items()})
        if error is not None:
            span.record_exception(error)
            span.set_status(trace.StatusCode.ERROR, type(error).__name__)
        span.end()
