"""Delta Sidecar: the live files of a Delta table as a stream, in bounded memory."""

from __future__ import annotations

from delta_sidecar.errors import (
    AccessDeniedError,
    CorruptDataError,
    CorruptLogError,
    CorruptTableError,
    DeltaSidecarError,
    InputError,
    LogGapError,
    ObjectExistsError,
    ObjectNotFoundError,
    OptionError,
    PredicateError,
    StorageError,
    StoreUnavailableError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTableError,
    UnsupportedTypeError,
    VersionNotFoundError,
)
from delta_sidecar.scan.infos import FileInfo
from delta_sidecar.scan.metrics import ScanMetrics
from delta_sidecar.scan.plan import ScanPlan
from delta_sidecar.scan.stream import FileScan
from delta_sidecar.table import DeltaTable

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "CorruptDataError",
    "CorruptLogError",
    "CorruptTableError",
    "DeltaSidecarError",
    "DeltaTable",
    "FileInfo",
    "FileScan",
    "InputError",
    "LogGapError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OptionError",
    "PredicateError",
    "ScanMetrics",
    "ScanPlan",
    "StorageError",
    "StoreUnavailableError",
    "TableNotFoundError",
    "UnknownColumnError",
    "UnsupportedFeatureError",
    "UnsupportedTableError",
    "UnsupportedTypeError",
    "VersionNotFoundError",
    "__version__",
]
