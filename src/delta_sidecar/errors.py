"""The error tree, grouped by what the caller would do about it.

DeltaSidecarError
├── InputError                  change the call
│   ├── TableNotFoundError      no Delta table at that location
│   ├── VersionNotFoundError    no such version, or it can no longer be rebuilt
│   │   ├── VersionAfterLatestError the range of changes begins after the newest version: wait for it
│   │   └── CleanedUpError      commits of the range of changes are gone: start later
│   ├── VersionRangeError       the range of changes ends before it starts
│   ├── NoChangeFeedError       the table keeps no change feed at a version of the range
│   │   └── FeedStartsLaterError it keeps one, but only from a later version on
│   ├── OtherTableError         another table is in the place of the one that was opened, or that a cursor belongs to
│   ├── CursorError             the cursor cannot go there, or is damaged: reset it
│   ├── DuplicateKeyError       several rows have the same key, which a merge by key needs to be unique
│   ├── PredicateError          the predicate cannot be parsed or does not fit the schema
│   ├── QueryError              the search query or SQL statement cannot be parsed, or the tables cannot answer it
│   ├── UnknownColumnError      no such column
│   ├── NotOfferedError         another tool does that: the message names it
│   ├── ConsumedStreamError     the stream was read or closed before: ask for another
│   ├── PositionError           a listing cannot be resumed from that position: list from the start
│   ├── TicketError             the ticket is too old, or not one of this server: ask for another
│   └── OptionError             an option or storage option is wrong
├── UnsupportedTableError       use another reader, or a newer version of this one
│   ├── UnsupportedFeatureError a reader feature or protocol version
│   ├── UnsupportedTypeError    a type or encoding that cannot be read as rows
│   └── SchemaChangedError      rows of the range of changes do not fit the schema at its end
├── CorruptIndexError           build the index again; readers mostly ignore it
├── CorruptTableError           repair the table
│   ├── LogGapError             commits are missing between base and head
│   ├── CorruptLogError         a commit, checkpoint or the state they give is broken
│   └── CorruptDataError        a data file or deletion vector is broken or missing
│       └── MissingDataError    it is missing
├── StorageError                check connection and credentials, or wait
│   ├── ObjectNotFoundError     the object does not exist
│   ├── ObjectExistsError       put-if-absent failed: the object already exists
│   ├── ObjectChangedError      compare-and-swap failed: the object has changed
│   ├── AccessDeniedError       credentials are missing, wrong, or lack a permission
│   └── StoreUnavailableError   the store did not answer, throttled, or broke off, after all retries
├── ServerError                 look at the server: its address, its certificate, its log
│   └── ServerBusyError         try again: it is at its limits, or stopping
├── ConflictError               run it again: other writers committed first, at every attempt
│   └── TableChangedError       another writer changed the schema or the partitioning: check that the rows still fit
└── SparkError                  check Spark: its installation, its settings, or the job it ran
    └── UncertainCommitError    the write failed, and may have been committed: look before you run it again

Every message says what, where, and what to do next, in one line; secrets never appear in it.
"""

from __future__ import annotations

from collections.abc import Iterable


class DeltaSidecarError(Exception):
    """Base class of every error that this library raises on purpose."""


class InputError(DeltaSidecarError):
    """An argument is wrong: change the call."""


class TableNotFoundError(InputError):
    """No Delta table at that location."""


class VersionNotFoundError(InputError):
    """No such version, or it can no longer be rebuilt."""


class VersionAfterLatestError(VersionNotFoundError):
    """The range of changes begins after the newest version: there is nothing new."""


class CleanedUpError(VersionNotFoundError):
    """Commits of the range of changes are no longer in the log: start later."""


class VersionRangeError(InputError):
    """The range of changes ends before it starts."""


class NoChangeFeedError(InputError):
    """The table keeps no change feed at a version of the range."""


class FeedStartsLaterError(NoChangeFeedError):
    """The table keeps a change feed, but the range begins before it."""


