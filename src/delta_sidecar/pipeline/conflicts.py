"""Conflicts between writers: what Delta's conflict errors mean, and a bounded number of retries.

A transaction that conflicts with another one has written nothing, and Delta raises an error. What to do depends on
what the other writer did, and is the same for every statement:

    added or removed files      try again on a fresh snapshot, and evaluate the source again
    the same transaction id     check whether the commit is already there
    changed the metadata        check the schema; try again if the rows still fit
    the protocol, the creation  the table exists by now; try again
    anything else               the commit may have been made: look for its token first

The rule of `until_committed`: after any failure look for our own commit first, and only then try again.

Conflicts are recognised by their condition, not by Python classes: classic Spark raises typed errors only after
`import delta.exceptions` and Connect only after `import delta.connect`, and these have no common base class.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from delta_sidecar.errors import ConflictError, OptionError

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Remedy(Enum):
    """What to do after a conflict."""

    AGAIN = "try again, and evaluate the source again"
    LOOK_FIRST = "check whether the table already has the commit; then try again"
    LOOK_AT_SCHEMA = "check the schema; try again if the rows still fit"


class Kind(Enum):
    """What another writer did meanwhile."""

    APPEND = "added files that were read"
    DELETE_READ = "deleted files that were read"
    DELETE_DELETE = "deleted the same files"
    WRITE = "wrote to the table"
    COMMITS = "committed first, again and again"
    TRANSACTION = "committed the same transaction id"
    METADATA = "changed the schema or a property of the table"
    SCHEMA = "left the table with a schema that the rows do not fit"
    PROTOCOL = "changed the protocol of the table, or created it"
    CREATION = "created the table"
    OTHER = "changed the table"

    @property
    def remedy(self) -> Remedy:
        return _REMEDIES.get(self, Remedy.AGAIN)


_REMEDIES: Final = {
    Kind.TRANSACTION: Remedy.LOOK_FIRST,
    Kind.PROTOCOL: Remedy.LOOK_FIRST,
    Kind.CREATION: Remedy.LOOK_FIRST,
    Kind.OTHER: Remedy.LOOK_FIRST,
    Kind.METADATA: Remedy.LOOK_AT_SCHEMA,
    Kind.SCHEMA: Remedy.LOOK_AT_SCHEMA,
}
_CONDITIONS: Final = {
    "DELTA_CONCURRENT_APPEND": Kind.APPEND,
    "DELTA_CONCURRENT_DELETE_READ": Kind.DELETE_READ,
    "DELTA_CONCURRENT_DELETE_DELETE": Kind.DELETE_DELETE,
    "DELTA_CONCURRENT_WRITE": Kind.WRITE,
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": Kind.COMMITS,
    "DELTA_CONCURRENT_TRANSACTION": Kind.TRANSACTION,
    "DELTA_METADATA_CHANGED": Kind.METADATA,
    "DELTA_METADATA_MISMATCH": Kind.SCHEMA,
    "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS": Kind.SCHEMA,
    "DELTA_PROTOCOL_CHANGED": Kind.PROTOCOL,
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION": Kind.CREATION,
    "DELTA_CREATE_TABLE_SCHEME_MISMATCH": Kind.CREATION,
    "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING": Kind.CREATION,
    "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY": Kind.CREATION,
    "DELTA_LOG_ALREADY_EXISTS": Kind.CREATION,
    "DELTA_TABLE_ALREADY_EXISTS": Kind.CREATION,
}
_CLASSES: Final = {
    "ConcurrentAppendException": Kind.APPEND,
    "ConcurrentDeleteReadException": Kind.DELETE_READ,
    "ConcurrentDeleteDeleteException": Kind.DELETE_DELETE,
    "ConcurrentWriteException": Kind.WRITE,
    "ConcurrentTransactionException": Kind.TRANSACTION,
    "MetadataChangedException": Kind.METADATA,
    "ProtocolChangedException": Kind.PROTOCOL,
    "DeltaConcurrentModificationException": Kind.OTHER,
}
# At the beginning of a line or behind a Java class: what a quoted commit says does not count.
_IN_TEXT = re.compile(r"(?:^|: )\[(DELTA_[A-Z_]+)(?:\.[A-Z_]+)*\]|io\.delta\.exceptions\.(\w+)(?=:)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A commit that was not made, because it conflicted with another writer's."""

    kind: Kind
    condition: str
    """Delta's error condition, or the name of the error's class if it has none."""

    @property
    def remedy(self) -> Remedy:
        return self.kind.remedy

    def __str__(self) -> str:
        return f"another writer {self.kind.value} ({self.condition})"


