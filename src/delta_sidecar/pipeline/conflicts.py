"""Conflicts between writers: what Delta's errors mean, and a bounded number of retries.

Every failure of a write belongs to one of four classes:

    retryable      another writer committed first: nothing was written; try again on a fresh snapshot, and evaluate
                   the source again. Who changed the metadata or the protocol is looked at first (`may_retry`)
    done already   the same transaction id is in the table
    fatal          the statement is wrong, or the rows do not fit: another attempt would fail, too
    unknown        the commit may have been made: look for its token, and never try again blindly

The rule of `until_committed`: after any failure look for our own commit first, and only then try again.

A failure is recognised by its condition, or else by its class, or else by the condition at the start of its message:
classic Spark raises typed errors only after `import delta.exceptions` and Connect only after `import delta.connect`,
these have no common base class, and on classic Spark Delta's conflicts have no condition.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from delta_sidecar.errors import ConflictError, InputError, OptionError
from delta_sidecar.flow.backoff import backoff

T = TypeVar("T")
CREATIONS: Final = 3
"""Attempts where the location is taken, but by no table yet: its creator may be about to commit."""
_log = logging.getLogger(__name__)


class RetryClass(Enum):
    """What a failed write means for another attempt.

    Example:
        >>> from delta_sidecar.pipeline import RetryClass
        >>> RetryClass.of(Exception("[DELTA_CONCURRENT_APPEND] Transaction conflict detected")).value
        'retryable'
        >>> RetryClass.of(ConnectionError("lost")).value
        'unknown'
    """

    RETRYABLE = "retryable"
    FATAL = "fatal"
    DONE_ALREADY = "done already"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, error: BaseException) -> RetryClass:
        """The class of a failure of Spark, Delta or this library; its causes count, too."""
        conflict = conflict_of(error)
        if conflict is not None:
            return conflict.retry_class
        return cls.FATAL if any(map(_is_fatal, _causes(error))) else cls.UNKNOWN


class Kind(Enum):
    """What another writer did in the meantime."""

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
    def retry_class(self) -> RetryClass:
        return _RETRY_CLASSES.get(self, RetryClass.RETRYABLE)

    @property
    def needs_look(self) -> bool:
        """Whether the table has to be looked at before another attempt: it may be another one by now."""
        return self in (Kind.METADATA, Kind.SCHEMA, Kind.PROTOCOL, Kind.CREATION)


_RETRY_CLASSES: Final = {Kind.TRANSACTION: RetryClass.DONE_ALREADY, Kind.SCHEMA: RetryClass.FATAL}
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
_FATAL_CLASSES: Final = frozenset(
    (
        "AnalysisException",
        "ParseException",
        "IllegalArgumentException",
        "UnsupportedOperationException",
        "PythonException",
    )
)
"""Spark raises them before it commits; the last one when a function of the user does."""
_FATAL_CONDITIONS: Final = frozenset(
    (
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        "CAST_INVALID_INPUT",
        "DIVIDE_BY_ZERO",
        "ARITHMETIC_OVERFLOW",
        "UNSUPPORTED_TABLE_CHANGE",
        "USER_RAISED_EXCEPTION",
        "PARSE_SYNTAX_ERROR",
    )
)
"""Rows or a statement that no attempt gets into the table."""
# At the beginning of a line or behind a Java class: what a quoted commit says does not count.
_IN_TEXT = re.compile(r"(?:^|: )\[([A-Z][A-Z0-9_]+)(?:\.[A-Z0-9_]+)*\]|io\.delta\.exceptions\.(\w+)(?=:)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A commit that was not made, because it conflicted with another writer's."""

    kind: Kind
    condition: str
    """Delta's error condition, or the name of the error's class if it has none."""

    @property
    def retry_class(self) -> RetryClass:
        return self.kind.retry_class

    def __str__(self) -> str:
        return f"another writer {self.kind.value} ({self.condition})"