class OtherTableError(InputError):
    """The table at this location is not the one that was opened, or that the cursor belongs to."""


class CursorError(InputError):
    """A cursor would move back, was moved by another run, or is damaged."""


class DuplicateKeyError(InputError):
    """Several rows have the same key, but a merge needs one row per key."""


class PredicateError(InputError):
    """The predicate cannot be parsed or does not fit the schema."""


class QueryError(InputError):
    """The search query or the SQL statement cannot be parsed, or the tables cannot answer it within its limits."""


class UnknownColumnError(InputError):
    """No such column."""


class NotOfferedError(InputError):
    """The call writes, or does something else that this reader leaves to other tools."""


class ConsumedStreamError(InputError):
    """The stream was already read or closed: ask the table for another."""


class PositionError(InputError):
    """The position belongs to another listing, or to one that cannot be repeated: list from the start."""


class TicketError(InputError):
    """The ticket is too old, was altered, or was made by another server or for another caller: ask for another."""


class OptionError(InputError):
    """An option or storage option is wrong."""


class UnsupportedTableError(DeltaSidecarError):
    """The table uses a feature or a type that this reader does not support."""


class UnsupportedFeatureError(UnsupportedTableError):
    """A reader feature or protocol version that is not supported."""


class UnsupportedTypeError(UnsupportedTableError):
    """A type or encoding that cannot be read as rows."""


class SchemaChangedError(UnsupportedTableError):
    """Rows of the range of changes do not fit the schema that the table has at the end of the range."""


class CorruptIndexError(DeltaSidecarError):
    """The index is damaged, incomplete, or belongs to another table. Readers ignore it and use the log.

    A listing raises it in one case: while it reads an index, a part is damaged or gone, and parts whose files it has
    returned cannot be read again, either. It cannot tell then which files it has returned: list again.
    """


class CorruptTableError(DeltaSidecarError):
    """The table itself is broken."""


class LogGapError(CorruptTableError):
    """Commits are missing between base and head."""


class CorruptLogError(CorruptTableError):
    """A commit, a checkpoint, or the state they give is broken."""


class CorruptDataError(CorruptTableError):
    """A data file or deletion vector is broken or missing."""


class MissingDataError(CorruptDataError):
    """A data file or deletion vector is missing, perhaps because it was vacuumed."""


class StorageError(DeltaSidecarError):
    """The object store refused a request, failed, or did not answer."""


class ObjectNotFoundError(StorageError):
    """The object does not exist."""


class ObjectExistsError(StorageError):
    """Put-if-absent failed: the object already exists."""


class ObjectChangedError(StorageError):
    """Compare-and-swap failed: the object has changed since it was read."""


class AccessDeniedError(StorageError):
    """Credentials are missing, wrong, or lack a permission."""


class StoreUnavailableError(StorageError):
    """The store did not answer, throttled, or broke off, after all retries."""


class ServerError(DeltaSidecarError):
    """The server cannot be reached, or failed."""


class ServerBusyError(ServerError):
    """The server is at its limits, or stopping: try again."""


class ConflictError(DeltaSidecarError):
    """Other writers committed first, at every attempt; nothing was committed."""

    conflicts: tuple[str, ...] = ()
    """What each attempt met, in order."""


class TableChangedError(ConflictError):
    """Another writer changed the schema or the partitioning during a write; nothing was committed."""


class SparkError(DeltaSidecarError):
    """Spark is missing, cannot start, or gave up on a job."""


class UncertainCommitError(SparkError):
    """A write failed, and it is unclear whether it was, or will be, committed. Its commit was not found."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelled word, for a message: ` (did you mean ts?)`, or an empty text."""
    from difflib import get_close_matches

    by_folded = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), by_folded, 1)
    return f" (did you mean {by_folded[near[0]]}?)" if near else ""


def needs_extra(what: str, package: str, extra: str) -> InputError:
    """The error for a call that needs a package which only an extra installs."""
    return InputError(f"{what} needs {package}; run: pip install 'delta-sidecar[{extra}]'")
