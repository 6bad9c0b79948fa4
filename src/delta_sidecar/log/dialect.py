"""What is specific to Delta: the directory of the log, the kinds of its files, and the supported reader features.

A second dialect of the same kind of log is another instance, as in `search/log/dialect.py`. It is passed to whatever
lists or reads a log, and no other module of `log` knows Delta's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from delta_sidecar.log.log_names import Kind

if TYPE_CHECKING:
    from delta_sidecar.log.segment import CheckpointFiles
    from delta_sidecar.storage.store import Buffer, Store

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"


class Dialect(Struct, frozen=True):
    """The directory of a log, its files, and what a reader of it understands."""

    name: str
    """What tables with such a log are called in messages."""
    directory: str
    hint: str
    max_reader_version: int
    feature_version: int
    """From this reader version on, the protocol lists its features by name."""
    reader_features: frozenset[str]
    refusals: dict[str, str]
    """Features that are known and refused, with the reason."""
    kinds: frozenset[Kind]
    """The kinds of files that count; others in the directory are ignored."""
    numbered: frozenset[int] = frozenset()
    """Reader versions from `feature_version` on that are understood without a list of features."""
    unpack: Callable[[Iterable[Buffer], str], Iterator[Buffer]] | None = None
    """Makes text of the bytes of a commit, given its path; None if they are text."""
    open_checkpoint: Callable[[Store, CheckpointFiles], Any] | None = None
    """Opens a checkpoint; None if it is read as Delta's are."""


DELTA = Dialect(
    name="Delta table",
    directory=LOG_DIRECTORY,
    hint=LAST_CHECKPOINT,
    max_reader_version=3,
    feature_version=3,
    reader_features=frozenset(
        {
            "columnMapping",
            "deletionVectors",
            "timestampNtz",
            "timestampWithoutTimezone",
            "v2Checkpoint",
            "vacuumProtocolCheck",
            "typeWidening",
            "typeWidening-preview",
            "variantType",
            "variantType-preview",
            "variantShredding",
            "variantShredding-preview",
        }
    ),
    refusals={
        "catalogManaged": "a catalog manages its commits, and the log does not hold all of them",
        "catalogOwned-preview": "a catalog manages its commits, and the log does not hold all of them",
        "redirectReaderWriter-preview": "the table redirects its readers elsewhere",
    },
    kinds=frozenset(Kind) - {Kind.JSON_CHECKPOINT},
)
