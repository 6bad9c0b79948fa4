"""Spark's failures in our words: one line, one error tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from delta_sidecar.errors import InputError, SparkError

_LONGEST = 500
_TELLING = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ?(.*)")
_INPUT = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "MALFORMED", "FAILED_READ_FILE", "CAST_INVALID_INPUT")
"""Conditions that the source is to blame for, by how they begin."""


@contextmanager
def spark_failures(what: str) -> Iterator[None]:
    """Whatever Spark raises in the block, as one line that begins with what was being done."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        condition, line = told(str(error))
        kind = InputError if condition.startswith(_INPUT) else SparkError
        raise kind(f"{what}: {line}") from error


def told(text: str) -> tuple[str, str]:
    """The condition and the line of a Java stack trace that says most: the innermost cause with a condition."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [(match[1], match[0]) for line in lines if (match := _TELLING.search(line))]
    condition, line = telling[-1] if telling else ("", lines[0] if lines else "Spark said nothing")
    return condition, line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
