"""Adds of commits pruned as the objects they are: what is left out never becomes a row.

A tail has few partition values and many files in each, so conditions on partition values are tried once for each
distinct one. Where these decide, the stats of a file are not looked at, nor even taken out of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delta_sidecar import arrays
from delta_sidecar.log.actions import Add, BareAdd
from delta_sidecar.log.commits import add_rows
from delta_sidecar.scan.bounds import FileBounds
from delta_sidecar.scan.expression import Expression, Or, columns_of
from delta_sidecar.scan.files import FilePruner, joined
from delta_sidecar.scan.prune import may_match

PartitionValues: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What partition values tell of a file."""

    may_match: bool
    stats_matter: bool


class AddPruner:
    """Leaves out adds that cannot hold a matching row: the same files as the rows' own pruner does."""

    def __init__(self, pruner: FilePruner) -> None:
        self._timezone = pruner.timezone
        self._by_partition = pruner.by_partition
        self._by_stats = pruner.by_stats
        self._kept_anyway = None if self._by_stats is None else _kept_by_partition(pruner.stats_terms)
        self._verdicts: dict[PartitionValues, _Verdict] = {}

    @property
    def may_do_without_stats(self) -> bool:
        """Whether partition values may tell of a file that its stats do not matter."""
        return self._by_partition is not None or self._kept_anyway is not None

    def stats_matter(self, adds: Sequence[Add | BareAdd]) -> bool:
        """Whether the stats of any add decide if it may match."""
        return any(verdict.stats_matter for verdict in self._of(adds))

    def passing(self, adds: Sequence[Add | BareAdd]) -> Sequence[bool]:
        """Which adds may match."""
        if self._by_partition is None and self._by_stats is None:
            return [True] * len(adds)
        verdicts = list(self._of(adds))
        flags = [verdict.may_match for verdict in verdicts]
        if self._by_stats is None or not any(verdict.stats_matter for verdict in verdicts):
            return flags
        undecided = [row for row, verdict in enumerate(verdicts) if verdict.stats_matter]
        by_stats = self._may_by_stats(self._by_stats, [adds[row] for row in undecided])
        for row in compress(undecided, ~by_stats):
            flags[row] = False
        return flags

    def _of(self, adds: Sequence[Add | BareAdd]) -> Iterator[_Verdict]:
        """The verdict on each add: neighbours mostly have the same values."""
        last: Any = self
        verdict = _Verdict(True, True)
        for add in adds:
            if add.partitionValues != last:
                last = add.partitionValues
                verdict = self._verdict(add)
            yield verdict

    def _verdict(self, add: Add | BareAdd) -> _Verdict:
        values = tuple((add.partitionValues or {}).items())
        found = self._verdicts.get(values)
        if found is None:
            rows = add_rows([add], ["partition_values"])
            passes = self._by_partition is None or self._may(self._by_partition, rows)
            kept = self._by_stats is None or (self._kept_anyway is not None and self._may(self._kept_anyway, rows))
            found = self._verdicts[values] = _Verdict(passes, passes and not kept)
        return found

    def _may(self, condition: Expression, rows: pa.RecordBatch) -> bool:
        bounds = FileBounds(rows, list(columns_of(condition)), self._timezone)
        return bool(may_match(condition, bounds, 1).true_count)

    def _may_by_stats(self, condition: Expression, adds: Sequence[Add | BareAdd]) -> NDArray[np.bool_]:
        rows = add_rows(adds, ["partition_values"])
        texts = [add.stats for add in adds]
        bounds = FileBounds(rows, list(columns_of(condition)), self._timezone, texts=texts)
        return arrays.to_numpy_bool(may_match(condition, bounds, len(adds)))


def _kept_by_partition(terms: Sequence[Expression]) -> Expression | None:
    """A condition on partition values alone under which all terms may be true, whatever else; None without one."""
    either = [[t for t in term.terms if _is_on_partition(t)] if isinstance(term, Or) else [] for term in terms]
    return joined([Or(tuple(some)) for some in either]) if all(either) else None


def _is_on_partition(term: Expression) -> bool:
    return all(column.is_partition for column in columns_of(term))
