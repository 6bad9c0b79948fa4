"""Extend an older index: replay the tail, rewrite the parts that lost a row, and reuse all others.

If a partition column became a double out of a float, all parts are rewritten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.index.build.build_job import Build, PartSink
from delta_sidecar.index.build.full import write_sorted
from delta_sidecar.index.build.live import SHORTEST_ADD, Tail, hidden_by, tail_after
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.manifest import layout_of
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.sort_keys import in_order
from delta_sidecar.index.read.manifests import FoundManifest
from delta_sidecar.index.read.part_rows import read_file_keys
from delta_sidecar.index.read.whole_part import completed, read_part
from delta_sidecar.index.stats.index_rows import conformed, index_rows
from delta_sidecar.texts import counted
from delta_sidecar.values.types import PrimitiveType


class TooMuchChanged(Exception):
    """Too much changed to extend the index; it is rebuilt."""


def extended(build: Build, base: FoundManifest) -> list[PartEntry]:
    """The parts of an older index without the rows that the tail hides, and parts of the tail's own rows."""
    tail = tail_after(build.snapshot, base.manifest.version)
    limits = build.options.limits
    if tail.size > limits.tail_bytes:
        raise TooMuchChanged(f"{tail.size >> 20} MB of commits since version {base.manifest.version}")
    try:
        if base.manifest.files + tail.size // SHORTEST_ADD <= limits.single_rows:
            new = [index_rows(batch, build.layout) for batch in tail.rows()]
            return write_sorted(build, [*new, *_unhidden_rows(build, base, tail)])
        return _compacted(build, _parts(build, base, tail))
    except pa.ArrowTypeError as error:
        # Of a column that the schema has, all rows are of one type.
        raise TooMuchChanged(f"its parts hold a column that was dropped in several types ({error})") from None


def _unhidden_rows(build: Build, base: FoundManifest, tail: Tail) -> Iterator[pa.Table]:
    """The rows of a small index that the tail does not hide."""
    for part in base.manifest.parts:
        flags = hidden_by(tail, read_file_keys(build.store, base.directory, part))
        rows = _rows_of(build, base.directory, part)
        yield rows if flags is None else rows.filter(arrays.booleans(~flags))


def _parts(build: Build, base: FoundManifest, tail: Tail) -> list[PartEntry]:
    added = PartSink(build)
    for batch in tail.rows():
        added.add(index_rows(batch, build.layout))
    new = added.close()
    build.progress(f"{counted(sum(p.rows for p in new), 'file')} added since version {base.manifest.version}")
    kept, loose = _unhidden(build, base, tail)
    return [*kept, *loose, *new]


def _unhidden(build: Build, base: FoundManifest, tail: Tail) -> tuple[list[PartEntry], list[PartEntry]]:
    """Parts that are reused, and parts that are rewritten because some rows are hidden, or all are read otherwise."""
    keys = sorted(tail.keys)
    retyped = _reads_otherwise(layout_of(base.manifest), build.layout)
    kept: list[PartEntry] = []
    sink = PartSink(build)
    for part in base.manifest.parts:
        flags = hidden_by(tail, read_file_keys(build.store, base.directory, part)) if _may_hold(part, keys) else None
        if flags is None and not retyped:
            kept.append(part)
            continue
        rows = _rows_of(build, base.directory, part)
        sink.add(rows if flags is None else rows.filter(arrays.booleans(~flags)))
        if sink.rows >= build.options.limits.small_rows:
            sink.flush()
    return kept, sink.close()


def _reads_otherwise(then: IndexLayout, now: IndexLayout) -> bool:
    """Whether texts of partition values mean other values than those the parts hold, so that none of them is reused:
    as a double, 0.1 is another number than as a float. All other wider types keep the values of the narrower."""
    were = {field.physical_name for field in then.partition if field.type == PrimitiveType("float")}
    return any(field.type == PrimitiveType("double") and field.physical_name in were for field in now.partition)


def _may_hold(part: PartEntry, keys: Sequence[bytes]) -> bool:
    """Whether any key's path lies between the part's first and last."""
    if part.path is None:
        return bool(keys)
    low, high = (text.encode("utf-8", "surrogatepass") for text in part.path)
    at = bisect_left(keys, low)
    # Both are beginnings of paths: what begins as the greatest does may be as great.
    return at < len(keys) and keys[at][: len(high)] <= high


def _rows_of(build: Build, directory: str, part: PartEntry) -> pa.Table:
    return conformed(completed(read_part(build.store, directory, part, build.layout)), build.layout)


def _compacted(build: Build, parts: list[PartEntry]) -> list[PartEntry]:
    """The parts, many small ones merged with their neighbours."""
    limits = build.options.limits
    small = [part for part in parts if part.rows < limits.small_rows]
    if len(small) <= limits.small_parts:
        return parts
    build.progress(f"merging {len(small)} small parts")
    sink = PartSink(build)
    for part in in_order(small, build.layout.sort):
        sink.add(_rows_of(build, build.directory, part))
    return [part for part in parts if part not in small] + sink.close()
