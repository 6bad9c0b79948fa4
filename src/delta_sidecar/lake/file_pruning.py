"""Which files of a table a policy leaves: conditions on partition values and on the statistics of columns.

The vectorised evaluator is the table's own listing, through the index where there is one. The plain one looks at every
file by itself; it is there to be compared with. Both keep a file unless the log proves that no row of it can match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from delta_sidecar.errors import InputError, OptionError, PredicateError
from delta_sidecar.lake.plain_pruning import PLAIN_COLUMNS, PlainFiles
from delta_sidecar.lake.snapshot_key import SnapshotKey
from delta_sidecar.predicates.binding import Binder
from delta_sidecar.predicates.condition import Any as Either
from delta_sidecar.predicates.condition import Comparison, Condition, Membership, Name, Negation, Nullness
from delta_sidecar.predicates.expression import Expression, all_of
from delta_sidecar.predicates.literals import Blank, Text
from delta_sidecar.predicates.literals import Literal as Value
from delta_sidecar.predicates.predicate_tuples import literal
from delta_sidecar.scan.file_infos import FileInfo, file_infos
from delta_sidecar.scan.one_reading import NotPickled, OneReading
from delta_sidecar.table import DeltaTable

if TYPE_CHECKING:
    from delta_sidecar.scan.file_scan import FileScan

Evaluator = Literal["vectorised", "plain"]

_EVALUATORS: Final = ("vectorised", "plain")
_PARTITION_OPERATORS: Final = ("=", "!=", "in", "not in")
_STATS_OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=")
_CASTS: Final[dict[str, Callable[[str], object]]] = {
    "long": int,
    "double": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "string": str,
}
_NUMBERS: Final = ("long", "double", "decimal")


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A condition on a partition column. Values are compared in the column's type.

    Only `None`, alone or in a list, asks for null: `!=` and `not in` skip null, as in SQL, and
    an empty string is not null.

    Args:
        column: The name of a partition column.
        op: `=`, `!=`, `in` or `not in`.
        value: A value, or a list of values for `in` and `not in`.

    Raises:
        PredicateError: There is no such operator, or the value does not fit it.

    Example:
        >>> from delta_sidecar.lake import PartitionFilter
        >>> PartitionFilter("_event_hour", "in", ["2026021021", "2026021022"])
        PartitionFilter(column='_event_hour', op='in', value=('2026021021', '2026021022'))
    """

    column: str
    op: str
    value: Any

    def __post_init__(self) -> None:
        _check(self, self.op, _PARTITION_OPERATORS)
        if self.op in ("in", "not in"):
            if isinstance(self.value, str | bytes) or not isinstance(self.value, Iterable):
                raise PredicateError(f"{self.op} on {self.column!r} takes a list of values, not {self.value!r}")
            object.__setattr__(self, "value", tuple(self.value))

    def _condition(self) -> Condition:
        name = Name((self.column,))
        if self.op in ("=", "!="):
            found: Condition = Nullness(name) if self.value is None else Comparison(name, "=", _literal(self.value))
        else:
            others = Membership(name, tuple(_literal(value) for value in self.value if value is not None))
            found = Either((Nullness(name), others)) if None in self.value else others
        return found if self.op in ("=", "in") else Negation(found)


