"""The error tree, grouped by what the caller would do about it.

DeltaSidecarError
├── InputError                  change the call
│   ├── TableNotFoundError      no Delta table at that place
│   ├── VersionNotFoundError    no such version, or it can no longer be rebuilt
│   ├── PredicateError          the predicate cannot be parsed or does not fit the schema
│   ├── UnknownColumnError      no such column
│   ├── NotOfferedError         another tool does that: the message names it
│   ├── ConsumedStreamError     the stream was read or closed before: ask for another
│   ├── PositionError           a listing cannot go on after that position: list from the start
│   └── OptionError             an option or storage option is wrong
├── UnsupportedTableError       use another reader, or a newer one of ours
│   ├── UnsupportedFeatureError a reader feature or protocol version
│   └── UnsupportedTypeError    a type or encoding that cannot be read as rows
├── CorruptIndexError           build the index again; readers go on without it
├── CorruptTableError           mend the table
│   ├── LogGapError             commits are missing between base and head
│   ├── CorruptLogError         a commit, checkpoint or the state they give is broken
│   └── CorruptDataError        a data file or deletion vector is broken or missing
├── StorageError                mend the connection, the credentials, or wait
│   ├── ObjectNotFoundError     the object is not there
│   ├── ObjectExistsError       put-if-absent met an object
│   ├── ObjectChangedError      compare-and-swap met another object than expected
│   ├── AccessDeniedError       credentials missing, wrong or not allowed
│   └── StoreUnavailableError   the store did not answer, throttled, or broke off, after all retries
├── ConflictError               run it again: other writers were faster, at every attempt
└── SparkError                  mend Spark: its installation, its settings, or the job it ran

Every message says what, where, and what to do next, in one line; secrets never appear in it.
"""

from __future__ import annotations

from collections.abc import Iterable


class DeltaSidecarError(Exception):
    """Anything this library reports on purpose."""


class InputError(DeltaSidecarError):
    """The call is wrong: change it."""


class TableNotFoundError(InputError):
    """No Delta table at that place."""


class VersionNotFoundError(InputError):
    """No such version, or it can no longer be rebuilt."""


class PredicateError(InputError):
    """The predicate cannot be parsed or does not fit the schema."""


class UnknownColumnError(InputError):
    """No such column."""


class NotOfferedError(InputError):
    """The call writes, or does something else that this reader leaves to other tools."""


class ConsumedStreamError(InputError):
    """The stream was read or closed before: it has nothing more to give."""


class PositionError(InputError):
    """A listing cannot go on after that position: it is of another listing, or that one cannot be repeated."""


class OptionError(InputError):
    """An option or storage option is wrong."""


class UnsupportedTableError(DeltaSidecarError):
    """The table needs something this reader does not have."""


class UnsupportedFeatureError(UnsupportedTableError):
    """A reader feature or protocol version that is not supported."""


class UnsupportedTypeError(UnsupportedTableError):
    """A type or encoding that cannot be read as rows."""


class CorruptIndexError(DeltaSidecarError):
    """The index is broken, incomplete, or of another table. Never in the way of an answer."""


class CorruptTableError(DeltaSidecarError):
    """The table itself is broken."""


class LogGapError(CorruptTableError):
    """Commits are missing between base and head."""


class CorruptLogError(CorruptTableError):
    """A commit, a checkpoint, or the state they give is broken."""


class CorruptDataError(CorruptTableError):
    """A data file or deletion vector is broken or missing."""


class StorageError(DeltaSidecarError):
    """The object store said no."""


class ObjectNotFoundError(StorageError):
    """The object is not there."""


class ObjectExistsError(StorageError):
    """Put-if-absent met an object."""


class ObjectChangedError(StorageError):
    """Compare-and-swap met another object than the one to be replaced."""


class AccessDeniedError(StorageError):
    """Credentials are missing, wrong, or not allowed."""


class StoreUnavailableError(StorageError):
    """The store did not answer, throttled, or broke off, after all retries."""


class ConflictError(DeltaSidecarError):
    """Other writers of the table were faster, at every attempt; nothing was written."""


class SparkError(DeltaSidecarError):
    """Spark is missing, cannot start, or gave up on a job."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word that is nearest to one that is not known, for a message: ` (did you mean ts?)`, or nothing."""
    from difflib import get_close_matches

    by_folded = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), by_folded, 1)
    return f" (did you mean {by_folded[near[0]]}?)" if near else ""
