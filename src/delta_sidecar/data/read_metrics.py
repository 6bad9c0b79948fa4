"""Counters of a read of rows."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class ReadMetrics:
    """Counters of a read of rows: files and row groups, read and skipped.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> with DeltaTable("events").to_batches(predicate="id = 3") as rows:
        ...     found = [batch.num_rows for batch in rows]
        >>> found, rows.metrics.files_read
        ([1], 1)
    """

    # Several threads add to the counters.

    files_read: int = 0
    files_skipped: int = 0
    """Files that were skipped by their partition values, without a request; of changes also by the statistics of added
    files in the log."""
    row_groups_read: int = 0
    row_groups_pruned: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[ReadMetrics], tuple[int, ...]]:
        counters = (self.files_read, self.files_skipped, self.row_groups_read, self.row_groups_pruned)
        return ReadMetrics, counters

    def add(
        self, *, files_read: int = 0, files_skipped: int = 0, row_groups_read: int = 0, row_groups_pruned: int = 0
    ) -> None:
        with self._lock:
            self.files_read += files_read
            self.files_skipped += files_skipped
            self.row_groups_read += row_groups_read
            self.row_groups_pruned += row_groups_pruned
