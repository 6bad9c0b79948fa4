"""What an object store's failure means, out of obstore's exception and its text, with every secret taken out."""

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

_STATUS = re.compile(r"status(?: code)?:? (\d{3})|\((\d{3}) [A-Z]|: (\d{3}) [A-Z][a-z]+|HTTP error: (\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,80})</Code>")
_QUERY = re.compile(r"\?[^\s\")]+")
_USERINFO = re.compile(r"//[^/\s@]+:[^/\s@]+@")
_KEYED = re.compile(
    r"(?i)((?:signature|sig|secret[a-z_ ]*|access[a-z_ ]*key|account[a-z_ ]*key|token|credential|authorization|password)"
    r"\"?\s*[=:]\s*)(?:bearer |sharedkey )?[^\s,;&)]+"
)
_LONG = re.compile(r"[A-Za-z0-9+/_%\-]{60,}={0,2}")
_MISSING_CONTAINER = (
    "NoSuchBucket",
    "ContainerNotFound",
    "specified bucket does not exist",
    "container does not exist",
)
_DENIED_CODES = (
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "AccessDenied",
    "AuthenticationFailed",
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "ExpiredToken",
    "InvalidToken",
    "PublicAccessNotPermitted",
)
_NO_CREDENTIALS = (
    "instance metadata",
    "169.254.169.254",
    "Error fetching token",
    "metadata.google.internal",
    "credential",
)


def scrubbed(text: str) -> str:
    """One line without queries, signatures, tokens and keys."""
    line = " ".join(text.partition("\n\nDebug source:")[0].split())
    line = _USERINFO.sub("//", _QUERY.sub("", line))
    return _LONG.sub("…", _KEYED.sub(r"\1…", line))[:400]


@contextmanager
def translated(location: Location, path: str) -> Iterator[None]:
    """obstore's exceptions as ours, naming the object."""
    try:
        yield
    except DeltaSidecarError:
        raise
    except (theirs.BaseError, OSError, ValueError) as e:
        raise _ours(e, location, path) from None


def broken_body(place: str, got: int, expected: int) -> StoreUnavailableError:
    """The connection ended before the body did."""
    return StoreUnavailableError(f"{place}: the answer broke off after {got} of {expected} bytes; try again")


def _ours(error: Exception, location: Location, path: str) -> StorageError:
    place = f"{location.uri}/{path}" if path else location.uri
    text = str(error)
    code = (_CODE.search(text) or ["", ""])[1]
    if any(mark in text for mark in _MISSING_CONTAINER):
        noun = "container" if location.scheme in ("az", "abfss") else "bucket"
        return StorageError(
            f"{noun} {location.bucket!r} of {location.uri} does not exist; check its name and the endpoint"
        )
    if isinstance(error, theirs.AlreadyExistsError | theirs.PreconditionError):
        return ObjectExistsError(f"{place} exists already")
    if isinstance(error, theirs.PermissionDeniedError | theirs.UnauthenticatedError) or code in _DENIED_CODES:
        return _denied(place, code, text)
    if isinstance(error, FileNotFoundError):
        return ObjectNotFoundError(f"{place} does not exist")
    return _by_status(place, text)


def _by_status(place: str, text: str) -> StorageError:
    status = _status(text)
    if status in (401, 403):
        return _denied(place, "", text)
    if status is not None and 400 <= status < 500 and status not in (408, 429):
        return StorageError(f"{place}: the store refused the request: {scrubbed(text)}")
    if status is None and any(mark in text for mark in _NO_CREDENTIALS):
        return AccessDeniedError(f"{place}: no credentials found; pass them as storage options or in the environment")
    if status is None and "invalid" in text.lower() and "range" in text.lower():
        return StorageError(f"{place}: the range lies beyond its end; the object changed or was cut short")
    return StoreUnavailableError(
        f"{place}: the store did not answer: {scrubbed(text)}; check endpoint and network, or wait"
    )


def _denied(place: str, code: str, text: str) -> AccessDeniedError:
    why = code or str(_status(text) or "denied")
    return AccessDeniedError(f"{place}: access denied ({why}); check the credentials and their rights")


def _status(text: str) -> int | None:
    match = _STATUS.search(text)
    return int(next(group for group in match.groups() if group)) if match else None
