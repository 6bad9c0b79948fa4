"""Replay keys: one spelling for each file, whatever the log writes.

A key is the canonical path and the id of the deletion vector, as bytes. Canonical means: dot segments
resolved; an absolute path without a scheme gets the table's scheme and authority; `file:/x` is
`file:///x`; `s3a` and `s3n` are `s3`; percent escapes are decoded, but for an escaped slash. A relative
path stays relative. Keys are only compared; what is emitted keeps the log's own text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.log.actions import DeletionVector

if TYPE_CHECKING:
    from numpy.typing import NDArray

_vector_of = attrgetter("deletionVector")
_DOT = ord(".")
_SLASH_THEN_DOT = ord("/") | ord(".") << 8
# A dot and a slash differ in their last bit alone.
_BUT_LAST_BIT, _BUT_LAST_BIT_OF_SECOND = 0xFE, 0xFEFF

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SCHEME_ALIASES = {b"s3a": b"s3", b"s3n": b"s3", b"abfs": b"abfss", b"wasb": b"abfss", b"wasbs": b"abfss"}
_MARK = b"\xff"
"""Stands before a byte that was escaped and would mean something else in a key: a slash within a name, or itself."""


class HasKey(Protocol):
    """An action that names a file."""

    @property
    def path(self) -> str: ...
    @property
    def deletionVector(self) -> DeletionVector | None: ...


_NO_KEYS: Final = arrays.binaries([])


class KeyMaker:
    """Makes replay keys for the table at `root_uri`."""

    def __init__(self, root_uri: str) -> None:
        parts = urlsplit(root_uri)
        scheme = parts.scheme.encode() or b"file"
        self._scheme = _SCHEME_ALIASES.get(scheme, scheme)
        self._authority = parts.netloc.encode()
        self._directories: dict[str, bytes] = {}

    def key(self, path: str, vector: DeletionVector | None) -> bytes:
        """The key of one file."""
        canonical = self.canonical(path)
        return canonical if vector is None else canonical + b"\0" + vector.unique_id.encode()

    def key_list(self, files: Sequence[HasKey]) -> list[bytes]:
        """The keys of many files."""
        if _are_plain(files):
            return [file.path.encode("utf-8", "surrogatepass") for file in files]
        return [self.key(file.path, file.deletionVector) for file in files]

    def key_array(self, files: Sequence[HasKey]) -> pa.BinaryArray:
        """As `key_list`, without an object for each key where that can be."""
        if not files:
            return _NO_KEYS
        if any(map(_vector_of, files)):
            return arrays.binaries([self.key(file.path, file.deletionVector) for file in files])
        return self._canonical_array(arrays.strings([file.path for file in files]))

    def canonical(self, path: str) -> bytes:
        """The canonical path alone."""
        if not _is_suspect(path):
            return path.encode()
        directory, slash, name = path.rpartition("/")
        if slash and not _is_suspect(name) and name != "":
            return self._directory(directory) + name.encode()
        return self._spell(path)

    def _directory(self, directory: str) -> bytes:
        """The canonical directory with its slash, remembered: partitioned tables have few, and many files in each."""
        known = self._directories.get(directory)
        if known is None:
            if len(self._directories) >= 10_000:
                self._directories.clear()
            known = self._directories[directory] = self._spell(directory + "/x")[:-1]
        return known

    def _spell(self, path: str) -> bytes:
        scheme, authority, rest = self._split(path)
        segments = [_decoded(segment) for segment in rest.encode("utf-8", "surrogatepass").split(b"/")]
        resolved = (b"/" if rest.startswith("/") else b"") + b"/".join(_resolve_dots(segments))
        return resolved if scheme is None else scheme + b"://" + authority + resolved

    def _split(self, path: str) -> tuple[bytes | None, bytes, str]:
        """Scheme (None for a relative path), authority and the rest."""
        match = _SCHEME.match(path)
        if match is None:
            return (self._scheme, self._authority, path) if path.startswith("/") else (None, b"", path)
        scheme = match[1].lower().encode()
        rest = path[match.end() :]
        if not rest.startswith("/"):
            return None, b"", path
        authority = ""
        if rest.startswith("//"):
            authority, slash, tail = rest[2:].partition("/")
            rest = slash + tail
        return _SCHEME_ALIASES.get(scheme, scheme), authority.encode(), rest

    def keys(self, paths: pa.StringArray, vectors: pa.StructArray | None) -> pa.BinaryArray:
        """The keys of many files; the usual case (plain relative paths, no vectors) copies nothing."""
        plain = self._canonical_array(paths)
        if vectors is None or vectors.null_count == len(vectors):
            return plain
        return _append_ids(plain, vectors)

    def _canonical_array(self, paths: pa.StringArray) -> pa.BinaryArray:
        if all_plain(paths):
            return paths.view(pa.binary())
        return arrays.binaries([self.canonical(p) for p in paths.to_pylist()])


def _are_plain(files: Sequence[HasKey]) -> bool:
    """Whether the keys of files are their paths: no path has another spelling, and none has a deletion vector.

    They are looked at all at once, joined so that a path that begins with a slash or a dot shows as one that holds it.
    """
    text = ("/" + "/".join([file.path for file in files])).encode("utf-8", "surrogatepass")
    if b"%" in text or b":" in text or _has_dotted_slash(np.frombuffer(text, np.uint8)):
        return False
    return not any(map(_vector_of, files))


def _is_suspect(path: str) -> bool:
    """Whether a path's canonical form may differ from its text. Several times faster than one regular expression."""
    return "%" in path or ":" in path or "/." in path or "//" in path or path[:1] in ("/", ".")


