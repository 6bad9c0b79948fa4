"""Translate obstore's exceptions into our errors, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import obstore.exceptions as theirs

from delta_sidecar.errors import (
    AccessDeniedError,
    DeltaSidecarError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StoreUnavailableError,
)
from delta_sidecar.storage.uri import Location

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,80})</Code>")
_SERVER = re.compile(r"https?://[^/\s?\"@]+")
_QUERY = re.compile(r"\?[^\s\")]+")
_USERINFO = re.compile(r"//[^/\s@]+:[^/\s@]+@")
_PROSE = (
    "a an the no not is was has have cannot could must should expired invalid missing malformed required rejected"
    " unknown failed denied error unable unauthorized authentication authorization request"
).replace(" ", "|")
"""Words that tell what is wrong with a secret, where they follow its name: `token: expired`."""
_KEYED = re.compile(
    r"(?i)((?:signature|sig|secret[a-z_ ]*|(?:access|account)[a-z_ ]*key|token|credential|authorization|password)"
    rf"\"?\s*(?:=|:(?!\s+(?:{_PROSE})\b))\s*)(?:bearer |sharedkey )?[^\s,;&)]+"
)
_LONG = re.compile(r"[A-Za-z0-9+/_%\-]{60,}={0,2}")
_MIXED = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9]).{12,}|.{60,}")
"""A piece of a key between two slashes; directories and file names do not look so."""
_MISSING_CONTAINER = (
    "NoSuchBucket",
    "ContainerNotFound",
    "specified bucket does not exist",
    "container does not exist",
)
_DENIED = frozenset(
    [
        "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "AuthenticationFailed", "AuthorizationFailure",
        "AuthorizationPermissionMismatch", "InvalidAuthenticationInfo", "NoAuthenticationInformation", "ExpiredToken",
        "InvalidToken", "PublicAccessNotPermitted",
    ]
)  # fmt: skip
_BAD_RANGE = ("Invalid range", "range was invalid", "Wanted range starting at")
_TOKEN_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "performing token request")


def scrubbed(text: str) -> str:
    """One short line without queries, signatures, tokens and keys."""
    line = " ".join(text.partition("Debug source:")[0].split())
    line = _USERINFO.sub("//", _QUERY.sub("", line))
    return _LONG.sub(_without_key, _KEYED.sub(r"\1…", line))[:300]


def _without_key(long: re.Match[str]) -> str:
    """A long run of characters, unless it is a key: a path is long, too."""
    return "…" if any(map(_MIXED.fullmatch, long[0].rstrip("=").split("/"))) else long[0]


@contextmanager
def translated(location: Location, path: str) -> Iterator[None]:
    """obstore's exceptions as ours, naming the object."""
    try:
        yield
    except DeltaSidecarError:
        raise
    except (theirs.BaseError, OSError, ValueError) as e:
        raise meaning(e, location, path) from None


def broken_body(place: str, got: int, expected: int) -> StoreUnavailableError:
    """The connection ended before the body did."""
    return StoreUnavailableError(f"{place}: the response broke off after {got} of {expected} bytes; try again")


def beyond_end(place: str, end: int) -> StorageError:
    """A range was asked for that the object does not have."""
    return StorageError(f"{place} ends before byte {end}; it changed or was truncated")


def meaning(error: Exception, location: Location, path: str) -> StorageError:
    """Our error for one of obstore's."""
    place = f"{location.uri}/{path}" if path else location.uri
    text = str(error)
    if any(mark in text for mark in _MISSING_CONTAINER):
        return _no_container(location)
    if isinstance(error, theirs.AlreadyExistsError | theirs.PreconditionError):
        return ObjectExistsError(f"{place} exists already")
    if isinstance(error, theirs.PermissionDeniedError | theirs.UnauthenticatedError) or _code(text) in _DENIED:
        return _denied(place, text)
    if isinstance(error, FileNotFoundError):
        return ObjectNotFoundError(f"{place} does not exist")
    if any(mark in text for mark in _TOKEN_SERVICES):
        return AccessDeniedError(f"{place}: no credentials found; pass them as storage options or in the environment")
    return _by_status(place, text)


def _by_status(place: str, text: str) -> StorageError:
    status = _status(text)
    if status in (401, 403):
        return _denied(place, text)
    if status == 416 or any(mark in text for mark in _BAD_RANGE):
        return StorageError(f"{place}: the range is beyond its end; the object changed or was truncated")
    if "redirect" in text.lower():
        return StorageError(f"{place}: the store redirects elsewhere; check the region and the endpoint")
    if status is not None and 400 <= status < 500 and status not in (408, 429):
        return StorageError(f"{place}: the store refused the request ({_reason(text)}); check the storage options")
    server = _SERVER.search(text)
    at = f" at {server[0]}" if server else ""
    return StoreUnavailableError(f"{place}: no answer from the store{at} ({_reason(text)}); check endpoint and network")


def _no_container(location: Location) -> StorageError:
    noun = "container" if location.scheme in ("az", "abfss") else "bucket"
    return StorageError(f"{noun} {location.bucket!r} does not exist ({location.uri}); check its name and the endpoint")


def _denied(place: str, text: str) -> AccessDeniedError:
    return AccessDeniedError(f"{place}: access denied ({_reason(text)}); check the credentials and their rights")


def _reason(text: str) -> str:
    """Status and code, where there are any; else what obstore says after naming the request."""
    if (status := _status(text)) is not None:
        return f"{status} {_code(text)}".strip()
    return scrubbed(text.partition("Debug source:")[0].rpartition(" - ")[2])


def _status(text: str) -> int | None:
    match = _STATUS.search(text)
    return int(match[1]) if match else None


def _code(text: str) -> str:
    match = _CODE.search(text)
    return match[1] if match else ""
