"""The whole index of a table that fits in the memory of one process."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from delta_sidecar.errors import CorruptLogError, ObjectExistsError
from delta_sidecar.index import building
from delta_sidecar.index.building import Build, part_slices
from delta_sidecar.index.entries import PartEntry
from delta_sidecar.index.live import live_rows
from delta_sidecar.index.manifest import text_of
from delta_sidecar.index.names import part_id, single_id
from delta_sidecar.index.parts import MANIFEST_KEY, write_part
from delta_sidecar.index.rows import index_rows, joined, sorted_rows

_log = logging.getLogger(__name__)


def build_whole(build: Build, notes: list[str]) -> list[PartEntry]:
    """All live rows, sorted in memory. A broken checkpoint means the next base, as for every reader."""
    tables: list[pa.Table] | None = None
    while tables is None:
        try:
            tables = [index_rows(batch, build.layout) for batch in live_rows(build.snapshot)]
        except CorruptLogError as error:
            if build.snapshot.segment.base is None:
                raise
            notes.append(f"{build.snapshot.segment.base} was not used: {error}")
            build.snapshot, _ = build.snapshot.on_older_base()
    return write_sorted(build, tables)


def write_sorted(build: Build, tables: Sequence[pa.Table]) -> list[PartEntry]:
    """Rows as parts in the order of the index; few of them as one part in one file."""
    if not tables:
        return []
    rows = sorted_rows(joined(tables), build.layout)
    build.progress(f"{rows.num_rows:,} files read")
    if not rows.num_rows:
        return []
    if rows.num_rows <= building.SINGLE_ROWS:
        return [_single(build, rows)]
    return [build.write(rows.slice(at, size)) for at, size in part_slices(rows.num_rows, build.options.part_rows)]


def _single(build: Build, rows: pa.Table) -> PartEntry:
    """One file with the manifest inside, so that it serves without its manifest, too."""
    described = text_of(msgspec.structs.replace(build.manifest([]), files=rows.num_rows))
    for name in (single_id(build.version), part_id(build.version, build.id)):
        try:
            return write_part(
                build.store, build.directory, name, rows, build.layout, single=True, metadata={MANIFEST_KEY: described}
            )
        except ObjectExistsError:
            _log.info("%s is taken by an earlier build", name)
    raise AssertionError("a unique name was taken")
