"""The native library by ctypes: `delta_sidecar.h` in Python."""

from __future__ import annotations

import ctypes
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "DELTA_SIDECAR_NATIVE"
DEFAULT = ROOT / "build" / "native" / "release" / "libdelta_sidecar.so"

OK, STOPPED, NO_INDEX, NO_TABLE, NO_VERSION, BAD_ARGUMENT, BAD_PREDICATE = range(7)
UNSUPPORTED, CORRUPT, IO, CREDENTIALS, INTERNAL = range(7, 12)

tried: Counter[str] = Counter()
"""What random cases tried; the summary of a run says it."""

Options: TypeAlias = dict[str, Any] | str | bytes | None


class _PartitionValue(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class _DeletionVector(Structure):
    _fields_ = [
        ("storage_type", c_char_p),
        ("path_or_inline_dv", c_char_p),
        ("has_offset", c_int32),
        ("offset", c_int32),
        ("size_in_bytes", c_int32),
        ("cardinality", c_int64),
    ]


class File(Structure):
    _fields_ = [
        ("path", c_char_p),
        ("uri", c_char_p),
        ("size", c_int64),
        ("modification_time", c_int64),
        ("records", c_int64),
        ("partition_values", POINTER(_PartitionValue)),
        ("partition_count", c_size_t),
        ("deletion_vector", POINTER(_DeletionVector)),
    ]


Callback = CFUNCTYPE(c_int32, POINTER(File), c_void_p)
STREAM_BYTES = 5 * ctypes.sizeof(c_void_p)


class NativeError(Exception):
    """A call that did not answer `OK`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def library_path() -> Path:
    return Path(os.environ.get(VARIABLE, DEFAULT))


def needed() -> pytest.MarkDecorator:
    """Skip where the library is not built, and say how to build it."""
    why = f"the native library is not built: run `make native`, or name it in {VARIABLE}"
    return pytest.mark.skipif(not library_path().exists(), reason=why)


@cache
def native() -> ctypes.CDLL:
    """The library, with the types of its functions."""
    found = ctypes.CDLL(str(library_path()))
    text, scan = c_char_p, c_void_p
    for name, result, arguments in [
        ("delta_scan_lazy", c_int32, [text, text, Callback, c_void_p]),
        ("delta_scan_open", c_int32, [text, text, POINTER(scan)]),
        ("delta_scan_next", c_int32, [scan, POINTER(POINTER(File))]),
        ("delta_scan_requests", c_uint64, [scan]),
        ("delta_scan_version", c_int64, [scan]),
        ("delta_scan_close", None, [scan]),
        ("delta_scan_stream", c_int32, [text, text, c_void_p]),
        ("delta_last_error", text, []),
        ("delta_last_error_copy", c_void_p, []),
        ("delta_free_string", None, [c_void_p]),
        ("delta_version", text, []),
        ("delta_abi_version", c_int32, []),
    ]:
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def last_error() -> str:
    return str(native().delta_last_error().decode())


def _checked(code: int) -> None:
    if code != OK:
        raise NativeError(code, last_error())


def encoded(options: Options) -> bytes | None:
    if isinstance(options, dict):
        return json.dumps(options).encode()
    return options.encode() if isinstance(options, str) else options


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def described(file: Any) -> dict[str, Any]:
    """A file of the library as a row of a listing."""
    vector = file.deletion_vector[0] if file.deletion_vector else None
    unknown = lambda number: None if number == -1 else number  # noqa: E731
    return {
        "path": _text(file.path),
        "uri": _text(file.uri),
        "size": unknown(file.size),
        "modification_time": unknown(file.modification_time),
        "num_records": unknown(file.records),
        "partition_values": {
            file.partition_values[at].name.decode(): _text(file.partition_values[at].value)
            for at in range(file.partition_count)
        },
        "deletion_vector": vector
        and {
            "storageType": _text(vector.storage_type),
            "pathOrInlineDv": _text(vector.path_or_inline_dv),
            "offset": vector.offset if vector.has_offset else None,
            "sizeInBytes": vector.size_in_bytes,
            "cardinality": unknown(vector.cardinality),
        },
    }


def lazily(table: str | Path | bytes | None, options: Options, each: Callable[[dict[str, Any]], bool]) -> int:
    """`delta_scan_lazy`: its code. What `each` raises is raised here."""
    raised: list[BaseException] = []

    def called(file: Any, _: Any) -> int:
        try:
            return int(each(described(file[0])))
        except BaseException as error:
            raised.append(error)
            return 0

    place = table if isinstance(table, bytes) or table is None else str(table).encode()
    code = int(native().delta_scan_lazy(place, encoded(options), Callback(called), None))
    if raised:
        raise raised[0]
    return code


def answered(table: str | Path, **options: Any) -> tuple[int, list[dict[str, Any]]]:
    """The code of a listing by the callback, and the files it gave."""
    found: list[dict[str, Any]] = []
    return lazily(table, options, lambda file: found.append(file) is None), found


def files(table: str | Path, **options: Any) -> list[dict[str, Any]]:
    """All files, by the callback."""
    code, found = answered(table, **options)
    _checked(code)
    return found


@contextmanager
def opened(table: str | Path, **options: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The files one by one; the scan is closed at the end of the block."""
    scan = c_void_p()
    _checked(native().delta_scan_open(str(table).encode(), encoded(options), byref(scan)))

    def each() -> Iterator[dict[str, Any]]:
        file = POINTER(File)()
        while True:
            _checked(native().delta_scan_next(scan, byref(file)))
            if not file:
                return
            yield described(file[0])

    try:
        yield each()
    finally:
        native().delta_scan_close(scan)


def listing_and_requests(table: str, **options: Any) -> tuple[list[dict[str, Any]], int]:
    """All files, and the requests they took."""
    scan, file = c_void_p(), POINTER(File)()
    _checked(native().delta_scan_open(table.encode(), encoded(options), byref(scan)))
    found = []
    try:
        while True:
            _checked(native().delta_scan_next(scan, byref(file)))
            if not file:
                return found, int(native().delta_scan_requests(scan))
            found.append(described(file[0]))
    finally:
        native().delta_scan_close(scan)


def stream(table: str | Path, **options: Any) -> pa.RecordBatchReader:
    """The files as Arrow batches."""
    room = ctypes.create_string_buffer(STREAM_BYTES)
    _checked(native().delta_scan_stream(str(table).encode(), encoded(options), room))
    return pa.RecordBatchReader._import_from_c(ctypes.addressof(room))
