"""Prune the adds of commits as objects, before they become rows.

A tail has few partition values and many files in each, so conditions on partition values are tested once for each
distinct value. If these decide, the stats of a file are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delta_sidecar import arrays
from delta_sidecar.log.actions import Add, BareAdd
from delta_sidecar.log.commits import add_rows
from delta_sidecar.predicates.expression import Expression, Or, columns_of
from delta_sidecar.pruning.file_bounds import FileBounds
from delta_sidecar.pruning.file_pruner import FilePruner, conjunction, is_on_partition
from delta_sidecar.pruning.may_match import may_match

PartitionValues: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What the partition values of a file decide."""

    may_match: bool
    stats_matter: bool
    is_doubted: bool
    """Whether only its time bucket rules it out; its own bounds may contradict that."""


class AddPruner:
    """Leaves out adds that cannot hold a matching row: the same files that `FilePruner` leaves out."""

    def __init__(self, pruner: FilePruner, most_verdicts: int = 10_000) -> None:
        """`most_verdicts` is the number of partition values whose verdicts are kept."""
        self._most_verdicts = most_verdicts
        self._timezone = pruner.timezone
        self._by_partition = pruner.by_partition
        self._by_bucket = pruner.by_bucket
        self._by_stats = pruner.by_stats
        self._pruner = pruner
        self._kept_anyway = None if self._by_stats is None else _kept_by_partition(pruner.stats_terms)
        self._verdicts: dict[PartitionValues, _Verdict] = {}

    def passing(self, adds: Sequence[Add | BareAdd]) -> NDArray[np.bool_]:
        """Which adds may match."""
        if self._by_partition is None and self._by_bucket is None and self._by_stats is None:
            return np.ones(len(adds), np.bool_)
        verdicts, numbers = self._verdicts_on(adds)
        flags = np.array([verdict.may_match for verdict in verdicts], np.bool_)[numbers]
        matter = np.array([verdict.stats_matter for verdict in verdicts], np.bool_)[numbers]
        doubted = np.flatnonzero(np.array([verdict.is_doubted for verdict in verdicts], np.bool_)[numbers])
        if len(doubted):
            matter[doubted] = flags[doubted] = self._contradicted([adds[row] for row in doubted.tolist()])
        if self._by_stats is None:
            return flags
        undecided = np.flatnonzero(matter)
        if len(undecided):
            flags[undecided] = self._may_by_stats(self._by_stats, [adds[row] for row in undecided.tolist()])
        return flags

    def _verdicts_on(self, adds: Sequence[Add | BareAdd]) -> tuple[list[_Verdict], NDArray[np.intp]]:
        """A verdict on each distinct partition value, and which of them each add has."""
        by_values: dict[PartitionValues, tuple[int, Add | BareAdd]] = {}
        numbers: list[int] = []
        last: Any = self
        number = 0
        for add in adds:
            # Neighbours mostly have the same values.
            if add.partitionValues != last:
                last = add.partitionValues
                number, _ = by_values.setdefault(tuple((last or {}).items()), (len(by_values), add))
            numbers.append(number)
        self._learn([add for values, (_, add) in by_values.items() if values not in self._verdicts])
        verdicts = [self._verdicts[values] for values in by_values]
        if len(self._verdicts) > self._most_verdicts:
            self._verdicts.clear()
        return verdicts, np.array(numbers, np.intp)

    def _learn(self, adds: Sequence[Add | BareAdd]) -> None:
        """The verdicts on partition values, each of which one add has."""
        if not adds:
            return
        rows = add_rows(adds, ["partition_values"])
        everything, nothing = np.ones(len(adds), np.bool_), np.zeros(len(adds), np.bool_)
        passes = everything if self._by_partition is None else self._may(self._by_partition, rows)
        inside = everything if self._by_bucket is None else self._may(self._by_bucket, rows)
        kept = everything if self._by_stats is None else nothing
        if self._kept_anyway is not None:
            kept = self._may(self._kept_anyway, rows)
        answers = (passes & inside, passes & inside & ~kept, passes & ~inside)
        for add, *verdict in zip(adds, *(flags.tolist() for flags in answers), strict=True):
            self._verdicts[tuple((add.partitionValues or {}).items())] = _Verdict(*verdict)

    def _contradicted(self, adds: Sequence[Add | BareAdd]) -> NDArray[np.bool_]:
        return self._pruner.contradicted(add_rows(adds, ["partition_values"]), [add.stats for add in adds])

    def _may(self, condition: Expression, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        bounds = FileBounds(rows, list(columns_of(condition)), self._timezone)
        return arrays.to_numpy_bool(may_match(condition, bounds, rows.num_rows))

    def _may_by_stats(self, condition: Expression, adds: Sequence[Add | BareAdd]) -> NDArray[np.bool_]:
        columns = list(columns_of(condition))
        rows = add_rows(adds, ["partition_values"]) if any(column.is_partition for column in columns) else None
        bounds = FileBounds(rows, columns, self._timezone, texts=[add.stats for add in adds])
        return arrays.to_numpy_bool(may_match(condition, bounds, len(adds)))


def _kept_by_partition(terms: Sequence[Expression]) -> Expression | None:
    """A condition on partition values alone under which all terms may be true, whatever else; None without one."""
    either = [[t for t in term.terms if is_on_partition(t)] if isinstance(term, Or) else [] for term in terms]
    return conjunction([Or(tuple(options)) for options in either]) if all(either) else None
