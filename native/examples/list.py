"""Prints the files of a table as `uri size`, one a line: list.py LIBRARY TABLE [OPTIONS]."""

import ctypes
import sys


class File(ctypes.Structure):
    """The first fields of `delta_file`; the others follow."""

    _fields_ = [("path", ctypes.c_char_p), ("uri", ctypes.c_char_p), ("size", ctypes.c_int64)]


library = ctypes.CDLL(sys.argv[1])
library.delta_last_error.restype = ctypes.c_char_p
library.delta_scan_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
library.delta_scan_next.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
library.delta_scan_close.argtypes = [ctypes.c_void_p]


def checked(code: int) -> None:
    if code:
        raise SystemExit(f"error {code}: {library.delta_last_error().decode()}")


options = sys.argv[3].encode() if len(sys.argv) > 3 else None
scan, file = ctypes.c_void_p(), ctypes.POINTER(File)()
checked(library.delta_scan_open(sys.argv[2].encode(), options, ctypes.byref(scan)))
try:
    checked(library.delta_scan_next(scan, ctypes.byref(file)))
    while file:
        print(file.contents.uri.decode(), file.contents.size)
        checked(library.delta_scan_next(scan, ctypes.byref(file)))
finally:
    library.delta_scan_close(scan)
