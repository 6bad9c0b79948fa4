"""Inserted files that hold no matching row, by the statistics that their adds have in the log.

Only inserts: the rows that are live after a commit are what the statistics of its adds are about. What deleted rows
held need not be within them. And only of commits since the schema last changed: bounds of an older type may be rounded
in another way.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_sidecar import arrays
from delta_sidecar.data.read_metrics import ReadMetrics
from delta_sidecar.log.commit_changes import FileChange
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.pruning.file_bounds import FileBounds
from delta_sidecar.pruning.may_match import may_match, needed_stats


class InsertPruner:
    """Leaves out files that cannot hold a matching row; a file without statistics is kept."""

    def __init__(self, predicate: Expression | None, metrics: ReadMetrics) -> None:
        """`predicate` is what rows must fulfil, but for what the constants of files settle."""
        self._predicate = predicate
        self._metrics = metrics
        needed = () if predicate is None else needed_stats(predicate)
        self._columns = [column for column in needed if column.fields[0].physical_name]

    @property
    def needs_stats(self) -> bool:
        """Whether statistics can leave out anything."""
        return bool(self._columns)

    def kept(self, changes: Sequence[FileChange]) -> Sequence[FileChange]:
        """The files that may hold a matching row."""
        if self._predicate is None or not any(change.stats is not None for change in changes):
            return changes
        texts = [change.stats for change in changes]
        bounds = FileBounds(None, self._columns, texts=texts)
        keep = arrays.to_numpy_bool(may_match(self._predicate, bounds, len(texts))).tolist()
        kept = [change for change, is_kept in zip(changes, keep, strict=True) if is_kept]
        self._metrics.add(files_skipped=len(changes) - len(kept))
        return kept
