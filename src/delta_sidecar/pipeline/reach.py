"""Whether the workers of a cluster reach a table: a path of this machine need not be one of theirs.

Where it is not, Spark fails late or not at all: parts and data files stand on the disks of workers, and the log names
files that nobody else sees. So a few small files are written here and read by tasks, then written by tasks and counted
here. By Spark's own reader and writer, which need no Python on the workers.
"""

from __future__ import annotations

import re
import shutil
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from delta_sidecar.errors import InputError, SparkError
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.shipping import is_here
from delta_sidecar.storage.uri import parse_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES: Final = 4
"""Files that go each way: tasks enough for some workers, not for all of a large cluster."""

_GLOB: Final = re.compile(r"([*?{}\[\]\\])")
"""Characters that Spark reads as a pattern in a path."""

_reached: weakref.WeakKeyDictionary[SparkSession, set[str]] = weakref.WeakKeyDictionary()


def check_reach(spark: SparkSession, uri: str) -> None:
    """`InputError` if what this process and the workers read and write at a place is not the same.

    Only paths are tried, once per session, and only where the workers may be elsewhere: a store has one address for
    all.
    """
    location = parse_location(uri)
    known = _reached.setdefault(spark, set())
    if location.scheme != "file" or location.path in known or is_here(spark):
        return
    _probe(spark, Path(location.path))
    known.add(location.path)


def _probe(spark: SparkSession, table: Path) -> None:
    """Try the table's directory; for a table that is still to be made, the nearest one above it."""
    here = next(place for place in (table, *table.parents) if place.is_dir())
    # Hidden by its dot from everyone who reads or cleans a table.
    scratch = here / f".sidecar-probe-{uuid.uuid4().hex}"
    try:
        _compare(_read_there(spark, scratch / "out"), "workers read", table)
        _compare(_written_there(spark, scratch / "in"), "workers wrote", table)
    except (SparkError, OSError) as error:
        raise InputError(f"{_unreachable(table)} ({error})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _read_there(spark: SparkSession, directory: Path) -> int:
    """How many files that this process writes are seen by tasks."""
    directory.mkdir(parents=True)
    for number in range(_FILES):
        (directory / f"{number}.txt").write_text(f"{number}\n")
    with _one_kind_of_failure("they cannot read what this machine writes"):
        return spark.read.text("file://" + _GLOB.sub(r"\\\1", str(directory))).count()


def _written_there(spark: SparkSession, directory: Path) -> int:
    """How many files that tasks write are seen by this process."""
    with _one_kind_of_failure("they cannot write there"):
        numbers = spark.range(0, _FILES, 1, _FILES).selectExpr("CAST(id AS STRING) AS value")
        numbers.write.text(f"file://{directory}")
    return len(list(directory.glob("part-*")))


@contextmanager
def _one_kind_of_failure(what: str) -> Iterator[None]:
    """A path that Spark itself does not find is the workers' failure here, not the caller's."""
    try:
        with spark_failures(what):
            yield
    except InputError as error:
        raise SparkError(str(error)) from error


def _compare(seen: int, who: str, table: Path) -> None:
    if seen != _FILES:
        raise InputError(f"{_unreachable(table)} ({who} {seen} of {_FILES} files)")


def _unreachable(table: Path) -> str:
    return (
        f"{table} is not the same directory on this machine and on Spark's workers; use a file system that all of them "
        "mount at that path, or an object store"
    )
