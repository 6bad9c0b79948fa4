"""What a read of rows did."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class ReadMetrics:
    """Counters of one read; several threads add to them."""

    files_read: int = 0
    files_skipped: int = 0
    """Files that partition values ruled out, without a request."""
    row_groups_read: int = 0
    row_groups_pruned: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(
        self, *, files_read: int = 0, files_skipped: int = 0, row_groups_read: int = 0, row_groups_pruned: int = 0
    ) -> None:
        with self._lock:
            self.files_read += files_read
            self.files_skipped += files_skipped
            self.row_groups_read += row_groups_read
            self.row_groups_pruned += row_groups_pruned
