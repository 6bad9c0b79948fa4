"""The location of a table: one canonical form for the many ways to write it.

Paths are kept *decoded*, and so are the URIs made from them. Paths in a Delta log are percent-encoded and always
decoded. Locations from a user are taken literally, except `https:` URLs, and `file:` URLs whose literal path does not
exist.
"""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar.errors import InputError

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+):(.*)$", re.DOTALL)
_ALIASES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfs": "abfss",
    "azure": "az",
    "adl": "az",
    "wasb": "abfss",
    "wasbs": "abfss",
}
_SCHEMES = ("file", "memory", "s3", "gs", "az", "abfss")
_SUPPORTED = "a local path, file://, s3://, az://, abfss://, https://<account>.blob..., gs:// or memory://"


class Location(Struct, frozen=True):
    """A location in a store: `authority` is the bucket, or `container[@host]` on Azure; `path` is decoded.

    The path of a local place begins with `/`; in an object store it has no slash at either end.
    """

    scheme: str
    authority: str
    path: str

    @property
    def uri(self) -> str:
        """The canonical URI, decoded, without a trailing slash."""
        if self.scheme == "file":
            return f"file://{self.path}"
        return f"{self.scheme}://{self.authority}" + (f"/{self.path}" if self.path else "")

    @property
    def text(self) -> str:
        """What other programs open: a local place as a plain path, others as their URI."""
        return self.path if self.scheme == "file" else self.uri

    @property
    def bucket(self) -> str:
        """The bucket or container, without its host."""
        return self.authority.partition("@")[0]

    @property
    def account(self) -> str | None:
        """The Azure storage account, where the location names one."""
        host = self.authority.partition("@")[2]
        return host.partition(".")[0] or None

    @property
    def container_root(self) -> Location:
        """The root of the file system, bucket or container this place lies in."""
        return replace(self, path="/" if self.scheme == "file" else "")

    def join(self, relative: str) -> Location:
        """A place below this one; `relative` is decoded."""
        return replace(self, path=f"{self.path.rstrip('/')}/{relative}".strip("/") if self.path else relative)._rooted()

    def relative(self, other: Location) -> str | None:
        """The path of `other` below this place; None if it lies elsewhere."""
        if not self._same_container(other):
            return None
        base = self.path.rstrip("/") + "/" if self.path else ""
        return other.path[len(base) :] if other.path.startswith(base) and len(other.path) > len(base) else None

    def _rooted(self) -> Location:
        return replace(self, path="/" + self.path.lstrip("/")) if self.scheme == "file" else self

    def _same_container(self, other: Location) -> bool:
        """`az://c` does not say its account, so it is the same place as `abfss://c@account…`."""
        if self.authority == other.authority and self.scheme == other.scheme:
            return True
        azure = {"az", "abfss"}
        named = "@" in self.authority and "@" in other.authority
        return {self.scheme, other.scheme} <= azure and not named and self.bucket == other.bucket


def parse_location(text: str | os.PathLike[str]) -> Location:
    """The location a user means by `text`; `InputError` says what is wrong with it."""
    text = os.fspath(text)
    if not text.strip():
        raise InputError(f"the table location is empty; give {_SUPPORTED}")
    match = _SCHEME.match(text)
    if match is None:
        return _local(text)
    scheme = _ALIASES.get(match[1].lower(), match[1].lower())
    if scheme == "file":
        return _local(_typed_path(_without_authority(match[2], text)))
    if scheme in ("http", "https"):
        return _azure_url(match[2], text)
    if scheme not in _SCHEMES or not match[2].startswith("//"):
        raise InputError(f"location {_shown(text)!r} has an unknown form; give {_SUPPORTED}")
    return _remote(scheme, match[2][2:], text)


def canonical_uri(text: str | os.PathLike[str]) -> str:
    """The canonical URI of a location."""
    return parse_location(text).uri


def resolve_log_path(table: Location, log_path: str) -> Location:
    """The place a path in the log means: relative to the table, or absolute with or without a scheme."""
    if has_scheme(log_path):
        return _absolute(log_path)
    decoded = unquote(log_path)
    if decoded.startswith("//"):
        decoded = "/" + decoded.lstrip("/")
    if decoded.startswith("/"):
        path = _normal(decoded)
    else:
        path = _normal(f"{table.path.rstrip('/')}/{decoded}")
    return replace(table, path=path if table.scheme == "file" else path.strip("/"))


def has_scheme(log_path: str) -> bool:
    """Whether a path is a URI of a kind of store that is known."""
    match = _SCHEME.match(log_path)
    return match is not None and _is_scheme(match[1])


def _absolute(log_path: str) -> Location:
    """An absolute path with a scheme: percent-encoded, whatever the scheme."""
    if log_path.lower().startswith("file:"):
        return _local(unquote(_without_authority(log_path[5:], log_path)))
    location = parse_location(log_path)
    if log_path.lower().startswith(("http:", "https:")):
        return location
    return replace(location, path=_normal("/" + unquote(location.path)).strip("/"))


def _is_scheme(scheme: str) -> bool:
    """A relative path may hold a colon (`a:b/c`, `ts=12:00`): only known schemes make a path absolute."""
    lowered = scheme.lower()
    return lowered in _SCHEMES or lowered in _ALIASES or lowered in ("http", "https")


def _local(path: str) -> Location:
    return Location("file", "", os.path.abspath(os.path.expanduser(path) if path.startswith("~/") else path))


def _typed_path(path: str) -> str:
    """Our own output is decoded, other programs encode: the reading that exists is meant, ours first."""
    return path if "%" not in path or os.path.exists(path) else unquote(path)


def _without_authority(rest: str, text: str) -> str:
    """`file:/x`, `file:///x` and `file://localhost/x` are one place."""
    if not rest.startswith("//"):
        return rest
    authority, slash, path = rest[2:].partition("/")
    if authority not in ("", "localhost"):
        raise InputError(f"location {text!r} names the host {authority!r}; local files are written file:///path")
    return slash + path


def _remote(scheme: str, rest: str, text: str) -> Location:
    authority, _, path = rest.partition("/")
    if not authority and scheme != "memory":
        raise InputError(f"location {_shown(text)!r} names no bucket or container; write {scheme}://<name>/<path>")
    if ":" in authority.rpartition("@")[0]:
        raise InputError(
            f"a location {scheme}://<name>:<password>@… holds credentials; give them as storage options, and write "
            f"{scheme}://{authority.rpartition('@')[2]}/…"
        )
    if scheme in ("az", "abfss"):
        scheme = "abfss" if "@" in authority else "az"
        authority = authority.replace(".blob.", ".dfs.", 1)
    return Location(scheme, authority, _key(path))


def _azure_url(rest: str, text: str) -> Location:
    """`https://account.blob.core.windows.net/container/path`; a query (a SAS token) is not part of the place."""
    host, _, path = rest.lstrip("/").partition("?")[0].partition("/")
    container, _, key = unquote(path).partition("/")
    known = ".blob." in host or ".dfs." in host
    if not known or not container:
        raise InputError(
            f"location {_shown(text)!r} is not an Azure URL https://<account>.blob.core.windows.net/<container>"
        )
    return Location("abfss", f"{container}@{host.replace('.blob.', '.dfs.', 1)}", _key(key))


def _key(path: str) -> str:
    return _normal("/" + path).strip("/")


def _normal(path: str) -> str:
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def _shown(text: str) -> str:
    """The text without a query or user, either of which may be a secret."""
    return re.sub(r"//[^/@]*:[^/@]*@", "//", text.partition("?")[0])