@dataclass(frozen=True, slots=True)
class StatsFilter:
    """A condition on a data column, answered from the minimum, maximum and null count that the log has for each file.

    Bounds are compared in the column's type. A file without them is kept.

    Args:
        column: The name of a column; for a nested one, with dots.
        op: `=`, `!=`, `<`, `<=`, `>` or `>=`.
        value: The value; `= None` asks for null, `!= None` for values that are not null.
        cast: The type that a text is read as before it is compared: `long`, `double`, `decimal`, `date`, `timestamp`
            or `string`. Without it, a text is read as a value of the column's type.

    Raises:
        PredicateError: There is no such operator or cast, or the value does not fit it.

    Example:
        >>> from delta_sidecar.lake import StatsFilter
        >>> StatsFilter("id", ">", "5", cast="long")
        StatsFilter(column='id', op='>', value='5', cast='long')
    """

    column: str
    op: str
    value: Any
    cast: str | None = None

    def __post_init__(self) -> None:
        _check(self, self.op, _STATS_OPERATORS)
        if self.cast is not None and self.cast not in _CASTS:
            raise PredicateError(f"cast of {self.column!r} is {self.cast!r}; it takes one of {', '.join(_CASTS)}")
        if self.value is None and self.op not in ("=", "!="):
            raise PredicateError(f"{self.op} on {self.column!r} has no value; only = and != take None")
        self._read()

    def _read(self) -> object:
        """The value, read as the cast says."""
        if self.cast is None or self.value is None:
            return self.value
        try:
            return _CASTS[self.cast](str(self.value))
        except (ValueError, InvalidOperation):
            raise PredicateError(f"{self.value!r}, the value for {self.column!r}, is not a {self.cast}") from None

    def _condition(self) -> Condition:
        name = Name((self.column,), dotted=True)
        value = self._read()
        if value is None:
            return Nullness(name) if self.op == "=" else Negation(Nullness(name))
        return Comparison(name, self.op, _literal(value))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class FilePruningPolicy:
    """Conditions for files: a file passes if some of its rows may meet all of them.

    Args:
        partition_filters: Conditions on partition columns.
        stats_filters: Conditions on other columns.

    Raises:
        InputError: Something other than filters is given.

    Example:
        >>> from delta_sidecar.lake import FilePruningPolicy, StatsFilter
        >>> FilePruningPolicy(stats_filters=[StatsFilter("id", ">", 5)]).stats_filters[0].op
        '>'
    """

    partition_filters: Sequence[PartitionFilter] = ()
    stats_filters: Sequence[StatsFilter] = ()

    def __post_init__(self) -> None:
        kinds = {"partition_filters": PartitionFilter, "stats_filters": StatsFilter}
        for name, kind in kinds.items():
            given = tuple(getattr(self, name))
            for each in given:
                if not isinstance(each, kind):
                    raise InputError(f"{name} takes {kind.__name__} objects, not {each!r}")
            object.__setattr__(self, name, given)


class FilePruningResult(NotPickled):
    """The files that pass a policy, as a stream that can be read once: the return value of `prune_files`.

    The counts are known once it has been read to its end; before that they are None.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> from delta_sidecar.lake import FilePruningPolicy, PartitionFilter, prune_files
        >>> policy = FilePruningPolicy([PartitionFilter("_event_hour", "=", "2026021022")])
        >>> result = prune_files(DeltaTable("events"), policy)
        >>> [file.path for file in result]
        ['_event_hour=2026021022/part-0.parquet']
        >>> result.candidate_count, result.pruned_count, result.total_files
        (1, 3, 4)
    """

    def __init__(
        self, key: SnapshotKey, evaluator: Evaluator, files: Iterator[FileInfo], scan: FileScan, count: _Count
    ) -> None:
        self.key = key
        """The version that was asked."""
        self.evaluator = evaluator
        self._files = files
        self._scan = scan
        self._count = count
        self._seen = 0
        self._total: int | None = None
        self._reading = OneReading("result of pruning")

    def __iter__(self) -> FilePruningResult:
        self._reading.begin()
        return self

    def __next__(self) -> FileInfo:
        self._reading.check()
        try:
            file = next(self._files)
        except StopIteration:
            self._reading.finish()
            raise
        except BaseException:
            self._reading.fail()
            raise
        self._seen += 1
        return file

    def candidate_paths(self) -> Iterator[str]:
        """The paths of the files, as in the log, in a stream."""
        return (file.path for file in self)

    @property
    def candidate_count(self) -> int | None:
        """The number of files that pass the policy."""
        return self._seen if self._reading.is_at_end else None

    @property
    def total_files(self) -> int | None:
        """The live files of the version. If an index made it unnecessary to look at all of them, the first use of
        this lists them."""
        if self._reading.is_at_end and self._total is None:
            self._total = self._count(self._scan)
        return self._total

    @property
    def pruned_count(self) -> int | None:
        """The number of files that do not pass; it costs as much as `total_files`."""
        total = self.total_files
        return None if total is None else total - self._seen

    def close(self) -> None:
        """Stop reading; no request begins after this returns."""
        self._reading.close()
        self._scan.close()

    def __enter__(self) -> FilePruningResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_Count = Callable[["FileScan"], int]


