"""What the command says when something goes wrong: one line on stderr and an exit code.

0 done (or nobody reads any more); 2 what the user can mend; 1 the unexpected; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from click.exceptions import ClickException, Exit

from delta_sidecar.errors import DeltaSidecarError

DONE, UNEXPECTED, MENDABLE, INTERRUPTED = 0, 1, 2, 130

_SECRET_WORDS = ("key", "secret", "token", "sas", "password", "credential", "service_account", "authorization")
_NO_SECRETS = ("_file", "_enabled", "_path", "_uri")
"""Names that end so hold a place or a switch."""
_ORDINARY = re.compile(
    r"""(?ix) .{1,3} | [0-9.]{1,7} | [a-z]{2,10}-[a-z]+-?[0-9]
    | true | false | none | null | auto | default | test | demo | example | local | user | admin | name | value
    | keys? | secrets? | tokens? | passwords? | access | account | credentials? | denied | error | failed | option
    | tables? | files? | rows? | columns? | versions? | logs? | index | parts? | bucket | container | region | store
    | endpoint | delta | sidecar | spark | azure | google""",
    re.DOTALL,
)
"""Words of messages: nobody learns from one of them that it is a secret. Regions are like them."""
_WORD = re.compile(r"[A-Za-z]{1,15}")

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of what the command writes to: stores and files say so in errors of their own."""
_interrupted = threading.Event()


@contextmanager
def reported(verbose: bool, secrets: Mapping[str, str]) -> Iterator[None]:
    """Turn whatever the block raises into a line and an exit code."""
    from delta_sidecar.cli.interrupts import interrupts

    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_pipe()
        raise Exit(DONE) from None
    except KeyboardInterrupt:
        interrupts.ended()
        say_interrupted()
        raise Exit(INTERRUPTED) from None
    except DeltaSidecarError as error:
        say_line(str(error), secrets)
        raise Exit(MENDABLE) from None
    except (Exit, ClickException):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            say_line(f"standard output cannot be written: {error.strerror}; nothing after that was written", secrets)
            _leave_pipe()
            raise Exit(MENDABLE) from None
        _unexpected(error, verbose, secrets)
        raise Exit(UNEXPECTED) from None


def say_usage(message: str, command: str) -> None:
    """One line for arguments that do not fit."""
    _say(f"{message.rstrip('.')}; see {command} --help")


def say_line(text: str, secrets: Mapping[str, str]) -> None:
    """One line on stderr, without secrets. After an interrupt nobody asks what else went wrong."""
    if not _interrupted.is_set():
        _say(without_secrets(text, secrets))


def say_interrupted() -> None:
    """One line, once."""
    if not _interrupted.is_set():
        _interrupted.set()
        _say("interrupted")


def _unexpected(error: Exception, verbose: bool, secrets: Mapping[str, str]) -> None:
    if verbose:
        import traceback

        sys.stderr.write(without_secrets("".join(traceback.format_exception(error)), secrets))
        return
    say_line(f"unexpected {type(error).__name__}: {error}; run again with --verbose to see where", secrets)


def _say(text: str) -> None:
    """A line of its own, also where a line that changes stands on the terminal."""
    fresh = "\r\x1b[2K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{fresh}sidecar: {' '.join(text.split())}\n")
    sys.stderr.flush()


def without_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """The text without the values of options that are secrets by their name.

    The last line of defence: messages are made without secrets, but not all of them are ours. A value that is one word
    is taken out where it stands as a word, an ordinary one only where it is named a secret (`password=test`).
    """
    for name, value in secrets.items():
        if not value or not _is_secret(name):
            continue
        if _ORDINARY.fullmatch(value):
            named = "|".join(_SECRET_WORDS)
            pattern = rf"(?i:((?:{named})[\w.\-]*[\"']?\s*[=:]\s*[\"']?)){re.escape(value)}(?![\w\-])"
            text = re.sub(pattern, r"\1***", text)
        elif _WORD.fullmatch(value):
            text = re.sub(rf"(?<![A-Za-z0-9]){value}(?![A-Za-z0-9])", "***", text)
        else:
            text = text.replace(value, "***")
    return text


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS) and not lowered.endswith(_NO_SECRETS)


def _leave_pipe() -> None:
    """Nobody reads: what is left in the buffer goes nowhere, without a complaint when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
