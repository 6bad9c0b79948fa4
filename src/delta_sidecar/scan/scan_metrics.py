"""What a scan did and what it cost, while it runs and after."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class ScanMetrics:
    tier: str = "log"
    """Where the base came from: `index` (by its manifest), `footer` (an index without one), `checkpoint`, `log` (no
    base)."""
    fallback_reason: str | None = None
    """Why a better base was not used."""
    strategy: str = ""
    commits_total: int = 0
    commits_scanned: int = 0
    files_considered: int = 0
    """Live files looked at."""
    files_pruned: int = 0
    """Live files the predicate left out."""
    files_emitted: int = 0
    parts_total: int = 0
    parts_read: int = 0
    """Parts of the index of which rows were read."""
    row_groups_total: int = 0
    row_groups_read: int = 0
    mask_size: int = 0
    """Keys that hide rows of the base."""
    requests: int = 0
    bytes_read: int = 0
    time_to_first_file_s: float | None = None
    elapsed_s: float = 0.0
    complete: bool = False
    """The scan came to its end or its limit."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