def has_percent(paths: pa.StringArray) -> bool:
    """Is anything escaped in any of the paths?"""
    return b"%" in _text_of(paths)


def _text_of(paths: pa.StringArray) -> bytes:
    """The text of all paths, one after the other."""
    if not len(paths):
        return b""
    _, offset_buffer, data_buffer = paths.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)
    start, stop = int(offsets[paths.offset]), int(offsets[paths.offset + len(paths)])
    return b"" if start == stop else data_buffer.slice(start, stop - start).to_pybytes()


def all_plain(paths: pa.StringArray) -> bool:
    """Does no path need another spelling? Looked for in the bytes of all paths at once, not row by row."""
    if not len(paths):
        return True
    offsets = np.frombuffer(paths.buffers()[1], np.int32)[paths.offset : paths.offset + len(paths) + 1]
    start = int(offsets[0])
    data = _text_of(paths)
    if not data:
        return True
    text = np.frombuffer(data, np.uint8)
    if b"%" in data or b":" in data or _has_dotted_slash(text):
        return False
    first = text[np.minimum(offsets[:-1] - start, len(text) - 1)]
    return not (first & _BUT_LAST_BIT == _DOT).any()


def _has_dotted_slash(text: NDArray[np.uint8]) -> bool:
    """Is a slash followed by a slash or a dot? Every two neighbours are looked at as one number."""
    for shifted in (text, text[1:]):
        pairs = shifted[: len(shifted) & ~1].view("<u2")
        if (pairs & _BUT_LAST_BIT_OF_SECOND == _SLASH_THEN_DOT).any():
            return True
    return False


def _decoded(segment: bytes) -> bytes:
    """A segment without escapes. What they spell stays within it: no separator, and no end of the path."""
    plain = unquote_to_bytes(segment)
    if plain == segment:
        return segment
    return plain.replace(_MARK, _MARK + _MARK).replace(b"/", _MARK + b"/").replace(b"\0", _MARK + b"0")


def _resolve_dots(segments: Sequence[bytes]) -> list[bytes]:
    """Empty and `.` segments dropped, `..` resolved where something stands before it."""
    kept: list[bytes] = []
    for segment in segments:
        if segment in (b"", b"."):
            continue
        if segment == b".." and kept and kept[-1] != b"..":
            kept.pop()
        else:
            kept.append(segment)
    return kept


def _append_ids(keys: pa.BinaryArray, vectors: pa.StructArray) -> pa.BinaryArray:
    """Keys with the id of the deletion vector, where there is one."""
    rows = np.flatnonzero(arrays.to_numpy_bool(vectors.is_valid()))
    spelled: list[bytes] = keys.to_pylist()
    for row in rows.tolist():
        fields = vectors[row].as_py()
        vector = DeletionVector(fields["storageType"], fields["pathOrInlineDv"], fields["offset"])
        spelled[row] += b"\0" + vector.unique_id.encode()
    return arrays.binaries(spelled)
