"""How the command reports a failure: one line on stderr and an exit code.

0 success (or the output was closed); 2 an error that the user can fix; 1 an unexpected error; 130 interrupted;
143 terminated.
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
from delta_sidecar.texts import printable

DONE, UNEXPECTED, MENDABLE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM. It is a `KeyboardInterrupt`, so that code that cleans up after Ctrl-C does so after SIGTERM, too."""


_SECRET_WORDS = ("key", "secret", "token", "sas", "password", "credential", "service_account", "authorization")
_NO_SECRETS = ("_file", "_enabled", "_path", "_uri")
"""Options with these endings hold a location or a switch, not a secret."""
_ORDINARY = re.compile(
    r"""(?ix) .{1,3} | [0-9.]{1,7} | [a-z]{2,10}-[a-z]+-?[0-9]
    | true | false | none | null | auto | default | test | demo | example | local | user | admin | name | value
    | keys? | secrets? | tokens? | passwords? | access | account | credentials? | denied | error | failed | option
    | tables? | files? | rows? | columns? | versions? | logs? | index | parts? | bucket | container | region | store
    | endpoint | delta | sidecar | spark | azure | google""",
    re.DOTALL,
)
"""Ordinary words and regions are not redacted, even if they are the value of a secret option."""
_WORD = re.compile(r"[A-Za-z]{1,15}")

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Standard output is full. Stores and files have their own errors for this."""
_interrupted = threading.Event()


@contextmanager
def reported(verbose: bool, secrets: Mapping[str, str]) -> Iterator[None]:
    """Turn any exception of the block into a line on stderr and an exit code."""
    from delta_sidecar.cli.interrupts import interrupts

    try:
        yield
        if sys.stdout is not None:  # None where it was closed from the start.
            sys.stdout.flush()
    except BrokenPipeError:
        _leave_pipe()
        raise Exit(DONE) from None
    except KeyboardInterrupt as error:
        interrupts.ended()
        raise Exit(say_interrupted(error)) from None
    except DeltaSidecarError as error:
        say_line(str(error), secrets)
        raise Exit(MENDABLE) from None
    except (Exit, ClickException):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            say_line(f"cannot write to standard output: {error.strerror}; the output is incomplete", secrets)
            _leave_pipe()
            raise Exit(MENDABLE) from None
        _unexpected(error, verbose, secrets)
        raise Exit(UNEXPECTED) from None


def say_usage(message: str, command: str) -> None:
    """One line for wrong arguments."""
    _say(f"{message.rstrip('.')}; see {command} --help")


def say_line(text: str, secrets: Mapping[str, str]) -> None:
    """One line on stderr, without secrets. After an interrupt nothing else is printed."""
    if not _interrupted.is_set():
        _say(without_secrets(text, secrets))


def say_interrupted(error: BaseException | None) -> int:
    """One line, once, for Ctrl-C or SIGTERM; the exit code."""
    is_terminated = isinstance(error, Terminated)
    if not _interrupted.is_set():
        _interrupted.set()
        _say("terminated" if is_terminated else "interrupted")
    return TERMINATED if is_terminated else INTERRUPTED


def _unexpected(error: Exception, verbose: bool, secrets: Mapping[str, str]) -> None:
    if verbose:
        import traceback

        lines = without_secrets("".join(traceback.format_exception(error)), secrets).split("\n")
        sys.stderr.write("\n".join(map(printable, lines)))
        sys.stderr.flush()
        return
    say_line(f"unexpected {type(error).__name__}: {error}; run again with --verbose for the traceback", secrets)


def _say(text: str) -> None:
    """Print a new line, also while a progress line is on the terminal."""
    fresh = "\r\x1b[2K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{fresh}sidecar: {printable(' '.join(text.split()))}\n")
    sys.stderr.flush()


def without_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """The text without the values of options whose names mark them as secrets.

    This is the last line of defence: our own messages have no secrets, but those of other libraries may. A value that
    is a single word is removed where it is a whole word; an ordinary word only after a secret name (`password=test`).
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
    """The output was closed: discard what is left in the buffer, without an error when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
