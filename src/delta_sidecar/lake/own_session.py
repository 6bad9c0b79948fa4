"""A session of its own for one statement.

What marks one commit (`userMetadata`, a transaction id) is a setting of the session for SQL statements, and threads
that share a session share its settings: another thread's commit would bear our token, or be skipped for our
transaction id. So every statement runs in a clone of the caller's session: same settings, views and functions, and
nothing that is set there is seen elsewhere. A clone takes some milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from delta_sidecar.errors import SparkError
from delta_sidecar.lake.policy_effects import OF_ONE_COMMIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PYTHON_SIDE: Final = ("_sc", "_jsc", "_jvm", "_profiler_collector")


@contextmanager
def own_session(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A clone of a session with these settings; without those that another statement set for its own commit."""
    session = _clone(spark)
    try:
        for name in OF_ONE_COMMIT:
            session.conf.unset(name)
        for name, value in settings.items():
            session.conf.set(name, value)
        yield session
    finally:
        _release(session)


@contextmanager
def source_session(frame: DataFrame, settings: Mapping[str, str]) -> Iterator[tuple[SparkSession, str]]:
    """The same for a statement that reads a frame: the clone knows it as a view of that name.

    The view is dropped at the end: on classic Spark a clone copies views when it first needs one.
    """
    with view_of(frame) as name, own_session(frame.sparkSession, settings) as session:
        yield session, name


@contextmanager
def view_of(frame: DataFrame) -> Iterator[str]:
    """A frame under a name that SQL can use, for the time of a block."""
    name = f"sidecar_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


def _clone(spark: Any) -> Any:
    if hasattr(spark, "cloneSession"):
        return spark.cloneSession()
    if not hasattr(spark, "_jsparkSession"):
        raise SparkError(f"a {type(spark).__module__} session cannot be cloned; use one of pyspark 4.1 or newer")
    # Not by the constructor, which would make the clone the session of every RDD.toDF in the process.
    session = object.__new__(type(spark))
    for name in _PYTHON_SIDE:
        setattr(session, name, getattr(spark, name))
    session._jsparkSession = spark._jsparkSession.cloneSession()
    return session


def _release(session: Any) -> None:
    """A clone on a Connect server lives until it is released; one of the JVM is collected. Neither may be stopped:
    that ends Spark, or the server of a local session."""
    if hasattr(session, "cloneSession"):
        with suppress(Exception):
            session.client.release_session()
            session.client.close()