def conflict_of(error: BaseException | None) -> Conflict | None:
    """The conflict that an error, or its cause, reports; None if it is not a known conflict."""
    return next((found for part in _causes(error) if (found := _conflict(part)) is not None), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _conflict(error: BaseException) -> Conflict | None:
    condition = _condition(error)
    if condition is not None and condition.startswith("DELTA_"):
        return _named(condition)
    by_class = _named(type(error).__name__)
    if by_class is not None and by_class.kind is not Kind.OTHER:
        return by_class
    named = (_named(name) for name in _names_in_text(error))
    return next((conflict for conflict in named if conflict is not None), by_class)


def _is_fatal(error: BaseException) -> bool:
    if isinstance(error, InputError) or any(kind.__name__ in _FATAL_CLASSES for kind in type(error).__mro__):
        return True
    condition = _condition(error)
    names = [condition] if condition is not None else _names_in_text(error)
    return any(name in _FATAL_CONDITIONS for name in names)


def _condition(error: BaseException) -> str | None:
    """Connect sets it; on classic Spark it is None for Delta's conflicts."""
    with suppress(Exception):  # Spark's own errors ask the JVM, which may be gone.
        name = getattr(error, "getCondition", lambda: None)()
        return name.partition(".")[0] if isinstance(name, str) and name else None
    return None


def _names_in_text(error: BaseException) -> list[str]:
    with suppress(Exception):
        return [match[1] or match[2] for match in _IN_TEXT.finditer(str(error))]
    return []


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
    """Number of attempts; 1 means no retry."""
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
        return self.random() * backoff(self.first_delay, failures - 1, self.longest_delay)


def until_committed(
    attempt: Callable[[], T],
    committed: Callable[[], T | None],
    policy: RetryPolicy,
    *,
    what: str,
    may_retry: Callable[[Conflict], bool] | None = None,
    say: Callable[[str], None] | None = None,
    tried: list[Conflict] | None = None,
) -> T:
    """The result of the attempt that succeeded, or of one that failed although its commit is in the table.

    `attempt` begins with a fresh snapshot each time. `committed` looks for our own commit, by its token or `txn`, and
    returns None if there is none. It is called after every failure, so nothing is written twice. Only conflicts are
    retried: after any other failure the commit may still arrive, so the failure is raised. `may_retry` looks at the
    current table and decides whether to retry after a conflict; it may raise an error that says more. Without it, all
    but fatal conflicts are retried. `tried` receives the conflict of each attempt that lost.
    """
    lost = [] if tried is None else tried
    for failures in range(1, policy.attempts + 1):
        try:
            return attempt()
        except Exception as error:
            conflict = conflict_of(error)
            if conflict is not None:
                lost.append(conflict)
            done = committed()
            if done is not None:
                _log.info("%s is committed, although it failed with %s", what, type(error).__name__)
                return done
            if conflict is None or not (may_retry or _may_retry)(conflict):
                raise
            if failures == policy.attempts:
                raise _gave_up(what, lost) from error
        pause = policy.delay(failures)
        _log.info("%s: %s; attempt %d in %.1f s", what, conflict, failures + 1, pause)
        if say is not None:
            say(f"{conflict}; trying again")
        policy.sleep(pause)
    raise AssertionError("a policy has at least one attempt")


def _may_retry(conflict: Conflict) -> bool:
    return conflict.retry_class is not RetryClass.FATAL


def _gave_up(what: str, lost: Sequence[Conflict]) -> ConflictError:
    error = ConflictError(f"{what}: {describe_attempts(lost)}; nothing of it is in the table, run it again")
    error.conflicts = tuple(map(str, lost))
    return error


def describe_attempts(lost: Sequence[Conflict]) -> str:
    """What each attempt conflicted with, in one line."""
    counts = Counter(map(str, lost))
    if len(counts) == 1:
        return f"{lost[0]}, at each of {len(lost)} attempts"
    told = ", ".join(f"{count} × {text}" for text, count in counts.items())
    return f"all {len(lost)} attempts failed: {told}"
