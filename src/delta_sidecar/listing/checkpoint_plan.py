"""The live files of a checkpoint: its rows that the mask does not hide, pruned, decoded on two threads if that pays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from delta_sidecar.flow.lanes import Interleaved
from delta_sidecar.listing.base import AtMost, BaseCounts, LiveRows, Tier
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.checkpoint import Checkpoint
from delta_sidecar.log.log_names import Kind
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CheckpointFiles
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.storage.blocks import DEFAULT_BLOCK
from delta_sidecar.storage.metered import MeteredStore
from delta_sidecar.storage.store import ObjectMeta, is_local

_FOOTER_GUESS = (64 << 10) + 8
"""Bytes at the end of a large file that Arrow reads first, because the footer may be in them, and the footer's end."""


class CheckpointPlan:
    """All row groups of a checkpoint that may hold files; its footers tell which, when it is opened."""

    tier: Tier = "checkpoint"
    parts: tuple[str, ...] = ()

    def __init__(self, snapshot: Snapshot, request: FileRequest) -> None:
        self._snapshot = snapshot
        self._request = request
        self._is_out = False
        self.counts = BaseCounts()

    @property
    def at_most(self) -> AtMost:
        opened = self._snapshot.opened
        if opened is not None:
            groups = [(file.meta, file.metadata.num_row_groups) for file in opened.parquet]
            return AtMost(opened.cost.row_groups_total, sum(self._most(meta, count) for meta, count in groups))
        base = self._snapshot.segment.base
        if not isinstance(base, CheckpointFiles) or self._may_have_sidecars(base):
            return AtMost(None, None)
        return AtMost(None, sum(self._most(meta) + self._footer(meta) for meta in base.files))

    def _may_have_sidecars(self, base: CheckpointFiles) -> bool:
        """Whether the checkpoint may name files that are known only when it is opened."""
        is_v2 = base.kind in (Kind.UUID_CHECKPOINT, Kind.JSON_CHECKPOINT)
        features = self._snapshot.protocol.readerFeatures or ()
        return len(base.files) == 1 and (is_v2 or "v2Checkpoint" in features)

    def _most(self, meta: ObjectMeta, row_groups: int | None = None) -> int:
        """Bytes of the rows of a file, at most: each lane may fetch all of it, unless pyarrow reads a local file."""
        if self._is_local:
            return meta.size
        lanes = self._request.order.lanes
        return meta.size * (lanes if row_groups is None else min(lanes, row_groups))

    def _footer(self, meta: ObjectMeta) -> int:
        """Bytes that opening a file reads, at most, beside those of its rows."""
        if self._is_local:
            return 0
        return meta.size if meta.size <= DEFAULT_BLOCK else _FOOTER_GUESS

    @property
    def _is_local(self) -> bool:
        return is_local(self._snapshot.store)

    def begin(self) -> None:
        """Starts nothing: what to read is known only after its footers were read."""

    def rows(self, replay: Replay) -> Iterator[LiveRows]:
        base = self._snapshot.open_base()
        assert base is not None
        try:
            base_filter = replay.base_filter()
            with closing(Interleaved([base_filter.live(lane) for lane in self._lanes(base)])) as lanes:
                for rows in lanes:
                    self._is_out = True
                    yield LiveRows(self._request.prune(rows), rows.num_rows)
        finally:
            self._note(base)
            base.close()

    def hide_rows_out(self, replay: Replay) -> bool:
        """False once rows were returned: which ones is not kept, because there may be ten million."""
        return not self._is_out

    def close(self) -> None:
        """Its rows close what they opened."""

    def _lanes(self, base: Checkpoint) -> list[Iterator[pa.RecordBatch]]:
        order = self._request.order
        return base.lanes(self._request.source, order.batch_size, order.lanes)

    def _note(self, base: Checkpoint) -> None:
        cost = base.cost
        self.counts.row_groups_total, self.counts.row_groups_read = cost.row_groups_total, cost.row_groups_read
        if isinstance(self._snapshot.store, MeteredStore):
            self._snapshot.store.charge(cost.requests, cost.bytes_read)
