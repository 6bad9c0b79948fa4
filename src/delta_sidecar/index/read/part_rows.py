"""Parts as rows of a listing, in the same form as those of checkpoints, so replay, pruning and output are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import pyarrow as pa
from msgspec import Struct

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.format.index_columns import (
    KINDS,
    NUM_RECORDS,
    PARTITION,
    STATS_JSON,
    TIGHT_BOUNDS,
    descendant,
    one_array,
)
from delta_sidecar.index.format.index_layout import IndexLayout, Path
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.part_format import PARTITION_VALUES, RENAMED, guarded, leaf_arrays, nested, read_checked
from delta_sidecar.index.format.partition_map import partition_map
from delta_sidecar.index.format.sort_keys import in_key_type, key_array, key_type, without_nan
from delta_sidecar.index.read.part_file import PartFile
from delta_sidecar.log.checkpoint_rows import STATS_PARSED, TYPED_PARTITION, FileColumns, normal
from delta_sidecar.storage.store import Store

_IN_PART: Final = {**RENAMED, "stats": STATS_JSON}
"""The columns of a listing that have another name in a part."""
ALL_STATS: Final[list[Path]] = [(name,) for name in (*KINDS, STATS_JSON)]
"""The columns of a stats file with everything below them."""


class StatsColumns(Struct, frozen=True):
    """Which stats are needed, by physical path of their columns; all of them if `everything`."""

    paths: tuple[Path, ...]
    everything: bool = False

    def in_stats(self, layout: IndexLayout) -> list[Path]:
        """The columns of the stats file: the time column's bounds are in the core."""
        if self.everything:
            return list(ALL_STATS)
        time = None if layout.time is None else layout.time.path
        bounds = [(kind, *path) for path in self.paths for kind in ("min", "max") if path != time]
        return [*bounds, *(("null_count", *path) for path in self.paths), (STATS_JSON,)]

    def needs_stats(self, layout: IndexLayout) -> bool:
        """Whether a bound of another column than the time column is needed, which is not in the core."""
        return any(layout.time is None or path != layout.time.path for path in self.paths)


