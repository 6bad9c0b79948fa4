"""Build an index: from scratch, or from an older one at a cost that depends only on what changed.

One process does this in bounded memory; only a very large index from scratch needs Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from delta_sidecar.errors import CorruptIndexError, CorruptLogError, InputError, LogGapError
from delta_sidecar.index.build.build_job import Build, Progress, merged_metadata
from delta_sidecar.index.build.build_job import BuildOptions as BuildOptions
from delta_sidecar.index.build.extend import TooMuchChanged, extended
from delta_sidecar.index.build.full import build_whole, take_older_base
from delta_sidecar.index.build.garbage import collect_if_due
from delta_sidecar.index.build.live import count_files
from delta_sidecar.index.build.publish import give_hint, leased, publish
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.index_names import directory_for, manifest_name, new_build_id, single_id
from delta_sidecar.index.format.manifest import Manifest, layout_of
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.sort_keys import PartOrder, same_values
from delta_sidecar.index.read.manifests import FoundManifest, commit_identity, newest_usable_manifest
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.storage.store import Store
from delta_sidecar.texts import counted
from delta_sidecar.values.types import DataType, PrimitiveType, StructType

Mode: TypeAlias = Literal["current", "full", "incremental"]
WholeBuild: TypeAlias = Callable[[Build, list[str]], list[PartEntry]]
"""Builds every part of a large table, on Spark, and adds to the notes of the report."""


ON_SPARK = "built on Spark"
"""The beginning of the reason why Spark builds an index."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build: the return value of `build_index`.

    Example:
        >>> from delta_sidecar import build_index
        >>> report = build_index("events")
        >>> print(report.mode, report.parts_written, report.manifest)
        full 1 _delta_log/_sidecars/v3.manifest.json
    """

    version: int
    mode: Mode
    engine: str
    manifest: str
    """Path of the manifest, relative to the table."""
    files: int
    parts: int
    parts_written: int
    parts_reused: int
    index_bytes: int
    seconds: float
    built_on: int | None = None
    """The version of the older index that the build started from; None if it started from scratch."""
    reason: str = ""
    """Why this engine built the index; empty if there was no choice."""
    notes: tuple[str, ...] = ()
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    """Your own metadata in the manifest."""


def build_index(
    store: Store,
    version: int | None = None,
    options: BuildOptions | None = None,
    whole: WholeBuild | None = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Build the index of a version (default: the newest), from an older index if there is one, else from scratch.

    `whole` builds an index that is too large for one process. Whatever happens, readers see either the previous index
    or the new one; files that a failed build leaves behind are garbage.
    """
    began = time.monotonic()
    snapshot = load_snapshot(store, version)
    build = _begin(snapshot, options or BuildOptions(), progress or (lambda message: None))
    with leased(store, build.directory, build.id):
        base, notes = newest_usable_manifest(snapshot)
        _remember(build, base)
        is_current = base is not None and _is_current(base, build)
        if base is not None and is_current and base.manifest.user_metadata == build.user_metadata:
            give_hint(store, build.directory, build.version, snapshot.listing.head)
            return _report(build, base.manifest, "current", "none", began, base.manifest.version, notes)
        outcome = _same_parts(base) if base is not None and is_current else _parts(build, base, notes, whole)
        manifest = build.manifest(outcome.parts)
        published = publish(build.snapshot, build.directory, manifest, replace=_replaces(base, build))
    collect_if_due(store, build.directory)
    return _report(build, published, outcome.mode, outcome.engine, began, outcome.base, notes)


def _begin(snapshot: Snapshot, options: BuildOptions, progress: Progress) -> Build:
    layout = IndexLayout.of(snapshot.schema, snapshot.partition_columns, options.sort_column, options.time_column)
    return Build(snapshot, layout, directory_for(snapshot.protocol), new_build_id(), options, progress)


def _remember(build: Build, base: FoundManifest | None) -> None:
    """Keep the sort and time columns of the last index, unless others are chosen or the schema lacks them now."""
    before = {} if base is None else base.manifest.user_metadata
    build.user_metadata = merged_metadata(before, build.options.manifest_metadata)
    if base is None:
        return
    then, chosen = base.manifest, build.options
    sort = _logical(build.snapshot.schema, then.sort.column) if then.sort.column else "modification_time"
    time_column = _logical(build.snapshot.schema, then.time_column)
    with suppress(InputError):
        build.layout = IndexLayout.of(
            build.snapshot.schema,
            build.snapshot.partition_columns,
            chosen.sort_column or sort,
            chosen.time_column or time_column,
        )


def _logical(schema: StructType, physical: Sequence[str]) -> str | None:
    """The name of a column by its physical path; None if the schema no longer has it."""
    names: list[str] = []
    level: DataType = schema
    for part in physical:
        field_ = next((f for f in level if f.physical_name == part), None) if isinstance(level, StructType) else None
        if field_ is None:
            return None
        names.append(field_.name)
        level = field_.type
    return ".".join(names) or None


def _is_current(base: FoundManifest, build: Build) -> bool:
    same = base.manifest.version == build.version and base.directory == build.directory
    return same and not build.options.full and _same_layout(base.manifest, build) and _same_commit(base, build)


