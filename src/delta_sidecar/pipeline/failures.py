"""Spark's failures in our words: one line, one error tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from delta_sidecar import errors
from delta_sidecar.errors import DeltaSidecarError, InputError, SparkError

_LONGEST = 500
_RAISED = re.compile(r"[\w.]*(Error|Exception|Invalid)\b: ")
_TELLING = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ?(.*)")
_OURS = re.compile(r"delta_sidecar\.errors\.(\w+): (.+)")
_INPUT = (
    "PATH_NOT_FOUND",
    "UNABLE_TO_INFER_SCHEMA",
    "MALFORMED",
    "FAILED_READ_FILE",
    "CAST_INVALID_INPUT",
    "PARSE_SYNTAX_ERROR",
    "PARSE_EMPTY_STATEMENT",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION",
    "INVALID_DATETIME_PATTERN",
    "UNSUPPORTED_DATATYPE",
)
"""Conditions that the source or an argument is to blame for, by how they begin."""


@contextmanager
def spark_failures(what: str) -> Iterator[None]:
    """Whatever Spark raises in the block, as one line that begins with what was being done.

    An error of ours that a task or a stream raised comes back from Spark as text: it is raised again as what it was.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        own = own_error(text)
        if own is not None:
            raise own from error
        condition, line = condition_and_line(text)
        kind = InputError if condition.startswith(_INPUT) else SparkError
        raise kind(f"{what}: {line}") from error
    except ConnectionError as error:
        raise SparkError(f"{what}: Spark's Java process has ended; run it again") from error


def own_error(text: str) -> DeltaSidecarError | None:
    """Our own error that a Java stack trace reports."""
    match = _OURS.search(text)
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not isinstance(kind, type) or not issubclass(kind, DeltaSidecarError):
        return None
    return kind(match[2].strip())


def _with_cause(line: str, lines: list[str]) -> str:
    """A line that ends where its cause would begin, with that: the end of a Python trace, or the next line."""
    if not line.endswith(":"):
        return line
    raised = [other for other in lines if _RAISED.match(other)]
    at = next((number for number, other in enumerate(lines) if other.endswith(line)), len(lines))
    following = raised[-1:] if "Python worker" in line else lines[at + 1 : at + 2]
    return " ".join([line, *following])


def condition_and_line(text: str) -> tuple[str, str]:
    """The condition and the line of a Java stack trace that says most: the innermost cause with a condition."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [(match[1], match[0]) for line in lines if (match := _TELLING.search(line))]
    condition, line = telling[-1] if telling else ("", lines[0] if lines else "Spark said nothing")
    line = _with_cause(line, lines)
    return condition, line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