class PartRows:
    """The rows of one part, in the form of a listing."""

    def __init__(self, core: PartFile, part: PartEntry, columns: FileColumns, layout: IndexLayout) -> None:
        self._core = core
        self._part = part
        self._layout = layout
        self._columns = columns
        self._has_stats = "stats" in columns.names
        self._stats_columns = StatsColumns(columns.stats_paths, columns.all_stats)
        self._positions = core.positions(self._core_paths())
        self.group_rows = core.group_rows
        self._offsets = [0, *accumulate(self.group_rows)]

    def _core_paths(self) -> list[Path]:
        paths: list[Path] = [(_IN_PART.get(name, name),) for name in self._columns.names]
        if PARTITION_VALUES in self._columns.names and (
            (PARTITION_VALUES,) not in self._core.leaves or self._columns.typed_partition
        ):
            paths.append((PARTITION,))
        if not self._has_stats:
            return paths
        paths += [(NUM_RECORDS,), (TIGHT_BOUNDS,)]
        time = self._layout.time
        if time is not None and (self._stats_columns.everything or time.path in self._stats_columns.paths):
            paths += [("time_min",), ("time_max",)]
        if self._part.stats is None:
            paths += self._stats_columns.in_stats(self._layout)
        return paths

    def span(self, group: int) -> slice:
        """The positions of a row group's rows in the part."""
        return slice(self._offsets[group], self._offsets[group + 1])

    def path_range(self, group: int) -> tuple[bytes, bytes] | None:
        """The least and the greatest path of a row group; None if unknown, or if paths have other spellings."""
        if self._part.path is None:
            return None
        chunk = self._core.metadata.row_group(group).column(self._core.leaves["path",][0])
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_min_max:
            return None
        return bytes(statistics.min_raw), bytes(statistics.max_raw)

    def core(self, group: int) -> pa.RecordBatch:
        """The needed columns of the core, for one row group."""
        table = self._core.read([group], self._positions)
        core = pa.RecordBatch.from_arrays(list(map(one_array, table.columns)), schema=table.schema)
        if core.num_rows != self.group_rows[group]:
            raise CorruptIndexError(
                f"{self._part.core_name} has incomplete row groups; build the index again with `sidecar build --full`"
            )
        if core.column("path").null_count:
            raise CorruptIndexError(
                f"{self._part.core_name} has rows without a path; build the index again with `sidecar build --full`"
            )
        return core

    def sort_keys(self, group: int) -> pa.Array:
        """The sort keys of the rows of a row group, if the core has them (see `is_sort_key_in_stats`)."""
        return sort_keys_of(self._core, [group], self._layout)

    def file_keys(self, core: pa.RecordBatch) -> tuple[pa.StringArray, pa.StructArray]:
        """The file keys of rows of the core: their path and deletion vector."""
        vectors = core.column("dv") if "dv" in core.schema.names else None
        with guarded(self._part.core_name):
            path = normal(core.column("path"), "path", core.num_rows)
            return path, normal(vectors, "deletion_vector", core.num_rows)

    def listed(self, core: pa.RecordBatch, stats: pa.Table | None = None) -> pa.RecordBatch:
        """Rows of the core, and of the stats file where it was read, in the form of a listing."""
        columns = dict(zip(core.schema.names, core.columns, strict=True))
        if stats is not None:
            columns |= {name: one_array(stats.column(name)) for name in stats.column_names}
        with guarded(self._part.core_name):
            return self._rows(columns, core.num_rows)

    def _rows(self, by_name: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        names = list(self._columns.names)
        if PARTITION_VALUES in names and PARTITION_VALUES not in by_name:
            by_name[PARTITION_VALUES] = partition_map(_fields(by_name.get(PARTITION)), count)
        columns = [normal(by_name.get(_IN_PART.get(name, name)), name, count) for name in names]
        if self._columns.typed_partition and PARTITION in by_name:
            typed = _fields(by_name[PARTITION])
            if not any(array.null_count for array in typed.values()):
                names.append(TYPED_PARTITION)
                columns.append(nested({(name,): array for name, array in typed.items()}))
        if self._has_stats:
            names.append(STATS_PARSED)
            columns.append(parsed_stats(by_name, self._layout, count))
        return pa.RecordBatch.from_arrays(columns, names=names)


def sort_key_path(layout: IndexLayout) -> Path:
    """The column of a part that holds the sort key."""
    sort, time = layout.sort, layout.time
    if sort.kind == "modification_time":
        return ("modification_time",)
    if sort.kind == "partition":
        return (PARTITION, *sort.path)
    return ("time_min",) if time is not None and time.path == sort.path else ("min", *sort.path)


def has_minimum_key(layout: IndexLayout) -> bool:
    """Whether the sort key is the minimum of another column than the time column: a part with a stats file has it
    there."""
    return sort_key_path(layout)[0] == "min"


def is_sort_key_in_stats(part: PartEntry, layout: IndexLayout) -> bool:
    """Whether the sort key is in a stats file, not in the core."""
    return part.stats is not None and has_minimum_key(layout)


def sort_keys_of(file: PartFile, groups: Sequence[int], layout: IndexLayout) -> pa.Array:
    """The sort keys of the rows of some row groups, as `PartOrder` compares them; null where they are unknown."""
    path, kind = sort_key_path(layout), key_type(layout.sort)
    rows = file.read(groups, file.positions([path]))
    with guarded(file.name):
        top = one_array(rows.column(path[0])) if path[0] in rows.column_names else None
        leaf = top if top is None or len(path) == 1 else descendant(top, path[1:])
        if leaf is None:
            return key_array([None] * sum(file.group_rows[group] for group in groups), kind)
        return in_key_type(without_nan(leaf), kind)


def read_file_keys(store: Store, directory: str, part: PartEntry) -> pa.RecordBatch:
    """As `file_keys_of_part`, for builders: errors of the store are raised as they are, not as `CorruptIndexError`."""
    path = f"{directory}/{part.core_name}"
    return file_keys_of_part(PartFile.of(read_checked(store, path, part.core), path))


def file_keys_of_part(core: PartFile, groups: Sequence[int] | None = None) -> pa.RecordBatch:
    """The file keys (`path`, `deletion_vector`) of a part's rows, or of those of some row groups: what replay needs."""
    wanted = range(len(core.group_rows)) if groups is None else groups
    rows = core.read(wanted, core.positions([("path",), ("dv",)]))
    vectors = one_array(rows.column("dv")) if "dv" in rows.column_names else None
    columns = [one_array(rows.column("path")), normal(vectors, "deletion_vector", rows.num_rows)]
    return pa.RecordBatch.from_arrays(columns, names=["path", "deletion_vector"])


def _fields(struct: pa.StructArray | None) -> dict[str, pa.Array]:
    return {} if struct is None else {field.name: struct.field(i) for i, field in enumerate(struct.type)}


def parsed_stats(columns: Mapping[str, pa.Array], layout: IndexLayout, count: int) -> pa.StructArray:
    """Columns of core and stats as the one struct that a checkpoint's typed stats are."""
    leaves: dict[Path, pa.Array] = {}
    for kind, key in KINDS.items():
        if kind in columns:
            leaves |= {(key, *path): leaf for path, leaf in leaf_arrays(columns[kind], ())}
    if layout.time is not None:
        for name, kind in (("time_min", "min"), ("time_max", "max")):
            if name in columns:
                leaves[KINDS[kind], *layout.time.path] = columns[name]
    for name, key in ((NUM_RECORDS, "numRecords"), (TIGHT_BOUNDS, "tightBounds")):
        if name in columns:
            leaves[(key,)] = columns[name]
    if not leaves:
        leaves[("numRecords",)] = arrays.nulls(count, pa.int64())
    return nested(leaves)


def bounds_only(stats: pa.Table, layout: IndexLayout) -> pa.RecordBatch:
    """Rows of a stats file alone, for pruning; what only the core holds is unknown."""
    by_name = {name: one_array(stats.column(name)) for name in stats.column_names}
    texts = by_name.get(STATS_JSON)
    names = [STATS_PARSED] if texts is None else [STATS_PARSED, "stats"]
    columns = [parsed_stats(by_name, layout, stats.num_rows)] + ([] if texts is None else [texts])
    return pa.RecordBatch.from_arrays(columns, names=names)


def are_known(stats: pa.Table, paths: Sequence[Path]) -> bool:
    """Whether both bounds of some columns are known in every row."""
    trees = [one_array(stats.column(kind)) if kind in stats.column_names else None for kind in ("min", "max")]
    leaves = [None if tree is None else descendant(tree, path) for tree in trees for path in paths]
    return all(leaf is not None and not leaf.null_count for leaf in leaves)