def _same_commit(base: FoundManifest, build: Build) -> bool:
    """Commit files never change: one with other bytes is of another log, even if the table's id is the same."""
    then, now = base.manifest.commit, commit_identity(build.snapshot)
    if then is None or now is None:
        return True
    return then.size == now.size and then.crc32 in (None, now.crc32)


def _replaces(base: FoundManifest | None, build: Build) -> bool:
    """Whether the build replaces the manifest of the same version."""
    return base is not None and base.manifest.version == build.version and base.directory == build.directory


def _same_layout(manifest: Manifest, build: Build) -> bool:
    """Whether both have the same sort and time columns, with keys of the same form, so one manifest can name parts of
    both."""
    try:
        then, now = layout_of(manifest), build.layout
        PartOrder.of(manifest.parts, then.sort)
    except CorruptIndexError:
        return False
    if (then.sort.kind, then.sort.path, then.buckets) != (now.sort.kind, now.sort.path, now.buckets):
        return False
    if then.time is None or now.time is None:
        return then.time == now.time and same_values(then.sort.type, now.sort.type)
    same = then.time.path == now.time.path and same_values(then.time.type, now.time.type)
    return same and same_values(then.sort.type, now.sort.type)


@dataclass(frozen=True, slots=True)
class _Made:
    """The parts of an index, and how they were made."""

    parts: list[PartEntry]
    mode: Mode
    engine: str
    base: int | None = None


def _same_parts(base: FoundManifest) -> _Made:
    """Only the user metadata changed: the manifest is written again with the same parts."""
    return _Made(list(base.manifest.parts), "incremental", "none", base.manifest.version)


def _parts(build: Build, base: FoundManifest | None, notes: list[str], whole: WholeBuild | None) -> _Made:
    if base is not None and _can_extend(base, build, notes):
        try:
            return _Made(extended(build, base), "incremental", "process", base.manifest.version)
        except (CorruptIndexError, LogGapError, TooMuchChanged) as error:
            reason = str(error).partition("; build the index again")[0]
            notes.append(f"rebuilt from scratch: {reason}")
    chosen, limit = build.options.engine, build.options.limits.process_files
    count = _counted(build, limit, notes) if chosen == "auto" else None
    if chosen == "process" or (count is not None and count <= limit):
        parts = build_whole(build, notes)
        files = sum(part.rows for part in parts)
        why = "as requested" if count is None else f"Spark is used above {limit:,}"
        build.reason = f"{counted(files, 'file')}: built in one process; {why}"
        return _Made(parts, "full", "process")
    why = (
        "as requested" if count is None else f"{counted(count, 'file')} to read, and one process builds up to {limit:,}"
    )
    build.reason = f"{ON_SPARK}; {why}"
    build.progress(build.reason)
    if whole is None:
        raise InputError(
            f"the index must be {build.reason}; this function cannot use Spark: use `sidecar build`, "
            "`delta_sidecar.pipeline.build_index`, or the engine `process`"
        )
    return _Made(whole(build, notes), "full", "spark")


def _counted(build: Build, limit: int, notes: list[str]) -> int:
    """The number of files to read, or a number on the same side of the limit."""
    while True:
        try:
            build.snapshot = build.snapshot.with_open_base()
            return count_files(build.snapshot, limit)
        except CorruptLogError as error:
            take_older_base(build, error, notes)


def _can_extend(base: FoundManifest, build: Build, notes: list[str]) -> bool:
    if build.options.full or base.manifest.version == build.version:
        return False
    if base.directory != build.directory:
        notes.append("rebuilt from scratch: the table's protocol moved its index to another directory")
        return False
    if not _same_layout(base.manifest, build):
        notes.append("rebuilt from scratch: the sort key, the time column, a type of these or the buckets changed")
        return False
    if _dates_became_times(layout_of(base.manifest), build.layout):
        notes.append("rebuilt from scratch: a column of dates became one of times, and its statistics are written so")
        return False
    return True


def _dates_became_times(then: IndexLayout, now: IndexLayout) -> bool:
    """Whether a date in the stats of old files has to be kept as a text now: a part of times does not give it back."""
    dates = {leaf.path for leaf in then.leaves if leaf.type == PrimitiveType("date")}
    return any(leaf.path in dates and leaf.type == PrimitiveType("timestamp_ntz") for leaf in now.leaves)


def _report(
    build: Build,
    manifest: Manifest,
    mode: Mode,
    engine: str,
    began: float,
    base: int | None,
    notes: Sequence[str],
) -> BuildReport:
    own = (p for p in manifest.parts if f"-{build.id}-" in p.id or p.id == single_id(build.version))
    written = [] if engine == "none" else list(own)
    reused = 0 if mode == "full" else len(manifest.parts) - len(written)
    return BuildReport(
        version=manifest.version,
        mode=mode,
        engine=engine,
        manifest=f"{build.directory}/{manifest_name(manifest.version)}",
        files=manifest.files,
        parts=len(manifest.parts),
        parts_written=len(written),
        parts_reused=reused,
        index_bytes=sum(part.size for part in manifest.parts),
        seconds=time.monotonic() - began,
        built_on=base,
        reason=build.reason,
        notes=tuple(notes),
        user_metadata=manifest.user_metadata,
    )
