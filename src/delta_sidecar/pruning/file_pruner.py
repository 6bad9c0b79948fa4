"""Files that cannot hold a matching row are left out, by their partition values, time buckets and stats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags, pc, streaming_pool
from delta_sidecar.predicates.expression import And, Column, Expression, columns_of, conjuncts
from delta_sidecar.pruning.bucket_ranges import BucketRanges
from delta_sidecar.pruning.file_bounds import FileBounds
from delta_sidecar.pruning.may_match import may_match, needed_stats
from delta_sidecar.values.time_buckets import contradicted


class FilePruner:
    """Leaves out files that cannot hold a matching row.

    Conditions on partition values alone are tried first: they need no stats, and what they leave out need not
    have its stats parsed. What follows from a time bucket counts only as far as the bucket is believed.
    """

    def __init__(self, predicate: Expression | BucketRanges | None, partition_timezone: str) -> None:
        ranges = predicate if predicate is None or isinstance(predicate, BucketRanges) else BucketRanges(predicate)
        self.timezone = partition_timezone
        terms = self._terms = [] if ranges is None else conjuncts(ranges.predicate)
        on_partition = [t for t in terms if is_on_partition(t)]
        self.stats_terms = [t for t in terms if t not in on_partition]
        self.by_partition = conjunction(on_partition) if on_partition else None
        """The conditions that need no stats; None if there are none, as of `by_stats` and `by_bucket`."""
        self.by_bucket = None if ranges is None else ranges.derived
        """What is derived for time buckets."""
        self.by_stats = conjunction(self.stats_terms) if self.stats_terms else None
        self.mixes_partition_and_stats = any(c.is_partition for t in self.stats_terms for c in columns_of(t))
        """Whether a condition is on both: then neither alone decides it."""
        self.stats_columns: list[Column] = [] if ranges is None else needed_stats(ranges.predicate)
        self.needs_partition_values = self.by_bucket is not None or any(
            c.is_partition for t in terms for c in columns_of(t)
        )
        self._buckets = () if ranges is None else ranges.buckets
        both = [*on_partition, *([] if self.by_bucket is None else conjuncts(self.by_bucket))]
        self._by_partition_and_bucket = conjunction(both) if both else None

    def passing(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows may match, by whatever columns they have."""
        return self._may_match(conjunction(self._terms), rows)

    def prune(
        self, rows: pa.RecordBatch, stats_are_settled: bool = False, buckets_are_checked: bool = False
    ) -> pa.RecordBatch:
        """The rows that may match; if their stats were already compared, only by partition values. Where
        `buckets_are_checked`, no file's time bounds contradict its bucket."""
        first = self._by_partition_and_bucket if buckets_are_checked else self.by_partition
        rows = self._pruned(rows, first)
        if not buckets_are_checked and self.by_bucket is not None and rows.num_rows:
            keep = arrays.to_numpy_bool(self._may_match(self.by_bucket, rows))
            if not keep.all():
                keep[~keep] = self.contradicted(arrays.filtered(rows, ~keep))
                rows = rows if keep.all() else arrays.filtered(rows, keep)
        return self._pruned(rows, None if stats_are_settled else self.by_stats)

    def contradicted(self, rows: pa.RecordBatch | None, texts: Sequence[str | None] | None = None) -> Flags:
        """Which files have time bounds that contradict a bucket of theirs. `texts` are the stats, where these are no
        column of the rows."""
        times = list(dict.fromkeys(bucket.time for bucket in self._buckets))
        bounds = FileBounds(rows, times, self.timezone, widen=False, texts=texts)
        flags = np.zeros(0 if rows is None else rows.num_rows, np.bool_)
        for bucket in self._buckets:
            values = [bounds.bounds(column) for column in bucket.columns]
            time = bounds.bounds(bucket.time)
            known = [value.minimum for value in values if value is not None]
            if time is not None and len(known) == len(values):
                flags |= contradicted(bucket.form, known, time.minimum, time.maximum, time.null_count)
        return flags

    def _pruned(self, rows: pa.RecordBatch, condition: Expression | None) -> pa.RecordBatch:
        if condition is None or not rows.num_rows:
            return rows
        keep = self._may_match(condition, rows)
        return rows if keep.true_count == rows.num_rows else pc.filter(rows, keep, memory_pool=streaming_pool())

    def _may_match(self, condition: Expression, rows: pa.RecordBatch) -> pa.BooleanArray:
        bounds = FileBounds(rows, list(columns_of(condition)), self.timezone)
        return may_match(condition, bounds, rows.num_rows)


def is_on_partition(term: Expression) -> bool:
    """Whether partition values alone decide a term."""
    return all(column.is_partition for column in columns_of(term))


def conjunction(terms: Sequence[Expression]) -> Expression:
    """All of some terms."""
    return terms[0] if len(terms) == 1 else And(tuple(terms))
