"""The index as a map: its parts in the order of their keys, each with its row groups.

Parts are named by their positions in the manifest, the newest first. Of more parts than a page can show, neighbours
are drawn as one column, so the size of a map does not grow with the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from delta_sidecar.errors import InputError
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.part_entries import KeyValue, PartList
from delta_sidecar.index.format.sort_keys import key_type
from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.values.types import DataType, PrimitiveType

MOST_COLUMNS: Final = 360
_SHOWN_TEXT: Final = 40
_BUCKET: Final = re.compile(r"(\d{4})(\d\d)(\d\d)?(\d\d)?(\d\d)?(\d\d)?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def index_of(snapshot: Snapshot) -> IndexBase | None:
    """The index that a version is read on; None without one, and for one whose list of parts is damaged."""
    base = snapshot.segment.base
    return base if isinstance(base, IndexBase) and base.listed_parts is not None else None


def map_of(base: IndexBase, first: int = 0, last: int | None = None, most: int = MOST_COLUMNS) -> dict[str, Any]:
    """The parts at some positions, in at most `most` columns."""
    parts, layout = base.manifest.parts, base.layout
    end = len(parts) if last is None else last + 1
    if not 0 <= first <= end <= len(parts):
        raise InputError(f"the index has {len(parts):,} parts; {first} to {end - 1} are not among them")
    step = max(1, -(-(end - first) // most))
    return {
        "content": base.content,
        "parts": len(parts),
        "row_groups": sum(parts.row_groups),
        "first": first,
        "last": end - 1,
        "key": _key_name(layout),
        "columns": [_column(parts, layout, at, min(at + step, end)) for at in range(first, end, step)],
    }


def _column(parts: PartList, layout: IndexLayout, first: int, end: int) -> list[Any]:
    """First and last part, row groups, files, bytes of the index, least and greatest key."""
    span = slice(first, end)
    size = sum(parts.core.size[span]) + sum(each for each in parts.stats.size[span] if each > 0)
    # Ordered by their greatest keys, so the last part need not have the least key: what is shown is about right.
    low, high = parts.key_min[end - 1], parts.key_max[first]
    kind = layout.sort.kind, key_type(layout.sort)
    return [
        first,
        end - 1,
        sum(parts.row_groups[span]),
        sum(parts.rows[span]),
        size,
        *(_shown(value, *kind, in_buckets=layout.granularity is not None) for value in (low, high)),
    ]


def positions_of(base: IndexBase, groups: Mapping[str, tuple[int, ...]]) -> list[list[Any]]:
    """Row groups by the names of parts, as row groups by the positions of parts."""
    parts = base.manifest.parts
    named = {part.id: at for at, part in enumerate(parts)} if groups else {}
    return [[at, list(groups[name])] for name, at in sorted(named.items(), key=lambda item: item[1]) if name in groups]


def examples(snapshot: Snapshot, base: IndexBase | None) -> list[str]:
    """Predicates that make sense on this table: its newest key, its newest hour."""
    if base is None or not len(base.manifest.parts):
        return []
    layout, parts = base.layout, base.manifest.parts
    names = {(field.physical_name,): field.name for field in snapshot.schema}
    made: list[str] = []
    newest = max((value for value in parts.time_max if isinstance(value, int)), default=None)
    if layout.time is not None and layout.time.path in names and newest is not None:
        made.append(f"{_quoted(names[layout.time.path])} >= '{_hour_before(newest, layout.time.type)}'")
    high = parts.key_max[0]
    if layout.sort.kind == "partition" and layout.sort.path in names and high is not None:
        literal = _literal(high, key_type(layout.sort))
        made.append(f"{_quoted(names[layout.sort.path])} = {literal}")
    return made


def _hour_before(newest: int, data_type: DataType) -> str:
    if data_type == PrimitiveType("date"):
        return _day(newest)
    instant = _instant(newest // 3_600_000_000 * 3_600_000_000)
    return instant.replace(" ", "T") + ("Z" if data_type == PrimitiveType("timestamp") else "")


def _literal(value: KeyValue, data_type: DataType) -> str:
    if data_type == PrimitiveType("date") and isinstance(value, int):
        return f"'{_day(value)}'"
    if data_type in (PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz")) and isinstance(value, int):
        return f"'{_instant(value)}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def _key_name(layout: IndexLayout) -> str:
    if layout.sort.kind == "modification_time":
        return "time of writing"
    return ".".join(layout.sort.path)


def _shown(value: KeyValue, kind: str, data_type: DataType, in_buckets: bool) -> str | None:
    """A key for people."""
    if value is None:
        return None
    if kind == "modification_time" and isinstance(value, int):
        return _instant(value * 1_000)
    if data_type == PrimitiveType("date") and isinstance(value, int):
        return _day(value)
    if data_type in (PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz")) and isinstance(value, int):
        return _instant(value)
    if in_buckets and (found := _BUCKET.fullmatch(str(value))) is not None:
        day = "-".join(filter(None, found.groups()[:3]))
        clock = [each for each in found.groups()[3:] if each is not None]
        return f"{day} {':'.join([*clock, '00'] if len(clock) == 1 else clock)}" if clock else day
    return str(value)[:_SHOWN_TEXT]


def _day(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"day {days}"


def _instant(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{micros} µs"
