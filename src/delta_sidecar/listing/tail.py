"""The live adds of the commits after a base that may match, as rows: pruned as the objects they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

from delta_sidecar.listing.base import LiveRows
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.commits import CommitBytes, rows_of
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.tail import AddsOfCommit, TailWalk

_MERGED_ROWS = 10_000
"""Rows of small commits that are put together."""


class Tail:
    """Gives the files of commits for a request."""

    def __init__(self, request: FileRequest, commits: CommitBytes, maker: KeyMaker, replay: Replay) -> None:
        self._request = request
        ahead = 2 if request.limit is not None else request.settings.commit_parallelism
        matter = request.add_pruner.stats_matter if request.stats_may_not_matter else None
        self.walk = TailWalk(commits, maker, replay, request.source.names, ahead, matter)

    def rows(self, commits: Sequence[CommitRange], at_once: bool) -> Iterator[LiveRows]:
        """The live adds of commits, newest first; `at_once` reads all of them before the first is given."""
        if self._request.limit is not None and not at_once:
            return (self._pruned([adds]) for adds in self.walk.one_by_one(commits))
        most = min(_MERGED_ROWS, self._request.batch_size)
        together = self.walk.together(commits, most, alone=0 if at_once else 1)
        return map(self._pruned, list(together) if at_once else together)

    def _pruned(self, held: list[AddsOfCommit]) -> LiveRows:
        """Adds of some commits that may match, as rows."""
        adds = [add for _, some in held for add in some]
        keep = iter(self._request.add_pruner.passing(adds).tolist())
        kept: list[tuple[str, Any]] = [(path, list(compress(some, keep))) for path, some in held]
        return LiveRows(rows_of(kept, self._request.settled_source.names), len(adds))
