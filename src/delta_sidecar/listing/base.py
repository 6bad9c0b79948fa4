"""What every base offers: a plan of what is to be read of it for a request, and then its live files.

A base holds all files of a version: a checkpoint, an index. `live_files` walks the commits after it and asks it for the
files that these do not hide; where it turns out broken, it asks the next one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import pyarrow as pa

from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.replay import Replay
from delta_sidecar.storage.store import Store

Tier: TypeAlias = Literal["index", "footer", "checkpoint"]


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Live files that may match, and how many live ones were looked at."""

    rows: pa.RecordBatch
    considered: int
    is_projected: bool = False
    """Whether the rows have the columns of the output already."""


@dataclass(frozen=True, slots=True)
class AtMost:
    """What a base will cost at most; None where that is not known before it is opened."""

    row_groups: int | None
    bytes: int
    stats_files: int = 0


@dataclass(slots=True)
class BaseCounts:
    """What was read of a base, of what."""

    parts_total: int = 0
    parts_read: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0


class BasePlan(Protocol):
    """What is to be read of a base for one request. It is run once."""

    @property
    def tier(self) -> Tier: ...

    @property
    def counts(self) -> BaseCounts:
        """What was read so far."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that will be read, by name; none where the base has no parts."""
        ...

    @property
    def at_most(self) -> AtMost: ...

    def begin(self) -> None:
        """Send for what is needed first, without waiting for it."""
        ...

    def rows(self, replay: Replay) -> Iterator[LiveRows]:
        """The live files. `CorruptLogError` or `CorruptIndexError` where the base is broken."""
        ...

    def hide_rows_out(self, replay: Replay) -> bool:
        """Hide the files that are out already, so that another base may go on; False if that cannot be done."""
        ...

    def close(self) -> None:
        """Send for nothing more."""
        ...


class Base(ABC):
    """All live files of a version, held elsewhere than in the log."""

    @abstractmethod
    def plan(self, store: Store, request: FileRequest) -> BasePlan:
        """What is to be read for a request; nothing is read here."""
        ...