def prune_files(table: DeltaTable, policy: FilePruningPolicy, evaluator: Evaluator = "vectorised") -> FilePruningResult:
    """The files of a table that pass a policy, those of new commits first, as a stream.

    Args:
        table: The table, at the version that is open.
        policy: The conditions.
        evaluator: `vectorised` is the table's own listing: conditions skip parts of the index and files, and a
            time bucket is used as well. `plain` looks at each file by itself, slowly; on tables without
            a time bucket it gives the same files.

    Raises:
        UnknownColumnError: There is no such column.
        PredicateError: A value does not fit its column, or a filter is of the wrong kind for it.
        InputError: `table` is not a `DeltaTable`, or `policy` is not a `FilePruningPolicy`.
        OptionError: There is no such evaluator.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> from delta_sidecar.lake import FilePruningPolicy, StatsFilter, prune_files
        >>> result = prune_files(DeltaTable("events"), FilePruningPolicy(stats_filters=[StatsFilter("id", ">=", 6)]))
        >>> list(result.candidate_paths())
        ['_event_hour=2026021023/part-0.parquet']
    """
    if not isinstance(table, DeltaTable):
        raise InputError(f"table is a {type(table).__name__}; it takes a delta_sidecar.DeltaTable")
    if not isinstance(policy, FilePruningPolicy):
        raise InputError(f"policy is a {type(policy).__name__}; it takes a FilePruningPolicy")
    if evaluator not in _EVALUATORS:
        raise OptionError(f"evaluator is {evaluator!r}; it takes one of {', '.join(_EVALUATORS)}")
    condition = _bound(table, policy)
    access, key = table._access, SnapshotKey.of(table)
    if evaluator == "plain":
        scan = access.listing(None, PLAIN_COLUMNS)
        files = PlainFiles(condition, table.settings.partition_timezone).passing(file_infos(scan))
        return FilePruningResult(key, evaluator, files, scan, _emitted)
    scan = access.listing(condition, None)
    count: _Count = _emitted if condition is None else lambda done: _live_files(table, done)
    return FilePruningResult(key, evaluator, file_infos(scan), scan, count)


def _emitted(scan: FileScan) -> int:
    return scan.metrics.files_emitted


def _live_files(table: DeltaTable, done: FileScan) -> int:
    """The live files, from what the listing looked at if that is all of them."""
    metrics = done.metrics
    if not metrics.parts_total and not metrics.row_groups_total:
        return metrics.files_considered
    with table._access.listing(None, ["path"]) as scan:
        return sum(batch.num_rows for batch in scan)


def _bound(table: DeltaTable, policy: FilePruningPolicy) -> Expression | None:
    """What the policy says of the table's columns."""
    partitions = frozenset(table.snapshot.partition_columns)
    binder = Binder(table.schema(), partitions, table.settings.partition_timezone)
    terms = [_on_partition(each, binder) for each in policy.partition_filters]
    return all_of([*terms, *(_on_stats(each, binder) for each in policy.stats_filters)])


def _on_partition(given: PartitionFilter, binder: Binder) -> Expression:
    column = binder.column(Name((given.column,)))
    if not column.is_partition:
        known = ", ".join(sorted(binder.partition_columns)) or "none"
        raise PredicateError(
            f"{given.column!r} is not a partition column (partition columns here: {known}); use a StatsFilter"
        )
    return binder.bind(given._condition())


def _on_stats(given: StatsFilter, binder: Binder) -> Expression:
    column = binder.column(Name((given.column,), dotted=True))
    if column.is_partition:
        raise PredicateError(f"{given.column!r} is a partition column and has no statistics; use a PartitionFilter")
    if given.cast in _NUMBERS and str(column.type) == "string":
        raise PredicateError(
            f"column {column} is a string: its bounds are in the order of text, not of numbers; leave out the cast"
        )
    return binder.bind(given._condition())


def _check(given: PartitionFilter | StatsFilter, op: str, known: Sequence[str]) -> None:
    kind = type(given).__name__
    if not given.column or type(given.column) is not str:
        raise PredicateError(f"the column of a {kind} is {given.column!r}; it takes a column's name")
    if op not in known:
        raise PredicateError(f"{kind} on {given.column!r} has no operator {op!r}; it has {', '.join(known)}")


def _literal(value: object) -> Value:
    """A value; the empty text is a text here, not null."""
    made = literal(value)
    return Text("") if isinstance(made, Blank) else made
