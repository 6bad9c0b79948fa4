"""What requests did, as figures for operators: for Prometheus, where a port for it is open.

Names begin with `delta_lazy_`, as readers of this kind call their figures (`delta.lazy.files_emitted`), with
underscores for dots.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from delta_sidecar.errors import needs_extra
from delta_sidecar.texts import general

if TYPE_CHECKING:
    from delta_sidecar.server.budget import Budget

_FIRST_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
_MOST_LABELS: Final = 200
"""Values of one label; what comes after them is `other`."""


@dataclass(slots=True)
class Outcome:
    """What a stream did."""

    table: str
    what: str
    batches: int = 0
    rows: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0
    first_batch_s: float | None = None
    tier: str | None = None
    fallback_reason: str | None = None
    files_emitted: int = 0
    files_pruned: int = 0
    commits_scanned: int = 0
    remove_set_size: int = 0
    time_to_first_file_s: float | None = None
    store_requests: int = 0
    store_bytes: int = 0
    index_age: int | None = None


class Figures(Protocol):
    """Counts calls and streams."""

    def called(self, method: str, outcome: str) -> None: ...

    def streamed(self, outcome: Outcome) -> None: ...


class NoFigures:
    """Nobody asks for figures."""

    def called(self, method: str, outcome: str) -> None:
        return

    def streamed(self, outcome: Outcome) -> None:
        return


class Prometheus:
    """Figures in a registry of their own."""

    def __init__(self, budget: Budget) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise needs_extra("a port for metrics", "prometheus_client", "server") from None
        self._text = prometheus.generate_latest
        self.content_type: str = prometheus.CONTENT_TYPE_LATEST
        self._registry = registry = prometheus.CollectorRegistry()
        self._tables, self._reasons = _Labels(), _Labels()

        def counter(name: str, text: str, *labels: str) -> Any:
            return prometheus.Counter(f"delta_lazy_{name}", text, labels, registry=registry)

        self._calls = counter("calls", "Calls of Flight, by method and how they ended.", "method", "outcome")
        self._files = counter("files_emitted", "Files returned to clients.")
        self._pruned = counter("files_pruned", "Files left out because they cannot match.")
        self._commits = counter("commits_scanned", "Commits read.")
        self._requests = counter("store_requests", "Requests to the stores.")
        self._bytes = counter("store_bytes", "Bytes read from the stores.")
        self._sent_rows = counter("rows_sent", "Rows sent, a listing's included.", "what")
        self._sent_bytes = counter("bytes_sent", "Bytes of Arrow batches sent.", "what")
        self._listings = counter("listings", "Listings, by where the list came from.", "tier")
        self._fallbacks = counter(
            "fallback_triggered", "Listings that read a worse base than there should be.", "reason"
        )
        self._first = prometheus.Histogram(
            "delta_lazy_time_to_first_file_ms", "Until the first file was found.", buckets=_FIRST_MS, registry=registry
        )
        self._masks = prometheus.Gauge(
            "delta_lazy_remove_set_size", "File keys in commits after the base, last listing.", registry=registry
        )
        self._ages = prometheus.Gauge(
            "delta_lazy_index_age_versions", "Versions since the index, last request.", ["table"], registry=registry
        )
        for name, text, value in (
            ("streams", "Streams that are open.", lambda: budget.streams),
            ("streams_waiting", "Streams that wait for their turn.", lambda: budget.waiting),
            ("bytes_held", "Bytes reserved by open streams.", lambda: budget.held_bytes),
        ):
            prometheus.Gauge(f"delta_lazy_{name}", text, registry=registry).set_function(value)

    def text(self) -> bytes:
        """All figures, as Prometheus reads them."""
        return bytes(self._text(self._registry))

    def called(self, method: str, outcome: str) -> None:
        self._calls.labels(method, outcome).inc()

    def streamed(self, outcome: Outcome) -> None:
        self._files.inc(outcome.files_emitted)
        self._pruned.inc(outcome.files_pruned)
        self._commits.inc(outcome.commits_scanned)
        self._requests.inc(outcome.store_requests)
        self._bytes.inc(outcome.store_bytes)
        self._sent_rows.labels(outcome.what).inc(outcome.rows)
        self._sent_bytes.labels(outcome.what).inc(outcome.sent_bytes)
        if outcome.tier is not None:
            self._listings.labels(outcome.tier).inc()
            self._masks.set(outcome.remove_set_size)
        if outcome.fallback_reason is not None:
            self._fallbacks.labels(self._reasons.of(general(outcome.fallback_reason))).inc()
        if outcome.time_to_first_file_s is not None:
            self._first.observe(outcome.time_to_first_file_s * 1000)
        if outcome.index_age is not None:
            self._ages.labels(self._tables.of(outcome.table)).set(outcome.index_age)


class _Labels:
    """The values of a label: only so many, as each is a series of its own for ever."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def of(self, value: str) -> str:
        with self._lock:
            if value not in self._known and len(self._known) >= _MOST_LABELS:
                return "other"
            self._known.add(value)
            return value
