"""The dialect of search tables: note 004's log, and what IndexTables writes today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from delta_sidecar.log.dialect import Dialect
from delta_sidecar.log.log_names import Kind
from delta_sidecar.search.log.packing import unpack

if TYPE_CHECKING:
    from delta_sidecar.log.segment import CheckpointFiles
    from delta_sidecar.search.log.checkpoints import SplitCheckpoint
    from delta_sidecar.storage.store import Store

LOG_DIRECTORY: Final = "_transaction_log"
PROVIDER: Final = "indextables"
"""The `format.provider` of every search table."""
PARQUET_CHECKPOINT: Final = "parquetCheckpoint"
"""The feature, for readers and writers, that lets checkpoints be Parquet files."""

MAX_WRITER_VERSION: Final = 3
WRITER_FEATURES: Final = frozenset(
    {"conditionalWrites", "checkpoints", "footerOffsets", "tantivy4java", PARQUET_CHECKPOINT}
)


def _open(store: Store, files: CheckpointFiles) -> SplitCheckpoint:
    from delta_sidecar.search.log.checkpoints import open_checkpoint

    return open_checkpoint(store, files)


SEARCH: Final = Dialect(
    name="search table",
    directory=LOG_DIRECTORY,
    hint=f"{LOG_DIRECTORY}/_last_checkpoint",
    max_reader_version=4,
    feature_version=3,
    reader_features=frozenset({"footerOffsets", "tantivy4java", PARQUET_CHECKPOINT}),
    refusals={},
    kinds=frozenset({Kind.COMMIT, Kind.JSON_CHECKPOINT, Kind.CLASSIC_CHECKPOINT}),
    # What IndexTables writes since its protocol 4: state in Avro, no list of features.
    numbered=frozenset({4}),
    unpack=unpack,
    open_checkpoint=_open,
)