def conflict_of(error: BaseException | None) -> Conflict | None:
    """The conflict that an error, or its cause, reports; None if it is not a known conflict."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        conflict = _by_condition(error) or _by_text(error) or _named(type(error).__name__)
        if conflict is not None:
            return conflict
        error = error.__cause__
    return None


def _by_condition(error: BaseException) -> Conflict | None:
    """Connect sets it; on classic Spark it is None."""
    with suppress(Exception):  # Spark's own errors ask the JVM, which may be gone.
        name = getattr(error, "getCondition", lambda: None)()
        return _named(name.partition(".")[0]) if isinstance(name, str) else None
    return None


def _by_text(error: BaseException) -> Conflict | None:
    with suppress(Exception):
        conflicts = (_named(match[1] or match[2]) for match in _IN_TEXT.finditer(str(error)))
        return next((conflict for conflict in conflicts if conflict is not None), None)
    return None


def _named(name: str) -> Conflict | None:
    kind = _CONDITIONS.get(name) or _CLASSES.get(name)
    return None if kind is None else Conflict(kind, name)


def _random() -> float:
    """A number between 0 and 1. Pickled by name as a function of this module, so processes share no seed."""
    return random.random()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a write that conflicts with another writer is attempted, and how long the pauses are.

    Each pause is random, up to a limit that doubles.

    Raises:
        OptionError: `attempts` is below 1, or a pause is below 0.

    Example:
        >>> from delta_sidecar.pipeline import RetryPolicy, maintain
        >>> patient = RetryPolicy(attempts=20, longest_delay=60)
        >>> maintain("events", steps=["index"], retry=patient).failed
        False
    """

    attempts: int = 12
    """Attempts in all; 1 means no retry."""
    first_delay: float = 0.25
    """Longest first pause in seconds."""
    longest_delay: float = 20.0
    """Longest pause in seconds."""
    random: Callable[[], float] = _random
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_delay < 0 or self.longest_delay < 0:
            raise OptionError("a retry policy needs at least one attempt, and pauses that are not below 0")

    def delay(self, failures: int) -> float:
        """The pause after this many failures. It is random, so writers that collided do not collide again."""
        return self.random() * min(self.longest_delay, self.first_delay * 2.0 ** (failures - 1))


def until_committed(
    attempt: Callable[[], T],
    committed: Callable[[], T | None],
    policy: RetryPolicy,
    *,
    what: str,
    may_retry: Callable[[Conflict], bool] | None = None,
    say: Callable[[str], None] | None = None,
) -> T:
    """The result of the attempt that succeeded, or of one that failed although its commit is in the table.

    `attempt` begins with a fresh snapshot each time. `committed` looks for our own commit, by its token or `txn`, and
    returns None if there is none. It is called after every failure, so nothing is written twice. Only conflicts are
    retried: after any other failure the commit may still arrive, so the failure is raised. `may_retry` looks at the
    current table and decides whether to retry after a conflict.
    """
    for failures in range(1, policy.attempts + 1):
        try:
            return attempt()
        except Exception as error:
            conflict = conflict_of(error)
            done = committed()
            if done is not None:
                _log.info("%s is committed, although it failed with %s", what, type(error).__name__)
                return done
            if conflict is None or not (may_retry is None or may_retry(conflict)):
                raise
            if failures == policy.attempts:
                raise ConflictError(
                    f"{what}: {conflict}, at each of {failures} attempts; nothing was written, run it again"
                ) from error
        pause = policy.delay(failures)
        _log.info("%s: %s; attempt %d in %.1f s", what, conflict, failures + 1, pause)
        if say is not None:
            say(f"{conflict}; trying again")
        policy.sleep(pause)
    raise AssertionError("a policy has at least one attempt")
