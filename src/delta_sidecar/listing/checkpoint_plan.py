"""The live files of a checkpoint: its rows that the mask does not hide, pruned, decoded on two threads if that pays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from delta_sidecar.flow.lanes import Interleaved
from delta_sidecar.listing.base import AtMost, BaseCounts, LiveRows, Tier
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.checkpoint import Checkpoint
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.storage.metered import MeteredStore


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
        base, opened = self._snapshot.segment.base, self._snapshot.opened
        groups = None if opened is None else opened.cost.row_groups_total
        return AtMost(groups, 0 if base is None else base.size)

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
