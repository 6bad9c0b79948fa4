"""Build and verify the index of a table, given its URI."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from delta_sidecar.index.build.build import BuildOptions, BuildReport
from delta_sidecar.index.build.build import build_index as build_index_of_store
from delta_sidecar.index.verify.verify import VerifyReport
from delta_sidecar.index.verify.verify import verify_index as verify_index_of_store
from delta_sidecar.storage.opening import store_at

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
    """Build or update the index of a table in this process, without Spark, and return a report.

    If there is an older index, the cost depends only on what changed since. While a build runs, or if it dies,
    readers use the previous index. `delta_sidecar.pipeline.build_index` does the same, and uses Spark for the first
    index of a table with millions of files.

    Args:
        uri: The location of the table: a local path or a URI such as `s3://bucket/events`.
        version: The version to index; the newest if not given.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        options: Sort column, time column, a build from scratch; see `BuildOptions`.
        store: An obstore store that holds the table, as for `DeltaTable`.
        progress: Called with one line of text whenever a step begins.

    Returns:
        A `BuildReport`: the indexed version, its number of files, the number of parts written.

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
    progress: Callable[[str], None] | None = None,
) -> VerifyReport:
    """Check the index of a table against a replay of its log, and return every difference.

    It reads the whole index and the whole log, and writes nothing. A wrong index is reported, not raised as an error.

    Args:
        uri: The location of the table: a local path or a URI such as `s3://bucket/events`.
        version: The version whose index is checked; the newest index if not given.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        store: An obstore store that holds the table, as for `DeltaTable`.
        most_named: The largest number of differing files to name in `problems`.
        progress: Called with one line of text, such as `3 of 125 parts of the index checked`, while the check runs.

    Returns:
        A `VerifyReport`: `ok`, and `problems` with a line for each difference. A missing index is also a problem.

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
    say = progress or (lambda message: None)
    return verify_index_of_store(store_at(uri, store, storage_options), version, most_named, say)
