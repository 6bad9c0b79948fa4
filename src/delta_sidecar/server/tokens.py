"""Bearer tokens: who may call, and which roots are theirs. The file holds hashes, and is read again when it changes.

    {"tokens": [{"name": "reports", "sha256": "…", "roots": ["lake"], "expires": "2027-01-01T00:00:00+00:00"}]}

A token is 32 random bytes, so its plain hash says nothing about it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from delta_sidecar.errors import AccessDeniedError, InputError
from delta_sidecar.storage.local import locked

_log = logging.getLogger(__name__)

_PREFIX: Final = "dsc_"
"""Lets people, and tools that look for leaked secrets, tell what it is."""
_LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the file, at least."""


_Trace: TypeAlias = tuple[int, ...]


class Caller(Struct, frozen=True):
    """Who calls."""

    name: str
    roots: frozenset[str] | None = None
    """The roots that are the caller's; None for all."""

    def may_read(self, root: str) -> bool:
        return self.roots is None or root in self.roots


ANYONE: Final = Caller("anyone")
"""The caller of a server without tokens, on loopback."""


class StoredToken(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A token as its file has it."""

    name: str
    sha256: str
    roots: list[str] | None = None
    """None for all."""
    expires: datetime | None = None

    @property
    def caller(self) -> Caller:
        return Caller(self.name, None if self.roots is None else frozenset(self.roots))

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and _aware(self.expires).timestamp() <= now


class _Tokens(Struct, frozen=True, forbid_unknown_fields=True):
    tokens: list[StoredToken]


class TokenFile:
    """The tokens of a file, as it is now."""

    def __init__(
        self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time, look_every: float = _LOOK_EVERY
    ) -> None:
        self._path = Path(path)
        self._clock = clock
        self._look_every = look_every
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._told: _Trace | None = None
        """The file that could not be read, if the log said so."""
        self._seen = _trace(self._path)
        self._known = _by_hash(_read(self._path))

    def caller(self, header: str | None) -> Caller:
        """Who sends an `authorization` header; `AccessDeniedError` if nobody we know."""
        scheme, _, token = (header or "").strip().partition(" ")
        if not header:
            raise AccessDeniedError("this server asks for a token; send it as `authorization: Bearer <token>`")
        if scheme.lower() != "bearer" or not token.strip():
            raise AccessDeniedError("the authorization header is not `Bearer <token>`")
        known = self._current().get(_hash(token.strip()))
        if known is None:
            raise AccessDeniedError("the token is not known here; ask the operator for another")
        if known.is_expired(self._clock()):
            raise AccessDeniedError("the token has expired; ask the operator for another")
        return known.caller

    def _current(self) -> Mapping[str, StoredToken]:
        with self._lock:
            if time.monotonic() - self._looked >= self._look_every:
                self._looked = time.monotonic()
                self._look()
            return self._known

    def _look(self) -> None:
        """A file that is gone holds no tokens; one that cannot be read or understood leaves those of before, and is
        tried again at the next look."""
        trace = _trace(self._path)
        if trace == self._seen:
            return
        if trace is None:
            self._seen, self._known = None, {}
            _log.error("the token file is gone: nobody is let in until it is back")
            return
        try:
            self._known = _by_hash(_read(self._path))
            self._seen, self._told = trace, None
            _log.info("read %d tokens again", len(self._known))
        except InputError as error:
            if trace != self._told:
                _log.error("%s; the tokens of before stay valid until it can", error)
            self._told = trace


def new_token(
    path: str | os.PathLike[str],
    name: str,
    roots: Sequence[str] | None = None,
    expires: datetime | None = None,
) -> str:
    """Add a token to a file, which is created if need be, and return it: this is the only time it can be seen."""
    place = Path(path)
    if not name.isprintable():
        raise InputError(f"the name {name!r} has a line break, or another character that cannot be printed")
    token = _PREFIX + secrets.token_urlsafe(32)
    with _alone(place):
        tokens = list(_read(place)) if place.exists() else []
        if not name.strip() or any(each.name == name for each in tokens):
            raise InputError(f"the name {name!r} is empty, or a token has it already; choose another")
        tokens.append(StoredToken(name, _hash(token), None if roots is None else list(roots), expires))
        _write(place, msgspec.json.format(msgspec.json.encode(_Tokens(tokens)), indent=1) + b"\n")
    return token


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other process adds a token meanwhile. The file is replaced, so it is its directory that is locked."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path.parent))
        except OSError as error:
            raise _unwritable(path, error) from None
        yield


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _by_hash(tokens: Sequence[StoredToken]) -> dict[str, StoredToken]:
    return {each.sha256.lower(): each for each in tokens}


def _read(path: Path) -> Sequence[StoredToken]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Tokens).tokens
    except OSError as error:
        raise InputError(f"the token file {path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the token file {path} is broken ({error}); `sidecar token new` writes one") from None


def _write(path: Path, data: bytes) -> None:
    """In one step: a server may read it at any time. A new file is for the owner's eyes; an old one keeps its owner and
    mode, or the server could not read it any more."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _keep_access(path, file.fileno())
            file.write(data)
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise _unwritable(path, error) from None


def _keep_access(path: Path, draft: int) -> None:
    """Give a draft the owner and mode of the file that it replaces."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    made = os.fstat(draft)
    if (old.st_uid, old.st_gid) != (made.st_uid, made.st_gid):
        try:
            os.fchown(draft, old.st_uid, old.st_gid)
        except PermissionError:
            raise InputError(
                f"the token file {path} belongs to another user (uid {old.st_uid}, gid {old.st_gid}), which this one "
                "cannot keep; run the command as that user, or as root"
            ) from None
    os.fchmod(draft, stat.S_IMODE(old.st_mode))


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"the token file {path} cannot be written: {error.strerror}")


def _trace(path: Path) -> _Trace | None:
    """What changes with the file, its owner and mode included; None if it is gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
