"""What a caller records with an operation, and what the operation tells of itself afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from delta_sidecar.errors import OptionError
from delta_sidecar.lake.commit_marks import LineageContext, Scalar

OutcomeState: TypeAlias = Literal["committed", "nothing to do", "done already", "not known"]


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What to record in a commit, and what to do after it.

    Raises:
        OptionError: `app_id` and `batch_id` are not given together, or are out of range.

    Example:
        >>> from delta_sidecar.lake import CommitOptions, LineageContext
        >>> commit = CommitOptions({"team": "growth"}, LineageContext(tags={"job": "nightly"}), index=True)
        >>> commit.metadata["team"]
        'growth'
    """

    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    """Keys of your own for the commit's `userMetadata`; those that begin with `sidecar.` are ours."""
    lineage: LineageContext | None = None
    app_id: str | None = None
    """With `batch_id`, identifies the operation, which is then committed once, however often it is run."""
    batch_id: int | None = None
    index: bool = False
    """Bring the index up to date after the commit. If that fails it is logged: the commit stands."""

    def __post_init__(self) -> None:
        if (self.app_id is None) != (self.batch_id is None):
            raise OptionError("app_id and batch_id must be given together")
        if self.app_id == "" or (self.batch_id is not None and self.batch_id < 0):
            raise OptionError("app_id must not be empty and batch_id not negative")

    @property
    def once(self) -> tuple[str, int] | None:
        return None if self.app_id is None or self.batch_id is None else (self.app_id, self.batch_id)


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What an operation did, read from its own commit in the log.

    Example:
        >>> from delta_sidecar.lake import write
        >>> outcome = write(spark, "numbers", spark.range(3))
        >>> outcome.state, outcome.version, outcome.rows, outcome.attempts
        ('committed', 1, 3, 1)
    """

    state: OutcomeState
    """`nothing to do`: no row was concerned, so Delta made no commit. `done already`: the same `batch_id` is in the
    table. `not known`: committed, but the log could not be read afterwards."""
    token: str
    """Stands in the commit's `userMetadata` as `sidecar.token`."""
    version: int | None = None
    rows: int | None = None
    """Rows in the files that were added, copied ones included; None without statistics."""
    files: int | None = None
    """Files that were added."""
    bytes: int | None = None
    removed_files: int | None = None
    inserted: int | None = None
    """Rows, as the commit says; None where it does not: a delete of whole files may not count them."""
    updated: int | None = None
    deleted: int | None = None
    attempts: int = 1
    conflicts: tuple[str, ...] = ()
    """What the failed attempts conflicted with."""
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class EnsuredTable:
    """The table as `ensure_table` found or created it.

    Example:
        >>> from delta_sidecar.lake import ensure_table
        >>> ensure_table(spark, "users", "id BIGINT, name STRING")
        EnsuredTable(created=True, version=0, altered=())
    """

    created: bool
    """Whether this call created it."""
    version: int
    altered: tuple[str, ...] = ()
    """Properties that this call set."""
