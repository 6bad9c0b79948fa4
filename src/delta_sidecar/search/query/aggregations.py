"""Counts over all hits: how many, how many in each span of time, which values are most frequent.

Each split counts exactly, and the counts are added up. What would only be estimated is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import OptionError, QueryError
from delta_sidecar.flow.ordered import Ordered
from delta_sidecar.search.query.engine import ask
from delta_sidecar.search.query.expression import Everything
from delta_sidecar.search.query.prepared import PreparedSearch, SearchedSplit
from delta_sidecar.search.splits.fields import BOOLEAN, DATE, INTEGER, KEYWORD, TEXT, SplitField
from delta_sidecar.search.splits.their_splits import partition_array
from delta_sidecar.values.types import PrimitiveType, StructField, arrow_type

T = TypeVar("T")

MOST_BUCKETS: Final = 65_000
"""What the engine counts at once."""
_HELPERS: Final = 3
_MONDAY: Final = 4
"""The first Monday, in days since 1970-01-01."""
_INTERVAL: Final = re.compile(r"(\d{1,6})\s*(ms|s|m|h|d|w)", re.ASCII)
_MICROS: Final = {
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}


def count(prepared: PreparedSearch) -> int:
    """How many rows a search finds."""
    if isinstance(prepared.query, Everything) and prepared.predicate is None and prepared.of is None:
        known = [split.numRecords for split in prepared.splits]
        if all(number is not None for number in known):
            return sum(number or 0 for number in known)
    return sum(_each(prepared, _count))


def _count(searched: SearchedSplit) -> int:
    return int(searched.ask(limit=1, count=True).count) - len(searched.dead())


def histogram(prepared: PreparedSearch, interval: str) -> pa.Table:
    """How many rows fall into each span of time, in order; spans without any are left out.

    Spans are counted from 1970-01-01 UTC, those of weeks from the Monday after it.
    """
    time = prepared.time
    if time is None:
        raise QueryError("a histogram needs a time column, and these splits have none; build them with one")
    width, first = _spans(interval, time)
    spans = {"field": time.engine_name, "interval": width, "offset": first, "min_doc_count": 1}
    how = {"spans": {"histogram": spans}}

    def of_split(searched: SearchedSplit) -> Counter[int]:
        buckets = searched.aggregate(how)["spans"]["buckets"]
        found = Counter({int(bucket["key"]): int(bucket["doc_count"]) for bucket in buckets})
        dead = searched.dead()
        times = searched.opened.searcher.fast_field_values(time.engine_name, dead) if dead else []
        found.subtract((moment - first) // width * width + first for moment in times if moment is not None)
        return found

    counts: Counter[int] = Counter()
    for found in _each(prepared, of_split):
        counts.update(found)
    begins = sorted(begin for begin, number in counts.items() if number)
    kind = arrow_type(prepared.fields.columns.resolve([time.name])[0].type)
    starts = (arrays.int32s if time.kind == DATE else arrays.int64s)(begins).view(kind)
    return _counted(time.name, starts, [counts[begin] for begin in begins])


def _counted(name: str, values: pa.Array, numbers: Sequence[int]) -> pa.Table:
    return pa.Table.from_arrays([values, arrays.int64s(numbers)], names=[name, "count"])


def _spans(interval: str, time: SplitField) -> tuple[int, int]:
    """The length of spans and the begin of one, in the unit of the column."""
    found = _INTERVAL.fullmatch(str(interval).strip())
    if found is None or int(found[1]) == 0:
        raise OptionError(f"the interval {interval!r} is not understood; write 30s, 15m, 1h, 1d or 1w")
    micros = int(found[1]) * _MICROS[found[2]]
    first = _MONDAY * _MICROS["d"] if found[2] == "w" else 0
    if time.kind != DATE:
        return micros, first
    days, rest = divmod(micros, _MICROS["d"])
    if rest:
        raise OptionError(f"{time.name} has days, so the interval {interval!r} must be of whole days")
    return days, first // _MICROS["d"]


def top_terms(prepared: PreparedSearch, column: str, limit: int) -> pa.Table:
    """The most frequent values of a column among the hits, or words of a text, with how many rows have each."""
    if type(limit) is not int or limit < 1:
        raise OptionError(f"limit={limit!r}: give 1 or more")
    field = prepared.fields.find(column)
    if field is None:
        known = [one.name for one in prepared.fields.fields] + list(prepared.fields.partitions)
        raise QueryError(f"{column} is not indexed in these splits; there are {', '.join(known)}")
    if not isinstance(field, SplitField):
        return _table(column, _of_partitions(prepared, field.fields[0]), limit, field.fields[0])
    counts: Counter[Any] = Counter()
    for found in _each(prepared, _counter(prepared, field)):
        counts.update(found)
    return _table(field.name, counts, limit, prepared.fields.columns.resolve([field.name])[0])


def _counter(prepared: PreparedSearch, field: SplitField) -> Callable[[SearchedSplit], dict[Any, int]]:
    if field.kind in (KEYWORD, INTEGER, BOOLEAN) and field.fast:
        return lambda searched: _of_column(searched, field)
    if field.kind in (KEYWORD, TEXT):
        is_all = isinstance(prepared.query, Everything) and prepared.predicate is None and prepared.of is None
        return lambda searched: _of_dictionary(searched, field, is_all)
    raise QueryError(f"{field.name} is {field.type}; frequent values are counted of texts, whole numbers and booleans")


def _of_column(searched: SearchedSplit, field: SplitField) -> dict[Any, int]:
    found = searched.aggregate({"values": {"terms": {"field": field.engine_name, "size": MOST_BUCKETS}}})["values"]
    if found["sum_other_doc_count"]:
        raise QueryError(
            f"{field.name} has more than {MOST_BUCKETS:,} different values in {searched.split.path}, too many to count "
            "exactly; narrow the search"
        )
    as_value = bool if field.kind == BOOLEAN else lambda key: key
    counts = Counter({as_value(bucket["key"]): int(bucket["doc_count"]) for bucket in found["buckets"]})
    counts.subtract(value for value in _of_dead(searched, field) if value is not None)
    return counts


def _of_dead(searched: SearchedSplit, field: SplitField) -> list[Any]:
    """The values of hits that are deleted rows."""
    dead, searcher = searched.dead(), searched.opened.searcher
    if not dead:
        return []
    if field.kind == KEYWORD:
        return [next(iter(searcher.doc(one).to_dict().get(field.engine_name) or ()), None) for one in dead]
    if field.kind == TEXT:
        raise QueryError(
            f"the words of {field.name} are not counted where the table has deleted rows that match; compact it first"
        )
    return list(searcher.fast_field_values(field.engine_name, dead))


def _of_dictionary(searched: SearchedSplit, field: SplitField, is_all: bool) -> dict[Any, int]:
    only = None if is_all else searched.query
    search = searched.opened.searcher.terms_with_prefix
    counts = Counter(dict(ask(lambda: search(field.engine_name, "", only), searched.split.path)))
    counts.subtract(value for value in _of_dead(searched, field) if value is not None)
    return counts


def _of_partitions(prepared: PreparedSearch, column: StructField) -> Counter[Any]:
    counts: Counter[Any] = Counter()

    def of_split(searched: SearchedSplit) -> tuple[Any, int]:
        value = partition_array(searched.split, column, 1)[0].as_py()
        return value, _count(searched)

    for value, number in _each(prepared, of_split):
        if value is not None:
            counts[value] += number
    return counts


def _table(name: str, counts: Counter[Any], limit: int, column: StructField) -> pa.Table:
    """The most frequent first; those of one frequency by value."""
    kept = sorted(((value, number) for value, number in counts.items() if number), key=lambda pair: (-pair[1], pair[0]))
    found = [value for value, _ in kept[:limit]]
    is_text = isinstance(column.type, PrimitiveType) and column.type.name == "string"
    values = arrays.strings(found) if is_text else pa.array(found, arrow_type(column.type))
    return _counted(name, values, [number for _, number in kept[:limit]])


def _each(prepared: PreparedSearch, ask_split: Callable[[SearchedSplit], T]) -> Iterator[T]:
    """What each split answers, a few at a time."""
    tasks = ((lambda split=split: ask_split(prepared.open(split))) for split in prepared.splits)
    yield from Ordered(tasks, min(_HELPERS, max(0, len(prepared.splits) - 1)))
