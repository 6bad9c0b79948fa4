"""What the command says when something goes wrong: one line on stderr and an exit code.

0 done (or nobody reads any more); 2 what the user can mend; 1 the unexpected; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from delta_sidecar.errors import DeltaSidecarError

DONE, UNEXPECTED, MENDABLE, INTERRUPTED = 0, 1, 2, 130

_SECRET_WORDS = ("key", "secret", "token", "sas", "password", "credential", "service_account", "authorization")


@contextmanager
def reported(verbose: bool, storage_options: Mapping[str, str]) -> Iterator[None]:
    """Turn whatever the block raises into a line and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_pipe()
        raise typer.Exit(DONE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except DeltaSidecarError as error:
        _say(without_secrets(str(error), storage_options))
        raise typer.Exit(MENDABLE) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:
        _unexpected(error, verbose, storage_options)
        raise typer.Exit(UNEXPECTED) from None


def say_usage(message: str, command: str) -> None:
    """One line for arguments that do not fit. One too many is not repeated: it may be a secret that lost its option."""
    text = message.partition(" (")[0] if "extra argument" in message else message
    _say(f"{text.rstrip('.')}; see {command} --help")


def say_line(text: str, storage_options: Mapping[str, str]) -> None:
    """One line on stderr beside a result, without secrets."""
    _say(without_secrets(text, storage_options))


def _unexpected(error: Exception, verbose: bool, storage_options: Mapping[str, str]) -> None:
    if verbose:
        import traceback

        trace = "".join(traceback.format_exception(error))
        sys.stderr.write(without_secrets(trace, storage_options))
        return
    text = f"unexpected {type(error).__name__}: {error}; run again with --verbose to see where"
    _say(without_secrets(text, storage_options))


def _say(text: str) -> None:
    sys.stderr.write(f"sidecar: {' '.join(text.split())}\n")


def without_secrets(text: str, storage_options: Mapping[str, str]) -> str:
    """The last line of defence: messages are made without secrets, but not all of them are ours."""
    for name, value in storage_options.items():
        if value and any(word in name.lower() for word in _SECRET_WORDS):
            text = text.replace(value, "***")
    return text


def _leave_pipe() -> None:
    """Nobody reads: what is left in the buffer goes nowhere, without a complaint when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
