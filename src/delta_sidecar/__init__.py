"""Delta Sidecar: the live files of a Delta table as a stream, in bounded memory."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import (
    AccessDeniedError,
    ConflictError,
    ConsumedStreamError,
    CorruptDataError,
    CorruptIndexError,
    CorruptLogError,
    CorruptTableError,
    DeltaSidecarError,
    InputError,
    LogGapError,
    NotOfferedError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OptionError,
    PredicateError,
    SparkError,
    StorageError,
    StoreUnavailableError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTableError,
    UnsupportedTypeError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from delta_sidecar.scan.file_infos import FileInfo
    from delta_sidecar.scan.file_scan import FileScan
    from delta_sidecar.scan.scan_metrics import ScanMetrics
    from delta_sidecar.scan.scan_plan import ScanPlan
    from delta_sidecar.table import DeltaTable

__version__ = "0.1.0.dev0"

_LATER = {
    "DeltaTable": "delta_sidecar.table",
    "FileInfo": "delta_sidecar.scan.file_infos",
    "FileScan": "delta_sidecar.scan.file_scan",
    "ScanMetrics": "delta_sidecar.scan.scan_metrics",
    "ScanPlan": "delta_sidecar.scan.scan_plan",
}
"""What brings pyarrow is imported when it is first asked for: `sidecar --help` does without."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AccessDeniedError",
    "ConflictError",
    "ConsumedStreamError",
    "CorruptDataError",
    "CorruptIndexError",
    "CorruptLogError",
    "CorruptTableError",
    "DeltaSidecarError",
    "DeltaTable",
    "FileInfo",
    "FileScan",
    "InputError",
    "LogGapError",
    "NotOfferedError",
    "ObjectChangedError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OptionError",
    "PredicateError",
    "ScanMetrics",
    "ScanPlan",
    "SparkError",
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
