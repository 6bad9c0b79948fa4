"""What is specific to Delta: the directory of the log, and the supported reader features.

A second dialect of the same kind of log needs another instance, and no other module of `log` should
know Delta's names.
"""

from __future__ import annotations

from msgspec import Struct

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"


class Dialect(Struct, frozen=True):
    """The directory of a log, its hint, and what a reader of it understands."""

    directory: str
    hint: str
    max_reader_version: int
    feature_version: int
    """From this reader version on, the protocol lists its features by name."""
    reader_features: frozenset[str]
    refusals: dict[str, str]
    """Features that are known and refused, with the reason."""


DELTA = Dialect(
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
)
