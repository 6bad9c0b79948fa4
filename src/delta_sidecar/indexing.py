"""The index of a table by the table's URI: build it, verify it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from delta_sidecar.index.build.build import BuildOptions, BuildReport
from delta_sidecar.index.build.build import build_index as build_index_of_store
from delta_sidecar.index.verify.verify import VerifyReport
from delta_sidecar.index.verify.verify import verify_index as verify_index_of_store
from delta_sidecar.storage.given_store import store_at

if TYPE_CHECKING:
    from delta_sidecar.storage.given_store import GivenStore


def build_index(
    uri: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    options: BuildOptions | None = None,
    store: GivenStore | None = None,
    progress: Callable[[str], None] | None = None,
) -> BuildReport:
    """Build the index of a table in this process, without Spark, and return what was done.

    An older index is brought up to date at a cost in proportion to what changed. While a build runs, and if it dies,
    readers use the index of before. `delta_sidecar.pipeline.build_index` does the same and hands tables of millions of
    files to Spark.

    Args:
        uri: Where the table lies: a local path or a URI such as `s3://bucket/events`.
        version: The version to index; the newest if not given.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        options: Sort column, time column, a build from scratch; see `BuildOptions`.
        store: A store of obstore that holds the table, as for `DeltaTable`.
        progress: Called with one line of text whenever a step begins.

    Returns:
        A `BuildReport`: the version that is indexed, how many files it has, how many parts were written.

    Raises:
        TableNotFoundError: There is no Delta table at `uri`.
        VersionNotFoundError: The table has no such version.
        InputError: The table is too large for one process: use `delta_sidecar.pipeline.build_index`, or
            `BuildOptions(engine="process")`. Also an unknown sort or time column.
        UnsupportedFeatureError: The table needs a feature that this version does not know.
        StorageError: The store cannot be reached, or refuses a write.

    Example:
        >>> import delta_sidecar
        >>> report = delta_sidecar.build_index("events")
        >>> print(report.version, report.mode, report.files)
        3 full 4
    """
    return build_index_of_store(store_at(uri, store, storage_options), version, options, progress=progress)


def verify_index(
    uri: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    store: GivenStore | None = None,
    most_named: int = 20,
) -> VerifyReport:
    """Check the index of a table against a replay of its log, and return every difference.

    It reads the whole index and the whole log, and writes nothing. An index that is wrong is an answer, not an error.

    Args:
        uri: Where the table lies: a local path or a URI such as `s3://bucket/events`.
        version: The version whose index is checked; that of the newest index if not given.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        store: A store of obstore that holds the table, as for `DeltaTable`.
        most_named: How many files that differ are named in `problems`.

    Returns:
        A `VerifyReport`: `ok`, and `problems` with a line for each difference. No index is a problem, too.

    Raises:
        TableNotFoundError: There is no Delta table at `uri`.
        VersionNotFoundError: The table has no such version.
        StorageError: The store cannot be reached.

    Example:
        >>> import delta_sidecar
        >>> report = delta_sidecar.verify_index("events")
        >>> report.ok, report.problems
        (False, ('no index; build it with `sidecar build`',))
        >>> _ = delta_sidecar.build_index("events")
        >>> delta_sidecar.verify_index("events").ok
        True
    """
    return verify_index_of_store(store_at(uri, store, storage_options), version, most_named)
