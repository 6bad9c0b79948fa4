"""Delta Sidecar: the live files of a Delta table as a stream, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.errors import (
    AccessDeniedError,
    CleanedUpError,
    ConflictError,
    ConsumedStreamError,
    CorruptDataError,
    CorruptIndexError,
    CorruptLogError,
    CorruptTableError,
    CursorError,
    DeltaSidecarError,
    DuplicateKeyError,
    FeedStartsLaterError,
    InputError,
    LogGapError,
    MissingDataError,
    NoChangeFeedError,
    NotOfferedError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OptionError,
    OtherTableError,
    PositionError,
    PredicateError,
    QueryError,
    SchemaChangedError,
    ServerBusyError,
    ServerError,
    SparkError,
    StorageError,
    StoreUnavailableError,
    TableChangedError,
    TableNotFoundError,
    TicketError,
    UncertainCommitError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTableError,
    UnsupportedTypeError,
    VersionAfterLatestError,
    VersionNotFoundError,
    VersionRangeError,
)
from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.data.read_metrics import ReadMetrics
    from delta_sidecar.data.row_stream import RowStream
    from delta_sidecar.engines.datafusion import QueryBuilder
    from delta_sidecar.engines.engine_plan import EnginePlan
    from delta_sidecar.index.build.build import BuildReport
    from delta_sidecar.index.build.build_job import BuildOptions
    from delta_sidecar.index.verify.verify import VerifyReport
    from delta_sidecar.indexing import build_index, verify_index
    from delta_sidecar.scan.file_infos import FileInfo
    from delta_sidecar.scan.file_scan import FileScan
    from delta_sidecar.scan.scan_metrics import ScanMetrics
    from delta_sidecar.scan.scan_plan import ScanPlan
    from delta_sidecar.scan.scan_position import ScanPosition
    from delta_sidecar.server.client import Connection, RemoteStream, RemoteTable, connect
    from delta_sidecar.table import DeltaTable, ProtocolVersions, TableMetadata

__version__ = "0.1.0.dev0"

_MODULES = {
    "BuildOptions": "index.build.build_job",
    "BuildReport": "index.build.build",
    "Connection": "server.client",
    "DeltaTable": "table",
    "EnginePlan": "engines.engine_plan",
    "FileInfo": "scan.file_infos",
    "FileScan": "scan.file_scan",
    "ProtocolVersions": "table",
    "QueryBuilder": "engines.datafusion",
    "ReadMetrics": "data.read_metrics",
    "RemoteStream": "server.client",
    "RemoteTable": "server.client",
    "RowStream": "data.row_stream",
    "ScanMetrics": "scan.scan_metrics",
    "ScanPlan": "scan.scan_plan",
    "ScanPosition": "scan.scan_position",
    "TableMetadata": "table",
    "VerifyReport": "index.verify.verify",
    "build_index": "indexing",
    "connect": "server.client",
    "verify_index": "indexing",
}
"""The modules of names that import pyarrow. They are imported on first use: `sidecar --help` needs none of them."""

if not TYPE_CHECKING:
    # A type checker knows the names from the imports above, and reports any other.
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AccessDeniedError",
    "BuildOptions",
    "BuildReport",
    "CleanedUpError",
    "ConflictError",
    "Connection",
    "ConsumedStreamError",
    "CorruptDataError",
    "CorruptIndexError",
    "CorruptLogError",
    "CorruptTableError",
    "CursorError",
    "DeltaSidecarError",
    "DeltaTable",
    "DuplicateKeyError",
    "EnginePlan",
    "FeedStartsLaterError",
    "FileInfo",
    "FileScan",
    "InputError",
    "LogGapError",
    "MissingDataError",
    "NoChangeFeedError",
    "NotOfferedError",
    "ObjectChangedError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OptionError",
    "OtherTableError",
    "PositionError",
    "PredicateError",
    "ProtocolVersions",
    "QueryBuilder",
    "QueryError",
    "ReadMetrics",
    "RemoteStream",
    "RemoteTable",
    "RowStream",
    "ScanMetrics",
    "ScanPlan",
    "ScanPosition",
    "SchemaChangedError",
    "ServerBusyError",
    "ServerError",
    "SparkError",
    "StorageError",
    "StoreUnavailableError",
    "TableChangedError",
    "TableMetadata",
    "TableNotFoundError",
    "TicketError",
    "UncertainCommitError",
    "UnknownColumnError",
    "UnsupportedFeatureError",
    "UnsupportedTableError",
    "UnsupportedTypeError",
    "VerifyReport",
    "VersionAfterLatestError",
    "VersionNotFoundError",
    "VersionRangeError",
    "__version__",
    "build_index",
    "connect",
    "verify_index",
]
