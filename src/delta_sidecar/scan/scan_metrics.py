"""What a scan did and what it cost, while it runs and after."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from delta_sidecar.listing.live_files import Progress
from delta_sidecar.storage.metered import Cost


@dataclass(slots=True)
class ScanMetrics:
    """What a listing of files did, and what it cost.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> scan = DeltaTable("events").scan_files("_event_hour = '2026021022'")
        >>> files = scan.read_all()
        >>> scan.metrics.files_emitted, scan.metrics.files_pruned, scan.metrics.tier
        (1, 3, 'log')
    """

    tier: str = "log"
    """Where the file list came from: `index`, `footer` (an index without its manifest), `checkpoint`, or `log`."""
    fallback_reason: str | None = None
    """Why a better base was not used."""
    strategy: str = ""
    commits_total: int = 0
    commits_scanned: int = 0
    files_considered: int = 0
    """Live files that were read, before pruning. Files of parts and row groups of an index that were skipped whole do
    not count."""
    files_pruned: int = 0
    """Those of the files considered that cannot match the predicate."""
    files_emitted: int = 0
    parts_total: int = 0
    parts_read: int = 0
    """Parts of the index from which rows were read."""
    row_groups_total: int = 0
    row_groups_read: int = 0
    mask_size: int = 0
    """File keys in newer commits, which hide rows of the base."""
    requests: int = 0
    """Requests of the table's store since the scan was made; other scans of the same table count, too."""
    bytes_read: int = 0
    time_to_first_file_s: float | None = None
    elapsed_s: float = 0.0
    """Seconds of planning, and from the first batch asked for to the last one returned. Between batches the caller's
    time counts, too."""
    complete: bool = False
    """Whether the scan reached its end or its limit."""

    def note(self, progress: Progress, cost: Cost) -> None:
        """Update the counters from the progress and the cost of the scan."""
        self.tier, self.fallback_reason = progress.tier, progress.fallback_reason
        self.commits_total, self.commits_scanned = progress.commits_total, progress.commits_read
        self.mask_size = progress.mask_size
        self.parts_total, self.parts_read = progress.base.parts_total, progress.base.parts_read
        self.row_groups_total, self.row_groups_read = progress.base.row_groups_total, progress.base.row_groups_read
        self.requests, self.bytes_read = cost.requests, cost.bytes_read

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
