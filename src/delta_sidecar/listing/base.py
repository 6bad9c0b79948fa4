"""The interface of a base: a plan of what to read for a request, and then the live files.

A base holds all files of a version: a checkpoint, an index. `live_files` walks the commits after it and asks it for the
files that these do not hide; if the base turns out to be broken, it asks the next one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final, Literal, Protocol, TypeAlias

import pyarrow as pa
from msgspec import Struct, field

from delta_sidecar.errors import CorruptIndexError, CorruptLogError
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import OtherBase
from delta_sidecar.storage.store import Store

Tier: TypeAlias = Literal["index", "footer", "checkpoint"]
BROKEN: Final = (CorruptLogError, CorruptIndexError)
"""The errors of a damaged base, after which the listing continues on the next one."""


class LiveRows(Struct, frozen=True):
    """Live files that may match."""

    rows: pa.RecordBatch
    considered: int
    """Files before pruning. Hidden files count, too, where stats alone rule them out."""
    is_projected: bool = False
    """Whether the rows already have the columns of the output."""


class AtMost(Struct, frozen=True):
    """Upper bounds of what will be read of a base. `row_groups` and `bytes` are None if the base must be opened to
    know."""

    row_groups: int | None
    bytes: int | None
    stats_files: int = 0


class BaseCounts(Struct):
    """How much of a base exists, and how much was read."""

    parts_total: int = 0
    parts_read: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Which row groups were read, by the name of their part; empty if the base has no parts."""


class BasePlan(Protocol):
    """What will be read of a base for one request. It runs once. What a damaged base raises is one of `BROKEN`."""

    @property
    def tier(self) -> Tier: ...

    @property
    def counts(self) -> BaseCounts:
        """What was read so far."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that will be read; empty if the base has no parts."""
        ...

    @property
    def at_most(self) -> AtMost: ...

    def begin(self) -> None:
        """Start the first requests without waiting for them. Damage that shows here is raised by `rows`."""
        ...

    def rows(self, replay: Replay) -> Iterator[LiveRows]:
        """The live files. Raises an error of `BROKEN` if the base is damaged."""
        ...

    def hide_rows_out(self, replay: Replay) -> bool:
        """Hide the files that were already returned, so another base can continue; False if that is impossible."""
        ...

    def close(self) -> None:
        """Start no more requests."""
        ...


class ListableBase(OtherBase):
    """A base outside the log, such as an index. Checkpoints are planned by `CheckpointPlan`."""

    @abstractmethod
    def plan(self, store: Store, request: FileRequest) -> BasePlan:
        """What will be read for a request; nothing is read here."""
        ...
